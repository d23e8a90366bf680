// Drafts trunks and spares for many sequences with a small model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/batch_tree_drafter.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/strategies/growing_spares.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/known_tokens.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// SparesDrafter for a batch: drafts trunks and spares with a model of many contexts, a token of all of them in one call. A
/// sequence gets the tree that it would get alone.
///
///   specdec::BatchSparesDrafter drafter{small, 4, {2, 1}};
///
/// Trunks, spares and policies are those of SparesDrafter; a policy (std::cref) chooses one shape for all. The model may be
/// any BatchModel: it takes in lines.
/// A model passed as an lvalue is referred to and must outlive the drafter, and serves it alone; an rvalue is moved in.
/// The model's vocabulary may be smaller or larger than the target's. Tokens of the context that the model does not know
/// are shown to it as token 0, which costs acceptance, never exactness. Where its contexts are bounded (context_size) trunks
/// are no longer than one has room for, in the end there is none.
/// Throws: std::invalid_argument where SparesDrafter does; where the model throws, or returns another number of rows than
/// asked for. An empty context and a row that holds no distribution, or is of another size, are the failure of their own
/// request.
/// Random: of each request, from its source, what SparesDrafter draws. Cost: as many calls of the model as the trunks of the
/// largest tree have tokens; the first also takes in what the model has not seen of each context. A pass over each row that
/// has spares, and a copy of each. No allocation in steady state.
template <class M, class Policy = void>
class BatchSparesDrafter {
  using Value = std::remove_reference_t<M>;
  static_assert(BatchModel<Value>,
                "the draft model is no specdec::BatchModel: see specdec::ModelPerSequence");

  using Output = std::remove_cvref_t<decltype(std::declval<Value&>().forward(std::span<const BatchFeed>{}))>;
  using Rows = StoredRows<RowOf<decltype(distributions(std::declval<const Output&>()))>, false>;
  using Tree = detail::GrowingSpares<Rows, Rows>;
  static constexpr bool follows_policy = !std::is_void_v<Policy>;

  struct Context {
    Index seen = 0;  // tokens of it that the model holds
    detail::TakenIn taken_in;
    Tree tree;
    std::vector<Token> known;  // what the model is fed, where it does not know all tokens
  };

 public:
  BatchSparesDrafter(M&& model, std::reference_wrapper<const Policy> policy)
    requires follows_policy
      : model_(std::forward<M>(model)), policy_(&policy.get()) {}

  BatchSparesDrafter(M&& model, Index trunk, std::vector<Index> spares, Index second_trunk = 0)
    requires(!follows_policy)
      : model_(std::forward<M>(model)), plan_(trunk, std::move(spares), second_trunk) {}

  template <RandomSource S>
  void draft(std::span<TreeDraftRequest<S>> requests) & {
    if constexpr (follows_policy) plan_.take(policy_->shape());
    for (TreeDraftRequest<S>& request : requests) {
      Context& context = contexts_[request.sequence];
      context.tree.end();
      request.error = detail::error_of([&] { begin(request, context); });
    }
    while (feed(requests)) {
      decltype(auto) output = model_.forward(std::span<const BatchFeed>(feeds_));
      for (const std::size_t r : drafting_) take_in(requests[r]);
      const auto rows = distributions(output);
      detail::check_row_count(rows, std::ssize(feeds_), model_.vocab_size());
      for (std::size_t k = 0; k < drafting_.size(); ++k)
        grow(requests[drafting_[k]], rows, static_cast<Index>(k));
    }
  }

  TreeDraft<RowSpan<typename Tree::Row>> drafted(Index sequence) const& {
    return contexts_.at(sequence).tree.draft(model_.vocab_size());
  }

  void keep(Index sequence, Index length) {
    const auto found = contexts_.find(sequence);
    if (found != contexts_.end()) keep(sequence, found->second, length);
  }

  void release(Index sequence) {
    if (contexts_.erase(sequence) > 0) model_.release(sequence);
  }

 private:
  // Where the context has gone on with a spare, the model has taken in the trunk. At least the last token is fed, whose
  // row is wanted.
  template <class Request>
  void begin(const Request& request, Context& context) {
    if (request.context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    const Index size = std::ssize(request.context);
    keep(request.sequence, context, std::min(context.taken_in.agreed(request.context), size - 1));
    context.taken_in.begin(request.context.size());
    context.tree.begin(plan_, request.limits, detail::room_behind(request.context, model_));
  }

  // What those are fed that draw another token. False where none does.
  template <class Request>
  bool feed(std::span<Request> requests) {
    feeds_.clear();
    drafting_.clear();
    for (std::size_t r = 0; r < requests.size(); ++r) {
      Context& context = contexts_.at(requests[r].sequence);
      if (!context.tree.next()) continue;
      feeds_.push_back(feed_of(requests[r], context));
      drafting_.push_back(r);
    }
    return !feeds_.empty();
  }

  template <class Request>
  BatchFeed feed_of(const Request& request, Context& context) {
    if (context.tree.anew()) {
      keep(request.sequence, context, std::ssize(request.context));
      context.taken_in.begin(request.context.size());
    }
    context.taken_in.reserve();
    const auto unseen = context.tree.at_context()
                            ? request.context.subspan(static_cast<std::size_t>(context.seen))
                            : std::span(&context.tree.token(), 1);
    return {{.tokens = detail::known_tokens(unseen, model_.vocab_size(), context.known),
             .from = context.seen,
             .rows = 1},
            request.sequence};
  }

  // What the request has been fed.
  template <class Request>
  void take_in(const Request& request) {
    Context& context = contexts_.at(request.sequence);
    if (context.tree.at_context()) {
      context.seen = std::ssize(request.context);
    } else {
      ++context.seen;
      context.taken_in.add(context.tree.token());
    }
  }

  // By row k of a call.
  template <class Request, class Output>
  void grow(Request& request, const Output& rows, Index k) {
    Tree& tree = contexts_.at(request.sequence).tree;
    request.error = detail::error_of([&] {
      auto&& chance = as_chance(*request.source);
      tree.grow(detail::row_of_model(rows, k, std::ssize(feeds_), model_.vocab_size()), chance);
    });
    if (request.error) tree.end();
  }

  void keep(Index sequence, Context& context, Index length) {
    if (length >= context.seen) return;
    context.seen = std::max<Index>(length, 0);
    model_.keep(sequence, context.seen);
  }

  M model_;
  const Policy* policy_ = nullptr;
  detail::SparesPlan plan_;
  std::unordered_map<Index, Context> contexts_;
  std::vector<BatchFeed> feeds_;       // of one call
  std::vector<std::size_t> drafting_;  // whose they are
};

template <class M>
BatchSparesDrafter(M&&, Index, std::vector<Index>) -> BatchSparesDrafter<M>;
template <class M>
BatchSparesDrafter(M&&, Index, std::vector<Index>, Index) -> BatchSparesDrafter<M>;
template <class M, class Policy>
BatchSparesDrafter(M&&, std::reference_wrapper<Policy>) -> BatchSparesDrafter<M, std::remove_const_t<Policy>>;

}  // namespace specdec
