// must say: a text is no list of token ids: pass the ids that your tokenizer returns for it
// A text in quotes as the prompt of a batch.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::ModelPerSequence<specdec::testing::TableModel<>>& target) {
  specdec::Batch batch{target, specdec::NoDrafter{}};
#ifdef FIXED
  batch.add(std::vector<specdec::Token>{0}, {.gamma = 2}, std::mt19937_64{42});
#else
  batch.add("Call me", {.gamma = 2}, std::mt19937_64{42});
#endif
}
