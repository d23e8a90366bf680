// What engines hand over is taken as it is: their ids are of this width.
#include <cstdint>
#include <specdec/types.hpp>
#include <type_traits>

#include "support/catch.hpp"

namespace test_types {

TEST_CASE("tokens are ids of 32 bits, indices are Eigen's and signed") {
  STATIC_REQUIRE(std::is_same_v<specdec::Token, std::int32_t>);
  STATIC_REQUIRE(std::is_same_v<specdec::Index, Eigen::Index>);
  STATIC_REQUIRE(std::is_signed_v<specdec::Index>);
}

}  // namespace test_types
