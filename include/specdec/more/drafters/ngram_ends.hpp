// Where the n-grams of a text occurred last: the tables of prompt lookup.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/error.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// For each n-gram of a text, n = min_ngram..max_ngram, stores where its last entered occurrence ends. The n-grams are not
/// copied: every call is given the text again.
/// Pre: this text begins with all tokens of the n-grams entered.
///
/// Throws: InvalidArgument unless 1 <= min_ngram <= max_ngram <= 512.
/// Cost: expected O(n) for each call. No allocation except in make_room().
/// Memory: 16 to 64 bytes for each token and n.
class NgramEnds {
 public:
  /// The limit of max_ngram, as each n needs a table as long as the text.
  static constexpr Index longest_ngram = 512;

  NgramEnds(Index min_ngram, Index max_ngram) : min_ngram_(min_ngram), max_ngram_(max_ngram) {
    check_lengths(min_ngram, max_ngram);
  }

  static void check_lengths(Index min_ngram, Index max_ngram) {
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

}  // namespace specdec::detail
