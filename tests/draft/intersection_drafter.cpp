#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"
#include "support/trusted.hpp"

namespace test_draft_intersection_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

using Tokens = std::vector<Token>;
constexpr Token none = TokenMap::none;

static_assert(Drafter<IntersectionDrafter<TableModel<>>> && Drafter<IntersectionDrafter<TableModel<>&>>);
static_assert(!is_steady<IntersectionDrafter<TableModel<>>>);

namespace {

// The target's pieces, and the draft model's.
constexpr std::array<std::string_view, 3> pieces{"a", "b", "ab"};
constexpr std::array<std::string_view, 3> draft_pieces{"b", "ba", "a"};

TokenMap common_tokens() {
  return TokenMap{match_tokens(
                      3, [](Token d) { return draft_pieces[static_cast<std::size_t>(d)]; }, 3,
                      [](Token x) { return pieces[static_cast<std::size_t>(x)]; }),
                  3};
}

// Token 2 of the target, "ab", in the draft's tokens.
Tokens spelled(Token) { return {2, 0}; }

// A random draft model that now and then, or never, knows nothing but what the target lacks.
TableModel<> draft_model(Index order, std::mt19937_64& rng, double foreign = 0.25) {
  TableModel<>::Rows table(order == 2 ? 16 : 64, 3);
  for (Index i = 0; i < table.rows(); ++i) {
    const double share = uniform01(rng) < foreign ? 1 : static_cast<int>(8 * uniform01(rng)) / 8.0;
    const double rest = static_cast<int>(5 * uniform01(rng)) / 4.0;
    table.row(i) << (1 - share) * rest, share, (1 - share) * (1 - rest);
  }
  return TableModel<>(table, order);
}

// The definition: the model's row after the text in its own tokens, without what the target lacks.
Eigen::RowVector3d expected_row(const TableModel<>& model, const Tokens& text, bool spell) {
  const TokenMap map = common_tokens();
  Tokens read;
  for (const Token x : text) {
    if (map.from(x) != none) read.push_back(map.from(x));
    else if (spell) read.insert(read.end(), {2, 0});
    else read.push_back(0);
  }
  const auto row = model.distribution(read);
  Eigen::RowVector3d p(row.probability(2), row.probability(0), 0);  // a, b, ab
  if (p.sum() > 0) p /= p.sum();
  return p;
}

}  // namespace

TEST_CASE("tokens are matched by their bytes, the lowest id of equals, and nothing without bytes") {
  const std::array<std::string, 5> draft{"", "b", "a", "b", "ba"};
  const std::array<std::string_view, 5> target{"b", "", "ab", "b", "a"};
  const auto of = [](const auto& all) {
    return [&all](Token x) { return all[static_cast<std::size_t>(x)]; };
  };
  CHECK(match_tokens(5, of(draft), 5, of(target)) == Tokens{none, 0, 4, none, none});
  CHECK(match_tokens(0, of(draft), 5, of(target)).empty());
}

TEST_CASE("lossless under every rule with a model of another vocabulary", "[law]") {
  std::mt19937_64 rng{11};
  for (const AnyVerifier& rule : sampling_rules) {
    INFO(rule.name());
    const bool needs_whole_drafts = std::holds_alternative<GreedyBlockVerifier>(rule.rule);
    double difference = 0, accepted = 0, rejected = 0;
    for (int pair = 0; pair < 6; ++pair)
      for (const Index gamma : {1, 2, 3}) {
        auto target = TableModel<>::random(3, 2, rng);
        const auto check = [&](auto drafter) {
          SpecDec decoder{target, Trusted{std::move(drafter)}, for_loops(rule)};
          const Options options{.max_new_tokens = 4, .gamma = gamma};
          const Tokens prompt{0, 2};
          const GenerationLaw got = enumerate_generate(decoder, prompt, options);
          difference =
              std::max(difference, largest_difference(got.law, target_law(target, prompt, options)).size);
          accepted += got.accepted;
          rejected += got.drafted - got.accepted;
        };
        const auto model = draft_model(2, rng, needs_whole_drafts ? 0 : 0.25);
        if (pair % 2 == 0) check(IntersectionDrafter{TableModel<>(model), common_tokens()});
        else check(IntersectionDrafter{TableModel<>(model), common_tokens(), spelled});
      }
    CHECK(difference < 1e-12);
    CHECK(accepted > 1);
    CHECK(rejected > 1);
  }
}

TEST_CASE("greedy block verification is biased by drafts that a row ends, which is why it does not compile",
          "[law]") {
  std::mt19937_64 rng{15};
  int biased = 0, too_short = 0;
  for (int pair = 0; pair < 20; ++pair) {
    auto target = TableModel<>::random(3, 2, rng);
    SpecDec decoder{target, Trusted{IntersectionDrafter{draft_model(2, rng, 0.5), common_tokens()}},
                    GreedyBlockVerifier{}};
    const Tokens prompt{0, 2};
    const Options options{.max_new_tokens = 4, .gamma = 3};
    const std::string complaint = message_of([&] {
      const GenerationLaw got = enumerate_generate(decoder, prompt, options);
      biased += largest_difference(got.law, target_law(target, prompt, options)).size > 1e-3;
    });
    too_short += complaint.find("draft at least that many") != std::string::npos;
  }
  CHECK(biased > 0);
  CHECK(too_short > 0);
}

TEST_CASE(
    "drafts are drawn from common tokens after the text in the model's own, as the text grows and is cut") {
  std::mt19937_64 rng{12};
  int ended = 0, tokens = 0;
  for (const bool spell : {false, true}) {
    const auto model = draft_model(3, rng);
    auto drafter = spell ? IntersectionDrafter{TableModel<>(model), common_tokens(), spelled}
                         : IntersectionDrafter{TableModel<>(model), common_tokens()};
    Tokens text{0};
    for (int step = 0; step < 300; ++step) {
      const auto draft = drafter.draft(std::span<const Token>(text), 3, rng);
      Tokens so_far = text;
      for (Index i = 0; i < std::ssize(draft.tokens); ++i) {
        const Eigen::RowVector3d p = expected_row(model, so_far, spell);
        for (Token x = 0; x < 3; ++x) CHECK(std::abs(draft.rows.row(i).probability(x) - p[x]) < 1e-12);
        so_far.push_back(draft.tokens[static_cast<std::size_t>(i)]);
      }
      if (std::ssize(draft.tokens) < 3) CHECK(expected_row(model, so_far, spell).sum() == 0);
      ended += std::ssize(draft.tokens) < 3;
      tokens += static_cast<int>(draft.tokens.size());
      const auto kept =
          static_cast<std::size_t>(uniform01(rng) * static_cast<double>(draft.tokens.size() + 1));
      so_far.resize(text.size() + kept);
      if (uniform01(rng) < 0.1 && so_far.size() > 4) so_far.resize(so_far.size() - 3);
      drafter.truncate(std::ssize(so_far));
      text = so_far;
      text.push_back(static_cast<Token>(uniform01(rng) * 3));
    }
  }
  CHECK(ended > 20);
  CHECK(tokens > 600);
}

TEST_CASE("a draft ends where the model has no room, or nothing to read, and a policy may end it") {
  std::mt19937_64 rng{13};
  const TokenMap map{Tokens{0, 1, 2}, 4};
  const auto uniform = [] { return TableModel<>::context_free(Eigen::RowVector3d(0.25, 0.25, 0.5)); };
  const Tokens text{3, 1};
  const auto proposed = [&](auto& drafter) {
    return std::ssize(drafter.draft(std::span<const Token>(text), 5, rng).tokens);
  };
  IntersectionDrafter bounded{BoundedModel(uniform(), 3), map};
  CHECK(proposed(bounded) == 2);
  IntersectionDrafter speechless{uniform(), map, [](Token) { return Tokens{}; }};
  CHECK(proposed(speechless) == 5);
  const Tokens unspoken{3};
  CHECK(speechless.draft(std::span<const Token>(unspoken), 5, rng).tokens.empty());
  const auto at_most_two = [](const auto& row, Index i) { return row.probability(2) == 0.5 && i < 2; };
  CHECK(std::ssize(speechless.draft(std::span<const Token>(text), 5, rng, at_most_two).tokens) == 2);
}

TEST_CASE("tokens beyond the map, which the padding of a target's rows may have, are token 0 to the model") {
  std::mt19937_64 rng{14};
  // Of four tokens the map knows three, of which the model has two, and the third is spelled as nothing.
  const auto model = TableModel<>::random(2, 2, rng);
  const TokenMap map{Tokens{0, 1}, 3};
  const auto drafter = [&] {
    return IntersectionDrafter{TableModel<>(model), map, [](Token) { return Tokens{}; }};
  };
  for (const Token beyond : {3, 4, 1 << 30})
    for (const Tokens& text : {Tokens{1, beyond}, Tokens{beyond, 1, 2}, Tokens{beyond}}) {
      Tokens known = text;
      std::ranges::replace(known, beyond, 0);
      auto one = drafter(), other = drafter();
      std::mt19937_64 draws{1}, again{1};
      const auto found = one.draft(std::span<const Token>(text), 2, draws);
      const auto expected = other.draft(std::span<const Token>(known), 2, again);
      REQUIRE(std::ranges::equal(found.tokens, expected.tokens));
      for (Index i = 0; i < std::ssize(found.tokens); ++i)
        for (Token x = 0; x < 3; ++x)
          CHECK(found.rows.row(i).probability(x) == expected.rows.row(i).probability(x));
    }
  const auto target = TableModel<>::random(4, 2, rng);
  double accepted = 0;
  for (const AnyVerifier& rule : {AnyVerifier{TokenVerifier{}}, AnyVerifier{BlockVerifier{}}}) {
    auto large = target;
    SpecDec decoder{large, Trusted{drafter()}, for_loops(rule)};
    const Options options{.max_new_tokens = 4, .gamma = 2};
    const Tokens prompt{0, 3};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    CHECK(largest_difference(got.law, target_law(large, prompt, options)).size < 1e-12);
    accepted += got.accepted;
  }
  CHECK(accepted > 0.1);
}

TEST_CASE("a row of the draft model that is no distribution is named, by its number in the draft") {
  TableModel<>::Rows table(3, 2);  // after nothing, after token 0, after token 1
  table << 0.5, 0.5, 0.0, 1.0, std::numeric_limits<double>::quiet_NaN(), 1.0;
  IntersectionDrafter drafter{TableModel<>(table, 1), TokenMap{Tokens{0, 1}, 2}};
  std::mt19937_64 rng{1};
  const auto draft = [&](const Tokens& context) {
    drafter.truncate(0);
    drafter.draft(std::span(context), 3, rng);
  };
  CHECK(message_of<InvalidDistribution>([&] { draft({1}); }) ==
        "specdec: draft row 0: the probabilities of the tokens that are kept sum to nan");
  CHECK(message_of<InvalidDistribution>([&] { draft({0}); }) ==
        "specdec: draft row 1: the probabilities of the tokens that are kept sum to nan");
}

TEST_CASE("a map of another vocabulary and a spelling of no token are named") {
  const auto model = [] { return TableModel<>::context_free(Eigen::RowVector2d(0.5, 0.5)); };
  CHECK(message_of([&] {
          IntersectionDrafter{model(), TokenMap{Tokens{0}, 2}};
        }) == "specdec: the map is one of 1 draft tokens, but the draft model has 2");
  const TokenMap map{Tokens{0, none}, 2};
  CHECK(message_of([&] {
          IntersectionDrafter{model(), map, [](Token) { return Tokens{1, 2}; }};
        }) == "specdec: spelled[1] = 2 is outside the vocabulary 0..1");
}

}  // namespace test_draft_intersection_drafter
