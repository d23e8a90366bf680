// Drafts with a small model of another tokenizer: the model's text is encoded in the target's tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/text/text_tokenizer.hpp"
#include "specdec/text/token_bytes.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Drafts with a model of another tokenizer. The model continues the text in its own tokens; the new text is encoded in the
/// target's tokens and proposed without probabilities.
///
///   RetokenizedDrafter drafter{small, TextTokenizer{target_bytes, target_encode}, TextTokenizer{bytes, encode}};
///
/// Source: Timor et al., arXiv:2502.05202 (string-level exact match, SLEM). Deviation: SLEM drops a draft unless the encoder
/// returns the committed tokens unchanged. Here the proposal only needs a token that begins at the end of the committed
/// text, because the target may have written the text in tokens that no encoder would choose.
///
/// Rows are one-hot at the proposed tokens. So the output stays exact, as long as the proposal does not depend on the
/// verifier's random numbers. Different cuts, half characters and merges over the end of the text cost only acceptance. A
/// guess x without probabilities is accepted with probability p(x), so a model at temperature 0 guesses best. Where the two
/// vocabularies share many tokens, a ModelDrafter with CommonTokens gets more accepted.
/// The last proposed token may be only the beginning of the token that the target prefers. This does not harm the tokens
/// before it. Where the encoder merges the end of the text with the new text, nothing is proposed.
///
/// `window`: at least so many bytes before the new bytes are encoded again, together with them. `unlimited`: the whole text
/// is encoded each time. The model is held and shared like a ModelDrafter's. It writes no more than its context
/// (context_size) has room for.
/// Throws: std::invalid_argument on an empty context, a negative window, and a token of the draft's encoder that the model
/// does not have; what the tokenizers throw.
/// Random: one draw for each token of the draft model.
/// Cost: model calls until the model has written as many bytes as γ average tokens at the end of the text have. The first
/// call takes in the tokens that the model has not cached, or has cached differently. Each tokenizer encodes window + O(γ)
/// bytes. The text's draft tokens are compared with the tokens that the model was shown last. Allocates what the encoders
/// allocate, and little more.
/// Memory: the text, and its tokens in both vocabularies.
template <class M, class TargetTokenizer, class DraftTokenizer>
class RetokenizedDrafter {
  static_assert(detail::fits_model<std::remove_reference_t<M>>());

 public:
  static constexpr Index usual_window = 64;

  RetokenizedDrafter(M&& model, const TargetTokenizer& target, const DraftTokenizer& draft,
                     Index window = usual_window)
      : vocab_size_(model.vocab_size()),
        drafter_(std::forward<M>(model)),
        text_(target),
        encoded_(draft),
        window_(checked(window)) {}

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    tokens_.clear();
    text_.extend_to(context);
    if (gamma > 0) {
      const std::string_view text = text_.bytes(), shown = text.substr(0, detail::whole_characters(text));
      encoded_.encode(shown, unchanged_, window_, vocab_size_);
      unchanged_ = shown.size();
      const std::size_t first = text_.begin_of_last(std::max(window_, text.size() - shown.size()));
      written_ = shown.substr(first);
      auto&& chance = as_chance(source);
      write(static_cast<double>(gamma) * text_.bytes_per_token(first), std::ssize(context), chance);
      const std::string_view all = written_;
      detail::encode_after(text_.tokenizer(), text.substr(first),
                           all.substr(0, detail::whole_characters(all)), static_cast<std::size_t>(gamma),
                           tokens_);
    }
    return detail::chosen(tokens_);
  }

  void truncate(Index length) {
    text_.keep(static_cast<std::size_t>(std::max<Index>(length, 0)));
    unchanged_ = std::min(unchanged_, text_.bytes().size());
    if (length > 0) return;
    drafter_.truncate(0);  // frees the model's memory for other uses
    read_.clear();
  }

  /// The model's addresses, if other drafters may refer to it, too.
  std::vector<const void*> identities() const { return drafter_.identities(); }

 private:
  static std::size_t checked(Index window) {
    if (window < 0) detail::invalid_argument("window = ", window, " is negative");
    return static_cast<std::size_t>(window);
  }

  // Shows the model the text, and appends to written_ what the model adds, token by token, until it has added `bytes` bytes.
  // A token without bytes ends this earlier.
  template <class C>
  void write(double bytes, Index position, C& chance) {
    const std::span<const Token> text = encoded_.tokens();
    drafter_.truncate(detail::common_length(text, read_));
    read_.clear();
    detail::append(read_, text);
    if (read_.empty()) return;
    for (double written = 0; written < bytes;) {
      detail::stand_at(chance, position++);
      const auto draft = drafter_.draft(std::span<const Token>(read_), DraftLimits{.nodes = 1}, chance);
      if (draft.tokens.empty()) return;
      read_.push_back(draft.tokens.front());
      const auto& piece = encoded_.tokenizer().bytes(read_.back());
      const std::string_view added = piece;
      if (added.empty()) return;
      written_ += added;
      written += static_cast<double>(added.size());
    }
  }

  Index vocab_size_;  // the model's
  ModelDrafter<M> drafter_;
  detail::TokenText<TargetTokenizer> text_;
  detail::EncodedText<DraftTokenizer> encoded_;
  std::size_t window_;
  std::size_t unchanged_ = 0;  // how many bytes of the text are unchanged since the last encoding
  std::vector<Token> read_;    // the tokens that the model was shown last, and the tokens that it drew
  std::string written_;        // the end of the text, and the bytes that the model adds to it
  std::vector<Token> tokens_;
};

template <class M, class TargetTokenizer, class DraftTokenizer>
RetokenizedDrafter(M&&, const TargetTokenizer&, const DraftTokenizer&, Index = 64)
    -> RetokenizedDrafter<M, TargetTokenizer, DraftTokenizer>;

}  // namespace specdec
