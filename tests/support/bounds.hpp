// How far a test goes: the usual bounds, the larger ones of `tests/run --all`, or an eighth of the usual ones under
// sanitizers. Sanitizers check every access, which is slow, and more models bring no new kind of access.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace support {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SPECDEC_TEST_SANITIZED
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SPECDEC_TEST_SANITIZED
#endif

inline bool exhaustive() { return std::getenv("SPECDEC_TEST_ALL") != nullptr; }

inline int bound(int usual, [[maybe_unused]] int all) {
#ifdef SPECDEC_TEST_SANITIZED
  return std::max(1, usual / 8);
#else
  return exhaustive() ? all : usual;
#endif
}

/// Loops over models take every one of them, or one of `many` under sanitizers.
inline int every([[maybe_unused]] int many) {
#ifdef SPECDEC_TEST_SANITIZED
  return many;
#else
  return 1;
#endif
}

}  // namespace support
