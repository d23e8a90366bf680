// Mistakes that engines have made, in the texts of the shipped pair of transformers: after how many tokens does a TextAudit,
// which reads the text with both models, convict each?
//
//   convictions                 texts of 400 tokens, 10000 tokens for each mistake: minutes
//   convictions 300             300 tokens for each
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "mistakes/engines.hpp"
#include "mistakes/rows.hpp"
#include "mistakes/running_text.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using mistakes::Row, specdec::Index, specdec::Token;
using Transformer = transformer::Transformer<float>;

// The rows of a model at temperature 1. It keeps those of the text that it has read last, and reads only what is new.
class Reader {
 public:
  explicit Reader(const std::string& weights)
      : model_(weights), rows_(model_.context_size(), model_.vocab_size()) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return model_.context_size(); }

  // The row after a text that is not empty.
  Row after(const std::vector<Token>& text) {
    const auto known = std::ranges::mismatch(text_, text).in2 - text.begin();
    if (known < std::ssize(text)) {
      const auto added = std::span(text).subspan(static_cast<std::size_t>(known));
      model_.truncate(known);
      const auto& logits = model_.forward(added, std::ssize(added));
      for (Index i = 0; i < std::ssize(added); ++i) {
        const Row weights = (logits.row(i).template cast<double>().array() - logits.row(i).maxCoeff()).exp();
        rows_.row(known + i) = weights / weights.sum();
      }
      text_ = text;
    }
    return rows_.row(std::ssize(text) - 1);
  }

 private:
  Transformer model_;
  std::vector<Token> text_ = {};
  mistakes::Matrix rows_;
};

int main(int argc, char** argv) {
  const Index most = argc > 1 ? std::stoi(argv[1]) : 10'000;
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Reader target(weights + "target.bin"), draft(weights + "draft.bin");
  const mistakes::TextModels models{.target = [&](const auto& text) { return target.after(text); },
                                    .draft = [&](const auto& text) { return draft.after(text); },
                                    .vocab_size = target.vocab_size(),
                                    .opening = {transformer::Tokenizer::begin_of_text},
                                    .longest = 400,
                                    .p_min = 0.3};
  std::cout << "mistake                                     tokens\n" << std::left;
  for (const auto& [mistake, engine] : mistakes::engines_with_mistakes(models)) {
    const Index tokens = mistakes::RunningText(models, engine).tokens_until_conviction(most);
    std::cout << std::setw(44) << mistake << (tokens > 0 ? std::to_string(tokens) : "never") << std::endl;
  }
}
