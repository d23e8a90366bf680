// Drafts for many sequences with a small model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/batch_drafter.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/known_tokens.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// ModelDrafter for a batch: drafts autoregressively with a model of many contexts, token i of all drafts in one call, and
/// reports the very rows it drew from. A sequence gets the draft that it would get alone.
///
/// A model passed as an lvalue is referred to and must outlive the drafter, and serves it alone; an rvalue is moved in.
/// The model's vocabulary may be smaller or larger than the target's. Tokens of the context that the model does not know
/// are shown to it as token 0, which costs acceptance, never exactness. Where its contexts are bounded (context_size) it
/// proposes as many tokens as one has room for, in the end none.
/// Throws: where the model throws, or returns rows of another shape than asked for. An empty context and a row that holds
/// no distribution are the failure of their own request.
/// Random: one draw per token, from the request's source. Cost: as many calls of the model as the longest draft has
/// tokens; the first also takes in what the model has not seen of each context. No allocation in steady state.
template <class M>
class BatchModelDrafter {
  using Value = std::remove_reference_t<M>;
  static_assert(BatchModel<Value>,
                "the draft model is no specdec::BatchModel: see specdec::ModelPerSequence");

  using Output = std::remove_cvref_t<decltype(std::declval<Value&>().forward(std::span<const BatchFeed>{}))>;
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Rows = StoredRows<Row, false>;

  struct Context {
    Index seen = 0;  // tokens of it that the model holds
    std::vector<Token> tokens;
    Rows rows;
    std::vector<Token> known;  // what the model is fed, where it does not know all tokens
    bool ended = false;
  };

 public:
  explicit BatchModelDrafter(M&& model) : model_(std::forward<M>(model)) {}

  template <class Request>
  void draft(std::span<Request> requests) & {
    for (Request& request : requests) begin(request);
    for (Index i = 0; feed(requests, i); ++i) {
      decltype(auto) output = model_.forward(std::span<const BatchFeed>(feeds_));
      for (const BatchFeed& feed : feeds_) contexts_.at(feed.sequence).seen += std::ssize(feed.tokens);
      const auto rows = distributions(output);
      detail::check_row_count(rows, std::ssize(feeds_), model_.vocab_size());
      for (std::size_t k = 0; k < drafting_.size(); ++k)
        grow(requests[drafting_[k]], rows, static_cast<Index>(k), i);
    }
  }

  Draft<RowSpan<typename Rows::Stored>> drafted(Index sequence) const& {
    const Context& context = contexts_.at(sequence);
    return {context.tokens, context.rows.first(context.rows.size(), model_.vocab_size())};
  }

  void keep(Index sequence, Index length) {
    const auto found = contexts_.find(sequence);
    if (found != contexts_.end()) keep(sequence, found->second, length);
  }

  void release(Index sequence) {
    if (contexts_.erase(sequence) > 0) model_.release(sequence);
  }

 private:
  // What was drafted is of the context now, or gone: at least the last token is fed, whose row is wanted.
  template <class Request>
  void begin(Request& request) {
    Context& context = contexts_[request.sequence];
    context.tokens.clear();
    context.rows.clear();
    context.ended = request.context.empty();
    if (context.ended)
      request.error = detail::error_of(
          [] { detail::invalid_argument("context is empty: there is nothing to continue"); });
    else keep(request.sequence, context, std::ssize(request.context) - 1);
  }

  // What those are fed that draft a token number i. False where none does.
  template <class Request>
  bool feed(std::span<Request> requests, Index i) {
    feeds_.clear();
    drafting_.clear();
    for (std::size_t r = 0; r < requests.size(); ++r) {
      Context& context = contexts_.at(requests[r].sequence);
      if (context.ended || i >= most(requests[r])) continue;
      const auto unseen = i > 0 ? std::span<const Token>(context.tokens).last(1)
                                : requests[r].context.subspan(static_cast<std::size_t>(context.seen));
      const auto tokens = detail::known_tokens(unseen, model_.vocab_size(), context.known);
      feeds_.push_back(BatchFeed{{.tokens = tokens, .from = context.seen, .rows = 1}, requests[r].sequence});
      drafting_.push_back(r);
    }
    return !feeds_.empty();
  }

  template <class Request>
  Index most(const Request& request) const {
    return std::min(request.gamma, detail::room_behind(request.context, model_));
  }

  // By row k of a call.
  template <class Request, class Output>
  void grow(Request& request, const Output& rows, Index k, Index i) {
    Context& context = contexts_.at(request.sequence);
    request.error = detail::error_of([&] {
      const auto q = detail::row_of_model(rows, k, std::ssize(feeds_), model_.vocab_size());
      if (!request.goes_on(q, i)) {
        context.ended = true;
        return;
      }
      auto&& chance = as_chance(*request.source);
      const detail::NamedRow name(q, "draft", i);
      context.tokens.push_back(chance.draw(name));
      context.rows.add(name);
    });
    if (request.error) context.ended = true;
  }

  void keep(Index sequence, Context& context, Index length) {
    if (length >= context.seen) return;
    context.seen = std::max<Index>(length, 0);
    model_.keep(sequence, context.seen);
  }

  M model_;
  std::unordered_map<Index, Context> contexts_;
  std::vector<BatchFeed> feeds_;       // of one call
  std::vector<std::size_t> drafting_;  // whose they are
};

template <class M>
BatchModelDrafter(M&&) -> BatchModelDrafter<M>;

}  // namespace specdec
