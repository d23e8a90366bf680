// must say: the target's rows are no matrix of probabilities
// A rule that is called by hand says what it wants of rows, as the library's verifiers do.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

struct Mine {
  specdec::Verdict judge(const auto& drafted, auto& chance) const { return {0, drafted.draw(chance, 0)}; }
};

specdec::Verdict use(const std::vector<double>& target, const Eigen::MatrixXd& draft,
                     const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
#ifdef FIXED
  const std::vector<std::vector<double>> rows(tokens.size() + 1, target);
  return specdec::verify(Mine{}, specdec::RowVectors{rows}, draft, tokens, rng);
#else
  return specdec::verify(Mine{}, target, draft, tokens, rng);
#endif
}
