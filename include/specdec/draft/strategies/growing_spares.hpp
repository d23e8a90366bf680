// A trunk and its spares that are being drafted, whoever is asked for the rows behind the tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/keyed.hpp"
#include "specdec/draft/strategies/tree_shape.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/row_span.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/likeliest.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::detail {

/// How long trunks are, and how many spares stand beside the first one.
class SparesPlan {
 public:
  SparesPlan() = default;

  /// Throws: std::invalid_argument where a number is negative, or all make more than longest_draft tokens.
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

  /// Of the shape the eldest children are the trunk, their siblings spares. Beyond it, where a rule needs a longer trunk,
  /// there are no spares.
  void take(const TreeShape& shape) {
    spares_.clear();
    for (Index trunk = -1; shape.children(trunk) > 0;) {
      spares_.push_back(shape.children(trunk) - 1);
      trunk = shape.first_child(trunk);
    }
    trunk_ = std::ssize(spares_);
    spares_.push_back(0);
  }

  Index trunk() const { return trunk_; }
  Index second_trunk() const { return second_trunk_; }
  /// Beside the token of the trunk at this depth, the first being at 0.
  Index spares_at(Index depth) const {
    if (spares_.empty()) return 0;
    return spares_[static_cast<std::size_t>(std::min(depth, std::ssize(spares_) - 1))];
  }

 private:
  Index trunk_ = 0, second_trunk_ = 0;
  std::vector<Index> spares_;
};

/// The part of a plan that fits within the limits of a draft. It is settled before anything is drawn. Where a row has too
/// few tokens for its spares, their places stay empty: greedy block verification asks for trunks whose length does not
/// depend on what is drawn, and an empty place that went to the trunk would make it depend on a row after a drawn token.
class SparesWithin {
 public:
  /// Level by level: the token of the trunk, its spares, the token of the second trunk. The tokens that limits.trunk asks
  /// for come first of all; no path has more than `room` tokens.
  void set(const SparesPlan& plan, const TreeLimits& limits, Index room) {
    spares_.clear();
    second_trunk_ = 0;
    const Index depth = std::min(limits.depth, room);
    const Index trunk = std::min(std::max(plan.trunk(), limits.trunk), depth);
    if (trunk < 1) return;
    const Index end = std::min(depth, std::max(trunk, plan.second_trunk() + 1));
    Index left = limits.nodes;
    for (Index d = 0; d < end && left > 0; ++d) {
      if (d < trunk) {
        const Index to_come = std::max<Index>(limits.trunk - d - 1, 0);
        spares_.push_back(std::clamp<Index>(left - 1 - to_come, 0, plan.spares_at(d)));
        left -= 1 + spares_.back();
      }
      const bool has_spare = limits.trunk == 0 && spares_.front() > 0;
      if (has_spare && left > 0 && d > 0 && d <= plan.second_trunk()) {
        second_trunk_ = d;
        --left;
      }
    }
  }

  Index trunk() const { return std::ssize(spares_); }
  Index spares_at(Index depth) const { return spares_[static_cast<std::size_t>(depth)]; }
  Index second_trunk() const { return second_trunk_; }

 private:
  std::vector<Index> spares_;  // beside each token of the trunk
  Index second_trunk_ = 0;
};

/// What a model has taken in behind the context of a draft, a line, of which the next context may go on with a part.
class TakenIn {
 public:
  /// How much of the context the model can have taken in, as far as these tokens tell; `unlimited` where they agree.
  Index agreed(std::span<const Token> context) const {
    for (std::size_t i = 0; i < tokens_.size(); ++i)
      if (from_ + i >= context.size() || context[from_ + i] != tokens_[i])
        return static_cast<Index>(from_ + i);
    return unlimited;
  }
  /// Nothing yet, behind a context of this size.
  void begin(std::size_t from) {
    tokens_.clear();
    from_ = from;
  }
  /// Room for another token: adding it throws nothing then.
  void reserve() { tokens_.reserve(tokens_.size() + 1); }
  void add(Token token) { tokens_.push_back(token); }

 private:
  std::vector<Token> tokens_;  // behind the first from_ tokens
  std::size_t from_ = 0;
};

/// Grows token by token: first that behind the context, then the second trunk, then the rest of the trunk.
///
///   tree.begin(plan, limits, room);
///   while (tree.next()) {
///     // where tree.anew(), the model goes back to the context; it takes in the context at first, then tree.token()
///     tree.grow(row, chance);
///   }
///
/// Rows of the trunk last as long as the model lets them, those of the second trunk are copied. No allocation in steady
/// state.
template <class Behind, class Copies>
class GrowingSpares {
 public:
  using Row = VariantRow<typename Behind::Stored, OneHotRow, typename Copies::Stored>;

  /// A tree of the plan within the limits; no path has more than `room` tokens.
  void begin(const SparesPlan& plan, const TreeLimits& limits, Index room) {
    within_.set(plan, limits, room);
    trunk_ = within_.trunk();
    tokens_.clear();
    rows_.clear();
    parents_.clear();
    behind_.clear();
    second_behind_.clear();
    drawn_ = second_left_ = 0;
    last_ = -1;
    anew_ = false;
  }
  /// It does not grow any more.
  void end() { trunk_ = second_left_ = 0; }

  /// Whether it has another token to draw.
  bool next() const { return second_left_ > 0 || drawn_ < trunk_; }
  /// Whether it is the token behind the context.
  bool at_context() const { return drawn_ == 0; }
  /// Whether the model has taken in the second trunk, which is in the way of the first.
  bool anew() const { return anew_ && second_left_ == 0; }
  /// What is taken in before the next token.
  const Token& token() const { return tokens_[static_cast<std::size_t>(parent())]; }

  /// The next token, from the row behind that, and its spares.
  template <class Q, class C>
  void grow(const Q& q, C& chance) {
    if (second_left_ > 0) return grow_second(q, chance);
    anew_ = false;
    grow_trunk(q, chance);
    if (drawn_ > 1 || tokens_.size() < 2) return;
    second_left_ = within_.second_trunk();
    second_last_ = 1;  // the first spare
    second_depth_ = 1;
    anew_ = second_left_ > 0;
  }

  TreeDraft<RowSpan<Row>> draft(Index vocab_size) const {
    return {tokens_, RowSpan<Row>(rows_, vocab_size), parents_};
  }

 private:
  Index parent() const { return second_left_ > 0 ? second_last_ : last_; }

  template <class Q, class C>
  void grow_trunk(const Q& q, C& chance) {
    const Index depth = drawn_, parent = last_;
    const auto name = NamedRow(q, "draft", std::ssize(tokens_));
    const Token drawn = behind(chance, depth).draw(name);
    last_ = std::ssize(tokens_);
    ++drawn_;
    behind_.add(name);
    add(drawn, parent, Row(std::in_place_index<0>, behind_[depth]));
    const Index spares = within_.spares_at(depth);
    if (spares > 0) name.named([&] { add_spares(q, drawn, parent, spares); });
  }

  template <class Q>
  void add_spares(const Q& q, Token drawn, Index parent, Index count) {
    for (const LikelyToken& likely : likeliest_.of(q, count + 1))
      if (likely.token != drawn && count-- > 0)
        add(likely.token, parent, Row(std::in_place_index<1>, OneHotRow(likely.token)));
  }

  template <class Q, class C>
  void grow_second(const Q& q, C& chance) {
    const Index depth = second_depth_++;
    const NamedRow name(q, "draft", std::ssize(tokens_));
    const Token token = behind(chance, depth).draw(name);
    const Index parent = std::exchange(second_last_, std::ssize(tokens_));
    second_behind_.add(name);
    add(token, parent, Row(std::in_place_index<2>, second_behind_[second_behind_.size() - 1]));
    --second_left_;
  }

  void add(Token token, Index parent, const Row& row) {
    tokens_.push_back(token);
    rows_.push_back(row);
    parents_.push_back(parent);
  }

  SparesWithin within_;
  Index trunk_ = 0;  // tokens
  std::vector<Token> tokens_;
  std::vector<Row> rows_;
  std::vector<Index> parents_;
  Behind behind_;  // the rows that the trunk was drawn from
  Copies second_behind_;
  Index drawn_ = 0, last_ = -1;  // of the trunk: how many tokens there are, and which is the last
  Index second_left_ = 0, second_last_ = -1,
        second_depth_ = 0;  // of the second trunk: how many are to be drawn, behind which, and how deep
  bool anew_ = false;
  LikeliestTokens likeliest_;
};

}  // namespace specdec::detail
