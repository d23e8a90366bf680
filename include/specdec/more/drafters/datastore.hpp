// A large text to draft from, with all its places in order: built once, kept in a file, mapped into memory.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <ostream>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Finds where a string of tokens occurs in a text, and what follows it there.
///
/// The text is a list of token ids with Datastore::separator between documents; no occurrence reaches over a separator. Its
/// suffix array is the list of all places, sorted by the tokens that follow there. So the occurrences of a string are a
/// stretch of the suffix array, and so are the occurrences that go on with one token. Both lists are views: of vectors, or of
/// a file that is mapped into memory, of which a search reads a few pages.
///
///   std::vector<Token> text = ...;                                              // once
///   Datastore::write(file, text);
///   Datastore store{bytes_of_the_mapped_file};                                  // at each start
///
/// Source: suffix arrays, Manber and Myers 1993; as a store of drafts: He et al., "REST", arXiv:2311.08252.
/// Throws: InvalidArgument if the lists differ in length, or if the bytes are no file that write() wrote on a machine
/// with this order of bytes. The order is not checked: a wrong one gives useless drafts, never a wrong text.
/// Cost: a search takes two binary searches for each token of the string.
class Datastore {
 public:
  /// Stands between documents.
  static constexpr Token separator = -1;
  /// Places are sorted by the tokens up to this number. Longer strings may be found at too few of their places.
  static constexpr Index sorted_depth = 64;

  Datastore() = default;
  Datastore(std::span<const Token> tokens, std::span<const std::uint32_t> order)
      : tokens_(tokens), order_(order) {
    if (tokens.size() != order.size())
      detail::invalid_argument("a datastore has ", tokens.size(), " tokens, but an order of ", order.size());
  }
  /// A view of a file that write() wrote. The bytes must be aligned for 32-bit numbers.
  explicit Datastore(std::span<const std::byte> file) {
    Header header;
    if (file.size() < sizeof header)
      detail::invalid_argument("a datastore file has only ", file.size(), " bytes");
    std::memcpy(&header, file.data(), sizeof header);
    const Header mine;
    if (!std::equal(std::begin(header.magic), std::end(header.magic), mine.magic) ||
        header.version != mine.version)
      detail::invalid_argument("the file is no datastore, or of a machine with another order of bytes");
    if (reinterpret_cast<std::uintptr_t>(file.data()) % alignof(std::uint32_t) != 0)
      detail::invalid_argument("the bytes of a datastore file are not aligned for 32-bit numbers");
    const std::size_t size = header.size, expected = sizeof header + 8 * size;
    if (file.size() != expected)
      detail::invalid_argument("a datastore file of ", size, " tokens has ", file.size(), " bytes, expected ",
                               expected);
    const std::byte* const data = file.data() + sizeof header;
    tokens_ = {reinterpret_cast<const Token*>(data), size};
    order_ = {reinterpret_cast<const std::uint32_t*>(data + 4 * size), size};
  }

  /// The order of the places of a text.
  /// Throws: InvalidArgument on a token below 0 that is no separator, and on a text of 2^32 tokens or more.
  /// Cost: O(n log n) comparisons of up to sorted_depth tokens.
  static std::vector<std::uint32_t> sorted(std::span<const Token> tokens) {
    if (tokens.size() > std::numeric_limits<std::uint32_t>::max())
      detail::invalid_argument("a datastore has ", tokens.size(), " tokens, which are too many");
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (tokens[i] < separator) detail::invalid_argument("tokens[", i, "] = ", tokens[i], " is negative");
    std::vector<std::uint32_t> order(tokens.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::sort(order.begin(), order.end(), [tokens](std::uint32_t a, std::uint32_t b) {
      const auto left = following(tokens, a), right = following(tokens, b);
      const auto [x, y] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
      if (x == left.end() || y == right.end())
        return x == left.end() && y == right.end() ? a < b : x == left.end();
      return *x < *y;
    });
    return order;
  }

  /// Writes a file for a text: a header, the tokens, and their order.
  /// Throws: what sorted() throws; ExternalFailure if the stream fails.
  static void write(std::ostream& file, std::span<const Token> tokens) {
    const std::vector<std::uint32_t> order = sorted(tokens);
    Header header;
    header.size = static_cast<std::uint32_t>(tokens.size());
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(reinterpret_cast<const char*>(tokens.data()),
               static_cast<std::streamsize>(tokens.size_bytes()));
    file.write(reinterpret_cast<const char*>(order.data()), static_cast<std::streamsize>(4 * order.size()));
    if (!file.flush()) detail::external_failure("the datastore could not be written");
  }

  Index size() const { return std::ssize(tokens_); }

  /// The occurrences of a string of `length` tokens: the places order[first], ..., order[last − 1].
  struct Places {
    Index first = 0, last = 0, length = 0;

    Index count() const { return last - first; }
    friend bool operator==(const Places&, const Places&) = default;
  };

  /// The occurrences of the empty string: all places.
  Places all() const { return {0, size(), 0}; }

  /// The occurrences that go on with the token.
  Places longer(const Places& places, Token token) const {
    const auto begin = order_.begin();
    const auto before = [&](std::uint32_t place, Token x) { return next(place, places.length) < x; };
    const auto after = [&](Token x, std::uint32_t place) { return x < next(place, places.length); };
    const auto first = std::lower_bound(begin + places.first, begin + places.last, token, before);
    const auto last = std::upper_bound(first, begin + places.last, token, after);
    return {first - begin, last - begin, places.length + 1};
  }

  /// The occurrences of a string.
  Places find(std::span<const Token> string) const {
    Places places = all();
    for (const Token x : string) places = longer(places, x);
    return places;
  }

  /// The occurrences of the longest end of the context that occurs, of up to `most` tokens, with a token after it.
  Places longest_match(std::span<const Token> context, Index most) const {
    Places best = all();
    // If an end of m + 1 tokens occurs, so does the end of m tokens.
    const auto occurs_after = [&](Index m) {
      const Places places = find(context.last(static_cast<std::size_t>(m) + 1));
      if (followed(places)) best = places;
      return followed(places);
    };
    detail::partition_point(std::min({most, std::ssize(context), sorted_depth - 1}), occurs_after);
    return best;
  }

  /// Calls visit(token, count) for each distinct token that follows the string, by ascending id.
  /// Cost: two binary searches for each distinct token.
  template <class Visit>
  void each_continuation(const Places& places, const Visit& visit) const {
    const auto begin = order_.begin(), end = begin + places.last;
    for (auto at = begin + places.first; at != end;) {
      const Token token = next(*at, places.length);
      const auto after = [&](Token x, std::uint32_t place) { return x < next(place, places.length); };
      const auto last = std::upper_bound(at, end, token, after);
      if (token != separator) visit(token, last - at);
      at = last;
    }
  }

 private:
  struct Header {
    char magic[12] = {'s', 'p', 'e', 'c', 'd', 'e', 'c', ' ', 't', 'e', 'x', 't'};
    std::uint32_t version = 0x01020304;  // shows the order of bytes, too
    std::uint32_t size = 0;
  };

  static std::span<const Token> following(std::span<const Token> tokens, std::uint32_t place) {
    const auto rest = tokens.subspan(place);
    return rest.first(std::min(rest.size(), static_cast<std::size_t>(sorted_depth)));
  }

  // The token after `length` tokens from a place on; a separator at the end of the text.
  Token next(std::uint32_t place, Index length) const {
    const std::size_t at = place + static_cast<std::size_t>(length);
    return at < tokens_.size() ? tokens_[at] : separator;
  }
  bool followed(const Places& places) const {
    return places.count() > 0 && next(detail::at(order_, places.last - 1), places.length) != separator;
  }

  std::span<const Token> tokens_;
  std::span<const std::uint32_t> order_;
};

}  // namespace specdec
