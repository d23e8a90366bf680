// Loops as wide as the machine's vectors, whatever flags the compiler was given.
//
// A program for x86-64 that is built without -march=native computes with four floats at a time, on processors that
// take sixteen. So each loop that reads whole rows, a *kernel*, is compiled here three times over, by function
// attributes that reach nothing else, and the widest that the processor knows is chosen at run time. On other
// processors, and by other compilers than GCC and Clang, it is compiled once, for what the flags say.
//
// A kernel gives the same result to the last bit at every width, because it is written so that neither the order of
// its additions nor the number of its roundings is left to the compiler:
//
//   - numbers are taken by lots of `lot`, in plain loops over so many: a fixed length is what makes compilers vectorise
//     a loop at -O2 already. A row is filled up to whole lots by who calls;
//   - sums are kept in a number of places that no width changes, and these are added up in one order;
//   - a product is never fused with a sum (which rounds once where two operations round twice).
//
// It is a class with a static run(), which is SPECDEC_KERNEL as are all the functions it calls: only what is inlined
// is compiled for the width.
#pragma once

#include "specdec/types.hpp"

/// The most bits that a vector may have; 128 leaves all to the compiler's flags. The same in a whole program.
#ifndef SPECDEC_MAX_VECTOR_BITS
#define SPECDEC_MAX_VECTOR_BITS 512
#endif

#define SPECDEC_KERNEL EIGEN_ALWAYS_INLINE

// First in the body of a function that multiplies and adds: Clang is told there, GCC by the attribute below.
#if defined(__clang__)
#define SPECDEC_UNFUSED _Pragma("clang fp contract(off)")
#else
#define SPECDEC_UNFUSED
#endif

// What a function that runs a kernel is told: GCC vectorises, at -O1 too, and does not fuse; neither compiler makes do
// with half of a vector.
#if defined(__clang__)
#define SPECDEC_RUNS_KERNEL
#define SPECDEC_AVX512 \
  __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,tune=x86-64"), min_vector_width(512)))
#elif defined(__GNUC__)
#define SPECDEC_RUNS_KERNEL __attribute__((optimize("O2", "fp-contract=off")))
#define SPECDEC_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,prefer-vector-width=512")))
#else
#define SPECDEC_RUNS_KERNEL
#endif

namespace specdec::detail {

/// How many numbers a kernel takes at a time.
inline constexpr Index lot = 64;

/// A hint that the numbers some way ahead of a lot will be read: while it is computed with, memory is idle.
template <class Scalar>
SPECDEC_KERNEL void prefetch_ahead([[maybe_unused]] const Scalar* numbers) {
#ifdef __GNUC__
  constexpr Index line = 64 / sizeof(Scalar), ahead = 8192 / sizeof(Scalar);
  for (Index i = 0; i < lot; i += line) __builtin_prefetch(numbers + ahead + i);
#endif
}

/// What a kernel is compiled for.
enum class VectorWidth { portable, avx2, avx512 };

template <class Kernel, class... Arguments>
SPECDEC_RUNS_KERNEL auto run_portable(Arguments... arguments) {
  return Kernel::run(arguments...);
}

#if defined(__GNUC__) && defined(__x86_64__) && SPECDEC_MAX_VECTOR_BITS > 128

template <class Kernel, class... Arguments>
__attribute__((target("avx2"))) SPECDEC_RUNS_KERNEL auto run_avx2(Arguments... arguments) {
  return Kernel::run(arguments...);
}

template <class Kernel, class... Arguments>
SPECDEC_AVX512 SPECDEC_RUNS_KERNEL auto run_avx512(Arguments... arguments) {
  return Kernel::run(arguments...);
}

inline VectorWidth widest() {
  __builtin_cpu_init();
  if (SPECDEC_MAX_VECTOR_BITS >= 512 && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq"))
    return VectorWidth::avx512;
  return __builtin_cpu_supports("avx2") ? VectorWidth::avx2 : VectorWidth::portable;
}

/// What this machine runs fastest.
inline VectorWidth machine_width() {
  static const VectorWidth width = widest();
  return width;
}

/// Runs a kernel as compiled for that width, which the machine must know.
template <class Kernel, class... Arguments>
auto run_at(VectorWidth width, Arguments... arguments) {
  switch (width) {
    case VectorWidth::avx512:
      return run_avx512<Kernel>(arguments...);
    case VectorWidth::avx2:
      return run_avx2<Kernel>(arguments...);
    default:
      return run_portable<Kernel>(arguments...);
  }
}

#else

inline VectorWidth machine_width() { return VectorWidth::portable; }

template <class Kernel, class... Arguments>
auto run_at(VectorWidth, Arguments... arguments) {
  return run_portable<Kernel>(arguments...);
}

#endif

/// Runs a kernel at the machine's width.
template <class Kernel, class... Arguments>
auto run_wide(Arguments... arguments) {
  return run_at<Kernel>(machine_width(), arguments...);
}

}  // namespace specdec::detail

#undef SPECDEC_RUNS_KERNEL
#undef SPECDEC_AVX512
