// must say: a number is no generator of random numbers
// A seed in the place of the generator of a text.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::ModelPerSequence<specdec::testing::TableModel<>>& target) {
  specdec::Batch batch{target, specdec::NoDrafter{}};
#ifdef FIXED
  batch.add(std::vector<specdec::Token>{0}, {}, std::mt19937_64{42});
#else
  batch.add(std::vector<specdec::Token>{0}, {}, 42);
#endif
}
