// SPDX-License-Identifier: MIT
#include <algorithm>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_loop_string_matcher {

using namespace specdec;
using namespace support;

namespace {

std::string random_string(Index most, std::mt19937_64& rng) {
  std::string out(1 + rng() % static_cast<std::uint64_t>(most), 'a');
  for (char& byte : out) byte = static_cast<char>("ab\xff"[rng() % 3]);
  return out;
}

// The longest of the strings that `text` ends with, the first of equal ones; −1 if there is none.
Index string_at_end(const std::vector<std::string>& strings, const std::string& text) {
  Index best = -1;
  for (Index i = 0; i < std::ssize(strings); ++i) {
    const std::string& string = strings[static_cast<std::size_t>(i)];
    if (text.ends_with(string) &&
        (best < 0 || string.size() > strings[static_cast<std::size_t>(best)].size()))
      best = i;
  }
  return best;
}

// How many bytes at the end of `text` begin a string, or are a whole one.
Index begun_at_end(const std::vector<std::string>& strings, const std::string& text) {
  for (std::size_t length = text.size(); length > 0; --length)
    for (const std::string& string : strings)
      if (string.starts_with(text.substr(text.size() - length))) return static_cast<Index>(length);
  return 0;
}

}  // namespace

TEST_CASE("A string matcher finds what a search of the whole text finds, byte by byte") {
  std::mt19937_64 rng{1};
  Index found = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> strings;
    for (std::uint64_t k = rng() % 5 + 1; k > 0; --k) strings.push_back(random_string(5, rng));
    const detail::StringMatcher matcher(strings);
    detail::StringMatcher::State state = 0;
    const std::string bytes = random_string(30, rng);
    for (std::size_t end = 1; end <= bytes.size(); ++end) {
      state = matcher.next(state, bytes[end - 1]);
      const std::string text = bytes.substr(0, end);
      REQUIRE(matcher.string(state) == string_at_end(strings, text));
      REQUIRE(matcher.depth(state) == begun_at_end(strings, text));
      found += matcher.string(state) >= 0;
    }
  }
  CHECK(found > 500);
}

TEST_CASE("An empty string never stops a text") {
  CHECK(message_of<std::invalid_argument>([] {
          detail::StringMatcher({"a", ""});
        }) == "specdec: stop_strings[1] is empty: it would end every text");
}

}  // namespace test_loop_string_matcher
