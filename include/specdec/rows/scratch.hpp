// Memory for what is known of each row of a draft while it is judged.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// The rows of a draft of 32 tokens: up to here a verification allocates nothing.
inline constexpr Index few_rows = 33;

/// Numbers, one a row: in place where they are few. They are not initialised.
class Scratch {
 public:
  explicit Scratch(Index size) : more_(size > few_rows ? static_cast<std::size_t>(size) : 0) {
    numbers_ = size > few_rows ? more_.data() : few_.data();
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  double& operator[](Index i) { return numbers_[i]; }
  double operator[](Index i) const { return numbers_[i]; }
  double* data() { return numbers_; }

 private:
  double* numbers_;
  std::array<double, few_rows> few_;
  std::vector<double> more_;
};

}  // namespace specdec::detail
