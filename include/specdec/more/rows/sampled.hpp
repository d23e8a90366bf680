// Rows with a token that the engine has already drawn.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/owning_temporary.hpp"

namespace specdec::inline v0_2_0 {

/// A row, and a token that was drawn from it. The first draw of the first sampler returns that token, without a pass over
/// the row. All later draws, and all draws of other samplers, draw from the row.
template <Distribution R>
class SampledRow : public R {
 public:
  SampledRow(const R& row, Token token) : R(row), token_(token) {}

  auto sampler() const {
    using Draw = decltype(std::declval<const R&>().sampler());
    return [row = taken(), draw = std::optional<Draw>()](double u) mutable {
      if (std::exchange(row.fresh_, false)) return row.first_draw();
      if (!draw) draw.emplace(row.R::sampler());
      return (*draw)(u);
    };
  }

  /// Lets another row have the token: this row has none afterwards.
  void give_away() const {
    fresh_ = false;
    if constexpr (detail::HoldsDrawnToken<R>) R::give_away();
  }

 private:
  template <Distribution>
  friend class SampledRow;

  // A copy of this row that takes over the token: this row has no token afterwards. The token of a SampledRow inside this
  // row goes to the copy, too.
  SampledRow taken() const {
    SampledRow row = *this;
    give_away();
    return row;
  }
  Token first_draw() const {
    if (token_ >= 0 && drawable()) return token_;
    detail::check_list<R>(*this);  // one that is out of order hides its tokens
    detail::invalid_distribution("token ", token_,
                                 " is said to be drawn from it, but has no positive probability");
  }

  // Whether the token can have been drawn, as far as that shows without a pass over the row. A NaN is no positive probability.
  bool drawable() const {
    const R& row = *this;
    if constexpr (detail::TellsPossible<R>) return specdec::possible(row, token_);
    else return specdec::probability(row, token_) > 0;
  }

  Token token_;
  mutable bool fresh_ = true;  // whether no sampler has the token
};

/// Rows with one token already drawn from each: for engines that sample every row of a target call on the device. The first
/// draw from row i is tokens[i], so a verification rarely has to draw from a row.
/// Pre: tokens[i] was drawn from row i, independently of the draft and of the other tokens. Use tokens for one verification
/// only: a token that is used twice is no independent draw. Rows and tokens must outlive it; temporary containers of either
/// are refused.
/// Throws: InvalidArgument unless there is one token per row. A draw throws InvalidDistribution if its token cannot
/// have been drawn, as far as this shows without a pass over the row. For a row of logits the token's own logit must be
/// above −inf. It is not checked whether a temperature of 0 or a chain of processors would remove the token.
/// Random: a verification makes each row once. So a rule that races in a row and then draws from it gets two independent tokens.
template <DistributionMatrix M>
class SampledRows {
 public:
  template <Probabilities Rows>
    requires(!detail::OwningTemporary<Rows>)
  SampledRows(Rows&& rows, std::span<const Token> tokens)
      : rows_(distributions(std::forward<Rows>(rows))), tokens_(tokens) {
    if (std::ssize(tokens) != rows_.rows())
      detail::invalid_argument("there are ", tokens.size(), " tokens drawn from ", rows_.rows(), " rows");
  }
  template <Probabilities Rows, detail::OwningTemporary Temporary>
  SampledRows(Rows&& rows, Temporary&& tokens) = delete;

  Index rows() const { return rows_.rows(); }
  Index vocab_size() const
    requires has_vocab_size<M>
  {
    return rows_.vocab_size();
  }
  auto row(Index i) const { return SampledRow(rows_.row(i), detail::at(tokens_, i)); }

 private:
  M rows_;
  std::span<const Token> tokens_;
};

template <Probabilities Rows>
SampledRows(Rows&&, std::span<const Token>) -> SampledRows<decltype(distributions(std::declval<Rows>()))>;

}  // namespace specdec
