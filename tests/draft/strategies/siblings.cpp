// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_strategies_siblings {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

namespace {

using Q = DenseRow<double>;

// The law of the siblings that a policy draws, and the largest error of the product of their rows' probabilities.
struct Found {
  Law law;
  double error = 0;
};

template <class Siblings>
Found found(const std::vector<double>& p, Index count) {
  const Q q(p.data(), std::ssize(p));
  Found out;
  enumerate([&](Enumerator& chance) {
    Siblings siblings;
    TokenTree tree;
    std::vector<typename Siblings::template Row<Q>> rows;
    tree.reserve(static_cast<std::size_t>(count + 1));
    tree.append(7, -1);  // other tokens precede them
    rows.clear();
    siblings.grow(q, count, 0, chance, tree, rows);
    const auto tokens = tree.tokens();
    REQUIRE(tokens.size() == rows.size() + 1);
    for (Index k = 1; k < tree.size(); ++k) REQUIRE(tree.parent(k) == 0);
    double product = 1;
    for (std::size_t k = 0; k < rows.size(); ++k) product *= probability(rows[k], tokens[k + 1]);
    out.error = std::max(out.error, std::abs(product - chance.probability()));
    out.law[{tokens.begin() + 1, tokens.end()}] += chance.probability();
  });
  return out;
}

double difference(const Law& left, const Law& right) { return largest_difference(left, right).size; }

// The definition: one after the other, from what the elder siblings have left.
void without_replacement(const std::vector<double>& p, Index count, std::vector<Token>& so_far,
                         double probability, Law& law) {
  double left = 0;
  for (std::size_t x = 0; x < p.size(); ++x)
    if (std::ranges::find(so_far, static_cast<Token>(x)) == so_far.end()) left += p[x];
  if (count == 0 || left == 0) {
    law[so_far] += probability;
    return;
  }
  for (std::size_t x = 0; x < p.size(); ++x) {
    if (p[x] == 0 || std::ranges::find(so_far, static_cast<Token>(x)) != so_far.end()) continue;
    so_far.push_back(static_cast<Token>(x));
    without_replacement(p, count - 1, so_far, probability * p[x] / left, law);
    so_far.pop_back();
  }
}

const std::vector<std::vector<double>> some_rows{{0.5, 0.25, 0.125, 0.125}, {0, 1, 0}, {0.25, 0, 0.75},
                                                 {0.125, 0.875, 0, 0},      {1},       {0.3, 0.3, 0.4}};

}  // namespace

TEST_CASE(
    "independent siblings are each drawn from one row, and there is only one if the row has one token") {
  for (const auto& p : some_rows)
    for (const Index count : {0, 1, 2, 3}) {
      const Found got = found<Independent>(p, count);
      CHECK(got.error < 1e-15);
      double sum = 0;
      for (const auto& [tokens, probability] : got.law) {
        const bool one_token = std::ranges::find(p, 1.0) != p.end();
        REQUIRE(std::ssize(tokens) == (one_token ? std::min<Index>(count, 1) : count));
        double product = 1;
        for (const Token x : tokens) product *= p[static_cast<std::size_t>(x)];
        CHECK(std::abs(probability - product) < 1e-15);
        sum += probability;
      }
      CHECK(std::abs(sum - 1) < 1e-14);
    }
}

TEST_CASE(
    "siblings without replacement are drawn from what their elders have left, as long as something is left") {
  for (const auto& p : some_rows)
    for (const Index count : {0, 1, 2, 3, 5}) {
      const Found got = found<WithoutReplacement>(p, count);
      Law expected;
      std::vector<Token> none;
      without_replacement(p, count, none, 1, expected);
      CHECK(got.error < 1e-15);
      CHECK(difference(got.law, expected) < 1e-15);
    }
}

TEST_CASE(
    "the likeliest siblings are the likeliest tokens, the lower id of equals first, none of probability 0") {
  const auto chosen = [](const std::vector<double>& p, Index count) {
    const Found got = found<Likeliest>(p, count);
    REQUIRE(got.law.size() == 1);
    CHECK(got.error == 0);
    return got.law.begin()->first;
  };
  using Tokens = std::vector<Token>;
  CHECK(chosen({0.5, 0.25, 0.125, 0.125}, 3) == Tokens{0, 1, 2});
  CHECK(chosen({0.3, 0.3, 0.4}, 2) == Tokens{2, 0});
  CHECK(chosen({0.25, 0, 0.75}, 3) == Tokens{2, 0});
  CHECK(chosen({0.25, 0, 0.75}, 0).empty());
}

TEST_CASE("one sibling is drawn from what the likeliest ones leave, and comes before them") {
  using Tokens = std::vector<Token>;
  const auto group = [](const std::vector<double>& p, Index count) {
    const Found got = found<DrawnThenLikeliest>(p, count);
    CHECK(got.error < 1e-15);
    return got.law;
  };
  const std::vector<double> p{0.25, 0.375, 0.125, 0.25};
  CHECK(group(p, 0) == Law{{Tokens{}, 1.0}});
  CHECK(difference(group(p, 1), {{{0}, 0.25}, {{1}, 0.375}, {{2}, 0.125}, {{3}, 0.25}}) < 1e-15);
  CHECK(difference(group(p, 2), {{{0, 1}, 0.4}, {{2, 1}, 0.2}, {{3, 1}, 0.4}}) < 1e-15);
  CHECK(difference(group(p, 3), {{{2, 1, 0}, 1.0 / 3}, {{3, 1, 0}, 2.0 / 3}}) < 1e-15);
  CHECK(difference(group(p, 4), {{{2, 1, 0, 3}, 1.0}}) < 1e-15);
  // Nothing is left to be drawn.
  CHECK(group(p, 5) == Law{{Tokens{1, 0, 3, 2}, 1.0}});
  CHECK(group({0.25, 0, 0.75}, 3) == Law{{Tokens{2, 0}, 1.0}});
  CHECK(group({0, 1}, 2) == Law{{Tokens{1}, 1.0}});
}

TEST_CASE("a sibling that cannot be drawn is named by its number") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto complaint = [](const std::vector<double>& p, auto siblings) {
    std::mt19937_64 rng{1};
    RandomChance chance{rng};
    TokenTree tree;
    std::vector<typename decltype(siblings)::template Row<Q>> rows;
    tree.reserve(3);
    return message_of([&] { siblings.grow(Q(p.data(), std::ssize(p)), 2, -1, chance, tree, rows); });
  };
  CHECK(complaint({0, 0}, Independent{}) == "specdec: draft row 0: the probabilities sum to 0");
  CHECK(complaint({0, 0}, WithoutReplacement{}) == "specdec: draft row 0: the probabilities sum to 0");
  CHECK(complaint({0, 0}, Likeliest{}).empty());
  CHECK(complaint({0, 0}, DrawnThenLikeliest{}) == "specdec: draft row 0: the probabilities sum to 0");
  CHECK(complaint({nan, 1}, DrawnThenLikeliest{}) ==
        "specdec: draft row 0: the probability of token 0 is nan");
  CHECK(complaint({nan, 1}, Likeliest{}) == "specdec: draft row 0: the probability of token 0 is nan");
  std::vector<double> late(1000, 0.0);
  late[0] = 1;
  late[999] = nan;  // not in the stretch that the first draw reads
  CHECK(complaint(late, WithoutReplacement{}) ==
        "specdec: draft row 1: the probabilities of the other tokens sum to nan");
}

}  // namespace test_draft_strategies_siblings
