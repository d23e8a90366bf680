// With a keyed source, the text of a seed does not depend on drafts, and has the target's law over seeds.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/answers_drafter.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/constant_draft.hpp"
#include "support/message_of.hpp"
#include "support/one_text.hpp"

namespace test_verify_keyed {

using namespace specdec;
using Table = testing::TableModel<>;
using Tokens = std::vector<Token>;

static_assert(Verifier<KeyedVerifier> && judges_trees<TrunkAndSpares<KeyedVerifier>>);
static_assert(draws_keyed<TrunkAndSpares<KeyedVerifier>> && !draws_keyed<SampleMatchVerifier>);
static_assert(!needs_draft<KeyedVerifier> && draws_from_target<KeyedVerifier>);
static_assert(!tells_survival<KeyedVerifier>);

namespace {

// Any drafter, of lines or of trees. The keyed rule asks for no draft rows.
class AnyDrafter {
 public:
  template <Drafter D>
  AnyDrafter(std::string name, D drafter)
      : AnyDrafter(std::move(name), support::OneText<D>(std::move(drafter))) {}
  template <class D>
    requires(!Drafter<D>)
  AnyDrafter(std::string name, D drafter) : name_(std::move(name)) {
    auto held = std::make_shared<D>(std::move(drafter));
    draft_ = [held](std::span<const Token> context, const DraftLimits& limits, Keyed& keyed) {
      if constexpr (drafts_trees<D>) {
        const auto draft = held->draft(context, limits, keyed);
        return Proposal{{draft.tokens.begin(), draft.tokens.end()},
                        {draft.parents.begin(), draft.parents.end()}};
      } else {
        Proposal line;
        const auto draft = specdec::detail::ask_drafter(*held, context, limits, keyed);
        line.tokens.assign(draft.tokens.begin(), draft.tokens.end());
        for (Index k = 0; k < std::ssize(line.tokens); ++k) line.parents.push_back(k - 1);
        return line;
      }
    };
    truncate_ = [held](Index length) { held->truncate(length); };
    observe_ = [held](const Judged<Table::Rows>& judged) {
      if constexpr (requires { held->observe(judged); }) held->observe(judged);
    };
  }

  template <class Source>
  Draft<OneHotRows> draft(std::span<const Token> context, const DraftLimits& limits, Source& source) {
    if constexpr (is_keyed<Source>) proposal_ = draft_(context, limits, source);
    return {proposal_.tokens, OneHotRows(proposal_.tokens), proposal_.parents};
  }
  void truncate(Index length) { truncate_(length); }
  void observe(const Judged<Table::Rows>& judged) { observe_(judged); }
  const std::string& name() const { return name_; }

 private:
  struct Proposal {
    Tokens tokens;
    std::vector<Index> parents;
  };
  std::string name_;
  std::function<Proposal(std::span<const Token>, const DraftLimits&, Keyed&)> draft_;
  std::function<void(Index)> truncate_;
  std::function<void(const Judged<Table::Rows>&)> observe_;
  Proposal proposal_;
};

struct AnyLength {
  static constexpr bool counts_nodes = true;
  std::function<Index(Index)> wanted;
  std::function<void(const StepRecord&)> seen;

  template <class Policy>
  explicit AnyLength(Policy policy) {
    auto held = std::make_shared<Policy>(std::move(policy));
    wanted = [held](Index most) { return held->next(most); };
    seen = [held](const StepRecord& step) { held->observe(step); };
  }
  Index next(Index most) { return wanted(most); }
  void observe(const StepRecord& step) { seen(step); }
};

TreeShape bush() { return TreeShape::of_widths({3, 2, 1}); }

std::vector<AnyDrafter> all_drafters(const Table& small) {
  const PromptLookupDrafter lookup;
  return {{"model", ModelDrafter{Table(small)}},
          {"prompt lookup", lookup},
          {"suffixes", SuffixDrafter{}},
#ifndef SPECDEC_TEST_SOME
          {"answers", support::AnswersDrafter{}},
          {"chain", FallbackDrafter{PromptLookupDrafter{{.max_ngram = 3, .min_ngram = 3}},
                                    ModelDrafter{Table(small)}}},
          {"cascade", CascadeDrafter{Table(small), PromptLookupDrafter{}, KeyedVerifier{}, 2}},
          {"cascade of a chain of a cascade",
           CascadeDrafter{
               Table(small),
               FallbackDrafter{PromptLookupDrafter{{.max_ngram = 3, .min_ngram = 3}},
                               CascadeDrafter{Table(small), PromptLookupDrafter{}, KeyedVerifier{}, 2}},
               KeyedVerifier{}, 2}},
#endif
          {"spares", ModelDrafter{Table(small), Spares{4, {2, 1}, 3}}},
          {"drawn siblings", ModelDrafter{Table(small), Tree{bush(), WithoutReplacement{}}}},
          {"likely siblings", ModelDrafter{Table(small), Tree{bush(), Likeliest{}}}}};
}

std::vector<AnyLength> all_lengths() {
  return {AnyLength(FixedLength{}), AnyLength(ScheduledLength{2}), AnyLength(CostOptimalLength{})};
}

Tokens without_draft(Table target, const Tokens& prompt, Options options, std::uint64_t seed) {
  Keyed keyed(seed);
  return autoregressive<KeyedVerifier>(std::move(target), prompt, options, keyed).tokens;
}

}  // namespace

namespace {

using support::near;
using support::probability_of;
using support::toy_line;

// Worked by hand on the paper's example, and by the compiler: the rule is sample-and-match.
static_assert(near(probability_of(Verdict{0, 1}, KeyedVerifier{}, toy_line), 2. / 3));
static_assert(near(probability_of(Verdict{2, 0}, KeyedVerifier{}, toy_line), 1. / 27));

}  // namespace

TEST_CASE("the text of a seed does not depend on the drafter, on gamma or on the draft-length policy") {
  SplitMix64 rng(77);
  const Table target = Table::random(5, 2, rng), small = Table::random(5, 1, rng);
  const Tokens prompt{3, 1, 4, 1};
  for (const Index gamma : {1, 2, 5, 9}) {
    const Options options{.max_new_tokens = 40, .gamma = gamma, .stop_tokens = {}};
    const Tokens expected = without_draft(target, prompt, options, 100);
    REQUIRE(expected != without_draft(target, prompt, options, 101));
    for (const AnyDrafter& drafter : all_drafters(small))
      for (const AnyLength& length : all_lengths()) {
        SpecDec decoder{Table(target), AnyDrafter(drafter), TrunkAndSpares<KeyedVerifier>{},
                        AnyLength(length)};
        Keyed keyed(100, 5);  // the loop sets its position
        INFO(drafter.name() << ", gamma = " << gamma);
        REQUIRE(decoder.generate(prompt, options, keyed).tokens == expected);
      }
  }
}

TEST_CASE("a drafter that is the target guesses every token, at every depth") {
  SplitMix64 rng(78);
  const Table target = Table::random(6, 2, rng);
  const Tokens prompt{3, 1};
  const Options options{.max_new_tokens = 50, .gamma = 9};
  const auto calls = [&](AnyDrafter drafter) {
    SpecDec decoder{Table(target), std::move(drafter), TrunkAndSpares<KeyedVerifier>{}};
    Keyed keyed(4);
    return decoder.generate(prompt, options, keyed).stats.target_calls;
  };
  CHECK(calls({"model", ModelDrafter{Table(target)}}) == 5);
#ifndef SPECDEC_TEST_SOME
  CHECK(calls({"cascade", CascadeDrafter{Table(target), PromptLookupDrafter{}, KeyedVerifier{}, 2}}) == 5);
#endif
  CHECK(calls({"spares", ModelDrafter{Table(target), Spares{4, {0, 1}}}}) == 10);
  CHECK(calls({"siblings", ModelDrafter{Table(target), Tree{bush(), WithoutReplacement{}}}}) ==
        17);  // two levels, for 9 tokens
}

TEST_CASE("in a drafted tree a token's numbers depend on its depth, not on the order of drawing") {
  const Eigen::RowVectorXd row = Eigen::RowVectorXd::Constant(32, 1.0 / 32);
  const Table model = Table::context_free(row);
  const Tokens prompt{5, 6, 7};
  const auto check = [&](auto drafter, Index drawn_beside_line) {
    Keyed keyed(31, 3);
    const auto tree = drafter.draft(prompt, {.nodes = 40, .depth = 4}, keyed);
    std::vector<Index> depths;
    Index eldest = 0;
    for (Index k = 0; k < std::ssize(tree.tokens); ++k) {
      const Index parent = tree.parents[static_cast<std::size_t>(k)];
      depths.push_back(parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1);
      bool first = true;
      for (Index i = 0; i < k; ++i) first = first && tree.parents[static_cast<std::size_t>(i)] != parent;
      if (!first) continue;
      ++eldest;
      CHECK(tree.tokens[static_cast<std::size_t>(k)] == keyed.draw(distributions(row).row(0), depths.back()));
    }
    CHECK(eldest == 4 + drawn_beside_line);
  };
  check(ModelDrafter{Table(model), Spares{4, {2, 1}, 3}}, 3);
  check(ModelDrafter{Table(model), Tree{TreeShape::of_widths({2, 2, 1, 1}), WithoutReplacement{}}}, 7);
}

TEST_CASE("a batch writes the keyed texts, and each text is drafted with its own numbers") {
  SplitMix64 rng(79);
  const Table target = Table::random(5, 2, rng);
  const Options options{.max_new_tokens = 30, .gamma = 4};
  const std::vector<Tokens> prompts{{0}, {1, 2, 3}, {4, 4}};
  const auto check = [&](auto& batch) {
    for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], options, Keyed(i));
    for (const Finished& finished : batch.run()) {
      const auto i = static_cast<std::size_t>(finished.sequence);
      REQUIRE(finished.error == nullptr);
      CHECK(finished.result.tokens == without_draft(target, prompts[i], options, i));
      CHECK(finished.result.stats.target_calls == 6);
    }
  };
  Batch lines{ModelPerSequence{target}, ModelDrafter{ModelPerSequence{target}}, KeyedVerifier{}};
  check(lines);
#ifndef SPECDEC_TEST_SOME
  Batch trees{ModelPerSequence{target}, ModelDrafter{ModelPerSequence{target}, Spares{4, {0}}},
              TrunkAndSpares<KeyedVerifier>{}};
  check(trees);
#endif
}

TEST_CASE("keyed verification by hand draws at the positions that follow the source's own") {
  const Eigen::MatrixXd target = Eigen::MatrixXd::Constant(4, 16, 1.0 / 16);
  Tokens y;
  Keyed keyed(8, 20);
  for (int i = 0; i < 4; ++i) y.push_back(keyed.draw(distributions(target).row(0)));
  keyed.stand_at(20);
  const auto other = [](Token x) { return x == 0 ? 1 : 0; };
  const KeyedVerifier verifier;
  CHECK(verifier(target, Tokens{y[0], y[1], y[2]}, keyed) == Verdict{3, y[3]});
  CHECK(verifier(target, Tokens{y[0], other(y[1]), y[2]}, keyed) == Verdict{1, y[1]});
  CHECK(verifier(target, target.topRows(3), Tokens{other(y[0]), y[1], y[2]}, keyed) == Verdict{0, y[0]});
  // Row 2 stands after the second child of the context, and row 3 after that child's child.
  const std::vector<Index> parents{-1, -1, 1};
  CHECK(TrunkAndSpares<KeyedVerifier>{}(target, Tokens{other(y[0]), y[0], y[1]}, parents, keyed) ==
        TreeVerdict{{1, 2}, y[2]});
  CHECK(keyed.position() == 20);
  y.pop_back();
  const OneHotRows chosen(y);
  const Drafted line(target, chosen, y);
  const Drafted tree(target, chosen, y, parents);
  const DraftedTrunk spare(tree, 2);
  for (Index i = 0; i < 4; ++i) CHECK(line.depth(i) == i);
  CHECK((tree.depth(0) == 0 && tree.depth(1) == 1 && tree.depth(2) == 1 && tree.depth(3) == 2));
  CHECK((spare.depth(0) == 1 && spare.depth(1) == 2));
}

TEST_CASE("keyed texts have the target's law over seeds") {
  SplitMix64 rng(80);
  const Table target = Table::random(4, 1, rng), small = Table::random(4, 1, rng);
  const Tokens prompt{2};
  const Options options{.max_new_tokens = 4, .gamma = 2};
  SpecDec decoder{Table(target), ModelDrafter{Table(small)}, KeyedVerifier{}};
  std::uint64_t seed = 0;
  const auto sample = [&] {
    Keyed keyed(seed++);
    return decoder.generate(prompt, options, keyed).tokens;
  };
  CHECK(testing::check_sampled(sample, testing::target_law(target, prompt, options), support::bound(30000)));
}

}  // namespace test_verify_keyed
