// Drafts with a small model of another tokenizer: what it writes as text, in the target's tokens.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/text/token_bytes.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// How the tokens of a vocabulary and text become one another:
///
///   bytes(token)     what the token adds to a text, as what converts to std::string_view: any bytes, a part of a character
///                    of UTF-8 among them, nothing for a token that is no text
///   encode(text)     a range of the tokens of a std::string_view; it may put tokens without bytes before and behind them.
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

/// How much of the text is whole characters of UTF-8: all of it but for the beginning of a character at its end.
inline std::size_t whole_characters(std::string_view text) { return text.size() - incomplete_utf8(text); }

/// Whether a character begins at this place of a text, or could.
inline bool begins_character(std::string_view text, std::size_t at) {
  return at == 0 || at >= text.size() || (static_cast<unsigned char>(text[at]) & 0xC0U) != 0x80U;
}

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

  /// The tokens of `text`, whose first `unchanged` bytes are those of the last one. Merges reach back over the end of a
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
  // Tokens without bytes belong before a text. Behind one whose bytes are not those of the text nobody knows where the
  // others stand: next time these are encoded anew.
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

}  // namespace detail

/// Drafts with a model of another tokenizer: the model continues the text in its own tokens, and what it wrote is encoded in
/// the target's and proposed without probabilities.
///
///   RetokenizedDrafter drafter{small, TextTokenizer{target_bytes, target_encode}, TextTokenizer{bytes, encode}};
///
/// Source: Timor et al., arXiv:2502.05202 (string-level exact match, SLEM). There a draft is dropped unless the committed
/// tokens come out of the encoder as they are; here a proposal begins wherever one of its tokens begins behind the
/// committed text, as the model may have written that in tokens that no encoder would choose.
///
/// q is one-hot at what is proposed, whatever that was drawn from, so the proposal may be anything that does not depend on
/// the verifier's coins: how a tokenizer cuts a text, what it does to half a character or to a merge over the end of the
/// text, costs acceptance, never exactness. A guess without probabilities is accepted with p(x) alone, so a model at
/// temperature 0 guesses best. Where the two vocabularies share many tokens, a ModelDrafter with CommonTokens accepts more.
/// The last token proposed may be the beginning of a longer one that the target prefers. It is proposed nonetheless: those
/// before it are none the worse for it. Where the encoder merges the end of the text with what follows, nothing is proposed.
///
/// `window`: how many bytes before the new ones are encoded with them, at least; `unlimited`: the whole text, whose tokens
/// are then what the tokenizers make of the whole. A model passed as an lvalue is referred to and must outlive the drafter;
/// an rvalue is moved in. Whoever takes over a model feeds its context anew. No more is proposed than the model's context
/// (context_size) has room for.
/// Throws: std::invalid_argument on an empty context, a negative window, and tokens of the draft's encoder that the model
/// does not have; what the tokenizers throw.
/// Random: a draw for each token of the draft model. Cost: calls of the model until it has written as many bytes as γ tokens
/// of the text's end have, of which the first takes in what it has not seen, or has seen otherwise; an encoding by either
/// tokenizer of window + O(γ) bytes; a comparison of the context's draft tokens with those that the model has seen. Memory:
/// the text, and both its tokens. It allocates what the encoders do, and little more.
template <class M, class TargetTokenizer, class DraftTokenizer>
class RetokenizedDrafter {
 public:
  static constexpr Index usual_window = 64;

  RetokenizedDrafter(M&& model, const TargetTokenizer& target, const DraftTokenizer& draft,
                     Index window = usual_window)
      : model_(std::forward<M>(model)), text_(target), encoded_(draft), window_(checked(window)) {}

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    tokens_.clear();
    text_.extend_to(context);
    if (gamma > 0) {
      const std::string_view text = text_.bytes();
      const std::string_view shown = text.substr(0, detail::whole_characters(text));
      encoded_.encode(shown, unchanged_, window_, model_.vocab_size());
      unchanged_ = shown.size();
      const std::size_t first = text_.begin_of_last(std::max(window_, text.size() - shown.size()));
      written_ = shown.substr(first);
      write(static_cast<double>(gamma) * text_.bytes_per_token(first), chance);
      propose(text.substr(first), static_cast<std::size_t>(gamma));
    }
    return {tokens_, OneHotRows(tokens_)};
  }

  void truncate(Index length) {
    text_.keep(static_cast<std::size_t>(std::max<Index>(length, 0)));
    unchanged_ = std::min(unchanged_, text_.bytes().size());
    if (length <= 0) model_.truncate(0);  // for memory that is wanted elsewhere
    if (length <= 0) fed_.clear();
  }

  /// The model, where others may refer to it, too.
  std::vector<const void*> identities() const { return model_.identities(); }

 private:
  static std::size_t checked(Index window) {
    if (window < 0) detail::invalid_argument("window = ", window, " is negative");
    return static_cast<std::size_t>(window);
  }

  // Shows the model the text, and writes down what it adds to it: so many bytes, where it says nothing without bytes before.
  template <class C>
  void write(double bytes, C& chance) {
    const std::span<const Token> text = encoded_.tokens();
    if (text.empty()) return;
    if (model_.take()) fed_.clear();
    const Index room = model_.room(text);
    const auto common = std::ranges::mismatch(text, fed_).in1 - text.begin();
    model_.truncate(common);
    fed_.resize(static_cast<std::size_t>(common));
    double written = 0;
    for (Index i = 0; i < room && written < bytes; ++i) {
      const auto unseen = i == 0 ? model_.unseen(text) : std::span<const Token>(&last_, 1);
      const auto& output = model_.forward(unseen);
      if (i == 0) fed_.assign(text.begin(), text.end());
      else fed_.push_back(last_);
      const auto q = model_.row(distributions(output));
      last_ = chance.draw(detail::NamedRow(q, "draft", i));
      const auto& piece = encoded_.tokenizer().bytes(last_);
      const std::string_view added = piece;
      if (added.empty()) return;
      written_ += added;
      written += static_cast<double>(added.size());
    }
  }

  // What was written behind the committed bytes, in the target's tokens, if one begins there.
  void propose(std::string_view committed, std::size_t most) {
    const std::string_view all = written_, text = all.substr(0, detail::whole_characters(all));
    if (text.size() <= committed.size() || !text.starts_with(committed)) return;
    std::size_t at = 0;
    const auto& encoded = text_.tokenizer().encode(text);
    for (const Token x : encoded) {
      const auto& bytes = text_.tokenizer().bytes(x);
      const std::string_view piece = bytes;
      if (piece.empty()) continue;
      if (!text.substr(at).starts_with(piece) || tokens_.size() == most) return;
      if (at >= committed.size()) tokens_.push_back(x);
      else if (at + piece.size() > committed.size()) return;  // it holds the end of the text
      at += piece.size();
    }
  }

  detail::DraftModel<M> model_;
  detail::TokenText<TargetTokenizer> text_;
  detail::EncodedText<DraftTokenizer> encoded_;
  std::size_t window_;
  std::size_t unchanged_ = 0;  // how much of the text is what was encoded last
  std::vector<Token> fed_;     // what the model has taken in
  Token last_ = 0;
  std::string written_;  // the end of the text, and what the model adds to it
  std::vector<Token> tokens_;
};

template <class M, class TargetTokenizer, class DraftTokenizer>
RetokenizedDrafter(M&&, const TargetTokenizer&, const DraftTokenizer&, Index = 64)
    -> RetokenizedDrafter<M, TargetTokenizer, DraftTokenizer>;

}  // namespace specdec
