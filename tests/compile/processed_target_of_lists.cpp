// must say: a specdec::ProcessedModel is handed logits
// Rows that are no numbers, for a target whose rows are processed.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

void use([[maybe_unused]] std::vector<specdec::SparseRow<float>>& lists,
         [[maybe_unused]] Eigen::MatrixXf& logits, std::mt19937_64& rng) {
  specdec::SpecDec decoder{
      specdec::ProcessedModel{specdec::ExternalTarget{.vocabulary = 2}, specdec::Chain{specdec::TopK{2}}},
      specdec::NoDrafter{}};
  auto sequence = decoder.start(std::vector<specdec::Token>{0}, {});
#ifdef FIXED
  sequence.accept(logits, rng);
#else
  sequence.accept(specdec::RowSpan{lists, 2}, rng);
#endif
}
