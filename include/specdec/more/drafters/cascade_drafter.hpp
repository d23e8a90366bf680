// A drafter that itself runs speculative decoding, with a smaller target and drafter.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/for_one_text.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/each.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/observers.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/round.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/model/call.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/more/drafters/past_dead_ends.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::inline v0_2_0 {

/// Drafts with a model that is itself sped up by a smaller drafter: an inner loop of speculative decoding, with the model as
/// its target.
///
///   CascadeDrafter drafter{middle, ModelDrafter{small}, BlockVerifier{}, 3};
///   SpecDec decoder{large, drafter, BlockVerifier{}};
///
/// The drafts have the distribution of the model's own text, with any inner drafter, of lines or of trees. They come with the
/// model's rows. For the outer loop a cascade differs from ModelDrafter{middle} only in speed.
///
/// With a Model this is a OneTextDrafter. With a BatchModel this is a Drafter: the inner loops of all sequences go side by side,
/// with one call of the model for each of their steps. Each sequence gets the draft that it would get alone, unless one draft
/// length that learns or changes serves all of them.
///
///   CascadeDrafter drafter{many_middle, ModelDrafter{many_small, Tree{shape, WithoutReplacement{}}}, TraversalVerifier{}};
///   Batch batch{many_large, drafter, BlockVerifier{}};
///
/// A model, drafter or draft length that is passed as an lvalue must outlive the cascade; an rvalue is moved in. A draft length
/// is one for all sequences of a cascade; with each(policy) each sequence has a copy. The model is fed token 0 in place of a
/// context token that it does not know. If the model's context is bounded (context_size), drafts end where it is full. A draft
/// ends where no token has a positive probability in the model's row; where its length is fixed
/// (DraftLimits), the token is drawn from a uniform row.
/// Source: Chen et al., "Cascade Speculative Drafting for Even Faster LLM Inference", arXiv:2312.11462 (the vertical
/// cascade); Spector and Ré, "Accelerating LLM Inference with Staged Speculative Decoding", arXiv:2308.04623.
/// Pre: the inner rule draws from the model's rows (draws_from_target: not LenientVerifier, not ArgmaxVerifier). The inner
/// drafter and draft length are lossless in an ordinary loop. What they learn from a draft they keep if the draft is taken back.
/// Throws: what the loop throws. An error of one sequence's inner loop makes only its request fail, as does an empty context.
/// An InvalidDistribution calls the model's rows "cascade's target" and the inner drafter's rows "cascade's draft".
/// Random: what the inner loop draws.
/// Cost: the inner loop; a comparison of the context with the last one; tokens after the common prefix are fed again. The
/// rows of the emitted tokens are copied, unless the model promises stable rows. One allocation.
template <class M, class D, class V = BlockVerifier, class Length = FixedLength>
class CascadeDrafter
    : public detail::ForOneText<CascadeDrafter<M, D, V, Length>, detail::OverFeeds<M>::one_text> {
  using Feeds = detail::OverFeeds<M>;
  using Value = typename Feeds::Value;
  using Inner = std::remove_reference_t<detail::Lift<D>>;
  using Lengths = detail::LengthOfTexts<Length>;
  using Policy = typename Lengths::Policy;
  using Base = detail::ForOneText<CascadeDrafter, Feeds::one_text>;
  // Assertions, not constraints: with deduced arguments, compilers would not say which constraint failed.
  static_assert(detail::fits_model<Value>());
  static_assert(detail::fits_drafter<D>());
  static_assert(detail::fit_together<Value, specdec::drafts_trees<Inner>, V, Policy>());
  static_assert(draws_from_target<V>, "the cascade would report rows that its drafts are not drawn from");

  using Round = detail::Round<D, V, Policy, Observers<StatsObserver>>;
  using Seat = typename Round::Seat;
  using Output = std::remove_cvref_t<detail::OutputOf<Value>>;
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Rows = StoredRows<Row, has_stable_rows<Value>>;
  using Stored = typename Rows::Stored;
  using Drafted = Draft<RowSpan<Stored>>;

  // A sequence, and its draft.
  struct Text {
    [[no_unique_address]] typename Lengths::Own length;
    std::optional<Seat> seat = {};     // of the inner loop
    Index drafted = 0;                 // how many of the inner loop's tokens are in the draft
    Rows rows = {};                    // of these tokens
    std::vector<Token> replaced = {};  // see tokens_in_vocabulary
  };
  using Texts = std::unordered_map<Index, Text>;

  // The inner loop's request for a part of a draft.
  template <class Request>
  using InnerRequest = typename Round::template Request<std::remove_pointer_t<decltype(Request::source)>>;
  template <class Request>
  struct Part : InnerRequest<Request> {
    Request* outer = nullptr;
    Text* text = nullptr;
    bool goes_on = true;  // whether the draft length and the draft's limits let the draft go on
  };

 public:
  static constexpr bool drafts_trees = false, steady = has_steady_rows<Value>;

  /// `gamma`: the most tokens that the inner drafter is asked for.
  /// Throws: InvalidArgument if `gamma` is not valid as Options::gamma.
  CascadeDrafter(M&& model, D&& drafter, V verifier = {}, Index gamma = 4)
    requires std::default_initializable<Length>
      : CascadeDrafter(std::forward<M>(model), std::forward<D>(drafter), std::move(verifier), gamma,
                       Length{}) {}

  CascadeDrafter(M&& model, D&& drafter, V verifier, Index gamma, Length&& length)
      : model_(std::forward<M>(model)),
        round_(std::forward<D>(drafter)),
        verifier_(std::move(verifier)),
        gamma_(gamma),
        lengths_(std::forward<Length>(length)),
        turns_(detail::Turns::of<CascadeDrafter>(*this)) {
    detail::check_gamma_option(gamma);
    const auto of_model = detail::shared_identities<M>(model_.model());
    const auto of_drafter = detail::shared_identities<detail::Lift<D>>(round_.drafter());
    if (std::ranges::find_first_of(of_model, of_drafter) != of_model.end())
      detail::invalid_argument(
          "the inner drafter refers to the cascade's model: give each a model of its own");
    if (Base::one_text) serve_one();
  }

  /// Copies what the cascade holds by value; the copy begins with empty contexts. A Batch makes a copy for each sequence of a
  /// cascade around a Model. A model that is held by reference is shared. If the inner drafter or the draft length is held by
  /// reference, the cascade cannot be copied.
  CascadeDrafter(const CascadeDrafter&)
    requires(!std::is_lvalue_reference_v<D> && !std::is_lvalue_reference_v<Length>)
  = default;
  CascadeDrafter(CascadeDrafter&&) noexcept = default;
  CascadeDrafter& operator=(const CascadeDrafter&) = delete;
  CascadeDrafter& operator=(CascadeDrafter&&) noexcept = default;
  ~CascadeDrafter() = default;

  using Base::draft;
  /// All drafts, side by side. A text's inner loop draws more tokens than its draft has where keep_drafting or a stop token ends
  /// the draft: to drop them is lossless, since what decided depends only on the tokens before them.
  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    check_here();
    std::vector<Part<Request>> parts;  // of the drafts that still grow
    parts.reserve(requests.size());
    for (Request& request : requests) request.error = detail::error_of([&] { begin(request, parts); });
    while (!parts.empty()) {
      detail::with_error([&] { step(parts, for_each); }, of_cascade);
      std::erase_if(parts, [](auto& part) { return failed(part) || !part.goes_on || part.seat->done(); });
    }
  }

  Drafted drafted(Index sequence) const& {
    const Text& text = texts_.find(sequence)->second;
    const auto count = static_cast<std::size_t>(text.drafted);
    return {text.seat ? text.seat->tokens().first(count) : std::span<const Token>(),
            text.rows.first(text.drafted, vocab_size())};
  }
  void keep(Index sequence, Index length) {
    const auto text = texts_.find(sequence);
    if (text == texts_.end() || !text->second.seat || !has_turn()) return;
    Seat& seat = *text->second.seat;
    seat.target_holds(std::min(seat.kept(), length));
    model_.keep(sequence, seat.kept());
    round_.drafter().keep(sequence, seat.kept());
  }
  void release(Index sequence) {
    round_.drafter().release(sequence);
    const auto text = texts_.find(sequence);
    if (text == texts_.end()) return;
    leave(sequence, text->second);
    texts_.erase(text);
  }

  void serve_one() { detail::serve_one(round_.drafter()); }
  void check_copies() const { detail::check_copies(round_.drafter()); }

  /// What the inner drafter and the draft length have learnt of a sequence. The models read it anew.
  struct State {
    typename Texts::node_type text;
    detail::StateOf<Inner> inner;
  };

  State take(Index sequence) {
    State state{texts_.extract(sequence), detail::take_state(round_.drafter(), sequence)};
    if (state.text) leave(sequence, state.text.mapped());
    return state;
  }
  void put(Index sequence, State&& state) {
    texts_.reserve(texts_.size() + 1);
    detail::put_state(round_.drafter(), sequence, std::move(state.inner));
    if (!state.text) return;  // nothing throws from here on
    state.text.key() = sequence;
    texts_.insert(std::move(state.text));
  }
  void fork(Index from, Index to) {
    detail::fork_state(round_.drafter(), from, to);
    if (const auto text = texts_.find(from); text != texts_.end())
      texts_.try_emplace(to, Text{text->second.length});
  }
  void fork_context(Index from, Index to, Index length) {
    detail::fork_draft_context(round_.drafter(), from, to, length);
    if constexpr (can_fork<Value>) {
      const auto text = texts_.find(from);
      if (text == texts_.end() || !text->second.seat) return;
      const Seat& seat = *text->second.seat;
      const Index shared = std::min(seat.kept(), length);
      if (shared == 0) return;
      Text& twin = text_of(to);
      model_.fork(from, to);
      twin.seat.emplace(detail::described(model_.model()), verifier_, seat.context(), Options{},
                        FilledContext{shared});
      twin.seat->number = to;
      model_.keep(to, shared);
    }
  }

  /// The addresses of those models in the cascade that other code may use, too.
  std::vector<const void*> identities() const {
    auto found = detail::shared_identities<M>(model_.model());
    detail::append(found, detail::shared_identities<detail::Lift<D>>(round_.drafter()));
    return found;
  }

  /// Counts and times of the inner loops, over all drafts.
  /// Throws: InvalidCall if the cascade was moved away: into a decoder, say.
  Stats stats() const {
    check_here();
    Stats sum = released_;
    for (const auto& [sequence, text] : texts_)
      if (text.seat) sum += text.seat->stats();
    return sum;
  }

 private:
  void check_here() const { detail::check_here(!turns_.moved_away(), "cascade"); }

  Index vocab_size() const { return model_.model().vocab_size(); }
  // Whether nobody has used a Model or its drafter since. A model for many texts has contexts for all.
  bool has_turn() const { return !Base::one_text || turn_.lasts(turns_); }

  // Ends the inner loop. Without memory for the sum, its counts are lost.
  void leave(Index sequence, Text& text) {
    if (has_turn()) model_.release(sequence);
    if (text.seat) detail::error_of([&] { released_ += text.seat->stats(); });
    text.seat.reset();
  }

  template <class Request>
  void begin(Request& request, std::vector<Part<Request>>& parts) {
    Text& text = text_of(request.sequence);
    text.rows.clear();
    text.drafted = 0;
    const std::span<const Token> context = request.context;
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    const Index gamma = request.limits.length();
    if (gamma <= 0 || std::ssize(context) > context_size(model_.model())) return;
    take_up(text, request.sequence, detail::tokens_in_vocabulary(context, vocab_size(), text.replaced),
            {.max_new_tokens = gamma, .gamma = gamma_});
    parts.emplace_back();
    parts.back().outer = &request;
    parts.back().text = &text;
  }

  Text& text_of(Index sequence) {
    const auto text = texts_.find(sequence);
    if (text != texts_.end()) return text->second;
    return texts_.try_emplace(sequence, Text{lengths_.own()}).first->second;
  }

  // The inner loop of a sequence, ready to continue the context. The inner rule's memory is reset, since the outer loop wrote
  // the end of the context, even if its tokens equal the draft's. What a draft that failed has left is taken back here, too.
  void take_up(Text& text, Index sequence, std::span<const Token> context, const Options& options) {
    if (!has_turn()) {  // the contexts are worth nothing
      turn_.take(turns_);
      if (text.seat) text.seat->target_holds(0);
    }
    if (text.seat) {
      text.seat->error = nullptr;
      text.seat->forget();
      text.seat->resume(context, options);
    } else {
      text.seat.emplace(detail::described(model_.model()), verifier_, context, options);
      text.seat->number = sequence;
    }
    model_.keep(sequence, text.seat->kept());
    round_.drafter().keep(sequence, text.seat->kept());
  }

  // A step of all inner loops: one call of the model.
  template <class P, class E>
  void step(std::vector<P>& parts, E& for_each) {
    if constexpr (!Lengths::for_each_text) lengths_.of_all(std::ssize(parts));
    for (P& part : parts) part.outer->error = detail::error_of([&] { ask(part); });
    std::erase_if(parts, failed<P>);
    round_.draft(std::span<P>(parts), for_each);
    turn_.go_on(turns_);
    std::erase_if(parts, failed<P>);
    if (!parts.empty()) judge(parts, for_each);
  }

  template <class P>
  void ask(P& part) {
    Seat& seat = *part.text->seat;
    Policy& policy = lengths_.of(part.text->length);
    seat.asked =
        seat.limits([&](Index most) { return detail::next_length(policy, most, seat.drafted_text()); });
    static_cast<InnerRequest<std::remove_pointer_t<decltype(part.outer)>>&>(part) =
        Round::request_of(seat, policy, *part.outer->source);
    part.limits.tokens_per_call = part.outer->limits.tokens_per_call;
  }

  template <class P, class E>
  void judge(std::vector<P>& parts, E& for_each) {
    call_.clear();
    for (const P& part : parts) call_.add(part.seat->next_feed, part.seat->number);
    decltype(auto) output = model_.forward(call_.feeds());
    const auto all = distributions(output);
    call_.check_rows("cascade's model", all);
    for_each(std::ssize(parts), [&](Index i) {
      const P& part = detail::at(parts, i);
      auto&& chance = as_chance(*part.outer->source);
      detail::PastDeadEnds<std::remove_cvref_t<decltype(chance)>> past(chance);
      Round::weigh(*part.seat, call_.rows_of(all, i), past);
    });
    for (Index i = 0; i < std::ssize(parts); ++i) {
      P& part = detail::at(parts, i);
      const auto rows = call_.rows_of(all, i);
      round_.settle(*part.seat, rows, lengths_.of(part.text->length));
      if (!part.seat->error) part.outer->error = detail::error_of([&] { take(part, rows); });
    }
    for (const P& part : parts) Round::keep_in(model_, *part.seat);
  }

  // Takes the tokens that were emitted into the draft, with their rows: after the context, and after each token that the model
  // keeps. In place of a dead end it keeps a uniform row, if that is possible for rows of this type. The draft length reads the
  // model's own rows: a copy may not know what it was before hooks.
  template <class P, class R>
  static void take(P& part, const R& rows) {
    Text& text = *part.text;
    const Index before = std::ssize(part.seat->next_feed.tokens) - rows.rows();  // tokens without a row
    for (const Index k : part.seat->kept_path()) {
      if (k < before || !part.goes_on) continue;
      const auto row = rows.row(k - before);
      const bool ends = detail::is_dead_end(row);
      if (ends && !part.outer->limits.fixed) return void(part.goes_on = false);
      if (!ends || !text.rows.add_uniform(row)) text.rows.add(row);
      const Index i = text.drafted++;
      part.goes_on = part.outer->keep_drafting.more(row, i) &&
                     !part.outer->limits.ends_at(detail::at(part.seat->tokens(), i), i);
    }
  }

  // Whether the draft has failed. Its request then has the error: one of the inner loop must not look like one about the outer
  // loop's rows.
  template <class P>
  static bool failed(P& part) {
    std::exception_ptr& error = part.text->seat->error;
    if (!error) return part.outer->error != nullptr;
    part.outer->error = detail::error_of([&] {
      detail::with_error([&] { std::rethrow_exception(std::exchange(error, nullptr)); }, of_cascade);
    });
    return true;
  }
  static constexpr auto of_cascade = [](const InvalidDistribution& error) { return error.of("cascade"); };

  Feeds model_;
  Round round_;
  V verifier_;
  Index gamma_;
  Lengths lengths_;
  Texts texts_;
  detail::Call call_;
  Stats released_;       // of sequences that are no more
  detail::Turns turns_;  // of a Model and its drafter
  detail::Turn turn_;
};

template <class M, class D, class V = BlockVerifier>
CascadeDrafter(M&&, D&&, V = {}, Index = 4) -> CascadeDrafter<M, D, V>;

template <class M, class D, class V, class L>
CascadeDrafter(M&&, D&&, V, Index, L&&) -> CascadeDrafter<M, D, V, L>;

}  // namespace specdec
