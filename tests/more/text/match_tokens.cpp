// SPDX-License-Identifier: MIT
#include "specdec/more/text/match_tokens.hpp"

#include <array>
#include <cstddef>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "support/catch.hpp"

namespace test_more_text_match_tokens {

using namespace specdec;

TEST_CASE(
    "tokens are matched by their bytes, to the lowest of equal ids, and tokens without bytes to nothing") {
  constexpr Token none = TokenMap::none;
  const std::array<std::string, 5> draft{"", "b", "a", "b", "ba"};
  const std::array<std::string_view, 5> target{"b", "", "ab", "b", "a"};
  const auto of = [](const auto& all) {
    return [&all](Token x) { return all[static_cast<std::size_t>(x)]; };
  };
  CHECK(match_tokens(5, of(draft), 5, of(target)) == std::vector<Token>{none, 0, 4, none, none});
  CHECK(match_tokens(0, of(draft), 5, of(target)).empty());
}

}  // namespace test_more_text_match_tokens
