// The trees of the program generate: their shapes, and the line that it shows of a tree.
// SPDX-License-Identifier: MIT
#include <stdexcept>
#include <vector>

#include "generate/last_draft.hpp"
#include "generate/tree_shapes.hpp"
#include "support/catch.hpp"

namespace test_examples_generate_trees {

using generate::LastDraft;
using generate::Widths;
using specdec::Index;
using specdec::TreeShape;
using Tokens = std::vector<specdec::Token>;

TEST_CASE("a trunk has all the children of its level, and a full tree as many at every node") {
  CHECK(generate::trunk_shape({3, 1, 2}) == TreeShape{-1, -1, -1, 0, 3, 3});
  CHECK(generate::full_shape({2, 2}) == TreeShape{-1, -1, 0, 0, 1, 1});
  CHECK(generate::trunk_shape({1, 1, 1}) == TreeShape::linear(3));
  CHECK(generate::trunk_shape({}).size() == 0);
  CHECK_THROWS_AS(generate::full_shape({2, 0}), std::invalid_argument);
}

TEST_CASE("spares are what stands beside a trunk") {
  for (const Widths& widths : {Widths{3, 1, 2}, {1}, {8, 4, 2, 2}, {}}) {
    const std::vector<Index> spares = generate::spares_of(generate::trunk_shape(widths));
    REQUIRE(spares.size() == widths.size());
    for (std::size_t d = 0; d < widths.size(); ++d) CHECK(spares[d] == widths[d] - 1);
  }
  CHECK(generate::text_of({8, 4, 1}) == "8,4,1");
}

// 10 and 11 follow the context, 12 and 13 follow 10, 14 follows 11, and 15 follows 13.
const Tokens tokens{10, 11, 12, 13, 14, 15};
const std::vector<Index> parents{-1, -1, 0, 0, 1, 3};

TEST_CASE("of a tree the accepted way is shown, and what the eldest children would have gone on with") {
  LastDraft last;
  last.set(tokens, parents, {0, 7});  // at the context
  CHECK(last.drafted == Tokens{10, 12});
  CHECK(last.verdict.accepted == 0);
  CHECK(last.verdict.token == 7);
  last.set(tokens, parents, {2, 7});  // after 11
  CHECK(last.drafted == Tokens{11, 14});
  CHECK(last.verdict.accepted == 1);
  last.set(tokens, parents, {4, 7});  // after 10 and 13
  CHECK(last.drafted == Tokens{10, 13, 15});
  CHECK(last.verdict.accepted == 2);
  last.set(tokens, parents, {6, 7});  // after a leaf
  CHECK(last.drafted == Tokens{10, 13, 15});
  CHECK(last.verdict.accepted == 3);
  last.set({}, std::vector<Index>{}, {0, 7});
  CHECK(last.drafted.empty());
}

TEST_CASE("of a line all of it is shown") {
  LastDraft last;
  last.set(tokens, {2, 9});
  CHECK(last.drafted == tokens);
  CHECK(last.verdict.accepted == 2);
  CHECK(last.verdict.token == 9);
}

}  // namespace test_examples_generate_trees
