// Drafts with a small model.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/cached_draft.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/for_one_text.hpp"
#include "specdec/draft/strategies/line.hpp"
#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/call.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// One draft's rows.
template <class Matrix>
struct RowsOfDraft {
  Matrix rows;
  Index vocab_size;

  /// Throws: InvalidArgument where the model returned a row of another vocabulary size.
  auto row(Index i) const {
    auto row = rows.row(i);
    check_shape("draft model", rows.rows(), row.vocab_size(), rows.rows(), vocab_size);
    return row;
  }
};
template <class Matrix>
RowsOfDraft(Matrix, Index) -> RowsOfDraft<Matrix>;

}  // namespace detail

/// Drafts with a model. A strategy says how. Reports the very rows that the tokens were drawn from.
///
///   ModelDrafter line{small};                                                                   // token after token
///   ModelDrafter tree{small, Tree{TreeShape::of_widths({3, 1, 1}), DrawnThenLikeliest{}}};      // level after level
///   ModelDrafter spares{small, Spares{4, {2, 1}}};
///   ModelDrafter sure{small, ConfidentTree{.nodes = 48}};
///
/// With a Model this is a OneTextDrafter. With a BatchModel this is a Drafter: the drafts of all sequences grow together, one
/// model call for each stage, and each sequence gets the draft that it would get alone.
///
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in. A strategy is settings, and
/// taken by value. Several drafters, or copies of one, may use one Model in turn (model/turn.hpp): a drafter that takes over
/// feeds its whole context again. A BatchModel serves one drafter, or a drafter and others under other numbers. The model's
/// vocabulary may be smaller or larger than the target's. The model is shown token 0 for a context token that it does not know:
/// this costs acceptance, never exactness. Near the end of a bounded context (context_size), drafts get shorter, then empty. No
/// more of a draft is fed than the model can drop again (reach). Where the model cannot draft (can_draft), drafts are empty.
/// Throws: InvalidArgument on an empty context, and on rows of another shape than asked for; what the model throws. With a
/// BatchModel only the request fails for an empty context, a row that is no distribution, a row of another size.
/// Random: the strategy's draws. Each request draws from its own source.
/// Cost: a model call for each stage; the draft with the most stages decides. The first call also takes in what of the context
/// the model has not cached (after full acceptance x_γ and Y). If a BatchModel's call has no room for all that the texts have not
/// read (DraftLimits::tokens_per_call), calls before it read all but as many tokens of each text as its target call may have. No
/// allocation in steady state. With a BatchModel that has fork(from, to), twins read their prompt once: see fork_context().
template <class M, class Strategy = Line>
class ModelDrafter : public detail::ForOneText<ModelDrafter<M, Strategy>, detail::OverFeeds<M>::one_text> {
  using Feeds = detail::OverFeeds<M>;
  using Value = typename Feeds::Value;
  using Base = detail::ForOneText<ModelDrafter, Feeds::one_text>;
  static_assert(detail::fits_model<Value>());
  static_assert(DraftStrategy<Strategy>, "the strategy is no specdec::DraftStrategy");
  static_assert(takes_trees<Value> || !Strategy::branches,
                "the draft model takes no trees, which this strategy drafts: see specdec::takes_trees, and "
                "specdec::PathByPath, with which any model takes them");

  using Output = std::remove_cvref_t<decltype(std::declval<Feeds&>().forward(std::span<const BatchFeed>{}))>;
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Growth = typename Strategy::template Growth<Row, has_stable_rows<Value>>;
  using Drafted = decltype(std::declval<const Growth&>().draft(Index{}));

  // The state of one sequence.
  struct Context {
    std::conditional_t<Strategy::branches, detail::CachedTree, detail::CachedLine> cached;
    Growth growth;
    bool begun = false;           // the model's cache has been cut to this draft's context
    Index family = -1;            // a number that it shares with its twins
    Index shared = unlimited;     // the most tokens they share: equal ones may stand for other images
    bool calls = false;           // next() has said that the model is to be called
    std::vector<Token> replaced;  // see tokens_in_vocabulary
  };

 public:
  static constexpr bool drafts_trees = Strategy::drafts_trees,
                        steady = is_steady<Strategy> && has_steady_rows<Value>;

  explicit ModelDrafter(M&& model)
    requires std::default_initializable<Strategy>
      : ModelDrafter(std::forward<M>(model), Strategy{}) {}
  /// Throws: what the strategy's check_settings() throws.
  ModelDrafter(M&& model, Strategy strategy)
      : model_(std::forward<M>(model)),
        strategy_(std::move(strategy)),
        turns_(detail::Turns::of<M>(model_.model())) {
    if constexpr (requires { strategy_.check_settings(); }) strategy_.check_settings();
  }

  using Base::draft;
  /// Grows all drafts, one stage after the other.
  template <class Request>
  void draft(std::span<Request> requests) & {
    detail::assign(asked_, std::ssize(requests), nullptr);
    for (std::size_t r = 0; r < requests.size(); ++r)
      requests[r].error = detail::error_of([&] { asked_[r] = &begin(requests[r]); });
    const auto withdraw = [this] {
      for (std::size_t k = 0; k < growing_.size(); ++k)
        fed(k).cached.withdraw(model_, call_.feeds()[k].sequence);
    };
    const auto call_once = [&] { detail::undo_on_error([&] { call(requests); }, withdraw); };
    if constexpr (can_fork<Value>)
      for (Request& request : requests)
        if (is_unread(request)) read_with_twins(request, requests);
    if constexpr (!Base::one_text)  // else no other text has a part in the calls
      while (wish_parts(requests)) call_once();
    while (wish(requests)) call_once();
  }

  Drafted drafted(Index sequence) const& { return contexts_.at(sequence).growth.draft(vocab_size()); }
  void keep(Index sequence, Index length) {
    if (!has_turn()) return;
    if (Context* const context = contexts_.find(sequence)) context->cached.keep(model_, sequence, length);
  }
  void release(Index sequence) {
    if (contexts_.find(sequence) == nullptr) return;
    contexts_.erase(sequence);
    if (has_turn()) model_.release(sequence);
  }

  /// A twin begins with a copy of what the model has read of its text. If that is nothing yet, the first of them that drafts
  /// reads the prompt by a call of its own, and those that draft in the same step get copies.
  void fork_context(Index from, Index to, Index length)
    requires can_fork<Value>
  {
    Context& other = contexts_.make(from);
    if (other.family < 0) other.family = families_++;
    Context& twin = contexts_.make(to);
    twin.family = other.family;
    twin.shared = std::min(length, other.shared);
    copy_context(from, to, length);
  }

  /// The model's addresses, if other drafters may refer to it, too.
  std::vector<const void*> identities() const { return detail::shared_identities<M>(model_.model()); }

 private:
  Index vocab_size() const { return model_.model().vocab_size(); }
  // Whether nobody has used a Model since. A model for many texts has contexts for all.
  bool has_turn() const { return !Base::one_text || turn_.lasts(turns_); }

  template <class Request>
  Context& begin(const Request& request) {
    Context& context = contexts_.make(request.sequence);
    context.growth.end();
    context.begun = context.calls = false;
    if (request.context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    const Index room =
        std::min(context_size(model_.model()) - std::ssize(request.context), reach(model_.model()));
    context.growth.begin(strategy_, request.limits, room);
    if (!detail::can_draft_after(model_.model(), request.sequence, std::ssize(request.context)))
      context.growth.end();
    return context;
  }

  void copy_context(Index from, Index to, Index length) {
    auto twin = contexts_.at(from).cached.twin();
    if (twin.size() == 0 || length == 0) return;
    model_.fork(from, to);
    twin.keep(model_, to, length);  // nothing throws from here on
    contexts_.at(to).cached = std::move(twin);
  }

  // Whether the draft needs a call. The strategy is asked once for each call.
  static bool is_growing(Context& context) { return context.calls = context.calls || context.growth.next(); }

  // Whether the model has read nothing of a twin for which it drafts.
  template <class Request>
  bool is_unread(const Request& request) {
    Context* const context = request.error ? nullptr : contexts_.find(request.sequence);
    return context && context->family >= 0 && context->cached.size() == 0 && is_growing(*context);
  }
  // A text that the model has not read gets a copy of what it has read of a twin. If that is nothing, and there are twins that
  // wait for it, the model reads it now, but for the last token, and they get copies of that.
  template <class Request>
  void read_with_twins(const Request& request, std::span<Request> requests) {
    Context& context = contexts_.at(request.sequence);
    const auto prompt = request.context.first(request.context.size() - 1);
    bool is_waited_for = false;
    for (const Request& other : requests) {
      if (&other == &request || other.error || contexts_.at(other.sequence).family != context.family)
        continue;
      const Index shared = std::min(context.shared, contexts_.at(other.sequence).shared),
                  common = std::min(detail::common_length(prompt, other.context), shared);
      if (detail::error_of([&] { copy_context(other.sequence, request.sequence, common); })) return;
      if (context.cached.size() > 0) return;
      is_waited_for |= is_unread(other);
    }
    if (!is_waited_for) return;
    while (context.cached.size() < std::ssize(prompt)) {
      BatchFeed feed = context_feed(request.sequence, prompt, context);
      feed.tokens =
          detail::first(feed.tokens, std::min(std::ssize(feed.tokens), request.limits.tokens_per_call));
      feed.rows = 0;
      model_.forward(std::span<const BatchFeed>(&feed, 1));
      context.cached.taken(feed, {});
    }
  }

  // The feed of the text's tokens that are not cached. Tokens that the model does not know become token 0.
  BatchFeed context_feed(Index sequence, std::span<const Token> text, Context& context) const {
    const Index cached = context.cached.size();
    const auto rest =
        detail::tokens_in_vocabulary(detail::after(text, cached), vocab_size(), context.replaced);
    return {{.tokens = rest, .from = cached, .rows = 1}, sequence};
  }

  Context& fed(std::size_t k) const { return *asked_[growing_[k]]; }

  // Collects the feeds of the drafts that still grow, if takes(feed, request, context), which may cut the feed.
  template <class Request, class Takes>
  void collect(std::span<Request> requests, const Takes& takes) {
    call_.clear();
    growing_.clear();
    for (std::size_t r = 0; r < requests.size(); ++r) {
      const Request& request = requests[r];
      if (request.error) continue;
      Context& context = *asked_[r];
      if (!is_growing(context)) continue;
      go_on(request, context);
      const DraftWish wish = context.growth.wish();
      BatchFeed feed =  // NOLINT: takes() may cut it
          wish.tokens.empty() ? context_feed(request.sequence, request.context, context)
                              : context.cached.feed(model_, request.sequence, wish);
      if (!takes(feed, request, context)) continue;
      call_.add(feed, feed.sequence);
      growing_.push_back(r);
    }
  }

  // Collects parts of the contexts, as many tokens as a call may have; false if the drafts' next calls have room for the rest.
  template <class Request>
  bool wish_parts(std::span<Request> requests) {
    const Index most = requests.empty() ? unlimited : requests.front().limits.tokens_per_call;
    if (most == unlimited) return false;
    Index left = most, unread = 0;
    collect(requests, [&](BatchFeed& feed, const Request& request, const Context&) {
      const Index size = std::ssize(feed.tokens);
      unread += size;
      const Index part = std::min(left, size - 1 - request.limits.nodes);
      if (part <= 0) return false;
      feed.tokens = detail::first(feed.tokens, part);
      feed.rows = 0;
      left -= part;
      return true;
    });
    return unread > most && !call_.empty();
  }

  // Collects the feeds of the drafts that still grow. Returns false if no draft does.
  template <class Request>
  bool wish(std::span<Request> requests) {
    collect(requests, [](const BatchFeed&, const Request&, Context& context) {
      return std::exchange(context.calls, false);  // true: next() is asked anew for the next call
    });
    return !call_.empty();
  }

  // Once for a draft: rolls the cache back to the context. Empties the cache of a Model that is new or that others used since.
  template <class Request>
  void go_on(const Request& request, Context& context) {
    if (std::exchange(context.begun, true)) return;
    if (!has_turn()) {
      turn_.take(turns_);
      context.cached = {};
      model_.keep(0, Index{0});
    }
    context.cached.go_on_with(model_, request.sequence, request.context);
  }

  template <class Request>
  void call(std::span<Request> requests) {
    decltype(auto) output = model_.forward(call_.feeds());
    const auto feeds = call_.feeds();
    for (std::size_t k = 0; k < feeds.size(); ++k) fed(k).cached.taken(feeds[k], fed(k).growth.wish());
    const auto rows = distributions(output);
    call_.check_rows("draft model", rows);
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      if (feeds[k].rows == 0) continue;
      Request& request = requests[growing_[k]];
      const detail::RowsOfDraft own{call_.rows_of(rows, static_cast<Index>(k)), vocab_size()};
      request.error = detail::error_of([&] {
        auto&& chance = as_chance(*request.source);
        fed(k).growth.take(own, chance, request.keep_drafting);
      });
    }
  }

  Feeds model_;
  Strategy strategy_;
  detail::Turns turns_;  // of a Model
  detail::Turn turn_;
  detail::PerSequence<Context> contexts_;
  std::vector<Context*> asked_;  // of each request
  detail::Call call_;
  std::vector<std::size_t> growing_;  // the request of each feed
  Index families_ = 0;
};

template <class M>
ModelDrafter(M&&) -> ModelDrafter<M>;
template <class M, class Strategy>
ModelDrafter(M&&, Strategy) -> ModelDrafter<M, Strategy>;

}  // namespace specdec
