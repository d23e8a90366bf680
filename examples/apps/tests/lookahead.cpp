// The lookahead drafter, which learns from the target's rows. The oracles: its definition, from a record of every guess, and
// the target's law.
// SPDX-License-Identifier: MIT
#include "drafters/lookahead.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/drafter_laws.hpp"
#include "support/message_of.hpp"
#include "support/propose.hpp"

namespace test_examples_lookahead {

using namespace specdec;
using drafters::LookaheadDrafter;
using support::message_of;

static_assert(OneTextDrafter<LookaheadDrafter>);
static_assert(noexcept(std::declval<LookaheadDrafter&>().truncate(0)));

namespace {

using Tokens = std::vector<Token>;

// Tells a drafter what the target made of a line.
template <class Rows>
void tell(LookaheadDrafter& drafter, const Rows& rows, const Tokens& drafted, const NodeVerdict& verdict) {
  drafter.observe(Judged<Rows>{.rows = rows, .tokens = drafted, .parents = {}, .verdict = verdict});
}

Tokens propose(LookaheadDrafter& drafter, std::span<const Token> context, Index gamma) {
  const Tokens tokens = support::propose(drafter, context, gamma);
  CHECK(std::ssize(tokens) == (context.empty() ? 0 : gamma));
  return tokens;
}

// Rows over 50 tokens; row i has argmax best[i].
Eigen::MatrixXd rows_of(const Tokens& best) {
  Eigen::MatrixXd rows = Eigen::MatrixXd::Constant(std::ssize(best), 50, 0.01);
  for (Index i = 0; i < rows.rows(); ++i) rows(i, best[static_cast<std::size_t>(i)]) = 0.51;
  return rows;
}

// N-grams of 20 tokens are longer than any trail here, so the pool stays empty.
constexpr LookaheadDrafter::Options jacobi{.ngram = 20, .text = false};

}  // namespace

TEST_CASE("a pool keeps the latest n-grams of each first token, each once") {
  drafters::NgramPool pool(3, 2);
  const auto rest = [&](Token first, std::optional<Token> guess = std::nullopt) {
    const auto found = pool.rest(first, guess);
    return Tokens(found.begin(), found.end());
  };
  CHECK(rest(1).empty());
  pool.add(Tokens{1, 2, 3});
  pool.add(Tokens{1, 4, 5});
  pool.add(Tokens{2, 6, 7});
  CHECK(rest(1) == Tokens{4, 5});
  CHECK(rest(2) == Tokens{6, 7});
  CHECK(rest(1, 2) == Tokens{2, 3});  // the older one agrees with the guess
  CHECK(rest(1, 9) == Tokens{4, 5});
  pool.add(Tokens{1, 2, 3});  // added again, it becomes the latest
  CHECK(rest(1) == Tokens{2, 3});
  CHECK(rest(1, 4) == Tokens{4, 5});
  pool.add(Tokens{1, 2, 8});  // drops 1 4 5
  CHECK(rest(1, 4) == Tokens{2, 8});
  CHECK(rest(1, 2) == Tokens{2, 8});
  pool.add(Tokens{1, 4, 5});
  CHECK(rest(1, 2) == Tokens{2, 8});
}

TEST_CASE("first guesses: the last gamma tokens over again") {
  LookaheadDrafter drafter(jacobi);
  CHECK(propose(drafter, Tokens{5, 6, 7}, 2) == Tokens{6, 7});
  CHECK(propose(drafter, Tokens{5, 6, 7}, 5) == Tokens{5, 6, 7, 5, 6});
  CHECK(propose(drafter, Tokens{5, 6, 7}, 0).empty());
  CHECK(propose(drafter, Tokens{}, 3).empty());
}

TEST_CASE("the target's answers after the stop are the next guesses, each in its place") {
  LookaheadDrafter drafter(jacobi);
  CHECK(propose(drafter, Tokens{5, 6, 7}, 4) == Tokens{5, 6, 7, 5});
  // One token is accepted, then comes 9: the later rows are guesses for the places after the 9.
  tell(drafter, rows_of({40, 41, 20, 21, 22}), Tokens{5, 6, 7, 5}, {1, 9});
  drafter.truncate(4);
  CHECK(propose(drafter, Tokens{5, 6, 7, 5, 9}, 4) == Tokens{20, 21, 22, 9});
  tell(drafter, rows_of({40, 31, 32, 33, 34}), Tokens{20, 21, 22, 9}, {0, 30});
  drafter.truncate(5);
  CHECK(propose(drafter, Tokens{5, 6, 7, 5, 9, 30}, 4) == Tokens{31, 32, 33, 34});
  CHECK(propose(drafter, Tokens{5, 6, 7, 5, 9, 30}, 2) == Tokens{31, 32});  // guesses stay
  tell(drafter, rows_of({31, 32, 10}), Tokens{31, 32}, {2, 10});  // full acceptance: no guess is left
  CHECK(propose(drafter, Tokens{5, 6, 7, 5, 9, 30, 31, 32, 10}, 2) == Tokens{32, 10});
}

TEST_CASE("a guess is passed by where the text grows without a draft") {
  LookaheadDrafter drafter(jacobi);
  const auto guess = [&] {
    drafter.truncate(0);
    propose(drafter, Tokens{1, 2, 3, 4}, 4);
    tell(drafter, rows_of({10, 11, 12, 13, 14}), Tokens{1, 2, 3, 4}, {0, 10});
    drafter.truncate(4);
  };
  guess();
  CHECK(propose(drafter, Tokens{1, 2, 3, 4, 10, 45, 46}, 2) == Tokens{13, 14});
  guess();
  CHECK(propose(drafter, Tokens{1, 2, 3, 4, 10, 45, 46, 47, 48}, 2) == Tokens{47, 48});
  guess();
  propose(drafter, Tokens{1, 2, 3, 4, 10, 45}, 0);
  tell(drafter, rows_of({46}), Tokens{}, {0, 46});  // a call without a draft drops no guess
  CHECK(propose(drafter, Tokens{1, 2, 3, 4, 10, 45, 46}, 2) == Tokens{13, 14});
}

TEST_CASE("guesses end with their text") {
  LookaheadDrafter drafter(jacobi);
  const auto guess = [&] {
    drafter.truncate(0);
    propose(drafter, Tokens{1, 2, 3}, 2);
    tell(drafter, rows_of({10, 11, 12}), Tokens{2, 3}, {0, 10});
  };
  guess();
  drafter.truncate(0);  // another text
  CHECK(propose(drafter, Tokens{4, 5, 6, 7}, 2) == Tokens{6, 7});
  guess();
  drafter.truncate(2);  // rolled back
  CHECK(propose(drafter, Tokens{1, 2, 8, 9}, 2) == Tokens{8, 9});
  guess();
  CHECK(propose(drafter, Tokens{1, 2, 3}, 2) == Tokens{2, 3});  // the step failed, and the text is unchanged
  guess();
  drafter.clear();
  CHECK(propose(drafter, Tokens{1, 2, 3, 10}, 2) == Tokens{3, 10});
}

TEST_CASE("guesses that followed one another go into the pool") {
  LookaheadDrafter drafter{{.ngram = 3, .text = false}};
  CHECK(propose(drafter, Tokens{5, 6, 7}, 3) == Tokens{5, 6, 7});
  tell(drafter, rows_of({1, 10, 11, 12}), Tokens{5, 6, 7}, {0, 1});
  CHECK(propose(drafter, Tokens{5, 6, 7, 1}, 3) == Tokens{10, 11, 12});
  tell(drafter, rows_of({5, 20, 21, 22}), Tokens{10, 11, 12}, {0, 5});
  // The target answered 10 to 5, then 20 to 10, and so on.
  CHECK(propose(drafter, Tokens{5, 6, 7, 1, 5}, 3) == Tokens{10, 20, 22});
  drafter.truncate(0);
  CHECK(propose(drafter, Tokens{6}, 3) == Tokens{11, 21, 21});
  drafter.truncate(0);
  CHECK(propose(drafter, Tokens{7}, 1) == Tokens{12});
  drafter.truncate(0);
  CHECK(propose(drafter, Tokens{10}, 1) == Tokens{10});  // two tokens are not an n-gram yet
}

TEST_CASE("a proposal goes on along the pool, then with the guesses, then with first guesses") {
  LookaheadDrafter drafter{{.ngram = 3, .text = true}};
  // The text has the n-grams 1 2 3 and 2 3 1; none begins with the drafted 3.
  CHECK(propose(drafter, Tokens{1, 2, 3, 1}, 5) == Tokens{2, 3, 3, 1, 2});
  tell(drafter, rows_of({9, 30, 31, 32, 33, 34}), Tokens{2, 3, 3, 1, 2}, {0, 9});
  CHECK(propose(drafter, Tokens{1, 2, 3, 1, 9}, 6) == Tokens{30, 31, 32, 33, 34, 30});
  tell(drafter, rows_of({1, 2, 41, 42, 43, 44, 45}), Tokens{30, 31, 32, 33, 34, 30}, {0, 1});
  // 1 9 1 is the latest n-gram, but the guess is 2. So 1 2 30 is drafted, and no n-gram begins with 30.
  CHECK(propose(drafter, Tokens{1, 2, 3, 1, 9, 1}, 6) == Tokens{2, 30, 42, 43, 44, 45});
  tell(drafter, rows_of({7, 8, 41, 42, 43, 44, 45}), Tokens{2, 30, 42, 43, 44, 45}, {0, 7});
  CHECK(propose(drafter, Tokens{1, 2, 3, 1, 9, 1, 7, 1}, 4) == Tokens{7, 1, 7, 1});  // no n-gram 1 41
}

TEST_CASE("the rest of a text's n-gram is cut to gamma") {
  LookaheadDrafter drafter{{.ngram = 5}};
  CHECK(propose(drafter, Tokens{1, 2, 3, 4, 5, 1}, 2) == Tokens{2, 3});
}

TEST_CASE("another drafter's draft is observed as well") {
  LookaheadDrafter drafter{{.ngram = 2, .text = false}};
  propose(drafter, Tokens{1, 2}, 2);
  tell(drafter, rows_of({7, 21, 22, 23}), Tokens{30, 31, 32}, {0, 7});
  CHECK(propose(drafter, Tokens{1, 2, 7}, 3) == Tokens{21, 22, 23});
  drafter.truncate(0);
  CHECK(propose(drafter, Tokens{31}, 1) == Tokens{22});
}

TEST_CASE("rows of any kind are observed; one that is no distribution ends the guesses") {
  LookaheadDrafter drafter(jacobi);
  const auto next = [&](const auto& rows) {
    drafter.truncate(0);
    propose(drafter, Tokens{1, 2, 3}, 3);
    tell(drafter, rows, Tokens{1, 2, 3}, {0, 9});
    return propose(drafter, Tokens{1, 2, 3, 9}, 3);
  };
  Eigen::MatrixXd rows = rows_of({9, 10, 11, 12});
  CHECK(next(rows) == Tokens{10, 11, 12});
  CHECK(next(Logits{rows}) == Tokens{10, 11, 12});
  CHECK(next(rows.cast<float>().eval()) == Tokens{10, 11, 12});
  rows.row(2).setZero();
  CHECK(next(rows) == Tokens{10, 3, 9});
  rows.row(2).setConstant(std::numeric_limits<double>::quiet_NaN());
  CHECK(next(rows) == Tokens{10, 3, 9});
  rows.row(2).setConstant(-std::numeric_limits<double>::infinity());
  CHECK(next(Logits{rows}) == Tokens{10, 3, 9});
}

namespace {

// The drafter's definition: a record of every guess with the token that it answers, and of every n-gram of the pool.
class Record {
 public:
  explicit Record(const LookaheadDrafter::Options& options) : options_(options) {}

  Tokens propose(const Tokens& context, Index gamma) {
    read(context);
    if (!guesses_.empty() && guesses_.front().first > context.size()) guesses_.clear();  // rolled back
    chain_.clear();
    Tokens out;
    int last = text_.empty() ? -1 : text_.back();
    const auto add = [&](Token x, int parent) {
      last = enter(x, parent);
      chain_.push_back(last);
      out.push_back(x);
    };
    while (last >= 0 && std::ssize(out) < gamma) {
      const std::size_t place = text_.size() + out.size();
      const Tokens ngram = candidate(nodes_[static_cast<std::size_t>(last)].token, place);
      if (ngram.empty()) break;
      for (std::size_t k = 1; k < ngram.size() && std::ssize(out) < gamma; ++k) add(ngram[k], last);
    }
    for (std::size_t place; std::ssize(out) < gamma && !context.empty();) {
      place = text_.size() + out.size();
      if (const int guess = guess_for(place); guess >= 0) {
        chain_.push_back(guess);
        out.push_back(nodes_[static_cast<std::size_t>(guess)].token);
        continue;
      }
      Tokens all = context;
      all.insert(all.end(), out.begin(), out.end());
      add(all[all.size() - std::min(context.size(), static_cast<std::size_t>(gamma))], -1);
    }
    return out;
  }

  void observe(const Tokens& answers, const Tokens& drafted, Index accepted) {
    if (drafted.empty()) return;
    guesses_.clear();
    for (std::size_t i = static_cast<std::size_t>(accepted) + 1; i <= drafted.size(); ++i) {
      const bool own =
          i <= chain_.size() && nodes_[static_cast<std::size_t>(chain_[i - 1])].token == drafted[i - 1];
      const int guess = enter(answers[i], own ? chain_[i - 1] : enter(drafted[i - 1], -1));
      guesses_.push_back({text_.size() + i, guess});
      if (const Tokens ngram = trail(guess); std::ssize(ngram) == options_.ngram) pooled_.push_back(ngram);
    }
  }

  void truncate(std::size_t length) {
    if (length >= text_.size()) return;
    text_.resize(length);
    guesses_.clear();
  }

 private:
  struct Node {
    Token token;
    int parent;
  };

  int enter(Token token, int parent) {
    nodes_.push_back({token, parent});
    return static_cast<int>(nodes_.size()) - 1;
  }

  void read(const Tokens& context) {
    for (std::size_t i = text_.size(); i < context.size(); ++i) {
      text_.push_back(enter(context[i], text_.empty() ? -1 : text_.back()));
      if (const Tokens ngram = trail(text_.back()); options_.text && std::ssize(ngram) == options_.ngram)
        pooled_.push_back(ngram);
    }
  }

  Tokens trail(int node) const {
    Tokens out;
    for (; node >= 0 && std::ssize(out) < options_.ngram;
         node = nodes_[static_cast<std::size_t>(node)].parent)
      out.insert(out.begin(), nodes_[static_cast<std::size_t>(node)].token);
    return out;
  }

  int guess_for(std::size_t place) const {
    for (const auto& [at, node] : guesses_)
      if (at == place) return node;
    return -1;
  }

  Tokens candidate(Token first, std::size_t place) const {
    std::vector<Tokens> kept;  // the latest first
    for (auto ngram = pooled_.rbegin(); ngram != pooled_.rend(); ++ngram)
      if (ngram->front() == first && std::ranges::find(kept, *ngram) == kept.end() &&
          std::ssize(kept) < options_.pool)
        kept.push_back(*ngram);
    if (kept.empty()) return {};
    const int guess = guess_for(place);
    for (const Tokens& ngram : kept)
      if (guess >= 0 && ngram[1] == nodes_[static_cast<std::size_t>(guess)].token) return ngram;
    return kept.front();
  }

  LookaheadDrafter::Options options_;
  std::vector<Node> nodes_;
  std::vector<int> text_, chain_;
  std::vector<std::pair<std::size_t, int>> guesses_;
  std::vector<Tokens> pooled_;
};

}  // namespace

TEST_CASE("lookahead is what its definition gives, as texts grow, end and are cut") {
  std::mt19937_64 rng{9};
  for (const LookaheadDrafter::Options options : {LookaheadDrafter::Options{},
                                                  {.ngram = 2, .pool = 1},
                                                  {.ngram = 3, .pool = 2, .text = false},
                                                  {.ngram = 4, .pool = 3, .text = false}}) {
    for (const Token vocab : {2, 4, 12}) {
      LookaheadDrafter drafter(options);
      Record record(options);
      const auto token = [&] { return static_cast<Token>(uniform01(rng) * vocab); };
      Tokens context;
      for (int step = 0; step < 250; ++step) {
        const double dice = uniform01(rng);
        if (dice < 0.1) {
          context.resize(static_cast<std::size_t>((dice < 0.05 ? 0 : uniform01(rng)) *
                                                  static_cast<double>(context.size())));
          drafter.truncate(std::ssize(context));
          record.truncate(context.size());
        }
        if (dice < 0.15) context.push_back(token());
        const Index gamma = static_cast<Index>(uniform01(rng) * 7);
        Tokens drafted = propose(drafter, context, gamma);
        REQUIRE(drafted == record.propose(context, gamma));
        if (dice > 0.9) continue;  // a loop that never calls observe()
        if (dice > 0.85 && !drafted.empty()) drafted.back() = token();
        Tokens answers;
        while (answers.size() <= drafted.size()) answers.push_back(token());
        const Index accepted =
            static_cast<Index>(uniform01(rng) * uniform01(rng) * static_cast<double>(answers.size()));
        tell(drafter, rows_of(answers), drafted, {accepted, answers[static_cast<std::size_t>(accepted)]});
        record.observe(answers, drafted, accepted);
        context.insert(context.end(), drafted.begin(), drafted.begin() + accepted);
        context.push_back(token());
        drafter.truncate(std::ssize(context) - 1);
      }
    }
  }
}

TEST_CASE(
    "lookahead in the loop: the target's answers to wrong drafts are drafted, and the text is its own") {
  testing::TableModel<>::Rows rows = testing::TableModel<>::Rows::Zero(9, 8);
  for (Index x = 0; x < 9; ++x) rows(x, x % 8) = 1;  // counts up, again and again
  testing::TableModel<> target(rows, 1);
  SpecDec decoder{target, LookaheadDrafter{{.ngram = 2, .text = false}}, ArgmaxVerifier{}};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(Tokens{0}, {.max_new_tokens = 48, .gamma = 3}, rng);
  for (std::size_t i = 0; i < r.tokens.size(); ++i) CHECK(r.tokens[i] == static_cast<Token>((i + 1) % 8));
  // In the first round every answer is new; then the pool has all n-grams.
  CHECK(r.stats.target_calls == 8 + 40 / 4);
}

TEST_CASE("lookahead's options and what it observes are checked") {
  CHECK_NOTHROW(LookaheadDrafter{{.ngram = 2, .pool = 1}});
  CHECK_NOTHROW(LookaheadDrafter{{.pool = std::numeric_limits<Index>::max()}});
  CHECK(message_of([] { LookaheadDrafter{{.ngram = 1}}; }) == "lookahead needs ngram >= 2, not ngram = 1");
  CHECK(message_of([] { LookaheadDrafter{{.pool = 0}}; }) == "lookahead needs pool >= 1, not pool = 0");
  LookaheadDrafter drafter;
  CHECK(message_of([&] {
          tell(drafter, rows_of({1, 2}), Tokens{1, 2}, {0, 1});
        }) == "lookahead observes 2 target rows, expected 3, one more than drafted tokens");
  CHECK(message_of([&] {
          tell(drafter, rows_of({1, 2}), Tokens{1}, {2, 1});
        }) == "lookahead observes 2 of 1 drafted tokens accepted");
  CHECK_FALSE(message_of([&] { tell(drafter, rows_of({1, 2}), Tokens{1}, {-1, 1}); }).empty());
}

namespace {

LookaheadDrafter with_text() { return LookaheadDrafter{{.ngram = 2}}; }
LookaheadDrafter without_text() { return LookaheadDrafter{{.ngram = 3, .pool = 1, .text = false}}; }

}  // namespace

TEST_CASE("lossless with lookahead", "[law]") {
  support::check_lossless_with(with_text);
  support::check_lossless_with(without_text);
}

TEST_CASE("the next text is independent of the one that lookahead has learnt from", "[law]") {
  support::check_two_generations_with(with_text);
  support::check_two_generations_with(without_text);
}

}  // namespace test_examples_lookahead
