// Exchanges of numbers between ranks.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/ranks/communicator.hpp"
#include "specdec/types.hpp"

#ifndef __cpp_exceptions
#error "specdec/ranks needs exceptions: a rank that fails tells the others"
#endif

namespace specdec::inline v0_2_0::detail {

/// A rank gives this if it could not compute a number, since the others wait for one.
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// Returns f(), or no_number if f throws.
template <class F>
double attempt(F&& f) {
  double number = no_number;
  error_of([&] { number = f(); });
  return number;
}

/// Gathers numbers from all ranks, and counts them. The communicator must outlive the object.
/// Cost: no allocation in steady state.
template <Communicator C>
class Exchange {
 public:
  explicit Exchange(C& ranks) : ranks_(&ranks) {}

  Index rank() const { return ranks_->rank(); }
  Index ranks() const { return ranks_->size(); }

  /// Every rank gives `count` numbers, which fill(numbers) appends. If fill throws, the rank gives `count` times no_number.
  /// `count` must be equal on all ranks.
  /// Throws: std::bad_alloc on a rank without memory for the numbers; the others then throw, too.
  template <class Fill>
  void operator()(std::size_t count, Fill&& fill) {
    prepare([&] {
      given_.clear();
      given_.reserve(count);
      all_.resize(count * static_cast<std::size_t>(ranks()));
    });
    if (error_of([&] { fill(given_); })) given_.assign(count, no_number);
    ranks_->all_gather(std::span<const double>(given_), std::span<double>(all_));
    ++exchanges_;
    numbers_ += std::ssize(given_);
  }

  /// Calls f(), work of this rank alone before the next exchange. If f throws (out of memory, say), this rank gives no
  /// numbers in that exchange: the others do not wait, since their communicator throws.
  /// Pre: in the next exchange every rank gives at least one number.
  template <class F>
  void prepare(F&& f) {
    const auto tell = [this] {
      error_of([&] { ranks_->all_gather(std::span<const double>(), std::span<double>()); });
    };
    undo_on_error(std::forward<F>(f), tell);
  }

  /// Every rank gives one number, f().
  template <class F>
  void one(F&& f) {
    (*this)(1, [&](std::vector<double>& out) { out.push_back(f()); });
  }

  /// The k-th number of a rank.
  double from(Index rank, std::size_t k) const {
    return all_[static_cast<std::size_t>(rank) * given_.size() + k];
  }
  /// The sum of the ranks' k-th numbers, in the order of the ranks: bit-identical on all ranks.
  double sum(std::size_t k) const {
    double sum = 0;
    for (Index r = 0; r < ranks(); ++r) sum += from(r, k);
    return sum;
  }
  void check_alike(std::size_t k, const char* what) const {
    for (Index r = 0; r < ranks(); ++r)
      if (std::isnan(from(r, k))) external_failure("rank ", r, " could not tell ", what);
    for (Index r = 1; r < ranks(); ++r)
      if (from(r, k) != from(0, k))
        invalid_call("the ranks differ in ", what, ": rank 0 has ", from(0, k), ", rank ", r, " has ",
                     from(r, k));
  }

  /// How many exchanges there were, and how many numbers this rank has given.
  Index exchanges() const { return exchanges_; }
  Index numbers_given() const { return numbers_; }

 private:
  C* ranks_;
  std::vector<double> given_, all_;  // of the last exchange
  Index exchanges_ = 0, numbers_ = 0;
};

}  // namespace specdec::detail
