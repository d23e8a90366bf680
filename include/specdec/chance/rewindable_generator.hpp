// A generator that can repeat its latest numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "specdec/chance/any_generator.hpp"

namespace specdec {

/// A generator that remembers its numbers since the last mark(). After rewind() it gives these numbers again, so a failed
/// attempt can be repeated with equal random numbers. No allocation in steady state.
class RewindableGenerator {
 public:
  using result_type = AnyGenerator::result_type;

  explicit RewindableGenerator(AnyGenerator generator) : generator_(std::move(generator)) {}

  static constexpr result_type min() { return AnyGenerator::min(); }
  static constexpr result_type max() { return AnyGenerator::max(); }

  result_type operator()() {
    if (next_ == given_.size()) given_.push_back(generator_());
    return given_[next_++];
  }

  void rewind() { next_ = 0; }
  /// Forgets the numbers given so far: rewind() does not repeat them.
  void mark() {
    given_.erase(given_.begin(), given_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
  }

 private:
  AnyGenerator generator_;
  std::vector<result_type> given_;
  std::size_t next_ = 0;
};

}  // namespace specdec
