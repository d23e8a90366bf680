// Tokens for a model that does not know them all.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The tokens, with token 0 in place of each id outside the vocabulary, for a model with a smaller vocabulary. This costs
/// acceptance, never exactness. Returns `tokens` itself if all ids are inside, else a copy that lies in `replaced`.
inline std::span<const Token> tokens_in_vocabulary(std::span<const Token> tokens, Index vocab_size,
                                                   std::vector<Token>& replaced) {
  Token largest = 0;
  for (const Token x : tokens) largest = std::max(largest, x);
  if (largest < vocab_size) return tokens;
  replaced.clear();
  for (const Token x : tokens) replaced.push_back(x < vocab_size ? x : 0);
  return view_of(replaced);
}

}  // namespace specdec::detail
