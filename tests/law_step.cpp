// The laws of one iteration: it is valid, tokens survive as defined, and the rules are ordered.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/models.hpp"

namespace law_step {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// One step from a fresh sequence: P(τ > i) for i < γ, and the law of the output after the target alone has completed it to
// γ+1 tokens. This law is the target's if and only if the rule is valid (Sun et al., Lemma 2).
struct StepLaw {
  Law law;
  std::vector<double> beyond;  // [i]: P(τ > i)
  double expected_accepted() const {
    double sum = 0;
    for (const double probability : beyond) sum += probability;
    return sum;
  }
};

// The exact StepLaw. `target` has distribution(context) besides the Model calls.
template <class Target, class Drafter, class V>
StepLaw exact_step(Target& target, Drafter& drafter, const V& verifier, std::span<const Token> prompt,
                   Index gamma) {
  SpecDec<Target&, Drafter&, V> decoder(target, drafter, verifier);
  const Options options{.max_new_tokens = gamma + 1, .gamma = gamma};
  StepLaw out;
  specdec::detail::resize(out.beyond, gamma);
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, options);
    sequence.step(chance);
    const double p = chance.probability();
    for (Index i = 0; i < sequence.stats().accepted; ++i) specdec::detail::at(out.beyond, i) += p;
    std::vector<Token> context(sequence.context().begin(), sequence.context().end());
    testing::detail::continue_law(target, context, prompt.size(), p, options, testing::detail::sampled,
                                  out.law);
  });
  return out;
}

struct Pair {
  TableModel<> target, draft;
};

Pair random_pair(Index vocab_size, std::mt19937_64& rng) {
  auto target = TableModel<>::random(vocab_size, 2, rng);
  return {std::move(target), TableModel<>::random(vocab_size, 2, rng)};
}

template <class F>
void for_random_pairs(Index models, F&& f) {
  std::mt19937_64 rng{31};
  for (const Index vocab_size : {2, 3, 4})
    for (const Index gamma : {1, 2, 3})
      for (Index n = 0; n < models; n += support::every(10)) f(random_pair(vocab_size, rng), gamma);
}

const std::vector<Token> prompt{0, 1};

template <class V>
StepLaw step(const Pair& pair, const V& verifier, Index gamma) {
  TableModel<> target = pair.target;
  ModelDrafter drafter{TableModel<>(pair.draft)};
  return exact_step(target, drafter, verifier, prompt, gamma);
}

// Calls f(x_1..x_i, probability under the draft) for every drafted sequence of `length` tokens.
template <class F>
void for_drafts(const Pair& pair, std::vector<Token>& context, Index length, double probability, const F& f) {
  if (length == 0) return f(std::span<const Token>(context).subspan(prompt.size()), probability);
  for (Token x = 0; x < pair.draft.vocab_size(); ++x) {
    const double q = pair.draft.distribution(context).probability(x);
    if (q == 0) continue;
    context.push_back(x);
    for_drafts(pair, context, length - 1, probability * q, f);
    context.pop_back();
  }
}

// For each rule, the probability that a whole given draft survives, from the definitions: w_i for block, g_i for
// greedy block (clipped to 1), the token rule's and the matching rule's.
struct Weights {
  double block = 1, greedy = 1, token = 1, match = 1;
};
Weights weights(const Pair& pair, std::span<const Token> drafted) {
  std::vector<Token> context = prompt;
  Weights w;
  for (const Token x : drafted) {
    const double ratio =
        pair.target.distribution(context).probability(x) / pair.draft.distribution(context).probability(x);
    w.block = std::min(1.0, w.block * ratio);
    w.greedy *= ratio;
    w.token *= std::min(1.0, ratio);
    w.match *= pair.target.distribution(context).probability(x);
    context.push_back(x);
  }
  return w;
}

// The means of these weights over drafts of length i.
Weights mean_over_drafts(const Pair& pair, Index i) {
  Weights mean{0, 0, 0, 0};
  std::vector<Token> context = prompt;
  for_drafts(pair, context, i, 1.0, [&](std::span<const Token> drafted, double p) {
    const Weights w = weights(pair, drafted);
    mean.block += p * w.block;
    mean.token += p * w.token;
    mean.greedy += p * std::min(1.0, w.greedy);
    mean.match += p * w.match;
  });
  return mean;
}

}  // namespace

TEST_CASE("the toy models accept 10/9, 11/9 and 12/9 tokens", "[law]") {
  auto target = toy_target();
  auto drafter = toy_drafter();
  const std::vector<Token> any{0};
  const auto expected = [&](const auto& verifier) {
    return exact_step(target, drafter, verifier, any, 2).expected_accepted();
  };
  CHECK(expected(TokenVerifier{}) == Approx(10.0 / 9).epsilon(1e-14));
  CHECK(expected(BlockVerifier{}) == Approx(11.0 / 9).epsilon(1e-14));
  CHECK(expected(GreedyBlockVerifier{}) == Approx(12.0 / 9).epsilon(1e-14));
}

TEST_CASE("the mean accepted length is the definition's, position by position", "[law]") {
  // Lemma 3 in the mean: P(τ > i) is E[w_{i+1}] for block, E[Π min(1, p/q)] for token, E[min(1, g_{i+1})] =
  // Σ min(p, q) of the joint prefixes for greedy block verification; Σ p·q along the draft for
  // sample-and-match.
  for_random_pairs(40, [](const Pair& pair, Index gamma) {
    const auto block = step(pair, BlockVerifier{}, gamma).beyond;
    const auto token = step(pair, TokenVerifier{}, gamma).beyond;
    const auto greedy = step(pair, GreedyBlockVerifier{}, gamma).beyond;
    const auto match = step(pair, SampleMatchVerifier{}, gamma).beyond;
    for (Index i = 0; i < gamma; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const Weights mean = mean_over_drafts(pair, i + 1);
      CHECK(std::abs(block[k] - mean.block) < 1e-13);
      CHECK(std::abs(token[k] - mean.token) < 1e-13);
      CHECK(std::abs(greedy[k] - mean.greedy) < 1e-13);
      CHECK(std::abs(match[k] - mean.match) < 1e-13);
    }
  });
}

TEST_CASE("Lemma 3: given x_1..x_i, block verification keeps them with probability w_i", "[law]") {
  for_random_pairs(10, [](const Pair& pair, Index gamma) {
    TableModel<> target = pair.target;
    std::map<std::vector<Token>, double> drafted, kept;
    enumerate([&](Enumerator& chance) {
      ModelDrafter drafter{TableModel<>(pair.draft)};
      const auto draft = drafter.draft(std::span<const Token>(prompt), {gamma}, chance);
      std::vector<Token> all = prompt;
      all.insert(all.end(), draft.tokens.begin(), draft.tokens.end());
      target.truncate(0);
      const Verdict v = BlockVerifier{}(target.forward(all, gamma + 1), draft.rows, draft.tokens, chance);
      for (Index i = 0; i <= gamma; ++i) {
        const std::vector<Token> prefix(draft.tokens.begin(), draft.tokens.begin() + i);
        drafted[prefix] += chance.probability();
        if (v.accepted >= i) kept[prefix] += chance.probability();
      }
    });
    for (const auto& [prefix, probability] : drafted)
      CHECK(std::abs(kept[prefix] / probability - weights(pair, prefix).block) < 1e-12);
  });
}

TEST_CASE("one step is valid: completed by draws from the target, its text has the target's law", "[law]") {
  for_random_pairs(20, [](const Pair& pair, Index gamma) {
    const Options options{.max_new_tokens = gamma + 1, .gamma = gamma};
    const Law expected = target_law(pair.target, prompt, options);
    CHECK(largest_difference(step(pair, TokenVerifier{}, gamma).law, expected).size < 1e-12);
    CHECK(largest_difference(step(pair, BlockVerifier{}, gamma).law, expected).size < 1e-12);
    CHECK(largest_difference(step(pair, SampleMatchVerifier{}, gamma).law, expected).size < 1e-12);
  });
}

TEST_CASE("a greedy step alone is biased: it needs its modifications", "[law]") {
  auto target = toy_target();
  auto drafter = toy_drafter();
  const std::vector<Token> any{0};
  const Options options{.max_new_tokens = 3, .gamma = 2};
  const Law completed = exact_step(target, drafter, GreedyBlockVerifier{}, any, 2).law;
  CHECK(largest_difference(completed, target_law(target, any, options)).size > 0.01);
}

TEST_CASE("token <= block <= greedy block, on every pair of models", "[law]") {
  Index strictly = 0;
  for_random_pairs(100, [&](const Pair& pair, Index gamma) {
    const double token = step(pair, TokenVerifier{}, gamma).expected_accepted();
    const double block = step(pair, BlockVerifier{}, gamma).expected_accepted();
    const double greedy = step(pair, GreedyBlockVerifier{}, gamma).expected_accepted();
    CHECK(token <= block + 1e-13);
    CHECK(block <= greedy + 1e-13);
    if (gamma == 1) CHECK(token == Approx(greedy).epsilon(1e-13));
    strictly += token + 1e-3 < block && block + 1e-3 < greedy;
  });
  CHECK(strictly > 100 / support::every(10));
}

TEST_CASE(
    "over whole generations block verification emits at least as many tokens per target call as token "
    "verification",
    "[law]") {
  std::mt19937_64 rng{33};
  for (int n = 0; n < 60; n += support::every(10)) {
    const Pair pair = random_pair(3, rng);
    TableModel<> target = pair.target;
    const Options options{.max_new_tokens = 6, .gamma = 3};
    SpecDec token{target, ModelDrafter{TableModel<>(pair.draft)}, TokenVerifier{}};
    SpecDec block{target, ModelDrafter{TableModel<>(pair.draft)}, BlockVerifier{}};
    CHECK(exact_generate(block, prompt, options).target_calls <=
          exact_generate(token, prompt, options).target_calls + 1e-12);
  }
}

TEST_CASE("with one-hot drafts block verification is token verification", "[law]") {
  std::mt19937_64 rng{34};
  for (int n = 0; n < 100; ++n) {
    RowMajor<double> target(4, 3);
    for (Index i = 0; i < 4; ++i) {
      const auto model = TableModel<>::random(3, 0, rng);
      for (Token x = 0; x < 3; ++x) target(i, x) = model.distribution({}).probability(x);
    }
    std::vector<Token> tokens(3);
    for (Token& x : tokens) x = static_cast<Token>(uniform01(rng) * 3);
    const auto law = [&](auto verifier) {
      std::map<std::pair<Index, Token>, double> verdicts;
      enumerate([&](Enumerator& chance) {
        const Verdict v = verifier(target, OneHotRows(tokens), tokens, chance);
        verdicts[{v.accepted, v.token}] += chance.probability();
      });
      return verdicts;
    };
    auto token = law(TokenVerifier{}), block = law(BlockVerifier{});
    for (const auto& [verdict, p] : token) CHECK(std::abs(block[verdict] - p) < 1e-13);
    for (const auto& [verdict, p] : block) CHECK(std::abs(token[verdict] - p) < 1e-13);
  }
}

TEST_CASE("lenient verification never emits a token with more than 1/l times its probability", "[law]") {
  for_random_pairs(20, [](const Pair& pair, Index gamma) {
    for (const double lenience : {0.25, 0.5, 0.9}) {
      TableModel<> target = pair.target;
      SpecDec decoder{target, ModelDrafter{TableModel<>(pair.draft)}, LenientVerifier(lenience)};
      const Options options{.max_new_tokens = 1 + gamma, .gamma = gamma};
      const Law law = exact_generate(decoder, prompt, options).law;
      const Law expected = target_law(pair.target, prompt, options);
      for (const auto& [tokens, p] : law)
        CHECK(p <= expected.at(tokens) * std::pow(1 / lenience, static_cast<double>(tokens.size())) + 1e-12);
    }
  });
}

}  // namespace law_step
