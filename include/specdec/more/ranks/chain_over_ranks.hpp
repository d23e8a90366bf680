// A chain of sampling steps on logits that are spread over ranks.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <tuple>
#include <utility>
#include <vector>

#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/exchange.hpp"
#include "specdec/more/ranks/logit_columns.hpp"
#include "specdec/more/ranks/rank_cut_search.hpp"
#include "specdec/more/ranks/steps_over_ranks.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/owning_temporary.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/steps_of_rows.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Applies the steps to all rows, and keeps the resulting cuts.
template <Communicator C>
class CutsOverRanks {
 public:
  explicit CutsOverRanks(C& ranks) : exchange_(ranks) {}

  /// steps[i] are for row i. The result lives until the next call.
  template <class Numbers, class StepsOfRow>
  CutLogits<LogitColumns<Numbers>> operator()(const LogitColumns<Numbers>& columns, Index vocab_size,
                                              double temperature, const StepsOfRow& steps) & {
    using Taken = StepsOverRanks<LogitColumns<Numbers>, C>;
    using Searches = typename Taken::Searches;
    Taken taken(columns, vocab_size, temperature, exchange_, left_, std::get<Searches>(searches_));
    taken([&](Index i) -> const auto& { return steps[i]; });
    return {columns, left_};
  }

  Index exchanges() const { return exchange_.exchanges(); }
  Index numbers_given() const { return exchange_.numbers_given(); }

 private:
  Exchange<C> exchange_;
  RowsLeft left_;
  std::tuple<std::vector<RankCut<float>>, std::vector<RankCut<double>>> searches_;
};

}  // namespace detail

/// Temperature, DynamicTemperature, TopK, TopP, MinP, TopNSigma, MinKeep and chains of them, on a matrix of logits that is
/// spread over ranks. On any number of ranks, the result is equal to the result on whole rows, ties included. Each step keeps
/// the tokens with logits from some value on; the ranks search for this value together.
///
///   specdec::ChainOverRanks steps{specdec::Chain{specdec::Temperature{0.8}, specdec::TopP{0.95}}, ranks};
///   specdec::Shards target{steps(mine, vocab_size), first, vocab_size, ranks, tokens};
///
/// All ranks must call it together, with equal steps; their columns are in the order of the ranks. A step of your own does
/// not compile, since it would see one rank's part of a row only.
/// Throws, on all ranks, when the row is asked for: InvalidDistribution if a step reads a logit that is NaN or +inf. A row
/// without a finite logit is left as it is: a dead end (rows/read/dead_end.hpp). In exchanges: what Shards throws.
/// Cost: min-p takes one exchange of one number a row, DynamicTemperature one of three, TopNSigma one of four. Top-k and top-p
/// take one of two or three numbers a row, and then rounds. A round is one exchange of 18 numbers for each row that is not
/// settled. Usually there are two to four rounds; at most 11 if logits are float or narrower, 19 for double. MinKeep takes what
/// its step and top-k take. Temperature and steps that are switched off take none. On each rank top-k and top-p take about two
/// passes over its columns, and copy the logits between the ranks' own cuts. No allocation in steady state but the
/// communicator's.
/// Numeric: for top-p see TopP; the order of summation differs from that on one rank. So a DynamicTemperature may differ
/// from that of the whole row by rounding, and so may the limit of TopNSigma; between ranks they do not differ.
template <RowStep Steps, class C>
class ChainOverRanks {
  static_assert(Communicator<C>, "the communicator is no specdec::Communicator");

 public:
  /// The communicator must outlive the object.
  ChainOverRanks(Steps steps, C& ranks) : steps_(std::move(steps)), cuts_(ranks) {}

  /// Applies the steps to the logits at this temperature. Returns the matrix of this rank's columns, for Shards. The matrix
  /// is valid until the next call, while this object and the logits live.
  template <NumberMatrix M>
    requires(!detail::OwningTemporary<M>)
  CutLogits<LogitColumns<NumbersOf<M>>> operator()(M&& logits, Index vocab_size, double temperature = 1) & {
    return cuts_(LogitColumns(logits, 0), vocab_size, temperature, steps_);
  }

  /// How many exchanges there were, and how many numbers each rank has given.
  Index exchanges() const { return cuts_.exchanges(); }
  Index numbers_given() const { return cuts_.numbers_given(); }

 private:
  detail::StepsOfRows<Steps> steps_;
  detail::CutsOverRanks<C> cuts_;
};

template <RowStep Steps, class C>
ChainOverRanks(Steps, C&) -> ChainOverRanks<Steps, C>;

}  // namespace specdec
