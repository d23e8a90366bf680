// Statistics as text, for people.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <ostream>
#include <string_view>
#include <vector>

#include "specdec/measure/stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

inline void print_totals(std::ostream& out, const Stats& stats) {
  const auto ms = [](std::chrono::nanoseconds t) { return 1e3 * seconds(t); };
  out << "target calls       " << stats.target_calls << "\n"
      << "emitted            " << stats.emitted << "\n"
      << "drafted, accepted  " << stats.drafted << ", " << stats.accepted << "\n"
      << "block efficiency   " << stats.block_efficiency() << " tokens per target call\n"
      << "accepted fraction  " << stats.accepted_fraction() << "\n"
      << "time (ms)          draft " << ms(stats.draft_time) << ", target " << ms(stats.target_time)
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

template <class Values>
void print_row(std::ostream& out, std::string_view name, const Values& values) {
  out << name << std::string_view("                  ").substr(name.size());
  for (const auto& value : values) {
    out.width(7);
    out << value;
  }
  out << "\n";
}

inline void print_positions(std::ostream& out, const Stats& stats) {
  print_row(out, "position", numbers_to(std::ssize(stats.drafted_by_position)));
  print_row(out, "drafted", stats.drafted_by_position);
  print_row(out, "survival", stats.survival());
  if (stats.offered_by_rank.empty()) return;
  print_row(out, "rank of sibling", numbers_to(std::ssize(stats.offered_by_rank)));
  print_row(out, "accepted", stats.acceptance_by_rank());
}

/// Prints numbers with three decimals. The stream's format is then as it was.
template <class Print>
std::ostream& print_fixed(std::ostream& out, const Print& print) {
  const auto flags = out.flags();
  const auto precision = out.precision(3);
  out << std::fixed;
  print();
  out.precision(precision);
  out.flags(flags);
  return out;
}

}  // namespace detail

inline std::ostream& operator<<(std::ostream& out, const Stats& stats) {
  return detail::print_fixed(out, [&] {
    detail::print_totals(out, stats);
    if (!stats.drafted_by_position.empty()) detail::print_positions(out, stats);
  });
}

}  // namespace specdec
