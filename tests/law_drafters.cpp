// The first law for drafters that remember: whatever they have learnt, from this text, from earlier ones or
// from the target's own rows, the output is distributed as the target's. Exact, by enumeration of the shipped
// templates, with a drafter of its own for every branch of chance.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/rules.hpp"

namespace law_drafters {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;

// The law of the texts of several generations in a row with one decoder, written one after the other.
template <class Drafter>
GenerationLaw law_of(const TableModel<>& target, const AnyRule& rule, Drafter (*make_drafter)(),
                     const std::vector<Tokens>& prompts, const Options& options) {
  GenerationLaw out;
  enumerate([&](Enumerator& chance) {
    SpecDec decoder{TableModel<>(target), make_drafter(), AnyRule(rule)};
    Tokens text;
    Stats stats;
    for (const Tokens& prompt : prompts) {
      const Result result = decoder.generate(prompt, options, chance);
      text.insert(text.end(), result.tokens.begin(), result.tokens.end());
      stats.drafted += result.stats.drafted;
      stats.accepted += result.stats.accepted;
    }
    out.law[text] += chance.probability();
    out.drafted += chance.probability() * static_cast<double>(stats.drafted);
    out.accepted += chance.probability() * static_cast<double>(stats.accepted);
  });
  return out;
}

// Of independent texts, one for each prompt.
Law independent(const TableModel<>& target, const std::vector<Tokens>& prompts, const Options& options) {
  Law joint{{{}, 1.0}};
  for (const Tokens& prompt : prompts) {
    Law longer;
    const Law next = target_law(target, prompt, options);
    for (const auto& [text, p] : joint)
      for (const auto& [more, q] : next) {
        Tokens both = text;
        both.insert(both.end(), more.begin(), more.end());
        longer[both] += p * q;
      }
    joint = std::move(longer);
  }
  return joint;
}

// The law of the last text given the ones before it, at its furthest from the target's.
double worst_conditional(const Law& joint, const Law& last) {
  std::map<Tokens, double> before;
  const auto length = static_cast<std::ptrdiff_t>(last.begin()->first.size());
  for (const auto& [text, p] : joint) before[{text.begin(), text.end() - length}] += p;
  double worst = 0;
  for (const auto& [text, p] : joint) {
    const double given = p / before[{text.begin(), text.end() - length}];
    worst = std::max(worst, std::abs(given - last.at({text.end() - length, text.end()})));
  }
  return worst;
}

// A prompt that repeats itself, so that there is something to propose.
Tokens repetitive(Index vocab_size) {
  return vocab_size == 2 ? Tokens{0, 1, 0, 0, 1, 0} : Tokens{0, 1, 2, 0, 1, 1, 2, 0};
}

SuffixDrafter<> suffix() { return SuffixDrafter{}; }
SuffixDrafter<> taught_suffix() {
  SuffixDrafter drafter{{.max_match = 2}};
  drafter.learn(Tokens{0, 1, 0, 0, 1, 1, 0, 1, 0});
  return drafter;
}
SuffixDrafter<> choosy_suffix() { return SuffixDrafter{{.max_match = 3, .min_share = 0.6}}; }
LookaheadDrafter lookahead() { return LookaheadDrafter{{.ngram = 2}}; }
LookaheadDrafter jacobi() { return LookaheadDrafter{{.ngram = 3, .pool = 1, .text = false}}; }

template <class Drafter>
void check_lossless_with(Drafter (*make_drafter)()) {
  for (const AnyVerifier& rule : sampling_rules) {
    INFO(rule.name());
    std::mt19937_64 rng{31};
    for (const Index vocab_size : {2, 3})
      for (const Index gamma : {1, 2, 3}) {
        double difference = 0, drafted = 0, accepted = 0;
        for (int model = 0; model < 16; ++model) {
          const auto target = TableModel<>::random(vocab_size, 2, rng);
          const std::vector<Tokens> prompts{repetitive(vocab_size)};
          const Options options{.max_new_tokens = 5, .gamma = gamma};
          const GenerationLaw got = law_of(target, for_loops(rule), make_drafter, prompts, options);
          difference =
              std::max(difference, largest_difference(got.law, independent(target, prompts, options)).size);
          drafted += got.drafted;
          accepted += got.accepted;
        }
        CHECK(difference < 1e-12);
        CHECK(drafted > 1);
        CHECK(accepted > 0.1);
        CHECK(drafted - accepted > 0.1);
      }
  }
}

template <class Drafter>
void check_two_generations_with(Drafter (*make_drafter)()) {
  for (const AnyVerifier& rule : sampling_rules) {
    INFO(rule.name());
    std::mt19937_64 rng{32};
    for (const Index vocab_size : {2, 3}) {
      const int length = vocab_size == 2 ? 4 : 3;
      for (const Index gamma : {1, 2, 3}) {
        double difference = 0, conditional = 0, accepted = 0;
        for (int model = 0; model < 6; ++model) {
          const auto target = TableModel<>::random(vocab_size, 2, rng);
          const std::vector<Tokens> prompts{{0}, {0}};  // the second has only the first to learn from
          const Options options{.max_new_tokens = length, .gamma = gamma};
          const GenerationLaw got = law_of(target, for_loops(rule), make_drafter, prompts, options);
          difference =
              std::max(difference, largest_difference(got.law, independent(target, prompts, options)).size);
          conditional =
              std::max(conditional, worst_conditional(got.law, target_law(target, prompts.back(), options)));
          accepted += got.accepted;
        }
        CHECK(difference < 1e-12);
        CHECK(conditional < 1e-9);
        CHECK(accepted > 0.01);
      }
    }
  }
}

}  // namespace

TEST_CASE("lossless with drafters that learn from the text", "[law]") {
  check_lossless_with(suffix);
  check_lossless_with(taught_suffix);
  check_lossless_with(choosy_suffix);
}

TEST_CASE("lossless with a drafter that learns from the target's rows", "[law]") {
  check_lossless_with(lookahead);
  check_lossless_with(jacobi);
}

TEST_CASE("the next text is independent of the one that its drafts come from", "[law]") {
  check_two_generations_with(suffix);
  check_two_generations_with(lookahead);
  check_two_generations_with(jacobi);
}

namespace {

// Proposes what a suffix drafter does and reports something else: that every token was as likely.
class Dishonest {
 public:
  explicit Dishonest(Index vocab_size) : vocab_size_(vocab_size) {}
  template <RandomSource Source>
  Draft<DenseRows<NumbersOf<const Eigen::MatrixXd&>>> draft(std::span<const Token> context, Index gamma,
                                                            Source& source) {
    const auto proposed = honest_.draft(context, gamma, source);
    rows_ = Eigen::MatrixXd::Constant(std::ssize(proposed.tokens), vocab_size_,
                                      1 / static_cast<double>(vocab_size_));
    return {proposed.tokens, DenseRows(std::as_const(rows_))};
  }
  void truncate(Index length) { honest_.truncate(length); }

 private:
  Index vocab_size_;
  SuffixDrafter<> honest_;
  Eigen::MatrixXd rows_;
};

// Proposes at random and reports what it proposed. That is honest: once the drafter's coins, which decide
// nothing else, have fallen, q is what the tokens were drawn from.
class Capricious {
 public:
  explicit Capricious(Index vocab_size)
      : uniform_(Eigen::RowVectorXd::Constant(vocab_size, 1 / static_cast<double>(vocab_size))) {}
  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, Source& source) {
    auto&& chance = as_chance(source);
    tokens_.clear();
    while (std::ssize(tokens_) < gamma)
      tokens_.push_back(chance.draw(DenseRow<double>(uniform_.data(), uniform_.size())));
    return {tokens_, OneHotRows(tokens_)};
  }
  void truncate(Index) {}

 private:
  Eigen::RowVectorXd uniform_;
  Tokens tokens_;
};

}  // namespace

TEST_CASE("the law convicts a drafter that reports what it did not draw from", "[law]") {
  std::mt19937_64 rng{33};
  const auto target = TableModel<>::random(3, 2, rng);
  const std::vector<Tokens> prompts{repetitive(3)};
  const Options options{.max_new_tokens = 4, .gamma = 2};
  const Law expected = independent(target, prompts, options);
  const auto dishonest = +[] { return Dishonest(3); };
  const auto capricious = +[] { return Capricious(3); };
  for (const AnyVerifier& rule : ratio_rules) {
    INFO(rule.name());
    const GenerationLaw wrong = law_of(target, for_loops(rule), dishonest, prompts, options);
    CHECK(largest_difference(wrong.law, expected).size > 1e-2);
    const GenerationLaw right = law_of(target, for_loops(rule), capricious, prompts, options);
    CHECK(largest_difference(right.law, expected).size < 1e-12);
  }
}

}  // namespace law_drafters
