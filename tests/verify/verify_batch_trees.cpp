// Each tree that is judged together with others gets the verdict that it gets alone.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <random>
#include <ranges>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/threads.hpp"
#include "support/trees.hpp"

namespace test_verify_verify_batch_trees {

using namespace specdec;
using support::message_of;
using Rows = support::RowMajor<double>;

namespace {

constexpr Index vocabulary = 5;

Rows random_rows(Index rows, std::mt19937_64& rng) {
  Rows matrix(rows, vocabulary);
  for (double& p : matrix.reshaped()) p = 0.01 + uniform01(rng);
  return matrix.array().colwise() / matrix.rowwise().sum().array();
}

// Random trees of 0 to 6 tokens. Siblings are independent draws from one row, as all rules for trees allow.
struct Forest {
  Forest(Index trees, std::mt19937_64& rng, Index least = 0) {
    for (Index i = 0; i < trees; ++i) {
      const Index gamma = least + i % (7 - least);
      for (Index k = 0; k < gamma; ++k)
        parents.push_back(static_cast<Index>(uniform01(rng) * static_cast<double>(k + 1)) - 1);
      offsets.push_back(offsets.back() + gamma);
    }
    target = random_rows(offsets.back() + trees, rng);
    draft = random_rows(offsets.back(), rng);
    for (Index i = 0; i < trees; ++i)
      for (Index k = first(i); k < first(i + 1); ++k) {
        for (Index elder = first(i); elder < k; ++elder)
          if (detail::at(parents, elder) == detail::at(parents, k)) draft.row(k) = draft.row(elder);
        tokens.push_back(RandomChance(rng).draw(DenseRow(DenseRows(draft).row(k))));
      }
  }

  Index trees() const { return std::ssize(offsets) - 1; }
  Index first(Index i) const { return detail::at(offsets, i); }
  Index gamma(Index i) const { return first(i + 1) - first(i); }
  std::span<const Token> tokens_of(Index i) const { return detail::part(tokens, first(i), gamma(i)); }
  std::span<const Index> parents_of(Index i) const { return detail::part(parents, first(i), gamma(i)); }
  Rows target_of(Index i) const { return target.middleRows(first(i) + i, gamma(i) + 1); }
  Rows draft_of(Index i) const { return draft.middleRows(first(i), gamma(i)); }

  template <class Rule>
  TreeVerdict alone(Rule& rule, Index i, Philox& rng) const {
    return verify(rule, target_of(i), draft_of(i), tokens_of(i), parents_of(i), rng);
  }

  Rows target, draft;
  std::vector<Token> tokens;
  std::vector<Index> parents, offsets{0};
};

std::vector<Philox> generators(Index count) {
  std::vector<Philox> rngs;
  for (Index i = 0; i < count; ++i) rngs.emplace_back(static_cast<std::uint64_t>(i));
  return rngs;
}

using AnyExecutor = std::function<void(Index, const std::function<void(Index)>&)>;
const std::vector<AnyExecutor> executors{InOrder{}, support::TwoThreads{}, [](Index n, const auto& f) {
                                           while (n > 0) f(--n);
                                         }};

// How often a verdict left the trunk: the eldest children.
template <class Rule>
Index check_as_alone(const Rule& rule) {
  std::mt19937_64 rng{1};
  Index branched = 0;
  std::vector<BatchTreeVerdict> verdicts;
  for (const Index trees : {0, 1, 2, 64, 7})
    for (const AnyExecutor& for_each : executors) {
      const Forest forest(trees, rng);
      auto rngs = generators(trees), same = generators(trees);
      detail::resize(verdicts, trees);
      const std::vector<int> offsets(forest.offsets.begin(), forest.offsets.end());
      verify_batch(rule, forest.target, forest.draft, forest.tokens, forest.parents, offsets, rngs, verdicts,
                   for_each);
      for (Index i = 0; i < trees; ++i) {
        const auto& [verdict, error] = detail::at(verdicts, i);
        REQUIRE_FALSE(error);
        CHECK(verdict == forest.alone(rule, i, detail::at(same, i)));
        CHECK(detail::at(rngs, i).offset() == detail::at(same, i).offset());
        const TokenTreeView tree(forest.parents_of(i));
        for (const Index k : verdict.path) branched += tree.next_child(tree.parent(k), tree.parent(k)) != k;
      }
    }
  return branched;
}

}  // namespace

TEST_CASE("trees judged together get the verdicts that they get alone, by every rule and executor") {
  CHECK(check_as_alone(TraversalVerifier{}) > 5);
#ifndef SPECDEC_TEST_SOME
  CHECK(check_as_alone(RecursiveRejectionVerifier{}) > 5);
  CHECK(check_as_alone(KSeqVerifier{}) > 5);
#endif
  CHECK(check_as_alone(TrunkAndSpares<SampleMatchVerifier>{}) > 5);
}

TEST_CASE("each of many rules judges its own tree") {
  std::mt19937_64 rng{2};
  std::vector<support::AnyTreeRule> rules{{TrunkAndSpares<BlockVerifier>{}},
                                          {TraversalVerifier{}},
                                          {RecursiveRejectionVerifier{}},
                                          {TrunkAndSpares<SampleMatchVerifier>{}},
                                          {TrunkAndSpares<BlockVerifier>{}}};
  auto rngs = generators(5), same = generators(5);
  std::vector<BatchTreeVerdict> verdicts(5);
  for (int step = 0; step < 30; ++step) {
    Forest forest(5, rng, 6);
    for (Index k = 0; k < 30; ++k) forest.parents[static_cast<std::size_t>(k)] = k % 6 < 4 ? k % 6 - 1 : 0;
    verify_batch(rules, forest.target, forest.draft, forest.tokens, forest.parents, forest.offsets, rngs,
                 verdicts);
    for (std::size_t i = 0; i < 5; ++i) {
      REQUIRE_FALSE(verdicts[i].error);
      CHECK(verdicts[i].verdict == forest.alone(rules[i], static_cast<Index>(i), same[i]));
    }
  }
}

namespace {

// The verdicts on a forest, alone.
std::vector<TreeVerdict> all_alone(const Forest& forest) {
  std::vector<TreeVerdict> verdicts;
  auto rngs = generators(forest.trees());
  const TraversalVerifier rule;
  for (Index i = 0; i < forest.trees(); ++i) verdicts.push_back(forest.alone(rule, i, detail::at(rngs, i)));
  return verdicts;
}

void check_same(std::span<const BatchTreeVerdict> verdicts, std::span<const TreeVerdict> alone) {
  for (std::size_t i = 0; i < alone.size(); ++i) {
    REQUIRE_FALSE(verdicts[i].error);
    CHECK(verdicts[i].verdict == alone[i]);
  }
}

}  // namespace

TEST_CASE("parents lie as the tokens lie, and those beside padding or fed tokens are not read") {
  std::mt19937_64 rng{3};
  const Forest forest(9, rng);
  const std::vector<TreeVerdict> alone = all_alone(forest);
  constexpr Index longest = 7;
  const Rows target = random_rows(9 * (longest + 1), rng), draft = random_rows(9 * (longest + 1), rng);
  std::vector<std::int64_t> tokens(9 * longest, -1), fed(9 * (longest + 1), -1);
  std::vector<std::int32_t> parents(9 * longest, 1000), fed_parents(9 * (longest + 1), -9), cu{0};
  Rows padded_target = target, padded_draft = draft.topRows(9 * longest), fed_draft = draft;
  for (Index i = 0; i < 9; ++i) {
    const Index at = i * (longest + 1), n = forest.gamma(i);
    padded_target.middleRows(at, n + 1) = forest.target_of(i);
    padded_draft.middleRows(at - i, n) = forest.draft_of(i);
    fed_draft.middleRows(at + 1, n) = forest.draft_of(i);
    detail::at(fed, at) = 99;
    for (Index k = 0; k < n; ++k) {
      detail::at(tokens, at - i + k) = detail::at(fed, at + 1 + k) =
          forest.tokens_of(i)[static_cast<std::size_t>(k)];
      detail::at(parents, at - i + k) = detail::at(fed_parents, at + 1 + k) =
          static_cast<std::int32_t>(forest.parents_of(i)[static_cast<std::size_t>(k)]);
    }
    cu.push_back(static_cast<std::int32_t>(at + longest + 1));
  }
  std::vector<BatchTreeVerdict> verdicts(9);
  auto rngs = generators(9);
  const PaddedDrafts layout{9, longest};
  verify_batch(TraversalVerifier{}, padded_target, padded_draft, tokens, parents, layout, rngs, verdicts);
  check_same(verdicts, alone);
  rngs = generators(9);
  verify_batch(TraversalVerifier{}, padded_target, fed_draft, fed, fed_parents, FedDrafts{cu}, rngs, verdicts,
               support::TwoThreads{});
  check_same(verdicts, alone);

  std::vector<std::int32_t> emitted(9 * (longest + 1), 7), accepted(9);
  write_emitted(tokens, layout, padded_draft.rows(), verdicts, emitted, accepted);
  for (Index i = 0; i < 9; ++i) {
    const auto& [path, token] = detail::at(alone, i);
    CHECK(detail::at(accepted, i) == std::ssize(path));
    std::vector<std::int32_t> row;
    for (const Index k : path) row.push_back(forest.tokens_of(i)[static_cast<std::size_t>(k)]);
    row.push_back(token);
    row.resize(longest + 1, -1);
    const auto written = detail::part(emitted, i * (longest + 1), longest + 1);
    CHECK(std::vector<std::int32_t>(written.begin(), written.end()) == row);
  }
}

TEST_CASE("an error in one tree does not affect the others, and leaves no verdict of an earlier call") {
  std::mt19937_64 rng{4};
  const Forest forest(7, rng);
  const std::vector<TreeVerdict> alone = all_alone(forest);
  struct Case {
    const char* message;
    std::function<void(Forest& forest, std::vector<std::int64_t>& parents, Index first)> spoil;
  };
  const std::vector<Case> cases{
      {"parents[2] = 2 is outside -1..1: a token follows the context or a token before it",
       [](auto&, auto& parents, Index first) { detail::at(parents, first + 2) = 2; }},
      {"parents[0] = -2 is outside -1..-1",
       [](auto&, auto& parents, Index first) { detail::at(parents, first) = -2; }},
      {"parents[1] = 4294967295 is outside -1..0",  // would be −1 if it were cut to 32 bits
       [](auto&, auto& parents, Index first) { detail::at(parents, first + 1) = 0xffffffffLL; }},
      {"tokens[3] = 5 is outside the vocabulary 0..4",
       [](Forest& f, auto&, Index first) { detail::at(f.tokens, first + 3) = vocabulary; }},
      {"tokens[4] = ",
       [](Forest& f, auto&, Index first) { f.draft(first + 4, detail::at(f.tokens, first + 4)) = 0; }},
      {"draft row 1: ",
       [](Forest& f, auto&, Index first) { f.draft.row(first + 1).setConstant(std::nan("")); }},
      {"target row ",
       [](Forest& f, auto&, Index first) { f.target.middleRows(first + 5, 6).setConstant(std::nan("")); }},
  };
  std::vector<BatchTreeVerdict> verdicts(7);
  for (const Case& each : cases) {
    INFO(each.message);
    for (BatchTreeVerdict& earlier : verdicts) earlier = {{{4, 5, 6}, 3}, nullptr};
    Forest spoilt = forest;
    std::vector<std::int64_t> parents(forest.parents.begin(), forest.parents.end());
    each.spoil(spoilt, parents, forest.first(5));
    auto rngs = generators(7);
    verify_batch(TraversalVerifier{}, spoilt.target, spoilt.draft, spoilt.tokens, parents, spoilt.offsets,
                 rngs, verdicts);
    for (std::size_t i = 0; i < 7; ++i) {
      REQUIRE((verdicts[i].error != nullptr) == (i == 5));
      CHECK(verdicts[i].verdict == (i == 5 ? TreeVerdict{} : alone[i]));
    }
    CHECK_THAT(message_of([&] { std::rethrow_exception(verdicts[5].error); }), Catch::Contains(each.message));
  }
}

TEST_CASE("parents, offsets and verdicts of trees that do not fit together are named") {
  std::mt19937_64 rng{5};
  const Forest forest(4, rng);  // 6 tokens
  const auto message = [&](std::vector<Index> offsets, std::size_t parents = 6, std::size_t verdicts = 4) {
    auto rngs = generators(4);
    std::vector<BatchTreeVerdict> out(verdicts, BatchTreeVerdict{{{1}, 2}, nullptr});
    const std::string found = message_of([&] {
      verify_batch(KSeqVerifier{}, forest.target, forest.draft, forest.tokens,
                   std::vector<Index>(parents, -1), offsets, rngs, out);
    });
    for (const BatchTreeVerdict& each : out) CHECK(each.verdict == TreeVerdict{{1}, 2});
    for (const Philox& each : rngs) CHECK(each.offset() == 0);
    return found;
  };
  CHECK(message({0, 0, 1, 3, 6}, 5) == "specdec: parents has 5 numbers, expected one for each of 6 tokens");
  CHECK(message({0, 2, 1, 3, 6}) == "specdec: offsets[2] = 1 is outside 2..6");
  CHECK(message({0, -1, 1, 3, 6}) == "specdec: offsets[1] = -1 is outside 0..6");
  CHECK(message({}) == "specdec: offsets is empty, expected 0 at least");
  CHECK(message({0, 0, 1, 3, 6}, 6, 5) == "specdec: verdicts has 5 entries, expected 4");
}

TEST_CASE("the path of a tree's verdict is checked before anything is written") {
  const std::vector<Token> ids{0, 1, 2, 0, 1, -1};
  std::vector<Token> out(8, 7);
  std::vector<Index> accepted(2, 7);
  const auto write = [&](const TreeVerdict& second, std::span<Token> emitted) {
    const std::vector<BatchTreeVerdict> verdicts{{{{1}, 5}, nullptr}, {second, nullptr}};
    return message_of([&] { write_emitted(ids, PaddedDrafts{2, 3}, 6, verdicts, emitted, accepted); });
  };
  CHECK(write({{0, 2}, 4}, out) == "specdec: verdicts[1] accepts token 2 of 2 tokens");
  CHECK(write({{-1}, 4}, out) == "specdec: verdicts[1] accepts token -1 of 2 tokens");
  CHECK(write({{0, 1, 1}, 4}, out) == "specdec: verdicts[1] accepts 3 of 2 tokens");
  CHECK(write({{0, 1}, 4}, std::span(out).first(4)) ==
        "specdec: emitted has room for 2 tokens of each draft, but draft 1 emits 3");
  CHECK(out == std::vector<Token>(8, 7));
  CHECK(accepted == std::vector<Index>(2, 7));
  CHECK(write({{1}, 4}, std::span(out).first(4)).empty());
  CHECK(out[2] == 1);
}

TEST_CASE("two trees in one call have the target's law, each by itself and both together") {
  std::mt19937_64 rng{6};
  const auto target = testing::TableModel<>::random(2, 2, rng),
             draft = testing::TableModel<>::random(2, 1, rng);
  const std::vector<Token> contexts[2] = {{0, 1}, {1, 1}};
  const auto check = [&](const auto& rule, support::Sibling kind) {
    const support::TreeForm forms[2] = {{{-1, -1, 0}, kind}, {{-1, -1}, kind}};
    std::map<std::pair<std::vector<Token>, std::vector<Token>>, double> together;
    testing::enumerate([&](testing::Enumerator& chance) {
      std::vector<Token> tokens;
      std::vector<Index> parents, offsets{0};
      Rows p(7, 2), q(5, 2);
      for (std::size_t i = 0; i < 2; ++i) {
        const auto tree = support::draft_tree(target, draft, contexts[i], forms[i], chance);
        const Index first = offsets.back(), n = std::ssize(tree.tokens);
        p.middleRows(first + static_cast<Index>(i), n + 1) = tree.target;
        q.middleRows(first, n) = tree.draft;
        detail::append(tokens, tree.tokens);
        detail::append(parents, tree.parents);
        offsets.push_back(first + n);
      }
      const auto sources =
          std::views::iota(0, 2) | std::views::transform([&](int) -> testing::Enumerator& { return chance; });
      std::vector<BatchTreeVerdict> verdicts(2);
      verify_batch(rule, p, q, tokens, parents, offsets, sources, verdicts);
      std::vector<Token> emitted[2];
      for (std::size_t i = 0; i < 2; ++i) {
        if (verdicts[i].error) std::rethrow_exception(verdicts[i].error);
        for (const Index k : verdicts[i].verdict.path)
          emitted[i].push_back(tokens[static_cast<std::size_t>(offsets[i] + k)]);
        emitted[i].push_back(verdicts[i].verdict.token);
      }
      const double probability = chance.probability();
      together[{emitted[0], emitted[1]}] += probability;
    });

    const support::TreeStep steps[2] = {support::tree_step(target, draft, contexts[0], forms[0], rule),
                                        support::tree_step(target, draft, contexts[1], forms[1], rule)};
    double firsts[2][2] = {};
    for (const auto& [emitted, probability] : together) {
      CHECK(probability ==
            Approx(steps[0].emitted.at(emitted.first) * steps[1].emitted.at(emitted.second)).margin(1e-12));
      firsts[emitted.first[0]][emitted.second[0]] += probability;
    }
    for (const Token x : {0, 1})
      for (const Token y : {0, 1})
        CHECK(firsts[x][y] == Approx(target.distribution(contexts[0]).probability(x) *
                                     target.distribution(contexts[1]).probability(y))
                                  .margin(1e-12));
  };
  check(TraversalVerifier{}, support::Sibling::without_replacement);
  check(RecursiveRejectionVerifier{}, support::Sibling::independent);
  check(KSeqVerifier{}, support::Sibling::independent);
}

}  // namespace test_verify_verify_batch_trees
