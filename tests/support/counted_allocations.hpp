// Counts what goes through operator new, and how much of it is there, and lets it fail. For one source of a program: these
// are the program's own operators. Sanitizers have operators of their own, and know how much there is.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

#include "support/bounds.hpp"

#ifdef SPECDEC_TEST_SANITIZED
// Of a header that GCC does not bring along.
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();

namespace {
[[maybe_unused]] std::size_t live_bytes() { return __sanitizer_get_current_allocated_bytes(); }
}  // namespace

#else

namespace {
std::atomic<std::size_t> allocations = 0;
std::atomic<std::size_t> bytes_in_use = 0;
[[maybe_unused]] std::size_t live_bytes() { return bytes_in_use; }

// After so many more allocations one of this thread finds no memory, and those after it do again.
constexpr std::size_t enough_memory = std::numeric_limits<std::size_t>::max();
thread_local std::size_t allocations_left = enough_memory;

// A piece of memory begins with its size, in a place that keeps what follows aligned.
constexpr std::size_t size_place = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}  // namespace

// Not to be inlined: GCC would take malloc and free for a mismatch.
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
