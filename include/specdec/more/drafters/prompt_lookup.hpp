// Drafts without a model: finds an earlier occurrence of the last tokens, and proposes the tokens that followed it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/drafters/ngram_ends.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Prompt lookup: searches the context for its own last n tokens and proposes the tokens that followed them. It takes the
/// largest n <= max_ngram with an earlier occurrence, and the latest of its occurrences. If no n >= min_ngram has one, it
/// proposes nothing. For longer matches use SuffixDrafter: its memory does not grow with the length of the match.
///
/// Source: Saxena, "Prompt Lookup Decoding" (2023), https://github.com/apoorvumang/prompt-lookup-decoding. Deviation: the
/// source takes the first occurrence; the latest follows a text that drifts.
/// Random: none. The proposal is deterministic, so its rows are one-hot.
/// Throws: InvalidArgument unless 1 <= min_ngram <= max_ngram <= 512.
/// Cost: each context token is indexed once, in one hash table for each n; a proposal takes a look-up in each table.
/// Memory: 16 to 64 bytes for each token and n.
class PromptLookupDrafter {
 public:
  struct Options {
    Index max_ngram = 3;
    Index min_ngram = 1;
  };

  /// The limit of max_ngram, as each n needs a table as long as the context.
  static constexpr Index longest_ngram = detail::NgramEnds::longest_ngram;

  PromptLookupDrafter() : PromptLookupDrafter(Options{}) {}

  explicit PromptLookupDrafter(const Options& options) : ends_(options.min_ngram, options.max_ngram) {}

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    index(context);
    tokens_.clear();
    if (const Index end = match(context); end != 0) {
      const auto followed = context.subspan(static_cast<std::size_t>(end));
      const auto count = std::min(followed.size(), static_cast<std::size_t>(std::max<Index>(gamma, 0)));
      detail::append(tokens_, followed.first(count));
    }
    return detail::chosen(tokens_);
  }

  void truncate(Index length) {
    if (length >= indexed_) return;
    ends_.clear();
    indexed_ = 0;
  }

 private:
  // Enters only n-grams with a token after them in the context: that token is the proposal.
  void index(std::span<const Token> context) {
    if (ends_.make_room(context.size())) indexed_ = 0;
    for (; indexed_ < std::ssize(context); ++indexed_)
      for (Index n = ends_.min_ngram(); n <= std::min(ends_.max_ngram(), indexed_); ++n)
        ends_.latest(context, indexed_, n) = indexed_;
  }

  // Where the latest earlier occurrence of the context's last n tokens ends, for the largest n that has one; 0: none has.
  Index match(std::span<const Token> context) {
    const Index size = std::ssize(context);
    for (Index n = std::min(ends_.max_ngram(), size - 1); n >= ends_.min_ngram(); --n)
      if (const Index end = ends_.latest(context, size, n); end != 0) return end;
    return 0;
  }

  detail::NgramEnds ends_;
  Index indexed_ = 0;  // n-grams that end before this position have been entered
  std::vector<Token> tokens_;
};

}  // namespace specdec
