// How far a test goes: the usual bounds, the larger ones of `tests/run --all`, or an eighth of the usual ones under
// sanitizers. Sanitizers check every access, which is slow, and more models bring no new kind of access.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdlib>

namespace support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPECDEC_TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPECDEC_TEST_SANITIZED
#endif
#endif

#ifdef SPECDEC_TEST_SANITIZED
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

inline bool exhaustive() { return std::getenv("SPECDEC_TEST_ALL") != nullptr; }

inline int bound(int usual, int all) {
  return sanitized ? std::max(1, usual / 8) : exhaustive() ? all : usual;
}
/// For what `tests/run --all` does as often as the usual run.
inline int bound(int usual) { return bound(usual, usual); }

/// 1, or `many` under sanitizers: the step of a loop over models, rules or seeds, or what a number is divided by.
inline int every(int many) { return sanitized ? many : 1; }

}  // namespace support
