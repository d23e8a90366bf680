// SPDX-License-Identifier: MIT
#include "specdec/more/drafters/ngram_ends.hpp"

#include <algorithm>
#include <cstddef>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_ngram_ends {

using namespace specdec;
using specdec::detail::NgramEnds;
using support::message_of;

namespace {

// Where the last occurrence before `end` of the n tokens in front of `end` ends; 0 if there is none.
Index by_scanning(const std::vector<Token>& text, Index end, Index n) {
  for (Index earlier = end - 1; earlier >= n; --earlier)
    if (std::equal(text.begin() + (end - n), text.begin() + end, text.begin() + (earlier - n)))
      return earlier;
  return 0;
}

}  // namespace

TEST_CASE("in a growing text the last occurrence of every n-gram is found, for each length") {
  std::mt19937_64 rng{1};
  NgramEnds ends(2, 4);
  CHECK(ends.min_ngram() == 2);
  CHECK(ends.max_ngram() == 4);
  std::vector<Token> text;
  Index entered = 0, emptied = 0, found = 0;
  while (text.size() < 600) {
    for (int more = 0; more < 7; ++more) text.push_back(static_cast<Token>(uniform01(rng) * 5));
    if (ends.make_room(text.size())) {
      entered = 0;
      ++emptied;
    }
    for (; entered < std::ssize(text); ++entered)
      for (Index n = 2; n <= std::min<Index>(4, entered); ++n) {
        Index& latest = ends.latest(text, entered, n);
        found += latest > 0;
        if (latest != by_scanning(text, entered, n)) FAIL("at " << entered << ", n = " << n);
        latest = entered;
      }
  }
  CHECK(found > 1000);
  CHECK(emptied > 3);
  CHECK_FALSE(ends.make_room(text.size()));
  ends.clear();
  CHECK(ends.latest(text, 500, 2) == 0);
}

TEST_CASE("n-grams of length 0, or of too many lengths, are named in the error") {
  const auto said = [](Index min_ngram, Index max_ngram) {
    return message_of([&] { NgramEnds(min_ngram, max_ngram); });
  };
  CHECK(said(1, 512).empty());
  CHECK(said(2, 1) ==
        "specdec: prompt lookup needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 2, max_ngram = 1");
  CHECK(said(0, 1).find("min_ngram = 0") != std::string::npos);
  CHECK(said(1, 513).find("max_ngram = 513") != std::string::npos);
}

}  // namespace test_draft_ngram_ends
