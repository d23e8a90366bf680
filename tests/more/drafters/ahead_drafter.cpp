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

#include "support/any_tree_drafter.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rows_asked.hpp"
#include "support/tree_models.hpp"
#include "support/trees.hpp"

namespace test_more_drafters_ahead_drafter {

using namespace specdec;
using namespace support;

namespace {

using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;
using Rows = RowMajor<double>;

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

// The law of a text, by all outcomes of all draws: those of the drafts in advance, too.
struct Counts {
  double hits = 0, misses = 0;
};
template <class V, class Inner>
void check_law(const V& rule, const Table& target, const Inner& inner, const Options& options, Index outcomes,
               Counts& counts) {
  const Tokens prompt{0};
  testing::Law law;
  testing::enumerate([&](testing::Enumerator& chance) {
    const auto numbers = [&chance](std::uint64_t, Index, Index) -> testing::Enumerator& { return chance; };
    AheadDrafter ahead{Inner(inner), outcomes, numbers};
    SpecDec decoder{ExternalTarget{target.vocab_size()}, ahead, rule};
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      const Feed feed = sequence.propose(chance);
      // The last token has no draft.
      if (options.max_new_tokens - std::ssize(sequence.tokens()) > 2) sequence.draft_ahead();
      sequence.accept(rows_asked(target, sequence.context(), feed), chance);
    }
    law[copy(sequence.tokens())] += chance.probability();
    counts.hits += chance.probability() * static_cast<double>(ahead.hits());
    counts.misses += chance.probability() * static_cast<double>(ahead.drafts() - ahead.hits());
  });
  CHECK(testing::largest_difference(law, testing::target_law(target, prompt, options)).size < 1e-12);
}
void check_both(const Counts& counts) {
  CHECK(counts.hits > 0.1);
  CHECK(counts.misses > 0.5);
}

}  // namespace

TEST_CASE("drafts in advance leave the law of the text as it is, by hits and by misses", "[law]") {
  const auto check = [](const auto& rule, Index gamma, Index outcomes, Index tokens, int first_seed) {
    Counts counts;
    for (int seed = first_seed; seed < first_seed + bound(3, 10); ++seed) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(seed));
      const Table target = Table::random(2, 2, rng);
      // Rows of one token have one outcome: the rest are outcomes enough.
      const ModelDrafter inner{gamma > 1 ? thin_model(2, 2, 0.5, rng) : Table::random(2, 1, rng)};
      check_law(rule, target, inner, {.max_new_tokens = tokens, .gamma = gamma}, outcomes, counts);
    }
    check_both(counts);
  };
  check(BlockVerifier{}, 1, 1, 4, 1);
  check(TokenVerifier{}, 1, 2, 4, 1);
  check(GreedyBlockVerifier{}, 1, 2, 4, 1);
  const Index outcomes = exhaustive() ? 2 : 1;
  check(BlockVerifier{}, 2, outcomes, 5, 8);
  check(TokenVerifier{}, 2, outcomes, 5, 8);
  check(GreedyBlockVerifier{}, 2, outcomes, 5, 8);
  check(SampleMatchVerifier{}, 2, outcomes, 5, 8);
}

namespace {

// Drafts that own their tokens.
struct OwnDrafts {
  testing::FormDrafter<> drafter;
  ProposedTree draft(std::span<const Token> context, const DraftLimits& limits, auto& source) {
    ProposedTree tree;
    tree.assign(drafter.draft(context, limits, source), 2);
    return tree;
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("drafts of trees in advance leave the law of the text as it is, too", "[law]") {
  using enum testing::Sibling;
  const TreeForm drawn({-1, -1, 0}, without_replacement),
      spare({-1, -1, 0}, {independent, chosen, independent}), equal({-1, -1}, independent);
  const std::vector<AnyTreeRule> rules{
      {TraversalVerifier{}}, {RecursiveRejectionVerifier{}}, {TrunkAndSpares<SampleMatchVerifier>{}}};
  for (std::size_t r = 0; r < rules.size(); r += static_cast<std::size_t>(every(3)))
    for (const Index outcomes : {1, 2}) {
      Counts counts;
      for (const TreeForm& form : {drawn, spare, equal})
        for (int seed = 1; seed <= bound(1, 6); ++seed) {
          std::mt19937_64 rng(static_cast<std::uint64_t>(seed));
          const Table target = Table::random(2, 2, rng);
          const OwnDrafts inner{FormDrafter<>(thin_model(2, 2, 0.5, rng), form)};
          check_law(rules[r], target, inner, {.max_new_tokens = 4, .gamma = 3}, outcomes, counts);
        }
      check_both(counts);
    }
}

namespace {

const Options options{.max_new_tokens = 40, .gamma = 3, .stop_tokens = {3}};

// A draft model's lines, or its trees, and a rule for these.
struct Lines {
  static auto of(auto model) { return ModelDrafter{std::move(model)}; }
  static constexpr BlockVerifier rule{};
};
struct Trees {
  static auto of(auto model) {
    return ModelDrafter{std::move(model), Tree{TreeShape{-1, -1, 0, 0, 1, 2}, Independent{}}};
  }
  static constexpr TraversalVerifier rule{};
};
void of_lines_and_trees(const auto& check) {
  check(Lines{});
  check(Trees{});
}

// The draft model looks far back, so that a wrong token in its context shows.
Models far_models_of(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  return {Table::random(4, 2, rng), Table::random(4, 4, rng)};
}

// A text, and what it was made of.
struct Written {
  Tokens tokens;
  Index hits = 0;
  std::vector<KeptTree> drafts;
};
template <class Kind>
Written written(Kind, const Models& models, std::uint64_t seed, bool ahead, Index outcomes = 3) {
  Written out;
  std::mt19937_64 rng(seed);
  AheadDrafter drafter{Kind::of(Table(models.small)), outcomes};
  SpecDec decoder{ExternalTarget{4}, drafter, Kind::rule};
  auto sequence = decoder.start(prompt_of(1), options);
  while (!sequence.done()) {
    const Feed feed = sequence.propose(rng);
    // The rows are those of the model after the text and the path, whether the draft was there or not.
    out.drafts.push_back(kept(sequence.draft(), 4));
    const KeptTree& draft = out.drafts.back();
    for (std::size_t k = 0; k < draft.tokens.size(); ++k) {
      const auto row = models.small.distribution(
          text_before(sequence.context(), draft.tokens, draft.parents, draft.parents[k]));
      for (Token x = 0; x < 4; ++x) CHECK(draft.rows[k][std::size_t(x)] == row.probability(x));
    }
    if (ahead) sequence.draft_ahead();
    CHECK(kept(sequence.draft(), 4) == out.drafts.back());
    sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
  }
  out.tokens = copy(sequence.tokens());
  out.hits = drafter.hits();
  return out;
}

}  // namespace

TEST_CASE(
    "drafts that are thrown away move nothing: up to the first hit the text is what it is without them") {
  of_lines_and_trees([](auto kind) {
    Index hits = 0, without = 0;
    for (int seed = 1; seed <= bound(200); ++seed) {
      const auto number = static_cast<std::uint64_t>(seed);
      const Models models = far_models_of(number);
      const Written with = written(kind, models, number, true, 1),
                    plain = written(kind, models, number, false);
      CHECK(plain.hits == 0);
      hits += with.hits;
      if (with.hits == 0) {
        ++without;
        CHECK(with.tokens == plain.tokens);
        CHECK(with.drafts == plain.drafts);
      }
    }
    CHECK(hits > bound(200) / 7);
    CHECK(without > bound(200) / 20);
  });
}

TEST_CASE("with its own numbers, too, the text has the target's law") {
  // Sampled: a number that is used twice would show.
  of_lines_and_trees([](auto kind) {
    const Models models = models_of(1, 2);
    std::mt19937_64 rng(1);
    const Options few{.max_new_tokens = 5, .gamma = 2};
    AheadDrafter drafter{kind.of(Table(models.small)), 4};
    SpecDec decoder{ExternalTarget{2}, drafter, kind.rule};
    const auto next = [&] {
      auto sequence = decoder.start(Tokens{0}, few);
      while (!sequence.done()) {
        const Feed feed = sequence.propose(rng);
        sequence.draft_ahead();
        sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
      }
      return copy(sequence.tokens());
    };
    const int texts = bound(8'000, 200'000) / every(2);
    const auto report =
        testing::check_sampled(next, testing::target_law(models.target, Tokens{0}, few), texts);
    CHECK(report.accepted);
    CHECK(drafter.hits() > texts / 20);
  });
}

TEST_CASE("the drafts of a hit were drawn from their rows, as every draft") {
  of_lines_and_trees([](auto kind) {
    const Models models = models_of(7);
    std::mt19937_64 rng(3);
    testing::DraftAudit audit;
    AheadDrafter drafter{kind.of(Table(models.small)), 4};
    SpecDec decoder{ExternalTarget{4}, drafter, kind.rule};
    auto sequence = decoder.start(prompt_of(1), {.max_new_tokens = 4000 / every(2), .gamma = 3});
    for (Index before = 0; !sequence.done(); before = drafter.hits()) {
      const Feed feed = sequence.propose(rng);
      if (drafter.hits() > before) audit.add(sequence.draft().rows, sequence.draft().tokens);
      sequence.draft_ahead();
      sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
    }
    CHECK(audit.report().fault == testing::DraftFault::none);
  });
}

namespace {

// A batch whose calls are out one after another, for some texts at a time.
template <class Kind>
std::map<Index, Tokens> written_together(Kind, const Models& models, Index count, std::uint64_t seed,
                                         bool disturbed, Index& hits) {
  AheadDrafter drafter{Kind::of(ModelPerSequence{models.small}), 3};
  Batch batch{ExternalTarget{4}, drafter, Kind::rule};
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
  of_lines_and_trees([](auto kind) {
    Index hits = 0;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const Models models = models_of(seed);
      const auto texts = written_together(kind, models, 5, seed, false, hits);
      for (Index i = 0; i < 5; ++i) {
        std::mt19937_64 rng{std::uint64_t(i)};
        AheadDrafter drafter{kind.of(Table(models.small)), 3};
        SpecDec decoder{ExternalTarget{4}, drafter, kind.rule};
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
  });
}

TEST_CASE("texts whose proposals are taken back and that pause are written to their end") {
  of_lines_and_trees([](auto kind) {
    Index hits = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto texts = written_together(kind, models_of(seed), 5, seed, true, hits);
      for (const auto& [number, text] : texts) CHECK((text.size() == 40 || text.back() == 3));
    }
    CHECK(hits > 20);
  });
}

TEST_CASE("a proposal that is taken back after a hit is made again, draft and numbers") {
  of_lines_and_trees([](auto kind) {
    const Models models = models_of(2);
    std::mt19937_64 rng(5);
    AheadDrafter drafter{kind.of(Table(models.small)), 5};
    SpecDec decoder{ExternalTarget{4}, drafter, kind.rule};
    auto sequence = decoder.start(prompt_of(1), {.max_new_tokens = 60, .gamma = 3});
    int again = 0;
    while (!sequence.done()) {
      const Index before = drafter.hits();
      Feed feed = sequence.propose(rng);
      const KeptTree draft = kept(sequence.draft(), 4);
      if (drafter.hits() > before) {
        ++again;
        feed = sequence.propose(rng);
        CHECK(kept(sequence.draft(), 4) == draft);
      }
      sequence.draft_ahead();
      sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
    }
    CHECK(again > 3);
  });
}

TEST_CASE("a draft that was used up is not used again where the text goes back") {
  of_lines_and_trees([](auto kind) {
    const Models models = models_of(2);
    std::mt19937_64 rng(5);
    AheadDrafter drafter{kind.of(Table(models.small)), 5};
    SpecDec decoder{ExternalTarget{4}, drafter, kind.rule};
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
  });
}

namespace {

// A draft model for many texts that counts the contexts that it reads from their first token on.
struct ReadingModel {
  ModelPerSequence<Table> model;
  Index* begun;
  Index vocab_size() const { return model.vocab_size(); }
  auto forward(std::span<const BatchFeed> feeds) {
    for (const BatchFeed& feed : feeds) *begun += feed.from == 0 ? 1 : 0;
    return model.forward(feeds);
  }
  void keep(Index sequence, Index length) { model.keep(sequence, length); }
  void keep(Index sequence, std::span<const Index> path) { model.keep(sequence, path); }
  void release(Index sequence) { model.release(sequence); }
  void fork(Index from, Index to) { model.fork(from, to); }
};

}  // namespace

TEST_CASE("a fork begins with what the draft model has read of its text's last draft, in advance or not") {
  of_lines_and_trees([](auto kind) {
    const Models models = models_of(3);
    Index begun = 0, hits = 0;
    AheadDrafter drafter{kind.of(ReadingModel{ModelPerSequence<Table>(models.small), &begun}), 4};
    Batch batch{ExternalTarget{4}, drafter, kind.rule};
    const Index first = batch.add(prompt_of(1), {.max_new_tokens = 60, .gamma = 3}, std::mt19937_64(1));
    for (std::uint64_t seed = 2; seed < 12; ++seed) {
      const BatchFeed feed = batch.propose_for(std::span(&first, 1))[0];
      batch.draft_ahead();
      batch.accept_for(std::span(&first, 1),
                       rows_asked(models.target, batch.sequence(first).context(), feed));
      const Index twin = batch.fork(first, std::mt19937_64(seed));
      begun = 0;
      hits -= drafter.hits();
      const BatchFeed fed = batch.propose_for(std::span(&twin, 1))[0];
      CHECK(begun == 0);
      CHECK(batch.sequence(twin).context().size() == batch.sequence(first).context().size());
      batch.accept_for(std::span(&twin, 1), rows_asked(models.target, batch.sequence(twin).context(), fed));
      batch.cancel(twin);
      hits += drafter.hits();
    }
    CHECK(hits == 0);  // a twin has other numbers
    CHECK(drafter.hits() > 1);
  });
}

namespace {

// Keeps how many tokens it has cached, and counts drafts after a context of which it has cached more.
struct Caching {
  static constexpr bool drafts_trees = false;
  Index* wrong;
  Index cached = 0;
  Tokens tokens = {};

  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) & {
    *wrong += cached > std::ssize(context) ? 1 : 0;
    tokens.assign(static_cast<std::size_t>(gamma), 0);
    cached = std::ssize(context) + std::max<Index>(gamma - 1, 0);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index length) { cached = std::min(cached, length); }
};

}  // namespace

TEST_CASE("a fork begins with what is cached of the text, not of what was rejected") {
  Index wrong = 0;
  const Eigen::RowVectorXd row = (Eigen::RowVectorXd(3) << 0.8, 0.1, 0.1).finished();
  AheadDrafter drafter{Caching{&wrong}, 6};
  Batch batch{ExternalTarget{3}, drafter, BlockVerifier{}};
  const Index first = batch.add(Tokens{0}, {.max_new_tokens = 200, .gamma = 6}, std::mt19937_64(1));
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const BatchFeed feed = batch.propose_for(std::span(&first, 1))[0];
    batch.draft_ahead();
    batch.accept_for(std::span(&first, 1), Eigen::MatrixXd(row.replicate(feed.rows, 1)));
    const Index twin = batch.fork(first, std::mt19937_64(seed));
    (void)batch.propose_for(std::span(&twin, 1));
    batch.cancel(twin);
  }
  CHECK(drafter.hits() > 1);
  CHECK(wrong == 0);
}

TEST_CASE("trees in advance are as deep as others, also where the target cannot go far back") {
  const Eigen::RowVectorXd row = (Eigen::RowVectorXd(4) << 0.97, 0.01, 0.01, 0.01).finished();
  for (const Index rollback : {Index{2}, unlimited}) {
    Index calls[2] = {};
    for (const bool ahead : {false, true}) {
      std::mt19937_64 rng{1};
      AheadDrafter drafter{ModelDrafter{Table::context_free(row), Tree{TreeShape{-1, 0}, Independent{}}}, 4};
      ExternalTarget target{4};
      if (rollback != unlimited) target.rollback = rollback;
      SpecDec decoder{target, drafter, TraversalVerifier{}};
      auto sequence = decoder.start(Tokens{0}, {.max_new_tokens = 300, .gamma = 2});
      while (!sequence.done()) {
        const Feed feed = sequence.propose(rng);
        if (ahead) sequence.draft_ahead();
        sequence.accept(Eigen::MatrixXd(row.replicate(feed.rows, 1)), rng);
      }
      calls[ahead] = sequence.stats().target_calls;
      if (ahead) CHECK((drafter.hits() > 0) == (rollback == unlimited));
    }
    CHECK(calls[1] <= calls[0] + 2);
  }
}

TEST_CASE("with outcomes enough each draft is there, except after leaves beside the first path") {
  std::mt19937_64 make(5);
  const Table target = Table::random(4, 2, make),
              small = thin_model(4, 1, 0, make);  // no token has probability 0
  const auto check = [&](auto inner, Index outcomes, const auto& rule, const auto& expected) {
    std::mt19937_64 rng(1);
    AheadDrafter drafter{std::move(inner), outcomes};
    SpecDec decoder{ExternalTarget{4}, drafter, rule};
    auto sequence = decoder.start(prompt_of(1), {.max_new_tokens = 200, .gamma = 3});
    bool there = false;
    while (!sequence.done()) {
      const Index before = drafter.hits();
      const Feed feed = sequence.propose(rng);
      CHECK((drafter.hits() > before) == there);
      const Tokens draft = copy(sequence.draft().tokens);
      sequence.draft_ahead();
      const Tokens emitted = copy(sequence.accept(rows_asked(target, sequence.context(), feed), rng));
      there = expected(draft, emitted, 200 - std::ssize(sequence.tokens()));
    }
    CHECK(drafter.drafts() - drafter.hits() > 1);
  };
  // Y may be one of 3 tokens after the first three nodes, and of 4 after the last. A draft of 3 does not fit before the end.
  check(ModelDrafter{Table(small)}, 13, BlockVerifier{},
        [](const Tokens&, const Tokens&, Index left) { return left > 3; });
  // After the context Y is none of the two siblings.
  check(ModelDrafter{Table(small), Tree{TreeShape{-1, -1, 0}, WithoutReplacement{}}}, 9, TraversalVerifier{},
        [](const Tokens& draft, const Tokens& emitted, Index) {
          return draft.size() < 2 || emitted[0] != draft[1];
        });
}

TEST_CASE("a draft in advance that is larger than asked for is not there") {
  of_lines_and_trees([](auto kind) {
    Index hits = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      const Models models = models_of(seed);
      std::mt19937_64 rng(seed);
      AheadDrafter drafter{kind.of(Table(models.small)), 4};
      SpecDec decoder{ExternalTarget{4}, drafter, kind.rule};
      Options changing{.max_new_tokens = 7, .gamma = 4};
      auto sequence = decoder.start(prompt_of(1), changing);
      while (!sequence.done()) {
        const Feed feed = sequence.propose(rng);
        CHECK(std::ssize(sequence.draft().tokens) <= changing.gamma);
        sequence.draft_ahead();
        changing.gamma = 1 + static_cast<Index>(uniform01(rng) * 4);
        changing.max_new_tokens = 5 + static_cast<Index>(uniform01(rng) * 4);
        sequence.accept(rows_asked(models.target, sequence.context(), feed), rng);
        changing.max_new_tokens = std::max(changing.max_new_tokens, std::ssize(sequence.tokens()) + 1);
        if (!sequence.done()) sequence.change(changing);
      }
      hits += drafter.hits();
    }
    CHECK(hits > 10);
  });
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
