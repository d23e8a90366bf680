// A team that is a warp, and a crew that is a block of warps. For compilers of GPUs: Clang (with or without an SDK) and nvcc. For
// all others this header is empty. It was compiled, to PTX; it has not run on a GPU yet.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <bit>
#include <cstdint>

#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/types.hpp"

#if defined(__CUDA__) || defined(__CUDACC__)

#if defined(__clang__)
#define SPECDEC_DEVICE __attribute__((device, always_inline)) inline
#else
#define SPECDEC_DEVICE __device__ __forceinline__
#endif

namespace specdec::inline v0_2_0::device {
namespace detail {

#if defined(__clang__)
SPECDEC_DEVICE unsigned thread() { return __nvvm_read_ptx_sreg_tid_x(); }
SPECDEC_DEVICE std::uint32_t swapped(std::uint32_t x, int mask) {
  return static_cast<std::uint32_t>(__nvvm_shfl_sync_bfly_i32(~0U, static_cast<int>(x), mask, 31));
}
SPECDEC_DEVICE std::uint32_t from_below(std::uint32_t x, int step) {
  return static_cast<std::uint32_t>(__nvvm_shfl_sync_up_i32(~0U, static_cast<int>(x), step, 0));
}
SPECDEC_DEVICE std::uint32_t from_lane(std::uint32_t x, int lane) {
  return static_cast<std::uint32_t>(__nvvm_shfl_sync_idx_i32(~0U, static_cast<int>(x), lane, 31));
}
SPECDEC_DEVICE std::uint32_t votes(bool vote) { return __nvvm_vote_ballot_sync(~0U, vote); }
SPECDEC_DEVICE void meet_block() { __nvvm_bar_sync(0); }
SPECDEC_DEVICE int lowest_bit(std::uint32_t x) { return __builtin_ctz(x); }
SPECDEC_DEVICE int highest_bit(std::uint32_t x) { return 31 - __builtin_clz(x); }
#else
SPECDEC_DEVICE unsigned thread() { return threadIdx.x; }
SPECDEC_DEVICE std::uint32_t swapped(std::uint32_t x, int mask) { return __shfl_xor_sync(~0U, x, mask); }
SPECDEC_DEVICE std::uint32_t from_below(std::uint32_t x, int step) { return __shfl_up_sync(~0U, x, step); }
SPECDEC_DEVICE std::uint32_t from_lane(std::uint32_t x, int lane) { return __shfl_sync(~0U, x, lane); }
SPECDEC_DEVICE std::uint32_t votes(bool vote) { return __ballot_sync(~0U, vote); }
SPECDEC_DEVICE void meet_block() { __syncthreads(); }
SPECDEC_DEVICE int lowest_bit(std::uint32_t x) { return __ffs(static_cast<int>(x)) - 1; }
SPECDEC_DEVICE int highest_bit(std::uint32_t x) { return 31 - __clz(static_cast<int>(x)); }
#endif

/// Calls f on the 32-bit words of a number.
template <class T, class F>
SPECDEC_DEVICE T by_words(T x, F f) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  if constexpr (sizeof(T) == 4) {
    return std::bit_cast<T>(f(std::bit_cast<std::uint32_t>(x)));
  } else {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    const std::uint64_t high = f(static_cast<std::uint32_t>(bits >> 32));
    return std::bit_cast<T>(high << 32 | f(static_cast<std::uint32_t>(bits)));
  }
}

}  // namespace detail

/// A warp as a team: see LoopTeam for what its functions do. All 32 lanes call them together.
/// Pre: compute capability 8.0 or higher. The block has one dimension.
struct Warp {
  template <class T>
  struct PerLane {
    T mine;
  };

  template <class T>
  SPECDEC_DEVICE static T& at(PerLane<T>& x, int) {
    return x.mine;
  }
  SPECDEC_DEVICE static int lane() { return static_cast<int>(detail::thread() & 31); }
  template <class F>
  SPECDEC_DEVICE static void run(F f) {
    f(lane());
  }
  SPECDEC_DEVICE static float larger(float a, float b) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(a), "f"(b));
    return larger;
  }
  SPECDEC_DEVICE static float largest(PerLane<float>& x) {
    float found = x.mine;
    SPECDEC_UNROLLED for (int mask = lanes / 2; mask > 0; mask /= 2) found =
        larger(found, swapped(found, mask));
    return found;
  }
  template <class T>
  SPECDEC_DEVICE static T sum(PerLane<T>& x) {
    T found = x.mine;
    SPECDEC_UNROLLED for (int mask = lanes / 2; mask > 0; mask /= 2) found += swapped(found, mask);
    return found;
  }
  SPECDEC_DEVICE static void add_up(PerLane<double>& x) {
    SPECDEC_UNROLLED for (int step = 1; step < lanes; step *= 2) {
      const double below =
          detail::by_words(x.mine, [&](std::uint32_t word) { return detail::from_below(word, step); });
      if (lane() >= step) x.mine += below;
    }
  }
  template <class T>
  SPECDEC_DEVICE static T get(PerLane<T>& x, int from) {
    return detail::by_words(x.mine, [&](std::uint32_t word) { return detail::from_lane(word, from); });
  }
  template <class F>
  SPECDEC_DEVICE static int first(F f) {
    const std::uint32_t found = detail::votes(f(lane()));
    return found ? detail::lowest_bit(found) : -1;
  }
  template <class F>
  SPECDEC_DEVICE static int last(F f) {
    const std::uint32_t found = detail::votes(f(lane()));
    return found ? detail::highest_bit(found) : -1;
  }

 private:
  template <class T>
  SPECDEC_DEVICE static T swapped(T x, int mask) {
    return detail::by_words(x, [&](std::uint32_t word) { return detail::swapped(word, mask); });
  }
};

/// What the warps of a block share: a kernel declares one in shared memory.
template <int warps>
struct CrewMemory {
  Answer answers[warps];
  std::uint64_t sums[warps];
  double scratch[most_drafted + 1];
};

/// A block of warps as a crew: see LoopCrew for what its functions do. All threads of the block call them together.
/// Pre: the block has 32·warps threads. A block that judges several requests, one after the other, calls __syncthreads() between
/// them: the next one's numbers lie where the last one's are read.
template <int warps>
class WarpCrew {
 public:
  static constexpr int size = warps;

  SPECDEC_DEVICE explicit WarpCrew(CrewMemory<warps>& memory) : memory_(&memory) {}

  SPECDEC_DEVICE static Warp team() { return {}; }
  template <class F>
  SPECDEC_DEVICE static void lead(F f) {
    if (detail::thread() == 0) f();
  }
  template <class F>
  SPECDEC_DEVICE static void each(F f) {
    f(Warp{}, number());
    detail::meet_block();
  }
  template <class F>
  SPECDEC_DEVICE void ask(F f) {
    const Answer answer = f(Warp{}, number());
    detail::meet_block();  // the last answers have been read
    if (Warp::lane() == 0) memory_->answers[number()] = answer;
    detail::meet_block();
  }
  template <class F>
  SPECDEC_DEVICE std::uint64_t sum(F f) {
    const std::uint64_t mine = f(Warp{}, number());
    detail::meet_block();  // the last sums have been read
    if (Warp::lane() == 0) memory_->sums[number()] = mine;
    detail::meet_block();
    std::uint64_t sum = 0;
    SPECDEC_UNROLLED for (int j = 0; j < size; ++j) sum += memory_->sums[j];
    return sum;
  }
  SPECDEC_DEVICE Answer answer(int j) const { return memory_->answers[j]; }
  SPECDEC_DEVICE double* scratch() { return memory_->scratch; }

 private:
  SPECDEC_DEVICE static int number() { return static_cast<int>(detail::thread() / 32); }

  CrewMemory<warps>* memory_;
};

}  // namespace specdec::device

#endif
