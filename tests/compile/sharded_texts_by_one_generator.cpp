// must say: of a model for many texts each draws ahead by a generator of its own
// Texts that draw by one generator would depend on one another.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>

struct Many {
  specdec::Index vocab_size() const { return 8; }
  specdec::LogitColumns<specdec::NumbersOf<Eigen::MatrixXf>> forward(std::span<const specdec::BatchFeed>);
  void keep(specdec::Index, specdec::Index);
  void release(specdec::Index);
};

struct Ranks {
  specdec::Index rank() const;
  specdec::Index size() const;
  void all_gather(std::span<const double> mine, std::span<double> all);
};

#ifdef FIXED
auto source() {
  return [](specdec::Index) { return std::mt19937_64{42}; };
}
#else
auto source() { return std::mt19937_64{42}; }
#endif

void use(Many& model, Ranks& ranks) { specdec::ShardedModel target{model, ranks, source()}; }
