// must say: the rows of the matrix are no specdec::Distribution
// Rows that know their probabilities, but cannot be drawn from.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

struct Row {
  specdec::Index vocab_size() const { return 2; }
  double probability(specdec::Token) const { return 0.5; }
  specdec::Token argmax() const { return 0; }
#ifdef FIXED
  auto sampler() const {
    return [](double u) { return static_cast<specdec::Token>(2 * u); };
  }
#endif
};

struct Rows {
  specdec::Index rows() const { return 1; }
  specdec::Index vocab_size() const { return 2; }
  Row row(specdec::Index) const { return {}; }
};

specdec::Verdict use(const std::vector<specdec::Token>& tokens, std::mt19937_64& rng) {
  specdec::SampleMatchVerifier verifier;
  return verifier(Rows{}, tokens, rng);
}
