// Drafts trees for many sequences with a small model.
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
#include "specdec/draft/strategies/growing_tree.hpp"
#include "specdec/draft/strategies/open_tree.hpp"
#include "specdec/draft/strategies/siblings.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/known_tokens.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// ModelTreeDrafter for a batch: drafts trees with a model of many contexts, a level of all trees in one call, and reports
/// the very rows it drew from, given the elder siblings. A sequence gets the tree that it would get alone.
///
///   specdec::BatchModelTreeDrafter drafter{small, TreeShape::of_widths({4, 2, 1}), WithoutReplacement{}};
///
/// Siblings, shapes and policies are those of ModelTreeDrafter; a policy (std::cref) chooses one shape for all.
/// A model passed as an lvalue is referred to and must outlive the drafter, and serves it alone; an rvalue is moved in.
/// The model's vocabulary may be smaller or larger than the target's. Tokens of the context that the model does not know
/// are shown to it as token 0, which costs acceptance, never exactness. Where its contexts are bounded (context_size) a
/// tree has no more nodes with children than one has room for, in the end no node.
/// Throws: where the model throws, or returns another number of rows than asked for. An empty context and a row that holds
/// no distribution, or is of another size, are the failure of their own request.
/// Random: of each request, from its source, one draw per token that is drawn, by ascending number. Cost: as many calls of
/// the model as the deepest tree has levels; the first also takes in what the model has not seen of each context (a path of
/// the last tree that the context went on with it keeps), the others all nodes of a level that have children. No
/// allocation in steady state.
template <class M, class Siblings, class Shape = TreeShape>
class BatchModelTreeDrafter {
  using Value = std::remove_reference_t<M>;
  static_assert(
      takes_trees<Value>,
      "the draft model takes no trees (specdec::takes_trees): it has no keep(sequence, path), or is no "
      "specdec::BatchModel at all (specdec::ModelPerSequence makes one of a model for one text)");

  using Output = std::remove_cvref_t<decltype(std::declval<Value&>().forward(std::span<const BatchFeed>{}))>;
  using Tree =
      detail::GrowingTree<StoredRows<RowOf<decltype(distributions(std::declval<const Output&>()))>, false>,
                          Siblings>;

  struct Context {
    Index seen = 0;         // tokens of it that the model holds
    detail::OpenTree open;  // and what it holds behind them
    Tree tree;
    std::vector<Token> known;  // what the model is fed, where it does not know all tokens
  };

 public:
  BatchModelTreeDrafter(M&& model, const Shape& shape, Siblings siblings)
      : model_(std::forward<M>(model)), shape_(shape), siblings_(std::move(siblings)) {}

  template <RandomSource S>
  void draft(std::span<TreeDraftRequest<S>> requests) & {
    for (TreeDraftRequest<S>& request : requests) {
      Context& context = contexts_[request.sequence];
      context.tree.end();
      request.error = detail::error_of([&] { begin(request, context); });
    }
    while (feed(requests)) {
      try {
        call(requests);
      } catch (...) {  // it may have closed trees
        for (const BatchFeed& feed : feeds_) close(feed.sequence, contexts_.at(feed.sequence));
        throw;
      }
    }
  }

  TreeDraft<RowSpan<typename Tree::Row>> drafted(Index sequence) const& {
    return contexts_.at(sequence).tree.draft(model_.vocab_size());
  }

  void keep(Index sequence, Index length) {
    const auto found = contexts_.find(sequence);
    if (found == contexts_.end()) return;
    Context& context = found->second;
    if (context.open.lasts(length - std::min(length, context.seen)))
      return;  // the next context tells which path
    close(sequence, context, length);
  }

  void release(Index sequence) {
    if (contexts_.erase(sequence) > 0) model_.release(sequence);
  }

  const TreeShape& shape() const& { return detail::shape_of(shape_); }
  const TreeShape& shape() const&& = delete;

 private:
  template <class Request>
  void begin(const Request& request, Context& context) {
    if (request.context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    go_on(request, context);
    const Index room = context_size(model_) - std::ssize(request.context);
    context.tree.begin(shape(), detail::nodes_with_room(shape(), request.limits, room));
  }

  // The model goes on with a path of its tree, or without. At least the last token is fed, whose row is wanted.
  template <class Request>
  void go_on(const Request& request, Context& context) {
    const std::span<const Index> path = context.open.path(request.context, context.seen);
    if (!path.empty()) {
      model_.keep(request.sequence, path);
      context.seen += std::ssize(path);
      context.open.clear();
    }
    close(request.sequence, context, std::ssize(request.context) - 1);
  }

  // Forgets the tree, and of the context what is beyond the length.
  void close(Index sequence, Context& context, Index length = unlimited) {
    if (context.open.empty() && length >= context.seen) return;
    context.open.clear();
    context.seen = std::clamp<Index>(length, 0, context.seen);
    model_.keep(sequence, context.seen);
  }

  // What those are fed whose trees have another level. False where none has.
  template <class Request>
  bool feed(std::span<Request> requests) {
    feeds_.clear();
    drafting_.clear();
    asked_ = 0;
    for (std::size_t r = 0; r < requests.size(); ++r) {
      Context& context = contexts_.at(requests[r].sequence);
      if (!context.tree.next_level()) continue;
      feeds_.push_back(feed_of(requests[r], context));
      drafting_.push_back(r);
      asked_ += context.tree.level_size();
    }
    return !feeds_.empty();
  }

  template <class Request>
  BatchFeed feed_of(const Request& request, Context& context) const {
    const Tree& tree = context.tree;
    if (!tree.at_context()) {
      context.open.reserve(tree.level_tokens().size());
      return {{.tokens = tree.level_tokens(),
               .from = context.seen,
               .rows = tree.level_size(),
               .parents = tree.level_parents()},
              request.sequence};
    }
    const auto unseen = request.context.subspan(static_cast<std::size_t>(context.seen));
    return {{.tokens = detail::known_tokens(unseen, model_.vocab_size(), context.known),
             .from = context.seen,
             .rows = 1},
            request.sequence};
  }

  // Another level of the trees.
  template <class Request>
  void call(std::span<Request> requests) {
    decltype(auto) output = model_.forward(std::span<const BatchFeed>(feeds_));
    for (const BatchFeed& feed : feeds_) take_in(feed);
    const auto rows = distributions(output);
    detail::check_row_count(rows, asked_, model_.vocab_size());
    Index row = 0;
    for (const std::size_t r : drafting_) row = grow(requests[r], rows, row);
  }

  void take_in(const BatchFeed& feed) {
    Context& context = contexts_.at(feed.sequence);
    if (feed.parents.empty()) context.seen += std::ssize(feed.tokens);
    else context.open.add(feed.tokens, feed.parents);
  }

  // A level of a tree, by its rows of a call, from `row` on. Where those of the next one begin.
  template <class Request, class Rows>
  Index grow(Request& request, const Rows& rows, Index row) {
    Tree& tree = contexts_.at(request.sequence).tree;
    const Index size = tree.level_size();
    request.error = detail::error_of([&] {
      for (Index i = 0; i < size; ++i)
        tree.take(detail::row_of_model(rows, row + i, asked_, model_.vocab_size()));
      auto&& chance = as_chance(*request.source);
      tree.grow(siblings_, chance);
    });
    if (request.error) tree.end();
    return row + size;
  }

  M model_;
  Shape shape_;
  Siblings siblings_;
  std::unordered_map<Index, Context> contexts_;
  std::vector<BatchFeed> feeds_;       // of one call
  std::vector<std::size_t> drafting_;  // whose they are
  Index asked_ = 0;                    // rows of the call
};

template <class M, class Siblings>
BatchModelTreeDrafter(M&&, const TreeShape&, Siblings) -> BatchModelTreeDrafter<M, Siblings>;

template <class M, class Policy, class Siblings>
BatchModelTreeDrafter(M&&, std::reference_wrapper<Policy>, Siblings)
    -> BatchModelTreeDrafter<M, Siblings, std::reference_wrapper<Policy>>;

}  // namespace specdec
