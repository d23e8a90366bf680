// The source of chance for proofs: it takes every branch.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/rows/read/residual.hpp"

namespace specdec::inline v0_2_0::testing {

/// Runs code over all outcomes of its random choices, depth first. Each run has its exact probability:
///
///   Enumerator chance;
///   do { run(chance); use(chance.probability()); } while (chance.next());
///
/// The code must be deterministic: equal outcomes lead to the same next choice. It must end after finitely many choices. A
/// race is one choice between all its winners and the loss, with the probabilities of its closed form. tests/chance/race.cpp
/// checks that the race of RandomChance has this law.
/// Throws: InvalidDistribution if an outcome of a choice has a negative probability, or if the outcomes' probabilities sum to
/// more than 1 by more than rounding explains. No generator makes such a choice, even if all choices together give a right law.
class Enumerator {
 public:
  /// The probability of the outcomes of the current run so far.
  double probability() const { return probability_; }

  /// Prepares the next run; false if there is none left.
  /// Throws: InvalidCall if the last run made fewer choices than an earlier run with these outcomes.
  [[nodiscard]] bool next() {
    if (depth_ != path_.size())
      specdec::detail::invalid_call("a run made fewer choices than the same run before");
    while (!path_.empty() && path_.back().following < 0) path_.pop_back();
    if (path_.empty()) return false;
    path_.back().outcome = path_.back().following;
    path_.back().known = false;
    depth_ = 0;
    probability_ = 1;
    return true;
  }

  bool coin(double h) {
    return specdec::detail::coin(
        h, [this](double p) { return choose(2, [p](Index i) { return i == 0 ? p : 1 - p; }) == 0; });
  }

  template <Distribution R>
  Token draw(const R& row, Index /*place*/ = 0) {
    return static_cast<Token>(
        choose(row.vocab_size(), [&](Index x) { return row.probability(static_cast<Token>(x)); }));
  }

  /// For run_race(). Here the rounds of a race share no work.
  template <class S, Distribution R>
  Token draw_again(S&, const R& row) {
    return draw(row);
  }

  template <Distribution P, Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    if (w <= 0) return std::nullopt;
    const Index size = p.vocab_size();
    // Summed token by token, like the weights below: a pass over segments may round to a mass that no token has.
    double mass = 0;
    for (Index x = 0; x < size; ++x) mass += residual(w, p, 1.0, q, static_cast<Token>(x));
    const double lost = std::max(1 - w, 0.0), all = mass + lost;
    if (!(mass > 0) && (lost == 0 || specdec::detail::is_dead_end(p))) return race(w, p);
    const Index outcome = choose(size + 1, [&](Index x) {
      return (x == size ? lost : residual(w, p, 1.0, q, static_cast<Token>(x))) / all;
    });
    if (outcome == size) return std::nullopt;
    return static_cast<Token>(outcome);
  }

  template <Distribution P>
  std::optional<Token> race(double w, const P& p) {
    if (!coin(w)) return std::nullopt;
    return draw(p);
  }

 private:
  struct Choice {
    Index outcome;
    Index following;  // the next outcome of positive probability; -1 when there is none
    double probability;
    bool known;
    double sum;  // of the probabilities of all outcomes so far
  };

  static constexpr double most = 1 + 0x1p-8;  // a sum that rounding to eight bits, as in bfloat16, explains

  // Chooses one of `count` outcomes, whose weights sum to 1: by the recorded path, and after it the first possible outcome.
  template <class Weight>
  Index choose(Index count, Weight&& weight) {
    const auto possible_from = [&](Index i) {
      for (; i < count; ++i) {
        const double p = weight(i);
        if (p > 0) return i;
        if (p < 0)
          specdec::detail::invalid_distribution("outcome ", i, " of a choice has the probability ", p);
      }
      return Index{-1};
    };
    if (depth_ == path_.size()) {
      const Index first = possible_from(0);
      if (first < 0) specdec::detail::invalid_distribution("a choice has no outcome of positive probability");
      path_.push_back({first, -1, 0, false, 0});
    }
    Choice& choice = path_[depth_++];
    if (!choice.known) {
      choice.probability = weight(choice.outcome);
      choice.following = possible_from(choice.outcome + 1);
      choice.known = true;
      choice.sum += choice.probability;
      if (!(choice.sum <= most))
        specdec::detail::invalid_distribution("the outcomes of a choice have probabilities that sum to ",
                                              choice.sum);
    }
    probability_ *= choice.probability;
    return choice.outcome;
  }

  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  double probability_ = 1;
};

/// Calls run(chance) for every outcome of its random choices, whose exact probability is chance.probability() at the end of run.
template <class Run>
void enumerate(Run&& run) {
  Enumerator chance;
  do run(chance);
  while (chance.next());
}

}  // namespace specdec::testing
