// must say: this draft length counts the texts that it serves
// A draft length that goes by how many sequences there are, copied for each of them.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

using Many = specdec::ModelPerSequence<specdec::testing::TableModel<>>;

struct Length : specdec::FixedLength {
  void batch(specdec::Index) {}
};

void use(Many& target, Many& small, Length& length) {
#ifdef FIXED
  specdec::Batch batch{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}, length};
#else
  specdec::Batch batch{target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}, specdec::each(length)};
#endif
  batch.run();
}
