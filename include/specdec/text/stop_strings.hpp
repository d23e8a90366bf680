// Strings that end a text, wherever its tokens break them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "specdec/text/string_matcher.hpp"
#include "specdec/text/token_bytes.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Where a stop string stands in the bytes of the new tokens.
struct StopMatch {
  Index string = 0;  ///< which one, by its place in the list
  Index begin = 0;   ///< how many bytes there are before it: the text that a reader is shown
  Index end = 0;     ///< and up to its end; the last token may have more

  friend bool operator==(const StopMatch&, const StopMatch&) = default;
};

namespace detail {

/// How far a text has been searched.
struct StopSearch {
  StringMatcher::State state = 0;
  Index bytes = 0;  // of the new tokens
};

}  // namespace detail

/// Strings that end a text: the last token is the one in which the first of them is complete, wherever it begins and
/// however tokens break it. Of strings that are complete at the same byte the longest counts. The prompt is not searched.
///
///   specdec::Options options{.stop_strings = {{"\n\n", "User:"}, bytes}};
///
/// `bytes` is any tokenizer (TokenBytes). It is copied, and called with every token that comes out, in a Batch on the threads
/// that judge; copies of this share it. A token that is a stop token ends the text before its bytes are looked at.
/// Throws std::invalid_argument on an empty string. Cost: a look-up a byte; 1 kB for each byte of the strings.
class StopStrings {
 public:
  StopStrings() = default;
  template <TokenBytes Bytes>
  StopStrings(std::vector<std::string> strings, Bytes bytes) {
    if (strings.empty()) return;
    shared_ = std::make_shared<const Shared>(
        std::move(strings), [bytes = std::move(bytes)](const Shared& shared, Search& search, Token token) {
          const auto& piece = bytes(token);
          return shared.find(search, std::string_view(piece));
        });
  }

  bool empty() const { return shared_ == nullptr; }
  std::span<const std::string> strings() const& {
    if (empty()) return {};
    return shared_->strings;
  }
  std::span<const std::string> strings() const&& = delete;  // they would be gone

  /// Searches the bytes of one more token, and stops after the first string that is complete.
  std::optional<StopMatch> find(detail::StopSearch& search, Token token) const {
    return empty() ? std::nullopt : shared_->find_in_token(*shared_, search, token);
  }
  /// Searches some more bytes.
  std::optional<StopMatch> find(detail::StopSearch& search, std::string_view bytes) const {
    if (!empty()) return shared_->find(search, bytes);
    search.bytes += std::ssize(bytes);
    return std::nullopt;
  }
  /// How many of the bytes searched last may begin a string.
  Index begun(const detail::StopSearch& search) const {
    return empty() ? 0 : shared_->matcher.depth(search.state);
  }

 private:
  using Search = detail::StopSearch;

  struct Shared {
    using InToken = std::function<std::optional<StopMatch>(const Shared&, Search&, Token)>;

    Shared(std::vector<std::string> given, InToken find)
        : strings(std::move(given)), matcher(strings), find_in_token(std::move(find)) {}

    std::optional<StopMatch> find(Search& search, std::string_view bytes) const {
      for (const char byte : bytes) {
        search.state = matcher.next(search.state, byte);
        ++search.bytes;
        const Index string = matcher.string(search.state);
        if (string < 0) continue;
        const Index length = std::ssize(strings[static_cast<std::size_t>(string)]);
        return StopMatch{string, search.bytes - length, search.bytes};
      }
      return std::nullopt;
    }

    std::vector<std::string> strings;
    detail::StringMatcher matcher;
    InToken find_in_token;
  };

  std::shared_ptr<const Shared> shared_;
};

}  // namespace specdec
