// Turns new tokens into text that can be shown during generation.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "specdec/loop/options.hpp"
#include "specdec/more/text/utf8.hpp"
#include "specdec/text/stop_search.hpp"
#include "specdec/text/stop_strings.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Turns new tokens into text that can be shown at once. The stream holds back bytes that may begin a stop string, and an
/// incomplete UTF-8 character. It never shows a stop string or anything after it. If a stop string begins inside a character,
/// the part of the character before it is left to finish().
///
///   specdec::TextStream stream{bytes, options};
///   decoder.generate(prompt, options, rng, [&](std::span<const Token> emitted) { std::cout << stream.push(emitted); });
///   std::cout << stream.finish();
///
/// `bytes` is any tokenizer (TokenBytes). All pieces together are the Result::text(bytes) of a generation with these
/// options. The text ends before a stop string, or after the bytes of a stop token; Options::ends is not asked. Later tokens are
/// ignored. finish() ends a text; the next push() begins another text.
/// Throws: what `bytes` throws; the stream is then as before.
template <class Bytes>
class TextStream {
  static_assert(TokenBytes<Bytes>, "the tokenizer is no specdec::TokenBytes");

 public:
  /// Reads the stop tokens and stop strings of the options, and from which token on they count.
  explicit TextStream(Bytes bytes, const Options& options = {})
      : bytes_(std::move(bytes)),
        stop_tokens_(options.stop_tokens),
        stop_strings_(options.stop_strings),
        least_(options.min_new_tokens) {}

  /// Takes new tokens and returns the text that can be shown now. The view lives until the next call.
  std::string_view push(std::span<const Token> tokens) & {
    detail::StopSearch search = search_;
    std::optional<StopMatch> match;
    bool ends = ended_;
    Index size = size_;
    std::string more;
    for (auto token = tokens.begin(); token != tokens.end() && !ends; ++token) {
      const auto& piece = bytes_(*token);
      const std::string_view all(piece);
      const Index before = search.bytes;
      const bool counts = ++size >= least_;
      ends = counts && stop_tokens_.contains(*token);
      if (!ends) match = stop_strings_.find(search, all, counts);
      more += match ? all.substr(0, static_cast<std::size_t>(search.bytes - before)) : all;
      ends = ends || match;
    }
    held_.reserve(held_.size() + more.size());
    forget_shown();
    if (ended_) return {};
    held_ += more;  // nothing throws from here on
    search_ = search;
    size_ = size;
    ended_ = ends;
    stopped_ = match.has_value();
    if (ends && !match) return show(held_.size());
    // A stop string, or what may become one, is at the end.
    const auto end = held_.size() - static_cast<std::size_t>(match ? match->end - match->begin
                                                                   : stop_strings_.begun(search_));
    const bool inside = end == held_.size() || !detail::begins_character(held_, end);
    const std::size_t shown = inside ? detail::whole_characters(std::string_view(held_).substr(0, end)) : end;
    if (match) held_.resize(end);
    return show(shown);
  }
  void push(std::span<const Token> tokens) && = delete;  // the view would dangle

  /// Ends the text and returns the bytes held back: after a stop string at most a part of a character. The view lives until
  /// the next call.
  std::string_view finish() & {
    forget_shown();
    ended_ = stopped_ = false;
    search_ = {};
    size_ = 0;
    return show(held_.size());
  }
  void finish() && = delete;

  /// Whether a stop string has ended the text.
  bool stopped() const { return stopped_; }

 private:
  void forget_shown() {
    held_.erase(0, shown_);
    shown_ = 0;
  }

  std::string_view show(std::size_t bytes) {
    shown_ = bytes;
    return std::string_view(held_).substr(0, shown_);
  }

  Bytes bytes_;
  StopTokens stop_tokens_;
  StopStrings stop_strings_;
  Index least_, size_ = 0;  // from which token on they count, and how many tokens there are
  detail::StopSearch search_;
  std::string held_;       // the piece shown last, then the bytes not shown yet
  std::size_t shown_ = 0;  // the bytes of the piece shown last
  bool ended_ = false;     // by a stop token or a stop string
  bool stopped_ = false;   // by a stop string
};

}  // namespace specdec
