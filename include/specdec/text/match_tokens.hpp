// Which tokens two vocabularies have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "specdec/rows/kinds/mapped.hpp"
#include "specdec/types.hpp"

namespace specdec {

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
  std::unordered_map<std::string, Token> targets;
  for (Index x = 0; x < target_vocab_size; ++x) {
    const auto& bytes = target_bytes(static_cast<Token>(x));
    targets.try_emplace(std::string(std::string_view(bytes)), static_cast<Token>(x));
  }
  std::vector<Token> matched(static_cast<std::size_t>(std::max<Index>(draft_vocab_size, 0)), TokenMap::none);
  for (std::size_t d = 0; d < matched.size(); ++d) {
    const auto& bytes = draft_bytes(static_cast<Token>(d));
    const std::string_view piece = bytes;
    const auto found = piece.empty() ? targets.end() : targets.find(std::string(piece));
    if (found == targets.end()) continue;
    matched[d] = found->second;
    targets.erase(found);  // a later draft token of equal bytes finds nothing
  }
  return matched;
}

}  // namespace specdec
