// SPDX-License-Identifier: MIT
#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_prompt_lookup {

using namespace specdec;
using specdec::detail::NgramEnds;
using support::message_of;

static_assert(OneTextDrafter<PromptLookupDrafter>);

namespace {

std::vector<Token> propose(PromptLookupDrafter& drafter, std::span<const Token> context, Index gamma) {
  std::mt19937_64 rng;
  RandomChance chance{rng};
  const auto draft = drafter.draft(context, gamma, chance);
  CHECK(draft.rows.rows() == static_cast<Index>(draft.tokens.size()));
  for (Index i = 0; i < draft.rows.rows(); ++i)
    CHECK(draft.rows.row(i).probability(draft.tokens[static_cast<std::size_t>(i)]) == 1);
  return {draft.tokens.begin(), draft.tokens.end()};
}

// The definition, by scanning.
std::vector<Token> by_scanning(std::span<const Token> c, Index gamma, Index min_ngram, Index max_ngram) {
  const Index size = static_cast<Index>(c.size());
  const auto at = [&](Index i) { return c[static_cast<std::size_t>(i)]; };
  for (Index n = max_ngram; n >= min_ngram; --n)
    for (Index end = size - 1; end >= n; --end) {
      bool same = true;
      for (Index k = 1; k <= n; ++k) same = same && at(end - k) == at(size - k);
      if (!same) continue;
      std::vector<Token> out;
      for (Index i = end; i < size && static_cast<Index>(out.size()) < gamma; ++i) out.push_back(at(i));
      return out;
    }
  return {};
}

}  // namespace

TEST_CASE("prompt lookup proposes what followed the longest match") {
  PromptLookupDrafter lookup{{.max_ngram = 3}};
  CHECK(propose(lookup, std::vector<Token>{1, 2, 3, 4, 5, 9, 1, 2, 3}, 3) == std::vector<Token>{4, 5, 9});
  PromptLookupDrafter other;
  // "2 3" occurs twice: the latest occurrence counts. "7 2 3" occurs once: the longer match wins.
  CHECK(propose(other, std::vector<Token>{2, 3, 4, 2, 3, 5, 0, 2, 3}, 1) == std::vector<Token>{5});
  PromptLookupDrafter third;
  CHECK(propose(third, std::vector<Token>{7, 2, 3, 4, 2, 3, 5, 7, 2, 3}, 1) == std::vector<Token>{4});
}

TEST_CASE("prompt lookup proposes nothing without a match, and never more than was asked for") {
  PromptLookupDrafter lookup;
  CHECK(propose(lookup, std::vector<Token>{1, 2, 3, 4}, 5).empty());
  CHECK(propose(lookup, std::vector<Token>{1, 2, 3, 4, 1}, 2) == std::vector<Token>{2, 3});
  CHECK(propose(lookup, std::vector<Token>{1, 2, 3, 4, 1}, 0).empty());
  PromptLookupDrafter single;
  CHECK(propose(single, std::vector<Token>{1}, 4).empty());
  PromptLookupDrafter picky{{.max_ngram = 3, .min_ngram = 2}};
  CHECK(propose(picky, std::vector<Token>{1, 2, 3, 4, 1}, 2).empty());
  CHECK(propose(picky, std::vector<Token>{1, 2, 3, 4, 1, 2}, 2) == std::vector<Token>{3, 4});
}

TEST_CASE("while the context grows and is cut, prompt lookup proposes what a scan finds") {
  std::mt19937_64 rng{1};
  for (const Index max_ngram : {1, 2, 4}) {
    PromptLookupDrafter lookup{{.max_ngram = max_ngram}};
    std::vector<Token> context{0};
    for (int step = 0; step < 400; ++step) {
      const double dice = uniform01(rng);
      if (dice < 0.02) {
        context.assign(1 + static_cast<std::size_t>(uniform01(rng) * 5), 1);
        lookup.truncate(0);
      } else if (dice < 0.1 && context.size() > 4) {
        context.resize(context.size() - 3);
        lookup.truncate(static_cast<Index>(context.size()));
      }
      for (int k = 0; k < 3; ++k) context.push_back(static_cast<Token>(uniform01(rng) * 3));
      CHECK(propose(lookup, context, 4) == by_scanning(context, 4, 1, max_ngram));
    }
  }
}

TEST_CASE("prompt lookup in the loop drafts repetitions, and the text is the target's") {
  const std::vector<Token> song{0, 1, 2, 3, 4};
  testing::TableModel<>::Rows table = testing::TableModel<>::Rows::Zero(6, 5);
  table(0, 0) = 1;
  for (Index x = 0; x < 5; ++x) table(x + 1, (x + 1) % 5) = 1;
  SpecDec decoder{testing::TableModel<>(table, 1), PromptLookupDrafter{{.max_ngram = 2}}};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(song, {.max_new_tokens = 40, .gamma = 4}, rng);
  for (std::size_t i = 0; i < r.tokens.size(); ++i) CHECK(r.tokens[i] == static_cast<Token>(i % 5));
  CHECK(r.stats.block_efficiency() > 4);
  CHECK(r.stats.accepted_fraction() == 1);
}

TEST_CASE("prompt lookup's options are checked") {
  CHECK_NOTHROW(PromptLookupDrafter{{.max_ngram = 1}});
  CHECK(message_of([] { PromptLookupDrafter{{.max_ngram = 0}}; }) ==
        "specdec: prompt lookup needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 1, max_ngram = 0");
  CHECK_NOTHROW(PromptLookupDrafter{{.max_ngram = 512}});
  CHECK(message_of([] { PromptLookupDrafter{{.max_ngram = Index{1} << 62}}; }) ==
        "specdec: prompt lookup needs 1 <= min_ngram <= max_ngram <= 512, not min_ngram = 1, "
        "max_ngram = 4611686018427387904");
  CHECK_FALSE(message_of([] { PromptLookupDrafter{{.max_ngram = 2, .min_ngram = 3}}; }).empty());
}

TEST_CASE("asked for a negative number of tokens, prompt lookup proposes nothing") {
  std::mt19937_64 rng{1};
  const std::vector<Token> context{1, 2, 1, 2, 1};
  PromptLookupDrafter drafter;
  CHECK(drafter.draft(context, -1, rng).tokens.empty());
  CHECK(drafter.draft(context, std::numeric_limits<Index>::min(), rng).tokens.empty());
  CHECK(drafter.draft(context, unlimited, rng).tokens.size() == 2);
}

namespace {

// Where the last occurrence before `end` of the n tokens in front of `end` ends; 0 if there is none.
Index last_before(const std::vector<Token>& text, Index end, Index n) {
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
        if (latest != last_before(text, entered, n)) FAIL("at " << entered << ", n = " << n);
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

}  // namespace test_draft_prompt_lookup
