// check_model: right models pass, and each mistake of the field is told in words.
// SPDX-License-Identifier: MIT
#include "specdec/testing/check_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <specdec/model/ngram.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_testing_check_model {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

namespace {

enum class Mistake {
  none,
  never_cut,         // truncate and keep do nothing, but for 0
  never_emptied,     // not even for 0
  rows_too_early,    // row i of a call of several tokens is the one after the token before
  always_too_early,  // every row is
  first_rows,        // of several tokens the first rows are returned, not the last
  wrong_positions,   // what is fed after a rollback counts on from where the context was cut
  tree_as_line,      // parents are ignored
  siblings_seen,     // a row of a tree depends on how many tokens the tree has
  path_not_kept,     // of a path only its first token is kept
  path_misplaced,    // tokens of a path keep the places that they had in the tree
  numbers_restart,   // parents are read as numbers of the call's own tokens
  mixed_as_lines,    // parents are ignored if another feed of the call has none
  tree_survives,     // a rollback that cuts the context off leaves an open tree as it is
  longer_empties,    // a rollback to a longer length empties the context
  company_seen,      // rows depend on the number of feeds in the call
  not_released,      // a sequence that was released begins where it ended
  slightly_off,      // in calls of several tokens a number of each row is 0.01 too large
  nan,               // the row after token 3 after token 3
  too_few_rows,
  throws,
  never_truncates,  // every rollback throws
};

constexpr Index vocab = 5;

// The distribution after a text of which every token matters, and where it stands.
Eigen::RowVectorXd row_after(std::span<const Token> text, Index shift = 0) {
  std::uint64_t hash = 17 + static_cast<std::uint64_t>(shift);
  for (const Token x : text) hash = SplitMix64(hash * 31 + static_cast<std::uint64_t>(x))();
  SplitMix64 numbers(hash);
  Eigen::RowVectorXd row(vocab);
  for (double& p : row) p = uniform01(numbers);
  return row / row.sum();
}

// One text of a model with a mistake.
struct Text {
  Mistake mistake;
  std::vector<Token> context = {}, tree = {};
  std::vector<Index> parents = {};
  Index lost = 0;        // how many places a mistake is off
  bool ignored = false;  // whether parents are ignored in this call

  std::vector<Eigen::RowVectorXd> forward(std::span<const Token> tokens, std::span<const Index> branches,
                                          Index rows, Index company) {
    std::vector<Eigen::RowVectorXd> out;
    const bool line = branches.empty();
    const auto size = std::ssize(tokens), open = std::ssize(tree);
    for (Index k = 0; k < size; ++k) {
      tree.push_back(tokens[static_cast<std::size_t>(k)]);
      Index parent = line || ignored || mistake == Mistake::tree_as_line
                         ? std::ssize(tree) - 2
                         : branches[static_cast<std::size_t>(k)];
      if (mistake == Mistake::numbers_restart && parent >= 0) parent = std::min(parent + open, open + k - 1);
      parents.push_back(parent);
    }
    for (Index i = 0; i < rows; ++i) {
      Index node = open + (mistake == Mistake::first_rows ? i : size - rows + i);
      const bool early =
          mistake == Mistake::always_too_early || (mistake == Mistake::rows_too_early && size > 1);
      if (early) --node;
      std::vector<Token> path = way_to(node);
      std::vector<Token> text = context;
      text.insert(text.end(), path.begin(), path.end());
      const Index seen =
          (mistake == Mistake::wrong_positions || mistake == Mistake::path_misplaced ? lost : 0) +
          (mistake == Mistake::siblings_seen && !line ? size : 0) +
          (mistake == Mistake::company_seen ? company : 0);
      out.push_back(row_after(text, seen));
      if (mistake == Mistake::slightly_off && size > 1) out.back()[0] += 0.01;
      const auto n = text.size();
      if (mistake == Mistake::nan && n > 1 && text[n - 1] == 3 && text[n - 2] == 3)
        out.back()[0] = std::numeric_limits<double>::quiet_NaN();
    }
    if (mistake == Mistake::throws && std::ssize(context) + size > 9)
      throw std::runtime_error("the cache is full");
    if (line) keep_all();
    return out;
  }

  std::vector<Token> way_to(Index node) const {
    std::vector<Token> path;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)])
      path.insert(path.begin(), tree[static_cast<std::size_t>(node)]);
    return path;
  }
  void keep_all() {
    context.insert(context.end(), tree.begin(), tree.end());
    forget_tree();
  }
  void keep(std::span<const Index> path) {
    if (mistake == Mistake::path_misplaced) lost += path.back() + 1 - std::ssize(path);
    for (const Index k : mistake == Mistake::path_not_kept ? path.first(1) : path)
      context.push_back(tree[static_cast<std::size_t>(k)]);
    forget_tree();
  }
  void keep(Index length) {
    if (mistake != Mistake::tree_survives || length >= std::ssize(context)) forget_tree();
    if (mistake == Mistake::never_truncates) throw std::runtime_error("cannot");
    if (mistake == Mistake::longer_empties && length > std::ssize(context)) context.clear();
    if (mistake == Mistake::never_emptied || (mistake == Mistake::never_cut && length > 0)) return;
    if (length >= std::ssize(context)) return;
    if (mistake == Mistake::wrong_positions) lost += std::ssize(context) - length;
    if (length == 0) lost = 0;
    context.resize(static_cast<std::size_t>(length));
  }
  void forget_tree() {
    tree.clear();
    parents.clear();
  }
};

Eigen::MatrixXd matrix(const std::vector<Eigen::RowVectorXd>& rows, Mistake mistake) {
  const Index size = std::ssize(rows) - (mistake == Mistake::too_few_rows && rows.size() > 2 ? 1 : 0);
  Eigen::MatrixXd out(size, vocab);
  for (Index i = 0; i < size; ++i) out.row(i) = rows[static_cast<std::size_t>(i)];
  return out;
}

// For one text. It takes trees.
class One {
 public:
  explicit One(Mistake mistake) : mistake_(mistake), text_{mistake} {}
  Index vocab_size() const { return vocab; }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    return rows_ = matrix(text_.forward(tokens, {}, rows, 1), mistake_);
  }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return rows_ = matrix(text_.forward(tokens, parents, rows, 1), mistake_);
  }
  void keep(std::span<const Index> path) { text_.keep(path); }
  void truncate(Index length) { text_.keep(length); }
  bool empty() const { return text_.context.empty(); }

 private:
  Mistake mistake_;
  Text text_;
  Eigen::MatrixXd rows_;
};

// For many texts. It takes trees.
class Many {
 public:
  explicit Many(Mistake mistake) : mistake_(mistake) {}
  Index vocab_size() const { return vocab; }
  const Eigen::MatrixXd& forward(std::span<const BatchFeed> feeds) {
    std::vector<Eigen::RowVectorXd> all;
    const bool lines = std::ranges::any_of(feeds, [](const BatchFeed& feed) { return feed.parents.empty(); });
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.try_emplace(feed.sequence, Text{mistake_}).first->second;
      text.ignored = lines && mistake_ == Mistake::mixed_as_lines;
      for (const auto& row : text.forward(feed.tokens, feed.parents, feed.rows, std::ssize(feeds)))
        all.push_back(row);
    }
    return rows_ = matrix(all, mistake_);
  }
  void keep(Index sequence, Index length) {
    if (texts_.contains(sequence)) texts_.at(sequence).keep(length);
  }
  void keep(Index sequence, std::span<const Index> path) { texts_.at(sequence).keep(path); }
  void release(Index sequence) {
    if (mistake_ != Mistake::not_released) texts_.erase(sequence);
  }
  bool empty() const { return texts_.empty(); }

 private:
  Mistake mistake_;
  std::map<Index, Text> texts_;
  Eigen::MatrixXd rows_;
};

template <class Model>
std::string complaint(Mistake mistake) {
  Model model(mistake);
  const ModelReport report = check_model(model);
  CHECK(report.right == report.complaint.empty());
  CHECK(static_cast<bool>(report) == report.right);
  return report.complaint;
}

// What every complaint about a row begins with is cut off.
std::string after_colon(const std::string& text) {
  CHECK(text.starts_with("the row after token "));
  return text.substr(text.find(": ") + 2);
}

}  // namespace

TEST_CASE("models that are right pass, and are left empty") {
  One one(Mistake::none);
  const ModelReport report = check_model(one);
  CHECK(report.right);
  CHECK(report.rows > 200);
  CHECK(report.difference == 0);
  CHECK(report.telling > report.rows / 2);
  CHECK(report.shows_rollback);
  CHECK(one.empty());
  Many many(Mistake::none);
  CHECK(check_model(many, {.together = 5}).rows > 300);
  CHECK(many.empty());

  SplitMix64 rng{3};
  auto table = TableModel<>::random(4, 2, rng);
  CHECK(check_model(table));
  ModelPerSequence each{table};
  CHECK(check_model(each));
  Windowed windowed{table, 2, 6};
  CHECK(check_model(windowed, {.longest = 40}));
  PathByPath paths{ModelPerSequence{table}};
  CHECK(check_model(paths));
  auto one_row = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  CHECK(check_model(one_row));  // of which no token matters
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Eigen::MatrixXd certain =
        Eigen::MatrixXd::Zero(16, 3);  // rows for 0 to 2 tokens of 3, to the left and the right
    for (Index i = 0; i < 16; ++i) certain(i, i % 4 == 2 && i / 4 == 2 ? 1 : i / 4 % 3) = 1;
    TableModel<> seldom{certain, 2};  // whose last token matters in one context of nine
    CHECK(check_model(seldom, {.rounds = 1, .calls = 1, .seed = seed}));
  }
}

TEST_CASE("a rollback that does nothing is convicted") {
  CHECK(after_colon(complaint<One>(Mistake::never_cut)) ==
        "it is the row of the context with the tokens that truncate(length) should have cut off");
  CHECK(after_colon(complaint<Many>(Mistake::never_cut)) ==
        "it is the row of the context with the tokens that keep(sequence, length) should have cut off");
  const std::string twice =
      "a text that is fed twice, token by token, has another row after its token 0 the second time: ";
  CHECK(complaint<One>(Mistake::never_emptied) ==
        twice + "truncate(0) does not empty the context, or the model is not deterministic");
}

TEST_CASE("rows of another place are convicted") {
  CHECK(after_colon(complaint<One>(Mistake::rows_too_early)) == "it is the row one token earlier");
  CHECK(after_colon(complaint<Many>(Mistake::rows_too_early)) == "it is the row one token earlier");
  CHECK(complaint<One>(Mistake::always_too_early) ==
        "the row after a token never depends on that token, but on the one before it: rows are off by one");
  CHECK_FALSE(complaint<One>(Mistake::first_rows).empty());
  CHECK_FALSE(complaint<Many>(Mistake::first_rows).empty());
}

TEST_CASE("a stale cache is convicted") {
  const std::string stale =
      "the cache is not as it was before the tokens that were cut off: stale entries or wrong positions";
  CHECK(after_colon(complaint<One>(Mistake::wrong_positions)) == stale);
  CHECK(after_colon(complaint<Many>(Mistake::wrong_positions)) == stale);
  CHECK_FALSE(complaint<Many>(Mistake::not_released).empty());
}

TEST_CASE("trees that are taken wrongly are convicted") {
  CHECK(after_colon(complaint<One>(Mistake::tree_as_line)) ==
        "it is the row of the tree's tokens read as a line: parents are ignored");
  CHECK(after_colon(complaint<Many>(Mistake::tree_as_line)) ==
        "it is the row of the tree's tokens read as a line: parents are ignored");
  CHECK(after_colon(complaint<One>(Mistake::siblings_seen)).starts_with("the tree's other branches"));
  CHECK(after_colon(complaint<Many>(Mistake::mixed_as_lines)) ==
        "it is the row of the tree's tokens read as a line: parents are ignored");
  const std::string path =
      "the cache does not hold the path that was kept of a tree: other tokens or wrong positions";
  CHECK_FALSE(complaint<One>(Mistake::path_not_kept).empty());
  CHECK_FALSE(complaint<Many>(Mistake::path_not_kept).empty());
  CHECK_THAT(complaint<One>(Mistake::path_misplaced), Catch::Contains(path));
  CHECK_THAT(complaint<Many>(Mistake::path_misplaced), Catch::Contains(path));
}

TEST_CASE("trees that do not grow from call to call are convicted") {
  const std::string grown =
      "the tree's other branches shine through; or the tree did not grow as its numbers say";
  CHECK(after_colon(complaint<One>(Mistake::numbers_restart)).starts_with(grown));
  CHECK(after_colon(complaint<Many>(Mistake::numbers_restart)).starts_with(grown));
  CHECK_THAT(complaint<One>(Mistake::numbers_restart), Catch::Contains(" of an open tree is off by "));
}

TEST_CASE("a tree that is still open after the context was cut is convicted") {
  CHECK_FALSE(complaint<One>(Mistake::tree_survives).empty());
  CHECK_FALSE(complaint<Many>(Mistake::tree_survives).empty());
}

TEST_CASE("a rollback to a longer length that changes the context is convicted") {
  CHECK_FALSE(complaint<One>(Mistake::longer_empties).empty());
  CHECK_FALSE(complaint<Many>(Mistake::longer_empties).empty());
}

TEST_CASE("rows that depend on the rest of the call are convicted") {
  CHECK(after_colon(complaint<Many>(Mistake::company_seen))
            .starts_with("it depends on other sequences: the call had "));
}

TEST_CASE("rows that are a little off are convicted, unless the tolerance allows for it") {
  CHECK_THAT(complaint<One>(Mistake::slightly_off), Catch::Contains(" is off by 0.01: "));
  CHECK_THAT(complaint<Many>(Mistake::slightly_off), Catch::Contains(" is off by 0.01: "));
  One model(Mistake::slightly_off);
  CHECK_FALSE(check_model(model, {.tolerance = 0.009}));
  const ModelReport report = check_model(model, {.tolerance = 0.011});
  CHECK(report.right);
  CHECK(report.difference == Approx(0.01));
}

TEST_CASE("numbers and calls that cannot be are convicted") {
  CHECK_THAT(complaint<One>(Mistake::nan), Catch::Contains("nan"));
  CHECK_THAT(complaint<Many>(Mistake::too_few_rows),
             Catch::Contains("a call that is allowed throws: specdec: the model returned"));
  CHECK(complaint<One>(Mistake::throws) == "a call that is allowed throws: the cache is full");
  CHECK(complaint<One>(Mistake::never_truncates) == "a call that is allowed throws: cannot");
  struct NoRoom : One {
    NoRoom() : One(Mistake::none) {}
    Index context_size() const { return 0; }
  } none;
  CHECK(check_model(none).complaint == "context_size() = 0 leaves no room for a token");
}

TEST_CASE("rows differ by their largest difference") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto difference = [](const Eigen::RowVector3d& a, const Eigen::RowVector3d& b) {
    return testing::detail::difference_of_rows(a, b);
  };
  CHECK(difference({1, 0, 0.5}, {0, 0, 0.25}) == 1);
  CHECK(difference({-inf, 2, 3}, {-inf, 2, 3}) == 0);  // logits
  CHECK(difference({-inf, 2, 3}, {0, 2, 3}) == inf);
  CHECK(std::isnan(difference({nan, 2, 3}, {nan, 2, 5})));
}

TEST_CASE("a report prints itself") {
  std::ostringstream out;
  out << ModelReport{.rows = 12, .difference = 0.5, .telling = 1, .shows_rollback = true} << "\n"
      << ModelReport{.right = false, .complaint = "so it is"};
  CHECK(out.str() == "right in 12 rows, worst difference 0.5\nwrong: so it is");
}

namespace {

std::string printed(const ModelReport& report) {
  std::ostringstream out;
  out << report;
  return out.str();
}

}  // namespace

TEST_CASE("a report says what could not have been seen") {
  auto one_row = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  const ModelReport flat = check_model(one_row);
  CHECK(flat.right);
  CHECK(flat.telling == 0);
  CHECK_THAT(printed(flat),
             Catch::EndsWith(", but no row differs from the row one token earlier by more than "
                             "the tolerance: a mistake would not have been seen"));
  One never_cut(Mistake::never_cut);
  const ModelReport coarse = check_model(never_cut, {.tolerance = 1});  // larger than any probability
  CHECK(coarse.right);
  CHECK(coarse.telling == 0);
  CHECK_FALSE(coarse.shows_rollback);

  // Of whose rows only the last token decides.
  SplitMix64 rng{3};
  auto last = TableModel<>::random(4, 1, rng);
  const ModelReport local = check_model(last);
  CHECK(local.telling > 0);
  CHECK(printed(local).ends_with(", but no row would have shown a rollback that does nothing"));
  One one(Mistake::none);
  CHECK(printed(check_model(one)).find("but") == std::string::npos);
  // A rollback is checked only where there is one.
  CHECK_FALSE(check_model(one, {.rounds = 1, .calls = 1}).shows_rollback);
}

TEST_CASE("options of a check that make no sense are refused") {
  One model(Mistake::none);
  const auto refused = [&](const ModelCheckOptions& options) {
    return message_of([&] { check_model(model, options); });
  };
  CHECK(refused({.rounds = 0}) == "specdec: rounds = 0 is below 1");
  CHECK(refused({.calls = 0}) == "specdec: calls = 0 is below 1");
  CHECK(refused({.longest = 0}) == "specdec: longest = 0 is below 1");
  CHECK(refused({.together = 0}) == "specdec: together = 0 is below 1");
  CHECK(refused({.tolerance = -1}) == "specdec: tolerance = -1 is no number >= 0");
}

}  // namespace test_testing_check_model
