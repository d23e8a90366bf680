// SPDX-License-Identifier: MIT
#include <array>
#include <span>
#include <specdec/lists.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace test_lists {

using namespace specdec;
namespace detail = specdec::detail;

TEST_CASE("lists are read and written by an Index") {
  std::vector<int> list{1, 2, 3};
  const std::vector<int>& constant = list;
  static_assert(std::is_same_v<decltype(detail::at(list, Index{0})), int&>);
  static_assert(std::is_same_v<decltype(detail::at(constant, Token{0})), const int&>);
  static_assert(detail::at(std::array{4, 5}, Index{1}) == 5);
  detail::at(list, 1) = 7;
  CHECK(detail::at(constant, 1) == 7);
  CHECK(detail::at(std::span(list).last(2), 0) == 7);
}

TEST_CASE("parts of a list are spans of it, by an Index") {
  std::vector<int> list{1, 2, 3, 4};
  const std::vector<int>& constant = list;
  const auto middle = detail::part(constant, 1, 2);
  static_assert(std::is_same_v<decltype(middle), const std::span<const int>>);
  static_assert(std::is_same_v<decltype(detail::first(std::span(list), 1)), std::span<int>>);
  CHECK(middle.data() == list.data() + 1);
  CHECK(middle.size() == 2);
  CHECK(detail::first(constant, 3).data() == list.data());
  CHECK(detail::first(constant, 3).size() == 3);
  CHECK(detail::after(constant, 3).front() == 4);
  CHECK(detail::after(constant, 3).size() == 1);
  CHECK(detail::after(constant, 4).empty());
}

TEST_CASE("a vector's size is an Index") {
  std::vector<int> list{1, 2, 3};
  detail::resize(list, 2);
  CHECK(list == std::vector{1, 2});
  detail::reserve(list, 9);
  CHECK(list.capacity() >= 9);
  detail::assign(list, 3, 5);
  CHECK(list == std::vector{5, 5, 5});
}

TEST_CASE("bisection finds how many numbers satisfy a condition, and asks about few of them") {
  for (specdec::Index count = 0; count <= 33; ++count)
    for (specdec::Index first = 0; first <= count; ++first) {
      int asked = 0;
      const auto holds = [&](specdec::Index number) {
        REQUIRE(number >= 0);
        REQUIRE(number < count);
        ++asked;
        return number < first;
      };
      CHECK(detail::partition_point(count, holds) == first);
      CHECK(asked <= 6);
    }
}

}  // namespace test_lists
