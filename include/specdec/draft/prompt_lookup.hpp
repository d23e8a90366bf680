// Drafts without a model: what followed the last time these words occurred.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "specdec/core/error.hpp"
#include "specdec/core/one_hot.hpp"
#include "specdec/draft/drafter.hpp"

namespace specdec {

/// Prompt lookup: finds the latest earlier occurrence of the last n tokens of the context, for the largest
/// n <= max_ngram that has one, and proposes what followed it. Proposes nothing where no n >= min_ngram
/// matches.
///
/// Source: Saxena, "Prompt Lookup Decoding" (2023), https://github.com/apoorvumang/prompt-lookup-decoding,
/// which takes the first occurrence; the latest follows a text that drifts. The proposal is deterministic, so
/// q is one-hot. Random: none. Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram. Cost: every
/// context token is indexed once (max_ngram hash entries); a proposal takes max_ngram look-ups.
class PromptLookupDrafter {
 public:
  struct Options {
    Index max_ngram = 3;
    Index min_ngram = 1;
  };

  PromptLookupDrafter() : PromptLookupDrafter(Options{}) {}

  explicit PromptLookupDrafter(const Options& options) : options_(options) {
    if (options.min_ngram < 1 || options.max_ngram < options.min_ngram)
      detail::invalid_argument("prompt lookup needs 1 <= min_ngram <= max_ngram, not min_ngram = ",
                               options.min_ngram, ", max_ngram = ", options.max_ngram);
    ends_.resize(static_cast<std::size_t>(options.max_ngram - options.min_ngram + 1));
  }

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) {
    index(context);
    tokens_.clear();
    if (const std::optional<Index> end = match(context)) {
      const auto followed = context.subspan(static_cast<std::size_t>(*end));
      const auto count = std::min(followed.size(), static_cast<std::size_t>(gamma));
      tokens_.assign(followed.begin(), followed.begin() + static_cast<std::ptrdiff_t>(count));
    }
    return {tokens_, OneHotRows(tokens_)};
  }

  void truncate(Index length) {
    if (length >= indexed_) return;
    for (auto& ends : ends_) ends.clear();
    indexed_ = 0;
  }

 private:
  // Enters every n-gram that ends before some token of the context, so that a continuation exists.
  void index(std::span<const Token> context) {
    const Index size = static_cast<Index>(context.size());
    for (; indexed_ < size; ++indexed_)
      for (Index n = options_.min_ngram; n <= std::min(options_.max_ngram, indexed_); ++n)
        ends(n)[hash(ngram(context, indexed_, n))] = indexed_;
  }

  // Where the latest earlier occurrence of the context's last n tokens ends, for the largest n that has one.
  std::optional<Index> match(std::span<const Token> context) const {
    const Index size = static_cast<Index>(context.size());
    for (Index n = std::min(options_.max_ngram, size - 1); n >= options_.min_ngram; --n) {
      const auto last = ngram(context, size, n);
      const auto found = ends(n).find(hash(last));
      if (found != ends(n).end() && std::ranges::equal(ngram(context, found->second, n), last))
        return found->second;
    }
    return std::nullopt;
  }

  static std::span<const Token> ngram(std::span<const Token> context, Index end, Index n) {
    return context.subspan(static_cast<std::size_t>(end - n), static_cast<std::size_t>(n));
  }

  // FNV-1a over token ids. A collision can only hide a match: matches are compared token by token.
  static std::uint64_t hash(std::span<const Token> tokens) {
    std::uint64_t h = 0xcbf29ce484222325u;
    for (const Token x : tokens) h = (h ^ static_cast<std::uint32_t>(x)) * 0x100000001b3u;
    return h;
  }

  using Ends = std::unordered_map<std::uint64_t, Index>;
  Ends& ends(Index n) { return ends_[static_cast<std::size_t>(n - options_.min_ngram)]; }
  const Ends& ends(Index n) const { return ends_[static_cast<std::size_t>(n - options_.min_ngram)]; }

  Options options_;
  std::vector<Ends> ends_;  // for each n: hash of an n-gram -> the position behind its latest occurrence
  Index indexed_ = 0;       // n-grams that end before this position have been entered
  std::vector<Token> tokens_;
};

}  // namespace specdec
