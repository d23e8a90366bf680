// Texts as the tokens of one tokenizer and of another.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "specdec/text/token_bytes.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// How the tokens of a vocabulary and text become one another:
///
///   bytes(token)     what the token adds to a text, as what converts to std::string_view: any bytes, a part of a character
///                    of UTF-8 among them, nothing for a token that is no text
///   encode(text)     a range of the tokens of a std::string_view; it may put tokens without bytes before and after them.
///                    It is shown pieces of a text, which begin with a token and with a character of UTF-8, and should
///                    add no space of its own to them
template <class Bytes, class Encode>
struct TextTokenizer {
  Bytes bytes;
  Encode encode;
};
template <class Bytes, class Encode>
TextTokenizer(Bytes, Encode) -> TextTokenizer<Bytes, Encode>;

namespace detail {

/// A text that grows and is cut by tokens.
template <class Tokenizer>
class TokenText {
 public:
  explicit TokenText(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::string_view bytes() const { return bytes_; }
  std::size_t size() const { return ends_.size(); }

  void keep(std::size_t tokens) {
    if (tokens < ends_.size()) ends_.resize(tokens);
    bytes_.resize(ends_.empty() ? 0 : ends_.back());
  }

  /// What is known of the context is its beginning; the rest is new.
  void extend_to(std::span<const Token> context) {
    keep(context.size());
    for (const Token x : context.subspan(ends_.size())) {
      const auto& piece = tokenizer_.bytes(x);
      bytes_ += std::string_view(piece);
      ends_.push_back(bytes_.size());
    }
  }

  /// Where the last token begins that does so `window` bytes before the end or earlier, and at a character; else 0.
  std::size_t begin_of_last(std::size_t window) const {
    auto end = ends_.size();
    while (end > 0 && (ends_[end - 1] + window > bytes_.size() || !begins_character(bytes_, ends_[end - 1])))
      --end;
    return end == 0 ? 0 : ends_[end - 1];
  }

  /// Of the bytes from `first` on; 1 where they have none.
  double bytes_per_token(std::size_t first) const {
    const auto begin = std::upper_bound(ends_.begin(), ends_.end(), first);
    const auto bytes = static_cast<double>(bytes_.size() - first);
    return begin == ends_.end() ? 1.0 : std::max(1.0, bytes / static_cast<double>(ends_.end() - begin));
  }

 private:
  Tokenizer tokenizer_;
  std::string bytes_;
  std::vector<std::size_t> ends_;  // of the tokens
};

/// The tokens of a text by a tokenizer, encoded anew from where it has changed.
template <class Tokenizer>
class EncodedText {
 public:
  explicit EncodedText(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  const Tokenizer& tokenizer() const { return tokenizer_; }
  std::span<const Token> tokens() const { return tokens_; }
  /// How much of the text they are.
  std::size_t size() const { return size_; }

  /// The tokens of `text`, which begins with `unchanged` bytes of the text before it. Merges reach back over the end of a
  /// text, so what is encoded anew begins `window` bytes before the first that changed, or earlier, with a token.
  void encode(std::string_view text, std::size_t unchanged, std::size_t window, Index vocab_size) {
    unchanged = std::min({unchanged, size_, text.size()});
    if (unchanged > 0 && unchanged == text.size() && unchanged == size_) return;
    size_ = 0;  // nothing is known if the tokenizer throws
    std::size_t kept = ends_.size();
    while (kept > 0 && (ends_[kept - 1] + window > unchanged || !begins_character(text, ends_[kept - 1])))
      --kept;
    ends_.resize(kept);
    tokens_.resize(kept);
    const Index first = std::ssize(tokens_);
    const auto& encoded = tokenizer_.encode(text.substr(kept == 0 ? 0 : ends_.back()));
    for (const Token x : encoded) add(x, text);
    check_tokens("encoded", TokenIds(tokens_).segment(first, std::ssize(tokens_) - first), vocab_size);
    size_ = text.size();
  }

 private:
  // Tokens without bytes belong before a text. After one whose bytes are not the text's nobody knows where the others
  // stand: next time these are encoded anew.
  void add(Token x, std::string_view text) {
    const auto& bytes = tokenizer_.bytes(x);
    const std::string_view piece = bytes;
    const std::size_t at = ends_.empty() ? 0 : ends_.back();
    if (piece.empty() && at > 0) return;
    tokens_.push_back(x);
    if (ends_.size() + 1 == tokens_.size() && text.substr(at).starts_with(piece))
      ends_.push_back(at + piece.size());
  }

  Tokenizer tokenizer_;
  std::vector<Token> tokens_;
  std::vector<std::size_t> ends_;  // in the text, as far as they are known
  std::size_t size_ = 0;
};

/// Encodes a text that may go on after `before`, and appends the tokens of what follows it to `tokens`, which are `most` in the
/// end; none where the text begins otherwise, or no token begins where `before` ends.
template <class Tokenizer>
void encode_after(const Tokenizer& tokenizer, std::string_view before, std::string_view text,
                  std::size_t most, std::vector<Token>& tokens) {
  if (text.size() <= before.size() || !text.starts_with(before)) return;
  std::size_t at = 0;
  const auto& encoded = tokenizer.encode(text);
  for (const Token x : encoded) {
    const auto& bytes = tokenizer.bytes(x);
    const std::string_view piece = bytes;
    if (piece.empty()) continue;
    if (!text.substr(at).starts_with(piece) || tokens.size() == most) return;
    if (at >= before.size()) tokens.push_back(x);
    else if (at + piece.size() > before.size()) return;  // it holds the end of `before`
    at += piece.size();
  }
}

}  // namespace detail
}  // namespace specdec
