// Drafts with a small model of another tokenizer: the model's text is encoded in the target's tokens.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/for_one_text.hpp"
#include "specdec/draft/model_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/more/text/text_tokenizer.hpp"
#include "specdec/more/text/utf8.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Drafts with a model of another tokenizer. The model continues the text in its own tokens; the new text is encoded in the
/// target's tokens and proposed without probabilities.
///
///   RetokenizedDrafter drafter{small, TextTokenizer{target_bytes, target_encode}, TextTokenizer{bytes, encode}};
///
/// With a Model this is a OneTextDrafter. With a BatchModel this is a Drafter: the model writes on all sequences together, one
/// call for a token of each, and each sequence gets the draft that it would get alone.
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
/// (context_size) has room for. A tokenizer that is passed as an lvalue is referred to and must outlive the drafter and its
/// copies; an rvalue is moved in. In a Batch that drafts on several threads, these threads call such a tokenizer at the same
/// time, so it must be safe for that.
/// Throws: InvalidArgument on an empty context, a negative window, and a token of the draft's encoder that the model
/// does not have; what the tokenizers throw. With a BatchModel these make only their own request fail.
/// Random: one draw for each token of the draft model.
/// Cost: model calls until the model has written as many bytes as γ average tokens at the end of each text have. The first
/// call takes in the tokens that the model has not cached, or has cached differently. Each tokenizer encodes window + O(γ)
/// bytes. The text's draft tokens are compared with the tokens that the model was shown last. Allocates what the encoders
/// allocate, and little more.
/// Memory: each text, and its tokens in both vocabularies.
template <class M, class TargetTokenizer, class DraftTokenizer>
class RetokenizedDrafter : public detail::ForOneText<RetokenizedDrafter<M, TargetTokenizer, DraftTokenizer>,
                                                     detail::OverFeeds<M>::one_text> {
  using Base = detail::ForOneText<RetokenizedDrafter, detail::OverFeeds<M>::one_text>;

  // A sequence, and its draft.
  struct Text {
    detail::TokenText bytes;
    detail::EncodedText encoded;
    std::size_t unchanged = 0;  // how many bytes of the text are unchanged since the last encoding
    std::vector<Token> read;    // the tokens that the model was shown last, and the tokens that it drew
    std::size_t first = 0;      // where the end of the text begins, which is encoded together with new bytes
    std::string written;        // the end of the text, and the bytes that the model adds to it
    std::vector<Token> tokens;
  };
  using Texts = std::unordered_map<Index, Text>;

  // A request to the draft model's drafter, for one token.
  template <class Request>
  struct Part : DraftRequest<std::remove_pointer_t<decltype(Request::source)>> {
    Request* outer = nullptr;
    Text* text = nullptr;
    Index position = 0;  // of the model's next token
    double left = 0;     // how many bytes the model is still to write
  };

 public:
  static constexpr bool drafts_trees = false;
  static constexpr Index usual_window = 64;

  RetokenizedDrafter(M&& model, TargetTokenizer&& target, DraftTokenizer&& draft, Index window = usual_window)
      : vocab_size_(model.vocab_size()),
        drafter_(std::forward<M>(model)),
        target_(std::forward<TargetTokenizer>(target)),
        draft_(std::forward<DraftTokenizer>(draft)),
        window_(static_cast<std::size_t>(window)) {
    if (window < 0) detail::invalid_argument("window = ", window, " is negative");
  }

  using Base::draft;
  /// The model writes on all texts, with one call for a token of each. The text that it has written is then encoded.
  template <class Request>
  void draft(std::span<Request> requests) & {
    std::vector<Part<Request>> parts;  // of the texts that the model still writes
    parts.reserve(requests.size());
    for (Request& request : requests) request.error = detail::error_of([&] { begin(request, parts); });
    while (!parts.empty()) {
      for (Part<Request>& part : parts) {
        part.context = detail::view_of(part.text->read);
        detail::stand_at(*part.source, part.position++);
      }
      drafter_.draft(std::span(parts));
      std::erase_if(parts, [this](Part<Request>& part) { return !goes_on(part); });
    }
    for (const Request& request : requests) detail::stand_at(*request.source, std::ssize(request.context));
  }

  Draft<OneHotRows> drafted(Index sequence) const& {
    return detail::chosen(texts_.find(sequence)->second.tokens);
  }
  void keep(Index sequence, Index length) {
    const auto found = texts_.find(sequence);
    if (found == texts_.end()) return;
    Text& text = found->second;
    text.bytes.keep(static_cast<std::size_t>(std::max<Index>(length, 0)));
    text.unchanged = std::min(text.unchanged, text.bytes.bytes().size());
    if (length > 0) return;
    drafter_.keep(sequence, 0);  // frees the model's memory for other uses
    text.read.clear();
  }
  void release(Index sequence) {
    drafter_.release(sequence);
    texts_.erase(sequence);
  }

  /// What is known of a sequence's text. The model reads it anew.
  using State = typename Texts::node_type;

  State take(Index sequence) {
    drafter_.release(sequence);
    return texts_.extract(sequence);
  }
  void put(Index sequence, State&& state) {
    if (!state) return;
    texts_.reserve(texts_.size() + 1);  // nothing throws from here on
    state.key() = sequence;
    texts_.insert(std::move(state));
  }
  void fork(Index from, Index to) {
    if (const auto text = texts_.find(from); text != texts_.end()) texts_.try_emplace(to, text->second);
  }
  /// The lengths of the model's texts are in its own tokens: the next draft compares them.
  void fork_context(Index from, Index to, Index) {
    texts_[to].read = texts_[from].read;
    detail::fork_draft_context(drafter_, from, to, unlimited);
  }

  /// The model's addresses, if other drafters may refer to it, too.
  std::vector<const void*> identities() const { return drafter_.identities(); }

 private:
  template <class Request>
  void begin(Request& request, std::vector<Part<Request>>& parts) {
    Text& text = texts_[request.sequence];
    text.tokens.clear();
    if (request.context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    text.bytes.extend_to(request.context, target_);
    const Index gamma = request.limits.length();
    if (gamma <= 0) return;
    const std::string_view bytes = text.bytes.bytes(),
                           shown = bytes.substr(0, detail::whole_characters(bytes));
    text.encoded.encode(shown, text.unchanged, window_, draft_, vocab_size_);
    text.unchanged = shown.size();
    show(request.sequence, text);
    if (text.read.empty()) return;
    text.first = text.bytes.begin_of_last(std::max(window_, bytes.size() - shown.size()));
    text.written = shown.substr(text.first);
    Part<Request>& part = parts.emplace_back();
    part.sequence = request.sequence;
    part.limits.nodes = 1;
    part.limits.tokens_per_call = request.limits.tokens_per_call;
    part.source = request.source;
    part.outer = &request;
    part.text = &text;
    part.position = std::ssize(request.context);
    part.left = static_cast<double>(gamma) * text.bytes.bytes_per_token(text.first);
  }

  // The model is to go on from the text's tokens. It has read those that they have in common with the last ones.
  void show(Index sequence, Text& text) {
    const std::span<const Token> tokens = text.encoded.tokens();
    drafter_.keep(sequence, detail::common_length(tokens, text.read));
    text.read.clear();
    detail::append(text.read, tokens);
  }

  // Takes the model's token. Where the model has written enough, makes the draft and returns false.
  template <class P>
  bool goes_on(P& part) {
    part.outer->error = std::move(part.error);
    if (part.outer->error) return false;
    bool writes = false;
    part.outer->error = detail::error_of([&] {
      writes = take_token(part);
      if (!writes) encode(*part.text, static_cast<std::size_t>(part.outer->limits.length()));
    });
    return writes;
  }

  // Whether the model writes on, until it has written enough bytes. A token without bytes ends this earlier.
  template <class P>
  bool take_token(P& part) {
    const auto& draft = std::as_const(drafter_).drafted(part.sequence);
    if (draft.tokens.empty()) return false;
    const Token token = part.text->read.emplace_back(draft.tokens.front());
    const auto& piece = draft_.bytes(token);
    const std::string_view added = piece;
    part.text->written += added;
    part.left -= static_cast<double>(added.size());
    return !added.empty() && part.left > 0;
  }

  void encode(Text& text, std::size_t most) {
    const std::string_view all = text.written;
    detail::encode_after(target_, text.bytes.bytes().substr(text.first),
                         all.substr(0, detail::whole_characters(all)), most, text.tokens);
  }

  Index vocab_size_;  // the model's
  ModelDrafter<M> drafter_;
  TargetTokenizer target_;
  DraftTokenizer draft_;
  std::size_t window_;
  Texts texts_;
};

template <class M, class TargetTokenizer, class DraftTokenizer>
RetokenizedDrafter(M&&, TargetTokenizer&&, DraftTokenizer&&, Index = 64)
    -> RetokenizedDrafter<M, TargetTokenizer, DraftTokenizer>;

}  // namespace specdec
