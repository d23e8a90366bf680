// The enumerator of numbers at addresses: it takes both sides of each comparison, and finds a number that is used twice.
// SPDX-License-Identifier: MIT
#include <map>
#include <utility>

#include "support/address_enumerator.hpp"
#include "support/catch.hpp"

namespace test_more_device_address_enumerator {

using namespace specdec;
using support::AddressEnumerator;

namespace {

// The law of two decisions: is the number at the first address below `first`, is the one at the second below `second`?
std::map<std::pair<bool, bool>, double> two_coins(const Address& a, double first, const Address& b,
                                                  double second) {
  std::map<std::pair<bool, bool>, double> law;
  AddressEnumerator all;
  do {
    const AddressEnumerator::Numbers numbers(all);
    const bool one = numbers.at(a).below(first), two = numbers.at(b).below(second);
    law[{one, two}] += all.probability();
  } while (all.next());
  return law;
}

using Law = std::map<std::pair<bool, bool>, double>;

}  // namespace

TEST_CASE("numbers at different addresses are independent, and one number is one number") {
  const Address here{1, 2, 3};
  for (const Address& other : {Address{0, 2, 3}, {1, 0, 3}, {1, 2, 0}})
    CHECK(
        two_coins(here, 0.25, other, 0.5) ==
        Law{{{true, true}, 0.125}, {{true, false}, 0.125}, {{false, true}, 0.375}, {{false, false}, 0.375}});
  CHECK(two_coins(here, 0.25, here, 0.5) ==
        Law{{{true, true}, 0.25}, {{false, true}, 0.25}, {{false, false}, 0.5}});
  CHECK(two_coins(here, 0.5, here, 0.25) ==
        Law{{{true, true}, 0.25}, {{true, false}, 0.25}, {{false, false}, 0.5}});
  CHECK(two_coins(here, 0, here, 1) == Law{{{false, true}, 1}});
  CHECK(two_coins(here, 0.5, here, 0.5) == Law{{{true, true}, 0.5}, {{false, false}, 0.5}});
}

TEST_CASE("a number that draws two tokens is an error") {
  AddressEnumerator all;
  const AddressEnumerator::Numbers numbers(all);
  int sampler = 0;
  CHECK(numbers.at({0, 1, 2}).draw(sampler, OneHotRow(5)) == 5);
  CHECK(numbers.at({0, 1, 3}).draw(sampler, OneHotRow(5)) == 5);
  CHECK_THROWS_AS(numbers.at({0, 1, 2}).draw(sampler, OneHotRow(5)), InvalidCall);
}

}  // namespace test_more_device_address_enumerator
