// Draft models that are a layer on hidden states, with a KV cache. The oracle for rows goes through the tokens from the
// beginning, one by one, with the definition's states. The oracle for texts is the target's law, by enumeration.
// SPDX-License-Identifier: MIT
#include "specdec/more/heads/eagle_model.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/knowing.hpp"
#include "support/message_of.hpp"
#include "support/reduced.hpp"

namespace test_more_heads_eagle_model {

using namespace specdec;
using namespace specdec::testing;
using support::every, support::Knowing, support::ManyKnowing, support::ManyPrefixed, support::message_of,
    support::Prefixed;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;

namespace {

constexpr Index vocab = 3;

Knowing knowing(unsigned seed = 1) { return support::knowing(vocab, seed); }

// What the layer below computes. `before` stands for all that its KV cache holds before a token.
int number(float x) { return static_cast<int>(x); }
Eigen::Vector2f begun(const Eigen::Vector2f& hidden) {
  return {static_cast<float>((number(hidden[0]) * 11 + number(hidden[1])) % 97), 1.0f};
}
int fold(int before, const Eigen::Vector2f& state, Token x) {
  return (before * 5 + number(state[0]) * 13 + number(state[1]) * 3 + x + 1) % 97;
}
Eigen::Vector2f own_state(int after) { return {static_cast<float>((after * 7 + 2) % 89), 2.0f}; }
Eigen::RowVectorXd row_of(int after) {
  Eigen::RowVectorXd row(vocab);
  for (int x = 0; x < static_cast<int>(vocab); ++x) row[x] = (after + x * x + x * (after % 7)) % 4 + (x == 0);
  return row / row.sum();
}

// A layer. Its KV cache has a number for each token, which depends on all states and tokens on the way to it.
class Folding {
 public:
  static constexpr bool copies_context = true;

  struct Log {
    std::vector<Index> columns = {};  // of each call
    Index fails_in = 0;               // the call after so many fails; 0: none
  };
  std::shared_ptr<Log> log = std::make_shared<Log>();  // of all copies
  Index wrong_columns = 0;                             // returns so many too many

  Index vocab_size() const { return vocab; }
  Index state_size() const { return 2; }
  void begin(const Eigen::Vector2f& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = begun(hidden); }

  const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                 std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                                 Index rows) {
    REQUIRE(tree_.empty());
    begin_call(states, tokens, next, rows);
    for (Index i = 0; i < std::ssize(tokens); ++i) {
      context_.push_back(fold(last(), states.col(i), tokens[static_cast<std::size_t>(i)]));
      put(context_.back(), next, i);
      if (fails_) throw std::runtime_error("a layer");  // some tokens are in the cache
    }
    return output_;
  }
  const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                 std::span<const Token> tokens, std::span<const Index> parents,
                                 Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    begin_call(states, tokens, next, rows);
    for (Index i = 0; i < std::ssize(tokens); ++i) {
      const Index parent = parents[static_cast<std::size_t>(i)];
      REQUIRE(parent < std::ssize(tree_));
      const int before = parent < 0 ? last() : tree_[static_cast<std::size_t>(parent)];
      tree_.push_back(fold(before, states.col(i), tokens[static_cast<std::size_t>(i)]));
      put(tree_.back(), next, i);
      if (fails_) throw std::runtime_error("a layer");  // some tokens are in the cache
    }
    return output_;
  }
  void keep(std::span<const Index> path) {
    for (const Index node : path) {
      REQUIRE(node < std::ssize(tree_));
      context_.push_back(tree_[static_cast<std::size_t>(node)]);
    }
    tree_.clear();
  }
  void truncate(Index length) {
    tree_.clear();
    context_.resize(std::min(context_.size(), static_cast<std::size_t>(length)));
  }

 private:
  int last() const { return context_.empty() ? 1 : context_.back(); }
  void begin_call(const auto& states, std::span<const Token> tokens, const auto& next, Index rows) {
    const Index count = std::ssize(tokens);
    REQUIRE((count > 0 && states.cols() == count && next.cols() == count && rows >= 0 && rows <= count));
    log->columns.push_back(count);
    fails_ = log->fails_in > 0 && --log->fails_in == 0;
    output_.resize(rows, vocab + wrong_columns);
  }
  void put(int after, Eigen::Ref<Eigen::MatrixXf> next, Index i) {
    next.col(i) = own_state(after);
    if (const Index r = i - (next.cols() - output_.rows()); r >= 0)
      output_.row(r).head(vocab) = row_of(after);
  }
  std::vector<int> context_, tree_;
  Eigen::MatrixXd output_;
  bool fails_ = false;
};

// A layer without trees.
template <bool copied>
struct LineLayer {
  Folding inner;

  explicit LineLayer(Folding layer) : inner(std::move(layer)) {}
  LineLayer(LineLayer&&) = default;
  LineLayer(const LineLayer&)
    requires copied
  = default;
  Index vocab_size() const { return vocab; }
  Index state_size() const { return 2; }
  void begin(const Eigen::Vector2f& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = begun(hidden); }
  const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                 std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                                 Index rows) {
    return inner.forward(states, tokens, next, rows);
  }
  void truncate(Index length) { inner.truncate(length); }
};

// A layer for many texts, which computes for each what Folding does for it alone.
class FoldingTogether {
 public:
  explicit FoldingTogether(Folding fresh) : log(fresh.log), fresh_(std::move(fresh)) {}

  std::shared_ptr<Folding::Log> log;
  std::shared_ptr<Numbers> calls = std::make_shared<Numbers>();  // the columns of each call
  Index wrong_rows = 0;                                          // returns so many too many

  Index vocab_size() const { return vocab; }
  Index state_size() const { return 2; }
  void begin(const Eigen::Vector2f& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = begun(hidden); }

  Eigen::MatrixXd forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const BatchFeed> feeds,
                          Eigen::Ref<Eigen::MatrixXf> next) {
    REQUIRE(states.cols() == next.cols());
    calls->push_back(states.cols());
    Eigen::MatrixXd rows(0, vocab);
    Index column = 0;
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.try_emplace(feed.sequence, Text{fresh_, 0}).first->second;
      REQUIRE(feed.from == text.length);
      const Index count = std::ssize(feed.tokens), before = rows.rows();
      const auto from = states.middleCols(column, count);
      auto to = next.middleCols(column, count);
      rows.conservativeResize(before + feed.rows, vocab);
      rows.bottomRows(feed.rows) = feed.parents.empty()
                                       ? text.layer.forward(from, feed.tokens, to, feed.rows)
                                       : text.layer.forward(from, feed.tokens, feed.parents, to, feed.rows);
      if (feed.parents.empty()) text.length += count;
      column += count;
    }
    REQUIRE(column == states.cols());
    rows.conservativeResize(rows.rows() + wrong_rows, vocab);
    return rows;
  }
  void keep(Index sequence, Index length) {
    if (const auto text = texts_.find(sequence); text != texts_.end()) {
      text->second.layer.truncate(length);
      text->second.length = std::min(text->second.length, length);
    }
  }
  void keep(Index sequence, std::span<const Index> path) {
    REQUIRE(texts_.contains(sequence));  // there is a tree
    Text& text = texts_.at(sequence);
    text.layer.keep(path);
    text.length += std::ssize(path);
  }
  void release(Index sequence) { texts_.erase(sequence); }
  void fork(Index from, Index to) {
    texts_.emplace(to, texts_.at(from)).first->second.layer.keep(std::span<const Index>{});
  }

 private:
  struct Text {
    Folding layer;
    Index length;
  };
  Folding fresh_;
  std::map<Index, Text> texts_;
};

using Eagle = EagleModel<Knowing, Folding>;
using ManyEagle = EagleModel<ManyKnowing, Folding>;
using EagleTogether = EagleModel<ManyKnowing, FoldingTogether>;
using Lines = EagleModel<Knowing, LineLayer<false>>;
using ManyLines = EagleModel<ManyKnowing, LineLayer<true>>;
static_assert(ShowsHiddenAt<Knowing> && ShowsHiddenAt<ManyKnowing> && !ShowsHiddenAt<TableModel<>>);
static_assert(DraftLayer<Folding> && DraftLayer<LineLayer<false>> && !DraftLayer<Knowing>);
static_assert(BatchDraftLayer<FoldingTogether> && !BatchDraftLayer<Folding> && !DraftLayer<FoldingTogether>);
static_assert(Model<Eagle> && takes_trees<Eagle>);
static_assert(Model<Lines> && !takes_trees<Lines>);
static_assert(BatchModel<ManyEagle> && takes_trees<ManyEagle>);
static_assert(BatchModel<EagleTogether> && takes_trees<EagleTogether>);
static_assert(BatchModel<ManyLines> && !takes_trees<ManyLines>);

// The row after all tokens, where those before number `exact` come with states of the target.
Eigen::RowVectorXd row_after(std::span<const Token> tokens, Index exact) {
  int after = 1;
  Eigen::Vector2f own = Eigen::Vector2f::Zero();
  for (Index i = 0; i < std::ssize(tokens); ++i) {
    if (i > 0 && i < exact) own = begun(Knowing::hidden_of(tokens.first(static_cast<std::size_t>(i))));
    after = fold(after, own, tokens[static_cast<std::size_t>(i)]);
    own = own_state(after);
  }
  return row_of(after);
}

}  // namespace

TEST_CASE("each token comes with the state after the token before it") {
  Knowing target = knowing();
  Eagle eagle(target, Folding{});
  CHECK(eagle.vocab_size() == vocab);
  CHECK(eagle.context_size() == 40);
  const Tokens text{2, 0, 1, 1, 0, 2};
  const auto first = [&](std::size_t n) { return std::span(text).first(n); };
  const auto part = [&](std::size_t from, std::size_t n) { return std::span(text).subspan(from, n); };

  // The target has taken in nothing: the first token comes with zeros, and each other one with the layer's own state.
  CHECK(eagle.forward(first(2), 1).row(0) == row_after(first(2), 1));
  CHECK(eagle.forward(part(2, 1), 1).row(0) == row_after(first(3), 1));
  CHECK(eagle.layer().log->columns == Numbers{1, 1, 1});

  // The target takes in two tokens. The layer gets the second and third one again, together, and then the fourth one.
  target.forward(first(2), 1);
  CHECK(eagle.forward(part(3, 1), 1).row(0) == row_after(first(4), 3));
  CHECK(eagle.layer().log->columns == Numbers{1, 1, 1, 2, 1});

  // It takes in all but the last one, as after a draft that was accepted: one call for all of these.
  target.forward(part(2, 3), 1);
  const Eigen::MatrixXd rows = eagle.forward(part(4, 2), 2);
  CHECK(rows.row(0) == row_after(first(5), 6));
  CHECK(rows.row(1) == row_after(text, 6));
  CHECK(eagle.layer().log->columns == Numbers{1, 1, 1, 2, 1, 3});
}

TEST_CASE("whatever a layer held before, its context is empty at first") {
  Knowing target = knowing();
  Folding used;
  Eigen::MatrixXf states = Eigen::MatrixXf::Ones(2, 2), next(2, 2);
  used.forward(states, Tokens{2, 1}, next, 0);
  Eagle eagle(target, used);
  CHECK(eagle.forward(Tokens{1}, Numbers{-1}, 1).row(0) == row_after(Tokens{1}, 1));
  ManyKnowing many{knowing()};  // of whose texts each has a copy
  ManyEagle of_many(many, used);
  const Tokens text{1};
  for (const Index sequence : {0, 3})
    CHECK(of_many.forward(std::vector{BatchFeed{{.tokens = text, .rows = 1}, sequence}}).row(0) ==
          row_after(text, 1));
}

TEST_CASE("a layer without trees is a model of lines, and is not copied for one text") {
  Knowing target = knowing();
  Lines eagle(target, LineLayer<false>{Folding{}});
  const Tokens text{2, 0, 1};
  target.forward(std::span(text).first(2), 1);
  CHECK(eagle.forward(text, 1).row(0) == row_after(text, 3));
  CHECK(eagle.layer().inner.log->columns == Numbers{3});
}

TEST_CASE("tokens of a tree whose parents are known go into the layer together") {
  Knowing target = knowing();
  Eagle eagle(target, Folding{});
  eagle.forward(Tokens{1}, 1);
  eagle.forward(Tokens{0, 1, 2, 0, 1}, Numbers{-1, -1, 0, 1, 3}, 2);
  eagle.forward(Tokens{2, 2, 2}, Numbers{4, 0, 3}, 3);
  CHECK(eagle.layer().log->columns == Numbers{1, 2, 2, 1, 3});
}

namespace {

// A text and a tree as they should be, beside a target and an Eagle for that text alone.
struct Alone {
  Knowing target = knowing();
  Tokens text = {}, tree = {};
  Numbers parents = {};
  Index exact = 0;
  bool known = true;  // the layer's own state before token number `exact`

  Index length() const { return std::ssize(text); }
  // The target takes in the text and `more`, up to `to` tokens.
  void take_in(Tokens more, Index to) {
    more.insert(more.begin(), text.begin(), text.end());
    if (to > target.length())
      target.forward(std::span(more)
                         .first(static_cast<std::size_t>(to))
                         .subspan(static_cast<std::size_t>(target.length())),
                     1);
  }
  void add(const Tokens& tokens, const Numbers& of_tokens) {
    auto& to = of_tokens.empty() ? text : tree;
    to.insert(to.end(), tokens.begin(), tokens.end());
    parents.insert(parents.end(), of_tokens.begin(), of_tokens.end());
    take_states(length());
  }
  void take_states(Index of) {
    const Index end = std::min(of, target.length() + 1);
    if (end > exact || !known) exact = end, known = true;  // not known: it goes back to what the target knows
  }
  // A call that adds `tokens` to the text has failed, after it had called the layer `calls` times.
  void fail(Index tokens, Index calls) {
    if (calls > 0) take_states(length() + tokens);
    forget_after(length());
  }
  void forget_after(Index to) {
    if (to < exact) exact = std::max<Index>(to - 1, 0), known = false;
  }
  Numbers path_to(Index node) const {
    Numbers path;
    for (; node >= 0; node = parents[static_cast<std::size_t>(node)]) path.insert(path.begin(), node);
    return path;
  }
  void keep(const Numbers& path) {
    for (const Index node : path) text.push_back(tree[static_cast<std::size_t>(node)]);
    tree.clear();
    parents.clear();
  }
  void cut(Index to) {
    tree.clear();
    parents.clear();
    forget_after(to);
    text.resize(static_cast<std::size_t>(to));
    target.truncate(to);
  }
  // The rows after the last `rows` tokens.
  Eigen::MatrixXd expected(Index rows) const {
    Eigen::MatrixXd all(rows, vocab);
    for (Index i = 0; i < rows; ++i) {
      Tokens way = text;
      if (tree.empty()) {
        way.resize(way.size() - static_cast<std::size_t>(rows - 1 - i));
        all.row(i) = row_after(way, exact);
      } else {
        for (const Index node : path_to(std::ssize(tree) - rows + i))
          way.push_back(tree[static_cast<std::size_t>(node)]);
        all.row(i) = row_after(way, exact);
      }
    }
    return all;
  }
};

}  // namespace

TEST_CASE("any calls, failures, rollbacks and trees, beside a target that goes on and back") {
  std::mt19937 rng{2};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<unsigned>(n)); };
  Index failures = 0, unknown = 0;
  for (int walk = 0; walk < 200; walk += every(4)) {
    Alone alone;
    Eagle eagle(alone.target, Folding{});
    const auto random_tokens = [&] {
      Tokens x(static_cast<std::size_t>(1 + below(4)));
      for (Token& token : x) token = static_cast<Token>(below(vocab));
      return x;
    };
    for (int step = 0; step < 60; ++step) {
      const Index length = alone.length(), kind = below(10);
      if (kind < 6) {
        const Tokens x = random_tokens();
        Numbers of_x;
        if (!alone.tree.empty() || kind < 3)
          for (Index i = 0; i < std::ssize(x); ++i) of_x.push_back(below(std::ssize(alone.tree) + i + 1) - 1);
        if (alone.tree.empty()) {  // the target takes in some of the tokens, too
          const Tokens more = of_x.empty() ? x : Tokens{};
          alone.take_in(more, below(length + std::ssize(more) + 1));
        }
        const Index rows = 1 + below(std::ssize(x));
        const auto call = [&]() -> Eigen::MatrixXd {
          return of_x.empty() ? eagle.forward(x, rows) : eagle.forward(x, of_x, rows);
        };
        if (below(4) == 0) {
          const Index before = std::ssize(eagle.layer().log->columns);
          eagle.layer().log->fails_in = 1 + below(3);
          try {
            call();
            alone.add(x, of_x);  // it called the layer less often
            eagle.layer().log->fails_in = 0;
            continue;
          } catch (const std::runtime_error&) {
            alone.fail(of_x.empty() ? std::ssize(x) : 0, std::ssize(eagle.layer().log->columns) - before - 1);
            ++failures;
            if (below(2) == 0) {  // the call is not tried again, and other tokens may come
              alone.target.truncate(length);
              continue;
            }
          }
        }
        const Eigen::MatrixXd got = call();
        unknown += !alone.known && alone.target.length() < alone.exact;
        alone.add(x, of_x);
        REQUIRE(got == alone.expected(rows));
      } else if (kind == 6 && !alone.tree.empty()) {
        const Numbers path = alone.path_to(below(std::ssize(alone.tree)));
        eagle.keep(path);
        alone.keep(path);
      } else if (kind == 7 || length > 25) {
        const Index to = length > 25 ? 0 : below(length + 1);
        eagle.truncate(to);
        alone.cut(to);
      } else if (kind == 8 && alone.tree.empty()) {  // another user of the target has cut its context
        alone.target.truncate(below(length + 1));
      }
    }
  }
  CHECK(failures > 500 / every(4));
  CHECK(unknown > 4 / every(4));
}

TEMPLATE_TEST_CASE("many texts: each has the rows that it has alone, and a call that fails changes no text",
                   "", Folding, FoldingTogether) {
  std::mt19937 rng{5};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<unsigned>(n)); };
  constexpr std::size_t texts = 3;
  ManyKnowing target{knowing()};
  EagleModel<ManyKnowing, TestType> eagle(target, TestType{Folding{}});
  std::vector<Alone> alone(texts);
  std::vector<Eagle> eagles;
  for (Alone& text : alone) eagles.emplace_back(text.target, Folding{});
  Index failures = 0;
  for (int step = 0; step < 800 / every(4); ++step) {
    std::vector<Tokens> tokens(texts);
    std::vector<Numbers> parents(texts);
    std::vector<BatchFeed> feeds;
    Eigen::MatrixXd expected(0, vocab);
    for (std::size_t t = 0; t < texts; ++t) {
      const Index sequence = 7 * static_cast<Index>(t), length = alone[t].length(), kind = below(8);
      if (kind == 0 || length > 25) {
        const Index to = length > 25 ? 0 : below(length + 1);
        target.keep(sequence, to);
        eagles[t].truncate(to);
        if (to == 0 && below(2) == 0) eagle.release(sequence);
        else eagle.keep(sequence, to);
        alone[t].cut(to);
      } else if (kind == 1 && !alone[t].tree.empty()) {
        const Numbers path = alone[t].path_to(below(std::ssize(alone[t].tree)));
        eagles[t].keep(path);
        eagle.keep(sequence, path);
        alone[t].keep(path);
      } else if (kind < 4 && alone[t].tree.empty() && alone[t].target.length() < length) {
        const Tokens more(alone[t].text.begin() + alone[t].target.length(), alone[t].text.end());
        target.forward(
            std::vector{BatchFeed{{.tokens = more, .from = target.length(sequence), .rows = 1}, sequence}});
        alone[t].take_in({}, length);
      }
      if (below(3) == 0) continue;
      while (std::ssize(tokens[t]) < 1 + below(4)) tokens[t].push_back(static_cast<Token>(below(vocab)));
      if (!alone[t].tree.empty() || below(2) == 0)
        for (Index i = 0; i < std::ssize(tokens[t]); ++i)
          parents[t].push_back(below(std::ssize(alone[t].tree) + i + 1) - 1);
      const Index rows = 1 + below(std::ssize(tokens[t])), first = expected.rows();
      feeds.push_back(
          {{.tokens = tokens[t], .from = alone[t].length(), .rows = rows, .parents = parents[t]}, sequence});
      expected.conservativeResize(first + rows, vocab);
      expected.bottomRows(rows) = parents[t].empty() ? eagles[t].forward(tokens[t], rows)
                                                     : eagles[t].forward(tokens[t], parents[t], rows);
      alone[t].add(tokens[t], parents[t]);
    }
    const bool fails = below(3) == 0;
    if (fails) eagle.layer().log->fails_in = 1 + below(8);  // it may also succeed, after fewer calls
    Eigen::MatrixXd got;
    try {
      got = eagle.forward(feeds);
    } catch (const std::runtime_error&) {
      ++failures;
      REQUIRE(fails);
      got = eagle.forward(feeds);
    }
    REQUIRE(got == expected);
    eagle.layer().log->fails_in = 0;
  }
  CHECK(failures > 100 / every(4));
}

TEST_CASE("a layer for many texts is called for all of them together") {
  ManyKnowing target{knowing()};
  EagleTogether eagle(target, FoldingTogether{Folding{}});
  const std::vector<Tokens> texts{{2, 0, 1, 1}, {1, 2}, Tokens(300, 2)};
  std::vector<BatchFeed> prompts, feeds, next;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto sequence = static_cast<Index>(i);
    const std::span<const Token> text = texts[i];
    prompts.push_back({{.tokens = text.first(text.size() - 1), .rows = 1}, sequence});
    feeds.push_back({{.tokens = text, .rows = 1}, sequence});
    next.push_back({{.tokens = text.first(1), .from = std::ssize(text), .rows = 1}, sequence});
  }
  const auto rows_with = [&](Token more) {
    Eigen::MatrixXd rows(0, vocab);
    for (Tokens text : texts) {
      const Index exact = std::ssize(text);
      if (more >= 0) text.push_back(text.front());
      rows.conservativeResize(rows.rows() + 1, vocab);
      rows.bottomRows(1) = row_after(text, exact);
    }
    return rows;
  };
  target.forward(prompts);
  CHECK(eagle.forward(feeds) == rows_with(-1));
  CHECK(*eagle.layer().calls == Numbers{256, 4 + 2 + 300 - 256});  // a call is bounded
  CHECK(eagle.forward(next) == rows_with(0));
  CHECK(eagle.layer().calls->back() == 3);

  // Trees of two levels, the second of which one text lacks.
  const Tokens tree{0, 1, 2};
  const Numbers flat{-1, -1, -1}, deep{-1, 0, 0};
  const auto branches = [&](const Numbers& parents, Index sequence) {
    return BatchFeed{{.tokens = tree,
                      .from = std::ssize(texts[static_cast<std::size_t>(sequence)]) + 1,
                      .rows = 3,
                      .parents = parents},
                     sequence};
  };
  eagle.forward(std::vector{branches(deep, 1), branches(flat, 0)});
  CHECK(*eagle.layer().calls == Numbers{256, 50, 3, 4, 2});
  eagle.keep(1, Numbers{0, 2});
  eagle.release(0);
  CHECK(eagle.forward(std::vector{BatchFeed{{.tokens = tree, .rows = 1}, 0}}).rows() == 1);
  CHECK(eagle.forward(std::vector{BatchFeed{{}, 9}}).rows() == 0);
  eagle.keep(9, Numbers{});  // there is no tree to keep a path of
}

TEST_CASE("a layer for many texts drafts for one") {
  Knowing target = knowing();
  FoldingTogether used{Folding{}};
  Eigen::MatrixXf states = Eigen::MatrixXf::Ones(2, 2), next(2, 2);
  const Tokens before{2, 1}, text{2, 0, 1};
  used.forward(states, std::vector{BatchFeed{{.tokens = before}, 0}}, next);
  EagleModel eagle(target, used);
  static_assert(Model<decltype(eagle)> && takes_trees<decltype(eagle)>);
  CHECK(eagle.forward(Tokens{1}, Numbers{-1}, 1).row(0) == row_after(Tokens{1}, 1));  // the layer was emptied
  eagle.truncate(0);
  target.forward(std::span(text).first(2), 1);
  CHECK(eagle.forward(text, 1).row(0) == row_after(text, 3));
  eagle.truncate(0);
  target.truncate(0);
  CHECK(check_model(eagle).complaint.empty());
}

TEST_CASE("a long prompt goes into the layer in pieces of 256 tokens") {
  Knowing target = knowing();
  Eagle eagle(target, Folding{});
  Tokens text(600);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<Token>(i * i % 7 % 3);
  target.forward(std::span(text).first(599), 1);
  const Eigen::MatrixXd rows = eagle.forward(text, 300);
  CHECK(eagle.layer().log->columns == Numbers{256, 256, 88});
  for (Index i = 0; i < 300; ++i)
    REQUIRE(rows.row(i) == row_after(std::span(text).first(static_cast<std::size_t>(301 + i)), 600));
}

TEST_CASE("where the layer's own context is full, the text goes on without drafts") {
  struct Short : Folding {
    Index context_size() const { return 12; }
    const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                   std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                                   Index rows) {
      held += std::ssize(tokens);
      REQUIRE(held <= 12);
      return Folding::forward(states, tokens, next, rows);
    }
    void truncate(Index length) {
      held = std::min(held, length);
      Folding::truncate(length);
    }
    Index held = 0;
  };
  Knowing target = knowing();
  EagleModel eagle(target, Short{});
  CHECK(eagle.context_size() == 12);
  SpecDec decoder{target, ModelDrafter{eagle}};
  SplitMix64 rng{3};
  const Result result = decoder.generate(Tokens{0, 2}, {.max_new_tokens = 25, .gamma = 3}, rng);
  CHECK(result.tokens.size() == 25);
  CHECK(result.stats.drafted > 5);
}

TEMPLATE_TEST_CASE("a twin has a copy of what the layer knows of its text, and each goes on for itself", "",
                   Folding, FoldingTogether) {
  ManyKnowing target{knowing()};
  EagleModel<ManyKnowing, TestType> eagle(target, TestType{Folding{}});
  const Tokens text{2, 0, 1}, tree{1, 2}, one{1}, other{2};
  const Numbers parents{-1, 0};
  const auto feed = [](Index sequence, const Tokens& tokens, Index from) {
    return BatchFeed{{.tokens = tokens, .from = from, .rows = 1}, sequence};
  };
  target.forward(std::vector{feed(3, text, 0)});
  target.keep(3, 2);
  eagle.forward(std::vector{feed(3, text, 0)});
  eagle.forward(std::vector<BatchFeed>{{{.tokens = tree, .from = 3, .rows = 1, .parents = parents}, 3}});
  target.texts.emplace(4, target.texts.at(3));
  eagle.fork(3, 4);
  CHECK(message_of([&] { eagle.fork(3, 4); }) == "specdec: to = 4: this sequence has a context already");
  eagle.keep(3, Numbers{0});
  eagle.layer().log->columns.clear();
  const Eigen::MatrixXd rows = eagle.forward(std::vector{feed(3, other, 4), feed(4, other, 3)});
  CHECK(rows.row(0) == row_after(Tokens{2, 0, 1, 1, 2}, 3));
  CHECK(rows.row(1) == row_after(Tokens{2, 0, 1, 2}, 3));
  CHECK(eagle.layer().log->columns == Numbers{1, 1});
  eagle.keep(4, 3);
  eagle.release(3);
  CHECK(Eigen::MatrixXd(eagle.forward(std::vector{feed(4, one, 3)})) == row_after(Tokens{2, 0, 1, 1}, 3));
}

TEST_CASE("of a part of a prompt a layer makes no row") {
  ManyKnowing target{knowing()};
  ManyEagle eagle(target, Folding{});
  const Tokens text{2, 0, 1, 1}, other{1};
  const auto part = [&](std::size_t from, std::size_t count, Index rows) {
    return BatchFeed{
        {.tokens = std::span(text).subspan(from, count), .from = static_cast<Index>(from), .rows = rows}, 3};
  };
  CHECK(eagle.forward(std::vector{part(0, 2, 0)}).rows() == 0);
  const BatchFeed beside{{.tokens = other, .rows = 1}, 1};
  const Eigen::MatrixXd rows = eagle.forward(std::vector{part(2, 1, 0), beside});
  REQUIRE(rows.rows() == 1);
  CHECK(rows.row(0) == row_after(other, 1));
  target.forward(std::vector{part(0, 3, 1)});
  CHECK(eagle.forward(std::vector{part(3, 1, 1)}).row(0) == row_after(text, 4));
  CHECK(message_of([&] { eagle.forward(std::vector{part(3, 1, 1)}); }) ==
        "specdec: feeds[0].from = 3, but the context of sequence 3 holds 4 tokens");
  eagle.keep(9, 0);  // unknown numbers are nothing
  eagle.keep(9, Numbers{0});
  eagle.release(9);
}

TEST_CASE(
    "after a long prompt that the target has not taken in, nothing is drafted, and the layer is not called") {
  const Tokens prompt(17, 1);
  std::mt19937_64 rng{1};
  Knowing target = knowing();
  Eagle eagle(target, Folding{});
  ModelDrafter drafter{eagle};
  CHECK(drafter.draft(prompt, {3}, rng).tokens.empty());
  CHECK(eagle.layer().log->columns.empty());
  target.forward(std::span(prompt).first(16), 1);
  CHECK(drafter.draft(prompt, {3}, rng).tokens.size() == 3);
  CHECK(eagle.layer().log->columns == Numbers{17, 1, 1});
  ManyKnowing many{knowing()};
  ManyEagle of_many(many, Folding{});
  CHECK((of_many.can_draft(4, 16) && !of_many.can_draft(4, 17)));
}

TEST_CASE("where states of the context are not known, nothing is drafted, and the layer is not called") {
  const Tokens prompt{0, 1, 2, 1};
  std::mt19937_64 rng{1};
  Prefixed target{knowing()};
  target.forward(std::span(prompt).first(3), 1);
  EagleModel eagle(target, Folding{});
  ModelDrafter drafter{eagle};
  target.first = 2;
  CHECK(drafter.draft(prompt, {3}, rng).tokens.empty());
  CHECK(eagle.layer().log->columns.empty());
  target.first = 0;
  CHECK(drafter.draft(prompt, {3}, rng).tokens.size() == 3);
  ManyPrefixed many{{knowing()}, {{0, 0}, {1, 2}}};
  EagleModel of_many(many, Folding{});
  CHECK((of_many.can_draft(0, 4) && !of_many.can_draft(1, 4)));
}

TEST_CASE("it holds to the promises of a model, and its drafter is not steady") {
  Knowing target = knowing();
  Eagle eagle(target, Folding{});
  CHECK(check_model(eagle).complaint.empty());
  Lines lines(target, LineLayer<false>{Folding{}});
  CHECK(check_model(lines).complaint.empty());
  ManyKnowing many{knowing()};
  ManyEagle of_many(many, Folding{});
  CHECK(check_model(of_many).complaint.empty());
  ManyKnowing same{knowing()};
  ManyKnowing third{knowing()};
  EagleTogether together(third, FoldingTogether{Folding{}});
  CHECK(check_model(together).complaint.empty());
  ManyLines lines_of_many(same, LineLayer<true>{Folding{}});
  CHECK(check_model(lines_of_many).complaint.empty());
  CHECK(!is_steady<ModelDrafter<PathByPath<Eagle&>>>);
}

TEMPLATE_TEST_CASE("in a batch a text that a layer drafts for is what it is alone", "", Folding,
                   FoldingTogether) {
  const auto check = [](auto strategy, auto rule) {
    const Options options{.max_new_tokens = 20, .gamma = 3};
    ManyKnowing target{knowing()};
    EagleModel<ManyKnowing, TestType> eagle(target, TestType{Folding{}});
    Batch batch{target, ModelDrafter{eagle, strategy}, rule};
    // After the last one, nothing is drafted in the first step.
    const std::vector<Tokens> prompts{{0, 1}, {1, 1}, Tokens(17, 2)};
    for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], options, SplitMix64{i});
    for (const Finished& done : batch.run()) {
      REQUIRE(!done.error);
      Knowing alone = knowing();
      Eagle alone_eagle(alone, Folding{});
      SpecDec decoder{alone, ModelDrafter{alone_eagle, strategy}, rule};
      const auto i = static_cast<std::size_t>(done.sequence);
      SplitMix64 rng{i};
      const Result result = decoder.generate(prompts[i], options, rng);
      CHECK(done.result.tokens == result.tokens);
      CHECK(done.result.stats.accepted == result.stats.accepted);
      CHECK(result.stats.accepted > 0);
    }
    // Samples of a prompt. In the first step the target reads it, and in the second one the layer, once.
    eagle.layer().log->columns.clear();
    const Index text = batch.add(prompts[2], options, SplitMix64{3});
    batch.fork(text, SplitMix64{4});
    batch.fork(text, SplitMix64{5});
    batch.step();
    CHECK(eagle.layer().log->columns.empty());
    batch.step();
    Index fed = 0;
    for (const Index count : eagle.layer().log->columns) fed += count;
    CHECK(fed >= 17);
    CHECK(fed < 2 * 17);
    for (const Finished& done : batch.run()) CHECK(done.result.tokens.size() == 20);
  };
  check(Line{}, BlockVerifier{});
  check(Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}, TraversalVerifier{});
}

TEST_CASE("a layer as a model: what is refused, and that nothing has changed then") {
  Knowing target = knowing();
  Eagle eagle(target, Folding{});
  const auto says = [](auto&& call) { return message_of<std::invalid_argument>(call); };
  const Tokens text{2, 0, 1};
  eagle.forward(text, 1);
  CHECK(says([&] { eagle.forward(Tokens{1}, 2); }) ==
        "specdec: rows = 2 is outside 1..1, the number of tokens");
  CHECK(says([&] {
          eagle.forward(Tokens{1, 3}, 1);
        }) == "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
  CHECK(says([&] {
          eagle.forward(Tokens{1, 1}, Numbers{-1}, 1);
        }) == "specdec: parents has 1 numbers, expected one for each of 2 tokens");
  CHECK(says([&] {
          eagle.forward(Tokens{1, 1}, Numbers{-1, 1}, 1);
        }) == "specdec: parents[1] = 1 is outside -1..0: a token follows the context or a token before it");
  eagle.forward(Tokens{1}, Numbers{-1}, 1);
  CHECK(message_of<InvalidCall>([&] { eagle.forward(Tokens{1}, 1); }) ==
        "specdec: feeds[0] has no parents while the tree of sequence 0 is open: keep() closes it");
  CHECK(says([&] { eagle.keep(Numbers{1}); }) == "specdec: path[0] = 1 is outside 0..0");
  eagle.truncate(3);
  CHECK(eagle.forward(Tokens{1}, 1).row(0) == row_after(Tokens{2, 0, 1, 1}, 1));

  Eagle fresh(target, Folding{});
  fresh.forward(Tokens{1}, 1);
  CHECK(says([&] { fresh.keep(Numbers{0}); }) == "specdec: path[0] = 0 is outside 0..-1");

  Folding layer;
  layer.wrong_columns = 1;
  Eagle wide(target, layer);
  CHECK(says([&] { wide.forward(Tokens{1}, 1); }) ==
        "specdec: the layer returned 1 rows over 4 tokens, expected 1 row over its vocabulary of 3");

  ManyKnowing many{knowing()};
  FoldingTogether together{Folding{}};
  together.wrong_rows = 1;
  EagleTogether long_rows(many, together);
  const BatchFeed feed{{.tokens = text, .rows = 1}, 4};
  CHECK(says([&] { long_rows.forward(std::vector{feed}); }) ==
        "specdec: the layer returned 1 rows over 3 tokens, expected 0 rows over its vocabulary of 3");
}

TEST_CASE("a layer that drafts some of the tokens takes all of them in") {
  Knowing target = knowing();
  EagleModel some(target, support::Reduced<Folding>({}));
  CHECK(some.vocab_size() == 4);
  const Tokens text{2, 0, 1};
  target.forward(std::span(text).first(1), 1);
  const Eigen::MatrixXd rows = some.forward(text, 2);
  CHECK(rows.row(0) == support::reduced(row_after(std::span(text).first(2), 2)));
  CHECK(rows.row(1) == support::reduced(row_after(text, 2)));
  CHECK(message_of<std::invalid_argument>([&] { EagleModel(target, support::Reduced<Folding>({}, 2)); }) ==
        "specdec: token_map() has 3 draft tokens, expected vocab_size() = 2");
}

TEST_CASE("drafts of a layer are lossless", "[law]") {
  const auto draft_model = [](Knowing& target) { return Eagle(target, Folding{}); };
  double accepted = 0;
  CHECK(support::law_difference(draft_model, Line{}, BlockVerifier{}, accepted) < 1e-12);
  CHECK(support::law_difference(draft_model, Tree{TreeShape::of_widths({2, 1}), Independent{}},
                                TraversalVerifier{}, accepted) < 1e-12);
  CHECK(accepted > 4.0 / every(3));
}

}  // namespace test_more_heads_eagle_model
