// must say: over ranks the chain is an argument of specdec::ShardedModel
// The cut of a row is found by all ranks together.
// SPDX-License-Identifier: MIT
#include <specdec/more/ranks.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/specdec.hpp>

struct Mine {
  specdec::Index vocab_size() const { return 8; }
  specdec::LogitColumns<specdec::NumbersOf<Eigen::MatrixXf>> forward(std::span<const specdec::Token>,
                                                                     specdec::Index);
  void truncate(specdec::Index);
};

void use(Mine& model) {
  const specdec::RepetitionPenalty penalty{1.1};
#ifdef FIXED
  specdec::ProcessedModel target{model, penalty};
#else
  specdec::ProcessedModel target{model, specdec::Chain{specdec::TopK{2}}, penalty};
#endif
  target.truncate(0);
}
