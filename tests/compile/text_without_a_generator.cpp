// must say: the generator is missing: pass one after the options, such as std::mt19937_64{seed}
// Each text of a batch has a generator of its own.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::ModelPerSequence<specdec::testing::TableModel<>>& target) {
  specdec::Batch batch{target, specdec::NoDrafter{}};
#ifdef FIXED
  batch.add(std::vector<specdec::Token>{0}, {}, std::mt19937_64{1});
#else
  batch.add(std::vector<specdec::Token>{0}, {});
#endif
}
