// Observers watch the steps of a text: what was weighed, what was taken back, what was committed.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/loop/options.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A verdict that may still be taken back.
template <class Drafted>
struct WeighedStep {
  const Drafted& drafted;          ///< what the rule read; NoRows if the verdict was made elsewhere
  const Options& options;          ///< of the text
  std::span<const Index> path;     ///< the numbers of the accepted tokens
  std::span<const Token> emitted;  ///< the tokens that will enter the text: of the accepted tokens and Y
};

/// A step that was taken.
struct CommittedStep {
  const StepRecord& step;
  Index emitted = 0;  ///< how many tokens entered the text
  /// Whether the rule knew p and q of all drafted tokens of a line. Never of a tree.
  bool told = false;
  /// These p and q, up to the first token with p = 0 or the token that ends the text.
  std::span<const double> ps = {}, qs = {};
};

/// The base of an observer, which watches nothing. An observer declares what it watches:
///
///   reserve(tokens)    a draft of at most so many tokens is about to be offered
///   weighed(weighed)   a verdict was made; in a Batch perhaps on another thread than the verdicts of other texts
///   withdrawn(tokens)  what was noted after the first `tokens` new tokens does not count. May come twice, and without weighed(),
///                      since another observer may have thrown before
///   committed(step)    a step was taken
///   restarted()        the text goes on from another context; its tokens so far are a prompt now
///   forked()           this is the copy of an observer, for a twin of its text
///   report(result)     writes into a Result
///
/// A step is taken whole or not at all. So only reserve() and weighed() may throw, and committed() does not allocate.
struct Observer {
  void reserve(Index /*tokens*/) {}
  void weighed(const auto& /*weighed*/) {}
  void withdrawn(Index /*tokens*/) noexcept {}
  void committed(const CommittedStep&) noexcept {}
  void restarted() noexcept {}
  void forked() noexcept {}
  void report(auto& /*result*/) const {}
};

/// The observers of a decoder's texts, which are told in this order. Each text gets a copy. No type occurs twice.
template <std::derived_from<Observer>... O>
struct Observers : O... {
  /// Whether there is an observer of type T.
  template <class T>
  static constexpr bool has = (std::same_as<T, O> || ...);

  /// Calls f with each observer.
  template <class F>
  void each(const F& f) {
    (f(static_cast<O&>(*this)), ...);
  }
  void report(auto& result) const { (O::report(result), ...); }
};

template <class... O>
Observers(O...) -> Observers<O...>;

/// Keeps the Stats of a text, and of each token whether it was drafted. A twin's statistics begin at the fork.
struct StatsObserver : Observer {
  Stats stats = {};
  std::vector<bool> drafted = {};  ///< for each new token

  void reserve(Index tokens) { stats.reserve(tokens); }
  void weighed(const auto& step) {
    for (std::size_t i = 0; i < step.emitted.size(); ++i) drafted.push_back(i < step.path.size());
  }
  void withdrawn(Index tokens) noexcept { drafted.resize(static_cast<std::size_t>(tokens)); }
  void committed(const CommittedStep& committed) noexcept { stats.add(committed.step, committed.emitted); }
  void forked() noexcept { stats = {}; }
  void report(auto& result) const {
    result.stats = stats;
    result.drafted = drafted;
  }
};

}  // namespace specdec
