// must say: a generator that is an lvalue would be copied, and give its numbers twice: pass a generator of the target's own
// A rank that would draw ahead from a copy of the caller's generator.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>

struct Mine {
  specdec::Index vocab_size() const { return 8; }
  specdec::LogitColumns<specdec::NumbersOf<Eigen::MatrixXf>> forward(std::span<const specdec::Token>,
                                                                     specdec::Index);
  void truncate(specdec::Index);
};

struct Ranks {
  specdec::Index rank() const;
  specdec::Index size() const;
  void all_gather(std::span<const double> mine, std::span<double> all);
};

void use(Mine& model, Ranks& ranks, [[maybe_unused]] std::mt19937_64& rng) {
#ifdef FIXED
  specdec::ShardedModel target{model, ranks, std::mt19937_64{42}};
#else
  specdec::ShardedModel target{model, ranks, rng};
#endif
  target.truncate(0);
}
