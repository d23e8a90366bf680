// Tokens for a model that does not know all of them.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// The tokens as a model of this vocabulary can take them, ids beyond it as token 0: themselves where there are
/// none, else in `replaced`.
inline std::span<const Token> known_tokens(std::span<const Token> tokens, Index vocab_size,
                                           std::vector<Token>& replaced) {
  const auto foreign = [vocab_size](Token x) { return x >= vocab_size; };
  if (std::none_of(tokens.begin(), tokens.end(), foreign)) return tokens;
  replaced.assign(tokens.begin(), tokens.end());
  std::replace_if(replaced.begin(), replaced.end(), foreign, Token{0});
  return replaced;
}

}  // namespace specdec::detail
