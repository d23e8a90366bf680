// Turns text into tokens and back, by the tokenizer.bin of llama2.c: a byte-pair encoding like SentencePiece's.
// Source: Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", arXiv:1508.07909,
// section 3.2; Kudo, Richardson, "SentencePiece", arXiv:1808.06226, section 3.1 (the queue of merges).
//
// Format of the file: the length of the longest piece as an int32; then for each token a float32 score, the int32 length
// of its piece, and the piece.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <queue>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/file.hpp"

namespace transformer {

class Tokenizer {
 public:
  using Token = std::int32_t;

  static constexpr Token begin_of_text = 1, end_of_text = 2;
  /// Token 3 + b is the byte b. Characters without a piece become byte tokens.
  static constexpr Token first_byte = 3;

  /// Throws: std::runtime_error unless the file can be read and holds exactly `vocab_size` tokens, at least the 259 of a
  /// model of bytes. The message names the file, what was expected and what was found.
  Tokenizer(const std::string& path, std::int64_t vocab_size) : path_(path) {
    if (vocab_size < first_byte + 256)
      fail("expected a vocabulary of at least ", first_byte + 256, " tokens, found a model of ", vocab_size);
    if (!read_file(path, bytes_)) fail("cannot be read");
    read(static_cast<std::size_t>(vocab_size));
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      tokens_.emplace(pieces_[i].text, static_cast<Token>(i));  // keeps the first of equal pieces
  }

  // No copies: the pieces of a copy would point to the bytes of the original.
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;

  Token vocab_size() const { return static_cast<Token>(pieces_.size()); }

  /// Encodes a text. The tokens begin with begin_of_text and the space that SentencePiece puts before a text. Neighbours are
  /// merged if a token holds both: the best score first, the leftmost of equal scores. Characters without a piece become
  /// bytes, so any bytes can be encoded.
  /// Cost: O(n log n) for n bytes.
  std::vector<Token> encode(std::string_view text) const {
    std::vector<Token> tokens{begin_of_text};
    if (text.empty()) return tokens;
    if (const auto space = tokens_.find(" "); space != tokens_.end()) tokens.push_back(space->second);
    append_merged(text, tokens);
    return tokens;
  }

  /// Encodes a piece from inside a text: without begin_of_text, and without an added space before it.
  std::vector<Token> encode_inside(std::string_view text) const {
    std::vector<Token> tokens{begin_of_text};
    append_merged(text, tokens);
    tokens.erase(tokens.begin());
    return tokens;
  }

  /// The bytes that `token` adds inside a text; empty for a control token.
  /// Throws: std::out_of_range on a token that is not in the vocabulary.
  std::string_view bytes(Token token) const {
    const std::string_view text = decode(end_of_text, token);
    return token < first_byte ? std::string_view() : text;
  }

  /// The bytes that `token` adds to a text whose last token is `previous`. They live as long as the tokenizer.
  /// Throws: std::out_of_range on a token that is not in the vocabulary.
  std::string_view decode(Token previous, Token token) const {
    if (token < 0 || token >= vocab_size())
      transformer::fail<std::out_of_range>("transformer: token ", token, " is outside the vocabulary 0..",
                                           vocab_size() - 1);
    std::string_view text = pieces_[static_cast<std::size_t>(token)].text;
    if (previous == begin_of_text && text.starts_with(' ')) text.remove_prefix(1);
    return byte_of(text).value_or(text);
  }

 private:
  struct Piece {
    std::string_view text;
    float score;
  };

  template <class... Words>
  [[noreturn]] void fail(const Words&... words) const {
    transformer::fail<std::runtime_error>(path_, ": ", words...);
  }

  void read(std::size_t vocab_size) {
    std::size_t at = 0;
    const auto next = [&]<class Number>(Number& number) {
      if (bytes_.size() - at < sizeof(Number)) return false;
      std::memcpy(&number, bytes_.data() + at, sizeof(Number));
      at += sizeof(Number);
      return true;
    };
    std::int32_t longest = 0;
    bool complete = next(longest);
    while (complete && pieces_.size() < vocab_size) {
      float score = 0;
      std::int32_t length = 0;
      complete = next(score) && next(length);
      if (!complete) break;
      if (!std::isfinite(score) || length < 0)
        fail("token ", pieces_.size(), " has the score ", score, " and ", length, " bytes");
      complete = static_cast<std::size_t>(length) <= bytes_.size() - at;
      if (!complete) break;
      pieces_.push_back({std::string_view(bytes_.data() + at, static_cast<std::size_t>(length)), score});
      at += static_cast<std::size_t>(length);
    }
    if (!complete)
      fail("expected ", vocab_size, " tokens, found ", pieces_.size(), " and the end of the file");
    if (at != bytes_.size())
      fail("expected ", vocab_size, " tokens in ", at, " bytes, found a file of ", bytes_.size());
  }

  // Appends the tokens of the text, and merges all tokens after the first one.
  void append_merged(std::string_view text, std::vector<Token>& tokens) const {
    while (!text.empty()) text.remove_prefix(append_character(text, tokens));
    Merger(*this, tokens).run();
  }

  // Appends the token of the first UTF-8 character, or its byte tokens, and returns the number of its bytes. Like llama2.c,
  // it takes any first byte, and up to three continuation bytes after it.
  std::size_t append_character(std::string_view text, std::vector<Token>& tokens) const {
    std::size_t size = 1;
    while (size < std::min<std::size_t>(4, text.size()) && (text[size] & 0xC0) == 0x80) ++size;
    if (const auto found = tokens_.find(text.substr(0, size)); found != tokens_.end())
      tokens.push_back(found->second);
    else
      for (const char byte : text.substr(0, size))
        tokens.push_back(first_byte + static_cast<unsigned char>(byte));
    return size;
  }

  // The byte of a piece such as <0x0A>.
  static std::optional<std::string_view> byte_of(std::string_view piece) {
    static constexpr auto bytes = [] {
      std::array<char, 256> all{};
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(static_cast<unsigned char>(i));
      return all;
    }();
    constexpr std::string_view digits = "0123456789ABCDEF";
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
    const std::size_t high = digits.find(piece[3]), low = digits.find(piece[4]);
    if (high == digits.npos || low == digits.npos) return std::nullopt;
    return std::string_view(&bytes[high * 16 + low], 1);
  }

  // Merges the tokens of a text after the first one.
  class Merger {
   public:
    Merger(const Tokenizer& tokenizer, std::vector<Token>& tokens) : tokenizer_(tokenizer), tokens_(tokens) {
      for (std::size_t i = 0; i <= tokens.size(); ++i) links_.push_back({i - 1, i + 1});
    }

    void run() {
      for (std::size_t i = 1; i < tokens_.size(); ++i) consider(i);
      while (!merges_.empty()) {
        const Merge merge = merges_.top();
        merges_.pop();
        apply(merge);
      }
      std::erase(tokens_, gone);
    }

   private:
    static constexpr Token gone = -1;
    struct Link {
      std::size_t previous, next;
    };
    struct Merge {
      float score;
      std::size_t left;
      Token first, second, merged;
      bool operator<(const Merge& other) const {  // whether this merge is worse
        return score != other.score ? score < other.score : left > other.left;
      }
    };

    // Queues the merge of the token at `left` and the next one.
    void consider(std::size_t left) {
      const std::size_t right = links_[left].next;
      if (left == 0 || right >= tokens_.size()) return;
      text_ = piece(left).text;
      text_ += piece(right).text;
      const auto found = tokenizer_.tokens_.find(text_);
      if (found == tokenizer_.tokens_.end()) return;
      const float score = tokenizer_.pieces_[static_cast<std::size_t>(found->second)].score;
      if (score > worst) merges_.push({score, left, tokens_[left], tokens_[right], found->second});
    }

    void apply(const Merge& merge) {
      const std::size_t left = merge.left, right = links_[left].next;
      if (tokens_[left] != merge.first || right >= tokens_.size() || tokens_[right] != merge.second) return;
      tokens_[left] = merge.merged;
      tokens_[right] = gone;
      links_[left].next = links_[right].next;
      links_[links_[right].next].previous = left;
      consider(links_[left].previous);
      consider(left);
    }

    const Piece& piece(std::size_t i) const {
      return tokenizer_.pieces_[static_cast<std::size_t>(tokens_[i])];
    }

    static constexpr float worst = -1e10f;  // as in llama2.c: no merge makes a token with such a score

    const Tokenizer& tokenizer_;
    std::vector<Token>& tokens_;
    std::vector<Link> links_;  // between the tokens that are left; one for the end
    std::priority_queue<Merge> merges_;
    std::string text_;
  };

  std::string path_;
  std::vector<char> bytes_;  // of the file; the pieces point to them
  std::vector<Piece> pieces_;
  std::unordered_map<std::string_view, Token> tokens_;
};

}  // namespace transformer
