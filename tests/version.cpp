// The version as parts, as a number and as a text is one version.
// SPDX-License-Identifier: MIT
#include <specdec/version.hpp>
#include <string>

#include "support/catch.hpp"

// The number can be compared by the preprocessor.
#if SPECDEC_VERSION < 200 || SPECDEC_VERSION >= 10000 * (SPECDEC_VERSION_MAJOR + 1)
#error "SPECDEC_VERSION is not the number of this version"
#endif

namespace test_version {

TEST_CASE("the number and the text of the version are made of its parts") {
  CHECK(SPECDEC_VERSION % 100 == SPECDEC_VERSION_PATCH);
  CHECK(SPECDEC_VERSION / 100 % 100 == SPECDEC_VERSION_MINOR);
  CHECK(SPECDEC_VERSION / 10000 == SPECDEC_VERSION_MAJOR);
  CHECK(specdec::version == std::to_string(SPECDEC_VERSION_MAJOR) + "." +
                                std::to_string(SPECDEC_VERSION_MINOR) + "." +
                                std::to_string(SPECDEC_VERSION_PATCH));
}

}  // namespace test_version
