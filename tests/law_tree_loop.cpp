// The loop over trees of drafts: its exact laws with cache rollback, what it reports of its steps, and how it refuses
// what is not a tree.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/more/analysis/stats_json.hpp>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "support/any_tree_drafter.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"
#include "support/trees.hpp"

namespace law_tree_loop {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using enum Sibling;

// A table model with a bounded context. It fails when told to, and checks what it is fed.
class Target : public TableModel<> {
 public:
  explicit Target(TableModel<> table, Index most = unlimited) : TableModel<>(std::move(table)), most_(most) {}

  Index context_size() const { return most_; }
  const Rows& forward(std::span<const Token> tokens, Index rows) {
    call(tokens);
    return TableModel<>::forward(tokens, rows);
  }
  const Rows& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    call(tokens);
    ++forked;
    return TableModel<>::forward(tokens, parents, rows);
  }

  Index calls_to_failure = -1, forked = 0;

 private:
  void call(std::span<const Token> tokens) {
    REQUIRE(std::ssize(context()) + std::ssize(tokens) <= most_);
    if (calls_to_failure-- == 0) throw std::runtime_error("no more");
  }

  Index most_;
};

struct Models {
  Target target;
  TableModel<> draft;
};

Models random_models(std::uint64_t seed, Index vocab_size = 3, Index most = unlimited) {
  std::mt19937_64 rng{seed};
  auto target = TableModel<>::random(vocab_size, 2, rng);
  return {Target(std::move(target), most), TableModel<>::random(vocab_size, 1, rng)};
}

const TreeForm pair({-1, -1}, independent), two_one({-1, -1, 0, 1}, without_replacement),
    picked({-1, -1, 0, 0}, chosen), spares({-1, -1, 0, 0}, {independent, chosen, independent, chosen});

// The lossless rules that take all kinds of trees.
const std::vector<AnyTreeRule> rules{{TraversalVerifier{}},
                                     {RecursiveRejectionVerifier{}},
                                     {TrunkAndSpares<BlockVerifier>{}},
                                     {TrunkAndSpares<SampleMatchVerifier>{}}};

using Decoder = SpecDec<Target&, FormDrafter<>, AnyTreeRule>;

const std::vector<Token> prompt{0, 1};

bool holds(const Target& target, const Decoder::Sequence& sequence) {
  return std::ssize(target.context()) == sequence.kept() &&
         std::equal(target.context().begin(), target.context().end(), sequence.context().begin());
}

}  // namespace

TEST_CASE("the loop over trees writes the target's law, with caches") {
  std::uint64_t seed = 0;
  for (int n = 0; n < bound(2, 8); ++n)
    for (const TreeForm& form : {pair, two_one, picked, spares})
      for (const AnyTreeRule& rule : rules) {
        Models models = random_models(++seed, 2);
        Decoder decoder(models.target, FormDrafter(models.draft, form), rule);
        const Options options{.max_new_tokens = 4, .gamma = 4, .stop_tokens = {1}};
        const Law expected = target_law(models.target, prompt, options);
        const GenerationLaw written = enumerate_generate(decoder, prompt, options);
        CHECK(largest_difference(written.law, expected).size < 1e-12);
      }
}

TEST_CASE("where a sparse row has no token left for a sibling, no other token takes the sibling's place") {
  // A third sibling drawn without replacement, which a row of two tokens cannot fill, and a token below the trunk.
  const TreeForm form({-1, 0, 0, 1}, {independent, independent, without_replacement, independent});
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 rng{seed};
    Target target(thin_model(2, 2, 0.1, rng));
    Decoder decoder(target, FormDrafter(thin_model(2, 2, 0.5, rng), form), {TraversalVerifier{}});
    const Options options{.max_new_tokens = 4, .gamma = 3};
    CHECK(
        largest_difference(exact_generate(decoder, prompt, options).law, target_law(target, prompt, options))
            .size < 1e-12);
  }
}

#ifndef SPECDEC_TEST_SOME
namespace {

// Draws a line, puts spares beside its least probable token, and draws a token after the first spare.
class WhereUnsure {
 public:
  WhereUnsure(TableModel<> model, Index most_spares) : model_(std::move(model)), spares_(most_spares) {}

  template <RandomSource Source>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source) {
    auto&& chance = as_chance(source);
    tree_ = {};
    tree_.rows.resize(limits.nodes < 1 ? 0 : std::min(limits.nodes, most), model_.vocab_size());
    const Index line = std::min({Index{2}, limits.depth, tree_.rows.rows()});
    Index unsure = 0;
    for (Index k = 0; k < line; ++k) {
      draw(context, k - 1, chance);
      if (drawn_with(k) < drawn_with(unsure)) unsure = k;
    }
    if (line > 0) add_spares(context, unsure);
    if (size() > line && unsure + 2 <= limits.depth && size() < tree_.rows.rows())
      draw(context, line, chance);
    tree_.rows.conservativeResize(size(), Eigen::NoChange);
    return tree_.view();
  }
  void truncate(Index) {}

 private:
  static constexpr Index most = 20;

  Index size() const { return std::ssize(tree_.tokens); }
  auto row_after(std::span<const Token> context, Index node) const {
    return model_.distribution(text_before(context, tree_.tokens, tree_.parents, node));
  }
  double drawn_with(Index k) const { return tree_.rows(k, tree_.tokens[static_cast<std::size_t>(k)]); }

  void draw(std::span<const Token> context, Index parent, auto& chance) {
    const auto q = row_after(context, parent);
    for (Token x = 0; x < model_.vocab_size(); ++x) tree_.rows(size(), x) = q.probability(x);
    tree_.tokens.push_back(chance.draw(q));
    tree_.parents.push_back(parent);
  }
  void add_spares(std::span<const Token> context, Index beside) {
    const auto q = row_after(context, beside - 1);
    const Token drawn = tree_.tokens[static_cast<std::size_t>(beside)];
    Index left = std::min(spares_, tree_.rows.rows() - size());
    for (Token x = 0; x < model_.vocab_size() && left > 0; ++x) {
      if (x == drawn || q.probability(x) == 0) continue;
      tree_.rows.row(size()).setZero();
      tree_.rows(size(), x) = 1;
      tree_.tokens.push_back(x);
      tree_.parents.push_back(beside - 1);
      --left;
    }
  }

  TableModel<> model_;
  Index spares_;
  ProposedTree tree_;
};

}  // namespace

TEST_CASE("the place of spares, and what is drawn after them, may depend on the drawn line") {
  for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(2, 12)); ++seed) {
    Models models = random_models(seed, 2 + static_cast<Index>(seed % 2));
    for (const Index most_spares : {1, 2})
      for (const AnyTreeRule& rule : rules)
        for (const Index gamma : {3, 5}) {
          SpecDec decoder{models.target, WhereUnsure(models.draft, most_spares), rule};
          const Options options{.max_new_tokens = 4, .gamma = gamma};
          const Law expected = target_law(models.target, prompt, options);
          CHECK(largest_difference(enumerate_generate(decoder, prompt, options).law, expected).size < 1e-12);
        }
  }
}

namespace {

// One of the ways to draft a tree, chosen at run time.
class AnyStrategy {
 public:
  static constexpr int kinds = 7;

  AnyStrategy(int kind, const TableModel<>& small, std::mt19937_64& rng)
      : drafter_(of(kind, small, rng)), size_(small.vocab_size()) {}

  ProposedTree& draft(std::span<const Token> context, const DraftLimits& limits, auto& chance) {
    std::visit([&](auto& drafter) { tree_.assign(drafter.draft(context, limits, chance), size_); }, drafter_);
    return tree_;
  }
  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

 private:
  template <class Siblings>
  using OfShape = ModelDrafter<TableModel<>, Tree<Siblings>>;
  using Any =
      std::variant<OfShape<Independent>, OfShape<WithoutReplacement>, OfShape<Likeliest>,
                   OfShape<DrawnThenLikeliest>, ModelDrafter<TableModel<>, Spares>,
                   ModelDrafter<TableModel<>, ConfidentTree>, ModelDrafter<TableModel<>, DrawnConfidentTree>>;

  static Any of(int kind, const TableModel<>& small, std::mt19937_64& rng) {
    const auto below = [&](Index n) { return static_cast<Index>(uniform01(rng) * static_cast<double>(n)); };
    const TreeShape shapes[] = {
        {-1, -1, 0}, {-1, 0, 1}, {-1, -1, 0, 1}, {-1, -1, 0, 1, 2}, {-1, -1, 0, 0, 2}};
    const TreeShape& shape = shapes[below(5)];
    const Index trunk = 1 + below(3);
    switch (kind) {
      case 0:
        return OfShape<Independent>(TableModel<>(small), Tree{shape, Independent{}});
      case 1:
        return OfShape<WithoutReplacement>(TableModel<>(small), Tree{shape, WithoutReplacement{}});
      case 2:
        return OfShape<Likeliest>(TableModel<>(small), Tree{shape, Likeliest{}});
      case 3:
        return OfShape<DrawnThenLikeliest>(TableModel<>(small), Tree{shape, DrawnThenLikeliest{}});
      case 4:
        return ModelDrafter<TableModel<>, Spares>(TableModel<>(small),
                                                  Spares{trunk, {below(3), 1 + below(2)}, below(3)});
      case 5:
        return ModelDrafter<TableModel<>, DrawnConfidentTree>(
            TableModel<>(small), DrawnConfidentTree{.width = 2 + below(2), .depth = 2});
      default:
        return ModelDrafter<TableModel<>, ConfidentTree>(TableModel<>(small),
                                                         ConfidentTree{.width = 2, .depth = 2, .nodes = 3});
    }
  }

  Any drafter_;
  Index size_;
  ProposedTree tree_;
};

}  // namespace

TEST_CASE("every rule keeps its law with every strategy on rows that hold few tokens", "[law]") {
  std::vector<AnyTreeRule> all = rules;
  all.push_back({KSeqVerifier{}});
  double worst = 0, drafted = 0, accepted = 0;
  Index cases = 0;
  for (int seed = 1; seed <= bound(6, 600); ++seed)
    for (int kind = 0; kind < AnyStrategy::kinds; ++kind) {
      std::mt19937_64 rng(static_cast<std::uint64_t>(seed));
      const Index vocab_size = 2 + seed % 2;
      auto target = thin_model(vocab_size, 2, 0.1, rng);
      const AnyStrategy drafter(kind, thin_model(vocab_size, 2, 0.5, rng), rng);
      const Options options{.max_new_tokens = 4, .gamma = 2 + seed % 4};
      const Law expected = target_law(target, prompt, options);
      for (const AnyTreeRule& rule : all) {
        const bool siblings_of_one_row = kind == 0;
        if (std::holds_alternative<KSeqVerifier>(rule.rule) && !siblings_of_one_row) continue;
        SpecDec decoder{target, AnyStrategy(drafter), rule};
        const GenerationLaw written = exact_generate(decoder, prompt, options);
        worst = std::max(worst, largest_difference(written.law, expected).size);
        drafted += written.drafted;
        accepted += written.accepted;
        ++cases;
      }
    }
  INFO(cases << " cases");
  CHECK(worst < 1e-12);
  CHECK(accepted > 0.5 * static_cast<double>(cases));
  CHECK(drafted - accepted > 0.5 * static_cast<double>(cases));
}

TEST_CASE("trees of a draft model with a smaller or larger vocabulary keep the target's law", "[law]") {
  const std::vector<Token> unknown{0, 2};  // to a model of two tokens, which refuses token 2
  for (const Index vocab_size : {2, 4})
    for (int kind = 0; kind < AnyStrategy::kinds; ++kind) {
      INFO("kind " << kind << ", over " << vocab_size << " tokens");
      double accepted = 0, foreign = 0;
      for (std::uint64_t seed = 1; seed <= static_cast<std::uint64_t>(bound(2, 8)); ++seed)
        for (const AnyTreeRule& rule : rules) {
          std::mt19937_64 rng{seed};
          auto target = TableModel<>::random(3, 2, rng);
          const AnyStrategy drafter(kind, TableModel<>::random(vocab_size, 1, rng), rng);
          SpecDec decoder{target, AnyStrategy(drafter), rule};
          const Options options{.max_new_tokens = 3, .gamma = 3};
          const Law expected = target_law(target, unknown, options);
          const GenerationLaw written = exact_generate(decoder, unknown, options);
          CHECK(largest_difference(written.law, expected).size < 1e-12);
          accepted += written.accepted;
          for (const auto& [tokens, p] : expected)
            if (std::ranges::find(tokens, 2) != tokens.end()) foreign += p;
        }
      CHECK(accepted > 0.5);
      CHECK(foreign > 0.5);
    }
}
#endif

TEST_CASE("at temperature 0 a tree gives greedy decoding, token for token") {
  for (std::uint64_t seed = 1; seed < 20; ++seed) {
    Models models = random_models(seed, 4);
    Decoder decoder(models.target, FormDrafter(models.draft, picked), {TrunkAndSpares<ArgmaxVerifier>{}});
    std::mt19937_64 rng{seed};
    const Options options{.max_new_tokens = 30, .gamma = 4};
    Target alone = models.target;
    CHECK(decoder.generate(prompt, options, rng).tokens ==
          autoregressive<ArgmaxVerifier>(alone, prompt, options, rng).tokens);
  }
}

TEST_CASE("the target keeps the accepted path, and the engine is told its nodes") {
  for (std::uint64_t seed = 1; seed < 30; ++seed) {
    const bool bounded = seed % 3 == 0;
    Models models = random_models(seed, 3, bounded ? 20 : unlimited);
    Target engine = models.target;
    const AnyTreeRule& rule = rules[seed % rules.size()];
    Decoder decoder(models.target, FormDrafter(models.draft, spares), rule);
    SpecDec by_hand(ExternalTarget{3, models.target.context_size()}, FormDrafter(models.draft, spares), rule);
    Options options{.max_new_tokens = 40, .gamma = 4};
    if (seed % 2 == 0) options.stop_tokens = {2};
    std::mt19937_64 one{seed}, other{seed};
    auto sequence = decoder.start(prompt, options);
    auto twin = by_hand.start(prompt, options);
    while (!sequence.done()) {
      const auto emitted = sequence.step(one);
      CHECK(holds(models.target, sequence));
      CHECK(std::ssize(sequence.context()) <= 40 + std::ssize(prompt));
      const Feed feed = twin.propose(other);
      REQUIRE(std::ssize(engine.context()) == feed.from);
      if (feed.parents.empty()) {
        const auto rows = engine.TableModel<>::forward(feed.tokens, feed.rows);
        const auto said = twin.accept(rows, other);
        CHECK(std::equal(said.begin(), said.end(), emitted.begin(), emitted.end()));
        engine.truncate(twin.kept());
      } else {
        const auto rows = engine.TableModel<>::forward(feed.tokens, feed.parents, feed.rows);
        const auto said = twin.accept(rows, other);
        CHECK(std::equal(said.begin(), said.end(), emitted.begin(), emitted.end()));
        engine.keep(twin.kept_path());
      }
      CHECK(std::ssize(engine.context()) == twin.kept());
    }
    CHECK(twin.done());
    if (options.stop_tokens.empty()) CHECK(models.target.forked > 0);
  }
}

TEST_CASE("a text of trees goes on after a release, and from a part of itself it goes on like a fresh text") {
  for (std::uint64_t seed = 1; seed < 10; ++seed) {
    Models models = random_models(seed, 3);
    Target other_target = models.target;
    Decoder decoder(models.target, FormDrafter(models.draft, two_one), {TraversalVerifier{}});
    Decoder other(other_target, FormDrafter(models.draft, two_one), {TraversalVerifier{}});
    const Options options{.max_new_tokens = 30, .gamma = 4};
    std::mt19937_64 rng{seed}, other_rng{seed};
    auto sequence = decoder.start(prompt, options), twin = other.start(prompt, options);
    for (int step = 0; !sequence.done(); ++step) {
      sequence.step(rng);
      twin.step(other_rng);
      if (step % 2 == 0) continue;
      sequence.pause();
      CHECK(sequence.kept() == 0);
      CHECK(models.target.context().empty());
    }
    CHECK(std::ranges::equal(sequence.context(), twin.context()));

    const auto whole = twin.context();
    const std::vector<Token> part(whole.begin(), whole.end() - 7);
    sequence.resume(part, options);
    CHECK(holds(models.target, sequence));
    auto fresh = other.start(part, options);
    std::mt19937_64 again{seed}, other_again{seed};
    sequence.generate(again);
    fresh.generate(other_again);
    CHECK(holds(models.target, sequence));
    CHECK(std::ranges::equal(sequence.tokens(), fresh.tokens()));
    CHECK(models.target.forked > 0);
  }
}

TEST_CASE("no path is longer than the budget, and no tree is larger than the context or gamma allows") {
  Models models = random_models(4, 3, 12);
  Decoder decoder(models.target, FormDrafter(models.draft, two_one), {TraversalVerifier{}});
  std::mt19937_64 rng{1};
  for (const Index gamma : {0, 1, 2, 4, 7})
    for (const Index budget : {1, 2, 3, 9}) {
      auto sequence = decoder.start(prompt, {.max_new_tokens = budget, .gamma = gamma});
      while (!sequence.done()) {
        const Index left = budget - std::ssize(sequence.tokens());
        const Feed feed = sequence.propose(rng);
        const Index drafted = feed.rows - 1;
        CHECK(drafted <= gamma);
        if (left == 1) CHECK(drafted == 0);
        if (left > 2 && gamma >= 4 && std::ssize(sequence.context()) < 8) CHECK(drafted == 4);
        Target fresh = models.target;
        fresh.truncate(0);
        std::vector<Token> all(sequence.context().begin(), sequence.context().begin() + feed.from);
        if (!all.empty()) fresh.TableModel<>::forward(all, 1);
        if (feed.parents.empty()) sequence.accept(fresh.forward(feed.tokens, feed.rows), rng);
        else sequence.accept(fresh.forward(feed.tokens, feed.parents, feed.rows), rng);
      }
      CHECK(std::ssize(sequence.tokens()) == std::min<Index>(budget, 11));
    }
}

TEST_CASE("statistics count the tokens of trees by depth and by the rank of siblings") {
  Models models = random_models(2);
  Decoder decoder(models.target, FormDrafter(models.draft, picked), {TraversalVerifier{}});
  std::mt19937_64 rng{1};
  const Result result = decoder.generate(prompt, {.max_new_tokens = 300, .gamma = 4}, rng);
  const Stats& stats = result.stats;
  REQUIRE(stats.drafted_by_position.size() == 2);
  REQUIRE(stats.offered_by_rank.size() == 2);
  CHECK(stats.drafted_by_position[0] >= stats.target_calls - 1);
  CHECK(stats.asked_by_position == stats.drafted_by_position);
  // Each accepted token has a rank. Each visited node with children offered both of them.
  CHECK(stats.accepted_by_rank[0] + stats.accepted_by_rank[1] >= stats.accepted);
  CHECK(stats.accepted_by_rank[1] > 0);
  CHECK(stats.offered_by_rank[0] == stats.offered_by_rank[1]);
  CHECK(stats.acceptance_by_rank()[0] == Approx(static_cast<double>(stats.accepted_by_rank[0]) /
                                                static_cast<double>(stats.offered_by_rank[0])));
  CHECK(to_json(stats).find("\"accepted_by_rank\":[") != std::string::npos);
  Stats twice = stats;
  twice += stats;
  CHECK(twice.accepted_by_rank[1] == 2 * stats.accepted_by_rank[1]);
}

TEST_CASE("a failing target call leaves sequence and context as before the step") {
  const Options options{.max_new_tokens = 12, .gamma = 4};
  for (Index calls = 0; calls < 6; ++calls) {
    Models models = random_models(7);
    Target untouched = models.target;
    Decoder decoder(models.target, FormDrafter(models.draft, spares), {TrunkAndSpares<BlockVerifier>{}});
    auto sequence = decoder.start(prompt, options);
    models.target.calls_to_failure = calls;
    std::mt19937_64 rng{3};
    int failures = 0;
    while (!sequence.done()) {
      const std::vector<Token> before(sequence.context().begin(), sequence.context().end());
      const std::mt19937_64 luck = rng;
      try {
        sequence.step(rng);
      } catch (const std::runtime_error&) {
        ++failures;
        rng = luck;
        CHECK(std::equal(before.begin(), before.end(), sequence.context().begin(), sequence.context().end()));
      }
      CHECK(holds(models.target, sequence));
    }
    CHECK(failures == 1);
    // With equal random numbers it then writes what it would have written.
    Decoder undisturbed(untouched, FormDrafter(models.draft, spares), {TrunkAndSpares<BlockVerifier>{}});
    std::mt19937_64 again{3};
    CHECK(sequence.result().tokens == undisturbed.generate(prompt, options, again).tokens);
  }
}

namespace {

// Proposes what it is told to propose.
struct Liar {
  std::vector<Token> tokens;
  std::vector<Index> parents;
  RowMajor<double> rows;

  Draft<Eigen::Map<const RowMajor<double>>> draft(std::span<const Token>, const DraftLimits&, auto&) const {
    return {tokens, {rows.data(), rows.rows(), rows.cols()}, parents};
  }
  void truncate(Index) {}
};

std::string complaint(std::vector<Token> tokens, std::vector<Index> parents, Index gamma = 4,
                      Index budget = 9) {
  Models models = random_models(7);
  const auto size = std::ssize(tokens);
  Liar liar{std::move(tokens), std::move(parents), RowMajor<double>::Constant(size, 3, 1.0 / 3)};
  SpecDec decoder(models.target, liar, TraversalVerifier{});
  std::mt19937_64 rng{1};
  return message_of([&] { decoder.generate(prompt, {.max_new_tokens = budget, .gamma = gamma}, rng); });
}

}  // namespace

TEST_CASE("a drafter's tree that is invalid or too large is an error that names the token") {
  CHECK(complaint({0, 1}, {-1, -1}, 4, 1) ==
        "specdec: the drafter proposed a path of 1 tokens when asked for at most 0");
  CHECK(complaint({}, {}).empty());
  CHECK(complaint({0, 1}, {-1, 1}) ==
        "specdec: parents[1] = 1 is outside -1..0: a token follows the context or a token before it");
  CHECK(complaint({0, 1}, {-2, 0}) ==
        "specdec: parents[0] = -2 is outside -1..-1: a token follows the context or a token before it");
  CHECK(complaint({0, 1}, {-1}) == "specdec: parents has 1 numbers, expected one for each of 2 tokens");
  CHECK(complaint({0, 1, 2}, {-1, -1, -1}, 2) ==
        "specdec: the drafter proposed 3 tokens when asked for at most 2");
  CHECK(complaint({0, 1, 2}, {-1, 0, 1}, 4, 3) ==
        "specdec: the drafter proposed a path of 3 tokens when asked for at most 2");
  CHECK(complaint({0, 3}, {-1, -1}) == "specdec: draft[1] = 3 is outside the vocabulary 0..2");
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("a rule for trees judges linear drafts, and writes what the linear rule writes") {
  std::mt19937_64 rng{5}, other = rng;
  Models models = random_models(11, 4);
  SpecDec linear(models.target, ModelDrafter{models.draft}, BlockVerifier{});
  SpecDec tree(models.target, ModelDrafter{models.draft}, TraversalVerifier{});
  const Options options{.max_new_tokens = 200, .gamma = 5};
  CHECK(linear.generate(prompt, options, rng).tokens == tree.generate(prompt, options, other).tokens);
}
#endif

}  // namespace law_tree_loop
