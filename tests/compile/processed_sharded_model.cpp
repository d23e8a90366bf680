// must say: processors come before it
// Over ranks tokens are drawn ahead from the rows, so what changes them comes before.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/more/ranks.hpp>
#include <specdec/more/samplers/penalties.hpp>
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

void use(Mine& model, Ranks& ranks) {
  const specdec::Chain chain{specdec::TopK{2}};
  const specdec::RepetitionPenalty penalty{1.1};
#ifdef FIXED
  specdec::ShardedModel target{specdec::ProcessedModel{model, penalty}, ranks, std::mt19937_64{42}, chain};
#else
  specdec::ProcessedModel target{specdec::ShardedModel{model, ranks, std::mt19937_64{42}}, chain, penalty};
#endif
  target.truncate(0);
}
