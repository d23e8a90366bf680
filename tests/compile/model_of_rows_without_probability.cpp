// must say: the rows of the matrix are no specdec::Distribution
// A model whose rows are of a kind of its own, which is no distribution.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Row {
  specdec::Index vocab_size() const { return 2; }
#ifdef FIXED
  double probability(specdec::Token) const { return 0.5; }
#endif
  auto sampler() const {
    return [](double u) { return static_cast<specdec::Token>(2 * u); };
  }
};

struct Rows {
  specdec::Index rows() const { return 1; }
  specdec::Index vocab_size() const { return 2; }
  Row row(specdec::Index) const { return {}; }
};

struct Target {
  specdec::Index vocab_size() const { return 2; }
  Rows forward(std::span<const specdec::Token>, specdec::Index) { return {}; }
  void truncate(specdec::Index) {}
};

void use(Target& target) { specdec::SpecDec decoder{target, specdec::NoDrafter{}}; }
