// Under every draft-length policy the joint law of the written text is the target's. Policies know the past and the
// rows. A policy that drops a token after it was drawn is convicted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace law_draft_length {

using namespace specdec;
using namespace specdec::testing;
using support::AnyVerifier;

namespace {

const std::vector<Token> prompt{0};

// Policies carry what they learn from step to step, so every branch of chance begins with a fresh decoder.
template <class Drafter, class V, class Length>
Law law_of(const TableModel<>& target, const Drafter& drafter, const V& verifier, const Length& length,
           const Options& options, std::map<Index, Index>& drafted) {
  Law law;
  enumerate([&](Enumerator& chance) {
    SpecDec decoder{TableModel<>(target), Drafter(drafter), verifier, Length(length)};
    const Result r = decoder.generate(prompt, options, chance);
    law[r.tokens] += chance.probability();
    ++drafted[r.stats.drafted];
  });
  return law;
}

// The worst difference over small models, and how many different draft lengths were seen.
struct Findings {
  double difference = 0;
  std::size_t numbers = 0;
};

template <class MakeDrafter, class V, class Length>
Findings law_over_models(MakeDrafter&& drafter, const V& verifier, const Length& length) {
  Findings found;
  std::map<Index, Index> drafted;
  SplitMix64 generator{5};
  for (const Index vocab_size : {2, 3})
    for (const Index gamma : {2, 3})
      for (int pair = 0; pair < 3; pair += support::every(3)) {
        const auto target = TableModel<>::random(vocab_size, 2, generator);
        const auto small = TableModel<>::random(vocab_size, 2, generator);
        const Options options{.max_new_tokens = vocab_size == 2 ? 5 : 4, .gamma = gamma};
        const Law law = law_of(target, drafter(small), verifier, length, options, drafted);
        found.difference =
            std::max(found.difference, largest_difference(law, target_law(target, prompt, options)).size);
      }
  found.numbers = drafted.size();
  return found;
}

constexpr auto honest = [](const TableModel<>& small) { return ModelDrafter{TableModel<>(small)}; };

// Costs that depend only on what was done, so that a replayed branch sees equal costs.
template <class Policy>
struct Timed {
  static constexpr bool counts_nodes = specdec::counts_nodes<Policy>;

  Policy policy;
  Index next(Index most) { return policy.next(most); }
  template <class Row>
  double reading(const Row& row, Index i) const
    requires requires { policy.reading(row, i); }
  {
    return policy.reading(row, i);
  }
  bool draft_another(std::span<const double> readings) const
    requires requires { policy.draft_another(readings); }
  {
    return policy.draft_another(readings);
  }
  double acceptance(double probability, Index rank) const
    requires rates_tokens<Policy>
  {
    return policy.acceptance(probability, rank);
  }
  bool draft_level(const TreeCandidates& found) const
    requires rates_tokens<Policy>
  {
    return policy.draft_level(found);
  }
  Index propose(const TreeCandidates& found) const
    requires rates_tokens<Policy>
  {
    return policy.propose(found);
  }
  void observe(StepRecord step) {
    step.draft_time = std::chrono::milliseconds(step.drafted);
    step.target_time = std::chrono::milliseconds(10 + step.fed);
    policy.observe(step);
  }
};

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
  using Row = RowOf<decltype(std::declval<Inner&>().draft({}, {}, std::declval<Enumerator&>()).rows)>;
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

template <class Length>
void check_under_every_rule(const Length& length) {
  for (const AnyVerifier& rule : support::sampling_rules)
    check(rule.name(), law_over_models(honest, support::for_loops(rule), length));
}

}  // namespace

TEST_CASE("any policy leaves the law as it is") {
  check_under_every_rule(FixedLength{});
  check_under_every_rule(ScheduledLength(1));
  check_under_every_rule(Timed<CostOptimalLength<>>{CostOptimalLength({.window = 2})});
  check_under_every_rule(GoodputLength(
      4, [](Index tokens) { return static_cast<double>(tokens); }, [](Index) { return 0.1; }, 2, 0.5));
}

TEST_CASE("a policy that looks at rows leaves the law as it is") {
  // Not under greedy block verification, whose next draft must not be cut: that does not compile.
  check("block", law_over_models(honest, BlockVerifier{}, ConfidentLength(0.6)));
  check("token", law_over_models(honest, TokenVerifier{}, ConfidentLength(0.6)));
  check("block", law_over_models(honest, BlockVerifier{}, EntropyLength(0.6)));
  check("sample-match", law_over_models(honest, SampleMatchVerifier{}, EntropyLength(0.6)));
}

namespace {

// Decides after each draw, by all rows so far.
struct WhileSure {
  Index next(Index most) const { return most; }
  double reading(const auto& row, Index) const { return row.probability(row.argmax()); }
  bool draft_another(std::span<const double> readings) const {
    double all = 1;
    for (const double reading : readings) all *= reading;
    return all >= 0.6;
  }
  void observe(const StepRecord&) const {}
};

}  // namespace

TEST_CASE("a policy that ends drafts after a draw, by the rows so far, leaves the law as it is") {
  const auto check_all = [](const auto& length) {
    check("block", law_over_models(honest, BlockVerifier{}, length));
    check("token", law_over_models(honest, TokenVerifier{}, length));
    check("sample-match", law_over_models(honest, SampleMatchVerifier{}, length));
  };
  check_all(WhileSure{});
  check_all(Timed<EarlyStoppingLength<>>{EarlyStoppingLength({.window = 2})});
}

namespace {

constexpr auto confident = [](const TableModel<>& small) {
  return ModelDrafter{TableModel<>(small), ConfidentTree{.width = 2, .depth = 3, .nodes = 4}};
};

// Goes by what the draft model says, and by the last step.
class WhilePromising {
 public:
  static constexpr bool counts_nodes = true;

  Index next(Index most) const { return most; }
  double acceptance(double probability, Index rank) const {
    return rank == 0 ? std::sqrt(probability) : probability;
  }
  bool draft_level(const TreeCandidates& found) const { return found.leaves.front() > 0.5; }
  Index propose(const TreeCandidates& found) const {
    return std::count_if(found.values.begin(), found.values.end(), [this](double v) { return v > least_; });
  }
  void observe(const StepRecord& step) { least_ = step.accepted > 0 ? 0.2 : 0.5; }

 private:
  double least_ = 0.3;
};

template <class Length>
void check_trees(const Length& length) {
  check("sample-match", law_over_models(confident, TrunkAndSpares<SampleMatchVerifier>{}, length));
  check("block", law_over_models(confident, TrunkAndSpares<BlockVerifier>{}, length));
  check("greedy block", law_over_models(confident, TrunkAndSpares<GreedyBlockVerifier>{}, length));
  check("traversal", law_over_models(confident, TraversalVerifier{}, length));
}

}  // namespace

TEST_CASE("a policy that rates the tokens of trees leaves the law as it is") {
  check_trees(WhilePromising{});
  // Its first steps are alike for all trees. So it has written a text before.
  Timed<EarlyStoppingLength<>> early{EarlyStoppingLength({.window = 20})};
  SplitMix64 generator{9};
  SpecDec decoder{TableModel<>::random(3, 2, generator), confident(TableModel<>::random(3, 2, generator)),
                  TrunkAndSpares<SampleMatchVerifier>{}, early};
  decoder.generate(prompt, {.max_new_tokens = 200, .gamma = 4}, generator);
  CHECK(early.policy.drafts());
  check_trees(early);
}

TEST_CASE("at temperature 0 trees by the rows write the text of greedy decoding") {
  SplitMix64 generator{8};
  Index accepted = 0;
  for (int n = 0; n < 20; ++n) {
    auto target = TableModel<>::random(4, 2, generator);
    const Options options{.max_new_tokens = 60, .gamma = 8};
    SpecDec decoder{target, ModelDrafter{TableModel<>(target), ConfidentTree{.width = 2}},
                    TrunkAndSpares<ArgmaxVerifier>{}, Timed<EarlyStoppingLength<>>{EarlyStoppingLength{}}};
    const Result r = decoder.generate(prompt, options, generator);
    accepted += r.stats.accepted;
    CHECK(r.tokens == autoregressive<ArgmaxVerifier>(target, prompt, options, generator).tokens);
  }
  CHECK(accepted > 200);
}

TEST_CASE("dropping a token after it was drawn is lossy") {
  const auto dropping = [](const TableModel<>& small) { return Dropping(small); };
  CHECK(law_over_models(dropping, TokenVerifier{}, FixedLength{}).difference > 1e-3);
  CHECK(law_over_models(dropping, BlockVerifier{}, FixedLength{}).difference > 1e-3);
}

}  // namespace law_draft_length
