// Engines' data is taken without conversion: their ids have this width.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <limits>
#include <specdec/types.hpp>
#include <type_traits>

#include "support/catch.hpp"

namespace test_types {

TEST_CASE("tokens are ids of 32 bits, indices are Eigen's and signed") {
  STATIC_REQUIRE(std::is_same_v<specdec::Token, std::int32_t>);
  STATIC_REQUIRE(std::is_same_v<specdec::Index, Eigen::Index>);
  STATIC_REQUIRE(std::is_signed_v<specdec::Index>);
}

TEST_CASE("unlimited is the largest index") {
  STATIC_REQUIRE(specdec::unlimited == std::numeric_limits<specdec::Index>::max());
}

TEST_CASE("numbers of tokens are integers") {
  STATIC_REQUIRE(specdec::detail::Count<int>);
  STATIC_REQUIRE(specdec::detail::Count<const specdec::Index&>);
  STATIC_REQUIRE(specdec::detail::Count<std::uint64_t>);
  CHECK_FALSE(specdec::detail::Count<double>);
  CHECK_FALSE(specdec::detail::Count<const float&>);
  STATIC_REQUIRE_FALSE(specdec::detail::Count<void>);
}

}  // namespace test_types
