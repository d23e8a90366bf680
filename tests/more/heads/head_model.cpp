// Draft models that are heads on hidden states. The oracle for rows folds the tokens from the beginning, one by one. The
// oracle for texts is the target's law, by enumeration.
// SPDX-License-Identifier: MIT
#include "specdec/more/heads/head_model.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>
#include "specdec/more/drafters/cascade_drafter.hpp"
#include "specdec/more/drafters/confident_tree.hpp"
#include "specdec/more/drafters/prompt_lookup.hpp"

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/knowing.hpp"
#include "support/message_of.hpp"
#include "support/reduced.hpp"

namespace test_more_heads_head_model {

using namespace specdec;
using namespace specdec::testing;
using support::every, support::Knowing, support::ManyKnowing, support::ManyPrefixed, support::message_of,
    support::Prefixed;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

namespace {

constexpr Index vocab = 3;

// A state is a number and the depth in the draft.
struct Counting {
  Eigen::MatrixXd output = {};
  std::vector<Index> columns = {};  // of each call
  Index wrong_columns = 0;          // returns so many too many
  bool fails = false, fails_to_begin = false;

  Index vocab_size() const { return vocab; }
  Index state_size() const { return 2; }

  static int number(float x) { return static_cast<int>(x); }
  static Eigen::Vector2f begun(const Eigen::Vector2f& hidden) {
    return {static_cast<float>((number(hidden[0]) * 11 + number(hidden[1])) % 97), 0.0f};
  }
  static Eigen::Vector2f after(const Eigen::Vector2f& state, Token x) {
    return {static_cast<float>((number(state[0]) * 7 + x + 2) % 97), state[1] + 1};
  }
  // Probabilities.
  static Eigen::RowVectorXd row(const Eigen::Vector2f& state) {
    Eigen::RowVectorXd row(vocab);
    for (int x = 0; x < static_cast<int>(vocab); ++x)
      row[x] = (number(state[0]) + x * x + x * number(state[1])) % 4 + (x == 0);
    return row / row.sum();
  }

  void begin(const Eigen::Vector2f& hidden, Eigen::Ref<Eigen::VectorXf> state) {
    if (std::exchange(fails_to_begin, false)) throw std::runtime_error("a hidden state");
    state = begun(hidden);
  }
  const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                 std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                                 Index rows) {
    if (std::exchange(fails, false)) throw std::runtime_error("a head");
    const Index count = std::ssize(tokens);
    REQUIRE((states.cols() == count && next.cols() == count && rows <= count));
    columns.push_back(count);
    output.resize(rows, vocab + wrong_columns);
    for (Index i = 0; i < count; ++i) {
      next.col(i) = after(states.col(i), tokens[static_cast<std::size_t>(i)]);
      if (const Index r = i - (count - rows); r >= 0) output.row(r).head(vocab) = row(next.col(i));
    }
    return output;
  }
};

using Model3 = HeadModel<Knowing, Counting>;
static_assert(ShowsHidden<Knowing> && !ShowsHidden<TableModel<>>);
static_assert(Head<Counting> && !Head<Knowing>);
static_assert(Model<Model3> && takes_trees<Model3>);

using ManyModel3 = HeadModel<ManyKnowing, Counting>;
static_assert(ShowsHidden<ManyKnowing> && BatchModel<ManyModel3> && takes_trees<ManyModel3>);
static_assert(!BatchModel<Model3> && !Model<ManyModel3>);

Knowing knowing(unsigned seed = 1) { return support::knowing(vocab, seed); }

// The row after all tokens, for a state that was begun after the first `begun` of them.
Eigen::RowVectorXd row_after(std::span<const Token> tokens, Index begun, bool known) {
  Eigen::Vector2f state = Eigen::Vector2f::Zero();
  if (known && begun > 0)
    state = Counting::begun(Knowing::hidden_of(tokens.first(static_cast<std::size_t>(begun))));
  for (const Token x : tokens.subspan(static_cast<std::size_t>(begun))) state = Counting::after(state, x);
  return Counting::row(state);
}

}  // namespace

TEST_CASE("rows follow from the hidden state and the tokens after it") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  CHECK(head.vocab_size() == vocab);
  CHECK(head.context_size() == 40);
  const Tokens text{2, 0, 1, 1, 0};
  const auto first = [&](std::size_t n) { return std::span(text).first(n); };

  // The target has taken in nothing, and rows are asked for all the same: the state of the empty context is zero.
  CHECK(head.forward(first(2), 2).row(1) == row_after(first(2), 0, false));
  CHECK(head.forward(std::span(text).subspan(2, 1), 1).row(0) == row_after(first(3), 0, false));

  // The target takes in two tokens. This changes no state that follows from the same tokens until later tokens are fed.
  target.forward(first(2), 1);
  head.truncate(2);
  CHECK(head.forward(std::span(text).subspan(2, 1), 1).row(0) == row_after(first(3), 2, true));
  CHECK(head.forward(std::span(text).subspan(3, 1), 1).row(0) == row_after(first(4), 2, true));

  // It takes in all but the last token, as after a draft that was accepted.
  target.forward(std::span(text).subspan(2, 2), 1);
  head.truncate(3);
  const auto calls = head.head().columns.size();
  CHECK(head.forward(std::span(text).subspan(3, 2), 1).row(0) == row_after(first(5), 4, true));
  CHECK(head.head().columns.size() == calls + 1);  // the token that the target took in, too, was skipped
}

TEST_CASE("a row that is wanted after a token that the target has taken in follows from an older state") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  const Tokens text{2, 0, 1, 1};
  target.forward(std::span(text).first(1), 1);
  head.forward(std::span(text).first(2), 1);
  target.forward(std::span(text).subspan(1), 1);
  const Eigen::MatrixXd rows = head.forward(std::span(text).subspan(2), 2);
  CHECK(rows.row(0) == row_after(std::span(text).first(3), 1, true));
  CHECK(rows.row(1) == row_after(text, 1, true));
}

TEST_CASE("a state that could not be begun is begun by the next call") {
  for (const bool tree : {false, true}) {
    Knowing target = knowing();
    Model3 head(target, Counting{});
    const Tokens text{2, 0, 1};
    head.forward(std::span(text).first(2), 1);
    target.forward(std::span(text).first(2), 1);  // now the target's context is as long as the head's
    const auto row = [&]() -> Eigen::RowVectorXd {
      const auto last = std::span(text).last(1);
      return tree ? head.forward(last, Numbers{-1}, 1).row(0) : head.forward(last, 1).row(0);
    };
    const_cast<Counting&>(head.head()).fails_to_begin = true;
    CHECK_THROWS_AS(row(), std::runtime_error);
    CHECK(row() == row_after(text, 2, true));
  }
}

TEST_CASE("any calls, rollbacks and trees, beside a target that goes on and back") {
  std::mt19937 rng{2};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<unsigned>(n)); };
  Index again = 0;  // how often a state before the known tokens was begun from
  for (int walk = 0; walk < 60; ++walk) {
    Knowing target = knowing();
    Model3 head(target, Counting{});
    Tokens text, tree;
    Numbers parents;
    Index begun = 0;
    bool known = false;
    const auto begin_again = [&](Index least, Index most) {
      const Index length = target.length();
      if (length == 0 || length < least || length > most || (known && length == begun)) return;
      again += length < std::ssize(text);
      begun = length;
      known = true;
    };
    const auto random_tokens = [&](Index count) {
      Tokens x;
      while (std::ssize(x) < count) x.push_back(static_cast<Token>(below(vocab)));
      return x;
    };
    const auto cut = [&](Index length) {
      tree.clear();
      parents.clear();
      if (length < begun) known = false;
      begun = std::min(begun, length);
      text.resize(static_cast<std::size_t>(length));
      target.truncate(length);
    };
    for (int step = 0; step < 60; ++step) {
      const Index length = std::ssize(text);
      const Index kind = below(9);
      if (kind < 2 && tree.empty()) {  // a line; the target may have taken in some of it
        const Tokens x = random_tokens(1 + below(4));
        Tokens all = text;
        all.insert(all.end(), x.begin(), x.end());
        const Index to = below(std::ssize(all) + 1);
        if (to > target.length())
          target.forward(std::span(all)
                             .subspan(target.context.size())
                             .first(static_cast<std::size_t>(to - target.length())),
                         1);
        const Index rows = 1 + below(std::ssize(x)), least = known ? length : 1;
        if (below(4) == 0) {
          const_cast<Counting&>(head.head()).fails = true;
          CHECK_THROWS_AS(head.forward(x, rows), std::runtime_error);
          const Index before = begun;
          begin_again(least, std::ssize(all) - rows);
          if (begun > length || (begun != before && begun < length)) begun = length, known = false;
          target.truncate(length);  // these tokens will not come
          continue;
        }
        const Eigen::MatrixXd got = head.forward(x, rows);
        begin_again(least, std::ssize(all) - rows);
        text = all;
        for (Index i = 0; i < rows; ++i) {
          const auto upto = static_cast<std::size_t>(std::ssize(all) - rows + 1 + i);
          REQUIRE(got.row(i) == row_after(std::span(all).first(upto), begun, known));
        }
      } else if (kind < 6 && length > 0) {  // a tree grows
        const Index size = std::ssize(tree);
        const Tokens x = random_tokens(1 + below(4));
        Numbers of_x;
        for (Index i = 0; i < std::ssize(x); ++i) of_x.push_back(below(size + i + 1) - 1);
        const Index rows = 1 + below(std::ssize(x));
        if (tree.empty()) begin_again(length, length);
        else if (below(3) == 0 &&
                 target.length() < length)  // an open tree keeps the states that it began with
          target.forward(std::span(text).subspan(target.context.size()), 1);
        const Eigen::MatrixXd got = head.forward(x, of_x, rows);
        tree.insert(tree.end(), x.begin(), x.end());
        parents.insert(parents.end(), of_x.begin(), of_x.end());
        for (Index i = 0; i < rows; ++i) {
          Tokens way;
          for (Index node = std::ssize(tree) - rows + i; node >= 0;
               node = parents[static_cast<std::size_t>(node)])
            way.insert(way.begin(), tree[static_cast<std::size_t>(node)]);
          Tokens all = text;
          all.insert(all.end(), way.begin(), way.end());
          REQUIRE(got.row(i) == row_after(all, begun, known));
        }
      } else if (kind == 6 && !tree.empty()) {  // a path is kept
        Numbers path;
        for (Index node = below(std::ssize(tree)); node >= 0; node = parents[static_cast<std::size_t>(node)])
          path.insert(path.begin(), node);
        head.keep(path);
        for (const Index node : path) text.push_back(tree[static_cast<std::size_t>(node)]);
        tree.clear();
        parents.clear();
        if (text.size() > 30) head.truncate(0), cut(0);
      } else if (kind == 7) {
        const Index to = below(length + 1);
        head.truncate(to);
        cut(to);
      } else if (kind == 8 && tree.empty()) {  // another user of the target has cut its context
        target.truncate(below(length + 1));
      }
    }
  }
  CHECK(again > 8);
}

TEST_CASE("if a rollback leaves no state, the tokens go through the head again from what the target knows") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  const Tokens text{2, 0, 1, 1, 0};
  const auto first = [&](std::size_t n) { return std::span(text).first(n); };
  target.forward(first(4), 1);
  head.forward(text, 1);
  target.truncate(2);
  head.truncate(3);
  const auto calls = head.head().columns.size();
  CHECK(head.forward(std::span(text).subspan(3, 1), 1).row(0) == row_after(first(4), 2, true));
  CHECK(head.head().columns.size() == calls + 2);
  CHECK(head.forward(std::span(text).subspan(4), 1).row(0) == row_after(text, 2, true));
}

TEST_CASE("a text that grew token by token is cut far back") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  Tokens text;
  for (std::size_t i = 0; i < 62; ++i) {
    text.push_back(static_cast<Token>(i * i % 3));
    if (i > 0) target.forward(std::span(text).subspan(i - 1, 1), 1);
    head.forward(std::span(text).last(1), 1);
  }
  target.truncate(30);
  head.truncate(42);
  const auto first = std::span(text).first(43);
  CHECK(head.forward(first.last(1), 1).row(0) == row_after(first, 30, true));
}

TEST_CASE("tokens whose parents are known go through the head together") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  head.forward(Tokens{1}, 1);
  head.forward(Tokens{0, 1, 2, 0, 1}, Numbers{-1, -1, 0, 1, 3}, 2);
  head.forward(Tokens{2, 2, 2}, Numbers{4, 0, 3}, 3);
  CHECK(head.head().columns == Numbers{1, 2, 2, 1, 3});
}

TEST_CASE("many texts: any calls, with the rows that each text has alone") {
  std::mt19937 rng{5};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<unsigned>(n)); };
  constexpr Index texts = 4;
  ManyKnowing target{knowing()};
  ManyModel3 head(target, Counting{});
  std::vector<Knowing> targets(texts, knowing());
  std::vector<Model3> heads;
  for (Knowing& alone : targets) heads.emplace_back(alone, Counting{});
  std::vector<Tokens> contexts(texts), trees(texts);
  std::vector<Numbers> parents(texts);
  std::size_t calls = 0;
  const auto clear = [&](std::size_t t) {
    trees[t].clear();
    parents[t].clear();
  };
  for (int step = 0; step < 600; ++step) {
    std::vector<Tokens> tokens(texts);
    std::vector<Numbers> of_tokens(texts);
    std::vector<BatchFeed> feeds;
    Eigen::MatrixXd expected(0, vocab);
    std::size_t depth = 0;  // the most calls that a text alone makes
    for (std::size_t t = 0; t < texts; ++t) {
      const Index sequence = 7 * static_cast<Index>(t), length = std::ssize(contexts[t]);
      const Index kind = below(8);
      if (kind == 0 || length > 25) {  // the text is cut, or another one begins
        const Index to = length > 25 ? 0 : below(length + 1);
        heads[t].truncate(to);
        targets[t].truncate(to);
        target.keep(sequence, to);
        if (to == 0 && below(2) == 0) head.release(sequence);
        else head.keep(sequence, to);
        contexts[t].resize(static_cast<std::size_t>(to));
        clear(t);
      } else if (kind == 1 && !trees[t].empty()) {
        Numbers path;
        for (Index node = below(std::ssize(trees[t])); node >= 0;
             node = parents[t][static_cast<std::size_t>(node)])
          path.insert(path.begin(), node);
        heads[t].keep(path);
        head.keep(sequence, path);
        for (const Index node : path) contexts[t].push_back(trees[t][static_cast<std::size_t>(node)]);
        clear(t);
      } else if (kind == 2 && trees[t].empty() &&
                 targets[t].length() < length) {  // the target takes some tokens in
        const auto more = std::span(contexts[t]).subspan(targets[t].context.size());
        targets[t].forward(more, 1);
        target.forward(
            std::vector{BatchFeed{{.tokens = more, .from = target.length(sequence), .rows = 1}, sequence}});
      }
      if (below(3) == 0) continue;
      while (std::ssize(tokens[t]) < 1 + below(4)) tokens[t].push_back(static_cast<Token>(below(vocab)));
      const bool branches = !trees[t].empty() || (std::ssize(contexts[t]) > 0 && below(2) == 0);
      if (branches)
        for (Index i = 0; i < std::ssize(tokens[t]); ++i)
          of_tokens[t].push_back(below(std::ssize(trees[t]) + i + 1) - 1);
      const Index rows = 1 + below(std::ssize(tokens[t])), first = expected.rows();
      feeds.push_back(
          {{.tokens = tokens[t], .from = std::ssize(contexts[t]), .rows = rows, .parents = of_tokens[t]},
           sequence});
      const auto before = heads[t].head().columns.size();
      const Eigen::MatrixXd alone =
          branches ? heads[t].forward(tokens[t], of_tokens[t], rows) : heads[t].forward(tokens[t], rows);
      expected.conservativeResize(first + rows, vocab);
      expected.bottomRows(rows) = alone;
      depth = std::max(depth, heads[t].head().columns.size() - before);
      auto& to = branches ? trees[t] : contexts[t];
      to.insert(to.end(), tokens[t].begin(), tokens[t].end());
      parents[t].insert(parents[t].end(), of_tokens[t].begin(), of_tokens[t].end());
    }
    if (feeds.empty()) continue;
    const auto before = head.head().columns.size();
    if (below(5) == 0) {
      const_cast<Counting&>(head.head()).fails = true;
      CHECK_THROWS_AS(head.forward(feeds), std::runtime_error);
    }
    const Eigen::MatrixXd got = head.forward(feeds);
    REQUIRE(got == expected);
    REQUIRE(head.head().columns.size() - before == depth);
    calls += depth;
  }
  CHECK(calls > 500);
}

TEST_CASE(
    "a twin has the states of its text, with no call of the head for them, and each goes on for itself") {
  ManyKnowing target{knowing()};
  ManyModel3 head(target, Counting{});
  const Tokens text{2, 0, 1}, tree{1, 2}, one{1}, other{2};
  const Numbers parents{-1, 0};
  const auto feed = [](Index sequence, const Tokens& tokens, Index from) {
    return BatchFeed{{.tokens = tokens, .from = from, .rows = 1}, sequence};
  };
  target.forward(std::vector{feed(3, text, 0)});
  target.keep(3, 1);
  head.forward(std::vector{feed(3, text, 0)});
  head.forward(std::vector<BatchFeed>{{{.tokens = tree, .from = 3, .rows = 1, .parents = parents}, 3}});
  target.texts.emplace(4, target.texts.at(3));
  head.fork(3, 4);
  CHECK(message_of([&] { head.fork(3, 4); }) == "specdec: to = 4: this sequence has a context already");
  head.keep(3, Numbers{0});
  const std::size_t calls = head.head().columns.size();
  const Eigen::MatrixXd rows = head.forward(std::vector{feed(3, other, 4), feed(4, other, 3)});
  CHECK(rows.row(0) == row_after(Tokens{2, 0, 1, 1, 2}, 1, true));
  CHECK(rows.row(1) == row_after(Tokens{2, 0, 1, 2}, 1, true));
  CHECK(head.head().columns.size() == calls + 1);
  CHECK(head.head().columns.back() == 2);
  head.keep(4, 2);
  head.release(3);
  CHECK(Eigen::MatrixXd(head.forward(std::vector{feed(4, one, 2)})) == row_after(Tokens{2, 0, 1}, 1, true));
}

TEST_CASE("a part of a prompt wants no row") {
  ManyKnowing target{knowing()};
  ManyModel3 head(target, Counting{});
  const Tokens text{2, 0, 1, 1}, other{1};
  const auto part = [&](std::size_t from, std::size_t count, Index rows) {
    return BatchFeed{
        {.tokens = std::span(text).subspan(from, count), .from = static_cast<Index>(from), .rows = rows}, 3};
  };
  CHECK(head.forward(std::vector{part(0, 2, 0)}).rows() == 0);
  const BatchFeed beside{{.tokens = other, .rows = 1}, 1};
  const Eigen::MatrixXd rows = head.forward(std::vector{part(2, 1, 0), beside});
  REQUIRE(rows.rows() == 1);
  CHECK(rows.row(0) == row_after(other, 0, false));
  target.forward(std::vector{part(0, 3, 1)});
  CHECK(head.forward(std::vector{part(3, 1, 1)}).row(0) == row_after(text, 3, true));
  CHECK(message_of([&] { head.forward(std::vector{part(3, 1, 1)}); }) ==
        "specdec: feeds[0].from = 3, but the context of sequence 3 holds 4 tokens");
  head.keep(9, 0);  // unknown numbers are nothing
  head.keep(9, Numbers{0});
  head.release(9);
}

TEST_CASE("a drafter with a head is not steady, in whatever wrapper the head is") {
  CHECK(!has_steady_rows<Model3>);
  CHECK(!has_steady_rows<PathByPath<Model3&>>);
  CHECK(!is_steady<ModelDrafter<Model3&>>);
  CHECK(!is_steady<ModelDrafter<PathByPath<Model3&>>>);
  CHECK(!is_steady<CascadeDrafter<Model3&, PromptLookupDrafter>>);
  CHECK(is_steady<CascadeDrafter<Knowing&, PromptLookupDrafter>>);
  CHECK(has_steady_rows<Knowing>);
  CHECK(has_steady_rows<PathByPath<Knowing&>>);
  CHECK(is_steady<ModelDrafter<Knowing&>>);
}

TEST_CASE(
    "after a long prompt that the target has not taken in, nothing is drafted, and the head is not called") {
  const Tokens prompt(17, 1);
  std::mt19937_64 rng{1};
  const auto check = [&](auto strategy) {
    Knowing target = knowing();
    Model3 head(target, Counting{});
    ModelDrafter drafter{PathByPath<Model3&>{head}, strategy};
    CHECK(drafter.draft(prompt, {3}, rng).tokens.empty());
    CHECK(head.head().columns.empty());
    target.forward(std::span(prompt).first(1), 1);
    CHECK(!drafter.draft(prompt, {3}, rng).tokens.empty());
  };
  check(Line{});
  check(Tree{TreeShape::of_widths({2, 1}), Independent{}});
  check(ConfidentTree{});
  check(Spares{1, {1}});
  Knowing target = knowing();
  target.forward(std::span(prompt).first(1), 1);
  CHECK(Model3(target, Counting{}).can_draft(17));
  ManyKnowing many{knowing()};
  ManyModel3 of_many(many, Counting{});
  PathByPath<ManyModel3&> wrapped{of_many};
  many.forward(std::vector{BatchFeed{{.tokens = std::span(prompt).first(2), .rows = 1}, 3}});
  CHECK((wrapped.can_draft(3, 18) && !wrapped.can_draft(3, 19)));
}

TEST_CASE("where no hidden state is known, nothing is drafted, and the head is not called") {
  const Tokens prompt{0, 1, 2, 1};
  std::mt19937_64 rng{1};
  Prefixed target{knowing()};
  HeadModel head(target, Counting{});
  ModelDrafter drafter{head};
  CHECK(drafter.draft(prompt, {3}, rng).tokens.empty());
  target.first = 2;  // a prefix of which keys and values are kept
  target.forward(std::span(prompt).first(2), 1);
  CHECK(drafter.draft(prompt, {3}, rng).tokens.empty());
  CHECK(head.head().columns.empty());
  CHECK(head.forward(prompt, 1).row(0) == row_after(prompt, 0, false));  // asked for all the same
  head.truncate(0);
  target.forward(std::span(prompt).subspan(2, 1), 1);
  CHECK(drafter.draft(prompt, {3}, rng).tokens.size() == 3);
  ManyPrefixed many{{knowing()}, {{0, 0}, {1, 3}}};
  HeadModel of_many(many, Counting{});
  for (const Index n : {0, 1})
    many.forward(std::vector{BatchFeed{{.tokens = std::span(prompt).first(3), .rows = 1}, n}});
  CHECK((of_many.can_draft(0, 4) && !of_many.can_draft(1, 4)));

  // A loop's first step has no draft of the head, so another drafter may make one.
  Knowing other = knowing();
  Model3 with_head(other, Counting{});
  SpecDec decoder{other, ModelDrafter{with_head}, BlockVerifier{}};
  auto sequence = decoder.start(Tokens{0, 1}, {.max_new_tokens = 8, .gamma = 3});
  sequence.step(rng);
  CHECK(sequence.stats().drafted == 0);
  sequence.step(rng);
  CHECK(sequence.stats().drafted == 3);
}

TEST_CASE("it holds to the promises of a model") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  CHECK(check_model(head).complaint.empty());
  ManyKnowing many{knowing()};
  ManyModel3 of_many(many, Counting{});
  CHECK(check_model(of_many).complaint.empty());
}

TEST_CASE("in a batch a text that a head drafts for is what it is alone") {
  const auto check = [](auto strategy, auto rule) {
    const Options options{.max_new_tokens = 25, .gamma = 3};
    ManyKnowing target{knowing()};
    ManyModel3 head(target, Counting{});
    Batch batch{target, ModelDrafter{head, strategy}, rule};
    for (const Token first : {0, 1, 2})
      batch.add(Tokens{first, 1}, options, SplitMix64{static_cast<unsigned>(first)});
    for (const Finished& done : batch.run()) {
      REQUIRE(!done.error);
      Knowing alone = knowing();
      Model3 alone_head(alone, Counting{});
      SpecDec decoder{alone, ModelDrafter{alone_head, strategy}, rule};
      SplitMix64 rng{static_cast<unsigned>(done.sequence)};
      const Result result = decoder.generate(Tokens{static_cast<Token>(done.sequence), 1}, options, rng);
      CHECK(done.result.tokens == result.tokens);
      CHECK(done.result.stats.accepted == result.stats.accepted);
      CHECK(result.stats.accepted > 0);
    }
  };
  check(Line{}, BlockVerifier{});
#ifndef SPECDEC_TEST_SOME
  check(Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}, TraversalVerifier{});
  check(Spares{2, {1}}, TrunkAndSpares<BlockVerifier>{});
#endif
}

TEST_CASE("what is refused, and that nothing has changed then") {
  Knowing target = knowing();
  Model3 head(target, Counting{});
  const auto says = [](auto&& call) { return message_of<std::invalid_argument>(call); };
  const Tokens text{2, 0, 1};
  head.forward(text, 1);
  CHECK(says([&] { head.forward(Tokens{1}, 2); }) ==
        "specdec: rows = 2 is outside 1..1, the number of tokens");
  CHECK(says([&] {
          head.forward(Tokens{1, 3}, 1);
        }) == "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
  CHECK(says([&] {
          head.forward(Tokens{1, 1}, Numbers{-1}, 1);
        }) == "specdec: parents has 1 numbers, expected one for each of 2 tokens");
  CHECK(says([&] {
          head.forward(Tokens{1, 1}, Numbers{-1, 1}, 1);
        }) == "specdec: parents[1] = 1 is outside -1..0: a token follows the context or a token before it");
  head.forward(Tokens{1}, Numbers{-1}, 1);
  CHECK(message_of<InvalidCall>([&] { head.forward(Tokens{1}, 1); }) ==
        "specdec: feeds[0] has no parents while the tree of sequence 0 is open: keep() closes it");
  CHECK(says([&] { head.keep(Numbers{1}); }) == "specdec: path[0] = 1 is outside 0..0");
  head.truncate(3);
  CHECK(head.forward(Tokens{1}, 1).row(0) == row_after(Tokens{2, 0, 1, 1}, 0, false));

  Model3 wide(target, Counting{.wrong_columns = 1});
  CHECK(says([&] { wide.forward(Tokens{1}, 1); }) ==
        "specdec: the head returned 1 rows over 4 tokens, expected 1 row over its vocabulary of 3");
}

TEST_CASE("a head that drafts some of the tokens takes all of them in") {
  Knowing target = knowing();
  HeadModel some(target, support::Reduced<Counting>({}));
  CHECK(some.vocab_size() == 4);
  const Tokens text{2, 0, 1, 2, 1};
  target.forward(std::span(text).first(1), 1);
  const Eigen::MatrixXd rows = some.forward(std::span(text).first(3), 2);
  CHECK(rows.row(0) == support::reduced(row_after(std::span(text).first(2), 1, true)));
  CHECK(rows.row(1) == support::reduced(row_after(std::span(text).first(3), 1, true)));
  const Eigen::MatrixXd tree = some.forward(std::span(text).subspan(3), Numbers{-1, -1}, 2);
  CHECK(tree.row(0) == support::reduced(row_after(Tokens{2, 0, 1, 2}, 1, true)));
  CHECK(tree.row(1) == support::reduced(row_after(Tokens{2, 0, 1, 1}, 1, true)));

  HeadModel all(target, support::Unreduced<Counting>{});
  CHECK(all.vocab_size() == vocab);
  CHECK(all.forward(text, 1).row(0) == row_after(text, 1, true));
  CHECK(message_of<std::invalid_argument>([&] { HeadModel(target, support::Reduced<Counting>({}, 2)); }) ==
        "specdec: token_map() has 3 draft tokens, expected vocab_size() = 2");
}

TEST_CASE("drafts of a head are lossless", "[law]") {
  const auto draft_model = [](Knowing& target) { return Model3(target, Counting{}); };
  double accepted = 0;
  CHECK(support::law_difference(draft_model, Line{}, TokenVerifier{}, accepted) < 1e-12);
  CHECK(support::law_difference(draft_model, Line{}, BlockVerifier{}, accepted) < 1e-12);
  CHECK(support::law_difference(draft_model, Tree{TreeShape::of_widths({2, 1}), Independent{}},
                                TraversalVerifier{}, accepted) < 1e-12);
  CHECK(accepted > 6.0 / every(3));
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("drafts of a head that drafts some of the tokens are lossless", "[law]") {
  const auto draft_model = [](Knowing& target) {
    return ProcessedModel{HeadModel(target, support::Reduced<Counting>({}, 3, vocab)), Temperature{1}};
  };
  double accepted = 0;
  CHECK(support::law_difference(draft_model, Line{}, BlockVerifier{}, accepted) < 1e-12);
  CHECK(support::law_difference(draft_model, Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}},
                                TraversalVerifier{}, accepted) < 1e-12);
  CHECK(accepted > 1.0 / every(3));
}
#endif

}  // namespace test_more_heads_head_model
