// Drafts without a model: what followed the last time these words occurred.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/one_hot.hpp"

namespace specdec {

/// Prompt lookup: finds the latest earlier occurrence of the last n tokens of the context, for the largest
/// n <= max_ngram that has one, and proposes what followed it. Proposes nothing where no n >= min_ngram
/// matches.
///
/// Source: Saxena, "Prompt Lookup Decoding" (2023), https://github.com/apoorvumang/prompt-lookup-decoding,
/// which takes the first occurrence; the latest follows a text that drifts. The proposal is deterministic, so
/// q is one-hot. Random: none. Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram <= 512. Cost:
/// every context token is indexed once, in a hash table for each n; a proposal takes a look-up in each. Memory: 16 to
/// 64 bytes for each token and n. For longer matches there is SuffixDrafter, whose memory does not grow with them.
class PromptLookupDrafter {
 public:
  struct Options {
    Index max_ngram = 3;
    Index min_ngram = 1;
  };

  /// The limit of max_ngram: there is a table as long as the context for every n.
  static constexpr Index longest_ngram = 512;

  PromptLookupDrafter() : PromptLookupDrafter(Options{}) {}

  explicit PromptLookupDrafter(const Options& options) : options_(options) {
    if (options.min_ngram < 1 || options.max_ngram < options.min_ngram || options.max_ngram > longest_ngram)
      detail::invalid_argument("prompt lookup needs 1 <= min_ngram <= max_ngram <= ", longest_ngram,
                               ", not min_ngram = ", options.min_ngram, ", max_ngram = ", options.max_ngram);
  }

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    index(context);
    tokens_.clear();
    if (const std::optional<Index> end = match(context)) {
      const auto followed = context.subspan(static_cast<std::size_t>(*end));
      const auto count = std::min(followed.size(), static_cast<std::size_t>(std::max<Index>(gamma, 0)));
      tokens_.assign(followed.begin(), followed.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return {tokens_, OneHotRows(tokens_)};
  }

  void truncate(Index length) {
    if (length >= indexed_) return;
    ends_.assign(ends_.size(), 0);
    indexed_ = 0;
  }

 private:
  // Enters every n-gram that ends before some token of the context, so that a continuation exists.
  void index(std::span<const Token> context) {
    const Index size = static_cast<Index>(context.size());
    if (slots_ < 2 * context.size()) grow(4 * context.size());
    for (; indexed_ < size; ++indexed_)
      for (Index n = options_.min_ngram; n <= std::min(options_.max_ngram, indexed_); ++n)
        latest_end(context, ngram(context, indexed_, n)) = indexed_;
  }

  void grow(std::size_t slots) {
    slots = std::bit_ceil(slots);
    ends_.assign(slots * static_cast<std::size_t>(options_.max_ngram - options_.min_ngram + 1), 0);
    slots_ = slots;
    indexed_ = 0;
  }

  // Where the latest earlier occurrence of the context's last n tokens ends, for the largest n that has one.
  std::optional<Index> match(std::span<const Token> context) {
    const Index size = static_cast<Index>(context.size());
    for (Index n = std::min(options_.max_ngram, size - 1); n >= options_.min_ngram; --n)
      if (const Index end = latest_end(context, ngram(context, size, n)); end != 0) return end;
    return std::nullopt;
  }

  // The slot of an n-gram: where its latest occurrence ends; 0 until it is entered.
  Index& latest_end(std::span<const Token> context, std::span<const Token> key) {
    const Index n = static_cast<Index>(key.size());
    const auto table = static_cast<std::size_t>(n - options_.min_ngram) * slots_;
    for (std::uint64_t slot = hash(key);; ++slot) {
      Index& end = ends_[table + (slot & (slots_ - 1))];
      if (end == 0 || std::equal(key.begin(), key.end(), ngram(context, end, n).begin())) return end;
    }
  }

  static std::span<const Token> ngram(std::span<const Token> context, Index end, Index n) {
    return context.subspan(static_cast<std::size_t>(end - n), static_cast<std::size_t>(n));
  }

  static std::uint64_t hash(std::span<const Token> tokens) {
    std::uint64_t h = 0;
    for (const Token x : tokens) h = SplitMix64(h ^ static_cast<std::uint32_t>(x))();
    return h;
  }

  Options options_;
  // For each n a hash table with open addressing, at most half full: the positions behind the latest
  // occurrences of the n-grams. Keys are not kept, for they stand in the context.
  std::vector<Index> ends_;
  std::size_t slots_ = 0;  // of one table: a power of two
  Index indexed_ = 0;      // n-grams that end before this position have been entered
  std::vector<Token> tokens_;
};

}  // namespace specdec
