// What a generation did, in numbers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ios>
#include <ostream>
#include <vector>

#include "specdec/analysis/acceptance.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Counts over one generation. What a stop token, the budget or a callback cut off the output is in no count
/// but `drafted`.
struct Stats {
  Index target_calls = 0;
  Index drafted = 0;   ///< tokens proposed
  Index accepted = 0;  ///< proposed tokens that reached the output
  Index emitted = 0;   ///< tokens of the output

  std::vector<Index> accepted_lengths;      ///< [k]: steps that accepted k tokens
  std::vector<Index> drafted_by_position;   ///< [i]: steps that proposed an (i+1)-th token
  std::vector<Index> accepted_by_position;  ///< [i]: steps that accepted an (i+1)-th token

  /// What token and block verification would accept of the same drafts in expectation. Empty (0 steps) where
  /// the rule in use did not look at all of a draft and looking would cost a pass over a row.
  Acceptance acceptance;

  std::chrono::nanoseconds draft_time{0}, target_time{0}, verify_time{0};

  /// Tokens emitted per target call; 0 before the first. 1 is ordinary decoding, γ+1 the most.
  double block_efficiency() const { return ratio(emitted, target_calls); }

  /// Share of the proposed tokens that reached the output; 0 where nothing was proposed. (Not the acceptance
  /// rate α, which is a property of the two models: E Σ min(p, q).)
  double accepted_fraction() const { return ratio(accepted, drafted); }

  /// Makes room for steps of up to gamma drafted tokens, without a change to see.
  void reserve(Index gamma) {
    const auto size = static_cast<std::size_t>(gamma);
    accepted_lengths.reserve(size + 1);
    drafted_by_position.reserve(size);
    accepted_by_position.reserve(size);
    acceptance.reserve(gamma);
  }

  /// Enters one step. Allocates nothing after reserve(step_drafted).
  void add(Index step_drafted, Index step_accepted, Index step_emitted) {
    const auto size = static_cast<std::size_t>(step_drafted);
    accepted_lengths.resize(std::max(accepted_lengths.size(), size + 1));
    drafted_by_position.resize(std::max(drafted_by_position.size(), size));
    accepted_by_position.resize(std::max(accepted_by_position.size(), size));
    ++target_calls;
    drafted += step_drafted;
    accepted += step_accepted;
    emitted += step_emitted;
    ++accepted_lengths[static_cast<std::size_t>(step_accepted)];
    for (Index i = 0; i < step_drafted; ++i) ++drafted_by_position[static_cast<std::size_t>(i)];
    for (Index i = 0; i < step_accepted; ++i) ++accepted_by_position[static_cast<std::size_t>(i)];
  }

  friend std::ostream& operator<<(std::ostream& out, const Stats& stats) {
    const auto flags = out.flags();
    const auto precision = out.precision(3);
    const auto ms = [](std::chrono::nanoseconds t) {
      return std::chrono::duration<double, std::milli>(t).count();
    };
    out << std::fixed << "target calls       " << stats.target_calls << "\n"
        << "emitted            " << stats.emitted << "\n"
        << "drafted, accepted  " << stats.drafted << ", " << stats.accepted << "\n"
        << "block efficiency   " << stats.block_efficiency() << " tokens per target call\n"
        << "accepted fraction  " << stats.accepted_fraction() << "\n"
        << "accepted lengths  ";
    for (const Index steps : stats.accepted_lengths) out << " " << steps;
    out << "\naccepted at        ";
    for (std::size_t i = 0; i < stats.drafted_by_position.size(); ++i)
      out << (i ? " " : "") << ratio(stats.accepted_by_position[i], stats.drafted_by_position[i]);
    stats.print_expectation(out);
    out << "\ntime (ms)          draft " << ms(stats.draft_time) << ", target " << ms(stats.target_time)
        << ", verify " << ms(stats.verify_time) << "\n";
    out.precision(precision);
    out.flags(flags);
    return out;
  }

 private:
  void print_expectation(std::ostream& out) const {
    if (acceptance.drafted.empty()) return;
    const Estimate rate = acceptance.rate();
    out << "\nexpected accepted  " << acceptance.expected_token() << " a step under token verification, "
        << acceptance.expected_block() << " under block"
        << "\nacceptance rate    " << rate.value << " +- " << rate.standard_error;
  }

  static double ratio(Index part, Index whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  }
};

}  // namespace specdec
