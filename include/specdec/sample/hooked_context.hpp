// The tokens that a model was fed, kept for a hook that sees the context.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>

#include "specdec/lists.hpp"
#include "specdec/model/fed_text.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A Text of FedTexts that shows a hook all tokens before a row.
class HookedContext : public FedText {
 public:
  /// All tokens before the i-th of the last `rows` rows. They live until the next call.
  std::span<const Token> before(Index i, Index rows) & {
    if (tree().empty()) return first(tokens(), length() - rows + 1 + i);
    return up_to(tree().size() - rows + i);
  }
};

}  // namespace specdec::detail
