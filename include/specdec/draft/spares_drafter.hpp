// Drafts a line of tokens, and at each of them what else the model thought likely.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft_model.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/draft/tree_shape.hpp"
#include "specdec/error.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/likeliest.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/one_hot.hpp"
#include "specdec/rows/row_span.hpp"
#include "specdec/rows/stored_rows.hpp"
#include "specdec/rows/variant_rows.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec {

/// Trunk and spares: drafts autoregressively with a model, the trunk, and beside each drawn token chooses the likeliest
/// other ones of its row, the spares, for which no further call is needed.
///
///   SparesDrafter drafter{small, 4, {2, 1}};    // 4 tokens; 2 spares beside the first, 1 beside each of the others
///   SparesDrafter drafter{small, 4, {2, 1}, 3}; // and behind the likeliest spare of the first a trunk of 3
///
/// A drawn token is the eldest of its siblings and reports the very row it was drawn from; spares follow, the likeliest
/// first, of equals the lower id first, and report one-hot rows. spares[d] is for depth d, the last entry for all
/// depths beyond it; where fewer tokens have any probability, there are fewer. The second trunk stands behind the
/// likeliest spare of the first token, if there is one, and has no spares. Limits take away the deepest tokens first, of
/// a level that of the second trunk, then the unlikeliest spares.
/// Where a policy chooses (CostOptimalSpares), it is handed in as std::cref(policy): of its shape() the eldest children are
/// the trunk, their siblings spares.
/// The model may be any Model: it takes in one trunk after the other. One passed as an lvalue is referred to and must
/// outlive the drafter; an rvalue is moved in. Drafters that refer to one model, and copies of a drafter, may take turns: whoever
/// takes over feeds its context anew. The model's vocabulary may be smaller or larger than the target's. Tokens of the
/// context that the model does not know are shown to it as token 0, which costs acceptance, never exactness. Where its
/// context is bounded (context_size) trunks are no longer than that has room for, in the end there is none.
/// Throws: std::invalid_argument where a trunk or a number of spares is negative, or all make more than longest_draft
/// tokens.
/// Random: one draw per token of a trunk, by ascending number: the first token, the second trunk, the rest of the trunk.
/// Cost: a call of the model for each, and a pass over its row where it has spares; the first call also takes in what
/// the model has not seen of the context. No allocation in steady state.
template <class M, class Policy = void>
class SparesDrafter {
  using DraftModel = detail::DraftModel<M>;
  using Behind = typename DraftModel::Rows;
  // Of the second trunk the model forgets the rows before the draft is made.
  using Copies = StoredRows<typename DraftModel::Row, false>;
  static constexpr bool follows_policy = !std::is_void_v<Policy>;
  using Row = VariantRow<typename Behind::Stored, OneHotRow, typename Copies::Stored>;

 public:
  SparesDrafter(M&& model, std::reference_wrapper<const Policy> policy)
    requires follows_policy
      : model_(std::forward<M>(model)), policy_(&policy.get()) {}

  SparesDrafter(M&& model, Index trunk, std::vector<Index> spares, Index second_trunk = 0)
    requires(!follows_policy)
      : model_(std::forward<M>(model)),
        trunk_(trunk),
        spares_(std::move(spares)),
        second_trunk_(second_trunk) {
    detail::check_drafted("trunk", trunk);
    detail::check_drafted("second_trunk", second_trunk);
    for (std::size_t d = 0; d < spares_.size(); ++d)
      if (spares_[d] < 0 || spares_[d] > longest_draft)
        detail::invalid_argument("spares[", d, "] = ", spares_[d], " is outside 0..", longest_draft,
                                 ", the longest draft");
    Index left = longest_draft - second_trunk;
    for (Index d = 0; d < trunk && left >= 0; ++d) left -= 1 + spares_at(d);
    if (left < 0)
      detail::invalid_argument("trunk = ", trunk, ", second_trunk = ", second_trunk,
                               " and the spares make more than ", longest_draft,
                               " tokens, the longest draft");
  }

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  TreeDraft<RowSpan<Row>> draft(std::span<const Token> context, const TreeLimits& limits, Source& source) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    clear();
    if constexpr (follows_policy) take_shape(policy_->shape());
    const Index depth = std::min(limits.depth, model_.room(context));
    const Index trunk = std::min(std::max(trunk_, limits.trunk), depth);
    const Index nodes = trunk > 0 ? limits.nodes : 0;
    if (nodes > 0) {
      begin(context);
      grow(model_.forward(model_.unseen(context)), -1, 0, nodes - to_come(limits, 0), chance);
      if (const Index length = limits.trunk > 0 ? 0 : second_length(trunk, depth, nodes);
          length > 0 && tokens_.size() > 1) {
        grow_second(length, chance);
        model_.truncate(std::ssize(context));
        taken_in_.clear();
      }
    }
    Index last = 0;  // of the trunk
    for (Index d = 1; d < trunk && std::ssize(tokens_) < nodes; ++d) {
      const Index drawn = std::ssize(tokens_);
      grow(take_in(last), last, d, nodes - to_come(limits, d), chance);
      last = drawn;
    }
    return {tokens_, RowSpan<Row>(rows_, model_.vocab_size()), parents_};
  }

  /// The model, where others may refer to it, too.
  template <class Visit>
    requires detail::MayBeShared<M>
  void each_identity(const Visit& visit) const {
    model_.each_identity(visit);
  }

  void truncate(Index length) { model_.truncate(length); }

 private:
  Index spares_at(Index depth) const {
    if (spares_.empty()) return 0;
    return spares_[static_cast<std::size_t>(std::min(depth, std::ssize(spares_) - 1))];
  }

  // Beyond the shape's trunk, where a rule needs a longer one, there are no spares.
  void take_shape(const TreeShape& shape) {
    spares_.clear();
    for (Index trunk = -1; shape.children(trunk) > 0;) {
      spares_.push_back(shape.children(trunk) - 1);
      trunk = shape.first_child(trunk);
    }
    trunk_ = std::ssize(spares_);
    spares_.push_back(0);
  }

  // How many tokens of the trunk have to find room behind depth d, whatever the spares.
  static Index to_come(const TreeLimits& limits, Index d) { return std::max<Index>(limits.trunk - d - 1, 0); }

  void clear() {
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    behind_.clear();
    second_behind_.clear();
  }

  // Where the context has gone on with a spare, the model has taken in the trunk.
  void begin(std::span<const Token> context) {
    model_.take();
    for (std::size_t i = 0; i < taken_in_.size(); ++i) {
      const std::size_t at = from_ + i;
      if (at < context.size() && context[at] == taken_in_[i]) continue;
      model_.truncate(static_cast<Index>(at));
      break;
    }
    taken_in_.clear();
    from_ = context.size();
  }

  decltype(auto) take_in(Index node) {
    const Token token = tokens_[static_cast<std::size_t>(node)];
    taken_in_.reserve(taken_in_.size() + 1);
    decltype(auto) output = model_.forward(std::span(&token, 1));
    taken_in_.push_back(token);
    return output;
  }

  // How much of the second trunk is within the limits: level by level, behind what else a level has.
  Index second_length(Index trunk, Index depth, Index nodes) const {
    const Index most = std::min(second_trunk_, depth - 1);
    Index left = nodes - 1 - spares_at(0), length = 0;
    while (length < most) {
      const Index d = length + 1;
      left -= 1 + (d < trunk ? 1 + spares_at(d) : 0);
      if (left < 0) break;
      length = d;
    }
    return length;
  }

  // A token of the trunk, drawn from what the model has returned, and its spares.
  template <class Output, class C>
  void grow(const Output& output, Index parent, Index depth, Index nodes, C& chance) {
    const auto q = model_.row(distributions(output));
    const auto name = detail::NamedRow(q, "draft", std::ssize(tokens_));
    const Token drawn = chance.draw(name);
    behind_.add(q);
    add(drawn, parent, Row(std::in_place_index<0>, behind_[depth]));
    const Index spares = std::min(spares_at(depth), nodes - std::ssize(tokens_));
    if (spares > 0) name.named([&] { add_spares(q, drawn, parent, spares); });
  }

  template <class Q>
  void add_spares(const Q& q, Token drawn, Index parent, Index count) {
    for (const LikelyToken& likely : likeliest_.of(q, count + 1))
      if (likely.token != drawn && count-- > 0)
        add(likely.token, parent, Row(std::in_place_index<1>, OneHotRow(likely.token)));
  }

  // Behind the first spare, which is token 1.
  template <class C>
  void grow_second(Index length, C& chance) {
    Index last = 1;
    for (Index i = 0; i < length; ++i) {
      const auto& output = take_in(last);
      const auto q = model_.row(distributions(output));
      const Index drawn = std::ssize(tokens_);
      const Token token = chance.draw(detail::NamedRow(q, "draft", drawn));
      second_behind_.add(q);
      add(token, last, Row(std::in_place_index<2>, second_behind_[i]));
      last = drawn;
    }
  }

  void add(Token token, Index parent, const Row& row) {
    tokens_.push_back(token);
    rows_.push_back(row);
    parents_.push_back(parent);
  }

  DraftModel model_;
  const Policy* policy_ = nullptr;
  Index trunk_ = 0;
  std::vector<Index> spares_;
  Index second_trunk_ = 0;
  std::vector<Token> tokens_;
  std::vector<Row> rows_;
  std::vector<Index> parents_;
  Behind behind_;  // the rows that the trunk was drawn from
  Copies second_behind_;
  std::vector<Token> taken_in_;  // of the trunk, behind the first from_ tokens
  std::size_t from_ = 0;
  LikeliestTokens likeliest_;
};

template <class M>
SparesDrafter(M&&, Index, std::vector<Index>) -> SparesDrafter<M>;
template <class M>
SparesDrafter(M&&, Index, std::vector<Index>, Index) -> SparesDrafter<M>;
template <class M, class Policy>
SparesDrafter(M&&, std::reference_wrapper<Policy>) -> SparesDrafter<M, std::remove_const_t<Policy>>;

}  // namespace specdec
