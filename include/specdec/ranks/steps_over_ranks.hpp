// Steps of sampling, one after another, on logits that are spread over ranks.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/ranks/exchange.hpp"
#include "specdec/ranks/rank_columns.hpp"
#include "specdec/ranks/rank_cut_search.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/sample/flags.hpp"
#include "specdec/sample/gather.hpp"
#include "specdec/sample/min_p.hpp"
#include "specdec/sample/temperature.hpp"
#include "specdec/sample/threshold.hpp"
#include "specdec/sample/token_weight.hpp"
#include "specdec/sample/top_k.hpp"
#include "specdec/sample/top_p.hpp"

namespace specdec::detail {

/// Takes step after step on one matrix of logits of which this rank holds some columns. What the steps so far have left of
/// row i are its tokens of logits from cuts[i] on.
template <class Numbers, Communicator C>
class StepsOverRanks {
  using Row = decltype(LogitsRow(std::declval<const Numbers&>().row(0)));
  using Scalar = typename Row::Scalar;

 public:
  using Searches = std::vector<RankCut<Scalar>>;

  StepsOverRanks(const Numbers& logits, Index vocab_size, double temperature, Exchange<C>& exchange,
                 std::vector<double>& cuts, Searches& searches)
      : logits_(logits),
        vocab_size_(vocab_size),
        temperature_(temperature),
        exchange_(exchange),
        cuts_(cuts),
        searches_(searches) {
    cuts_.assign(static_cast<std::size_t>(logits.rows()), static_cast<double>(Row::no_cut));
    searches_.resize(cuts_.size());
  }

  double temperature() const { return temperature_; }

  template <class Step>
  void operator()(const Step& step) {
    if constexpr (requires { step.each(*this); }) step.each(*this);
    else take(step);
  }

 private:
  static constexpr double none = -std::numeric_limits<double>::infinity();

  void take(const Temperature& step) {
    if (step.value() != 1)
      temperature_ = std::min(temperature_ * step.value(), std::numeric_limits<double>::max());
  }

  // The k-th largest of all is at least that of any rank; and it is at most the largest of the ranks' own k/ranks-th, as
  // fewer than k are above all of these.
  void take(const TopK& step) {
    if (step.value() == 0 || step.value() >= vocab_size_ || is_argmax()) return;
    const Index each = (step.value() - 1) / exchange_.ranks() + 1;
    tell([&](Index i) { return std::array{largest_of(i, step.value()), largest_of(i, each)}; });
    for (Index i = 0; i < logits_.rows(); ++i)
      search(i, largest<2>(i, 0), largest<2>(i, 1), static_cast<double>(step.value()), {.counts = true});
    find();
  }

  // Where every rank has the share p of what is its own, so have all together: that is at the least of their cuts, and
  // above the largest none has.
  void take(const TopP& step) {
    if (step.value() == 1 || is_argmax()) return;
    tell([&](Index i) {
      const Row part = row(i);
      if (has_no_token(part)) return std::array{none, none, none};
      const double weight = part.log_sum_exp().value;
      const auto cut = static_cast<double>(step(part).cut());
      return std::array{weight, -cut, cut};
    });
    const double target = std::max(step.value(), std::numeric_limits<double>::min());
    for (Index i = 0; i < logits_.rows(); ++i)
      search(i, -largest<3>(i, 1), largest<3>(i, 2), target,
             {.counts = false, .inverse_temperature = 1 / temperature_, .log_sum_exp = log_sum_exp(i)});
    find();
  }

  void take(const MinP& step) {
    if (step.value() == 0 || is_argmax()) return;
    tell([&](Index i) {
      const auto part = logits_.row(i);
      return std::array{part.size() > 0 ? static_cast<double>(part.max(0, part.size())) : none};
    });
    for (Index i = 0; i < logits_.rows(); ++i)
      raise(i, step.least(static_cast<Scalar>(largest<1>(i, 0)), temperature_));
  }

  template <class Other>
  void take(const Other&) {
    static_assert(std::same_as<Other, TopK>,
                  "over ranks work the steps Temperature, TopK, TopP and MinP, and chains of them");
  }

  // ---- What this rank has by itself

  Row row(Index i) const { return Row(logits_.row(i), temperature_, cut(i)); }
  Scalar cut(Index i) const { return static_cast<Scalar>(cuts_[static_cast<std::size_t>(i)]); }
  void raise(Index i, Scalar cut) {
    double& old = cuts_[static_cast<std::size_t>(i)];
    old = std::max(old, static_cast<double>(cut));
  }
  // As LogitsRow says.
  bool is_argmax() const {
    return !(1 / temperature_ <= static_cast<double>(std::numeric_limits<Scalar>::max()));
  }

  // The k-th largest logit of the part that there still is; the cut where there are fewer.
  double largest_of(Index i, Index k) const {
    if (logits_.row(i).size() == 0) return none;
    ThresholdSearch search(logits_.row(i), TokenCount<Scalar>{});
    return static_cast<double>(search(cut(i), std::numeric_limits<Scalar>::max(), static_cast<double>(k)));
  }

  // ---- What the ranks have together

  // A few numbers of each row from every rank. Any number that is none is found out by all.
  template <class NumbersOfRow>
  void tell(const NumbersOfRow& numbers) {
    constexpr std::size_t count = std::tuple_size_v<decltype(numbers(Index{0}))>;
    exchange_(count * cuts_.size(), [&](std::vector<double>& out) {
      for (Index i = 0; i < logits_.rows(); ++i) {
        std::array<double, count> told;
        try {
          told = numbers(i);
        } catch (...) {
          told.fill(no_number);
        }
        out.insert(out.end(), told.begin(), told.end());
      }
    });
    for (Index i = 0; i < logits_.rows(); ++i) {
      logits_.row(i);  // what this rank failed at is told in its own words
      for (Index r = 0; r < exchange_.ranks(); ++r)
        if (const double n = exchange_.from(r, static_cast<std::size_t>(i) * count);
            !(n <= std::numeric_limits<double>::max()))
          throw InvalidDistribution(
              message("rank ", r, " has a logit in row ", i, " that is nan or inf, or none"));
      if (largest<count>(i, 0) == none)
        throw InvalidDistribution(message("no token of row ", i, " has a finite logit"));
    }
  }
  // Of the ranks' k-th numbers about row i, where each has told `count`.
  template <std::size_t count>
  double largest(Index i, std::size_t k) const {
    double largest = none;
    for (Index r = 0; r < exchange_.ranks(); ++r)
      largest = std::max(largest, exchange_.from(r, static_cast<std::size_t>(i) * count + k));
    return largest;
  }
  double log_sum_exp(Index i) const {
    const double most = largest<3>(i, 0);
    double sum = 0;
    for (Index r = 0; r < exchange_.ranks(); ++r)
      sum += std::exp(exchange_.from(r, static_cast<std::size_t>(i) * 3) - most);
    return most + std::log(sum);
  }

  // Gets ready to search row i for a cut between low and high.
  void search(Index i, double low, double high, double target, const RankTokenWeight& weight) {
    auto& search = searches_[static_cast<std::size_t>(i)];
    const auto least = static_cast<Scalar>(low), most = static_cast<Scalar>(high);
    search.begin(least, most, target, weight);
    if (search.found()) return;
    // No token is so far above the largest cut of any rank's nucleus that its weight relative to that is no number.
    const TokenMass<Scalar> mass{most, row(i).inverse_temperature()};
    const Scalar above = std::nextafter(most, std::numeric_limits<Scalar>::infinity());
    double sum = 0;
    exchange_.prepare([&] {
      search.make_room(exchange_.ranks());
      each_chunk(logits_.row(i), [&](const Scalar* logits) {
        for (std::size_t k = 0; k < Flags::size; ++k)
          if (logits[k] >= least && logits[k] <= most) search.put(logits[k]);
        sum += weight.counts ? TokenCount<Scalar>{}.sum(logits, above) : mass.sum(logits, above);
      });
    });
    search.put_above(weight.counts ? sum : sum * weight(static_cast<double>(most)));
  }
  void find() {
    find_cuts(exchange_, searches_);
    for (Index i = 0; i < logits_.rows(); ++i) raise(i, searches_[static_cast<std::size_t>(i)].cut());
  }

  Numbers logits_;
  Index vocab_size_;
  double temperature_;
  Exchange<C>& exchange_;
  std::vector<double>& cuts_;
  Searches& searches_;
};

}  // namespace specdec::detail
