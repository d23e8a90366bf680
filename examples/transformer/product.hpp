// y = W x for a few vectors x at a time: where a transformer spends its time.
//
// One token at a time, a processor waits for the weights. A batch of γ+1 tokens needs them just once, which is
// what makes speculative decoding fast. Eigen's own product of matrices is made for large ones: it copies both
// into its own layout at every call, and for so few columns that takes as long as the product. Here the weights
// have been put into panels once and for all (panels.hpp), and a tile of sums stays in registers while a panel
// streams by.
//
// Every sum runs over the columns of W in their order, whatever the number of vectors: what a vector gives does
// not depend on its company, to the bit.
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

#include "transformer/panels.hpp"

namespace transformer {

/// `count` vectors in memory, one every `stride` numbers.
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

/// As many numbers as one register holds. As an Eigen array, GCC and Clang would not keep all the sums of a tile
/// in registers: that takes more inlining than they are prepared to do.
inline constexpr int width = register_bytes / static_cast<int>(sizeof(float));
#ifdef __GNUC__
typedef float Register __attribute__((vector_size(register_bytes)));
#else
using Register = Eigen::Array<float, width, 1>;
#endif
inline constexpr int registers_a_panel = static_cast<int>(lanes) / width;

/// `volatile` has it read once. GCC would let every sum that takes the same weights read them from memory anew,
/// and a processor reads fewer registers in a cycle than it adds.
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

/// The floats that halves stand for, in integers, which every processor has: sign, exponent and digits go to
/// their places in a float, whose exponent counts from 112 lower, and copies of the sign that came between them
/// are taken out. (No infinities: weights are finite.)
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

inline void store(const Register& from, float* numbers) {
  std::memcpy(std::assume_aligned<register_bytes>(numbers), &from, sizeof(Register));
}

/// Vectors that are multiplied together: ten sums at most, which leaves six of 16 registers for the rest.
inline constexpr Index widest_tile = 10 / registers_a_panel;

/// Sums that should be under way at a time: an addition takes about four cycles, and a processor begins two in
/// each, or one of AVX-512.
inline constexpr int sums_under_way = register_bytes == 64 ? 4 : 8;

/// Panels that are multiplied together, for that many sums; making floats of halves fills the time as well.
template <class Scalar, int Count>
inline constexpr int panels_a_tile =
    std::is_same_v<Scalar, float> ? (sums_under_way - 1) / (Count * registers_a_panel) + 1 : 1;

/// The sums of a tile, `Height` panels times `Count` vectors. Loops over them are written as folds, so that the
/// sums are in registers at any level of optimisation.
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
    for (Index k = 0; k < w.cols; ++k)
      tile.add_column(w.data + k * lanes, w.stride * lanes, x.data + k, x.stride, Registers{});
    tile.end(y, y_stride, Sums{});
  }

 private:
  // Where register r begins, if the next panel does `stride` numbers later.
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
    (add_register<R>(load(column + offset(R, stride)), x, x_stride, Numbers<Count>{}), ...);
  }

  template <int R, int... C>
  EIGEN_ALWAYS_INLINE void add_register(const Register& weights, const float* x, Index x_stride,
                                        std::integer_sequence<int, C...>) {
    ((sums_[R * Count + C] += weights * x[C * x_stride]), ...);
  }

  template <int... I>
  EIGEN_ALWAYS_INLINE void end(float* y, Index y_stride, std::integer_sequence<int, I...>) const {
    (store(sums_[I], y + I % Count * y_stride + offset(I / Count, lanes)), ...);
  }

  Register sums_[Height * registers_a_panel * Count];
};

/// One tile of vectors and all panels, as many at a time as it takes.
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

/// The same where the number of vectors, 0..widest_tile, is known at run time only.
template <class Scalar>
void add_narrow(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (void)((x.count == I + 1 && (add_tile<I + 1>(w, x, y, y_stride), true)) || ...);
  }(std::make_integer_sequence<int, static_cast<int>(widest_tile)>{});
}

/// Several tiles of vectors, of nearly the same size: one after the other while some panels are in the cache.
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

/// Adds W x to y for every vector x: y is as many vectors, `y_stride` numbers apart, of 16 numbers a panel,
/// aligned as Eigen aligns its arrays; y_stride is a multiple of 16.
/// Numeric: in float; each number of y gets one product after the other added to it, in the order of columns.
/// Allocates nothing.
template <class Scalar>
void add_product(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  if (x.count <= detail::widest_tile) detail::add_narrow(w, x, y, y_stride);
  else detail::add_wide(w, x, y, y_stride);
}

/// y = W x for every vector x.
template <class Scalar>
void product(const PanelView<Scalar>& w, const Vectors& x, float* y, Index y_stride) {
  for (Index i = 0; i < x.count; ++i) std::fill_n(y + i * y_stride, w.panels * lanes, 0.0f);
  add_product(w, x, y, y_stride);
}

}  // namespace transformer
