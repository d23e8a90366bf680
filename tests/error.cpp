// How error messages are made.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <limits>
#include <specdec/error.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_error {

using namespace specdec;
using support::message_of;

// A handler for bad arguments also catches bad numbers.
static_assert(std::is_base_of_v<std::invalid_argument, InvalidDistribution>);

TEST_CASE("a message is the concatenation of its parts, with numbers to nine digits") {
  CHECK(detail::message("row ", 3, ": ", std::string("p")) == "row 3: p");
  CHECK(detail::message(1.0 / 3) == "0.333333333");
  CHECK(detail::message(1.0f, " ", 0.1f, " ", 1e300) == "1 0.100000001 1e+300");
  CHECK(detail::message(std::numeric_limits<std::uint64_t>::max(), " ",
                        std::numeric_limits<std::int64_t>::min()) ==
        "18446744073709551615 -9223372036854775808");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(detail::message(nan, ", ", -nan, ", ", -std::numeric_limits<float>::infinity()) == "nan, nan, -inf");
}

TEST_CASE("the message for a bad argument begins with the library's name") {
  CHECK(message_of([] { detail::invalid_argument("gamma = ", -1, " is negative"); }) ==
        "specdec: gamma = -1 is negative");
}

TEST_CASE("what a failed call began is undone, and the error goes on") {
  int undone = 0;
  const auto undo = [&undone] { ++undone; };
  CHECK(detail::undo_on_error([] { return 7; }, undo) == 7);
  CHECK(undone == 0);
  CHECK(message_of<std::logic_error>([&] {
          detail::undo_on_error([] { detail::logic_error("out of place"); }, undo);
        }) == "specdec: out of place");
  CHECK(undone == 1);
}

TEST_CASE("a caller may change an error about a distribution, and no other") {
  const auto change = [](const InvalidDistribution& error) { return error.in("target", 3); };
  CHECK(detail::with_error([] { return 7; }, change) == 7);
  CHECK(message_of([&] {
          detail::with_error([] { detail::invalid_distribution("a logit is nan"); }, change);
        }) == "specdec: target row 3: a logit is nan");
  CHECK(message_of([&] { detail::with_error([] { detail::invalid_argument("gamma = -1"); }, change); }) ==
        "specdec: gamma = -1");
}

TEST_CASE("a program with exceptions may set an error handler, too, which is not called") {
  const ErrorHandler mine = [](const char*) { FAIL("called"); };
  const ErrorHandler before = set_error_handler(mine);
  CHECK(message_of([] { detail::invalid_argument("gamma = -1"); }) == "specdec: gamma = -1");
  CHECK(set_error_handler(nullptr) == mine);
  CHECK(set_error_handler(before) == before);  // null means the default
}

TEST_CASE("the first caller that names the matrix and row of a bad number is the one the error reports") {
  const InvalidDistribution complaint("a logit is nan");
  CHECK(complaint.matrix().empty());
  CHECK(complaint.row() == -1);
  const InvalidDistribution named = complaint.in("target", 3);
  CHECK(named.what() == std::string("specdec: target row 3: a logit is nan"));
  CHECK(named.matrix() == "target");
  CHECK(named.row() == 3);
  const InvalidDistribution again = named.in("draft", 1);
  CHECK(again.what() == std::string(named.what()));
  CHECK(again.matrix() == "target");
  CHECK(again.row() == 3);
  CHECK(complaint.in("target", 0).in("draft", 1).what() ==
        std::string("specdec: target row 0: a logit is nan"));
}

TEST_CASE("an error inside a nested loop names each enclosing loop") {
  const InvalidDistribution named = InvalidDistribution("a logit is nan").in("target", 3).of("cascade");
  CHECK(named.what() == std::string("specdec: cascade's target row 3: a logit is nan"));
  CHECK(named.matrix() == "cascade's target");
  CHECK(named.row() == 3);
  CHECK(named.of("cascade").matrix() == "cascade's cascade's target");
  CHECK(named.in("draft", 1).what() == std::string(named.what()));
  const InvalidDistribution nameless = InvalidDistribution("a coin has probability nan").of("cascade");
  CHECK(nameless.what() == std::string("specdec: cascade: a coin has probability nan"));
  CHECK(nameless.matrix().empty());
  CHECK(nameless.row() == -1);
}

TEST_CASE("an error message that already names the library does not name it twice") {
  const InvalidDistribution complaint("specdec: a coin has probability nan");
  CHECK(complaint.complaint() == "a coin has probability nan");
  CHECK(complaint.in("target", 3).what() == std::string("specdec: target row 3: a coin has probability nan"));
  const auto matrix = complaint.in("target", 3).matrix();
  // A temporary error returns its matrix name by value.
  STATIC_REQUIRE(std::is_same_v<decltype(matrix), const std::string>);
  CHECK(matrix == "target");
}

}  // namespace test_error
