// The exact laws of rules for trees: the loop writes the target's law for all trees, and the rules are ordered.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/trees.hpp"

namespace law_trees {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using enum Sibling;

// Parents of trees. Trees with the same parents differ in how their tokens are drawn.
const std::vector<Index> line{-1, 0, 1}, pair{-1, -1}, triple{-1, -1, -1}, two_one{-1, -1, 0, 1},
    one_two{-1, 0, 0}, late{-1, 0, -1, 2, 2};

struct NamedForm {
  std::string name;
  TreeForm form;
};
const std::vector<NamedForm> forms{
    {"line", {line, independent}},
    {"independent pair", {pair, independent}},
    {"independent triple", {triple, independent}},
    {"independent (2, 1)", {two_one, independent}},
    {"independent (1, 2)", {one_two, independent}},
    {"pair without replacement", {pair, without_replacement}},
    {"triple without replacement", {triple, without_replacement}},
    {"(2, 1) without replacement", {two_one, without_replacement}},
    {"branches of branches without replacement", {late, without_replacement}},
    {"chosen pair", {pair, chosen}},
    {"chosen (2, 1)", {two_one, chosen}},
    {"chosen branches of branches", {late, chosen}},
    {"a trunk and spares", {{-1, -1, 0, 0}, {independent, chosen, independent, chosen}}},
    {"a spare with a trunk", {{-1, -1, 1}, {independent, chosen, independent}}},
    {"chosen first, then drawn", {{-1, -1, -1}, {chosen, without_replacement, without_replacement}}},
    {"drawn around a chosen one", {{-1, -1, -1}, {independent, chosen, without_replacement}}},
};

bool independent_alone(const TreeForm& form) {
  return std::all_of(form.kinds.begin(), form.kinds.end(), [](Sibling kind) { return kind == independent; });
}
bool chosen_alone(const TreeForm& form) {
  return std::all_of(form.kinds.begin(), form.kinds.end(), [](Sibling kind) { return kind == chosen; });
}

struct Pair {
  TableModel<> target, draft;
};
Pair random_pair(Index vocab_size, std::mt19937_64& rng) {
  auto target = TableModel<>::random(vocab_size, 2, rng);
  return {std::move(target), TableModel<>::random(vocab_size, 1, rng)};
}

// Calls f(pair, form, tokens) with every form in turn. This many tokens take at least three steps; two steps for a
// vocabulary of four.
template <class F>
void for_random_pairs(int pairs, const F& f) {
  std::mt19937_64 rng{17};
  for (int n = 0; n < pairs; ++n) {
    const auto& [name, form] = forms[static_cast<std::size_t>(n) % forms.size()];
    const Index vocab_size = 2 + n / static_cast<int>(forms.size()) % 3;
    INFO(name << ", V = " << vocab_size << ", pair " << n);
    const Index longest_step = depth_of(form) + 1;
    f(random_pair(vocab_size, rng), form,
      static_cast<std::size_t>(vocab_size < 4 ? 2 * longest_step + 1 : longest_step + 1));
  }
}

const std::vector<Token> prompt{0, 1};

}  // namespace

TEST_CASE("a loop over trees writes the target's law, under every rule") {
  const int pairs = std::max(bound(160, 800) / every(2), static_cast<int>(forms.size()));
  for_random_pairs(pairs, [](const Pair& models, const TreeForm& form, std::size_t tokens) {
    const Options options{.max_new_tokens = static_cast<Index>(tokens)};
    const Law expected = target_law(models.target, prompt, options);
    const auto check = [&](const char* rule, const auto& verifier) {
      INFO(rule);
      const TreeLaw written = tree_law(models.target, models.draft, 2, prompt, form, verifier, tokens);
      CHECK(largest_difference(written.law, expected).size < 1e-12);
    };
    check("traversal", TraversalVerifier{});
    check("recursive rejection", RecursiveRejectionVerifier{});
    if (independent_alone(form)) check("K-SEQ", KSeqVerifier{});
    check("token on a trunk", TrunkAndSpares<TokenVerifier>{});
    check("block on a trunk", TrunkAndSpares<BlockVerifier>{});
    check("sample-match", TrunkAndSpares<SampleMatchVerifier>{});
  });
}

TEST_CASE("traversal accepts at least as much as recursive rejection, for every tree") {
  double gained = 0;
  for_random_pairs(bound(160, 800), [&](const Pair& models, const TreeForm& form, std::size_t) {
    const auto accepted = [&](const auto& rule) {
      return tree_step(models.target, models.draft, prompt, form, rule).accepted;
    };
    const double traversal = accepted(TraversalVerifier{}),
                 recursive = accepted(RecursiveRejectionVerifier{});
    CHECK(traversal > recursive - 1e-12);
    gained += traversal - recursive;
  });
  CHECK(gained > 0.1);
}

TEST_CASE(
    "on a tree of chosen tokens traversal and sample-and-match emit the same law and accept equally many") {
  for_random_pairs(bound(160, 800), [](const Pair& models, const TreeForm& form, std::size_t) {
    if (!chosen_alone(form)) return;
    const auto by_traversal = tree_step(models.target, models.draft, prompt, form, TraversalVerifier{});
    const auto by_match =
        tree_step(models.target, models.draft, prompt, form, TrunkAndSpares<SampleMatchVerifier>{});
    CHECK(largest_difference(by_traversal.emitted, by_match.emitted).size < 1e-12);
    CHECK(by_traversal.accepted == Approx(by_match.accepted).margin(1e-12));
  });
}

namespace {

RowMajor<double> random_rows(Index rows, Index size, std::mt19937_64& rng) {
  RowMajor<double> m(rows, size);
  for (double& p : m.reshaped()) p = uniform01(rng) < 0.2 ? 0.0 : uniform01(rng);
  for (Index i = 0; i < rows; ++i) {
    m(i, i % size) += 0.1;
    m.row(i) /= m.row(i).sum();
  }
  return m;
}

// A drafted line over many tokens.
struct Line {
  RowMajor<double> target, draft;
  std::vector<Token> tokens;
  std::vector<Index> parents;

  Line(Index gamma, std::mt19937_64& rng)
      : target(random_rows(gamma + 1, 40, rng)), draft(random_rows(gamma, 40, rng)) {
    draft = (draft + target.topRows(gamma)) / 2;
    for (Index i = 0; i < gamma; ++i) {
      parents.push_back(i - 1);
      tokens.push_back(RandomChance(rng).draw(DenseRow<double>(draft.row(i).data(), 40)));
    }
  }
};

// Whether both rules give the same verdict on a line, with equal random numbers.
template <class LinearRule, class TreeRule>
void check_verdicts(const LinearRule& linear, const TreeRule& rule) {
  std::mt19937_64 rng{5};
  Index accepted = 0;
  for (Index n = 0; n < 300; ++n) {
    const Line drafted(n % 9, rng);
    std::mt19937_64 one{static_cast<std::uint64_t>(n)}, other = one;
    LinearRule fresh = linear;
    const Verdict expected = verify(fresh, drafted.target, drafted.draft, drafted.tokens, one);
    TreeRule fresh_tree = rule;
    const TreeVerdict verdict =
        verify(fresh_tree, drafted.target, drafted.draft, drafted.tokens, drafted.parents, other);
    CHECK(std::ssize(verdict.path) == expected.accepted);
    for (std::size_t i = 0; i < verdict.path.size(); ++i) CHECK(verdict.path[i] == static_cast<Index>(i));
    CHECK(verdict.token == expected.token);
    CHECK(one == other);
    accepted += expected.accepted;
  }
  CHECK(accepted > 200);
}

}  // namespace

TEST_CASE("on a tree without branches the rules for trees give the verdicts of the linear rules") {
  check_verdicts(BlockVerifier{}, TraversalVerifier{});
  check_verdicts(TokenVerifier{}, RecursiveRejectionVerifier{});
  check_verdicts(BlockVerifier{}, TrunkAndSpares<BlockVerifier>{});
  check_verdicts(TokenVerifier{}, TrunkAndSpares<TokenVerifier>{});
}

namespace {

// Looks at the second token, and rejects the whole draft if that token is 0. This is lossless if the second token was
// drawn independently of the first. Such a rule may return the very token that it has not accepted.
struct MindsTheSecond {
  Verdict judge(const auto& drafted, auto& chance) const {
    const bool minds = drafted.gamma() >= 2 && drafted.token(1) == 0;
    if (minds || drafted.gamma() == 0) return {0, drafted.draw(chance, 0)};
    if (!chance.coin(drafted.ratio(0))) return {0, *drafted.race(chance, 1.0, 0)};
    return {1, drafted.draw(chance, 1)};
  }
};

}  // namespace

TEST_CASE("the tokens after the token where a rule stopped are judged once") {
  std::mt19937_64 rng{9};
  for (int n = 0; n < 20; ++n) {
    const auto target = TableModel<>::random(3, 1, rng), draft = TableModel<>::random(3, 0, rng);
    const Law expected = target_law(target, prompt, {.max_new_tokens = 4});
    for (const TreeForm& form : {TreeForm({-1, 0}, independent),
                                 TreeForm({-1, -1, 0, 1}, {independent, chosen, independent, independent})}) {
      const TreeLaw written = tree_law(target, draft, 1, prompt, form, TrunkAndSpares<MindsTheSecond>{}, 4);
      CHECK(largest_difference(written.law, expected).size < 1e-12);
    }
  }
}

TEST_CASE("K-SEQ with one child per node is token verification") {
  std::mt19937_64 rng{3};
  for (int n = 0; n < bound(60, 300); ++n) {
    const Pair models = random_pair(3, rng);
    const TreeForm form(line, independent);
    const auto k_seq = tree_step(models.target, models.draft, prompt, form, KSeqVerifier{});
    const auto token = tree_step(models.target, models.draft, prompt, form, TrunkAndSpares<TokenVerifier>{});
    CHECK(largest_difference(k_seq.emitted, token.emitted).size < 1e-12);
  }
}

}  // namespace law_trees
