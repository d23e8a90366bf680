// A chain of steps on logits that are spread over ranks.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/cut_logits.hpp"
#include "specdec/ranks/exchange.hpp"
#include "specdec/ranks/rank_cut_search.hpp"
#include "specdec/ranks/steps_over_ranks.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/logit_columns.hpp"
#include "specdec/sample/steps_of_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// Takes the steps of all rows, and keeps what they have left.
template <Communicator C>
class CutsOverRanks {
 public:
  explicit CutsOverRanks(C& ranks) : exchange_(ranks) {}

  /// steps[i] are for row i. What is returned lives until the next call.
  template <class Numbers, class StepsOfRow>
  CutLogits<LogitColumns<Numbers>> operator()(const LogitColumns<Numbers>& columns, Index vocab_size,
                                              double temperature, const StepsOfRow& steps) & {
    using Taken = StepsOverRanks<LogitColumns<Numbers>, C>;
    using Searches = typename Taken::Searches;
    if (!std::holds_alternative<Searches>(searches_)) searches_ = Searches();
    Taken taken(columns, vocab_size, temperature, exchange_, left_, std::get<Searches>(searches_));
    taken([&](Index i) -> const auto& { return steps[i]; });
    return {columns, left_};
  }

  Index exchanges() const { return exchange_.exchanges(); }
  Index numbers_given() const { return exchange_.numbers_given(); }

 private:
  Exchange<C> exchange_;
  RowsLeft left_;
  std::variant<std::vector<RankCut<float>>, std::vector<RankCut<double>>> searches_;
};

}  // namespace detail

/// Temperature, top-k, top-p, min-p and chains of them on a matrix of logits of which each rank holds some columns. What is
/// left of a row is what the steps leave of the whole row, ties included, on any number of ranks: each step keeps the
/// tokens from some logit on, and the ranks look for that logit together.
///
///   specdec::ChainOverRanks steps{specdec::Chain{specdec::Temperature{0.8}, specdec::TopP{0.95}}, ranks};
///   specdec::Shards target{steps(mine, vocab_size), first, vocab_size, ranks, tokens};
///
/// All ranks call it together, with columns in the order of their numbers and equal steps. Steps of one's own, which see one
/// row of one rank, are refused when compiled.
/// Throws, on all ranks alike, where the row is asked for: InvalidDistribution where a step looks at a logit that is NaN or
/// +inf, and where TopP or MinP looks at a row without a finite one, which TopK leaves to Shards. What Shards throws of
/// exchanges.
/// Cost: min-p one exchange of one number a row. Top-k and top-p one of two or three numbers a row, and then rounds of 18
/// numbers for each row that is not settled, all rows in one exchange: two to four as a rule, at most 11 where logits are
/// float or less and 19 where they are double. Temperature and steps that are switched off: none. On each rank top-k and
/// top-p take about two passes over its columns and gather the logits between the ranks' own cuts. No allocation in steady
/// state but the communicator's.
/// Numeric: of top-p what TopP says; the mass is summed in another order than on one rank.
template <RowStep Steps, Communicator C>
class ChainOverRanks {
 public:
  /// The communicator must outlive this.
  ChainOverRanks(Steps steps, C& ranks) : steps_(std::move(steps)), cuts_(ranks) {}

  /// What the steps leave of the logits at this temperature, as a matrix of this rank's columns: for Shards. It lives until
  /// the next call, and no longer than this and the logits.
  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  CutLogits<LogitColumns<NumbersOf<M>>> operator()(M&& logits, Index vocab_size, double temperature = 1) & {
    return cuts_(LogitColumns(logits, 0), vocab_size, temperature, steps_);
  }

  /// How often the ranks have exchanged numbers, and how many each has given.
  Index exchanges() const { return cuts_.exchanges(); }
  Index numbers_given() const { return cuts_.numbers_given(); }

 private:
  detail::StepsOfRows<Steps> steps_;
  detail::CutsOverRanks<C> cuts_;
};

template <RowStep Steps, Communicator C>
ChainOverRanks(Steps, C&) -> ChainOverRanks<Steps, C>;

}  // namespace specdec
