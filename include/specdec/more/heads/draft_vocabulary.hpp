// Heads and layers that draft only some of the target's tokens, such as those of EAGLE-3.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <limits>

#include "specdec/error.hpp"
#include "specdec/more/rows/mapped.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The map from the tokens of a head's rows to the target's; null if its rows are over the whole vocabulary.
template <class Head>
const TokenMap* token_map_of([[maybe_unused]] const Head& head) {
  if constexpr (requires { head.token_map(); }) return head.token_map();
  else return nullptr;
}

/// The number of tokens that a head takes in.
template <class Head>
Index token_count(const Head& head) {
  const TokenMap* const map = token_map_of(head);
  return map == nullptr ? head.vocab_size() : map->vocab_size();
}

/// Throws: InvalidArgument if the map is for rows of another size.
template <class Head>
void check_token_map(const Head& head) {
  const TokenMap* const map = token_map_of(head);
  if (map != nullptr && map->draft_vocab_size() != head.vocab_size())
    invalid_argument("token_map() has ", map->draft_vocab_size(),
                     " draft tokens, expected vocab_size() = ", head.vocab_size());
}

/// Copies rows of a head's logits. The other tokens of the target get −∞.
template <class Logits, class Rows>
void copy_logits(const TokenMap* map, const Logits& logits, Rows&& rows) {
  if (map == nullptr) {
    rows = logits;
    return;
  }
  rows.setConstant(-std::numeric_limits<typename Logits::Scalar>::infinity());
  for (Index i = 0; i < logits.rows(); ++i)
    for (Index d = 0; d < logits.cols(); ++d)
      if (const Token x = map->to(static_cast<Token>(d)); x != TokenMap::none) rows(i, x) = logits(i, d);
}

}  // namespace specdec::detail
