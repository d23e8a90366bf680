// The bytes of tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <string_view>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// What a tokenizer has to offer: bytes(token) returns the bytes that the token stands for, as something that converts to
/// std::string_view (a std::string, for example).
template <class B>
concept TokenBytes = requires(const B& bytes, Token token) {
  { bytes(token) } -> std::convertible_to<std::string_view>;
};

}  // namespace specdec
