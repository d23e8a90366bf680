// Drafts that are made while the target verifies: the law of the text, and when a draft is there.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters/ahead_drafter.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rows_asked.hpp"

namespace test_more_drafters_ahead_drafter {

using namespace specdec;
using namespace support;

namespace {

using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;
using Rows = RowMajor<double>;

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// The law of a text, by all outcomes of all draws: those of the drafts in advance, too. A coin decides whether there are any.
struct Counts {
  double hits = 0, misses = 0;
};
template <class V>
Counts check_law(const V& rule, const Models& models, Index gamma, Index outcomes) {
  const Tokens prompt{0};
  const Options options{.max_new_tokens = 4, .gamma = gamma};
  testing::Law law;
  Counts counts;
  testing::enumerate([&](testing::Enumerator& chance) {
    const auto numbers = [&chance](std::uint64_t, Index, Index) -> testing::Enumerator& { return chance; };
    AheadDrafter ahead{ModelDrafter{Table(models.small)}, outcomes, numbers};
    SpecDec decoder{ExternalTarget{models.target.vocab_size()}, ahead, rule};
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      const Feed feed = sequence.propose(chance);
      sequence.draft_ahead();
      sequence.accept(rows_asked(models.target, sequence.context(), feed), chance);
    }
    law[copy(sequence.tokens())] += chance.probability();
    counts.hits += chance.probability() * static_cast<double>(ahead.hits());
    counts.misses += chance.probability() * static_cast<double>(ahead.drafts() - ahead.hits());
  });
  CHECK(testing::largest_difference(law, testing::target_law(models.target, prompt, options)).size < 1e-12);
  return counts;
}

}  // namespace

TEST_CASE("drafts in advance leave the law of the text as it is, by hits and by misses", "[law]") {
  const auto check = [](const auto& rule, Index gamma, Index outcomes) {
    Counts all;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      const Counts counts = check_law(rule, models_of(seed, 2), gamma, outcomes);
      all.hits += counts.hits;
      all.misses += counts.misses;
    }
    CHECK(all.hits > 0.5);
    CHECK(all.misses > 0.5);
  };
  check(BlockVerifier{}, 1, 1);
  check(TokenVerifier{}, 1, 2);
  check(BlockVerifier{}, 2, 2);
  check(TokenVerifier{}, 2, 2);
  check(GreedyBlockVerifier{}, 1, 2);
  check(SampleMatchVerifier{}, 2, 2);
}

namespace {

const Options options{.max_new_tokens = 40, .gamma = 3, .stop_tokens = {3}};

// The draft model looks far back, so that a wrong token in its context shows.
Models far_models_of(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  return {Table::random(4, 2, rng), Table::random(4, 4, rng)};
}

// A text, and what it was made of.
struct Written {
  Tokens tokens;
  Index hits = 0;
  std::vector<Tokens> drafts;
};
Written written(const Models& models, std::uint64_t seed, bool ahead, Index outcomes = 3) {
  Written out;
  std::mt19937_64 rng(seed);
  AheadDrafter drafter{ModelDrafter{Table(models.small)}, outcomes};
  SpecDec decoder{ExternalTarget{4}, drafter};
  auto sequence = decoder.start(prompt_of(1), options);
  while (!sequence.done()) {
    const Feed feed = sequence.propose(rng);
    // The rows are those of the model after the text and the draft, whether the draft was there or not.
    const auto& draft = sequence.draft();
    Tokens before = copy(sequence.context());
    for (Index i = 0; i < std::ssize(draft.tokens); ++i) {
      const auto row = models.small.distribution(before);
      for (Token x = 0; x < 4; ++x) CHECK(draft.rows.row(i).probability(x) == row.probability(x));
      before.push_back(draft.tokens[std::size_t(i)]);
    }
    out.drafts.push_back(copy(draft.tokens));
    if (ahead) sequence.draft_ahead();
    CHECK(copy(sequence.draft().tokens) == out.drafts.back());
    sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
  }
  out.tokens = copy(sequence.tokens());
  out.hits = drafter.hits();
  return out;
}

}  // namespace

TEST_CASE(
    "drafts that are thrown away move nothing: up to the first hit the text is what it is without them") {
  Index hits = 0, without = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Models models = far_models_of(seed);
    const Written with = written(models, seed, true, 1), plain = written(models, seed, false);
    CHECK(plain.hits == 0);
    hits += with.hits;
    if (with.hits == 0) {
      ++without;
      CHECK(with.tokens == plain.tokens);
      CHECK(with.drafts == plain.drafts);
    }
  }
  CHECK(hits > 30);
  CHECK(without > 10);
}

TEST_CASE("with its own numbers, too, the text has the target's law") {
  // Sampled: a number that is used twice would show.
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Models models = models_of(seed, 2);
    std::mt19937_64 rng(seed);
    const Options few{.max_new_tokens = 5, .gamma = 2};
    AheadDrafter drafter{ModelDrafter{Table(models.small)}, 4};
    SpecDec decoder{ExternalTarget{2}, drafter};
    const auto next = [&] {
      auto sequence = decoder.start(Tokens{0}, few);
      while (!sequence.done()) {
        const Feed feed = sequence.propose(rng);
        sequence.draft_ahead();
        sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
      }
      return copy(sequence.tokens());
    };
    const auto report =
        testing::check_sampled(next, testing::target_law(models.target, Tokens{0}, few), 100'000);
    CHECK(report.accepted);
    CHECK(drafter.hits() > 10'000);
  }
}

TEST_CASE("the drafts of a hit were drawn from their rows, as every draft") {
  const Models models = models_of(7);
  std::mt19937_64 rng(3);
  testing::DraftAudit audit;
  AheadDrafter drafter{ModelDrafter{Table(models.small)}, 4};
  SpecDec decoder{ExternalTarget{4}, drafter};
  auto sequence = decoder.start(prompt_of(1), {.max_new_tokens = 4000, .gamma = 3});
  for (Index before = 0; !sequence.done(); before = drafter.hits()) {
    const Feed feed = sequence.propose(rng);
    if (drafter.hits() > before) audit.add(sequence.draft().rows, sequence.draft().tokens);
    sequence.draft_ahead();
    sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
  }
  CHECK(audit.report().fault == testing::DraftFault::none);
}

namespace {

// A batch whose calls are out one after another, for some texts at a time.
std::map<Index, Tokens> written_together(const Models& models, Index count, std::uint64_t seed,
                                         bool disturbed, Index& hits) {
  AheadDrafter drafter{ModelDrafter{ModelPerSequence{models.small}}, 3};
  Batch batch{ExternalTarget{4}, drafter};
  for (Index i = 0; i < count; ++i) batch.add(prompt_of(i), options, std::mt19937_64(std::uint64_t(i)));
  std::mt19937_64 dice(seed);
  const auto one_in = [&](double n) { return uniform01(dice) * n < 1; };
  std::map<Index, Tokens> texts;
  std::map<Index, typename decltype(batch)::Paused> paused;
  for (int rounds = 0; !batch.empty() || !paused.empty(); ++rounds) {
    REQUIRE(rounds < 5000);
    std::vector<Index> some;
    for (Index i = 0; i < count; ++i)
      if (!texts.contains(i) && !paused.contains(i) && one_in(2)) some.push_back(i);
    std::vector<Index> asked;
    std::vector<Rows> rows;
    if (one_in(3)) {  // proposals that are taken back come again
      batch.propose_for(some);
      batch.draft_ahead();
    }
    for (const BatchFeed& feed : batch.propose_for(some)) {
      asked.push_back(feed.sequence);
      rows.push_back(rows_asked(models.target, batch.sequence(feed.sequence).context(), feed));
    }
    if (!disturbed || one_in(2)) batch.draft_ahead();
    if (disturbed && one_in(4)) {  // its proposal is taken back
      const Index i = static_cast<Index>(uniform01(dice) * double(count));
      if (!texts.contains(i) && !paused.contains(i)) paused.emplace(i, batch.pause(i));
    }
    if (disturbed && one_in(4)) continue;  // the proposals are made again
    for (std::size_t k = 0; k < asked.size(); ++k) {
      if (paused.contains(asked[k])) continue;
      for (const Finished& done : batch.accept_for(std::span(&asked[k], 1), rows[k])) {
        CHECK_FALSE(done.error);
        texts[done.sequence] = done.result.tokens;
      }
    }
    if (!paused.empty() && one_in(2)) {
      batch.add(std::move(paused.begin()->second));
      paused.erase(paused.begin());
    }
  }
  hits += drafter.hits();
  return texts;
}

}  // namespace

TEST_CASE("in a batch each text gets the drafts that it gets alone") {
  Index hits = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Models models = models_of(seed);
    const auto texts = written_together(models, 5, seed, false, hits);
    for (Index i = 0; i < 5; ++i) {
      std::mt19937_64 rng{std::uint64_t(i)};
      AheadDrafter drafter{ModelDrafter{Table(models.small)}, 3};
      SpecDec decoder{ExternalTarget{4}, drafter};
      auto sequence = decoder.start(prompt_of(i), options);
      while (!sequence.done()) {
        const Feed feed = sequence.propose(rng);
        sequence.draft_ahead();
        sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
      }
      CHECK(texts.at(i) == copy(sequence.tokens()));
    }
  }
  CHECK(hits > 20);
}

TEST_CASE("texts whose proposals are taken back and that pause are written to their end") {
  Index hits = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto texts = written_together(models_of(seed), 5, seed, true, hits);
    for (const auto& [number, text] : texts) CHECK((text.size() == 40 || text.back() == 3));
  }
  CHECK(hits > 20);
}

TEST_CASE("a proposal that is taken back after a hit is made again, draft and numbers") {
  const Models models = models_of(2);
  std::mt19937_64 rng(5);
  AheadDrafter drafter{ModelDrafter{Table(models.small)}, 5};
  SpecDec decoder{ExternalTarget{4}, drafter};
  auto sequence = decoder.start(prompt_of(1), {.max_new_tokens = 60, .gamma = 3});
  int again = 0;
  while (!sequence.done()) {
    const Index before = drafter.hits();
    Feed feed = sequence.propose(rng);
    const Tokens draft = copy(sequence.draft().tokens);
    if (drafter.hits() > before) {
      ++again;
      feed = sequence.propose(rng);
      CHECK(copy(sequence.draft().tokens) == draft);
    }
    sequence.draft_ahead();
    sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
  }
  CHECK(again > 3);
}

TEST_CASE("a draft that was used up is not used again where the text goes back") {
  const Models models = models_of(2);
  std::mt19937_64 rng(5);
  AheadDrafter drafter{ModelDrafter{Table(models.small)}, 5};
  SpecDec decoder{ExternalTarget{4}, drafter};
  const Options how{.max_new_tokens = 60, .gamma = 3};
  auto sequence = decoder.start(prompt_of(1), how);
  const auto step = [&](bool ahead) {
    const Feed feed = sequence.propose(rng);
    if (ahead) sequence.draft_ahead();
    sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
  };
  int again = 0;
  while (!sequence.done()) {
    const Tokens before = copy(sequence.context());
    const Index hits = drafter.hits();
    step(false);
    if (drafter.hits() > hits) {
      ++again;
      const Tokens text = copy(sequence.context());
      sequence.resume(before, how);
      sequence.propose(rng);
      CHECK(drafter.hits() == hits + 1);
      sequence.resume(text, {.max_new_tokens = 60 - (std::ssize(text) - 5), .gamma = 3});
    }
    if (!sequence.done()) step(true);
  }
  CHECK(again > 3);
}

TEST_CASE("a keyed text is that of its key, and drafts in advance share its numbers") {
  Index hits = 0, accepted = 0, drafted = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const Models models = models_of(seed);
    const auto numbers = [seed](std::uint64_t, Index, Index position) {
      Keyed there{seed};
      there.stand_at(position);
      return there;
    };
    AheadDrafter drafter{ModelDrafter{Table(models.target)}, 6, numbers};  // it guesses all, by equal numbers
    SpecDec decoder{ExternalTarget{4}, drafter, KeyedVerifier{}};
    Keyed key{seed}, again{seed};
    auto sequence = decoder.start(prompt_of(1), options);
    while (!sequence.done()) {
      const Feed feed = sequence.propose(key);
      sequence.draft_ahead();
      sequence.accept(rows_asked(models.target, sequence.context(), feed), key);
    }
    CHECK(copy(sequence.tokens()) ==
          autoregressive<KeyedVerifier>(Table(models.target), prompt_of(1), options, again).tokens);
    hits += drafter.hits();
    accepted += sequence.stats().accepted;
    drafted += sequence.stats().drafted;
  }
  CHECK(hits > 5);
  CHECK(accepted == drafted);
}

namespace {

// Fails after a context that ends with token 1.
struct Failing {
  Table table;
  Index vocab_size() const { return table.vocab_size(); }
  const Rows& forward(std::span<const Token> tokens, Index rows) {
    if (tokens.back() == 1) throw std::runtime_error("the draft model fails");
    return table.forward(tokens, rows);
  }
  void truncate(Index length) { table.truncate(length); }
};

}  // namespace

TEST_CASE(
    "an error about a draft in advance is the text's error where the text goes on so, and is told once") {
  const Table sure = Table::context_free(Eigen::RowVector4d(0.25, 0.25, 0.25, 0.25));
  AheadDrafter drafter{ModelDrafter{Failing{sure}}, 4};
  SpecDec decoder{ExternalTarget{4}, drafter};
  std::mt19937_64 rng(2);
  auto sequence = decoder.start(Tokens{0}, {.max_new_tokens = 30, .gamma = 1});
  int errors = 0;
  for (int rounds = 0; !sequence.done() && rounds < 200; ++rounds) {
    const auto failed = message_of<std::runtime_error>([&] {
      const Feed feed = sequence.propose(rng);
      sequence.draft_ahead();
      sequence.accept(rows_asked(sure, sequence.context(), feed), rng);
    });
    if (failed.empty()) continue;
    ++errors;
    CHECK(failed == "the draft model fails");
    if (sequence.context().back() == 1) break;  // no draft is to be had here
  }
  CHECK(errors == 1);
}

namespace {

// Proposes token 0 from a row that is none.
struct Wrong {
  static constexpr bool drafts_trees = false;
  Rows rows = Rows::Constant(1, 4, std::nan(""));
  Tokens tokens{0};
  template <RandomSource Source>
  auto draft(std::span<const Token> context, Index gamma, Source&) {
    if (context.front() != 3) rows << 1, 0, 0, 0;
    return Draft<DenseRows<NumbersOf<const Rows&>>>{std::span<const Token>(tokens).first(gamma > 0 ? 1 : 0),
                                                    DenseRows(std::as_const(rows))};
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("a row that is none costs its own text, not the drafts in advance of others") {
  const Table target = Table::context_free(Eigen::RowVector4d(0.25, 0.25, 0.25, 0.25));
  Batch batch{ExternalTarget{4}, AheadDrafter{Wrong{}, 2}};
  batch.add(Tokens{3}, {.max_new_tokens = 10, .gamma = 1}, std::mt19937_64(1));
  batch.add(Tokens{0}, {.max_new_tokens = 10, .gamma = 1}, std::mt19937_64(1));
  while (!batch.empty()) {
    Rows rows(0, 4);
    for (const BatchFeed& feed : batch.propose()) {
      Rows both(rows.rows() + feed.rows, 4);
      both << rows, rows_asked(target, batch.sequence(feed.sequence).context(), feed);
      rows = both;
    }
    CHECK_NOTHROW(batch.draft_ahead());
    for (const Finished& done : batch.accept(rows)) CHECK((done.error != nullptr) == (done.sequence == 0));
  }
}

TEST_CASE("nothing is drafted in advance for a sequence without a proposal") {
  const Models models = models_of(1);
  SpecDec decoder{ExternalTarget{4}, AheadDrafter{ModelDrafter{Table(models.small)}, 2}};
  const Options few{.gamma = 2, .stop_tokens = {3}};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(Tokens{0, 1}, few);
  {
    auto other = decoder.start(Tokens{0, 1}, few);
    other.propose(rng);
    other.draft_ahead();
  }  // its options are gone
  CHECK_NOTHROW(sequence.draft_ahead());
  CHECK(sequence.propose(rng).rows > 0);
}

TEST_CASE("a number that is too large for drafts in advance ends its own text alone") {
  const Models models = models_of(1);
  Batch batch{ExternalTarget{4}, AheadDrafter{ModelDrafter{ModelPerSequence{Table(models.small)}}, 4}};
  const Options few{.max_new_tokens = 4, .gamma = 2};
  const Tokens start{0, 1};
  for (const Index number : {Index{0}, Index{1} << (8 * sizeof(Index) - 2)})
    batch.add({.prompt = start, .options = few, .source = std::mt19937_64{1}, .number = number});
  CHECK(batch.propose().size() == 1);
  batch.draft_ahead();
  const auto finished = batch.accept(Rows(Rows::Constant(3, 4, 0.25)));
  REQUIRE(finished.size() == 1);
  CHECK(message_of([&] { std::rethrow_exception(finished[0].error); }).find("takes numbers up to") !=
        std::string::npos);
}

TEST_CASE("settings that cannot be are refused") {
  Table table = models_of(1).small;
  CHECK(message_of([&] { AheadDrafter{ModelDrafter{table}, 0}; }) == "specdec: outcomes = 0 is below 1");
  AheadDrafter shared{ModelDrafter{table}, 2};
  CHECK(message_of([&] {
          SpecDec{ExternalTarget{4}, shared};
        }).find("refers to a model") != std::string::npos);
}

}  // namespace test_more_drafters_ahead_drafter
