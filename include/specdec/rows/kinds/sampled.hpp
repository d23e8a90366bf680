// Rows of which the engine has already drawn a token.
#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/owning_temporary.hpp"

namespace specdec {

/// A row, and a token that has been drawn from it: the first draw of the first sampler is that token, without a look at the
/// row; the draws after it, and all draws of other samplers, are the row's own.
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

 private:
  template <Distribution>
  friend class SampledRow;

  // A copy that has the token (and that of a SampledRow within this one), which this row has then given away.
  SampledRow taken() const {
    SampledRow row = *this;
    give_away();
    return row;
  }
  void give_away() const {
    fresh_ = false;
    if constexpr (requires(const R& row) { row.give_away(); }) R::give_away();
  }

  Token first_draw() const {
    if (token_ >= 0 && drawable()) return token_;
    detail::check_list<R>(*this);  // one that is out of order hides its tokens
    throw InvalidDistribution(
        detail::message("token ", token_, " is said to be drawn from it, but has no positive probability"));
  }

  // A NaN is no positive probability. Where more than this would take a pass over the row, the token is
  // trusted.
  bool drawable() const {
    const R& row = *this;
    if constexpr (requires { row.possible(token_); }) return specdec::possible(row, token_);
    else return specdec::probability(row, token_) > 0;
  }

  Token token_;
  mutable bool fresh_ = true;  // whether no sampler has the token
};

/// Rows with one token already drawn from each, as an engine has them that samples every row of a target call
/// on its device. The first draw from row i is tokens[i]: a verdict then rarely has to draw at all.
///
/// tokens[i] must be distributed as row i says, independently of the draft and of the other tokens, and may
/// serve one verification only: a token used twice is no independent draw. That it can have been drawn is
/// checked where that takes no pass over the row: of logits, that the token's own is above −inf; not that a
/// temperature of 0 or a chain leaves it. A verification makes each row once, so that a rule that races in a row and then
/// draws from it gets two independent tokens there.
/// Rows and tokens must outlive it; temporary containers of either are refused.
/// Throws std::invalid_argument unless there is a token for every row.
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
  auto row(Index i) const { return SampledRow(rows_.row(i), tokens_[static_cast<std::size_t>(i)]); }

 private:
  M rows_;
  std::span<const Token> tokens_;
};

template <Probabilities Rows>
SampledRows(Rows&&, std::span<const Token>) -> SampledRows<decltype(distributions(std::declval<Rows>()))>;

}  // namespace specdec
