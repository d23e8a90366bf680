// How error messages are made, and as what errors are caught.
// SPDX-License-Identifier: MIT
#include <concepts>
#include <cstdint>
#include <exception>
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

// Whether each of two classes of errors can be caught without the other.
template <class E, class F>
constexpr bool apart = !std::derived_from<E, F> && !std::derived_from<F, E>;

static_assert(apart<InvalidArgument, InvalidDistribution> && apart<InvalidArgument, InvalidCall>);
static_assert(apart<InvalidDistribution, InvalidCall> && apart<ExternalFailure, InvalidArgument>);
static_assert(apart<ExternalFailure, InvalidDistribution> && apart<ExternalFailure, InvalidCall>);

// Calls `report`, and checks that the error of class E can be caught as every class that it is, with one message.
template <class E, class Standard, class F>
void check_class(const F& report) {
  STATIC_REQUIRE(std::derived_from<E, std::exception>);  // false if std::exception were a base class twice
  const std::string text = message_of<Error>(report);
  CHECK_THAT(text, Catch::Contains("n = -1"));
  CHECK(message_of<E>(report) == text);
  CHECK(message_of<Standard>(report) == text);
  CHECK(message_of<std::exception>(report) == text);
}

TEST_CASE(
    "what each function of errors throws is an Error, its own class, the standard's, and a std::exception") {
  check_class<InvalidArgument, std::invalid_argument>([] { detail::invalid_argument("n = ", -1); });
  check_class<InvalidDistribution, std::invalid_argument>([] { detail::invalid_distribution("n = ", -1); });
  check_class<InvalidCall, std::logic_error>([] { detail::invalid_call("n = ", -1); });
  check_class<ExternalFailure, std::runtime_error>([] { detail::external_failure("n = ", -1); });
}

TEST_CASE("an Error that was caught tells its class and the standard's") {
  try {
    detail::invalid_call("accept() before propose()");
  } catch (const Error& error) {
    CHECK(dynamic_cast<const InvalidCall*>(&error) != nullptr);
    CHECK(dynamic_cast<const std::logic_error*>(&error) != nullptr);
    CHECK(dynamic_cast<const InvalidArgument*>(&error) == nullptr);
  }
}

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
  CHECK(message_of<InvalidCall>([&] {
          detail::undo_on_error([] { detail::invalid_call("out of place"); }, undo);
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
  const ErrorHandler mine = [](const Error&) { FAIL("called"); };
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
