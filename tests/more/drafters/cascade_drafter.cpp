// The cascade: its draft is its model's own text, whatever its inner loop does.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace test_more_drafters_cascade_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;

Tokens copy(std::span<const Token> tokens) { return {tokens.begin(), tokens.end()}; }

Tokens joined(Tokens a, std::span<const Token> b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// The worst difference between a row of a draft and the model's table after the tokens before it.
template <class D>
double worst_row(const D& draft, const TableModel<>& model, const Tokens& context) {
  double worst = 0;
  for (Index i = 0; i < draft.rows.rows(); ++i) {
    const auto expected =
        model.distribution(joined(context, draft.tokens.first(static_cast<std::size_t>(i))));
    for (Token x = 0; x < model.vocab_size(); ++x)
      worst = std::max(worst, std::abs(draft.rows.row(i).probability(x) - expected.probability(x)));
  }
  return worst;
}

// A model that a test can inspect while a cascade uses it. It counts the tokens that it is fed, and its context may be
// bounded.
struct Watched {
  TableModel<>* table;
  Index* fed = nullptr;
  Index most = std::numeric_limits<Index>::max();
  Index vocab_size() const { return table->vocab_size(); }
  Index context_size() const { return most; }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    if (std::ssize(table->context()) + std::ssize(tokens) > most)
      throw std::logic_error("fed past its context");
    if (fed) *fed += std::ssize(tokens);
    return table->forward(tokens, rows);
  }
  void truncate(Index length) { table->truncate(length); }
};

// A fixed length, or a schedule that a test can inspect.
struct Length {
  ScheduledLength* schedule = nullptr;
  Index next(Index most) const { return schedule ? schedule->next(most) : most; }
  void observe(const StepRecord& step) {
    if (schedule) schedule->observe(step);
  }
};

// All cascades have one type for the exact laws, and one for the sampled tests.
using Rule = AnyOf<true, TokenVerifier, BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier>;
const Rule rules[] = {{TokenVerifier{}}, {BlockVerifier{}}, {GreedyBlockVerifier{}}, {SampleMatchVerifier{}}};
using Cascade = CascadeDrafter<Watched, ModelDrafter<Watched>, Rule, Length>;
using SampledCascade = CascadeDrafter<Watched, ModelDrafter<Watched>, BlockVerifier, Length>;

Cascade cascade_of(TableModel<>& model, TableModel<>& small, const Rule& rule, Index gamma) {
  return {Watched{&model}, ModelDrafter{Watched{&small}}, rule, gamma, Length{}};
}
SampledCascade sampled_cascade(const Watched& model, TableModel<>& small, Index gamma = 4,
                               Length length = {}) {
  return {Watched(model), ModelDrafter{Watched{&small}}, BlockVerifier{}, gamma, std::move(length)};
}

}  // namespace

TEST_CASE("a cascade drafts its model's text and reports its model's rows") {
  for (const Rule& rule : rules) {
    CAPTURE(rule.rule.index());
    std::mt19937_64 seed{1};
    for (const Index inner_gamma : {0, 1, 2, 3})
      for (int pair = 0; pair < 4; ++pair) {
        auto model = TableModel<>::random(2, 2, seed), small = TableModel<>::random(2, 2, seed);
        const Tokens prompt{0, 1};
        Law law;
        double worst = 0;
        enumerate([&](Enumerator& chance) {
          model.truncate(0), small.truncate(0);
          Cascade cascade = cascade_of(model, small, rule, inner_gamma);
          const auto draft = cascade.draft(prompt, {.nodes = 4}, chance);
          CHECK(draft.rows.rows() == 4);
          worst = std::max(worst, worst_row(draft, model, prompt));
          law[copy(draft.tokens)] += chance.probability();
        });
        CHECK(worst == 0);
        CHECK(largest_difference(law, target_law(model, prompt, {.max_new_tokens = 4})).size < 1e-12);
      }
  }
}

TEST_CASE("the loop with a cascade as drafter is lossless") {
  for (const Rule& rule : rules) {
    CAPTURE(rule.rule.index());
    std::mt19937_64 seed{2};
    double accepted = 0, inner_accepted = 0;
    for (int pair = 0; pair < 6; ++pair) {
      auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
           small = TableModel<>::random(2, 2, seed);
      Cascade cascade = cascade_of(model, small, {BlockVerifier{}}, 2);
      SpecDec decoder{target, cascade, rule};
      const Tokens prompt{1};
      const Options options{.max_new_tokens = 5, .gamma = 3};
      const GenerationLaw got = exact_generate(decoder, prompt, options);
      CHECK(largest_difference(got.law, target_law(target, prompt, options)).size < 1e-12);
      accepted += got.accepted;
      inner_accepted += static_cast<double>(cascade.stats().accepted);
    }
    CHECK(accepted > 1);
    CHECK(inner_accepted > 1);
  }
}

TEST_CASE(
    "a cascade whose inner drafter drafts trees drafts its model's text, and the loop with it is lossless") {
  const auto check = [](const auto& strategy, const auto& inner) {
    std::mt19937_64 seed{14};
    double accepted = 0, inner_accepted = 0;
    for (int pair = 0; pair < 3; ++pair) {
      auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
           small = TableModel<>::random(2, 2, seed);
      CascadeDrafter cascade{model, ModelDrafter{small, strategy}, inner, 4};
      const Tokens prompt{0, 1};
      Law law;
      double worst = 0;
      enumerate([&](Enumerator& chance) {
        cascade.truncate(0);
        const auto draft = cascade.draft(prompt, {.nodes = 3}, chance);
        worst = std::max(worst, worst_row(draft, model, prompt));
        law[copy(draft.tokens)] += chance.probability();
      });
      CHECK(worst == 0);
      CHECK(largest_difference(law, target_law(model, prompt, {.max_new_tokens = 3})).size < 1e-12);
      SpecDec decoder{target, cascade};
      const Options options{.max_new_tokens = 4, .gamma = 2};
      const GenerationLaw got = enumerate_generate(decoder, prompt, options);
      CHECK(largest_difference(got.law, target_law(target, prompt, options)).size < 1e-12);
      accepted += got.accepted;
      inner_accepted += static_cast<double>(cascade.stats().accepted);
    }
    CHECK(accepted > 1);
    CHECK(inner_accepted > 1);
  };
  const TreeShape shape({-1, -1, 0, 1});
  check(Tree{shape, WithoutReplacement{}}, TraversalVerifier{});
  check(Tree{shape, Independent{}}, RecursiveRejectionVerifier{});
  check(Spares{2, {1}}, TrunkAndSpares<BlockVerifier>{});
}

TEST_CASE("a cascade that is rolled back and used again is lossless, with caches") {
  std::mt19937_64 seed{3};
  for (int pair = 0; pair < 4; ++pair) {
    auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
         small = TableModel<>::random(2, 2, seed);
    Cascade cascade = cascade_of(model, small, {BlockVerifier{}}, 1);
    SpecDec decoder{target, cascade, Rule{TokenVerifier{}}};
    const Options options{.max_new_tokens = 4, .gamma = 2};
    const GenerationLaw got = enumerate_generate(decoder, Tokens{0}, options);
    CHECK(largest_difference(got.law, target_law(target, Tokens{0}, options)).size < 1e-12);
  }
}

TEST_CASE("a cascade of cascades is lossless") {
  std::mt19937_64 seed{4};
  auto target = TableModel<>::random(2, 1, seed), large = TableModel<>::random(2, 1, seed),
       middle = TableModel<>::random(2, 1, seed), small = TableModel<>::random(2, 1, seed);
  Cascade inner = cascade_of(middle, small, {TokenVerifier{}}, 1);
  CascadeDrafter outer{large, inner, BlockVerifier{}, 2};
  const Options options{.max_new_tokens = 3, .gamma = 2};
  Law law;
  double worst = 0;
  enumerate([&](Enumerator& chance) {
    outer.truncate(0);
    const auto draft = outer.draft(Tokens{0}, {.nodes = 3}, chance);
    worst = std::max(worst, worst_row(draft, large, {0}));
    law[copy(draft.tokens)] += chance.probability();
  });
  CHECK(worst == 0);
  CHECK(largest_difference(law, target_law(large, Tokens{0}, options)).size < 1e-12);
  SpecDec decoder{target, outer};
  const GenerationLaw got = exact_generate(decoder, Tokens{0}, options);
  CHECK(largest_difference(got.law, target_law(target, Tokens{0}, options)).size < 1e-12);
}

TEST_CASE("a cascade's draft may end at a row without loss") {
  std::mt19937_64 seed{5};
  double cut = 0;
  for (int pair = 0; pair < 6; ++pair) {
    auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
         small = TableModel<>::random(2, 2, seed);
    const Options options{.max_new_tokens = 5, .gamma = 3};
    const auto law = [&](double confidence) {
      SpecDec decoder{target, cascade_of(model, small, {BlockVerifier{}}, 2), BlockVerifier{},
                      ConfidentLength{confidence}};
      return exact_generate(decoder, Tokens{0}, options);
    };
    const GenerationLaw got = law(0.7);
    CHECK(largest_difference(got.law, target_law(target, Tokens{0}, options)).size < 1e-12);
    cut += law(0).drafted - got.drafted;
    // What an inner rule remembers from a draft that was cut must not be used for the text that followed.
    SpecDec decoder{target, cascade_of(model, small, {GreedyBlockVerifier{}}, 3), BlockVerifier{},
                    ConfidentLength{0.7}};
    const Options longer{.max_new_tokens = 5, .gamma = 4};
    CHECK(largest_difference(exact_generate(decoder, Tokens{0}, longer).law,
                             target_law(target, Tokens{0}, longer))
              .size < 1e-12);
  }
  CHECK(cut > 1);
}

namespace {

struct OneToken {
  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}
  More more(const GrowingDraft&) const { return {.level = false}; }
};

}  // namespace

TEST_CASE("a cascade's draft may be cut anywhere, even if its inner rule remembers") {
  // The draft is cut after one token. The outer loop may go on with the very token that the inner loop had drafted
  // next. The inner rule must not take it for a token of its own text.
  std::mt19937_64 seed{6};
  for (int pair = 0; pair < bound(4); ++pair) {
    auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
         small = TableModel<>::random(2, 2, seed);
    SpecDec decoder{target, cascade_of(model, small, {GreedyBlockVerifier{}}, 3), BlockVerifier{},
                    OneToken{}};
    const Options options{.max_new_tokens = 5, .gamma = 4};
    Law law;
    enumerate([&](Enumerator& chance) {
      const Tokens text = decoder.generate(Tokens{0}, options, chance).tokens;
      law[text] += chance.probability();
    });
    CHECK(largest_difference(law, target_law(target, Tokens{0}, options)).size < 1e-12);
  }
}

namespace {

// Ends a draft after a token, and keeps what it was asked.
struct UpTo {
  Index last;
  std::vector<Index>* asked;

  bool more(const auto&, Index i) const {
    asked->push_back(i);
    return i < last;
  }
};

}  // namespace

TEST_CASE("keep_drafting is asked about every row once, in order") {
  std::mt19937_64 rng{6};
  auto model = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 2, rng);
  SampledCascade cascade = sampled_cascade({&model}, small, 3);
  for (Index last = 0; last <= 8; ++last) {
    std::vector<Index> asked;
    const auto draft = cascade.draft(Tokens{2, 0}, {.nodes = 8}, rng, UpTo{last, &asked});
    CHECK(std::ssize(draft.tokens) == std::min<Index>(last + 1, 8));
    CHECK(draft.rows.rows() == std::ssize(draft.tokens));
    CHECK(worst_row(draft, model, {2, 0}) == 0);
    CHECK(std::ssize(asked) == std::ssize(draft.tokens));
    for (std::size_t i = 0; i < asked.size(); ++i) CHECK(asked[i] == static_cast<Index>(i));
  }
}

namespace {

// Texts that grow by drafted tokens and by others. Returns the most tokens that the model is fed for one draft.
template <class C>
Index most_fed(C& cascade, const TableModel<>& table, Index& fed, std::mt19937_64& rng) {
  Tokens context(200, 1);
  cascade.draft(context, {.nodes = 4}, rng);
  Index most = 0;
  for (int round = 0; round < 50; ++round) {
    const auto draft = cascade.draft(context, {.nodes = 4}, rng);
    CHECK(worst_row(draft, table, context) == 0);
    context.push_back(draft.tokens[0]);
    context.push_back(static_cast<Token>(round % 4));  // the draft may not have guessed this token
    cascade.truncate(std::ssize(context) - 1);
    fed = 0;
    const auto next = cascade.draft(context, {.nodes = 4}, rng);
    CHECK(worst_row(next, table, context) == 0);
    most = std::max(most, fed);
  }
  return most;
}

}  // namespace

namespace {

// Logits that depend on nothing but the length of the text.
struct ByLength {
  RowMajor<float> out = {};
  Index length = 0;
  Index vocab_size() const { return 5; }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    length += std::ssize(tokens);
    out.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i)
      for (Index x = 0; x < vocab_size(); ++x)
        out(i, x) = 3 * std::sin(static_cast<float>((x + 1) * (length - rows + i)));
    return out;
  }
  void truncate(Index to) { length = to; }
};

// Forbids the two likeliest tokens.
struct ForbidLikeliest {
  void operator()(std::span<const Token>, Eigen::Ref<Eigen::Matrix<float, 1, Eigen::Dynamic>> logits) const {
    for (int n = 0; n < 2; ++n) {
      Index x = 0;
      logits.maxCoeff(&x);
      logits[x] = -std::numeric_limits<float>::infinity();
    }
  }
};

// Keeps what it reads.
struct Reader {
  std::vector<double>* seen;
  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}
  More more(const GrowingDraft& draft) const {
    seen->push_back(draft.readings.back());
    return {};
  }
};

// The readings of a draft of six tokens.
template <class D>
std::vector<double> readings_of(D drafter) {
  std::vector<double> seen;
  SpecDec decoder{ProcessedModel{ByLength{}, Chain{Temperature{1.0}}}, std::move(drafter), BlockVerifier{},
                  Reader{&seen}};
  std::mt19937_64 rng{7};
  (void)decoder.generate(Tokens{0, 1}, {.max_new_tokens = 7, .gamma = 6}, rng);
  seen.resize(6);
  return seen;
}

template <class... Hook>
void compare_readings(double temperature, Hook... hook) {
  const auto middle = [&] { return ProcessedModel{ByLength{}, Chain{Temperature{temperature}}, hook...}; };
  const auto small = [] { return ModelDrafter{ProcessedModel{ByLength{}, Chain{Temperature{1.0}}}}; };
  const auto plain = readings_of(ModelDrafter{middle()});
  CHECK(readings_of(CascadeDrafter{middle(), small(), BlockVerifier{}, 2}) == plain);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    ByLength model;
    const auto& logits = model.forward(Tokens(2 + i, 0), 1);
    CHECK(plain[i] == Approx(std::exp(static_cast<double>(logits.maxCoeff())) /
                             logits.array().cast<double>().exp().sum()));
  }
}

}  // namespace

TEST_CASE("a draft length reads of a cascade what it reads of its model, before temperature and hooks") {
  compare_readings(1.0, ForbidLikeliest{});
  compare_readings(0.0);
}

TEST_CASE("the inner models are fed only new tokens") {
  std::mt19937_64 rng{7};
  auto table = TableModel<>::random(4, 2, rng), small = TableModel<>::random(4, 2, rng);
  Index fed = 0;
  SampledCascade cascade = sampled_cascade({&table, &fed}, small, 2);
  const Index most = most_fed(cascade, table, fed, rng);
  CHECK(most <= 2 + 4 * 3);
  CHECK(most > 0);
  StableModel stable{.table = table};  // its rows are kept without a copy
  CascadeDrafter of_stable{stable, ModelDrafter{Watched{&small}}, BlockVerifier{}, 2};
  most_fed(of_stable, table, fed, rng);
}

TEST_CASE("cascades take turns on a model, and on a drafter: the next one feeds its whole context again") {
  std::mt19937_64 rng{15};
  auto table = TableModel<>::random(4, 2, rng), small = TableModel<>::random(4, 2, rng);
  for (const bool of_drafter : {false, true}) {
    CountingModel model{table}, other{table}, own{small}, alien{small};
    ModelDrafter drafter{own}, others{alien};
    CascadeDrafter first{model, drafter, BlockVerifier{}, 2};
    CascadeDrafter second{of_drafter ? other : model, of_drafter ? drafter : others, BlockVerifier{}, 2};
    const Tokens a(100, 1), b(80, 2);
    const auto fed = [&](auto& cascade, const Tokens& context) {
      const Index before = model.fed + other.fed;
      const auto draft = cascade.draft(context, {.nodes = 3}, rng);
      CHECK(worst_row(draft, table, context) == 0);
      return model.fed + other.fed - before;
    };
    CHECK(fed(first, a) >= 100);
    CHECK(fed(first, a) < 20);
    CHECK(fed(second, b) >= 80);
    CHECK(fed(first, a) >= 100);
    CHECK(fed(second, b) >= 80);
    CHECK(fed(second, b) < 20);
  }
}

TEST_CASE("a cascade clears its models when the loop does") {
  std::mt19937_64 rng{8};
  auto model = TableModel<>::random(3, 1, rng), small = TableModel<>::random(3, 1, rng);
  SampledCascade cascade = sampled_cascade({&model}, small);
  cascade.truncate(0);
  cascade.draft(Tokens{0, 1, 2}, {.nodes = 3}, rng);
  CHECK(model.context().size() >= 3);
  cascade.truncate(0);
  CHECK(model.context().empty());
  CHECK(small.context().empty());
  const auto draft = cascade.draft(Tokens{2, 2}, {.nodes = 3}, rng);
  CHECK(worst_row(draft, model, {2, 2}) == 0);
}

TEST_CASE("a cascade may be moved while it has a context") {
  std::mt19937_64 rng{9};
  auto table = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 2, rng);
  SampledCascade first = sampled_cascade({&table}, small);
  first.draft(Tokens{0}, {.nodes = 4}, rng);
  auto second = std::move(first);
  const auto draft = second.draft(Tokens{0, 1}, {.nodes = 4}, rng);
  CHECK(draft.tokens.size() == 4);
  CHECK(worst_row(draft, table, {0, 1}) == 0);
  CHECK(second.stats().emitted == 8);
  const auto complaint = [](auto&& f) { return message_of<InvalidCall>(f); };
  const std::string expected = "specdec: the cascade was moved away: ask what it was moved into";
  CHECK(complaint([&] { first.stats(); }) == expected);  // NOLINT: use after move is intended
  CHECK(complaint([&] { first.draft(Tokens{0}, {.nodes = 4}, rng); }) == expected);
  first.truncate(0);
}

TEST_CASE("a cascade's model may have a smaller vocabulary and context than the target") {
  std::mt19937_64 rng{10};
  auto table = TableModel<>::random(2, 1, rng), small = TableModel<>::random(2, 1, rng);
  SampledCascade cascade = sampled_cascade({.table = &table, .most = 5}, small);
  // The model is fed token 0 in place of token 3.
  const auto draft = cascade.draft(Tokens{1, 3}, {.nodes = 2}, rng);
  CHECK(draft.rows.vocab_size() == 2);
  CHECK(worst_row(draft, table, {1, 0}) == 0);
  // The context holds five tokens, and one more is drafted beyond.
  CHECK(cascade.draft(Tokens{1, 3, 1}, {.nodes = 9}, rng).tokens.size() == 3);
  CHECK(cascade.draft(Tokens{1, 3, 1, 0, 0}, {.nodes = 9}, rng).tokens.size() == 1);
  CHECK(cascade.draft(Tokens{1, 3, 1, 0, 0, 0}, {.nodes = 9}, rng).tokens.empty());

  std::mt19937_64 other{11};
  auto target = TableModel<>::random(4, 1, other), inner = TableModel<>::random(3, 1, other);
  SpecDec decoder{target, sampled_cascade({&table}, inner)};
  CHECK(decoder.generate(Tokens{3}, {.max_new_tokens = 50, .gamma = 4}, other).tokens.size() == 50);
}

TEST_CASE("requests that a cascade cannot serve are named in the error") {
  std::mt19937_64 rng{12};
  auto model = TableModel<>::random(2, 1, rng), small = TableModel<>::random(2, 1, rng);
  SampledCascade cascade = sampled_cascade({&model}, small);
  CHECK(message_of([&] { cascade.draft(Tokens{}, {.nodes = 2}, rng); }) ==
        "specdec: context is empty: there is nothing to continue");
  CHECK(message_of([&] { sampled_cascade({&model}, small, -1); }) == "specdec: gamma = -1 is negative");
  CHECK(message_of([&] { sampled_cascade({&model}, small, longest_draft + 1); }) ==
        "specdec: gamma = 1048577 is more than 1048576, the longest draft, and not specdec::unlimited");
  CHECK_NOTHROW(sampled_cascade({&model}, small, unlimited));
  CHECK(cascade.draft(Tokens{0}, {.nodes = 0}, rng).tokens.empty());
  CHECK(cascade.stats().target_calls == 0);
}

TEST_CASE("a bad row of the inner loop is reported as the cascade's, of its model or its drafter") {
  const auto bad =
      TableModel<>::context_free(Eigen::RowVector2d(0.5, std::numeric_limits<double>::quiet_NaN()));
  const auto good = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
  const auto complaint = [](TableModel<> model, TableModel<> small) {
    std::mt19937_64 rng{12};
    SampledCascade cascade = sampled_cascade({&model}, small);
    auto target = TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5));
    SpecDec decoder{target, cascade};
    try {
      decoder.generate(Tokens{0}, {.max_new_tokens = 4, .gamma = 2}, rng);
    } catch (const InvalidDistribution& error) {
      CHECK(std::string(error.what())
                .starts_with("specdec: " + error.matrix() + " row " + std::to_string(error.row()) + ": "));
      return error.matrix();
    }
    return std::string();
  };
  CHECK(complaint(bad, good) == "cascade's target");
  CHECK(complaint(good, bad) == "cascade's draft");
}

TEST_CASE("an inner draft length learns from draft to draft") {
  std::mt19937_64 rng{13};
  auto model = TableModel<>::random(3, 1, rng);
  ScheduledLength length{1};
  auto same = model;
  SampledCascade cascade = sampled_cascade({&model}, same, 8, {&length});
  cascade.draft(Tokens{0}, {.nodes = 10}, rng);
  CHECK(length.next(8) > 1);  // the model drafts for itself
}

TEST_CASE("a cascade for each text of a batch writes what the text is alone") {
  std::mt19937_64 rng{31};
  using Table = testing::TableModel<>;
  const auto target = Table::random(5, 2, rng), middle = Table::random(5, 2, rng),
             small = Table::random(5, 2, rng);
  const CascadeDrafter drafter{Table(middle), ModelDrafter{Table(small)}, BlockVerifier{}, 2};
  const Options options{.max_new_tokens = 30, .gamma = 4};
  Batch batch{ModelPerSequence{target}, CascadeDrafter(drafter), BlockVerifier{}};
  for (Index i = 0; i < 4; ++i)
    batch.add(support::prompt_of(i, 5), options, std::mt19937_64(static_cast<std::uint64_t>(i)));
  for (const Finished& each : batch.run()) {
    CHECK_FALSE(each.error);
    SpecDec alone{Table(target), CascadeDrafter(drafter), BlockVerifier{}};
    std::mt19937_64 generator(static_cast<std::uint64_t>(each.sequence));
    CHECK(each.result.tokens ==
          alone.generate(support::prompt_of(each.sequence, 5), options, generator).tokens);
  }

  // A model by reference is refused: all copies would share it.
  Table shared(middle);
  CHECK_THROWS_AS(
      (Batch{ModelPerSequence{target}, CascadeDrafter{shared, ModelDrafter{Table(small)}}, BlockVerifier{}}),
      std::invalid_argument);
  CHECK_THROWS_AS(
      (Batch{ModelPerSequence{target}, CascadeDrafter{Table(middle), ModelDrafter{shared}}, BlockVerifier{}}),
      std::invalid_argument);
}

}  // namespace test_more_drafters_cascade_drafter
