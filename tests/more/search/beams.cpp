// A beam search driven by hand finds what plain beam search finds, whatever fails between its proposals.
// SPDX-License-Identifier: MIT
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/search/beams.hpp>
#include <specdec/testing/table_model.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/beams.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_beams {

using namespace specdec;
using support::check_equal, support::message_of, support::PlainSearch, support::random_options;
using support::RowMajor;
using testing::TableModel;

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// An engine that reads the feeds of a search. Now and then a call fails, or its rows are spoilt.
struct Engine {
  TableModel<> model;
  double fails = 0;
  Index fed = 0, failures = 0;

  // What reading throws, or telling the rows.
  template <class Tell>
  void call(const Feed& feed, bool opens, const Tell& tell, std::mt19937_64& rng) {
    if (opens) model.truncate(feed.from);
    REQUIRE(std::ssize(model.context()) == feed.from);
    if (fails_now(rng)) return;
    RowMajor<double> rows = model.forward(feed.tokens, feed.parents, feed.rows);
    fed += std::ssize(feed.tokens);
    if (fails_now(rng)) return;
    if (fails_now(rng)) {
      rows.row(static_cast<Index>(rng() % static_cast<std::uint64_t>(rows.rows()))).setConstant(nan);
      CHECK_THROWS_AS(tell(rows), InvalidDistribution);
    } else if (fails_now(rng)) {
      CHECK_THROWS_AS(tell(RowMajor<double>(rows.topRows(rows.rows() - 1))), std::invalid_argument);
    } else {
      tell(rows);
    }
  }
  void keep(std::span<const Index> path) {
    if (!path.empty()) model.keep(path);
  }

 private:
  bool fails_now(std::mt19937_64& rng) { return uniform01(rng) < fails && ++failures > 0; }
};

// Drives the search to its end. With probability `hurry` it looks no further ahead.
void drive(Beams& beams, Engine& target, Engine* draft, double hurry, std::mt19937_64& rng) {
  while (!beams.done()) {
    while (draft != nullptr && uniform01(rng) >= hurry) {
      const Feed feed = beams.propose_draft();
      if (feed.tokens.empty()) break;
      draft->call(
          feed, beams.draft_opens(), [&](const auto& rows) { beams.accept_draft(rows); }, rng);
    }
    bool told = false;
    const Feed feed = beams.propose();
    const auto tell = [&](const auto& rows) { beams.accept(rows), told = true; };
    target.call(feed, beams.opens(), tell, rng);
    if (!told) continue;
    target.keep(beams.kept_path());
    if (draft != nullptr) draft->keep(beams.draft_kept_path());
  }
}

ExternalTarget sizes_of(const Engine& engine) { return {.vocabulary = engine.model.vocab_size()}; }

TEST_CASE("a search that is told rows finds the beams of plain search, whichever calls fail") {
  std::mt19937_64 rng{1};
  Index failures = 0, in_vain = 0;
  for (int k = 0; k < support::bound(400, 2000); ++k) {
    const Index vocab_size = 2 + k % 4;
    Engine target{TableModel<>::random(vocab_size, 2, rng)};
    // Every third draft model is the target itself.
    Engine small{k % 3 == 0 ? target.model : TableModel<>::random(1 + k % 6, 1, rng)};
    target.fails = small.fails = k % 2 == 0 ? 0 : 0.1;
    std::vector<Token> prompt(1 + rng() % 4);
    for (Token& x : prompt) x = static_cast<Token>(rng() % 2);
    BeamOptions options = random_options(rng, vocab_size);
    options.max_new_tokens *= 2;
    const bool drafts = k % 5 > 0;
    CAPTURE(k, options.width, options.draft_width, options.gamma, options.max_new_tokens);
    Beams beams{prompt, options, sizes_of(target), drafts ? std::optional(sizes_of(small)) : std::nullopt};
    drive(beams, target, drafts ? &small : nullptr, k % 7 < 3 ? 0 : 0.3, rng);
    check_equal(beams.result(), PlainSearch{target.model, prompt, options}.beams());
    CHECK(beams.result().target_calls <= beams.result().levels);
    failures += target.failures;
    in_vain += small.failures;
  }
  CHECK(failures > 30);
  CHECK(in_vain > 20);
}

TEST_CASE("a long search is exact though calls fail, and a copy of it goes on by itself") {
  std::mt19937_64 rng{2};
  const std::vector<Token> prompt{0, 1, 1};
  const BeamOptions options{.max_new_tokens = 300, .width = 3, .draft_width = 6, .gamma = 3};
  Engine target{TableModel<>::random(4, 3, rng), 0.02}, small{TableModel<>::random(4, 2, rng), 0.02};
  Beams beams{prompt, options, sizes_of(target), sizes_of(small)};
  const Beams begun = beams;
  drive(beams, target, &small, 0, rng);
  const std::vector<Beam> expected = PlainSearch{target.model, prompt, options}.beams();
  check_equal(beams.result(), expected);
  Beams again = begun;
  Engine other{target.model}, other_small{small.model};
  other.model.truncate(0), other_small.model.truncate(0);
  drive(again, other, &other_small, 0, rng);
  check_equal(again.result(), expected);
}

// The draft model's last call may have failed: the search goes on without it, and comes back to it.
TEST_CASE("a proposal of the draft model that is out when the target's is accepted is taken back") {
  std::mt19937_64 rng{3};
  for (int k = 0; k < 50; ++k) {
    const std::vector<Token> prompt{1, 0};
    const BeamOptions options{.max_new_tokens = 12, .width = 2, .draft_width = 3, .gamma = 2};
    Engine target{TableModel<>::random(3, 2, rng)}, small{TableModel<>::random(3, 1, rng)};
    Beams beams{prompt, options, sizes_of(target), sizes_of(small)};
    for (int step = 0; !beams.done(); ++step) {
      const Feed ahead = beams.propose_draft();
      REQUIRE((ahead.tokens.empty() || !ahead.parents.empty()));
      if (step % 2 == 0 && !ahead.tokens.empty())
        small.call(
            ahead, beams.draft_opens(), [&](const auto& rows) { beams.accept_draft(rows); }, rng);
      const Feed feed = beams.propose();
      target.call(
          feed, beams.opens(), [&](const auto& rows) { beams.accept(rows); }, rng);
      target.keep(beams.kept_path());
      small.keep(beams.draft_kept_path());
    }
    check_equal(beams.result(), PlainSearch{target.model, prompt, options}.beams());
  }
}

TEST_CASE("plain search reads each token once, and none that is cached") {
  std::mt19937_64 rng{4};
  Eigen::MatrixXd table(6, 5);
  for (double& p : table.reshaped()) p = 0.05 + uniform01(rng);
  table = (table.array().colwise() / table.rowwise().sum().array()).eval();
  std::vector<Token> prompt(40);
  for (Token& x : prompt) x = static_cast<Token>(rng() % 5);
  const BeamOptions options{.max_new_tokens = 30, .width = 3};
  for (const Index cached : {0, 1, 17, 39, 40}) {
    Engine target{TableModel<>(table, 1)};
    const Index held = std::min<Index>(cached, 39);  // the last token is fed for its row
    if (held > 0) target.model.forward(std::span(prompt).first(static_cast<std::size_t>(held)), 1);
    Beams beams{prompt, options, sizes_of(target), {}, cached};
    drive(beams, target, nullptr, 0, rng);
    check_equal(beams.result(), PlainSearch{target.model, prompt, options}.beams());
    CHECK(target.fed == 40 - held + 3 * 29);  // the tokens of the last level are not read
  }
}

// Token 0 is likely, and no row comes after it, until the engine is repaired.
TEST_CASE("a text without continuation is an error, after which the search can go on") {
  Eigen::MatrixXd broken(3, 2);
  broken << 0.75, 0.25, 0, 0, 0.75, 0.25;
  Eigen::MatrixXd sound = broken;
  sound.row(1) << 0.5, 0.5;
  const std::vector<Token> prompt{1};
  const BeamOptions options{.max_new_tokens = 4, .width = 2, .draft_width = 2, .gamma = 2};
  std::mt19937_64 rng{5};
  for (const bool drafts : {false, true}) {
    Engine target{TableModel<>(broken, 1)}, small{TableModel<>(sound, 1)};
    Beams beams{prompt, options, sizes_of(target), drafts ? std::optional(sizes_of(small)) : std::nullopt};
    CHECK(message_of([&] { drive(beams, target, drafts ? &small : nullptr, 0, rng); }) ==
          (drafts ? "specdec: target row 1: no token has positive probability"
                  : "specdec: target row 0: no token has positive probability"));
    CHECK(beams.result().levels == (drafts ? 0 : 1));
    Engine repaired{TableModel<>(sound, 1)};  // nothing was cached but the open tree
    drive(beams, repaired, drafts ? &small : nullptr, 0, rng);
    check_equal(beams.result(), PlainSearch{repaired.model, prompt, options}.beams());
  }
}

// The row may have been told in an earlier call than the one that brings the error.
TEST_CASE("after an engine is repaired, a search goes on wherever it had met a row without continuation") {
  std::mt19937_64 rng{6};
  int errors = 0, in_earlier_calls = 0;
  for (int k = 0; k < support::bound(400, 2000); ++k) {
    const TableModel<> sound = TableModel<>::random(3, 2, rng);
    RowMajor<double> table(16, 3);
    for (Index i = 0; i < 16; ++i) {
      const std::vector<Token> context{static_cast<Token>(i / 4 - 1), static_cast<Token>(i % 4 - 1)};
      table.row(i).setZero();
      if (i % 4 > 0 && (i < 4 || rng() % 4 > 0))
        table.row(i) =
            sound.distribution(std::span(context).last(i < 4 ? 1 : 2)).segment(0, 3).matrix().transpose();
    }
    Engine target{TableModel<>(table, 2)}, small{TableModel<>::random(3, 1, rng)};
    const std::vector<Token> prompt{1};
    const BeamOptions options{.max_new_tokens = 8, .width = 3, .draft_width = 2, .gamma = 4};
    Beams beams{prompt, options, sizes_of(target), sizes_of(small)};
    // Each error forgets the row that it is about.
    for (bool repaired = false; !beams.done();) {
      try {
        drive(beams, target, &small, 0, rng);
      } catch (const InvalidDistribution&) {
        errors += !repaired;
        in_earlier_calls += std::exchange(repaired, true);
        const std::vector<Token> context(target.model.context().begin(), target.model.context().end());
        target = {sound};
        if (!context.empty()) target.model.forward(context, 1);
      }
    }
    check_equal(beams.result(), PlainSearch{sound, prompt, options}.beams());
  }
  CHECK(errors > 20);
  CHECK(in_earlier_calls > 5);
}

TEST_CASE("what is asked of a search out of turn is refused") {
  const std::vector<Token> prompt{0, 1};
  const RowMajor<double> rows = RowMajor<double>::Constant(1, 2, 0.5);
  const auto check_logic = [](auto&& call, const std::string& message) {
    CHECK(message_of<InvalidCall>(call) == "specdec: " + message);
  };
  Beams beams{prompt, {.max_new_tokens = 1, .width = 1}, {.vocabulary = 2}};
  check_logic([&] { beams.accept(rows); },
              "there is no proposal for these rows of the target: propose first");
  check_logic([&] { beams.accept_draft(rows); }, "the beam search has no draft model");
  CHECK(beams.propose_draft().tokens.empty());
  CHECK(beams.propose().tokens.size() == 2);
  CHECK(message_of([&] { beams.accept(RowMajor<double>(RowMajor<double>::Constant(1, 3, 0.25))); }) ==
        "specdec: the target returned 1 rows over 3 tokens, expected 1 row over its vocabulary of 2");
  beams.propose();
  beams.accept(rows);
  CHECK(beams.done());
  CHECK(beams.propose_draft().tokens.empty());
  check_logic([&] { beams.propose(); }, "the beam search is done: there is nothing to propose");
  check_logic([&] { beams.accept(rows); },
              "there is no proposal for these rows of the target: propose first");
  CHECK(beams.result().beams[0].tokens == std::vector<Token>{0});
  CHECK(message_of([&] { Beams(prompt, {}, {.vocabulary = 2}, {}, 3); }) ==
        "specdec: cached = 3 is outside 0..2");
  CHECK(message_of([&] { Beams(prompt, {}, {.vocabulary = 2}, {}, -1); }) ==
        "specdec: cached = -1 is outside 0..2");
  CHECK(Beams(prompt, {.max_new_tokens = 0}, {.vocabulary = 2}).done());
  const Beams full(prompt, {}, {.vocabulary = 2, .context = 1});
  CHECK(full.done());
  CHECK(full.result().stop_reason == StopReason::context);
}

}  // namespace test_beams
