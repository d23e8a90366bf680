// Drafts without a model: finds an earlier occurrence of the last tokens, and proposes the tokens that followed it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// For each n-gram of a text, n = min_ngram..max_ngram, stores where its last entered occurrence ends. The n-grams are not
/// copied: every call is given the text again.
/// Pre: this text begins with all tokens of the n-grams entered.
/// Throws: InvalidArgument unless 1 <= min_ngram <= max_ngram <= 512.
/// Cost: expected O(n) for each call. No allocation except in make_room().
/// Memory: 16 to 64 bytes for each token and n.
class NgramEnds {
 public:
  /// The limit of max_ngram, as each n needs a table as long as the text.
  static constexpr Index longest_ngram = 512;

  NgramEnds(Index min_ngram, Index max_ngram) : min_ngram_(min_ngram), max_ngram_(max_ngram) {
    if (min_ngram < 1 || max_ngram < min_ngram || max_ngram > longest_ngram)
      invalid_argument("prompt lookup needs 1 <= min_ngram <= max_ngram <= ", longest_ngram,
                       ", not min_ngram = ", min_ngram, ", max_ngram = ", max_ngram);
  }

  Index min_ngram() const { return min_ngram_; }
  Index max_ngram() const { return max_ngram_; }

  /// Makes room for all n-grams of a text of `length` tokens. Returns whether this has removed all entries.
  bool make_room(std::size_t length) {
    if (slots_ >= 2 * length) return false;
    const std::size_t places = std::bit_ceil(4 * length);
    ends_.assign(places * static_cast<std::size_t>(max_ngram_ - min_ngram_ + 1), 0);
    slots_ = places;
    return true;
  }

  void clear() { ends_.assign(ends_.size(), 0); }

  /// Where the last entered occurrence of text[end - n..end) ends; 0: none. The caller enters another by assigning to it.
  Index& latest(std::span<const Token> text, Index end, Index n) {
    const auto table = static_cast<std::size_t>(n - min_ngram_) * slots_;
    const auto key = ngram(text, end, n);
    for (std::uint64_t slot = hash(key);; ++slot) {
      Index& found = ends_[table + as_type<std::size_t>(slot & (slots_ - 1))];
      if (found == 0 || std::equal(key.begin(), key.end(), ngram(text, found, n).begin())) return found;
    }
  }

 private:
  static std::span<const Token> ngram(std::span<const Token> text, Index end, Index n) {
    return text.subspan(static_cast<std::size_t>(end - n), static_cast<std::size_t>(n));
  }

  static std::uint64_t hash(std::span<const Token> tokens) {
    std::uint64_t h = 0;
    for (const Token x : tokens) h = SplitMix64(h ^ static_cast<std::uint32_t>(x))();
    return h;
  }

  Index min_ngram_, max_ngram_;
  // For each n a hash table with open addressing, at most half full.
  std::vector<Index> ends_;
  std::size_t slots_ = 0;  // of one table: a power of two
};

}  // namespace detail

/// Prompt lookup: searches the context for its own last n tokens and proposes the tokens that followed them. It takes the
/// largest n <= max_ngram with an earlier occurrence, and the latest of its occurrences. If no n >= min_ngram has one, it
/// proposes nothing. For longer matches use SuffixDrafter: its memory does not grow with the length of the match.
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
