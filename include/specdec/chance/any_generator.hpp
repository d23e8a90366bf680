// One type for random bit generators of all types.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <utility>

#include "specdec/chance/random.hpp"

namespace specdec {

/// Holds a generator of any type and passes on its bits, 64 at a time. Draws and coins are equal to those from the generator
/// itself. Use it to store generators of several types, one per sequence.
class AnyGenerator {
 public:
  using result_type = std::uint64_t;

  template <RandomBitGenerator Generator>
  AnyGenerator(Generator generator)
      : bits_([generator = std::move(generator)]() mutable { return random_bits64(generator); }) {}

  /// Draws from a generator that the caller keeps, as std::ref(rng): after the text the caller knows its state, for example
  /// the offset of a Philox. It must outlive this object.
  template <RandomBitGenerator Generator>
  AnyGenerator(std::reference_wrapper<Generator> generator)
      : bits_([generator] { return random_bits64(generator.get()); }) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }

  result_type operator()() { return bits_(); }

 private:
  std::function<std::uint64_t()> bits_;
};

}  // namespace specdec
