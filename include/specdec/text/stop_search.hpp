// A handle of stop strings: what a text needs to find them. text/stop_strings.hpp makes them.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// What a tokenizer has to offer: bytes(token) returns the bytes that the token stands for, as something that converts to
/// std::string_view (a std::string, for example).
template <class B>
concept TokenBytes = requires(const B& bytes, Token token) {
  { bytes(token) } -> std::convertible_to<std::string_view>;
};

/// Where a stop string stands in the bytes of the new tokens.
struct StopMatch {
  Index string = 0;  ///< which one, by its place in the list
  Index begin = 0;   ///< how many bytes stand before the string: the text to show to a reader
  Index end = 0;     ///< how many bytes there are up to the string's end; the last token may go beyond

  friend bool operator==(const StopMatch&, const StopMatch&) = default;
};

namespace detail {

/// How far a text has been searched.
struct StopSearch {
  std::int32_t state = 0;  // of the StringMatcher
  Index bytes = 0;         // of the new tokens
};

/// Stop strings, and the search for them. A base class: only the constructor of StopStrings needs the tokenizer's type.
class StopSearcher {
 public:
  explicit StopSearcher(std::vector<std::string> all) : strings(std::move(all)) {}
  StopSearcher(const StopSearcher&) = delete;
  virtual ~StopSearcher() = default;

  /// Searches the bytes of one more token, or some more bytes. Unless they count, strings that end there are passed over.
  virtual std::optional<StopMatch> find(StopSearch& search, Token token, bool counts) const = 0;
  virtual std::optional<StopMatch> find(StopSearch& search, std::string_view bytes, bool counts) const = 0;
  /// How many of the last searched bytes may be the beginning of a stop string.
  virtual Index begun(const StopSearch& search) const = 0;

  const std::vector<std::string> strings;
};

template <class Bytes>
class StopSearcherOf;  // in text/stop_strings.hpp

}  // namespace detail

/// Strings that end a text: the text ends with the token that completes a stop string, however the tokens cut the string. If
/// several strings are complete at one byte, the longest counts. The prompt is not searched.
///
///   specdec::Options options{.stop_strings = {{"\n\n", "User:"}, bytes}};
///
/// `bytes` is any tokenizer (TokenBytes). It is copied; copies of a StopStrings share it. It is called with every drafted
/// token and every token that the target adds, on the threads that propose and that verify; an error about a drafted token counts
/// only if the target accepts the token. A stop token ends the text before its bytes are searched.
/// Throws: InvalidArgument on an empty string.
/// Cost: one look-up for each byte searched.
/// Memory: 1 kB for each byte of the strings.
class StopStrings {
 public:
  StopStrings() = default;
  /// Needs text/stop_strings.hpp, which has the search.
  template <class Bytes>
  StopStrings(std::vector<std::string> strings, Bytes bytes) {
    static_assert(TokenBytes<Bytes>, "the tokenizer is no specdec::TokenBytes");
    static_assert(
        requires { sizeof(detail::StopSearcherOf<Bytes>); },
        "stop strings are searched for by what is in specdec/text/stop_strings.hpp: include it");
    if (!strings.empty())
      searcher_ = std::make_shared<const detail::StopSearcherOf<Bytes>>(std::move(strings), std::move(bytes));
  }

  bool empty() const { return searcher_ == nullptr; }
  const std::vector<std::string>& strings() const& {
    static const std::vector<std::string> none;
    return empty() ? none : searcher_->strings;
  }
  const std::vector<std::string>& strings() const&& = delete;  // the reference would dangle

  /// Searches the bytes of one more token, up to the first string that is complete. Unless `counts`, that is passed over.
  std::optional<StopMatch> find(detail::StopSearch& search, Token token, bool counts = true) const {
    return empty() ? std::nullopt : searcher_->find(search, token, counts);
  }
  /// Searches some more bytes.
  std::optional<StopMatch> find(detail::StopSearch& search, std::string_view bytes,
                                bool counts = true) const {
    if (!empty()) return searcher_->find(search, bytes, counts);
    search.bytes += std::ssize(bytes);
    return std::nullopt;
  }
  /// How many of the last searched bytes may be the beginning of a stop string.
  Index begun(const detail::StopSearch& search) const { return empty() ? 0 : searcher_->begun(search); }

 private:
  std::shared_ptr<const detail::StopSearcher> searcher_;
};

}  // namespace specdec
