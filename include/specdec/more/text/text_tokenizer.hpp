// Converts a text between the tokens of two tokenizers.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/more/text/utf8.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A tokenizer, as two functions:
///
///   bytes(token)     decodes: returns the bytes that the token adds to a text, as something that converts to
///                    std::string_view. Any bytes, also a part of a UTF-8 character; empty for a token that is no text
///   encode(text)     encodes a std::string_view: returns a range of tokens. Tokens without bytes may stand before and after
///                    them. The text is a piece of a longer one and begins at a token and at a UTF-8 character. encode()
///                    should add no space of its own
template <class Bytes, class Encode>
struct TextTokenizer {
  Bytes bytes;
  Encode encode;
};
template <class Bytes, class Encode>
TextTokenizer(Bytes, Encode) -> TextTokenizer<Bytes, Encode>;

namespace detail {

/// The bytes of a text that grows and shrinks by tokens.
class TokenText {
 public:
  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return ends_.size(); }

  void keep(std::size_t tokens) {
    if (tokens < ends_.size()) ends_.resize(tokens);
    bytes_.resize(ends_.empty() ? 0 : ends_.back());
  }

  /// Makes `context` the text.
  /// Pre: the known text and the context are equal up to the end of the shorter one.
  template <class Tokenizer>
  void extend_to(std::span<const Token> context, Tokenizer& tokenizer) {
    keep(context.size());
    for (const Token x : context.subspan(ends_.size())) {
      const auto& piece = tokenizer.bytes(x);
      bytes_ += std::string_view(piece);
      ends_.push_back(bytes_.size());
    }
  }

  /// The last place where a token and a character begin, at least `window` bytes before the end; 0 if there is none.
  std::size_t begin_of_last(std::size_t window) const {
    auto end = ends_.size();
    while (end > 0 && (ends_[end - 1] + window > bytes_.size() || !begins_character(bytes_, ends_[end - 1])))
      --end;
    return end == 0 ? 0 : ends_[end - 1];
  }

  /// The mean number of bytes of the tokens after byte `first`, at least 1.
  double bytes_per_token(std::size_t first) const {
    const auto begin = std::upper_bound(ends_.begin(), ends_.end(), first);
    const auto bytes = static_cast<double>(bytes_.size() - first);
    return begin == ends_.end() ? 1.0 : std::max(1.0, bytes / static_cast<double>(ends_.end() - begin));
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;  // where each token ends
};

/// The tokens of a text. When the text changes, only its end is encoded again.
class EncodedText {
 public:
  std::span<const Token> tokens() const { return view_of(tokens_); }
  /// How many bytes of the text the tokens stand for.
  std::size_t size() const { return size_; }

  /// Encodes `text`; its first `unchanged` bytes equal the last text's. Merges can reach back over the end of a text,
  /// so encoding begins at a token at least `window` bytes before the first changed byte.
  template <class Tokenizer>
  void encode(std::string_view text, std::size_t unchanged, std::size_t window, Tokenizer& tokenizer,
              Index vocab_size) {
    unchanged = std::min({unchanged, size_, text.size()});
    if (unchanged > 0 && unchanged == text.size() && unchanged == size_) return;
    size_ = 0;  // nothing is known if the tokenizer throws
    std::size_t kept = ends_.size();
    while (kept > 0 && (ends_[kept - 1] + window > unchanged || !begins_character(text, ends_[kept - 1])))
      --kept;
    ends_.resize(kept);
    tokens_.resize(kept);
    const Index first = std::ssize(tokens_);
    const auto& encoded = tokenizer.encode(text.substr(kept == 0 ? 0 : ends_.back()));
    for (const Token x : encoded) add(x, text, tokenizer);
    check_tokens("encoded", TokenIds(tokens_).segment(first, std::ssize(tokens_) - first), vocab_size);
    size_ = text.size();
  }

 private:
  // Tokens without bytes are kept only at the beginning of a text. If a token's bytes differ from the text, the places of
  // all later tokens are unknown, and these tokens are encoded again next time.
  template <class Tokenizer>
  void add(Token x, std::string_view text, Tokenizer& tokenizer) {
    const auto& bytes = tokenizer.bytes(x);
    const std::string_view piece = bytes;
    const std::size_t at = ends_.empty() ? 0 : ends_.back();
    if (piece.empty() && at > 0) return;
    tokens_.push_back(x);
    if (ends_.size() + 1 == tokens_.size() && text.substr(at).starts_with(piece))
      ends_.push_back(at + piece.size());
  }

  std::vector<Token> tokens_;
  std::vector<std::size_t> ends_;  // where tokens end in the text, as far as known
  std::size_t size_ = 0;
};

/// Encodes `text`, and appends the tokens after its beginning `before` to `tokens`, until `tokens` has `most` of them.
/// Appends nothing where `text` does not begin with `before`, or where no token begins at the end of `before`.
template <class Tokenizer>
void encode_after(Tokenizer& tokenizer, std::string_view before, std::string_view text, std::size_t most,
                  std::vector<Token>& tokens) {
  if (text.size() <= before.size() || !text.starts_with(before)) return;
  std::size_t at = 0;
  const auto& encoded = tokenizer.encode(text);
  for (const Token x : encoded) {
    const auto& bytes = tokenizer.bytes(x);
    const std::string_view piece = bytes;
    if (piece.empty()) continue;
    if (!text.substr(at).starts_with(piece) || tokens.size() == most) return;
    if (at >= before.size()) tokens.push_back(x);
    else if (at + piece.size() > before.size()) return;  // the token goes beyond the end of `before`
    at += piece.size();
  }
}

}  // namespace detail
}  // namespace specdec
