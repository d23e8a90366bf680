// Statistics as text, for people.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <ostream>
#include <string_view>
#include <vector>

#include "specdec/measure/acceptance.hpp"
#include "specdec/measure/clock.hpp"
#include "specdec/measure/stats.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

inline void print_totals(std::ostream& out, const Stats& stats) {
  const auto ms = [](std::chrono::nanoseconds t) { return 1e3 * seconds(t); };
  out << "target calls       " << stats.target_calls << "\n"
      << "emitted            " << stats.emitted << "\n"
      << "drafted, accepted  " << stats.drafted << ", " << stats.accepted << "\n"
      << "block efficiency   " << stats.block_efficiency() << " tokens per target call\n"
      << "accepted fraction  " << stats.accepted_fraction() << "\n";
  if (!stats.acceptance.drafted.empty()) {
    const Interval rate = stats.acceptance.rate_interval();
    out << "acceptance rate    " << stats.acceptance.rate().value << ", with 95 % confidence in " << rate.low
        << ".." << rate.high << "\n"
        << "expected accepted  " << stats.acceptance.expected_token() << " a step under token verification, "
        << stats.acceptance.expected_block() << " under block\n";
  }
  out << "time (ms)          draft " << ms(stats.draft_time) << ", target " << ms(stats.target_time)
      << ", verify " << ms(stats.verify_time) << "\n"
      << "accepted lengths  ";
  for (const Index steps : stats.accepted_lengths) out << " " << steps;
  out << "\n";
}

/// The numbers 1..last, which head the columns of a table.
inline std::vector<Index> numbers_to(Index last) {
  std::vector<Index> numbers;
  for (Index i = 1; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

inline void print_positions(std::ostream& out, const Stats& stats) {
  const auto row = [&](std::string_view name, const auto& values) {
    out << name << std::string_view("                  ").substr(name.size());
    for (const auto& value : values) {
      out.width(7);
      out << value;
    }
    out << "\n";
  };
  row("position", numbers_to(std::ssize(stats.drafted_by_position)));
  row("drafted", stats.drafted_by_position);
  row("survival", stats.survival());
  if (!stats.offered_by_rank.empty()) {
    row("rank of sibling", numbers_to(std::ssize(stats.offered_by_rank)));
    row("accepted", stats.acceptance_by_rank());
  }
  if (stats.acceptance.drafted.empty()) return;
  row("  expected, token", stats.acceptance.token_survival());
  row("  expected, block", stats.acceptance.block_survival());
}

}  // namespace detail

inline std::ostream& operator<<(std::ostream& out, const Stats& stats) {
  const auto flags = out.flags();
  const auto precision = out.precision(3);
  out << std::fixed;
  detail::print_totals(out, stats);
  if (!stats.drafted_by_position.empty()) detail::print_positions(out, stats);
  out.precision(precision);
  out.flags(flags);
  return out;
}

}  // namespace specdec
