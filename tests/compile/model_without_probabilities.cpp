// must say: the model's forward() returns no rows of probabilities
// A model whose forward() returns a list of numbers, which is no matrix of distributions.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

struct Target {
#ifdef FIXED
  using Rows = Eigen::MatrixXd;
#else
  using Rows = std::vector<double>;
#endif
  specdec::Index vocab_size() const { return 2; }
  Rows forward(std::span<const specdec::Token>, specdec::Index) { return Rows(); }
  void truncate(specdec::Index) {}
};

specdec::Result use(Target& target, const std::vector<specdec::Token>& prompt, std::mt19937_64& rng) {
  return specdec::autoregressive(target, prompt, {}, rng);
}
