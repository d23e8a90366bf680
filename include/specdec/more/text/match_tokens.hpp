// Which tokens two vocabularies have in common.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "specdec/more/rows/mapped.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Returns, for each token of a draft vocabulary, the target's token with equal bytes, or TokenMap::none if there is none.
/// A TokenMap is made from this list. First pair by hand the tokens that are no text, for example the end of text.
///
///   auto targets = match_tokens(draft.vocab_size(), draft_bytes, target.vocab_size(), target_bytes);
///   targets[draft_end] = target_end;
///   const TokenMap map{targets, target.vocab_size()};
///
/// draft_bytes(token) and target_bytes(token) return something that converts to std::string_view. A token without bytes
/// matches nothing. If several tokens of one vocabulary have equal bytes, the lowest id counts.
/// Cost: O(bytes) of both vocabularies, in a hash table.
template <class DraftBytes, class TargetBytes>
std::vector<Token> match_tokens(Index draft_vocab_size, const DraftBytes& draft_bytes,
                                Index target_vocab_size, const TargetBytes& target_bytes) {
  const auto size = [](Index tokens) { return static_cast<std::size_t>(std::max<Index>(tokens, 0)); };
  constexpr Token empty = -1, taken = -2;
  std::vector<Token> table(std::bit_ceil(2 * size(target_vocab_size) + 1), empty);
  // The slot of the target's token with these bytes, or an empty slot for it.
  const auto slot_of = [&](const std::string& piece) -> Token& {
    for (std::size_t at = std::hash<std::string>()(piece);; ++at) {
      Token& slot = table[at & (table.size() - 1)];
      if (slot == empty) return slot;
      if (slot == taken) continue;
      const auto& bytes = target_bytes(slot);
      if (std::string_view(bytes) == piece) return slot;
    }
  };

  std::string piece;  // a copy: the bytes may die when a tokenizer is called again
  for (Index x = 0; x < target_vocab_size; ++x) {
    const auto& bytes = target_bytes(static_cast<Token>(x));
    piece = std::string_view(bytes);
    if (Token& slot = slot_of(piece); slot == empty) slot = static_cast<Token>(x);
  }
  std::vector<Token> matched(size(draft_vocab_size), TokenMap::none);
  for (std::size_t d = 0; d < matched.size(); ++d) {
    const auto& bytes = draft_bytes(static_cast<Token>(d));
    piece = std::string_view(bytes);
    if (piece.empty()) continue;
    Token& slot = slot_of(piece);
    if (slot == empty) continue;
    matched[d] = slot;
    slot = taken;  // a later draft token of equal bytes finds nothing
  }
  return matched;
}

}  // namespace specdec
