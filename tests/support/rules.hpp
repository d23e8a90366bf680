// All verifiers as one type, and the law of the text that a verifier gives when it is called by hand.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/bounds.hpp"
#include "support/layouts.hpp"

namespace support {

// What a rule is shown, as matrices, for rules that tests write.
struct Seen {
  RowMajor<double> p, q;
  std::vector<Token> tokens;

  explicit Seen(const auto& drafted) {
    Index size = drafted.vocab_size();
    for (Index i = 0; i < drafted.gamma(); ++i) {
      tokens.push_back(drafted.token(i));
      size = std::max<Index>(size, drafted.draft(i).vocab_size());
    }
    p.resize(drafted.gamma() + 1, drafted.vocab_size());
    q.resize(drafted.gamma(), size);
    for (Index i = 0; i <= drafted.gamma(); ++i) fill(p, i, drafted.target(i));
    for (Index i = 0; i < drafted.gamma(); ++i) fill(q, i, drafted.draft(i));
  }

 private:
  static void fill(RowMajor<double>& matrix, Index i, const auto& row) {
    for (Token x = 0; x < matrix.cols(); ++x) matrix(i, x) = specdec::probability(row, x);
  }
};

// Any rule of the library, chosen at run time, so that a test over all rules is compiled once. It is called by hand,
// in a loop too, on copies of the rows. Laws of the loop itself use AnyRule.
struct AnyVerifier {
  std::variant<specdec::TokenVerifier, specdec::BlockVerifier, specdec::GreedyBlockVerifier,
               specdec::SampleMatchVerifier, specdec::LenientVerifier, specdec::ArgmaxVerifier>
      rule;

  template <class Target, class Draft, class Source>
  specdec::Verdict operator()(const Target& target, const Draft& draft, specdec::TokenIds tokens,
                              Source& source);

  specdec::Verdict judge(const auto& drafted, auto& chance) {
    const Seen seen(drafted);
    return (*this)(seen.p, seen.q, seen.tokens, chance);
  }
  Index min_draft_length() const {
    return std::visit([](const auto& verifier) { return specdec::min_draft_length(verifier); }, rule);
  }
  bool greedy_decoding() const { return std::holds_alternative<specdec::ArgmaxVerifier>(rule); }
  const char* name() const {
    constexpr const char* names[] = {"token", "block", "greedy block", "sample-match", "lenient", "argmax"};
    return names[rule.index()];
  }
  friend bool operator==(const AnyVerifier&, const AnyVerifier&) = default;
};

template <class Target, class Draft, class Source>
specdec::Verdict AnyVerifier::operator()(const Target& target, const Draft& draft, specdec::TokenIds tokens,
                                         Source& source) {
  return std::visit([&](auto& verifier) { return specdec::verify(verifier, target, draft, tokens, source); },
                    rule);
}

// The calls that most tests make are compiled in rules.cpp only.
extern template specdec::Verdict AnyVerifier::operator()(const RowMajor<float>&, const RowMajor<float>&,
                                                         specdec::TokenIds, std::mt19937_64&);
extern template specdec::Verdict AnyVerifier::operator()(const RowMajor<double>&, const RowMajor<double>&,
                                                         specdec::TokenIds, std::mt19937_64&);
extern template specdec::Verdict AnyVerifier::operator()(const RowMajor<double>&, const RowMajor<double>&,
                                                         specdec::TokenIds,
                                                         specdec::RandomChance<std::mt19937_64>&);
extern template specdec::Verdict AnyVerifier::operator()(const RowMajor<double>&, const RowMajor<double>&,
                                                         specdec::TokenIds, specdec::testing::Enumerator&);

// One of several rules, with everything that a loop asks of a rule. It judges with that rule on the rows as they are.
// It tells survival if all of the rules do.
template <bool draws, class... Rules>
struct AnyOf {
  std::variant<Rules...> rule;

  static constexpr bool draws_from_target = draws;
  static constexpr bool needs_draft = (specdec::needs_draft<Rules> || ...);

  specdec::Verdict judge(const auto& drafted, auto& chance) {
    return std::visit([&](auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
  void commit()
    requires(specdec::detail::has_commit<Rules> || ...)
  {
    std::visit([](auto& verifier) { specdec::detail::commit(verifier); }, rule);
  }
  double survival(double before, double p, double q) const
    requires(specdec::tells_survival<Rules> && ...)
  {
    return std::visit([&](const auto& verifier) { return verifier.survival(before, p, q); }, rule);
  }
  Index min_draft_length() const
    requires(specdec::remembers_sequence<Rules> || ...)
  {
    return std::visit([](const auto& verifier) { return specdec::min_draft_length(verifier); }, rule);
  }
  friend bool operator==(const AnyOf&, const AnyOf&) = default;
};

using AnyRule = AnyOf<true, specdec::TokenVerifier, specdec::BlockVerifier, specdec::GreedyBlockVerifier,
                      specdec::SampleMatchVerifier, specdec::LenientVerifier>;

inline AnyRule for_loops(const AnyVerifier& verifier) {
  return std::visit(
      []<class V>(const V& rule) -> AnyRule {
        if constexpr (std::is_same_v<V, specdec::ArgmaxVerifier>)
          throw std::logic_error("no rule for sampling");
        else return {rule};
      },
      verifier.rule);
}

// The lossless rules, the rules that use ratios of p and q, and all rules.
inline const AnyVerifier sampling_rules[] = {{specdec::TokenVerifier{}},
                                             {specdec::BlockVerifier{}},
                                             {specdec::GreedyBlockVerifier{}},
                                             {specdec::SampleMatchVerifier{}},
                                             {specdec::LenientVerifier{1.0}}};
inline const AnyVerifier ratio_rules[] = {{specdec::TokenVerifier{}},
                                          {specdec::BlockVerifier{}},
                                          {specdec::GreedyBlockVerifier{}},
                                          {specdec::LenientVerifier{1.0}}};
inline const AnyVerifier all_rules[] = {{specdec::TokenVerifier{}},       {specdec::BlockVerifier{}},
                                        {specdec::GreedyBlockVerifier{}}, {specdec::SampleMatchVerifier{}},
                                        {specdec::LenientVerifier{1.0}},  {specdec::ArgmaxVerifier{}}};
// The rules of a law about drafters. Other tests run the code of every rule, so two are enough for sanitizers.
inline const std::span rules_for_drafters =
    std::span(sampling_rules).first(sanitized ? 2 : std::size(sampling_rules));

// How law_by_hand has a draft judged.
inline constexpr auto judge_plainly = [](AnyVerifier& verifier, const auto& target, const auto& draft,
                                         std::span<const Token> tokens,
                                         auto& chance) { return verifier(target, draft, tokens, chance); };

// The exact law of a loop without models and caches, for verifiers called by hand. Rows are looked up in two tables,
// perhaps of different vocabularies. A table takes an unknown token for token 0: any row will do there, since nothing
// may depend on it. It goes step by step, as testing::exact_generate does.
template <class TargetLayout, class DraftLayout, class Judge>
specdec::testing::GenerationLaw law_by_hand(
    const specdec::testing::TableModel<typename TargetLayout::Scalar>& target,
    const specdec::testing::TableModel<typename DraftLayout::Scalar>& draft, const AnyVerifier& rule,
    std::span<const Token> prompt, const specdec::Options& options, const Judge& judge) {
  const auto row_of = [](const auto& table, std::vector<Token> context) {
    for (Token& x : context) x = x < table.vocab_size() ? x : 0;
    return table.distribution(context).segment(0, table.vocab_size()).matrix().transpose().eval();
  };
  struct State {
    AnyVerifier verifier;
    double probability;
  };
  // The shortest texts come first.
  std::map<std::pair<std::size_t, std::vector<Token>>, std::vector<State>> open;
  specdec::testing::GenerationLaw out;
  const auto enter = [&](const std::vector<Token>& text, const AnyVerifier& verifier, double p) {
    if (static_cast<Index>(text.size()) == options.max_new_tokens) {
      out.law[text] += p;
      return;
    }
    auto& states = open[{text.size(), text}];
    for (State& state : states)
      if (state.verifier == verifier) {
        state.probability += p;
        return;
      }
    states.push_back({verifier, p});
  };
  TargetLayout p;
  DraftLayout q, last;
  const auto step = [&](const State& state, std::vector<Token> text, specdec::testing::Enumerator& chance) {
    AnyVerifier verifier = state.verifier;
    const Index left = options.max_new_tokens - static_cast<Index>(text.size());
    const Index gamma = std::max(std::min(options.gamma, left - 1), verifier.min_draft_length());
    RowMajor<typename TargetLayout::Scalar> p_rows(gamma + 1, target.vocab_size());
    RowMajor<typename DraftLayout::Scalar> q_rows(gamma, draft.vocab_size());
    std::vector<Token> context(prompt.begin(), prompt.end()), tokens;
    context.insert(context.end(), text.begin(), text.end());
    for (Index i = 0; i <= gamma; ++i) {
      p_rows.row(i) = row_of(target, context);
      if (i == gamma) break;
      q_rows.row(i) = row_of(draft, context);
      last.hold(q_rows.row(i));
      tokens.push_back(chance.draw(specdec::distributions(std::as_const(last).view()).row(0)));
      context.push_back(tokens.back());
    }
    p.hold(p_rows);
    q.hold(q_rows);
    const specdec::Verdict verdict =
        judge(verifier, std::as_const(p).view(), std::as_const(q).view(), tokens, chance);
    const double probability = state.probability * chance.probability();
    out.drafted += probability * static_cast<double>(gamma);
    out.accepted += probability * static_cast<double>(verdict.accepted);
    out.target_calls += probability;
    tokens.resize(static_cast<std::size_t>(verdict.accepted));
    tokens.push_back(verdict.token);
    for (const Token x : tokens)
      if (static_cast<Index>(text.size()) < options.max_new_tokens) text.push_back(x);
    enter(text, verifier, probability);
  };
  enter({}, rule, 1.0);
  while (!open.empty()) {
    const auto text = open.begin()->first.second;
    const std::vector<State> states = std::move(open.begin()->second);
    open.erase(open.begin());
    for (const State& state : states)
      specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) { step(state, text, chance); });
  }
  return out;
}

}  // namespace support
