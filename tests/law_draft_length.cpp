// Under every draft-length policy the joint law of the written text is the target's. Policies know the past and the
// rows. A policy that drops a token after it was drawn is convicted.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <span>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/lengths/batch_costs.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/any_chance.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"
#include "support/trees.hpp"

namespace law_draft_length {

using namespace specdec;
using namespace specdec::testing;
using support::AnyChance;
using support::AnyTreeRule;
using support::AnyVerifier;

namespace {

const std::vector<Token> prompt{0};

template <class P, class Row>
concept Reads = requires(const P& policy, const Row& row) { policy.reading(row, Index{}); };

// One of several draft lengths, so that the loop is compiled once. It is told costs that depend only on what was done: a
// replayed branch sees equal costs.
template <class... Policies>
struct OneOf {
  static constexpr bool counts_nodes = (specdec::counts_nodes<Policies> && ...),
                        rates = (rates_tokens<Policies> && ...);

  std::variant<Policies...> policy;

  Index next(Index most) {
    return std::visit([&](auto& p) { return p.next(most); }, policy);
  }
  template <class Row>
  double reading(const Row& row, Index i) const {
    const auto read = [&]<class P>(const P& p) {
      if constexpr (Reads<P, Row>) return p.reading(row, i);
      else return confidence_of(row, i);
    };
    return std::visit(read, policy);
  }
  More more(const GrowingDraft& draft) const
    requires(reads_rows<Policies> && ...)
  {
    return std::visit([&](const auto& p) { return p.more(draft); }, policy);
  }
  double acceptance(const CandidateToken& candidate) const
    requires rates
  {
    return std::visit([&](const auto& p) { return p.acceptance(candidate); }, policy);
  }
  void observe(StepRecord step) {
    step.draft_time = std::chrono::milliseconds(step.drafted);
    step.target_time = std::chrono::milliseconds(10 + step.fed);
    step.verify_time = {};
    std::visit([&](auto& p) { p.observe(step); }, policy);
  }
};

// The law of the texts that new decoders write, and how often they drafted each number of tokens.
using LawOf = std::function<Law(const TableModel<>& target, const TableModel<>& small, const Options&,
                                std::map<Index, Index>& drafted)>;

// Policies carry what they learn from step to step, so every branch of chance begins with a fresh decoder.
template <class MakeDrafter, class V, class Length>
LawOf law_with(const MakeDrafter& drafter, const V& verifier, const Length& length) {
  return [=](const TableModel<>& target, const TableModel<>& small, const Options& options,
             std::map<Index, Index>& drafted) {
    Law law;
    enumerate([&](Enumerator& branches) {
      AnyChance chance(branches);
      Length begins(length);
      SpecDec decoder{TableModel<>(target), drafter(small), V(verifier), begins};
      const Result r = decoder.generate(prompt, options, chance);
      law[r.tokens] += branches.probability();
      ++drafted[r.stats.drafted];
    });
    return law;
  };
}

// A length that has written a text before: fresh ones decide nothing in their first steps.
template <class MakeDrafter, class Rule, class Length>
Length experienced(const MakeDrafter& drafter, const Rule& rule, Length length) {
  SplitMix64 generator{9};
  SpecDec decoder{TableModel<>::random(3, 2, generator), drafter(TableModel<>::random(3, 2, generator)),
                  Rule(rule), length};
  AnyChance chance(generator);
  decoder.generate(prompt, {.max_new_tokens = 200, .gamma = 4}, chance);
  return length;
}

// The worst difference over small models, and how many different draft lengths were seen.
struct Findings {
  double difference = 0;
  std::size_t numbers = 0;
};

Findings law_over_models(const LawOf& law_of) {
  Findings found;
  std::map<Index, Index> drafted;
  SplitMix64 generator{5};
  for (const Index vocab_size : {2, 3})
    for (Index gamma = 3; gamma >= 2; --gamma)
      for (int pair = 0; pair < 3; pair += support::every(3)) {
        const auto target = TableModel<>::random(vocab_size, 2, generator);
        const auto small = TableModel<>::random(vocab_size, 2, generator);
        const Options options{.max_new_tokens = vocab_size == 2 ? 5 : 4, .gamma = gamma};
        const Law law = law_of(target, small, options, drafted);
        found.difference =
            std::max(found.difference, largest_difference(law, target_law(target, prompt, options)).size);
      }
  found.numbers = drafted.size();
  return found;
}

constexpr auto honest = [](const TableModel<>& small) { return ModelDrafter{TableModel<>(small)}; };

using Cost = std::function<double(Index)>;
using Blind =
    OneOf<FixedLength, ScheduledLength, CostOptimalLength<>, CostOptimalLength<BatchCosts<Cost, Cost>>>;

// Drops a drawn token that is unlikely under q, and all tokens after it: the tempting mistake.
class Dropping {
 public:
  explicit Dropping(TableModel<> model) : inner_(std::move(model)) {}
  template <RandomSource Source>
  auto draft(std::span<const Token> context, Index gamma, Source& source) {
    auto draft = inner_.draft(context, {gamma}, source);
    std::size_t kept = 0;
    while (kept < draft.tokens.size() &&
           draft.rows.row(static_cast<Index>(kept)).probability(draft.tokens[kept]) >= 0.4)
      ++kept;
    rows_.clear();
    for (std::size_t i = 0; i < kept; ++i) rows_.push_back(draft.rows.row(static_cast<Index>(i)));
    return Draft<RowSpan<Row>>{draft.tokens.first(kept), RowSpan<Row>(rows_, draft.rows.vocab_size())};
  }
  void truncate(Index length) { inner_.truncate(length); }

 private:
  using Inner = ModelDrafter<TableModel<>>;
  using Row = RowOf<decltype(std::declval<Inner&>().draft({}, {}, std::declval<AnyChance&>()).rows)>;
  Inner inner_;
  std::vector<Row> rows_;
};

}  // namespace

namespace {

void check(const char* rule, const Findings& found) {
  INFO(rule);
  CHECK(found.difference < 1e-12);
  CHECK(found.numbers >= 3);
}

}  // namespace

TEST_CASE("any policy leaves the law as it is", "[long]") {
  const Cost target = [](Index tokens) { return 12 + static_cast<double>(tokens); },
             draft = [](Index) { return 0.1; };
  for (const Blind& fresh :
       {Blind{FixedLength{}}, Blind{ScheduledLength(1)}, Blind{CostOptimalLength({.window = 20})},
        Blind{CostOptimalLength(BatchCosts(target, draft), {.window = 2, .probing = 0.5})}})
    for (const AnyVerifier& rule : support::rules_for_drafters) {
      const auto verifier = support::for_loops(rule);
      const Blind length = experienced(honest, verifier, fresh);
      check(rule.name(), law_over_models(law_with(honest, verifier, length)));
    }
}

namespace {

// Decides after each draw, by all rows so far.
struct WhileSure {
  Index next(Index most) const { return most; }
  double reading(const auto& row, Index) const { return row.probability(row.argmax()); }
  More more(const GrowingDraft& draft) const {
    double all = 1;
    for (const double reading : draft.readings) all *= reading;
    return {.level = all >= 0.6};
  }
  void observe(const StepRecord&) const {}
};

using Looking = OneOf<ConfidentLength, EntropyLength, WhileSure, EarlyStoppingLength<>>;
// Not greedy block verification, whose next draft must not be cut: that does not compile.
struct LineRule {
  std::variant<BlockVerifier, TokenVerifier, SampleMatchVerifier> rule;

  Verdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
  double survival(double before, double p, double q) const {
    return std::visit([&](const auto& verifier) { return verifier.survival(before, p, q); }, rule);
  }
};
static_assert(tells_survival<LineRule>);

void check_lines(const char* name, const LineRule& rule, const Looking& fresh) {
  const Looking length = experienced(honest, rule, fresh);
  check(name, law_over_models(law_with(honest, rule, length)));
}

}  // namespace

TEST_CASE("a policy that looks at rows leaves the law as it is") {
  check_lines("block", {BlockVerifier{}}, {ConfidentLength(0.6)});
  check_lines("token", {TokenVerifier{}}, {ConfidentLength(0.6)});
  check_lines("block", {BlockVerifier{}}, {EntropyLength(0.6)});
  check_lines("sample-match", {SampleMatchVerifier{}}, {EntropyLength(0.6)});
}

TEST_CASE("a policy that ends drafts after a draw, by the rows so far, leaves the law as it is") {
  for (const Looking& length : {Looking{WhileSure{}}, Looking{EarlyStoppingLength({.window = 20})}}) {
    check_lines("block", {BlockVerifier{}}, length);
    check_lines("token", {TokenVerifier{}}, length);
    check_lines("sample-match", {SampleMatchVerifier{}}, length);
  }
}

namespace {

// Goes by what the draft model says, and by the last step.
class WhilePromising {
 public:
  static constexpr bool counts_nodes = true;

  Index next(Index most) const { return most; }
  double acceptance(const CandidateToken& candidate) const {
    if (candidate.rank == 0) return std::sqrt(candidate.reading);
    return candidate.drawn ? 1 - candidate.reading : candidate.reading;
  }
  More more(const GrowingDraft& draft) const {
    return {.level = std::ranges::any_of(draft.leaves, [](double value) { return value > 0.5; }),
            .tokens = std::ranges::count_if(draft.values, [this](double value) { return value > least_; })};
  }
  void observe(const StepRecord& step) { least_ = step.accepted > 0 ? 0.2 : 0.5; }

 private:
  double least_ = 0.3;
};

using Rating = OneOf<WhilePromising, EarlyStoppingLength<>>;

// The first steps of a fresh one are alike for all trees.
template <class MakeDrafter, class Rule>
Rating experienced_early(const MakeDrafter& drafter, const Rule& rule) {
  Rating early = experienced(drafter, rule, Rating{EarlyStoppingLength({.window = 20})});
  CHECK(std::get<EarlyStoppingLength<>>(early.policy).drafts());
  return early;
}

#ifndef SPECDEC_TEST_SOME
constexpr auto confident = [](const TableModel<>& small) {
  return ModelDrafter{TableModel<>(small), ConfidentTree{.width = 2, .depth = 3, .nodes = 4}};
};

void check_trees(const Rating& length) {
  const auto check_rule = [&](const char* name, const AnyTreeRule& rule) {
    check(name, law_over_models(law_with(confident, rule, length)));
  };
  check_rule("sample-match", {TrunkAndSpares<SampleMatchVerifier>{}});
  check_rule("block", {TrunkAndSpares<BlockVerifier>{}});
  check_rule("traversal", {TraversalVerifier{}});
}
#endif

}  // namespace

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a policy that rates the tokens of trees leaves the law as it is") {
  check_trees({WhilePromising{}});
  check_trees(experienced_early(confident, AnyTreeRule{TrunkAndSpares<SampleMatchVerifier>{}}));
}
#endif

namespace {

template <class Siblings>
auto drawn(Siblings siblings) {
  return [siblings](const TableModel<>& small) {
    return ModelDrafter{TableModel<>(small), Tree{TreeShape::of_widths({2, 2, 1}), siblings}};
  };
}

// Not greedy block verification, whose next trunk must not be cut: that does not compile.
struct DrawnTreeRule {
  std::variant<TraversalVerifier, RecursiveRejectionVerifier, KSeqVerifier, TrunkAndSpares<BlockVerifier>>
      rule;

  NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
};

void check_drawn_trees(const Rating& length) {
  const auto check_rule = [&](const char* name, const auto& siblings, const DrawnTreeRule& rule) {
    check(name, law_over_models(law_with(drawn(siblings), rule, length)));
  };
  check_rule("traversal", WithoutReplacement{}, {TraversalVerifier{}});
  check_rule("recursive rejection", WithoutReplacement{}, {RecursiveRejectionVerifier{}});
  check_rule("block on a trunk", WithoutReplacement{}, {TrunkAndSpares<BlockVerifier>{}});
#ifndef SPECDEC_TEST_SOME
  check_rule("k-seq", Independent{}, {KSeqVerifier{}});
  check_rule("traversal, one drawn", DrawnThenLikeliest{}, {TraversalVerifier{}});
#endif
}

}  // namespace

TEST_CASE("a policy that says how many children are drawn leaves the law as it is") {
  check_drawn_trees({WhilePromising{}});
  check_drawn_trees(experienced_early(drawn(WithoutReplacement{}), DrawnTreeRule{TraversalVerifier{}}));
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("at temperature 0 trees by the rows write the text of greedy decoding") {
  SplitMix64 generator{8};
  AnyChance chance(generator);
  Index accepted = 0;
  for (int n = 0; n < 20; ++n) {
    auto target = TableModel<>::random(4, 2, generator);
    const Options options{.max_new_tokens = 60, .gamma = 8};
    Rating early{EarlyStoppingLength{}};
    SpecDec decoder{TableModel<>(target), ModelDrafter{TableModel<>(target), ConfidentTree{.width = 2}},
                    AnyTreeRule{TrunkAndSpares<ArgmaxVerifier>{}}, early};
    const Result r = decoder.generate(prompt, options, chance);
    accepted += r.stats.accepted;
    CHECK(r.tokens == autoregressive<ArgmaxVerifier>(target, prompt, options, generator).tokens);
  }
  CHECK(accepted > 200);
}

TEST_CASE("dropping a token after it was drawn is lossy", "[long]") {
  const auto dropping = [](const TableModel<>& small) { return Dropping(small); };
  for (const AnyVerifier& rule : {AnyVerifier{TokenVerifier{}}, AnyVerifier{BlockVerifier{}}})
    CHECK(law_over_models(law_with(dropping, support::for_loops(rule), Blind{})).difference > 1e-3);
}
#endif

}  // namespace law_draft_length
