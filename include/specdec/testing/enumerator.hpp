// Chance that takes every branch: the source of chance for proofs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <stdexcept>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/read/residual.hpp"

namespace specdec::testing {

/// Runs code over all outcomes of its randomness, depth first, each with its exact probability:
///
///   Enumerator chance;
///   do { run(chance); use(chance.probability()); } while (chance.next());
///
/// The code must make the same choices in the same order when it sees the same outcomes, and must reach its
/// end after finitely many. A race is one choice between its winners and the loss, with the probabilities of
/// its closed form; that the loop of RandomChance has that law is checked on its own (tests/chance/race.cpp).
class Enumerator {
 public:
  /// The probability of the outcomes of the current run so far.
  double probability() const { return probability_; }

  /// Moves on to the next run; false when all have been.
  [[nodiscard]] bool next() {
    if (depth_ != path_.size())
      throw std::logic_error("specdec: a run made fewer choices than the same run before");
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

  /// For run_race: the rounds share nothing here.
  template <class S, Distribution R>
  Token draw_again(S&, const R& row) {
    return draw(row);
  }

  template <Distribution P, Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    if (w <= 0) return std::nullopt;
    const Index size = p.vocab_size();
    // Token by token, as the outcomes are weighed: a pass over segments may leave a mass where no token has any.
    double mass = 0;
    for (Index x = 0; x < size; ++x) mass += residual(w, p, 1.0, q, static_cast<Token>(x));
    const double lost = std::max(1 - w, 0.0), all = mass + lost;
    if (!(mass > 0) && lost == 0) return draw(p);
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
  };

  // One of `count` outcomes by their weights, which sum to 1: the recorded one on the path being replayed,
  // the first possible one beyond it.
  template <class Weight>
  Index choose(Index count, Weight&& weight) {
    const auto possible_from = [&](Index i) {
      while (i < count && !(weight(i) > 0)) ++i;
      return i < count ? i : Index{-1};
    };
    if (depth_ == path_.size()) {
      const Index first = possible_from(0);
      if (first < 0) throw InvalidDistribution("a choice has no outcome of positive probability");
      path_.push_back({first, -1, 0, false});
    }
    Choice& choice = path_[depth_++];
    if (!choice.known) {
      choice.probability = weight(choice.outcome);
      choice.following = possible_from(choice.outcome + 1);
      choice.known = true;
    }
    probability_ *= choice.probability;
    return choice.outcome;
  }

  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  double probability_ = 1;
};

/// Calls run(chance) for every outcome of its randomness. chance.probability() is exact once run is at its
/// end.
template <class Run>
void enumerate(Run&& run) {
  Enumerator chance;
  do run(chance);
  while (chance.next());
}

}  // namespace specdec::testing
