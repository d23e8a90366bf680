// Checks whether a verifier of your own is lossless, in two ways: exactly, over all outcomes, and by sampling. A right
// verifier passes here, and a wrong one fails.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token, specdec::Verdict;

// Token verification, in its usual form. `drafted` is already checked. All random decisions go through `chance`, so that the
// check can enumerate them.
struct Mine {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.ratio(i)))
        return {i, *drafted.race(chance, 1.0, i)};  // the correction token, drawn from (p − q)+
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Block verification with a mistake that has been shipped. The paper flips an independent coin for every prefix. This rule
// compares w_i with the product of the first i uniform numbers instead.
struct ProductOfUniforms {
  Verdict judge(const auto& drafted, auto& chance) const {
    // A grid of 16 uniform numbers, which can be enumerated: 1/32, 3/32, ..., 31/32. Its error is far below the mistake's.
    const Eigen::RowVectorXd sixteen = Eigen::RowVectorXd::Constant(16, 1. / 16);
    Index tau = 0;
    double w = 1, w_tau = 1, product = 1;
    for (Index i = 0; i < drafted.gamma(); ++i) {
      w = std::min(1.0, w * drafted.ratio(i));
      product *= (chance.draw(specdec::distributions(sixteen).row(0)) + 0.5) / 16;
      if (product <= w) tau = i + 1, w_tau = w;
    }
    if (tau == drafted.gamma()) return {tau, drafted.draw(chance, tau)};
    const specdec::ResidualRow residual(w_tau, drafted.target(tau), 1.0, drafted.draft(tau));
    return {tau, residual.mass() > 0 ? chance.draw(residual) : drafted.draw(chance, tau)};
  }
};

// How many of the two checks the verifier passes.
template <class Verifier>
int passes(const char* name, const Verifier& verifier, double tolerance) {
  const auto exact = specdec::testing::check_lossless(verifier, {.gammas = {2}, .tolerance = tolerance});
  std::cout << name << "\n  exact:   " << exact << "\n";

  // A verifier that cannot be enumerated is sampled instead: the joint law of four tokens, on one pair of models.
  std::mt19937_64 rng{7};
  auto target = specdec::testing::TableModel<>::random(3, 2, rng);
  specdec::ModelDrafter drafter{specdec::testing::TableModel<>::random(3, 2, rng)};
  specdec::SpecDec decoder{target, drafter, verifier};
  const std::vector<Token> prompt{0};
  const specdec::Options options{.max_new_tokens = 4, .gamma = 3};
  const auto sampled = specdec::testing::check_sampled(  // rejects a right verifier for one seed in a million
      [&] { return decoder.generate(prompt, options, rng).tokens; },
      specdec::testing::target_law(target, prompt, options), 100'000, 1e-6);
  std::cout << "  sampled: " << sampled << "\n";
  return exact.lossless + sampled.accepted;
}

int main() {
  const bool right = passes("Mine", Mine{}, 1e-12) == 2;
  const bool wrong =
      passes("ProductOfUniforms", ProductOfUniforms{}, 1. / 16) == 0;  // the tolerance allows for the grid
  return right && wrong ? 0 : 1;
}
