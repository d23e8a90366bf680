// must say: TextProcessor
// A processor of logits of double, for a model whose logits are of float.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters/forced_tokens.hpp>
#include <specdec/specdec.hpp>

struct Processor {
#ifdef FIXED
  void apply(Eigen::Ref<Eigen::RowVectorXf>) {}
#else
  void apply(Eigen::Ref<Eigen::RowVectorXd>) {}
#endif
  void push(specdec::Token) {}
  void pop(specdec::Index) {}
};

void use() { specdec::ForcedTokens drafter{Processor{}, 2}; }
