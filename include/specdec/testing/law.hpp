// Exact laws (distributions over outputs): of the target alone, and of a decoder.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/spec_dec.hpp"
#include "specdec/testing/enumerator.hpp"

namespace specdec::inline v0_2_0::testing {

/// The probability of every possible output.
using Law = std::map<std::vector<Token>, double>;

namespace detail {

/// 0 for an output that the law does not have.
inline double probability_of(const std::vector<Token>& output, const Law& law) {
  const auto found = law.find(output);
  return found == law.end() ? 0.0 : found->second;
}

// Adds to `law` the outputs of `model` that continue `context`, up to options.max_new_tokens or a stop token.
template <class M, class Choose>
void continue_law(const M& model, std::vector<Token>& context, std::size_t prompt_size, double probability,
                  const Options& options, const Choose& choose, Law& law) {
  const std::vector<Token> output(context.begin() + static_cast<std::ptrdiff_t>(prompt_size), context.end());
  const bool counts = !output.empty() && std::ssize(output) >= options.min_new_tokens;
  const bool stopped = counts && options.stop_tokens.contains(output.back());
  if (stopped || static_cast<Index>(output.size()) >= options.max_new_tokens) {
    law[output] += probability;
    return;
  }
  const auto row = model.distribution(context);
  for (Token x = 0; x < row.vocab_size(); ++x) {
    const double p = choose(row, x);
    if (!(p > 0)) continue;
    context.push_back(x);
    continue_law(model, context, prompt_size, probability * p, options, choose, law);
    context.pop_back();
  }
}

/// The longest output that is accepted. No law of such outputs can be enumerated; each token takes a level of recursion.
inline constexpr Index longest_output = 4096;

inline void check_enumerable(Index max_new_tokens) {
  if (max_new_tokens < 0)
    specdec::detail::invalid_argument("max_new_tokens = ", max_new_tokens, " is negative");
  if (max_new_tokens > longest_output)
    specdec::detail::invalid_argument("max_new_tokens = ", max_new_tokens, " is more than ", longest_output,
                                      ", the longest output that is enumerated");
}

inline constexpr auto sampled = [](const auto& row, Token x) { return row.probability(x); };
inline constexpr auto greedy = [](const auto& row, Token x) { return x == row.argmax() ? 1.0 : 0.0; };

/// The law of the model's own outputs, where choose(row, x) is the probability of token x.
template <class M, class Choose>
Law law_of(const M& model, std::span<const Token> prompt, const Options& options, const Choose& choose) {
  check_enumerable(options.max_new_tokens);
  Law law;
  std::vector<Token> context(prompt.begin(), prompt.end());
  continue_law(model, context, context.size(), 1.0, options, choose, law);
  return law;
}

}  // namespace detail

/// A sequence of tokens as text, for messages: "[0 2 1]".
inline std::string to_string(std::span<const Token> tokens) {
  std::ostringstream text;
  for (std::size_t i = 0; i < tokens.size(); ++i) text << (i == 0 ? "[" : " ") << tokens[i];
  text << (tokens.empty() ? "[]" : "]");
  return text.str();
}

/// Where two laws differ most.
struct Difference {
  double size = 0;             ///< |left - right|
  std::vector<Token> tokens;   ///< the output
  double left = 0, right = 0;  ///< its probability under the first law, and under the second

  friend std::ostream& operator<<(std::ostream& out, const Difference& difference) {
    return out << difference.size << ": output " << to_string(difference.tokens) << " has probability "
               << difference.left << " and " << difference.right;
  }
};

/// The output whose probabilities under two laws are furthest apart.
inline Difference largest_difference(const Law& left, const Law& right) {
  Difference worst;
  const auto compare = [&](const std::vector<Token>& tokens) {
    const double a = detail::probability_of(tokens, left), b = detail::probability_of(tokens, right),
                 size = std::abs(a - b);
    if (size > worst.size || std::isnan(size)) worst = {size, tokens, a, b};
  };
  for (const auto& [tokens, p] : left) compare(tokens);
  for (const auto& [tokens, p] : right) compare(tokens);
  return worst;
}

/// The law of the target alone. `model` has distribution(context), see TableModel.
/// Throws: InvalidArgument if max_new_tokens is negative or too large to be enumerated. All laws in this header do.
template <class M>
Law target_law(const M& model, std::span<const Token> prompt, const Options& options) {
  return detail::law_of(model, prompt, options, detail::sampled);
}

/// The law of greedy decoding with the target alone: one output has probability 1.
template <class M>
Law greedy_law(const M& model, std::span<const Token> prompt, const Options& options) {
  return detail::law_of(model, prompt, options, detail::greedy);
}

/// The exact law of a whole generation and exact expectations over it.
struct GenerationLaw {
  Law law;
  double target_calls = 0;
  double drafted = 0;
  double accepted = 0;
  double emitted = 0;
  double block_efficiency() const { return emitted / target_calls; }

  /// Adds the counts between `before` and `after`, weighted with p.
  void count(double p, const Stats& after, const Stats& before = {}) {
    const auto share = [p](Index now, Index then) { return p * static_cast<double>(now - then); };
    target_calls += share(after.target_calls, before.target_calls);
    drafted += share(after.drafted, before.drafted);
    accepted += share(after.accepted, before.accepted);
    emitted += share(after.emitted, before.emitted);
  }
};

/// The exact law of decoder.generate(). Runs it for every outcome of every draft, coin and race, with models and caches.
/// Cost: exponential in the number of tokens: use a handful.
template <class Decoder>
GenerationLaw enumerate_generate(Decoder& decoder, std::span<const Token> prompt, const Options& options) {
  detail::check_enumerable(options.max_new_tokens);
  GenerationLaw out;
  enumerate([&](Enumerator& chance) {
    const Result result = decoder.generate(prompt, options, chance);
    const double p = chance.probability();
    out.law[result.tokens] += p;
    out.count(p, result.stats);
  });
  return out;
}

/// The law of enumerate_generate(), but faster. It enumerates step by step, and merges equal states: states with equal
/// contexts and equal verifiers are continued only once. A verifier that has members but no == is never merged.
/// Pre: the drafter and the draft length do not learn, since all branches share them. (For learners: enumerate() over fresh
/// decoders.) The models' contexts are rebuilt for every step, so this does not test cache rollback; enumerate_generate() does.
template <class Decoder>
GenerationLaw exact_generate(Decoder& decoder, std::span<const Token> prompt, const Options& options) {
  detail::check_enumerable(options.max_new_tokens);
  using Sequence = typename Decoder::Sequence;
  using V = std::remove_cvref_t<decltype(std::declval<const Sequence&>().verifier())>;
  struct State {
    Sequence sequence;
    double probability;
  };
  const auto mergeable = []([[maybe_unused]] const Sequence& a, [[maybe_unused]] const Sequence& b) {
    if constexpr (std::equality_comparable<V>) return a.verifier() == b.verifier();
    else return std::is_empty_v<V>;
  };
  // Contexts only grow. So the shortest is continued first: by then all histories of its states have been found.
  std::map<std::pair<std::size_t, std::vector<Token>>, std::vector<State>> open;
  GenerationLaw out;
  const auto enter = [&](const Sequence& sequence, double p) {
    if (sequence.done()) {
      out.law[{sequence.tokens().begin(), sequence.tokens().end()}] += p;
      return;
    }
    const auto context = sequence.context();
    auto& states = open[{context.size(), {context.begin(), context.end()}}];
    for (State& state : states)
      if (mergeable(state.sequence, sequence)) {
        state.probability += p;
        return;
      }
    states.push_back({sequence, p});
  };
  Sequence sequence = decoder.start(prompt, options);  // one object for all, so that its memory is used again
  enter(sequence, 1.0);
  while (!open.empty()) {
    const std::vector<State> states = std::move(open.begin()->second);
    open.erase(open.begin());
    for (const State& state : states)
      enumerate([&](Enumerator& chance) {
        sequence = state.sequence;
        sequence.step(chance);
        const double p = state.probability * chance.probability();
        out.count(p, sequence.stats(), state.sequence.stats());
        enter(sequence, p);
      });
  }
  return out;
}

}  // namespace specdec::testing
