// SPDX-License-Identifier: MIT
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_verify_drafted_tree {

using namespace specdec;
using namespace support;

namespace {

// All rows differ, so a look-up in a wrong row is noticed.
struct Input {
  RowMajor<double> target{6, 5}, draft{5, 5};
  std::vector<Token> tokens{0, 1, 2, 3, 4};
  std::vector<Index> parents{-1, -1, 0, 0, 2};

  Input() {
    for (Index i = 0; i < 6; ++i)
      for (Index x = 0; x < 5; ++x) target(i, x) = static_cast<double>(10 * i + x + 1);
    for (Index i = 0; i < 6; ++i) target.row(i) /= target.row(i).sum();
    draft = target.topRows(5).rowwise().reverse();
  }
};

std::string complaint(const Input& in) {
  return message_of([&] { Drafted(in.target, in.draft, in.tokens, in.parents); });
}

struct Wrong {
  NodeVerdict stop;
  NodeVerdict judge(const auto&, auto&) const { return stop; }
};

}  // namespace

TEST_CASE("a drafted tree knows each token's parent, and looks the token up in the row after its parent") {
  const Input in;
  const Drafted drafted(in.target, in.draft, in.tokens, in.parents);
  const std::vector<Index> first{0, 2, -1, 4, -1, -1}, next{1, -1, 3, -1, -1}, before{0, 0, 1, 1, 3};
  for (Index node = 0; node <= 5; ++node)
    CHECK(drafted.first_child(node) == first[static_cast<std::size_t>(node)]);
  for (Index k = 0; k < 5; ++k) {
    CHECK(drafted.next_sibling(k) == next[static_cast<std::size_t>(k)]);
    CHECK(drafted.parent(k) == in.parents[static_cast<std::size_t>(k)]);
    CHECK(drafted.p(k) ==
          in.target(before[static_cast<std::size_t>(k)], in.tokens[static_cast<std::size_t>(k)]));
    CHECK(drafted.q(k) == in.draft(k, in.tokens[static_cast<std::size_t>(k)]));
  }
  CHECK(drafted.all_looked_up());
}

TEST_CASE("in rows of logits, too, tokens are looked up after their parents, when a rule asks for them") {
  const Input in;
  const RowMajor<float> p = in.target.array().log().cast<float>(), q = in.draft.array().log().cast<float>();
  const Logits target(p), draft(q);
  const Drafted drafted(target, draft, in.tokens, in.parents);
  CHECK_FALSE(drafted.all_looked_up());
  CHECK(drafted.p(4) == Approx(in.target(3, 4)));
  CHECK(drafted.q(4) == Approx(in.draft(4, 4)));
  drafted.look_up_all();
  for (Index k = 0; k < 5; ++k) CHECK(drafted.looked_up(k));
}

TEST_CASE("a linear draft is a tree without branches") {
  const Input in;
  const Drafted drafted(in.target, in.draft, in.tokens);
  for (Index k = 0; k < 5; ++k) {
    CHECK(drafted.parent(k) == k - 1);
    CHECK(drafted.first_child(k) == k);
    CHECK(drafted.next_sibling(k) == -1);
  }
  CHECK(drafted.first_child(5) == -1);
}

TEST_CASE("the trunk after a node of a tree is a linear draft with rows and probabilities of the tree") {
  const Input in;
  const Drafted tree(in.target, in.draft, in.tokens, in.parents);
  // For each node: the tokens after it from eldest child to eldest child, and the number of tokens before it.
  const std::vector<std::vector<Index>> trunks{{0, 2, 4}, {2, 4}, {}, {4}, {}, {}};
  const std::vector<Index> depths{0, 1, 1, 2, 2, 3};
  for (Index node = 0; node <= 5; ++node) {
    const auto& numbers = trunks[static_cast<std::size_t>(node)];
    const DraftedTrunk trunk(tree, node);
    REQUIRE(trunk.gamma() == std::ssize(numbers));
    CHECK(trunk.vocab_size() == 5);
    CHECK(trunk.row(0) == node);
    CHECK(trunk.depth(0) == depths[static_cast<std::size_t>(node)]);
    CHECK(trunk.target(0).probability(3) == in.target(node, 3));
    for (Index i = 0; i < trunk.gamma(); ++i) {
      const Index k = numbers[static_cast<std::size_t>(i)];
      CHECK(trunk.row(i + 1) == k + 1);
      CHECK(trunk.depth(i + 1) == trunk.depth(0) + i + 1);
      CHECK(trunk.token(i) == tree.token(k));
      CHECK(trunk.p(i) == tree.p(k));
      CHECK(trunk.q(i) == tree.q(k));
      CHECK(trunk.ratio(i) == tree.ratio(k));
      CHECK(trunk.draft(i).probability(3) == in.draft(k, 3));
      CHECK(trunk.target(i + 1).probability(3) == in.target(k + 1, 3));
      CHECK(trunk.parent(i) == i - 1);
      CHECK(trunk.first_child(i) == i);
      CHECK(trunk.next_sibling(i) == -1);
    }
    CHECK(trunk.first_child(trunk.gamma()) == -1);
    CHECK(message_of([&] { (void)trunk.token(trunk.gamma()); }).find("outside") != std::string::npos);
    CHECK(message_of([&] { (void)trunk.row(trunk.gamma() + 1); }).find("outside") != std::string::npos);
    for (const Index k : {Index{-1}, trunk.gamma()}) {
      CHECK(message_of([&] { (void)trunk.p(k); }).find("outside") != std::string::npos);
      CHECK(message_of([&] { (void)trunk.parent(k); }).find("outside") != std::string::npos);
    }
  }
  CHECK(message_of([&] { DraftedTrunk(tree, 6); }) ==
        "specdec: a rule asks for number 6, outside 0..5 of the draft");
}

TEST_CASE("a trunk answers what a rule asks of residuals, with the rows of the tree") {
  const Input in;
  const Drafted tree(in.target, in.draft, in.tokens, in.parents);
  const DraftedTrunk trunk(tree, 1);  // token 2, and token 4 after it
  CHECK(trunk.residual(1, 0.5, 1).mass() == tree.residual(3, 0.5, 4).mass());
  CHECK(trunk.residual(1, 1, 1).mass() ==
        tree.residual(3, 1.0, 4).mass());  // 1: a coefficient, not a list of rows
}

template <class T>
concept LeavesResiduals = requires(T&& drafted) { std::forward<T>(drafted).residual(0, 0.5, 0); };
template <class T>
concept LeavesTrunks = requires(T&& drafted) { DraftedTrunk(std::forward<T>(drafted), 0); };

TEST_CASE("a temporary leaves no rows or trunks, which would dangle") {
  const Input in;
  using Tree = decltype(Drafted(in.target, in.draft, in.tokens, in.parents));
  CHECK((LeavesResiduals<const Tree&> && LeavesTrunks<const Tree&>));
  CHECK_FALSE((LeavesResiduals<Tree> || LeavesTrunks<Tree>));
}

TEST_CASE("the trunk after a node of a trunk or of a line is the rest of it") {
  const Input in;
  const Drafted tree(in.target, in.draft, in.tokens, in.parents);
  const DraftedTrunk trunk(tree, 1);
  const DraftedTrunk rest(trunk, 1);
  REQUIRE(rest.gamma() == 1);
  CHECK(rest.token(0) == 4);
  CHECK(rest.p(0) == tree.p(4));
  CHECK((rest.row(0) == 1 && rest.row(1) == 2));
  CHECK((rest.depth(0) == 2 && rest.depth(1) == 3));
  const Drafted line(in.target, in.draft, in.tokens);
  const DraftedTrunk end(line, 3);
  REQUIRE(end.gamma() == 2);
  CHECK(end.token(1) == 4);
  CHECK(end.p(1) == line.p(4));
  CHECK(end.row(2) == 5);
}

TEST_CASE("a trunk and its tree share their look-ups") {
  const Input in;
  const RowMajor<float> p = in.target.array().log().cast<float>(), q = in.draft.array().log().cast<float>();
  const Logits target(p), draft(q);
  const Drafted tree(target, draft, in.tokens, in.parents);
  const DraftedTrunk trunk(tree, 1);
  CHECK_FALSE(tree.looked_up(4));
  CHECK(trunk.p(1) == Approx(in.target(3, 4)));
  CHECK(trunk.q(1) == Approx(in.draft(4, 4)));
  CHECK(tree.looked_up(4));
  CHECK_FALSE(tree.looked_up(2));
  trunk.look_up_all();
  CHECK(tree.looked_up(2));
  CHECK_FALSE(tree.all_looked_up());  // only the tokens of the trunk
  CHECK_FALSE(tree.looked_up(3));
}

TEST_CASE("parents that do not make a tree are an error that names the token") {
  Input in;
  CHECK(complaint(in).empty());
  in.parents = {-1, -1, 0, 0};
  CHECK(complaint(in) == "specdec: parents has 4 numbers, expected one for each of 5 tokens");
  for (const auto& [k, parent] :
       std::vector<std::pair<std::size_t, Index>>{{0, 0}, {2, 2}, {3, 4}, {4, -2}}) {
    in = {};
    in.parents[k] = parent;
    const auto n = static_cast<Index>(k);
    CHECK(complaint(in) == "specdec: parents[" + std::to_string(n) + "] = " + std::to_string(parent) +
                               " is outside -1.." + std::to_string(n - 1) +
                               ": a token follows the context or a token before it");
  }
  in = {};
  in.parents[3] = std::numeric_limits<Index>::min();
  CHECK(complaint(in).find("parents[3]") != std::string::npos);
  in = {};
  in.target.conservativeResize(4, 5);
  CHECK(complaint(in) ==
        "specdec: target has 4 rows, expected gamma + 1 = 6: the one after tokens[3] is missing");
  in = {};
  in.draft.conservativeResize(4, 5);
  CHECK(complaint(in) == "specdec: draft has 4 rows, expected gamma = 5, one per token");
  in = {};
  in.draft(3, 3) = 0;
  CHECK(complaint(in) ==
        "specdec: tokens[3] = 3 has probability 0 in draft row 3, so it was not drawn from it");
}

TEST_CASE(
    "chosen siblings must differ; drawn siblings may be equal, and so may tokens that are not siblings") {
  Input in;
  in.tokens = {1, 1, 2, 2, 2};
  CHECK(complaint(in).empty());
  for (const Index k : {2, 3, 4}) in.draft.row(k) = Eigen::RowVectorXd::Unit(5, 2);
  CHECK(complaint(in) ==
        "specdec: tokens[3] = 2 has q = 1, and so has its sibling tokens[2], the same token: leave out what "
        "cannot "
        "come out");
  in.tokens[3] = 1;
  in.draft.row(3) = Eigen::RowVectorXd::Unit(5, 1);
  CHECK(complaint(in).empty());
}

TEST_CASE("parents may be 32-bit or 64-bit numbers") {
  Input in;
  const std::vector<std::int32_t> narrow{-1, -1, 0, 0, 2};
  CHECK(Drafted(in.target, in.draft, in.tokens, narrow).parent(4) == 2);
}

TEST_CASE("a rule that stops at no node, or returns no token, gets an error") {
  const Input in;
  SplitMix64 rng(1);
  const auto said = [&](Index node, Token token) {
    return message_of([&] {
      (void)verify(Wrong{{node, token}}, in.target, in.draft, in.tokens, in.parents, rng);
    });
  };
  CHECK(said(5, 4).empty());
  CHECK(said(6, 0) == "specdec: verdict.node = 6 is outside 0..5, the number of drafted tokens");
  CHECK(said(-1, 0) == "specdec: verdict.node = -1 is outside 0..5, the number of drafted tokens");
  CHECK(said(0, 5) == "specdec: verdict.token = 5 is outside the vocabulary 0..4");
  CHECK(said(0, -1) == "specdec: verdict.token = -1 is outside the vocabulary 0..4");
  // A token that only the drafter knows, at the node where the rule stops or before it.
  const RowMajor<double> wide = RowMajor<double>::Constant(5, 6, 1.0 / 6);
  const std::vector<Token> unknown{0, 1, 5, 3, 4};
  const auto accepting = [&](Index node) {
    return message_of([&] { (void)verify(Wrong{{node, 0}}, in.target, wide, unknown, in.parents, rng); });
  };
  for (const Index node : {0, 1, 2, 4}) CHECK(accepting(node).empty());
  for (const Index node : {3, 5})
    CHECK(accepting(node) == "specdec: the accepted tokens[2] = 5 is outside the vocabulary 0..4");
  const TreeVerdict verdict = verify(Wrong{{5, 4}}, in.target, in.draft, in.tokens, in.parents, rng);
  CHECK(verdict.path == std::vector<Index>{0, 2, 4});
  CHECK(verdict.token == 4);
}

}  // namespace test_verify_drafted_tree
