// Who runs work that may run side by side.
#pragma once

#include <concepts>
#include <utility>

#include "specdec/types.hpp"

namespace specdec {

/// Runs f(0), ..., f(n − 1), in any order and on any threads, and returns when all of them have returned. What the
/// library hands it does not throw, and no two calls touch the same data. If it cannot run them it throws, if possible
/// before it has run any, and in any case when none is running. A pool of threads is one line:
///
///   const auto for_each = [](specdec::Index n, const auto& f) { oneapi::tbb::parallel_for(specdec::Index{0}, n, f); };
template <class E>
concept Executor = requires(E& for_each, Index n, void (*f)(Index)) { for_each(n, f); };

/// One after the other, on the thread that asks.
struct InOrder {
  void operator()(Index n, const auto& f) const {
    for (Index i = 0; i < n; ++i) f(i);
  }
};

}  // namespace specdec
