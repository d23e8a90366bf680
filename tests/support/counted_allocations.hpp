// Counts allocations by operator new and the memory in use, and can make an allocation fail. Include it in one source
// of a program, as it defines the program's operators. Under sanitizers, which have their own operators, they give the
// memory in use.
// SPDX-License-Identifier: MIT
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

#include "support/bounds.hpp"

#ifdef SPECDEC_TEST_SANITIZED
// Declared in a header that GCC does not ship.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();

namespace {
[[maybe_unused]] std::size_t live_bytes() { return __sanitizer_get_current_allocated_bytes(); }
}  // namespace

#else

namespace {
std::atomic<std::size_t> allocations = 0;
std::atomic<std::size_t> bytes_in_use = 0;
[[maybe_unused]] std::size_t live_bytes() { return bytes_in_use; }

// After this many more allocations one allocation of this thread fails. Later ones succeed again.
constexpr std::size_t enough_memory = std::numeric_limits<std::size_t>::max();
thread_local std::size_t allocations_left = enough_memory;

// Each block begins with its size. This much room keeps the rest aligned.
constexpr std::size_t size_place = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}  // namespace

// Not inlined: GCC would warn that malloc and free do not match new and delete.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (allocations_left != enough_memory && allocations_left-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(size_place + size);
  if (memory == nullptr) throw std::bad_alloc();
  bytes_in_use += *static_cast<std::size_t*>(memory) = size;
  return static_cast<char*>(memory) + size_place;
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  if (memory == nullptr) return;
  void* const begin = static_cast<char*>(memory) - size_place;
  bytes_in_use -= *static_cast<std::size_t*>(begin);
  std::free(begin);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }

#endif
