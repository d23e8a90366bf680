// A model that copies contexts takes trees: rows, contexts and failures as of a model that takes them itself.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <set>
#include <span>
#include <specdec/model/forked_branches.hpp>
#include <specdec/search/beam_search.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_forked_branches {

using namespace specdec;
using support::Bookkeeper, support::message_of, support::RowMajor;
using testing::TableModel;
using Tokens = std::vector<Token>;

// Takes no trees, and copies contexts. One of its copies may fail.
struct Copying {
  Bookkeeper books;
  Index forks = 0, forks_until_failure = -1;

  explicit Copying(const TableModel<>& table, Index most = unlimited) : books(table, most) {}
  Index vocab_size() const { return books.vocab_size(); }
  Index context_size() const { return books.context_size(); }
  const RowMajor<double>& forward(std::span<const BatchFeed> feeds) {
    for (const BatchFeed& feed : feeds) CHECK(feed.parents.empty());
    std::set<Index> numbers;
    for (const BatchFeed& feed : feeds) CHECK(numbers.insert(feed.sequence).second);
    if (detail::rows_of(feeds) == 0) books.one_row_short_at = -1;  // there is none to be missing
    return books.forward(feeds);
  }
  void keep(Index sequence, Index length) { books.keep(sequence, length); }
  void release(Index sequence) { books.release(sequence); }
  void fork(Index from, Index to) {
    if (forks_until_failure-- == 0) throw Bookkeeper::Failure();
    ++forks;
    REQUIRE_FALSE(books.contexts.contains(to));
    books.contexts[to] = books.contexts.at(from);
  }
};

TEST_CASE("ForkedBranches passes the check of a model for many texts that takes trees") {
  std::mt19937_64 rng{1};
  for (std::uint64_t seed = 1; seed < 4; ++seed) {
    Copying model(TableModel<>::random(4, 3, rng));
    ForkedBranches trees{model};
    static_assert(takes_trees<ForkedBranches<Copying&>>);
    const auto report = testing::check_model(trees, {.rounds = support::bound(40, 200), .seed = seed});
    CAPTURE(report.complaint);
    CHECK(report.right);
    CHECK(report.telling > 0);
    CHECK(model.forks > 0);
  }
}

// Trees of several texts grow, are kept in part, and calls fail: beside a model that takes trees, call for call.
TEST_CASE("ForkedBranches: rows are those of a model that takes trees, and a failure changes nothing") {
  std::mt19937_64 rng{2};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
  int failures = 0, forks_failed = 0;
  for (int run = 0; run < support::bound(40, 300); ++run) {
    const auto table = TableModel<>::random(4, 3, rng);
    Copying model(table);
    ForkedBranches trees{model};
    Bookkeeper expected(table);
    std::map<Index, Index> lengths;
    std::map<Index, std::vector<Index>> parents;
    for (int call = 0; call < 30; ++call) {
      std::vector<Tokens> tokens;
      std::vector<std::vector<Index>> above;
      std::vector<BatchFeed> feeds;
      tokens.reserve(3), above.reserve(3);
      for (Index sequence = 0; sequence < 3; ++sequence) {
        if (below(3) == 0) continue;
        const Index open = std::ssize(parents[sequence]), size = 1 + below(below(6) == 0 ? 40 : 6);
        const bool line = open == 0 && below(3) == 0;
        Tokens& fed = tokens.emplace_back();
        std::vector<Index>& own = above.emplace_back();
        for (Index k = 0; k < size; ++k) {
          fed.push_back(static_cast<Token>(below(4)));
          // Some trees begin with a long line.
          if (!line) own.push_back(size > 20 && k < 18 ? open + k - 1 : below(open + k + 1) - 1);
        }
        if (!line && size > 20) own[0] = -1;
        feeds.push_back(
            {{.tokens = fed, .from = lengths[sequence], .rows = below(size + 1), .parents = own}, sequence});
      }
      if (feeds.empty()) continue;
      const auto before = model.books.contexts;
      if (below(3) == 0) {
        switch (below(4)) {
          case 0:
            model.books.fails_at = model.books.calls + 1 + below(2);
            break;
          case 1:
            model.books.fails_behind = model.books.calls + 1 + below(2);
            break;
          case 2:
            model.books.one_row_short_at = model.books.calls + 1;
            break;
          default:
            model.forks_until_failure = below(3);
        }
      }
      bool failed = false;
      try {
        const auto rows = trees.forward(feeds);
        const RowMajor<double>& right = expected.forward(feeds);
        REQUIRE(rows.rows() == right.rows());
        const auto found = distributions(rows);
        for (Index i = 0; i < right.rows(); ++i)
          for (Token x = 0; x < 4; ++x) REQUIRE(probability(found.row(i), x) == right(i, x));
      } catch (const Bookkeeper::Failure&) {
        failed = true;
        forks_failed += model.forks_until_failure == -1 && model.books.fails_at < model.books.calls;
      } catch (const std::invalid_argument& error) {
        failed = true;
        CHECK(std::string(error.what()).find("the model returned") != std::string::npos);
      }
      model.books.fails_at = model.books.fails_behind = model.books.one_row_short_at = -1;
      model.forks_until_failure = -1;
      failures += failed;
      if (failed) {
        for (auto& [number, context] : model.books.contexts) {
          const auto known = before.find(number);
          CHECK(context == (known == before.end() ? Tokens{} : known->second));
        }
        continue;
      }
      for (std::size_t i = 0; i < feeds.size(); ++i) {
        const Index sequence = feeds[i].sequence;
        std::vector<Index>& tree = parents[sequence];
        if (feeds[i].parents.empty()) lengths[sequence] += std::ssize(feeds[i].tokens);
        else detail::append(tree, feeds[i].parents);
        const Index what = below(5);
        if (what == 0) {  // a path
          std::vector<Index> path;
          for (Index k = below(std::ssize(tree) + 1) - 1; k >= 0; k = tree[static_cast<std::size_t>(k)])
            path.insert(path.begin(), k);
          trees.keep(sequence, path);
          expected.keep(sequence, path);
          lengths[sequence] += std::ssize(path);
          tree.clear();
        } else if (what == 1) {
          const Index length = below(lengths[sequence] + 1);
          trees.keep(sequence, length);
          expected.keep(sequence, length);
          lengths[sequence] = length;
          tree.clear();
        } else if (what == 2 && below(4) == 0) {
          trees.release(sequence);
          expected.release(sequence);
          lengths.erase(sequence);
          parents.erase(sequence);
        }
      }
    }
    for (Index sequence = 0; sequence < 3; ++sequence) trees.release(sequence);
    CHECK(model.books.contexts.empty());
  }
  CHECK(failures > 10);
  CHECK(forks_failed > 0);
}

TEST_CASE("ForkedBranches: the trees of searches are read in one call a step, each token once") {
  std::mt19937_64 rng{3};
  Eigen::MatrixXd rows(6, 5);
  for (double& p : rows.reshaped()) p = 0.05 + uniform01(rng);
  const TableModel<> table((rows.array().colwise() / rows.rowwise().sum().array()).eval(), 1);
  Tokens prompt(60);
  for (Token& x : prompt) x = static_cast<Token>(rng() % 5);
  const BeamOptions how{.max_new_tokens = 20, .width = 3};
  Copying model(table);
  ForkedBranches trees{model};
  BeamBatch searches{trees};
  for (const Index number : {0, 1}) searches.add(number, prompt, how);
  Index over = 0;
  while (!searches.empty())
    for (const FoundBeams& found : searches.step()) {
      REQUIRE_FALSE(found.error);
      const BeamResult alone = BeamSearch{TableModel<>(table)}.generate(prompt, how);
      for (std::size_t b = 0; b < 3; ++b) {
        CHECK(found.result.beams.at(b).tokens == alone.beams.at(b).tokens);
        CHECK(found.result.beams.at(b).log_probability == alone.beams.at(b).log_probability);
      }
      ++over;
    }
  CHECK(over == 2);
  CHECK(model.books.calls == 20);
  CHECK(model.books.fed == 2 * (60 + 3 * 19));
  CHECK(model.books.contexts.empty());
}

TEST_CASE("ForkedBranches: a prompt is not read for each branch after it") {
  std::mt19937_64 rng{4};
  const auto table = TableModel<>::random(4, 2, rng);
  for (const Index prompt : {3, 17, 100}) {
    Copying model(table);
    ForkedBranches trees{model};
    // Three branches after a prompt, all in one call.
    Tokens tokens(static_cast<std::size_t>(prompt + 3), 1);
    std::vector<Index> parents;
    detail::make_line(parents, prompt);
    for (int k = 0; k < 3; ++k) parents.push_back(prompt - 1);
    const BatchFeed feed{{.tokens = tokens, .rows = 4, .parents = parents}, 7};
    trees.forward(std::span(&feed, 1));
    CHECK(model.books.calls == (prompt > 16 ? 2 : 1));
    CHECK(model.books.fed == (prompt > 16 ? prompt + 3 : 3 * prompt + 3));
    CHECK(model.books.contexts.size() == 3);
    trees.keep(7, std::vector<Index>{0, 1});
    CHECK(model.books.contexts.size() == 1);
    CHECK(model.books.contexts.begin()->second == Tokens(2, 1));
  }
}

TEST_CASE("ForkedBranches: a twin has the context without the tree, and none if the copy fails") {
  std::mt19937_64 rng{5};
  Copying model(TableModel<>::random(4, 2, rng));
  ForkedBranches trees{model};
  const Tokens context{1, 2, 3}, more{0, 1};
  const BatchFeed line{{.tokens = context, .rows = 1}, 3};
  const std::vector<Index> parents{-1, -1};
  const BatchFeed tree{{.tokens = more, .from = 3, .rows = 1, .parents = parents}, 3};
  trees.forward(std::span(&line, 1));
  trees.forward(std::span(&tree, 1));
  model.forks_until_failure = 0;
  CHECK_THROWS_AS(trees.fork(3, 4), Bookkeeper::Failure);
  trees.fork(3, 4);
  const BatchFeed twin{{.tokens = more, .from = 3, .rows = 1}, 4};
  trees.forward(std::span(&twin, 1));
  trees.fork(8, 9);  // nobody knows 8
  trees.release(3);
  REQUIRE(model.books.contexts.size() == 1);
  CHECK(model.books.contexts.begin()->second == Tokens{1, 2, 3, 0, 1});
}

TEST_CASE("ForkedBranches: twins of a text in a batch, with trees of drafts, read the prompt once") {
  const support::Models models = support::models_of(5);
  const Tokens prompt(50, 1);
  const Options options{.max_new_tokens = 20, .gamma = 6};
  const auto drafter = [&] {
    return ModelDrafter{PathByPath{TableModel<>(models.small)},
                        Tree{TreeShape::of_widths({3, 1}), WithoutReplacement{}}};
  };
  Copying model(models.target);
  ForkedBranches trees{model};
  Batch batch{trees, drafter(), TraversalVerifier{}};
  const Index text = batch.add(prompt, options, std::mt19937_64{1});
  batch.fork(text, std::mt19937_64{2});
  const auto finished = batch.run();
  REQUIRE(finished.size() == 2);
  for (std::uint64_t i = 0; i < 2; ++i) {
    SpecDec alone{TableModel<>(models.target), drafter(), TraversalVerifier{}};
    std::mt19937_64 rng{i + 1};
    CHECK(finished[i].result.tokens == alone.generate(prompt, options, rng).tokens);
  }
  CHECK(model.books.contexts.empty());
  CHECK(model.books.fed < 2 * 50 + 2 * 20 * 9);
}

TEST_CASE("ForkedBranches: bad calls are named in the error") {
  Copying model(TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5)));
  ForkedBranches trees{model};
  const Tokens tokens{0, 1}, unknown{0, 2};
  const std::vector<Index> parents{-1, -1}, wrong{-1, 1};
  const auto error = [&](const BatchFeed& feed) {
    return message_of([&] { trees.forward(std::span(&feed, 1)); });
  };
  CHECK(error({{.tokens = unknown, .rows = 1}, 3}) ==
        "specdec: tokens[1] = 2 is outside the vocabulary 0..1");
  CHECK(error({{.tokens = tokens, .from = 1, .rows = 1}, 3}) ==
        "specdec: feeds[0].from = 1, but the context of sequence 3 holds 0 tokens");
  CHECK(error({{.tokens = tokens, .rows = 1, .parents = wrong}, 3}).find("parents[1] = 1") !=
        std::string::npos);
  const BatchFeed feed{{.tokens = tokens, .rows = 2, .parents = parents}, 3};
  trees.forward(std::span(&feed, 1));
  CHECK(message_of([&] { trees.fork(3, 3); }) == "specdec: to = 3: this sequence has a context already");
  CHECK(message_of([&] {
          trees.keep(3, std::vector<Index>{0, 1});
        }) == "specdec: path[1] = 1 follows -1, not 0");
  trees.keep(9, std::vector<Index>{});  // nobody knows it
  trees.release(9);
}

}  // namespace test_forked_branches
