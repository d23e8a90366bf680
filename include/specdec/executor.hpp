// Executors: they run work that may run in parallel.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Runs f(0), ..., f(n − 1), in any order and on any threads, and returns when all calls have returned.
///
/// The library's f does not throw, and no two calls touch the same data. An executor that cannot run all calls throws. It
/// should throw before the first call; it must not throw while a call is running.
/// Example: a pool of threads is one line:
///
///   const auto for_each = [](specdec::Index n, const auto& f) { oneapi::tbb::parallel_for(specdec::Index{0}, n, f); };
template <class E>
concept Executor = requires(E& for_each, Index n, void (*f)(Index)) { for_each(n, f); };

namespace detail {

/// Compiles only if E is an Executor.
template <class E>
consteval bool fits_executor() {
  static_assert(Executor<E>,
                "the executor is not called with (specdec::Index n, const auto& f): see specdec::Executor");
  return true;
}

}  // namespace detail

/// Runs the calls one after the other, on the calling thread.
struct InOrder {
  void operator()(Index n, const auto& f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

}  // namespace specdec
