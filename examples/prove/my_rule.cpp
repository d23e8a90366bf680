// Writes a verification rule, calls it by hand, and proves that it is lossless.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

// Token verification, in its usual form.
struct Mine {
  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    for (specdec::Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i)))
        return {i, *drafted.race(chance, 1.0, i)};  // the correction token, drawn from (p − q)+
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

int main() {
  Eigen::MatrixXf target(2, 3), draft(1, 3);
  target << 0.5f, 0.3f, 0.2f,  //
      0.1f, 0.1f, 0.8f;
  draft << 0.2f, 0.5f, 0.3f;
  const std::vector<specdec::Token> tokens{1};
  std::mt19937_64 rng{42};

  const specdec::Verdict verdict = specdec::verify(Mine{}, target, draft, tokens, rng);
  std::cout << verdict.accepted << " of 1 accepted, then token " << verdict.token << "\n";

  const specdec::testing::LosslessReport report = specdec::testing::check_lossless(Mine{}, {.gammas = {2}});
  std::cout << report << "\n";
  return report.lossless ? 0 : 1;
}
