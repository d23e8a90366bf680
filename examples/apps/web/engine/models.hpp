// The shipped pair of models and their tokenizer.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>

#include "generate/sampled.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace web {

using Transformer = transformer::Transformer<float>;
using SampledModel = decltype(generate::sampled(std::declval<Transformer&>(), 1.0));

struct Models {
  Transformer target, draft;
  transformer::Tokenizer tokenizer;

  /// Reads the three files of a folder.
  explicit Models(const std::string& folder)
      : target(folder + "/target.bin"),
        draft(folder + "/draft.bin"),
        tokenizer(folder + "/tokenizer.bin", target.vocab_size()) {}
};

}  // namespace web
