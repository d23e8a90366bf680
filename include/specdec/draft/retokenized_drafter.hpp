// Drafts with a small model of another tokenizer: what it writes as text, in the target's tokens.
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
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/text/text_tokenizer.hpp"
#include "specdec/text/token_bytes.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Drafts with a model of another tokenizer: the model continues the text in its own tokens, and what it wrote is encoded in
/// the target's and proposed without probabilities.
///
///   RetokenizedDrafter drafter{small, TextTokenizer{target_bytes, target_encode}, TextTokenizer{bytes, encode}};
///
/// Source: Timor et al., arXiv:2502.05202 (string-level exact match, SLEM). There a draft is dropped unless the committed
/// tokens come out of the encoder as they are; here a proposal begins wherever one of its tokens begins after the
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
/// are then what the tokenizers make of the whole. The model is held, and shared, as in a ModelDrafter, and writes no more
/// than its context (context_size) has room for.
/// Throws: std::invalid_argument on an empty context, a negative window, and tokens of the draft's encoder that the model
/// does not have; what the tokenizers throw.
/// Random: a draw for each token of the draft model. Cost: calls of the model until it has written as many bytes as γ tokens
/// of the text's end have, of which the first takes in what it has not cached, or has cached otherwise; an encoding by either
/// tokenizer of window + O(γ) bytes; a comparison of the context's draft tokens with those that the model was shown last. Memory:
/// the text, and both its tokens. It allocates what the encoders do, and little more.
template <class M, class TargetTokenizer, class DraftTokenizer>
class RetokenizedDrafter {
  static_assert(
      Model<std::remove_reference_t<M>>,
      "the draft model is no specdec::Model for one text: its forward(tokens, rows) returns rows of "
      "probabilities (a model of logits goes into a ProcessedModel)");

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
    return {tokens_, OneHotRows(tokens_)};
  }

  void truncate(Index length) {
    text_.keep(static_cast<std::size_t>(std::max<Index>(length, 0)));
    unchanged_ = std::min(unchanged_, text_.bytes().size());
    if (length > 0) return;
    drafter_.truncate(0);  // for memory that is wanted elsewhere
    read_.clear();
  }

  /// The model, where others may refer to it, too.
  std::vector<const void*> identities() const { return drafter_.identities(); }

 private:
  static std::size_t checked(Index window) {
    if (window < 0) detail::invalid_argument("window = ", window, " is negative");
    return static_cast<std::size_t>(window);
  }

  // Shows the model the text, and writes down what it adds to it, a token at a time, as its bytes tell whether it is enough:
  // so many bytes, where it says nothing without bytes before.
  template <class C>
  void write(double bytes, Index position, C& chance) {
    const std::span<const Token> text = encoded_.tokens();
    drafter_.truncate(detail::common_length(text, read_));
    read_.assign(text.begin(), text.end());
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
  std::size_t unchanged_ = 0;  // how much of the text is what was encoded last
  std::vector<Token> read_;    // what the model was shown last, and what it drew
  std::string written_;        // the end of the text, and what the model adds to it
  std::vector<Token> tokens_;
};

template <class M, class TargetTokenizer, class DraftTokenizer>
RetokenizedDrafter(M&&, const TargetTokenizer&, const DraftTokenizer&, Index = 64)
    -> RetokenizedDrafter<M, TargetTokenizer, DraftTokenizer>;

}  // namespace specdec
