// The law of a case: the library's own rules, run over all outcomes of their random choices.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.hpp"

namespace vectors {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline void set_row(Matrix& rows, Index i, const Weights& weights) {
  const auto sum = static_cast<double>(
      std::max<std::int64_t>(1, std::accumulate(weights.begin(), weights.end(), std::int64_t{0})));
  for (Index x = 0; x < std::ssize(weights); ++x)
    rows(i, x) = static_cast<double>(weights[static_cast<std::size_t>(x)]) / sum;
}

// The rows of one verification as probabilities. The row of a chosen token is one-hot.
struct Rows {
  Matrix target, draft;

  Rows(const Drafted& drafted, Index vocab_size, Index draft_vocab_size)
      : target(Matrix::Zero(std::ssize(drafted.target), vocab_size)),
        draft(Matrix::Zero(std::ssize(drafted.draft), draft_vocab_size)) {
    for (Index i = 0; i < target.rows(); ++i) set_row(target, i, drafted.target[static_cast<std::size_t>(i)]);
    for (Index i = 0; i < draft.rows(); ++i) {
      const Weights& row = drafted.draft[static_cast<std::size_t>(i)];
      if (row == chosen) draft(i, drafted.tokens[static_cast<std::size_t>(i)]) = 1;
      else set_row(draft, i, row);
    }
  }
};

inline std::vector<Index> line_outcome(const specdec::Verdict& verdict) {
  return {verdict.accepted, verdict.token};
}

template <class Rule>
Law law_of_line(const Case& of, const Rule& rule) {
  const Rows rows(of.drafted, of.vocab_size(), of.draft_vocab_size());
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    Rule fresh = rule;
    const auto verdict = specdec::verify(fresh, rows.target, rows.draft, of.drafted.tokens, chance);
    law[Outcome{line_outcome(verdict)}] += chance.probability();
  });
  return law;
}

// Two steps of one rule object.
template <class Rule>
Law law_of_steps(const Case& of, const Rule& rule) {
  std::vector<Rows> rows;
  for (const Drafted& step : of.steps) rows.emplace_back(step, of.vocab_size(), of.draft_vocab_size());
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    Rule one = rule;
    Outcome outcome;
    for (std::size_t i = 0; i < rows.size(); ++i)
      outcome.push_back(
          line_outcome(specdec::verify(one, rows[i].target, rows[i].draft, of.steps[i].tokens, chance)));
    law[outcome] += chance.probability();
  });
  return law;
}

template <class Rule>
Law law_of_tree(const Case& of, const Rule& rule) {
  const Rows rows(of.drafted, of.vocab_size(), of.draft_vocab_size());
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    const auto verdict =
        specdec::verify(rule, rows.target, rows.draft, of.drafted.tokens, of.parents, chance);
    law[Outcome{verdict.path, {verdict.token}}] += chance.probability();
  });
  return law;
}

inline Law law_of_keyed(const Case& of) {
  const Rows rows(of.drafted, of.vocab_size(), of.draft_vocab_size());
  specdec::Keyed keyed{of.seed};
  keyed.stand_at(of.position);
  const auto verdict =
      specdec::verify(specdec::KeyedVerifier{}, rows.target, rows.draft, of.drafted.tokens, keyed);
  return {{Outcome{line_outcome(verdict)}, 1.0}};
}

// The tokens of the draft are drawn, judged, and what is missing to γ + 1 tokens is drawn from the target's rows.
template <class Rule>
Law law_of_any(const Case& of, const Rule& rule) {
  const Rows rows(of.drafted, of.vocab_size(), of.draft_vocab_size());
  const auto target = specdec::distributions(rows.target), draft = specdec::distributions(rows.draft);
  Law law;
  specdec::testing::enumerate([&](auto& chance) {
    std::vector<Token> tokens;
    for (Index i = 0; i < rows.draft.rows(); ++i) tokens.push_back(chance.draw(draft.row(i)));
    const auto verdict = specdec::verify(rule, rows.target, rows.draft, tokens, chance);
    std::vector<Index> text(tokens.begin(), tokens.begin() + verdict.accepted);
    text.push_back(verdict.token);
    while (std::ssize(text) < rows.target.rows()) text.push_back(chance.draw(target.row(std::ssize(text))));
    law[Outcome{text}] += chance.probability();
  });
  return law;
}

inline specdec::testing::TableModel<> model_of(const Table& table) {
  const auto vocab_size = std::ssize(table.rows.at(0));
  Index states = 1;
  for (Index k = 0; k < table.order; ++k) states *= vocab_size + 1;
  Matrix rows(states, vocab_size);
  // The digits of a state are tokens + 1, the last token's is the lowest; 0 is for no token, and no prompt is so short.
  for (Index state = 0; state < states; ++state) {
    Index row = 0;
    for (Index k = 0, left = state, place = 1; k < table.order;
         ++k, left /= vocab_size + 1, place *= vocab_size)
      row += place * std::max<Index>(0, left % (vocab_size + 1) - 1);
    set_row(rows, state, table.rows.at(static_cast<std::size_t>(row)));
  }
  return {rows, table.order};
}

// The law of whole texts, by the loop with its caches.
template <class Rule>
Law law_of_text(const Case& of, const Rule& rule) {
  const Writing& writing = of.writing.value();
  auto target = model_of(writing.target);
  specdec::SpecDec decoder{target, specdec::ModelDrafter{model_of(writing.draft)}, rule};
  const specdec::Options options{.max_new_tokens = writing.max_new_tokens,
                                 .gamma = writing.gamma,
                                 .stop_tokens = specdec::StopTokens(writing.stop_tokens)};
  const auto written = specdec::testing::enumerate_generate(decoder, writing.prompt, options).law;
  const auto alone = specdec::testing::target_law(target, writing.prompt, options);
  if (specdec::testing::largest_difference(written, alone).size > largest_error)
    throw std::runtime_error(of.id + ": the loop does not write the target's law");
  Law law;
  for (const auto& [tokens, probability] : written)
    law[Outcome{{tokens.begin(), tokens.end()}}] = probability;
  return law;
}

// Laws that several rules share: each rule must give the first one's law.
inline Law equal_laws(const Case& of, const std::vector<Law>& laws) {
  for (const Law& law : laws)
    for (const Law& other : laws)
      for (const auto& [outcome, probability] : law) {
        const auto found = other.find(outcome);
        if (std::abs(probability - (found == other.end() ? 0.0 : found->second)) > largest_error)
          throw std::runtime_error(of.id + ": two lossless rules give different laws");
      }
  return laws.at(0);
}

inline Law law_of(const Case& of) {
  using namespace specdec;
  const std::string rule = of.rule();
  if (rule == "token") return law_of_line(of, TokenVerifier{});
  if (rule == "block") return law_of_line(of, BlockVerifier{});
  if (rule == "greedy_block" && of.steps.empty()) return law_of_line(of, GreedyBlockVerifier{});
  if (rule == "greedy_block") return law_of_steps(of, GreedyBlockVerifier{});
  if (rule == "argmax") return law_of_line(of, ArgmaxVerifier{});
  if (rule == "match") return law_of_line(of, SampleMatchVerifier{});
  if (rule == "keyed") return law_of_keyed(of);
  if (rule == "recursive_rejection") return law_of_tree(of, RecursiveRejectionVerifier{});
  if (rule == "traversal") return law_of_tree(of, TraversalVerifier{});
  if (rule == "k_seq") return law_of_tree(of, KSeqVerifier{});
  if (rule == "trunk_and_spares") return law_of_tree(of, TrunkAndSpares<BlockVerifier>{});
  if (rule == "any")
    return equal_laws(of, {law_of_any(of, TokenVerifier{}), law_of_any(of, BlockVerifier{}),
                           law_of_any(of, SampleMatchVerifier{})});
  if (rule == "text")
    return equal_laws(of, {law_of_text(of, TokenVerifier{}), law_of_text(of, BlockVerifier{})});
  throw std::runtime_error(of.id + ": there is no rule " + rule);
}

// Throws if some probability is no fraction with a small denominator: choose rows with smaller sums.
inline ExactLaw exact_law_of(const Case& of) {
  check_rows(of);
  const std::optional<ExactLaw> law = exact(law_of(of));
  if (!law) throw std::runtime_error(of.id + ": the law is not in fractions with denominators up to 2^20");
  return *law;
}

}  // namespace vectors
