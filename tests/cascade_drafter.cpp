// The cascade: what it drafts is its model's own text, whatever goes on inside.
#include <cstddef>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

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

// Every row of a draft against the model's table, at the tokens before it.
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

// Rows that outlive its calls.
struct StableModel {
  static constexpr bool stable_rows = true;
  TableModel<> table;
  std::vector<DenseRow<double>> rows = {};
  Index vocab_size() const { return table.vocab_size(); }
  RowSpan<DenseRow<double>> forward(std::span<const Token> tokens, Index count) {
    table.forward(tokens, count);
    rows.clear();
    for (Index i = count - 1; i >= 0; --i)
      rows.push_back(
          table.distribution(table.context().first(table.context().size() - static_cast<std::size_t>(i))));
    return {rows, vocab_size()};
  }
  void truncate(Index length) { table.truncate(length); }
};

}  // namespace

TEMPLATE_TEST_CASE("a cascade drafts its model's text and reports its model's rows", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  std::mt19937_64 seed{1};
  for (const Index inner_gamma : {0, 1, 2, 3})
    for (int pair = 0; pair < 4; ++pair) {
      const auto model = TableModel<>::random(2, 2, seed), small = TableModel<>::random(2, 2, seed);
      const Tokens prompt{0, 1};
      Law law;
      double worst = 0;
      enumerate([&](Enumerator& chance) {
        CascadeDrafter cascade{TableModel<>(model), ModelDrafter{TableModel<>(small)}, TestType{},
                               inner_gamma};
        const auto draft = cascade.draft(prompt, 4, chance);
        CHECK(draft.rows.rows() == 4);
        worst = std::max(worst, worst_row(draft, model, prompt));
        law[copy(draft.tokens)] += chance.probability();
      });
      CHECK(worst == 0);
      CHECK(largest_difference(law, target_law(model, prompt, {.max_new_tokens = 4})).size < 1e-12);
    }
}

TEMPLATE_TEST_CASE("a cascade inside the loop is lossless", "", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, SampleMatchVerifier) {
  std::mt19937_64 seed{2};
  double accepted = 0, inner_accepted = 0;
  for (int pair = 0; pair < 6; ++pair) {
    auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
         small = TableModel<>::random(2, 2, seed);
    CascadeDrafter cascade{model, ModelDrafter{TableModel<>(small)}, BlockVerifier{}, 2};
    SpecDec decoder{TableModel<>(target), cascade, TestType{}};
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

TEST_CASE("a cascade that is rolled back and taken up again is lossless, caches included") {
  std::mt19937_64 seed{3};
  for (int pair = 0; pair < 4; ++pair) {
    auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
         small = TableModel<>::random(2, 2, seed);
    CascadeDrafter cascade{model, ModelDrafter{small}, BlockVerifier{}, 1};
    SpecDec decoder{target, cascade};
    const Options options{.max_new_tokens = 4, .gamma = 2};
    const GenerationLaw got = enumerate_generate(decoder, Tokens{0}, options);
    CHECK(largest_difference(got.law, target_law(target, Tokens{0}, options)).size < 1e-12);
  }
}

TEST_CASE("a cascade of cascades is lossless") {
  std::mt19937_64 seed{4};
  auto target = TableModel<>::random(2, 1, seed), large = TableModel<>::random(2, 1, seed),
       middle = TableModel<>::random(2, 1, seed), small = TableModel<>::random(2, 1, seed);
  CascadeDrafter inner{middle, ModelDrafter{small}, TokenVerifier{}, 1};
  CascadeDrafter outer{large, inner, BlockVerifier{}, 2};
  SpecDec decoder{target, outer};
  const Options options{.max_new_tokens = 3, .gamma = 2};
  const GenerationLaw got = exact_generate(decoder, Tokens{0}, options);
  CHECK(largest_difference(got.law, target_law(target, Tokens{0}, options)).size < 1e-12);
}

TEST_CASE("a cascade's draft can end at a row, losslessly") {
  std::mt19937_64 seed{5};
  double cut = 0;
  for (int pair = 0; pair < 6; ++pair) {
    const auto target = TableModel<>::random(2, 2, seed), model = TableModel<>::random(2, 2, seed),
               small = TableModel<>::random(2, 2, seed);
    SpecDec decoder{
        TableModel<>(target),
        CascadeDrafter{TableModel<>(model), ModelDrafter{TableModel<>(small)}, BlockVerifier{}, 2},
        BlockVerifier{}, ConfidentLength{0.7}};
    const Options options{.max_new_tokens = 5, .gamma = 3};
    const GenerationLaw got = exact_generate(decoder, Tokens{0}, options);
    CHECK(largest_difference(got.law, target_law(target, Tokens{0}, options)).size < 1e-12);
    const GenerationLaw uncut = [&] {
      SpecDec whole{TableModel<>(target), ModelDrafter{TableModel<>(model)}};
      return exact_generate(whole, Tokens{0}, options);
    }();
    cut += uncut.drafted - got.drafted;
  }
  CHECK(cut > 1);
}

TEST_CASE("goes_on is asked for every row once, in order") {
  std::mt19937_64 rng{6};
  const auto model = TableModel<>::random(3, 2, rng);
  CascadeDrafter cascade{TableModel<>(model), ModelDrafter{TableModel<>::random(3, 2, rng)}, BlockVerifier{},
                         3};
  for (Index stop = 0; stop <= 8; ++stop) {
    std::vector<Index> asked;
    const auto draft = cascade.draft(Tokens{2, 0}, 8, rng, [&](const auto&, Index i) {
      asked.push_back(i);
      return i < stop;
    });
    CHECK(std::ssize(draft.tokens) == stop);
    CHECK(draft.rows.rows() == stop);
    CHECK(worst_row(draft, model, {2, 0}) == 0);
    CHECK(std::ssize(asked) == std::min<Index>(stop + 1, 8));
    for (std::size_t i = 0; i < asked.size(); ++i) CHECK(asked[i] == static_cast<Index>(i));
  }
}

TEMPLATE_TEST_CASE("the inner models take in only what is new to them", "", CountingModel, StableModel) {
  std::mt19937_64 rng{7};
  const auto table = TableModel<>::random(4, 2, rng);
  TestType model{.table = table};
  CascadeDrafter cascade{model, ModelDrafter{TableModel<>::random(4, 2, rng)}, BlockVerifier{}, 2};
  Tokens context(200, 1);
  cascade.draft(context, 4, rng);
  for (int round = 0; round < 50; ++round) {
    const auto draft = cascade.draft(context, 4, rng);
    CHECK(worst_row(draft, table, context) == 0);
    context.push_back(draft.tokens[0]);
    context.push_back(static_cast<Token>(round % 4));  // what the draft may not have guessed
    cascade.truncate(std::ssize(context) - 1);
    if constexpr (requires { model.fed; }) model.fed = 0;
    const auto next = cascade.draft(context, 4, rng);
    CHECK(worst_row(next, table, context) == 0);
    if constexpr (std::is_same_v<TestType, CountingModel>) CHECK(model.fed <= 2 + 4 * 3);
  }
}

TEST_CASE("a cascade clears its models with the loop's") {
  std::mt19937_64 rng{8};
  auto model = TableModel<>::random(3, 1, rng), small = TableModel<>::random(3, 1, rng);
  CascadeDrafter cascade{model, ModelDrafter{small}};
  cascade.truncate(0);
  cascade.draft(Tokens{0, 1, 2}, 3, rng);
  CHECK(model.context().size() >= 3);
  cascade.truncate(0);
  CHECK(model.context().empty());
  CHECK(small.context().empty());
  const auto draft = cascade.draft(Tokens{2, 2}, 3, rng);
  CHECK(worst_row(draft, model, {2, 2}) == 0);
}

TEST_CASE("a cascade may be moved while it knows a context") {
  std::mt19937_64 rng{9};
  const auto table = TableModel<>::random(3, 2, rng);
  CascadeDrafter first{TableModel<>(table), ModelDrafter{TableModel<>::random(3, 2, rng)}};
  first.draft(Tokens{0}, 4, rng);
  auto second = std::move(first);
  const auto draft = second.draft(Tokens{0, 1}, 4, rng);
  CHECK(draft.tokens.size() == 4);
  CHECK(worst_row(draft, table, {0, 1}) == 0);
  CHECK(second.stats().emitted == 8);
}

TEST_CASE("a cascade's model may know fewer tokens and hold fewer than the target") {
  std::mt19937_64 rng{10};
  const auto table = TableModel<>::random(2, 1, rng);
  CascadeDrafter cascade{BoundedModel(table, 5), ModelDrafter{TableModel<>::random(2, 1, rng)}};
  // Token 3 is shown to it as 0.
  const auto draft = cascade.draft(Tokens{1, 3}, 2, rng);
  CHECK(draft.rows.vocab_size() == 2);
  CHECK(worst_row(draft, table, {1, 0}) == 0);
  CHECK(cascade.draft(Tokens{1, 3, 1}, 9, rng).tokens.size() == 3);  // five in the context, one beyond
  CHECK(cascade.draft(Tokens{1, 3, 1, 0, 0}, 9, rng).tokens.size() == 1);
  CHECK(cascade.draft(Tokens{1, 3, 1, 0, 0, 0}, 9, rng).tokens.empty());

  std::mt19937_64 other{11};
  auto target = TableModel<>::random(4, 1, other);
  SpecDec decoder{target,
                  CascadeDrafter{TableModel<>(table), ModelDrafter{TableModel<>::random(3, 1, other)}}};
  CHECK(decoder.generate(Tokens{3}, {.max_new_tokens = 50, .gamma = 4}, other).tokens.size() == 50);
}

TEST_CASE("what a cascade is asked for and cannot do is named") {
  std::mt19937_64 rng{12};
  auto model = TableModel<>::random(2, 1, rng), small = TableModel<>::random(2, 1, rng);
  CascadeDrafter cascade{model, ModelDrafter{small}};
  CHECK(message_of([&] { cascade.draft(Tokens{}, 2, rng); }) ==
        "specdec: context is empty: there is nothing to continue");
  CHECK(message_of([&] { CascadeDrafter(model, ModelDrafter{small}, BlockVerifier{}, -1); }) ==
        "specdec: gamma = -1 is negative");
  CHECK(cascade.draft(Tokens{0}, 0, rng).tokens.empty());
  CHECK(cascade.stats().target_calls == 0);
}

TEST_CASE("an inner draft length learns from draft to draft") {
  std::mt19937_64 rng{13};
  auto model = TableModel<>::random(3, 1, rng);
  ScheduledLength length{1};
  CascadeDrafter cascade{model, ModelDrafter{TableModel<>(model)}, BlockVerifier{}, 8, length};
  cascade.draft(Tokens{0}, 10, rng);
  CHECK(length.next(8) > 1);  // the model guesses itself
}
