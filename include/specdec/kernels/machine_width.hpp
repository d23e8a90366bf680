// Loops that use the widest vectors of the machine, independently of the compiler's flags.
//
// A program for x86-64 that is built without -march=native computes with four floats at a time, even on processors that
// compute with sixteen. So each loop that reads whole rows, a *kernel*, is compiled three times, with function attributes
// that affect only the kernel. The widest version that the processor supports is chosen at run time. For other processors,
// and with compilers other than GCC and Clang, a kernel is compiled once, with the program's flags.
//
// A kernel gives equal bits at every width. The compiler can change neither the order of its additions nor its roundings:
//
//   - numbers are taken in lots of 64 (`lot`), in plain loops of this length: compilers vectorise loops of a fixed length at
//     -O2 already. The caller fills a row up to whole lots;
//   - every width keeps the same number of partial sums, and adds them up in one order;
//   - a product is never fused with a sum (a fused operation rounds once, two operations round twice).
//
// A kernel is a class with a static run(). It and all functions that it calls are SPECDEC_KERNEL: only what is inlined has the width.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/eigen.hpp"  // EIGEN_ALWAYS_INLINE
#include "specdec/types.hpp"

/// The most bits that a vector may have. At 128 the compiler's flags decide. It must be equal in the whole program.
#ifndef SPECDEC_MAX_VECTOR_BITS
#define SPECDEC_MAX_VECTOR_BITS 512
#endif

#define SPECDEC_KERNEL EIGEN_ALWAYS_INLINE

// Put it first in the body of a function that multiplies and adds: it forbids Clang to fuse, and to change the order under
// -fassociative-math. For GCC the attribute below forbids fusing, and platform.hpp that flag.
#if defined(__clang__)
#define SPECDEC_UNFUSED _Pragma("clang fp contract(off) reassociate(off)")
#else
#define SPECDEC_UNFUSED
#endif

// Attributes of a function that runs a kernel. GCC vectorises, also at -O1, and does not fuse. Both use full vectors: Clang
// where it tunes for a Zen 4. (Tuned for x86-64, Clang 19 takes one number at a time if -march names such a processor.)
#if defined(__clang__)
#define SPECDEC_RUNS_KERNEL
#define SPECDEC_AVX512 \
  __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,tune=znver4"), min_vector_width(512)))
#elif defined(__GNUC__)
#define SPECDEC_RUNS_KERNEL __attribute__((optimize("O2", "fp-contract=off")))
#define SPECDEC_AVX512 __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,prefer-vector-width=512")))
#else
#define SPECDEC_RUNS_KERNEL
#endif

namespace specdec::inline v0_2_0::detail {

/// The number of numbers that a kernel takes at a time.
inline constexpr Index lot = 64;

/// Prefetches numbers some way after a lot. While the lot is computed, memory would be idle.
template <class Scalar>
SPECDEC_KERNEL void prefetch_ahead([[maybe_unused]] const Scalar* numbers) {
#ifdef __GNUC__
  constexpr Index line = 64 / sizeof(Scalar), ahead = 8192 / sizeof(Scalar);
  for (Index i = 0; i < lot; i += line) __builtin_prefetch(numbers + ahead + i);
#endif
}

/// The vector widths that a kernel is compiled for.
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

/// The fastest width of this machine.
inline VectorWidth machine_width() {
  static const VectorWidth width = widest();
  return width;
}

/// Runs a kernel as compiled for this width. The machine must support the width.
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
