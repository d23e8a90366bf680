// A cascade around a model for many texts: each text gets the draft that it would get alone, by one call of the model a step.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bookkeeper.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_more_drafters_cascade_drafter_for_many {

namespace {

using specdec::Batch;
using specdec::BlockVerifier;
using specdec::CascadeDrafter;
using specdec::DraftRequest;
using specdec::Finished;
using specdec::Index;
using specdec::ModelDrafter;
using specdec::Options;
using specdec::ScheduledLength;
using specdec::SpecDec;
using specdec::SuffixDrafter;
using specdec::Token;
using specdec::TraversalVerifier;
using specdec::Tree;
using specdec::TreeShape;
using specdec::WithoutReplacement;
using specdec::testing::Enumerator;
using specdec::testing::Law;
using support::Bookkeeper;
using support::prompt_of;
using Model3 = specdec::testing::TableModel<>;
using Tokens = std::vector<Token>;

struct Three {
  Model3 target, middle, small;
};
Three three_of(std::uint64_t seed, Index vocab_size = 4) {
  std::mt19937_64 rng(seed);
  return {Model3::random(vocab_size, 2, rng), Model3::random(vocab_size, 2, rng),
          Model3::random(vocab_size, 1, rng)};
}

// Cascades of one form, over models of one text or of many, by value or by reference.
struct OfLines {
  template <class M, class S>
  static auto of(M&& middle, S&& small) {
    return CascadeDrafter{std::forward<M>(middle), ModelDrafter{std::forward<S>(small)}, BlockVerifier{}, 2};
  }
};
struct OfTrees {
  template <class M, class S>
  static auto of(M&& middle, S&& small) {
    return CascadeDrafter{
        std::forward<M>(middle),
        ModelDrafter{std::forward<S>(small), Tree{TreeShape::of_widths({2, 1}), WithoutReplacement{}}},
        TraversalVerifier{}, 4};
  }
};
struct OfText {  // each text has its own inner drafter, and a length that learns
  template <class M, class S>
  static auto of(M&& middle, S&&) {
    return CascadeDrafter{std::forward<M>(middle), SuffixDrafter<>{}, BlockVerifier{}, 6,
                          specdec::each(ScheduledLength{1})};
  }
};

template <class Request>
Index longest(const std::vector<Request>& requests, const auto& drafter) {
  Index most = 0;
  for (const Request& request : requests)
    most = std::max(most, std::ssize(drafter.drafted(request.sequence).tokens));
  return most;
}

}  // namespace

TEST_CASE("cascades that draft together write, each with its rows, the model's own texts", "[law]") {
  const auto check = [](auto form) {
    for (const std::uint64_t seed : {1u, 2u}) {
      const Three models = three_of(seed, 2);
      const Tokens prompts[] = {{0, 1}, {1}};
      const Options options{.max_new_tokens = 2};
      Law law;
      double worst = 0;
      specdec::testing::enumerate([&](Enumerator& chance) {
        auto cascade = form.of(Bookkeeper(models.middle), Bookkeeper(models.small));
        std::vector<DraftRequest<Enumerator>> requests;
        for (Index n = 0; n < 2; ++n)
          requests.push_back(
              {.sequence = n, .context = prompts[n], .limits = {.nodes = 2}, .source = &chance});
        cascade.draft(std::span(requests));
        Tokens both;
        for (Index n = 0; n < 2; ++n) {
          Tokens before = prompts[n];
          const auto draft = cascade.drafted(n);
          REQUIRE(draft.tokens.size() == 2);
          for (Index i = 0; i < 2; ++i) {
            const auto expected = models.middle.distribution(before);
            for (Token x = 0; x < 2; ++x)
              worst = std::max(worst, std::abs(draft.rows.row(i).probability(x) - expected.probability(x)));
            before.push_back(draft.tokens[static_cast<std::size_t>(i)]);
            both.push_back(before.back());
          }
        }
        law[both] += chance.probability();
      });
      Law expected;
      for (const auto& [a, p] : specdec::testing::target_law(models.middle, prompts[0], options))
        for (const auto& [b, q] : specdec::testing::target_law(models.middle, prompts[1], options)) {
          Tokens both = a;
          both.insert(both.end(), b.begin(), b.end());
          expected[both] += p * q;
        }
      CHECK(worst == 0);
      CHECK(specdec::testing::largest_difference(law, expected).size < 1e-12);
    }
  };
  check(OfLines{});
  check(OfTrees{});
}

TEST_CASE("in a batch, each text of a cascade for many texts is the text alone") {
  const auto check = [](auto form) {
    const Three models = three_of(3);
    Bookkeeper middle(models.middle), small(models.small);
    Batch batch{Bookkeeper(models.target), form.of(middle, small), BlockVerifier{}};
    support::check_texts_alone(batch, [&] {
      return SpecDec{Model3(models.target), form.of(Model3(models.middle), Model3(models.small)),
                     BlockVerifier{}};
    });
    CHECK(middle.contexts.empty());
    CHECK(small.contexts.empty());
  };
  check(OfLines{});
  check(OfTrees{});
  check(OfText{});
}

TEST_CASE("a cascade for many texts calls its model once a step for all of them, and feeds nothing twice") {
  const auto check = [](auto form) {
    const Three models = three_of(4);
    const Options options{.max_new_tokens = 40, .gamma = 4};
    const Tokens prompt(30, 1);
    Index calls[2], fed[2], small_calls[2];
    for (const bool many : {false, true}) {
      Bookkeeper middle(models.middle), small(models.small);
      Batch batch{Bookkeeper(models.target), form.of(middle, small), BlockVerifier{}};
      for (int text = 0; text < (many ? 5 : 1); ++text) batch.add(prompt, options, std::mt19937_64{7});
      batch.run();
      calls[many] = middle.calls, fed[many] = middle.fed, small_calls[many] = small.calls;
    }
    CHECK(calls[true] == calls[false]);
    CHECK(small_calls[true] == small_calls[false]);
    CHECK(fed[true] == 5 * fed[false]);

    // Alone, the model is fed what a model for one text is fed.
    support::CountingModel middle{models.middle};
    SpecDec decoder{Model3(models.target), form.of(middle, Model3(models.small)), BlockVerifier{}};
    std::mt19937_64 rng(7);
    decoder.generate(prompt, options, rng);
    CHECK(fed[false] == middle.fed);
  };
  check(OfLines{});
  check(OfText{});
}

TEST_CASE("the model of a cascade is fed each token of the text once, and drafts that were judged") {
  const Three models = three_of(5);
  Bookkeeper middle(models.middle), small(models.small);
  auto cascade = OfTrees::of(middle, small);
  std::mt19937_64 rng(1), other(2);
  Tokens context(50, 1);
  for (int round = 0; round < 40; ++round) {
    const Index before = middle.fed, drafted = cascade.stats().drafted;
    std::vector<DraftRequest<std::mt19937_64>> requests{
        {.sequence = 3, .context = context, .limits = {.nodes = 4}, .source = &rng}};
    cascade.draft(std::span(requests));
    const auto draft = cascade.drafted(3);
    // Of the text: at most the three tokens that are new, and the tokens that the inner loop emits.
    const Index fed = middle.fed - before, judged = cascade.stats().drafted - drafted;
    CHECK(fed <= judged + (round == 0 ? 50 : 3) + std::ssize(draft.tokens));
    // Both models have read this text, not what an earlier draft took for it.
    for (const Tokens& read : {middle.contexts.at(3), small.contexts.at(3)})
      CHECK(std::equal(context.begin(), context.end() - 1, read.begin(),
                       read.begin() + std::ssize(context) - 1));
    context.push_back(draft.tokens[0]);
    for (int i = 0; i < 2; ++i) context.push_back(static_cast<Token>(other() % 4));
    cascade.keep(3, std::ssize(context) - 1);
  }
  cascade.keep(3, 0);
  CHECK(middle.contexts.at(3).empty());
  cascade.release(3);
  CHECK(middle.contexts.empty());
  CHECK(small.contexts.empty());
}

TEST_CASE("a text whose inner loop fails leaves the others as they are") {
  const auto check = [](auto form, bool in_middle) {
    const Three models = three_of(6);
    const Options options{.max_new_tokens = 20, .gamma = 4};
    Bookkeeper middle(models.middle), small(models.small);
    (in_middle ? middle : small).spoils = 1;
    Batch batch{Bookkeeper(models.target), form.of(middle, small), BlockVerifier{}};
    for (Index i = 0; i < 3; ++i)
      batch.add(prompt_of(i), options, std::mt19937_64{static_cast<std::uint64_t>(i)});
    for (const Finished& done : batch.run()) {
      CHECK((done.error != nullptr) == (done.sequence == 1));
      if (done.error) {
        const std::string message = support::message_of([&] { std::rethrow_exception(done.error); });
        CHECK(message.starts_with(in_middle ? "specdec: cascade's target row 0: "
                                            : "specdec: cascade's draft row 0: "));
        continue;
      }
      SpecDec alone{Model3(models.target), form.of(Model3(models.middle), Model3(models.small)),
                    BlockVerifier{}};
      std::mt19937_64 rng(static_cast<std::uint64_t>(done.sequence));
      CHECK(done.result.tokens == alone.generate(prompt_of(done.sequence), options, rng).tokens);
    }
    CHECK(middle.contexts.empty());
    CHECK(small.contexts.empty());
  };
  for (const bool in_middle : {true, false}) {
    check(OfLines{}, in_middle);
    check(OfTrees{}, in_middle);
  }
  check(OfText{}, true);
}

TEST_CASE("after a failure at any call of its models, a cascade goes on as if nothing had happened") {
  const auto check = [](auto form) {
    const Three models = three_of(7);
    const Options options{.max_new_tokens = 10, .gamma = 3};
    const auto texts_of = [&](const auto& disturb) {
      Bookkeeper middle(models.middle), small(models.small);
      disturb(middle, small);
      Batch batch{Bookkeeper(models.target), form.of(middle, small), BlockVerifier{}};
      for (Index i = 0; i < 2; ++i)
        batch.add(prompt_of(i), options, std::mt19937_64{static_cast<std::uint64_t>(i)});
      std::map<Index, Tokens> texts;
      for (int tries = 0; !batch.empty(); ++tries) {
        REQUIRE(tries < 100);
        try {
          for (const Finished& done : batch.step()) {
            REQUIRE_FALSE(done.error);
            texts[done.sequence] = done.result.tokens;
          }
        } catch (const Bookkeeper::Failure&) {
        } catch (const std::invalid_argument&) {  // a row is missing
        }
      }
      return std::pair(texts, middle.calls);
    };
    const auto [whole, calls] = texts_of([](Bookkeeper&, Bookkeeper&) {});
    REQUIRE(calls > 5);
    for (Index call = 1; call <= calls; ++call) {
      CHECK(texts_of([=](Bookkeeper& middle, auto&) { middle.fails_at = call; }).first == whole);
      CHECK(texts_of([=](Bookkeeper& middle, auto&) { middle.fails_behind = call; }).first == whole);
      CHECK(texts_of([=](Bookkeeper& middle, auto&) { middle.one_row_short_at = call; }).first == whole);
      CHECK(texts_of([=](auto&, Bookkeeper& small) { small.fails_at = call; }).first == whole);
    }
  };
  check(OfLines{});
  check(OfTrees{});
}

TEST_CASE("drafts of a cascade that are judged in any order are the same") {
  const Three models = three_of(8);
  const Options options{.max_new_tokens = 20, .gamma = 4};
  const auto texts_of = [&](const auto& for_each) {
    Batch batch{Bookkeeper(models.target), OfText::of(Bookkeeper(models.middle), 0), BlockVerifier{}};
    for (Index i = 0; i < 4; ++i)
      batch.add(prompt_of(i), options, std::mt19937_64{static_cast<std::uint64_t>(i)});
    std::map<Index, Tokens> texts;
    while (!batch.empty())
      for (const Finished& done : batch.step(for_each)) texts[done.sequence] = done.result.tokens;
    return texts;
  };
  const auto backwards = [](Index n, const auto& f) {
    while (n > 0) f(--n);
  };
  CHECK(texts_of(backwards) == texts_of(specdec::InOrder{}));
}

TEST_CASE("an executor that throws leaves no error behind in a cascade") {
  const Three models = three_of(15);
  Bookkeeper middle(models.middle), small(models.small);
  auto cascade = OfLines::of(middle, small);
  auto other = OfLines::of(Bookkeeper(models.middle), Bookkeeper(models.small));
  const Tokens context{0, 1};
  const auto draft = [&](auto& drafter, const auto& for_each) {
    std::mt19937_64 rng(1);
    std::vector<DraftRequest<std::mt19937_64>> requests{
        {.sequence = 0, .context = context, .limits = {.nodes = 5}, .source = &rng}};
    drafter.draft(std::span(requests), for_each);
    REQUIRE_FALSE(requests[0].error);
    const auto tokens = drafter.drafted(0).tokens;
    return Tokens(tokens.begin(), tokens.end());
  };
  middle.spoils = 0;
  CHECK_THROWS_AS(draft(cascade,
                        [](Index n, const auto& f) {
                          for (Index i = 0; i < n; ++i) f(i);
                          throw std::runtime_error("an executor");
                        }),
                  std::runtime_error);
  middle.spoils = -1;
  CHECK(draft(cascade, specdec::InOrder{}) == draft(other, specdec::InOrder{}));
}

TEST_CASE("a cascade of cascades for many texts writes what the texts are alone") {
  const Three models = three_of(9);
  const auto of = [](auto large, auto middle, auto small) {
    return CascadeDrafter{std::move(large), OfLines::of(std::move(middle), std::move(small)), BlockVerifier{},
                          2};
  };
  Batch batch{Bookkeeper(models.target),
              of(Bookkeeper(models.middle), Bookkeeper(models.small), Bookkeeper(models.small)),
              BlockVerifier{}};
  support::check_texts_alone(batch, [&] {
    return SpecDec{Model3(models.target),
                   of(Model3(models.middle), Model3(models.small), Model3(models.small)), BlockVerifier{}};
  });
}

TEST_CASE("a cascade for many texts serves a decoder of one, and a fallback") {
  const Three models = three_of(10);
  const Options options{.max_new_tokens = 30, .gamma = 4};
  const Tokens prompt{0, 1, 0, 1, 0};
  const auto check = [&](auto drafter, auto alone) {
    SpecDec decoder{Model3(models.target), std::move(drafter), BlockVerifier{}};
    SpecDec expected{Model3(models.target), std::move(alone), BlockVerifier{}};
    std::mt19937_64 a(5), b(5);
    for (int turn = 0; turn < 2; ++turn)
      CHECK(decoder.generate(prompt, options, a).tokens == expected.generate(prompt, options, b).tokens);
  };
  check(OfTrees::of(Bookkeeper(models.middle), Bookkeeper(models.small)),
        OfTrees::of(Model3(models.middle), Model3(models.small)));
  check(OfText::of(Bookkeeper(models.middle), 0), OfText::of(Model3(models.middle), 0));
  const auto fallback = [](auto cascade) {
    return specdec::FallbackDrafter{specdec::PromptLookupDrafter{}, std::move(cascade)};
  };
  check(fallback(OfLines::of(Bookkeeper(models.middle), Bookkeeper(models.small))),
        fallback(OfLines::of(Model3(models.middle), Model3(models.small))));
}

TEST_CASE("a cascade counts the inner loops of texts that have left, too") {
  const Three models = three_of(11);
  auto cascade = OfLines::of(Bookkeeper(models.middle), Bookkeeper(models.small));
  std::mt19937_64 rng(1);
  const auto draft = [&](Index sequence) {
    const Tokens context{0, 1};
    std::vector<DraftRequest<std::mt19937_64>> requests{
        {.sequence = sequence, .context = context, .limits = {.nodes = 5}, .source = &rng}};
    cascade.draft(std::span(requests));
    return longest(requests, cascade);
  };
  CHECK(cascade.stats().emitted == 0);
  CHECK(draft(0) == 5);
  CHECK(draft(1) == 5);
  cascade.release(0);
  CHECK(cascade.stats().emitted == 10);
  auto state = cascade.take(1);
  CHECK(cascade.stats().emitted == 10);
  cascade.put(2, std::move(state));
  CHECK(draft(2) == 5);
  CHECK(cascade.stats().emitted == 15);
}

TEST_CASE("the draft length of each text of a cascade goes where the text goes, and to its twins") {
  const Three models = three_of(12);
  // The model drafts for itself, so the length grows with each inner step.
  const auto make = [&] {
    return CascadeDrafter{Bookkeeper(models.small), ModelDrafter{Bookkeeper(models.small)}, BlockVerifier{},
                          64, specdec::each(ScheduledLength{1})};
  };
  auto here = make(), there = make();
  std::mt19937_64 rng(1);
  const auto steps = [&](auto& cascade, Index sequence) {
    const Index before = cascade.stats().target_calls;
    const Tokens context{0, 1};
    std::vector<DraftRequest<std::mt19937_64>> requests{
        {.sequence = sequence, .context = context, .limits = {.nodes = 20}, .source = &rng}};
    cascade.draft(std::span(requests));
    return cascade.stats().target_calls - before;
  };
  const Index first = steps(here, 0);
  CHECK(first == 4);
  here.fork(0, 1);
  CHECK(steps(here, 1) == 2);
  CHECK(steps(here, 2) == first);
  there.put(7, here.take(0));
  CHECK(steps(there, 7) == 2);
  CHECK(steps(here, 0) == first);
}

namespace {

// Drafts as many tokens as it has seen steps.
struct Learner {
  Index steps = 0;
  Tokens tokens = {};
  specdec::Draft<specdec::OneHotRows> draft(std::span<const Token>, Index gamma, auto&) {
    tokens.assign(static_cast<std::size_t>(std::min(gamma, steps)), 0);
    return {tokens, specdec::OneHotRows(tokens)};
  }
  void truncate(Index) {}
  void observe(const auto& /*judged*/) { ++steps; }
};

}  // namespace

TEST_CASE("what an inner drafter has learnt of a text goes where the text goes, and to its twins") {
  const Three models = three_of(14);
  const auto make = [&] { return CascadeDrafter{Bookkeeper(models.middle), Learner{}}; };
  auto here = make(), there = make();
  std::mt19937_64 rng(1);
  const auto drafted = [&](auto& cascade, Index sequence) {
    const Index before = cascade.stats().drafted;
    const Tokens context{0, 1};
    std::vector<DraftRequest<std::mt19937_64>> requests{
        {.sequence = sequence, .context = context, .limits = {.nodes = 2}, .source = &rng}};
    cascade.draft(std::span(requests));
    return cascade.stats().drafted - before;
  };
  CHECK(drafted(here, 0) == 0);
  CHECK(drafted(here, 0) == 1);
  here.fork(0, 1);
  CHECK(drafted(here, 1) == 1);
  CHECK(drafted(here, 2) == 0);
  there.put(7, here.take(0));
  CHECK(drafted(there, 7) == 1);
  CHECK(drafted(here, 0) == 0);
  here.release(0);
  CHECK(drafted(here, 0) == 0);
}

TEST_CASE("a cascade says what it cannot hold") {
  const Three models = three_of(13);
  Model3 shared(models.middle);
  Bookkeeper middle(models.middle);
  const std::string expected =
      "specdec: the inner drafter refers to the cascade's model: give each a model of its own";
  CHECK(support::message_of([&] { CascadeDrafter{shared, ModelDrafter{shared}}; }) == expected);
  CHECK(support::message_of([&] { CascadeDrafter{middle, ModelDrafter{middle}}; }) == expected);
  // Each text's copy of the inner drafter would use the one model.
  CHECK_THROWS_AS((Batch{Bookkeeper(models.target), CascadeDrafter{middle, ModelDrafter{shared}}}),
                  std::invalid_argument);
  static_assert(specdec::Drafter<CascadeDrafter<Bookkeeper, ModelDrafter<Bookkeeper>>>);
  static_assert(!specdec::Drafter<CascadeDrafter<Model3, ModelDrafter<Model3>>>);
  static_assert(specdec::OneTextDrafter<CascadeDrafter<Model3, ModelDrafter<Model3>>>);
}

}  // namespace test_more_drafters_cascade_drafter_for_many
