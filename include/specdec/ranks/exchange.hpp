// Numbers that ranks give one another.
#pragma once

#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/ranks/communicator.hpp"
#include "specdec/types.hpp"

namespace specdec::detail {

/// What a rank gives in place of a number that it could not make: the others wait for one.
inline constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// f(), or no_number where that throws.
template <class F>
double attempt(F&& f) {
  try {
    return f();
  } catch (...) {
    return no_number;
  }
}

/// Gathers the numbers of all ranks, time and again, and counts how many. The communicator must outlive it.
///
/// Cost: no allocation once there has been room for as many numbers.
template <Communicator C>
class Exchange {
 public:
  explicit Exchange(C& ranks) : ranks_(&ranks) {}

  Index rank() const { return ranks_->rank(); }
  Index ranks() const { return ranks_->size(); }

  /// Every rank gives the `count` numbers that fill(numbers) enters, as many as every other. Where that throws it gives
  /// `count` times no_number. A rank that has no memory for the numbers throws std::bad_alloc, and the others throw, too.
  template <class Fill>
  void operator()(std::size_t count, Fill&& fill) {
    prepare([&] {
      given_.clear();
      given_.reserve(count);
      all_.resize(count * static_cast<std::size_t>(ranks()));
    });
    try {
      fill(given_);
    } catch (...) {
      given_.assign(count, no_number);
    }
    ranks_->all_gather(std::span<const double>(given_), std::span<double>(all_));
    ++exchanges_;
    numbers_ += std::ssize(given_);
  }

  /// f(), which this rank does by itself before the ranks exchange numbers, one at least. Where it throws, for want of
  /// memory, say, the others do not wait: they get nothing from here, so that their communicator throws.
  template <class F>
  void prepare(F&& f) {
    try {
      f();
    } catch (...) {
      error_of([&] { ranks_->all_gather(std::span<const double>(), std::span<double>()); });
      throw;
    }
  }

  /// One number of each rank, f().
  template <class F>
  void one(F&& f) {
    (*this)(1, [&](std::vector<double>& out) { out.push_back(f()); });
  }

  /// The k-th number of a rank.
  double from(Index rank, std::size_t k) const {
    return all_[static_cast<std::size_t>(rank) * given_.size() + k];
  }
  /// Σ of the ranks' k-th numbers, in their order: on all ranks to the bit.
  double sum(std::size_t k) const {
    double sum = 0;
    for (Index r = 0; r < ranks(); ++r) sum += from(r, k);
    return sum;
  }
  void check_alike(std::size_t k, const char* what) const {
    for (Index r = 0; r < ranks(); ++r)
      if (std::isnan(from(r, k)))
        throw std::runtime_error(message("specdec: rank ", r, " could not tell ", what));
    for (Index r = 1; r < ranks(); ++r)
      if (from(r, k) != from(0, k))
        throw std::logic_error(message("specdec: the ranks differ in ", what, ": rank 0 has ", from(0, k),
                                       ", rank ", r, " has ", from(r, k)));
  }

  /// How often numbers have been exchanged, and how many this rank has given.
  Index exchanges() const { return exchanges_; }
  Index numbers_given() const { return numbers_; }

 private:
  C* ranks_;
  std::vector<double> given_, all_;  // of the last exchange
  Index exchanges_ = 0, numbers_ = 0;
};

}  // namespace specdec::detail
