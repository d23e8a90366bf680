// Errors of the C interface: what C++ throws becomes a status and a text.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "specdec/error.hpp"
#include "specdec/more/c/specdec.h"
#include "specdec/rows/named_row.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A caller's buffer for the text of an error.
struct ErrorText {
  char* text;
  std::size_t size;

  void set(const char* message) const {
    if (text == nullptr || size == 0) return;
    const std::size_t length = std::min(std::strlen(message), size - 1);
    std::copy_n(message, length, text);
    text[length] = '\0';
  }
  /// The buffer of draft i of many.
  ErrorText of(Index i) const {
    return {text == nullptr ? nullptr : text + static_cast<std::size_t>(i) * size, size};
  }
};

/// Calls f(), and makes a status and a text of what it throws.
template <class F>
specdec_status status_of(const ErrorText& error, F&& f) noexcept {
  error.set("");
#ifndef __cpp_exceptions
  f();
  return SPECDEC_OK;
#else
  const auto failed = [&](specdec_status status, const char* message) {
    error.set(message);
    return status;
  };
  try {
    f();
    return SPECDEC_OK;
  } catch (const InvalidDistribution& bad) {
    return failed(SPECDEC_INVALID_DISTRIBUTION, bad.what());
  } catch (const InvalidArgument& bad) {
    return failed(SPECDEC_INVALID_ARGUMENT, bad.what());
  } catch (const InvalidCall& bad) {
    return failed(SPECDEC_INVALID_CALL, bad.what());
  } catch (const std::bad_alloc&) {
    return failed(SPECDEC_OUT_OF_MEMORY, "specdec: out of memory");
  } catch (const std::exception& unexpected) {
    return failed(SPECDEC_UNEXPECTED_ERROR, unexpected.what());
  } catch (...) {
    return failed(SPECDEC_UNEXPECTED_ERROR, "specdec: an error of unknown type");
  }
#endif
}

inline void check_not_null(const void* pointer, const char* name) {
  if (pointer == nullptr) invalid_argument(name, " is NULL");
}

/// Checks the offsets of drafts that lie one after another: `count` + 1 numbers offset(i) from 0 on that do not fall.
template <class F>
void check_offsets(const F& offset, Index count) {
  if (offset(0) != 0) invalid_argument("offsets[0] = ", offset(0), ", expected 0");
  for (Index i = 0; i < count; ++i)  // compared, because a difference might overflow
    if (offset(i + 1) < offset(i))
      invalid_argument("offsets[", i + 1, "] = ", offset(i + 1), ", after ", offset(i));
}

}  // namespace specdec::detail
