// must say: ProcessedModel
// Rows of a draft model that are no matrix.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

struct Small {
  std::vector<std::vector<float>> rows;
  specdec::Index vocab_size() const { return 2; }
#ifdef FIXED
  specdec::RowVectors<std::vector<float>> forward(std::span<const specdec::Token>, specdec::Index) {
    return specdec::RowVectors{rows};
  }
#else
  const std::vector<std::vector<float>>& forward(std::span<const specdec::Token>, specdec::Index) {
    return rows;
  }
#endif
  void truncate(specdec::Index) {}
};

void use(Small& small) { specdec::ModelDrafter drafter{small}; }
