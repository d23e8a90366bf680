// Statistics of a generation. measure/print_stats.hpp prints them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_limit.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

inline double ratio(Index part, Index whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// part[i] / whole[i] for each number of `whole`; 0 beyond the end of `part`.
inline std::vector<double> shares(const std::vector<Index>& part, const std::vector<Index>& whole) {
  std::vector<double> out(whole.size());
  for (std::size_t i = 0; i < part.size(); ++i) out[i] = ratio(part[i], whole[i]);
  return out;
}

/// Adds 1 to each of the first `length` positions.
inline void count(std::vector<Index>& positions, Index length) {
  resize(positions, std::max(std::ssize(positions), length));
  for (Index i = 0; i < length; ++i) ++at(positions, i);
}

/// [i]: P(τ > i), estimated as the product over j <= i of P(τ > j | τ >= j, and the text goes on). reached[j] counts the drafts
/// that can tell of token j: it was asked for, the tokens before it were accepted, and the text did not end with one of these.
/// survived[j] counts those drafts among them whose token j was accepted. A text that ends inside a draft, or a draft that is
/// shorter than others, tells of the tokens up to there, and counts as no rejection after them. The list ends where nothing is
/// known. After a 0 all is known to be 0.
/// Source: Kaplan and Meier, "Nonparametric estimation from incomplete observations" (1958). Consistent if the acceptance of a
/// token does not depend on whether a draft ends before it.
template <class Survived, class Reached>
std::vector<double> survival_of(const std::vector<Survived>& survived, const std::vector<Reached>& reached) {
  std::vector<double> out;
  double survival = 1;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const auto all = static_cast<double>(reached[i]);
    if (survival > 0 && all == 0) break;
    const double here = i < survived.size() ? static_cast<double>(survived[i]) : 0.0;
    if (survival > 0) survival *= here / all;
    out.push_back(survival);
  }
  return out;
}

/// a += b, element by element; a grows to the size of b.
template <class Number>
void add_elements(std::vector<Number>& a, const std::vector<Number>& b) {
  a.resize(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < b.size(); ++i) a[i] += b[i];
}

}  // namespace detail

/// Counts over one generation, or the sum of several. A stop token, the budget or a callback may cut tokens off the output.
/// These tokens count as drafted, and in the ranks of siblings, but in no other count. Counts by position leave out the
/// positions after a drafted token with which the text would end.
struct Stats {
  Index target_calls = 0;
  Index drafted = 0;   ///< tokens proposed
  Index accepted = 0;  ///< proposed tokens that reached the output
  Index emitted = 0;   ///< tokens of the output

  std::vector<Index> accepted_lengths;     ///< [k]: steps that accepted k tokens
  std::vector<Index> asked_by_position;    ///< [i]: steps that asked for an (i+1)-th token
  std::vector<Index> drafted_by_position;  ///< [i]: steps that proposed an (i+1)-th token
  /// [i]: steps that tell of an (i+1)-th token: it was asked for, and the i before it were accepted, without the end of the text.
  std::vector<Index> reached_by_position;
  std::vector<Index> accepted_by_position;  ///< [i]: steps that accepted an (i+1)-th token

  /// For drafts that branch, by the rank k of a sibling (0 for the eldest): how often the context or an accepted token had a
  /// (k+1)-th child, and how often this child was accepted. Empty for linear drafts.
  std::vector<Index> offered_by_rank, accepted_by_rank;

  std::chrono::nanoseconds draft_time{0}, target_time{0}, verify_time{0};

  /// Tokens emitted per target call; 0 before the first call. Ordinary decoding has 1; the most is γ+1.
  double block_efficiency() const { return detail::ratio(emitted, target_calls); }

  /// The share of the proposed tokens that reached the output; 0 if nothing was proposed. This is not the acceptance rate
  /// α = E Σ min(p, q), which is a property of the two models.
  double accepted_fraction() const { return detail::ratio(accepted, drafted); }

  /// Tokens accepted per target call; 0 before the first call.
  double accepted_per_step() const { return detail::ratio(accepted, target_calls); }

  /// [i]: P(τ > i) as counted, in a text that goes on: see detail::survival_of. The list ends where no step came so far.
  /// Acceptance (more/analysis/acceptance.hpp) has estimates with less noise for token and block verification.
  std::vector<double> survival() const {
    return detail::survival_of(accepted_by_position, reached_by_position);
  }

  /// [k]: how often the (k+1)-th child was accepted, over the nodes that were reached and have such a child.
  std::vector<double> acceptance_by_rank() const { return detail::shares(accepted_by_rank, offered_by_rank); }

  /// Allocates memory for steps of up to gamma drafted tokens. Changes no value.
  void reserve(Index gamma) {
    detail::check_drafted("gamma", gamma);
    each_list([&](auto list) { detail::reserve(this->*list, gamma + 1); });
  }

  /// Adds one step. The first `step_emitted` of its tokens reached the output. Allocates nothing after reserve(step.asked).
  /// Throws: InvalidArgument on an impossible step. Nothing is counted then.
  void add(const StepRecord& step, Index step_emitted) {
    detail::check_step(step);
    if (step_emitted < 0) detail::invalid_argument("step_emitted = ", step_emitted, " is negative");
    const Index step_accepted = std::min(step.accepted, step_emitted);
    ++target_calls;
    drafted += step.drafted;
    accepted += step_accepted;
    emitted += step_emitted;
    detail::resize(accepted_lengths, std::max(std::ssize(accepted_lengths), step.depth() + 1));
    ++detail::at(accepted_lengths, step_accepted);
    count_positions(step, step_accepted, step_emitted);
    add_ranks(step.tree);
    draft_time += step.draft_time;
    target_time += step.target_time;
    verify_time += step.verify_time;
  }

  /// Adds all counts of another generation.
  Stats& operator+=(const Stats& other) {
    target_calls += other.target_calls;
    drafted += other.drafted;
    accepted += other.accepted;
    emitted += other.emitted;
    each_list([&](auto list) { detail::add_elements(this->*list, other.*list); });
    draft_time += other.draft_time;
    target_time += other.target_time;
    verify_time += other.verify_time;
    return *this;
  }

 private:
  template <class F>
  static void each_list(const F& f) {
    for (const auto list : {&Stats::accepted_lengths, &Stats::asked_by_position, &Stats::drafted_by_position,
                            &Stats::reached_by_position, &Stats::accepted_by_position,
                            &Stats::offered_by_rank, &Stats::accepted_by_rank})
      f(list);
  }

  void count_positions(const StepRecord& step, Index step_accepted, Index step_emitted) {
    const Index most = step.ending < 0 ? step.depth() : step.ending + 1;
    const bool ends_as_drafted = step.ending >= 0 || step.tree.depth >= 0;
    const Index asked = ends_as_drafted ? most : std::max(step.asked, step.drafted);
    detail::count(asked_by_position, asked);
    detail::count(drafted_by_position, most);
    detail::count(reached_by_position, std::min({asked, step.accepted + 1, step_emitted}));
    detail::resize(reached_by_position, std::ssize(asked_by_position));
    detail::count(accepted_by_position, std::min(step_accepted, most));
    detail::resize(accepted_by_position, std::ssize(drafted_by_position));
  }

  void add_ranks(const TreeRecord& tree) {
    for (const Index children : tree.offered) detail::count(offered_by_rank, children);
    detail::resize(accepted_by_rank, std::ssize(offered_by_rank));
    for (const Index rank : tree.ranks) ++detail::at(accepted_by_rank, rank);
  }
};

}  // namespace specdec
