// A generator that can give again what it gave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "specdec/chance/any_generator.hpp"

namespace specdec {

/// A generator that remembers the bits that it gave since the last mark(), and after rewind() gives the same ones again:
/// what was tried in vain can be tried again with the same luck. No allocation in steady state.
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
  /// What has been given so far is not given again.
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
