// must say: a text is no list of token ids: pass the ids that your tokenizer returns for it
// A sequence that is to begin with a text that no tokenizer has read.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string_view>
#include <vector>

#ifdef FIXED
using Prompt = std::vector<specdec::Token>;
#else
using Prompt = std::string_view;
#endif

void use(specdec::testing::TableModel<>& target, const Prompt& prompt) {
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
  auto sequence = decoder.start(prompt, {.gamma = 2});
  sequence.cancel();
}
