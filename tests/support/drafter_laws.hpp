// The first law for drafters that learn. It is exact, by enumeration of the shipped templates, with a new drafter for
// every branch of chance.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace support::drafter_laws {

using namespace specdec;
using namespace specdec::testing;
using Tokens = std::vector<Token>;

// The joint law of the texts of several generations in a row with one decoder.
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

// The joint law of independent texts, one for each prompt.
inline Law independent(const TableModel<>& target, const std::vector<Tokens>& prompts,
                       const Options& options) {
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

// The largest difference between the law of the last text given the texts before it, and the target's law.
inline double worst_conditional(const Law& joint, const Law& last) {
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

// A prompt that repeats itself, so that the drafter can propose something.
inline Tokens repetitive(Index vocab_size) {
  return vocab_size == 2 ? Tokens{0, 1, 0, 0, 1, 0} : Tokens{0, 1, 2, 0, 1, 1, 2, 0};
}

template <class Drafter>
void check_lossless_with(Drafter (*make_drafter)()) {
  for (const AnyVerifier& rule : rules_for_drafters) {
    INFO(rule.name());
    std::mt19937_64 rng{31};
    for (const Index vocab_size : {2, 3})
      for (const Index gamma : {1, 2, 3}) {
        double difference = 0, drafted = 0, accepted = 0;
        for (int model = 0; model < 16; model += every(4)) {
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
  for (const AnyVerifier& rule : rules_for_drafters) {
    INFO(rule.name());
    std::mt19937_64 rng{32};
    for (const Index vocab_size : {2, 3}) {
      const int length = vocab_size == 2 ? 4 : 3;
      for (const Index gamma : {1, 2, 3}) {
        double difference = 0, conditional = 0, accepted = 0;
        for (int model = 0; model < 6; model += every(6)) {
          const auto target = TableModel<>::random(vocab_size, 2, rng);
          const std::vector<Tokens> prompts{{0}, {0}};  // the second text can only learn from the first
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

}  // namespace support::drafter_laws

namespace support {

using drafter_laws::check_lossless_with;
using drafter_laws::check_two_generations_with;

}  // namespace support
