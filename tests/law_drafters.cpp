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

using namespace specdec;
using namespace specdec::testing;

namespace {

using Tokens = std::vector<Token>;

// The law of the texts of several generations in a row with one decoder, written one after the other.
template <class V, class Make>
GenerationLaw law_of(const TableModel<>& target, const Make& make_drafter, const std::vector<Tokens>& prompts,
                     const Options& options) {
  GenerationLaw out;
  enumerate([&](Enumerator& chance) {
    SpecDec decoder{TableModel<>(target), make_drafter(), V{}};
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

const auto table = [] { return NgramTableDrafter{{.max_ngram = 2}}; };
const auto taught_table = [] {
  NgramTableDrafter drafter{{.max_ngram = 3, .min_count = 2}};
  drafter.learn(Tokens{0, 1, 0, 0, 1, 1, 0, 1, 0});
  return drafter;
};
const auto suffix = [] { return SuffixDrafter{}; };
const auto choosy_suffix = [] { return SuffixDrafter{{.max_match = 3, .min_share = 0.6}}; };
const auto lookahead = [] { return LookaheadDrafter{{.ngram = 2}}; };
const auto jacobi = [] { return LookaheadDrafter{{.ngram = 3, .pool = 1, .text = false}}; };

template <class V, class Make>
void check_lossless_with(const Make& make_drafter) {
  std::mt19937_64 rng{31};
  for (const Index vocab_size : {2, 3})
    for (const Index gamma : {1, 2, 3}) {
      double drafted = 0, accepted = 0, missed = 0;
      for (int model = 0; model < 16; ++model) {
        const auto target = TableModel<>::random(vocab_size, 2, rng);
        const std::vector<Tokens> prompts{repetitive(vocab_size)};
        const Options options{.max_new_tokens = 5, .gamma = gamma};
        const GenerationLaw got = law_of<V>(target, make_drafter, prompts, options);
        CHECK(largest_difference(got.law, independent(target, prompts, options)).size < 1e-12);
        drafted += got.drafted;
        accepted += got.accepted;
        missed += got.drafted - got.accepted;
      }
      CHECK(drafted > 1);
      CHECK(accepted > 0.1);
      CHECK(missed > 0.1);
    }
}

template <class V, class Make>
void check_two_generations_with(const Make& make_drafter) {
  std::mt19937_64 rng{32};
  for (const Index vocab_size : {2, 3}) {
    const int length = vocab_size == 2 ? 4 : 3;
    for (const Index gamma : {1, 2, 3}) {
      double accepted = 0;
      for (int model = 0; model < 6; ++model) {
        const auto target = TableModel<>::random(vocab_size, 2, rng);
        const std::vector<Tokens> prompts{{0}, {0}};  // the second has only the first to learn from
        const Options options{.max_new_tokens = length, .gamma = gamma};
        const GenerationLaw got = law_of<V>(target, make_drafter, prompts, options);
        CHECK(largest_difference(got.law, independent(target, prompts, options)).size < 1e-12);
        CHECK(worst_conditional(got.law, target_law(target, prompts.back(), options)) < 1e-9);
        accepted += got.accepted;
      }
      CHECK(accepted > 0.02);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("lossless with drafters that learn from the text", "[law]", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, SampleMatchVerifier) {
  check_lossless_with<TestType>(table);
  check_lossless_with<TestType>(taught_table);
  check_lossless_with<TestType>(suffix);
  check_lossless_with<TestType>(choosy_suffix);
}

TEMPLATE_TEST_CASE("lossless with a drafter that learns from the target's rows", "[law]", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  check_lossless_with<TestType>(lookahead);
  check_lossless_with<TestType>(jacobi);
}

TEMPLATE_TEST_CASE("the next text is independent of the one that its drafts come from", "[law]",
                   TokenVerifier, BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  check_two_generations_with<TestType>(table);
  check_two_generations_with<TestType>(suffix);
  check_two_generations_with<TestType>(lookahead);
  check_two_generations_with<TestType>(jacobi);
}

namespace {

// Proposes what the table does and reports something else: that every token was as likely.
class Dishonest {
 public:
  explicit Dishonest(Index vocab_size) : vocab_size_(vocab_size) {}
  template <RandomSource Source>
  Draft<DenseRows<NumbersOf<const Eigen::MatrixXd&>>> draft(std::span<const Token> context, Index gamma,
                                                            Source& source) {
    const auto proposed = table_.draft(context, gamma, source);
    rows_ = Eigen::MatrixXd::Constant(std::ssize(proposed.tokens), vocab_size_,
                                      1 / static_cast<double>(vocab_size_));
    return {proposed.tokens, DenseRows(std::as_const(rows_))};
  }
  void truncate(Index length) { table_.truncate(length); }

 private:
  Index vocab_size_;
  NgramTableDrafter table_;
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

TEMPLATE_TEST_CASE("the law convicts a drafter that reports what it did not draw from", "[law]",
                   TokenVerifier, BlockVerifier, GreedyBlockVerifier) {
  std::mt19937_64 rng{33};
  const auto target = TableModel<>::random(3, 2, rng);
  const std::vector<Tokens> prompts{repetitive(3)};
  const Options options{.max_new_tokens = 4, .gamma = 2};
  const Law expected = independent(target, prompts, options);
  const GenerationLaw wrong = law_of<TestType>(
      target, [] { return Dishonest(3); }, prompts, options);
  CHECK(largest_difference(wrong.law, expected).size > 1e-2);
  const GenerationLaw right = law_of<TestType>(
      target, [] { return Capricious(3); }, prompts, options);
  CHECK(largest_difference(right.law, expected).size < 1e-12);
}
