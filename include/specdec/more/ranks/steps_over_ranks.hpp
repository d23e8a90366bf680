// Applies sampling steps one after another to logits that are spread over ranks.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <exception>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/more/ranks/exchange.hpp"
#include "specdec/more/ranks/rank_columns.hpp"
#include "specdec/more/ranks/rank_cut_search.hpp"
#include "specdec/more/rows/entropy.hpp"
#include "specdec/more/samplers/dynamic_temperature.hpp"
#include "specdec/more/samplers/min_keep.hpp"
#include "specdec/more/samplers/top_n_sigma.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/row_errors.hpp"
#include "specdec/sample/steps/min_p.hpp"
#include "specdec/sample/steps/temperature.hpp"
#include "specdec/sample/steps/top_k.hpp"
#include "specdec/sample/steps/top_p.hpp"
#include "specdec/sample/threshold/gather.hpp"
#include "specdec/sample/threshold/threshold.hpp"
#include "specdec/sample/threshold/token_weight.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The result of the sampling steps for each row: a temperature, a cut (tokens with lower logits are gone), or an error. It
/// is equal on all ranks.
struct RowsLeft {
  std::vector<double> temperatures, cuts;
  std::vector<double> cuts_before;  // of each MinKeep that is under way: the cuts at its beginning
  std::vector<Index> dead_ends;     // 1 for a row that is known to have no finite logit; else 0
  std::vector<std::exception_ptr> errors;
};

}  // namespace detail

/// A matrix of logits as a DistributionMatrix. Tokens with a logit below the row's cut have probability 0. Asking for a row
/// throws the row's error, if it has one. The logits and `left` must outlive the object.
template <class Numbers>
class CutLogits {
 public:
  CutLogits(const Numbers& logits, const detail::RowsLeft& left) : logits_(logits), left_(&left) {}

  Index rows() const { return logits_.rows(); }
  Index vocab_size() const { return logits_.cols(); }
  auto row(Index i) const {
    detail::rethrow_error_of(left_->errors, i);
    using Row = decltype(LogitsRow(logits_.row(i)));
    return LogitsRow(logits_.row(i), detail::at(left_->temperatures, i),
                     static_cast<typename Row::Scalar>(detail::at(left_->cuts, i)));
  }

 private:
  Numbers logits_;
  const detail::RowsLeft* left_;
};

namespace detail {

template <class Step>
inline constexpr bool is_min_keep = false;
template <class Step>
inline constexpr bool is_min_keep<MinKeep<Step>> = true;

/// Applies the steps to one matrix of logits, whose columns are spread over ranks. Each row may have its own steps; all are
/// of one type. If a step fails at a row, the row fails on all ranks, and the other rows go on.
template <class Numbers, Communicator C>
class StepsOverRanks {
  using Row = decltype(LogitsRow(std::declval<const Numbers&>().row(0)));
  using Scalar = typename Row::Scalar;

 public:
  using Searches = std::vector<RankCut<Scalar>>;

  StepsOverRanks(const Numbers& logits, Index vocab_size, double temperature, Exchange<C>& exchange,
                 RowsLeft& left, Searches& searches)
      : logits_(logits), vocab_size_(vocab_size), exchange_(exchange), left_(left), searches_(searches) {
    exchange_.prepare([&] {
      const Index rows = logits.rows();
      detail::assign(left_.temperatures, rows, temperature);
      detail::assign(left_.cuts, rows, static_cast<double>(Row::no_cut));
      left_.cuts_before.clear();
      detail::assign(left_.errors, rows, nullptr);
      detail::assign(left_.dead_ends, rows, 0);
      detail::resize(searches_, rows);
    });
  }

  /// step_of(i) is the step of row i, or its chain of steps.
  template <class StepOf>
  void operator()(const StepOf& step_of) {
    using Step = std::remove_cvref_t<decltype(step_of(Index{0}))>;
    if constexpr (requires { Step::size; }) each(step_of, std::make_index_sequence<Step::size>());
    else if constexpr (std::same_as<Step, Temperature>) take_temperatures(step_of);
    else if constexpr (std::same_as<Step, DynamicTemperature>) take_dynamic_temperatures(step_of);
    else if constexpr (std::same_as<Step, TopK>) take_top_k(step_of);
    else if constexpr (std::same_as<Step, TopP>) take_top_p(step_of);
    else if constexpr (std::same_as<Step, TopNSigma>) take_top_n_sigma(step_of);
    else if constexpr (is_min_keep<Step>) take_min_keep(step_of);
    else {
      static_assert(std::same_as<Step, MinP>,
                    "over ranks work the steps Temperature, DynamicTemperature, TopK, TopP, MinP and "
                    "TopNSigma, a MinKeep of them, and chains of them");
      take_min_p(step_of);
    }
  }

 private:
  static constexpr double none = -std::numeric_limits<double>::infinity();

  template <class ChainOf, std::size_t... i>
  void each(const ChainOf& chain_of, std::index_sequence<i...>) {
    ((*this)([&](Index row) -> const auto& { return chain_of(row).template step<i>(); }), ...);
  }

  template <class StepOf>
  void take_temperatures(const StepOf& step_of) {
    for (Index i = 0; i < logits_.rows(); ++i) temper(i, step_of(i).value());
  }

  // The entropy of a row follows from the entropies H of the ranks' parts and their shares w of the mass: Σ w (H − log w).
  template <class StepOf>
  void take_dynamic_temperatures(const StepOf& step_of) {
    for (Index i = 0; i < logits_.rows(); ++i)
      if (!step_of(i).is_dynamic()) temper(i, step_of(i).of(0, 0));
    const auto numbers = [&](Index i) {
      const Row part = row(i);
      if (has_no_token(part)) return std::array{none, 0.0, 0.0};
      return std::array{part.log_sum_exp().value, entropy(part), DynamicTemperature::tokens(part)};
    };
    tell([&](Index i) { return is_open(i) && step_of(i).is_dynamic(); }, numbers,
         [&](Index i, const auto& told) { temper(i, step_of(i).of(told.entropy(i), told.sum(i, 2))); });
  }

  // Low end: the k-th largest logit of all ranks is at least the k-th largest of any rank. High end: it is at most the
  // largest of the ranks' (k/ranks)-th largest logits, since fewer than k logits are above that.
  template <class StepOf>
  void take_top_k(const StepOf& step_of) {
    const auto k = [&](Index i) { return step_of(i).value(); };
    const auto numbers = [&](Index i) {
      return std::array{largest_of(i, k(i)), largest_of(i, (k(i) - 1) / exchange_.ranks() + 1)};
    };
    find([&](Index i) { return is_open(i) && k(i) != 0 && k(i) < vocab_size_; }, numbers,
         [&](Index i, const auto& told) {
           search(i, told.largest(i, 0), told.largest(i, 1), static_cast<double>(k(i)), {.counts = true});
         });
  }

  // Each rank finds the top-p cut of its own part. Low end: the least of these cuts. There every rank keeps the share p, and
  // so do all together. High end: the largest of these cuts. Above it no rank keeps the share p.
  template <class StepOf>
  void take_top_p(const StepOf& step_of) {
    const auto numbers = [&](Index i) {
      const Row part = row(i);
      if (has_no_token(part)) return std::array{none, none, none};
      const double weight = part.log_sum_exp().value;
      const auto cut = static_cast<double>(step_of(i)(part).cut());
      return std::array{weight, -cut, cut};
    };
    find([&](Index i) { return is_open(i) && step_of(i).value() != 1; }, numbers,
         [&](Index i, const auto& told) {
           search(i, -told.largest(i, 1), told.largest(i, 2),
                  std::max(step_of(i).value(), std::numeric_limits<double>::min()),
                  {.counts = false,
                   .inverse_temperature = 1 / temperature(i),
                   .log_sum_exp = told.log_sum_exp(i)});
         });
  }

  template <class StepOf>
  void take_min_p(const StepOf& step_of) {
    const auto numbers = [&](Index i) {
      const auto part = logits_.row(i);
      return std::array{part.size() > 0 ? static_cast<double>(part.max(0, part.size())) : none};
    };
    tell([&](Index i) { return is_open(i) && step_of(i).value() != 0; }, numbers,
         [&](Index i, const auto& told) {
           raise(i, step_of(i).least(static_cast<Scalar>(told.largest(i, 0)), temperature(i)));
         });
  }

  template <class StepOf>
  void take_top_n_sigma(const StepOf& step_of) {
    using Moments = TopNSigma::Moments;
    const auto numbers = [&](Index i) {
      const Moments mine = TopNSigma::moments(row(i));
      return std::array{mine.largest, mine.count, mine.sum, mine.squares};
    };
    tell([&](Index i) { return is_open(i) && step_of(i).value() != 0; }, numbers,
         [&](Index i, const auto& told) {
           Moments all{told.largest(i, 0)};
           for (Index r = 0; r < exchange_.ranks(); ++r)
             all.add({told.from(r, i, 0), told.from(r, i, 1), told.from(r, i, 2), told.from(r, i, 3)});
           raise(i, step_of(i).template least<Scalar>(all));
         });
  }

  // The lower one of the step's cut and that of TopK{n}, where n is above 1.
  template <class StepOf>
  void take_min_keep(const StepOf& step_of) {
    const auto n = [&](Index i) { return step_of(i).value(); };
    std::vector<double>& before = left_.cuts_before;
    const Index first = std::ssize(before);
    exchange_.prepare([&] { before.insert(before.end(), left_.cuts.begin(), left_.cuts.end()); });
    (*this)([&](Index i) -> const auto& { return step_of(i).step(); });
    const auto swap_cuts = [&](Index i) {
      std::swap(detail::at(left_.cuts, i), detail::at(before, first + i));
    };
    for (Index i = 0; i < logits_.rows(); ++i)
      if (n(i) > 1) swap_cuts(i);
    take_top_k([&](Index i) { return TopK(n(i) > 1 ? n(i) : 0); });
    for (Index i = 0; i < logits_.rows(); ++i)
      if (n(i) > 1 && detail::at(before, first + i) < detail::at(left_.cuts, i)) swap_cuts(i);
    detail::resize(before, first);
  }

  // ---- Without an exchange

  double temperature(Index i) const { return detail::at(left_.temperatures, i); }
  void temper(Index i, double factor) {
    if (factor != 1)
      detail::at(left_.temperatures, i) =
          std::min(temperature(i) * factor, std::numeric_limits<double>::max());
  }
  Scalar cut(Index i) const { return static_cast<Scalar>(detail::at(left_.cuts, i)); }
  Row row(Index i) const { return Row(logits_.row(i), temperature(i), cut(i)); }
  void raise(Index i, Scalar cut) {
    double& old = detail::at(left_.cuts, i);
    old = std::max(old, static_cast<double>(cut));
  }
  // Whether a step may cut the row: it has not failed, it has a finite logit, and its temperature does not give the argmax
  // all probability.
  bool is_open(Index i) const {
    return !detail::at(left_.errors, i) && detail::at(left_.dead_ends, i) == 0 &&
           1 / temperature(i) <= static_cast<double>(std::numeric_limits<Scalar>::max());
  }

  // The k-th largest logit of this rank's part from the cut on; the cut if there are fewer.
  double largest_of(Index i, Index k) const {
    if (logits_.row(i).size() == 0) return none;
    const Peaks<Scalar> peaks = row(i).peaks();
    ThresholdSearch search(logits_.row(i), peaks, TokenCount<Scalar>{}, cut(i), static_cast<double>(k));
    search.try_from(peaks.of_rank(k));
    return static_cast<double>(search.cut());
  }

  // ---- With an exchange

  // For each row, `count` numbers from every rank.
  template <std::size_t count>
  struct ExchangedNumbers {
    const Exchange<C>& exchange;

    double from(Index r, Index i, std::size_t k) const {
      return exchange.from(r, static_cast<std::size_t>(i) * count + k);
    }
    // The largest of the ranks' k-th numbers about row i.
    double largest(Index i, std::size_t k) const {
      double largest = none;
      for (Index r = 0; r < exchange.ranks(); ++r) largest = std::max(largest, from(r, i, k));
      return largest;
    }
    double log_sum_exp(Index i) const {
      const double most = largest(i, 0);
      double sum = 0;
      for (Index r = 0; r < exchange.ranks(); ++r) sum += std::exp(from(r, i, 0) - most);
      return most + std::log(sum);
    }
    double sum(Index i, std::size_t k) const { return exchange.sum(static_cast<std::size_t>(i) * count + k); }
    // The first number of each rank is its log-sum-exp, the second its entropy.
    double entropy(Index i) const {
      const double all = log_sum_exp(i);
      double sum = 0;
      for (Index r = 0; r < exchange.ranks(); ++r) {
        const double log_share = from(r, i, 0) - all;
        if (log_share > none) sum += std::exp(log_share) * (from(r, i, 1) - log_share);
      }
      return sum;
    }
  };

  // Every rank tells a few numbers about each row that is cut; then act(i, told) goes on with these rows. The row fails if the
  // first number of a rank is NaN or +inf. If it is −inf on all ranks, the row is a dead end, and is cut no more. Returns
  // whether there is a row to cut.
  template <class Cuts, class NumbersOfRow, class Act>
  bool tell(const Cuts& cuts, const NumbersOfRow& numbers, const Act& act) {
    constexpr std::size_t count = std::tuple_size_v<decltype(numbers(Index{0}))>;
    const ExchangedNumbers<count> told{exchange_};
    const Index rows = logits_.rows();
    bool any = false;
    for (Index i = 0; i < rows; ++i) any = any || cuts(i);
    if (!any) return false;
    exchange_(count * static_cast<std::size_t>(rows), [&](std::vector<double>& out) {
      for (Index i = 0; i < rows; ++i) {
        std::array<double, count> mine{};
        const auto error = error_of([&] {
          if (cuts(i)) mine = numbers(i);
        });
        if (error) mine.fill(no_number);
        out.insert(out.end(), mine.begin(), mine.end());
      }
    });
    for (Index i = 0; i < rows; ++i) {
      if (!cuts(i)) continue;
      detail::at(left_.errors, i) = error_of([&] { check_told(i, told); });
      detail::at(left_.dead_ends, i) = told.largest(i, 0) == none ? 1 : 0;
      if (cuts(i)) act(i, told);
    }
    return true;
  }

  template <std::size_t count>
  void check_told(Index i, const ExchangedNumbers<count>& told) const {
    logits_.row(i);  // throws this rank's own error, if it has one
    for (Index r = 0; r < exchange_.ranks(); ++r)
      if (!(told.from(r, i, 0) <= std::numeric_limits<double>::max()))
        invalid_distribution("rank ", r, " has a logit in row ", i, " that is nan or inf, or none");
  }

  // Tells the numbers, and finds the cuts of all rows that are cut and have not failed. begin(i, told) begins the search in row i.
  template <class Cuts, class NumbersOfRow, class Begin>
  void find(const Cuts& cuts, const NumbersOfRow& numbers, const Begin& begin) {
    for (Index i = 0; i < logits_.rows(); ++i)  // where none begins, an empty search
      detail::at(searches_, i).begin(cut(i), cut(i), 0, {.counts = true});
    if (!tell(cuts, numbers, begin)) return;
    find_cuts(exchange_, searches_);
    for (Index i = 0; i < logits_.rows(); ++i) raise(i, detail::at(searches_, i).cut());
  }

  // Begins the search in row i for a cut in [low, high].
  void search(Index i, double low, double high, double target, const RankTokenWeight& weight) {
    auto& search = detail::at(searches_, i);
    const auto least = static_cast<Scalar>(low), most = static_cast<Scalar>(high);
    search.begin(least, most, target, weight);
    if (search.found()) return;
    // Weights are taken relative to `most`, the largest cut of the ranks. No logit is so far above `most` that its weight
    // overflows.
    const TokenMass<Scalar> mass{most, row(i).inverse_temperature()};
    const Scalar above = std::nextafter(most, std::numeric_limits<Scalar>::infinity());
    double sum = 0;
    exchange_.prepare([&] {
      search.make_room(exchange_.ranks());
      each_chunk(logits_.row(i), LiveStretches{}, [&](const Scalar* logits) {
        for (std::size_t k = 0; k < chunk_size; ++k)
          if (logits[k] >= least && logits[k] <= most) search.put(logits[k]);
        sum += weight.counts ? TokenCount<Scalar>{}.sum(logits, above) : mass.sum(logits, above);
      });
    });
    search.put_above(weight.counts ? sum : sum * weight(static_cast<double>(most)));
  }

  Numbers logits_;
  Index vocab_size_;
  Exchange<C>& exchange_;
  RowsLeft& left_;
  Searches& searches_;
};

}  // namespace detail
}  // namespace specdec
