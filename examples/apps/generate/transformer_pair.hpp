// Two transformers, read from llama2.c checkpoints. They are compiled apart from the rest of the program, at the same time.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <string>

#include "generate/pair.hpp"

namespace generate {

/// The files of heads on the target's hidden states. A head without a file is left out.
struct HeadFiles {
  std::optional<std::string> speculator, eagle, medusa;
};

/// The files of a pair, and how they are read.
struct TransformerFiles {
  std::string target, draft, tokenizer;
  std::optional<Index> target_layers = {};  ///< the layers of a deepened target: transformer/deepened.hpp
  bool half = false;                        ///< keeps all weights in half precision
  HeadFiles heads = {};                     ///< which heads the pair has
  std::string other = {}, other_tokenizer = {};  ///< of Pair::other, if it is wanted
};

/// Reads the files.
/// Throws: std::runtime_error on a bad file; std::invalid_argument if the vocabularies differ, if target_layers is less than
/// the layers of the target, or if a head does not fit the target.
Pair transformer_pair(const TransformerFiles& files);

}  // namespace generate
