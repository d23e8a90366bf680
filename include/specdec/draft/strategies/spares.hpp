// Trunk and spares: a drawn line of tokens, and beside each token the other tokens that the model thought likely.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/strategies/strategy.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// How long the trunks are, and how many spares stand beside each token of the first trunk.
class SparesPlan {
 public:
  SparesPlan() = default;

  /// Throws: InvalidArgument if a number is negative, or if all tokens together are more than longest_draft.
  SparesPlan(Index trunk, std::vector<Index> spares, Index second_trunk)
      : trunk_(trunk), second_trunk_(second_trunk), spares_(std::move(spares)) {
    check_drafted("trunk", trunk);
    check_drafted("second_trunk", second_trunk);
    for (std::size_t d = 0; d < spares_.size(); ++d)
      if (spares_[d] < 0 || spares_[d] > longest_draft)
        invalid_argument("spares[", d, "] = ", spares_[d], " is outside 0..", longest_draft,
                         ", the longest draft");
    Index left = longest_draft - second_trunk;
    for (Index d = 0; d < trunk && left >= 0; ++d) left -= 1 + spares_at(d);
    if (left < 0)
      invalid_argument("trunk = ", trunk, ", second_trunk = ", second_trunk,
                       " and the spares make more than ", longest_draft, " tokens, the longest draft");
  }

  /// Becomes the part of a plan that fits within the limits of a draft. It is fixed before anything is drawn. If a row has too
  /// few tokens for its spares, the places stay empty. Gives out the nodes level by level: the token of the trunk, its spares,
  /// the token of the second trunk. No path has more than `room` tokens.
  void set_within(const SparesPlan& plan, const DraftLimits& limits, Index room) {
    spares_.clear();
    trunk_ = second_trunk_ = 0;
    const Index depth = std::min(limits.depth, room);
    const Index trunk = std::min(plan.trunk_, depth);
    if (trunk < 1) return;
    const Index end = std::min(depth, std::max(trunk, plan.second_trunk_ + 1));
    Index left = limits.nodes;
    for (Index d = 0; d < end && left > 0; ++d) {
      if (d < trunk) {
        spares_.push_back(std::min(left - 1, plan.spares_at(d)));
        left -= 1 + spares_.back();
      }
      if (spares_.front() > 0 && left > 0 && d > 0 && d <= plan.second_trunk_) {
        second_trunk_ = d;
        --left;
      }
    }
    trunk_ = std::ssize(spares_);
  }

  Index trunk() const { return trunk_; }
  Index second_trunk() const { return second_trunk_; }
  /// How many spares stand beside the trunk's token at this depth; the first token is at depth 0.
  Index spares_at(Index depth) const {
    if (spares_.empty()) return 0;
    return spares_[static_cast<std::size_t>(std::min(depth, std::ssize(spares_) - 1))];
  }

 private:
  Index trunk_ = 0, second_trunk_ = 0;
  std::vector<Index> spares_;
};

}  // namespace detail

/// Drafts a line, the trunk, and spares beside each drawn token: the likeliest others of its row. They need no call of the model.
///
///   Spares{4, {2, 1}}       // 4 tokens; 2 spares beside the first, 1 beside each of the others
///   Spares{4, {2, 1}, 3}    // and after the first token's likeliest spare a second trunk of 3
///
/// A drawn token is the eldest of its siblings and reports the very row that it was drawn from. The spares follow, the likeliest
/// first (among equals the lower id first), and report one-hot rows. spares[d] is for depth d; the last entry is also for all
/// greater depths. If too few tokens have positive probability, there are fewer spares; no other token takes their places. The
/// second trunk follows the likeliest spare of the first token, if there is one, and has no spares. Limits remove the deepest
/// level first. Within a level they first remove the second trunk's token, then the least likely spares. A draft length that
/// looks at rows (DraftLength's more) may end the first trunk early. The model need not take trees: it takes in one trunk after
/// the other. Near the end of a bounded context trunks get shorter: see ModelDrafter. A row in which no token has a positive
/// probability ends its trunk. A stop token ends its trunk, too (DraftLimits::ends_at).
/// Throws: InvalidArgument if a trunk or a number of spares is negative, or if all tokens together are more than longest_draft.
/// Random: one draw per token of a trunk, by ascending number: the first token, the second trunk, the rest of the trunk.
/// Cost: a model call for each drawn token, and a pass over its row where it has spares.
class Spares {
 public:
  static constexpr bool drafts_trees = true, branches = false;

  Spares(Index trunk, std::vector<Index> spares, Index second_trunk = 0)
      : plan_(trunk, std::move(spares), second_trunk) {}

  template <class Q, bool stable>
  class Growth;

 private:
  detail::SparesPlan plan_;
};

/// Grows token by token: first the token after the context, then the second trunk, then the rest of the trunk.
template <class Q, bool stable>
class Spares::Growth {
  using Rows = StoredRows<Q, stable>;
  using Copies = StoredRows<Q, false>;
  using Row = VariantRow<typename Rows::Stored, OneHotRow, typename Copies::Stored>;

  struct Trunk {
    Index left = 0;   // tokens to draw
    Index last = -1;  // the token after which they come
    Index depth = 0;  // of that token
  };

 public:
  void begin(Spares& strategy, const DraftLimits& limits, Index room) {
    plan_.set_within(strategy.plan_, limits, detail::longest_line(room));
    limits_ = limits;
    trunk_ = {.left = plan_.trunk()};
    second_ = {};
    detail::clear(tree_, rows_, after_, second_after_);
  }
  void end() { trunk_.left = second_.left = 0; }

  bool next() const { return second_.left > 0 || trunk_.left > 0; }
  /// The first trunk's rest does not follow the second trunk. So after the second trunk the cache goes back to the context.
  DraftWish wish() const {
    const Trunk& trunk = second_.left > 0 ? second_ : trunk_;
    if (trunk.depth == 0) return {};
    return {.tokens = detail::part(tree_.tokens(), trunk.last, 1), .kept = trunk.depth - 1};
  }

  /// The next token, from the row before it, and its spares.
  template <class Output, class C, class KeepDrafting>
  void take(const Output& output, C& chance, const KeepDrafting& keep_drafting) {
    const auto q = detail::in_row("draft", tree_.size(), [&] { return output.row(0); });
    const detail::NamedRow name(q, "draft", tree_.size());
    const bool dead_end = detail::is_dead_end(name);
    if (second_.left > 0) {
      if (dead_end) second_.left = 0;
      else grow<2>(second_, second_after_, name, chance);
      return;
    }
    if (dead_end) return end();
    const Index depth = trunk_.depth;
    grow<0>(trunk_, after_, name, chance);
    if (const Index spares = plan_.spares_at(depth); spares > 0) name.named([&] { add_spares(q, spares); });
    if (!keep_drafting.more(q, depth)) trunk_.left = 0;
    constexpr Index first_spare = 1;
    if (depth == 0 && tree_.size() > first_spare && !limits_.ends_at(tree_.token(first_spare), depth))
      second_ = {.left = plan_.second_trunk(), .last = first_spare, .depth = 1};
  }

  Draft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tree_.tokens(), RowSpan<Row>(rows_, vocab_size), tree_.parents()};
  }

 private:
  // Draws the next token of a trunk from the row before it, which is added to `rows`.
  template <std::size_t kind, class List, class C>
  void grow(Trunk& trunk, List& rows, const detail::NamedRow<Q>& q, C& chance) {
    const Token drawn = chance.draw(q, trunk.depth);
    rows.add(q);
    const Index parent = std::exchange(trunk.last, tree_.size());
    add(drawn, parent, Row(std::in_place_index<kind>, rows[rows.size() - 1]));
    trunk.left = limits_.ends_at(drawn, trunk.depth++) ? 0 : trunk.left - 1;
  }

  // Beside the last token of the trunk.
  void add_spares(const Q& q, Index count) {
    const Index parent = tree_.parent(trunk_.last);
    const Token drawn = tree_.token(trunk_.last);
    for (const TopToken& likely : likeliest_.of(q, count + 1))
      if (likely.token != drawn && count-- > 0)
        add(likely.token, parent, Row(std::in_place_index<1>, OneHotRow(likely.token)));
  }

  void add(Token token, Index parent, const Row& row) {
    tree_.append(token, parent);
    rows_.push_back(row);
  }

  detail::SparesPlan plan_;
  DraftLimits limits_;
  Trunk trunk_, second_;
  TokenTree tree_;
  std::vector<Row> rows_;
  Rows after_;           // the rows that the trunk was drawn from
  Copies second_after_;  // copies: the model drops these rows before the draft is complete
  TopTokens likeliest_;
};

}  // namespace specdec
