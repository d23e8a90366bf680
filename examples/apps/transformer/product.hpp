// y = W x for a few vectors x at a time: where a transformer spends its time.
//
// With one token at a time, a processor waits for the weights. A batch of γ+1 tokens reads the weights only once: this makes
// speculative decoding fast. Eigen's own matrix product is made for large matrices. It copies both matrices into its own
// layout at every call, and for a few columns the copies take as long as the product. Here the weights were put into panels
// once (panels.hpp), and a tile of sums stays in registers while a panel is read.
//
// Numeric: every sum runs over the columns of W in their order, for any number of vectors. So the result of a vector does
// not depend on the other vectors, to the bit.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#if defined(__GNUC__) && (defined(__AVX512F__) || defined(__F16C__))
#include <immintrin.h>
#endif

#include "transformer/panels.hpp"

namespace transformer {

/// `count` vectors in memory; each begins `stride` numbers after the one before.
struct Vectors {
  const float* data;
  Index count, stride;
};

namespace detail {

#if EIGEN_MAX_STATIC_ALIGN_BYTES >= 16
inline constexpr int register_bytes = std::min(EIGEN_MAX_STATIC_ALIGN_BYTES, 64);
#else
inline constexpr int register_bytes = 16;
#endif

/// The floats of one register. With Eigen arrays, GCC and Clang do not inline enough to keep all sums of a tile in
/// registers.
inline constexpr int width = register_bytes / static_cast<int>(sizeof(float));
#ifdef __GNUC__
typedef float Register __attribute__((vector_size(register_bytes)));
#else
using Register = Eigen::Array<float, width, 1>;
#endif
inline constexpr int registers_a_panel = static_cast<int>(lanes) / width;

/// `volatile` makes GCC read the weights once. Otherwise GCC reads them from memory again for every sum, and a processor
/// reads fewer registers per cycle than it adds.
inline Register load(const float* numbers) {
#ifdef __GNUC__
  typedef float Numbers __attribute__((vector_size(register_bytes), may_alias));
  return *reinterpret_cast<const volatile Numbers*>(numbers);
#else
  Register result;
  std::memcpy(&result, std::assume_aligned<register_bytes>(numbers), sizeof(Register));
  return result;
#endif
}

/// Whether one instruction converts a register of halves. It is used on x86 alone, by GCC and Clang.
#if defined(__GNUC__) && ((defined(__AVX512F__) && EIGEN_MAX_STATIC_ALIGN_BYTES >= 64) || \
                          (defined(__F16C__) && EIGEN_MAX_STATIC_ALIGN_BYTES == 32))
inline constexpr bool converts_halves = true;
inline Register load(const Eigen::half* numbers) {
#if EIGEN_MAX_STATIC_ALIGN_BYTES >= 64
  return _mm512_cvtph_ps(_mm256_load_si256(reinterpret_cast<const __m256i*>(numbers)));
#else
  return _mm256_cvtph_ps(_mm_load_si128(reinterpret_cast<const __m128i*>(numbers)));
#endif
}
#else
inline constexpr bool converts_halves = false;
/// Converts halves to floats with integer operations, which every processor has. Sign, exponent and mantissa bits are
/// shifted to their places in a float, and the copies of the sign bit between them are cleared. The product with 2^112
/// corrects the exponent's offset. Infinities are not handled: weights are finite.
inline Register load(const Eigen::half* numbers) {
#ifdef __GNUC__
  typedef std::int16_t Halves __attribute__((vector_size(register_bytes / 2)));
  typedef std::int32_t Words __attribute__((vector_size(register_bytes)));
  Halves halves;
  std::memcpy(&halves, std::assume_aligned<register_bytes / 2>(numbers), sizeof(Halves));
  const Words words = __builtin_convertvector(halves, Words);
  return std::bit_cast<Register>(words << 13 & ~0x70000000) * 0x1p112f;
#else
  return Eigen::Map<const Eigen::Array<Eigen::half, width, 1> >(numbers).cast<float>();
#endif
}
#endif

inline void store(const Register& from, float* numbers) {
  std::memcpy(std::assume_aligned<register_bytes>(numbers), &from, sizeof(Register));
}

/// Asks the memory for the weights that stand a page of 4 kB after these. An address after the last weight does no harm:
/// nothing is read.
inline void prefetch([[maybe_unused]] const void* weights) {
#ifdef __GNUC__
  __builtin_prefetch(reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(weights) + 4096));
#endif
}

/// The columns of a panel in a page.
template <class Scalar>
inline constexpr Index columns_a_page = Index{4096} / (lanes * static_cast<Index>(sizeof(Scalar)));

/// The most sums in registers. A processor has 16 registers, and 32 with AVX-512. Some are left for weights.
inline constexpr int most_sums = register_bytes < 32 ? 10 : register_bytes < 64 ? 12 : 20;

/// The most vectors that are multiplied together.
inline constexpr Index widest_tile = most_sums / registers_a_panel;

/// Whether a tile of one panel has no registers left for a number of each vector, beside its sums and a register of weights.
template <int Count>
inline constexpr bool short_of_registers = register_bytes == 32 && (registers_a_panel + 1) * Count + 1 > 16;

/// A register full of this number. The compiler is told nothing about where it comes from: else it prepares such registers for
/// all vectors first, and keeps sums in memory instead.
inline Register repeat(float number) {
#ifdef __GNUC__
  Register result = number - Register{};
#ifdef __AVX__
  asm("" : "+x"(result));
#endif
  return result;
#else
  return Register::Constant(number);
#endif
}

/// The number of sums to compute at a time: an addition takes about four cycles, and a processor begins two in each cycle.
inline constexpr int sums_under_way = 8;

/// Whether weights are converted by several operations, which fill the time between additions.
template <class Scalar>
inline constexpr bool slow_to_load = !std::is_same_v<Scalar, float> && !converts_halves;

/// The panels that are multiplied together: enough for sums_under_way. Where loading fills the time, or the sums of four
/// vectors, one panel is enough: memory is read fastest from front to back.
template <class Scalar, int Count>
inline constexpr int panels_a_tile =
    slow_to_load<Scalar> || Count >= 4 ? 1 : (sums_under_way - 1) / (Count * registers_a_panel) + 1;

/// When weights are fetched. A processor looks ahead by itself, but only to the end of a page: so the next page is begun while
/// one is read. Many vectors leave the processor no room to look far ahead: then every column is fetched. With AVX, two vectors
/// are enough for that: beside programs that use the shared cache, this takes a third of the time away from products with two
/// to five, and elsewhere nothing changes. A single vector is as fast as the memory without it.
template <int Count>
inline constexpr bool fetches_columns = Count > (register_bytes == 32 ? 1 : 5);
template <class Scalar, int Count>
inline constexpr bool fetches_pages = !fetches_columns<Count> && (Count > 1 || slow_to_load<Scalar>);

/// The sums of a tile: `Height` panels times `Count` vectors. Loops over them are fold expressions, so that the sums stay in
/// registers at any optimisation level.
template <int Height, int Count>
class Tile {
  template <int Size>
  using Numbers = std::make_integer_sequence<int, Size>;
  using Registers = Numbers<Height * registers_a_panel>;
  using Sums = Numbers<Height * registers_a_panel * Count>;

 public:
  /// Adds the products of the first `Height` panels of w and the first `Count` vectors to y.
  template <class Scalar>
  static void add(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
    Tile tile;
    tile.begin(y, y_stride, Sums{});
    const Index page = fetches_pages<Scalar, Count> ? columns_a_page<Scalar> : w.cols;
    for (Index k = 0; k < w.cols;) {
      if constexpr (fetches_pages<Scalar, Count>) prefetch(w, k);
      for (const Index end = std::min(w.cols, k + page); k < end; ++k) {
        if constexpr (fetches_columns<Count>) prefetch(w, k);
        tile.add_column(w.data + k * lanes, w.stride * lanes, x.data + k, x.stride, Registers{});
      }
    }
    tile.end(y, y_stride, Sums{});
  }

 private:
  // Fetches the weights a page after column k of each panel.
  template <class Scalar>
  static void prefetch(const PanelView<Scalar>& w, Index k) {
    for (int i = 0; i < Height; ++i) detail::prefetch(w.data + (k + i * w.stride) * lanes);
  }

  // The offset of register r, if panels are `stride` numbers apart.
  static constexpr Index offset(int r, Index stride) {
    return r / registers_a_panel * stride + r % registers_a_panel * width;
  }

  template <int... I>
  EIGEN_ALWAYS_INLINE void begin(const float* y, Index y_stride, std::integer_sequence<int, I...>) {
    ((sums_[I] = load(y + I % Count * y_stride + offset(I / Count, lanes))), ...);
  }

  template <class Scalar, int... R>
  EIGEN_ALWAYS_INLINE void add_column(const Scalar* column, Index stride, const float* x, Index x_stride,
                                      std::integer_sequence<int, R...>) {
    if constexpr (short_of_registers<Count>) {
      const Register weights[] = {load(column + offset(R, stride))...};
      add_vectors(weights, x, x_stride, Numbers<Count>{});
    } else {
      (add_register<R>(load(column + offset(R, stride)), x, x_stride, Numbers<Count>{}), ...);
    }
  }

  template <int R, int... C>
  EIGEN_ALWAYS_INLINE void add_register(const Register& weights, const float* x, Index x_stride,
                                        std::integer_sequence<int, C...>) {
    ((sums_[R * Count + C] += weights * x[C * x_stride]), ...);
  }

  // All weights of the column times one vector after another.
  template <int... C>
  EIGEN_ALWAYS_INLINE void add_vectors(const Register* weights, const float* x, Index x_stride,
                                       std::integer_sequence<int, C...>) {
    (add_vector<C>(weights, repeat(x[C * x_stride]), Registers{}), ...);
  }

  template <int C, int... R>
  EIGEN_ALWAYS_INLINE void add_vector(const Register* weights, const Register& number,
                                      std::integer_sequence<int, R...>) {
    ((sums_[R * Count + C] += weights[R] * number), ...);
  }

  template <int... I>
  EIGEN_ALWAYS_INLINE void end(float* y, Index y_stride, std::integer_sequence<int, I...>) const {
    (store(sums_[I], y + I % Count * y_stride + offset(I / Count, lanes)), ...);
  }

  Register sums_[Height * registers_a_panel * Count];
};

/// Multiplies all panels with up to one tile of vectors; the number of vectors is a template argument.
template <int Count, class Scalar>
void add_tile(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  constexpr int height = panels_a_tile<Scalar, Count>;
  const auto from = [&](Index p) {
    return PanelView<Scalar>{w.data + p * w.stride * lanes, w.panels - p, w.cols, w.stride};
  };
  Index p = 0;
  for (; p + height <= w.panels; p += height) Tile<height, Count>::add(from(p), x, y + p * lanes, y_stride);
  if constexpr (height > 1)
    for (; p < w.panels; ++p) Tile<1, Count>::add(from(p), x, y + p * lanes, y_stride);
}

/// Multiplies all panels with 0..widest_tile vectors; their number is known at run time.
template <class Scalar>
void add_narrow(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (void)((x.count == I + 1 && (add_tile<I + 1>(w, x, y, y_stride), true)) || ...);
  }(std::make_integer_sequence<int, static_cast<int>(widest_tile)>{});
}

/// Multiplies all panels with any number of vectors. The vectors are split into tiles of nearly equal size. All tiles use a
/// group of panels while it is in the cache.
template <class Scalar>
void add_wide(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  constexpr Index cached = (Index{1} << 18) / (lanes * static_cast<Index>(sizeof(Scalar)));
  const Index tiles = (x.count + widest_tile - 1) / widest_tile;
  const Index some = std::max<Index>(1, cached / w.cols);
  for (Index p = 0; p < w.panels; p += some) {
    const PanelView<Scalar> panels{w.data + p * w.stride * lanes, std::min(some, w.panels - p), w.cols,
                                   w.stride};
    for (Index t = 0; t < tiles; ++t) {
      const Index first = x.count * t / tiles, last = x.count * (t + 1) / tiles;
      add_narrow(panels, {x.data + first * x.stride, last - first, x.stride},
                 y + first * y_stride + p * lanes, y_stride);
    }
  }
}

}  // namespace detail

/// The fastest numbers for weights that may be rounded, such as those of `generate`'s drafters: halves, if one instruction
/// converts a register of them. Then they are read faster than floats.
using FastScalar = std::conditional_t<detail::converts_halves, Eigen::half, float>;

/// Adds W x to y for every vector x.
/// Shapes: y holds a vector for each x, `y_stride` numbers apart, with 16 numbers a panel.
/// Pre: y is aligned like an Eigen array, and y_stride is a multiple of 16.
/// Cost: no allocation.
/// Numeric: in float; the products are added to each number of y one after another, in the order of columns.
template <class Scalar>
void add_product(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  if (x.count <= detail::widest_tile) detail::add_narrow(w, x, y, y_stride);
  else detail::add_wide(w, x, y, y_stride);
}

/// Sets y = W x for every vector x, with the shapes and preconditions of add_product().
template <class Scalar>
void product(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  for (Index i = 0; i < x.count; ++i) std::fill_n(y + i * y_stride, w.panels * lanes, 0.0f);
  add_product(w, x, y, y_stride);
}

}  // namespace transformer
