// must say: the processor is no specdec::TextProcessor
// A drafter has to take back what it has tried.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters/forced_tokens.hpp>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/specdec.hpp>

struct Processor {
  void apply(Eigen::Ref<Eigen::RowVectorXf>) {}
  void push(specdec::Token) {}
#ifdef FIXED
  void pop(specdec::Index) {}
#endif
};

void use() { specdec::ForcedTokens drafter{specdec::AfterPrompt{1, Processor{}}, 2}; }
