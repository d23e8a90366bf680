// Drafts end after a drafted stop token. The text keeps the target's law, each step emits as many tokens as before, and the
// draft model is called less often. Under a rule that remembers its sequence the draft goes on.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace law_stop_tokens {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

const std::vector<Token> prompt{0, 1};

// Any rule for lines that remembers nothing, so that a test is compiled once.
struct LineRule {
  std::variant<TokenVerifier, BlockVerifier, SampleMatchVerifier, LenientVerifier> rule;

  Verdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
  friend bool operator==(const LineRule&, const LineRule&) = default;
};

struct TreeRule {
  std::variant<TraversalVerifier, RecursiveRejectionVerifier, KSeqVerifier, TrunkAndSpares<BlockVerifier>,
               TrunkAndSpares<TokenVerifier>, TrunkAndSpares<SampleMatchVerifier>>
      rule;

  NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
  friend bool operator==(const TreeRule&, const TreeRule&) = default;
};

// Shows its drafter other stop tokens than the loop's: none, say, and then no draft ends after one. After a longer context than
// `longest` it shows none.
template <class Drafter>
class Shown {
 public:
  static constexpr bool drafts_trees = Drafter::drafts_trees;

  Shown(Drafter inner, TokenIds stop_tokens, Index longest = unlimited)
      : inner_(std::move(inner)), stop_tokens_(stop_tokens), longest_(longest) {}

  template <RandomSource Source>
  auto draft(std::span<const Token> context, DraftLimits limits, Source& source) {
    limits.stop_tokens = std::ssize(context) > longest_ ? TokenIds() : stop_tokens_;
    return inner_.draft(context, limits, source);
  }
  void truncate(Index length) { inner_.truncate(length); }

 private:
  Drafter inner_;
  TokenIds stop_tokens_;
  Index longest_;
};

// A draft model that counts its calls.
class Counting : public TableModel<> {
 public:
  Counting(TableModel<> table, Index& calls) : TableModel<>(std::move(table)), calls_(&calls) {}

  const Rows& forward(std::span<const Token> tokens, Index rows) {
    ++*calls_;
    return TableModel<>::forward(tokens, rows);
  }
  const Rows& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    ++*calls_;
    return TableModel<>::forward(tokens, parents, rows);
  }

 private:
  Index* calls_;
};

struct Findings {
  double difference = 0;            // between the law of the text and the target's
  double calls = 0;                 // of the target: how many more or less than with drafts that go on
  double drafted = 0, went_on = 0;  // tokens, with drafts that end, and with drafts that go on

  void add(const GenerationLaw& ends, const GenerationLaw& goes_on, const Law& expected) {
    difference = std::max({difference, largest_difference(ends.law, expected).size,
                           largest_difference(goes_on.law, expected).size});
    calls = std::max(calls, std::abs(goes_on.target_calls - ends.target_calls));
    drafted += ends.drafted;
    went_on += goes_on.drafted;
  }
};

template <class Strategy, class Rule, class... Length>
void add_models(Findings& found, std::uint64_t seed, const Options& options, const Strategy& strategy,
                const Rule& rule, const Length&... length) {
  std::mt19937_64 rng{seed};
  auto target = TableModel<>::random(3, 2, rng);
  ModelDrafter drafter{TableModel<>::random(3, 2, rng), strategy};
  SpecDec ends{target, drafter, rule, Length(length)...};
  SpecDec goes_on{target, Shown(drafter, {}), rule, Length(length)...};
  found.add(exact_generate(ends, prompt, options), exact_generate(goes_on, prompt, options),
            target_law(target, prompt, options));
}

void check(const Findings& found) {
  CHECK(found.difference < 1e-12);
  CHECK(found.calls < 1e-12);
  if (!sanitized) CHECK(found.drafted < 0.99 * found.went_on);  // one model may have no draft that ends early
}

const Options at_once{.max_new_tokens = 5, .gamma = 3, .stop_tokens = {1}},
    later{.max_new_tokens = 5, .gamma = 3, .stop_tokens = {1, 2}, .min_new_tokens = 3};

}  // namespace

TEST_CASE("lines that end after a stop token keep the law, and accept as much", "[law]") {
  for (const LineRule& rule : {LineRule{TokenVerifier{}}, LineRule{BlockVerifier{}},
                               LineRule{SampleMatchVerifier{}}, LineRule{LenientVerifier{1.0}}})
    for (const Options& options : {at_once, later}) {
      Findings found;
      for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(8, 40)); ++seed)
        add_models(found, seed, options, Line{}, rule);
      check(found);
    }
}

TEST_CASE("trees whose stop tokens have no children keep the law, and accept as much", "[law]") {
  const auto findings = [](const auto& strategy, const TreeRule& rule) {
    Findings found;
    for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(3, 20)); ++seed)
      for (const Options& options : {at_once, later}) {
        Options of_trees = options;
        of_trees.max_new_tokens = 4;
        of_trees.gamma = 5;
        add_models(found, seed, of_trees, strategy, rule);
      }
    return found;
  };
  const TreeShape shape{-1, -1, 0, 1, 2};
#ifndef SPECDEC_TEST_SOME
  check(findings(Tree{shape, Independent{}}, {KSeqVerifier{}}));
#endif
  for (const TreeRule& rule :
       {TreeRule{TraversalVerifier{}}, TreeRule{RecursiveRejectionVerifier{}},
        TreeRule{TrunkAndSpares<BlockVerifier>{}}, TreeRule{TrunkAndSpares<TokenVerifier>{}},
        TreeRule{TrunkAndSpares<SampleMatchVerifier>{}}}) {
    check(findings(Tree{shape, WithoutReplacement{}}, rule));
#ifndef SPECDEC_TEST_SOME
    check(findings(Spares{3, {1}, 1}, rule));
    check(findings(Tree{shape, DrawnThenLikeliest{}}, rule));
    CHECK(findings(DrawnConfidentTree{.width = 2, .depth = 3}, rule).difference < 1e-12);
    // Here other tokens take the places that stop tokens leave.
    const Findings found = findings(ConfidentTree{.width = 2, .depth = 3, .nodes = 5}, rule);
    CHECK(found.difference < 1e-12);
    CHECK(found.drafted < found.went_on);
#endif
  }
}

namespace {

// Gives each node as many children as it may have, one level after the other.
struct WidestFirst {
  static constexpr bool counts_nodes = true;
  Index next(Index most) const { return most; }
  double acceptance(const CandidateToken& candidate) const {
    return 0.8 / static_cast<double>(candidate.rank + 1);
  }
  More more(const GrowingDraft&) const { return {}; }
  void observe(const StepRecord&) const {}
};

}  // namespace

TEST_CASE("a node gets the children that a stop token in another branch does without, and the law stays",
          "[law]") {
  for (const TreeRule& rule : {TreeRule{TraversalVerifier{}}, TreeRule{RecursiveRejectionVerifier{}}}) {
    Findings found;
    for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(4, 20)); ++seed) {
      std::mt19937_64 rng{seed};
      auto target = TableModel<>::random(3, 2, rng);
      SpecDec decoder{target,
                      ModelDrafter{TableModel<>::random(3, 2, rng),
                                   Tree{TreeShape::of_widths({2, 2, 2}), WithoutReplacement{}}},
                      rule, WidestFirst{}};
      const Options options{.max_new_tokens = 4, .gamma = 4, .stop_tokens = {1}};
      const GenerationLaw written = exact_generate(decoder, prompt, options);
      found.add(written, written, target_law(target, prompt, options));
    }
    CHECK(found.difference < 1e-12);
  }
}

TEST_CASE("under a rule that remembers its sequence the draft goes on after a stop token", "[law]") {
  Findings found;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(8, 40)); ++seed) {
    add_models(found, seed, at_once, Line{}, GreedyBlockVerifier{});
    add_models(found, seed, later, Line{}, GreedyBlockVerifier{});
  }
  CHECK(found.difference < 1e-12);
  CHECK(found.drafted == found.went_on);
}

TEST_CASE("if the draft did not go on there, greedy block verification would be lossy", "[law]") {
  const std::vector<Token> stops{1};
  double worst = 0;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    std::mt19937_64 rng{seed};
    auto target = TableModel<>::random(3, 2, rng);
    SpecDec decoder{target, Shown(ModelDrafter{TableModel<>::random(3, 2, rng)}, stops, 2),
                    GreedyBlockVerifier{}};
    const Options options{.max_new_tokens = 4, .gamma = 3, .stop_tokens = {1}};
    worst = std::max(worst, largest_difference(exact_generate(decoder, prompt, options).law,
                                               target_law(target, prompt, options))
                                .size);
  }
  CHECK(worst > 1e-4);
}

namespace {

// The calls of the draft model in some texts.
template <class Strategy, class Rule>
Index calls_of(bool goes_on, const Strategy& strategy, const Rule& rule, const Options& options) {
  Index calls = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    std::mt19937_64 models{seed}, rng{seed};
    const auto target = TableModel<>::random(5, 2, models);
    ModelDrafter drafter{Counting(TableModel<>::random(5, 2, models), calls), strategy};
    if (goes_on)
      SpecDec{TableModel<>(target), Shown(std::move(drafter), {}), rule}.generate(prompt, options, rng);
    else SpecDec{TableModel<>(target), std::move(drafter), rule}.generate(prompt, options, rng);
  }
  return calls;
}

}  // namespace

TEST_CASE("the draft model is called less often where drafts end after stop tokens") {
  const Options options{.max_new_tokens = 40, .gamma = 6, .stop_tokens = {1}};
  const auto saves = [&](const auto& strategy, const auto& rule) {
    const Index ends = calls_of(false, strategy, rule, options), on = calls_of(true, strategy, rule, options);
    CAPTURE(ends, on);
    CHECK(static_cast<double>(ends) < 0.8 * static_cast<double>(on));
  };
  saves(Line{}, BlockVerifier{});
#ifndef SPECDEC_TEST_SOME
  saves(Spares{6, {1}}, TrunkAndSpares<BlockVerifier>{});
  saves(Tree{TreeShape::of_widths({1, 1, 1, 1, 1, 1}), Independent{}}, TraversalVerifier{});
#endif
  CHECK(calls_of(false, Line{}, GreedyBlockVerifier{}, options) ==
        calls_of(true, Line{}, GreedyBlockVerifier{}, options));
}

namespace {

// Of a draft within the limits: no token follows a stop token that counts, and some are stop tokens.
template <class Strategy, class... KeepDrafting>
int stops_in(const Strategy& strategy, const KeepDrafting&... keep_drafting) {
  int stops = 0;
  const std::vector<Token> stop_tokens{1, 3};
  std::mt19937_64 rng{5};
  for (int n = 0; n < 100; ++n) {
    ModelDrafter drafter{TableModel<>::random(5, 2, rng), strategy};
    const DraftLimits limits{.nodes = 12, .stop_tokens = stop_tokens, .stops_from = n % 3};
    const KeptTree draft = kept(drafter.draft(prompt, limits, rng, keep_drafting...), 5);
    std::vector<Index> depths;
    TokenTreeView(draft.parents).depths(depths);
    for (std::size_t k = 0; k < draft.tokens.size(); ++k) {
      const Token x = draft.tokens[k];
      if ((x != 1 && x != 3) || depths[k] - 1 < n % 3) continue;
      ++stops;
      CHECK(std::ranges::count(draft.parents, static_cast<Index>(k)) == 0);
    }
  }
  return stops;
}

}  // namespace

TEST_CASE("no strategy drafts a token after a stop token that counts") {
  CHECK(stops_in(Line{}) > 20);
  CHECK(stops_in(Spares{5, {1}, 3}) > 20);
  CHECK(stops_in(Tree{TreeShape::of_widths({2, 2, 1}), Independent{}}) > 20);
#ifndef SPECDEC_TEST_SOME
  CHECK(stops_in(Tree{TreeShape::of_widths({2, 2, 1}), Likeliest{}}) > 20);
  CHECK(stops_in(ConfidentTree{.width = 3, .depth = 4, .nodes = 12}) > 20);
#endif

  WidestFirst length;
  specdec::detail::DraftReadings readings;
  const specdec::detail::KeepDrafting<WidestFirst, false> keep_drafting{&length, &readings};
  CHECK(stops_in(Line{}, keep_drafting) > 20);
  CHECK(stops_in(Tree{TreeShape::of_widths({2, 2, 1}), Independent{}}, keep_drafting) > 20);
#ifndef SPECDEC_TEST_SOME
  CHECK(stops_in(ConfidentTree{.width = 3, .depth = 4, .nodes = 12}, keep_drafting) > 20);
#endif
}

#ifndef SPECDEC_TEST_SOME
namespace {

// Sees what is drafted: after a stop token that counts nothing, and some are stop tokens.
template <class Drafter>
struct Watched {
  static constexpr bool drafts_trees = false;
  Drafter inner;
  int* stops;

  template <RandomSource Source>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source) {
    auto draft = inner.draft(context, limits, source);
    for (std::size_t i = 0; i < draft.tokens.size(); ++i) {
      if (!limits.ends_at(draft.tokens[i], static_cast<Index>(i))) continue;
      ++*stops;
      CHECK(i + 1 == draft.tokens.size());
    }
    return draft;
  }
  void truncate(Index length) { inner.truncate(length); }
};

}  // namespace

TEST_CASE("a cascade ends its drafts after stop tokens, too, and keeps the law", "[law]") {
  int stops = 0;
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(4, 20)); ++seed) {
    std::mt19937_64 rng{seed};
    auto target = TableModel<>::random(2, 2, rng);
    auto middle = TableModel<>::random(2, 2, rng), small = TableModel<>::random(2, 1, rng);
    SpecDec decoder{target,
                    Watched<CascadeDrafter<TableModel<>, ModelDrafter<TableModel<>>>>{
                        {std::move(middle), ModelDrafter{std::move(small)}, BlockVerifier{}, 2}, &stops},
                    BlockVerifier{}};
    const Options options{.max_new_tokens = 5, .gamma = 3, .stop_tokens = {1}, .min_new_tokens = 2};
    CHECK(largest_difference(enumerate_generate(decoder, prompt, options).law,
                             target_law(target, prompt, options))
              .size < 1e-12);
  }
  CHECK(stops > 20);
}
#endif

TEST_CASE("texts of a batch whose drafts end at different tokens are the texts alone") {
  std::mt19937_64 models{3};
  const auto target = TableModel<>::random(5, 2, models), small = TableModel<>::random(5, 2, models);
  Batch batch{ModelPerSequence{TableModel<>(target)}, ModelDrafter{ModelPerSequence{TableModel<>(small)}},
              BlockVerifier{}};
  const auto options = [](std::uint64_t seed) {
    return Options{.max_new_tokens = 30,
                   .gamma = 5,
                   .stop_tokens = {static_cast<Token>(seed % 5)},
                   .min_new_tokens = static_cast<Index>(seed % 7)};
  };
  std::vector<Result> alone;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Token> own = support::prompt_of(static_cast<Index>(seed), 5);
    batch.add(own, options(seed), std::mt19937_64{seed});
    std::mt19937_64 rng{seed};
    SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(small)}, BlockVerifier{}};
    alone.push_back(decoder.generate(own, options(seed), rng));
  }
  for (const Finished& done : batch.run()) {
    const Result& expected = alone[static_cast<std::size_t>(done.sequence)];
    CHECK(done.result.tokens == expected.tokens);
    CHECK(done.result.stats.drafted == expected.stats.drafted);
    CHECK(done.result.stop_reason == expected.stop_reason);
  }
}

}  // namespace law_stop_tokens
