// Dead ends, rows in which no token has a positive probability: a text fails as often as if the target alone wrote it, and
// the law of the texts that do not fail is the target's. Only a text that reaches the dead end fails; a draft may run into it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/search/beam_search.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/rules.hpp"
#include "support/strict.hpp"

namespace law_dead_ends {

using namespace specdec;
using namespace specdec::testing;
using support::RowMajor;

namespace {

constexpr Index vocabulary = 3;
constexpr Token deadly = 1;  // after this token nothing is allowed
const std::vector<Token> prompt{0};

using Row = Eigen::RowVectorXd;

// Logits that depend on the last token.
struct Logits {
  double sharpness = 1;
  bool ends = false;  // whether no token is allowed after `deadly`
  bool loud = false;  // whether the model throws where it is asked for such a row
  std::vector<Token> context = {};
  std::vector<Token> tree = {};
  RowMajor<double> out = {};

  Row after(Token x) const {
    if (loud && x == deadly) throw std::runtime_error("a row after the end of the text is asked for");
    if (ends && x == deadly) return Row::Constant(vocabulary, -std::numeric_limits<double>::infinity());
    return sharpness * Row{{0.1 * x, 0.6, 0.2 * x - 0.3}};
  }
  Index vocab_size() const { return vocabulary; }
  const RowMajor<double>& rows(std::span<const Token> tokens, Index count) {
    out.resize(count, vocab_size());
    for (Index i = 0; i < count; ++i)
      out.row(i) = after(tokens[tokens.size() - static_cast<std::size_t>(count - i)]);
    return out;
  }
  const RowMajor<double>& forward(std::span<const Token> tokens, Index count) {
    support::check_call(tokens, count, vocabulary);
    support::must(tree.empty(), "fed a line while a tree is open");
    context.insert(context.end(), tokens.begin(), tokens.end());
    return rows(tokens, count);
  }
  const RowMajor<double>& forward(std::span<const Token> tokens, std::span<const Index> parents,
                                  Index count) {
    support::check_call(tokens, parents, std::ssize(tree), count, vocabulary);
    tree.insert(tree.end(), tokens.begin(), tokens.end());
    return rows(tokens, count);
  }
  void keep(std::span<const Index> path) {
    for (const Index k : path) context.push_back(tree[static_cast<std::size_t>(k)]);
    tree.clear();
  }
  void truncate(Index length) {
    tree.clear();
    if (length < std::ssize(context)) context.resize(static_cast<std::size_t>(length));
  }
};

// A law with the probability of failure; `all` is the sum of both.
struct FailingLaw {
  Law law;
  double fails = 0, all = 0;
};

constexpr Index length = 3;

void add_alone(const Logits& model, const Options& options, std::vector<Token>& text, double p,
               FailingLaw& out) {
  specdec::detail::StopSearch search;
  const auto completes = [&](Token x) { return options.stop_strings.find(search, x).has_value(); };
  const bool stops =
      !text.empty() && (options.stop_tokens.contains(text.back()) || (options.ends && options.ends(text)));
  if (std::ssize(text) == options.max_new_tokens || stops ||
      std::any_of(text.begin(), text.end(), completes)) {
    out.law[text] += p;
    return;
  }
  const Row l = model.after(text.empty() ? prompt.back() : text.back());
  double sum = 0;
  for (const double logit : l) sum += std::exp(logit);
  if (sum == 0) out.fails += p;
  for (Token x = 0; sum > 0 && x < vocabulary; ++x) {
    text.push_back(x);
    add_alone(model, options, text, p * std::exp(l[x]) / sum, out);
    text.pop_back();
  }
}

FailingLaw alone(bool ends, const Options& options) {
  FailingLaw out;
  std::vector<Token> text;
  add_alone({1, ends}, options, text, 1, out);
  return out;
}

// Which tokens nothing is allowed after, in the target and in the draft model.
struct Ends {
  bool of_target, of_draft;
  bool loud = false;  // whether the target throws there
};

template <class Strategy, class Rule>
FailingLaw drafted(const Ends& ends, const Options& options, const Strategy& strategy, const Rule& rule,
                   double temperature) {
  FailingLaw out;
  enumerate([&](Enumerator& chance) {
    SpecDec decoder{
        ProcessedModel{Logits{1, ends.of_target, ends.loud}, Chain{Temperature{1.0}}},
        ModelDrafter{ProcessedModel{Logits{2, ends.of_draft}, Chain{Temperature{temperature}}}, strategy},
        rule};
    try {
      const auto text = decoder.generate(prompt, options, chance).tokens;
      out.law[text] += chance.probability();
    } catch (const InvalidDistribution&) {
      out.fails += chance.probability();
    }
    out.all += chance.probability();
  });
  return out;
}

template <class Strategy, class Rule>
double check(const Ends& ends, const Options& options, const Strategy& strategy, const Rule& rule,
             double temperature = 1) {
  INFO("the target has dead ends: " << ends.of_target << ", and throws there: " << ends.loud
                                    << ", the draft model has dead ends: " << ends.of_draft);
  const FailingLaw expected = alone(ends.of_target, options),
                   found = drafted(ends, options, strategy, rule, temperature);
  CHECK(std::abs(found.all - 1) < 1e-12);
  CHECK(std::abs(found.fails - expected.fails) < 1e-12);
  CHECK(largest_difference(found.law, expected.law).size < 1e-12);
  return expected.fails;
}

template <class Strategy, class Rule>
void check(const Strategy& strategy, const Rule& rule, double temperature = 1) {
  for (const bool target_ends : {true, false})
    for (const bool draft_ends : {true, false}) {
      const Options options{.max_new_tokens = length, .gamma = 5};
      CHECK((check({target_ends, draft_ends}, options, strategy, rule, temperature) > 0.5) == target_ends);
    }
}

// The text ends with the token that nothing is allowed after: by a stop token, by a stop string, or by the condition.
template <class Strategy, class Rule>
void check_ended(const Strategy& strategy, const Rule& rule) {
  const std::vector<std::string> bytes{"a", "bc", "d"};  // `deadly` completes "c"
  const auto bytes_of = [bytes](Token x) { return bytes[static_cast<std::size_t>(x)]; };
  const auto at_deadly = [](std::span<const Token> text) { return text.back() == deadly; };
  const auto after_other = [](std::span<const Token> text) {
    return text.size() > 1 && text[text.size() - 2] == 2 && text.back() == deadly;
  };
  const Options by_token{.max_new_tokens = length, .gamma = 5, .stop_tokens = {deadly}},
      by_string{.max_new_tokens = length, .gamma = 5, .stop_strings = {{"c"}, bytes_of}},
      by_condition{.max_new_tokens = length, .gamma = 5, .ends = at_deadly},
      by_tokens{.max_new_tokens = length, .gamma = 5, .stop_strings = {{"db"}, bytes_of}},
      by_text{.max_new_tokens = length, .gamma = 5, .ends = after_other};
  for (const Ends& ends : {Ends{true, false}, Ends{true, true}, Ends{true, false, true}})
    for (const Options& options : {by_token, by_string}) CHECK(check(ends, options, strategy, rule) == 0);
  CHECK(check({true, false, true}, by_condition, strategy, rule) == 0);
  // Some texts end with the token; the others fail there.
  for (const bool draft_ends : {true, false}) CHECK(check({true, draft_ends}, by_tokens, strategy, rule) > 0);
  CHECK(check({true, true}, by_text, strategy, rule) > 0);
}

// A rule for trees that remembers nothing.
struct TreeRule {
  std::variant<TraversalVerifier, RecursiveRejectionVerifier, KSeqVerifier, TrunkAndSpares<BlockVerifier>,
               TrunkAndSpares<SampleMatchVerifier>>
      rule;

  // Those that take siblings drawn without replacement.
  static std::vector<TreeRule> without_replacement() {
    return {{TraversalVerifier{}},
            {RecursiveRejectionVerifier{}},
            {TrunkAndSpares<BlockVerifier>{}},
            {TrunkAndSpares<SampleMatchVerifier>{}}};
  }

  NodeVerdict judge(const auto& tree, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(tree, chance); }, rule);
  }
};

// A rule for lines that remembers nothing, so that a dead end ends the draft.
struct LineRule {
  std::variant<BlockVerifier, TokenVerifier, SampleMatchVerifier, LenientVerifier> rule;

  static std::vector<LineRule> all() {
    return {{BlockVerifier{}}, {TokenVerifier{}}, {SampleMatchVerifier{}}, {LenientVerifier{1.0}}};
  }

  Verdict judge(const auto& line, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(line, chance); }, rule);
  }
};

}  // namespace

TEST_CASE("dead ends: a line fails as often as the target alone, and has its law", "[law]") {
  for (const LineRule& rule : LineRule::all()) {
    INFO("rule " << rule.rule.index());
    check(Line{}, rule);
  }
  check(Line{}, LineRule{BlockVerifier{}}, 0);
}

TEST_CASE("dead ends: where lengths are fixed, a line goes on, and greedy block verification is exact",
          "[law][long]") {
  check(Line{}, GreedyBlockVerifier{});
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("dead ends: target and drafter that share their random numbers come there together", "[law]") {
  const std::vector<Ends> all{{true, true}, {true, false}, {false, true}};
  for (const Ends& ends : all) {
    Index failed = 0, texts = 0;
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      const auto write = [&](auto drafter, const auto& rule) -> std::vector<Token> {
        SpecDec decoder{ProcessedModel{Logits{1, ends.of_target}, Chain{Temperature{1.0}}},
                        std::move(drafter), rule};
        Keyed keyed(seed);
        try {
          return decoder.generate(prompt, {.max_new_tokens = length, .gamma = 5}, keyed).tokens;
        } catch (const InvalidDistribution&) {
          return {};
        }
      };
      ProcessedModel small{Logits{2, ends.of_draft}, Chain{Temperature{1.0}}};
      const std::vector<Token> text = write(NoDrafter{}, KeyedVerifier{});
      text.empty() ? ++failed : ++texts;
      CHECK(write(ModelDrafter{small}, KeyedVerifier{}) == text);
      CHECK(write(ModelDrafter{small, Spares{2, {1}, 1}}, TrunkAndSpares<KeyedVerifier>{}) == text);
      CHECK(write(ModelDrafter{small, Tree{TreeShape({-1, -1, 0, 1}), Likeliest{}}},
                  TrunkAndSpares<KeyedVerifier>{}) == text);
    }
    CHECK(texts > 30);
    CHECK((failed > 30) == ends.of_target);
  }
}

TEST_CASE("dead ends: greedy decoding fails if its own text comes there, and only then") {
  for (const double sharpness : {1.0, -1.0})
    for (const Ends& ends : {Ends{true, true}, Ends{true, false}, Ends{false, true}}) {
      const auto write = [&](auto drafter, const auto& rule) -> std::vector<Token> {
        SpecDec decoder{ProcessedModel{Logits{sharpness, ends.of_target}, Chain{Temperature{0.0}}}, drafter,
                        rule};
        SplitMix64 rng{1};
        try {
          return decoder.generate(prompt, {.max_new_tokens = length, .gamma = 5}, rng).tokens;
        } catch (const InvalidDistribution&) {
          return {};
        }
      };
      // The deadly token is the likeliest of each row if the sharpness is 1, and the least likely if it is −1.
      const std::vector<Token> text = write(NoDrafter{}, ArgmaxVerifier{});
      CHECK(text.empty() == (ends.of_target && sharpness == 1));
      for (const double of_draft : {1.0, -1.0}) {
        ProcessedModel small{Logits{of_draft, ends.of_draft}, Chain{Temperature{1.0}}};
        CHECK(write(ModelDrafter{small}, ArgmaxVerifier{}) == text);
        CHECK(write(ModelDrafter{small, ConfidentTree{.width = 2, .depth = 3, .nodes = 6}},
                    TrunkAndSpares<ArgmaxVerifier>{}) == text);
      }
    }
}
#endif

TEST_CASE("dead ends: a tree fails as often as the target alone, and has its law", "[law]") {
  const TreeShape shape({-1, -1, 0, 0, 1});
  for (const TreeRule& rule : TreeRule::without_replacement()) {
    INFO("rule " << rule.rule.index());
    check(Tree{shape, WithoutReplacement{}}, rule);
#ifndef SPECDEC_TEST_SOME
    check(Spares{2, {1}, 1}, rule);
#endif
  }
#ifndef SPECDEC_TEST_SOME
  for (const TreeRule& rule : {TreeRule{TraversalVerifier{}}, TreeRule{KSeqVerifier{}}}) {
    INFO("independent siblings, rule " << rule.rule.index());
    check(Tree{shape, Independent{}}, rule);
  }
#endif
}

TEST_CASE("dead ends: a text that has ended does not fail, whatever follows it", "[law]") {
  for (const LineRule& rule : LineRule::all()) {
    INFO("rule " << rule.rule.index());
    check_ended(Line{}, rule);
  }
  check_ended(Line{}, GreedyBlockVerifier{});
  const TreeShape shape({-1, -1, 0, 0, 1, 2, 4});
  for (const TreeRule& rule : TreeRule::without_replacement()) {
    INFO("rule for trees " << rule.rule.index());
    check_ended(Tree{shape, WithoutReplacement{}}, rule);
#ifndef SPECDEC_TEST_SOME
    check_ended(Spares{3, {1}, 1}, rule);
#endif
  }
#ifndef SPECDEC_TEST_SOME
  check_ended(Tree{shape, Independent{}}, TreeRule{KSeqVerifier{}});
#endif
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("dead ends: a cascade ends its draft where its model has one, or goes on where lengths are fixed",
          "[law]") {
  const auto check_by = [](const auto& outer, const auto& inner, bool ends) {
    const FailingLaw expected = alone(false, {.max_new_tokens = length});
    FailingLaw found;
    Index drafted = 0;
    enumerate([&](Enumerator& chance) {
      SpecDec decoder{
          ProcessedModel{Logits{1, false}, Chain{Temperature{1.0}}},
          CascadeDrafter{ProcessedModel{Logits{2, true}, Chain{Temperature{1.0}}},
                         ModelDrafter{ProcessedModel{Logits{-1, ends}, Chain{Temperature{1.0}}}}, inner, 1},
          outer};
      const Result result = decoder.generate(prompt, {.max_new_tokens = length, .gamma = 2}, chance);
      found.law[result.tokens] += chance.probability();
      drafted = std::max(drafted, result.stats.drafted);
    });
    CHECK(drafted > 1);
    CHECK(largest_difference(found.law, expected.law).size < 1e-12);
  };
  for (const bool ends : {true, false}) {
    for (const LineRule& inner : LineRule::all()) check_by(LineRule{BlockVerifier{}}, inner, ends);
    check_by(GreedyBlockVerifier{}, LineRule{BlockVerifier{}}, ends);
    check_by(GreedyBlockVerifier{}, LineRule{SampleMatchVerifier{}}, ends);
    check_by(LineRule{BlockVerifier{}}, GreedyBlockVerifier{}, ends);
  }
}

TEST_CASE("dead ends: beams are those of plain beam search, wherever proposed texts end") {
  const BeamOptions options{.max_new_tokens = 4, .width = 1, .draft_width = 3, .gamma = 2};
  const auto model = [](double sharpness) {
    return ProcessedModel{Logits{sharpness, true}, Chain{Temperature{1.0}}};
  };
  // The deadly token is the likeliest of each row if the sharpness is 1, and the least likely if it is −1.
  CHECK_THROWS_AS(BeamSearch{model(1)}.generate(prompt, options), InvalidDistribution);
  CHECK_THROWS_AS((BeamSearch{model(1), model(-1)}.generate(prompt, options)), InvalidDistribution);
  const auto plain = BeamSearch{model(-1)}.generate(prompt, options);
  const auto found = BeamSearch{model(-1), model(1)}.generate(prompt, options);
  REQUIRE(found.beams.size() == 1);
  CHECK(found.beams[0].tokens == plain.beams[0].tokens);
  CHECK(found.beams[0].log_probability == plain.beams[0].log_probability);
  CHECK(found.drafted > 0);
}
#endif

}  // namespace law_dead_ends
