// Cases: rows and tokens of one verification, or tables of a text, and the law of what comes out.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fraction.hpp"

namespace vectors {

using specdec::Index, specdec::Token;

// A row: probabilities times their common denominator, which is a power of two.
using Weights = std::vector<std::int64_t>;

// In the place of a draft row: the token was chosen, not drawn.
inline const Weights chosen{};

// What one verification is given.
struct Drafted {
  std::vector<Weights> target, draft;
  std::vector<Token> tokens;
};

// A model: one row (order 0), one for each last token (order 1), or one for each two last tokens (order 2): row a·V + b after a, b.
struct Table {
  Index order = 0;
  std::vector<Weights> rows;
};

// What the writing of a text is given.
struct Writing {
  Table target, draft;
  std::vector<Token> prompt;
  Index gamma = 0, max_new_tokens = 0;
  std::vector<Token> stop_tokens;
};

struct Case {
  std::string id, shows;
  Drafted drafted = {};
  std::vector<Index> parents = {};
  std::vector<Drafted> steps = {};  // greedy block verification with its memory, in place of `drafted`
  std::uint64_t seed = 0;           // of keyed cases
  Index position = 0;
  std::optional<Writing> writing = {};  // in place of `drafted`

  std::string rule() const { return id.substr(0, id.find('/')); }
  bool is_tree() const {
    const std::string name = rule();
    return name == "recursive_rejection" || name == "traversal" || name == "k_seq" ||
           name == "trunk_and_spares";
  }
  const Drafted& first() const { return steps.empty() ? drafted : steps[0]; }
  Index vocab_size() const { return std::ssize(writing ? writing->target.rows.at(0) : first().target.at(0)); }
  // The size of the draft's vocabulary: that of the target, if no draft row tells another one.
  Index draft_vocab_size() const {
    for (const Weights& row : writing ? writing->draft.rows : first().draft)
      if (row != chosen) return std::ssize(row);
    return vocab_size();
  }
};

// An outcome as the lists that vectors.json has: {{τ, Y}} of a line, {path, {Y}} of a tree, {{τ, Y}, {τ, Y}} of two steps,
// {tokens} of a text.
using Outcome = std::vector<std::vector<Index>>;
using Law = std::map<Outcome, double>;
using ExactLaw = std::vector<std::pair<Outcome, Fraction>>;

// The law in fractions; nothing if some probability is no fraction with a small denominator, or if they do not sum to exactly 1.
// What rounding alone has made possible, with a probability within 1e-14 of 0, is left out.
inline std::optional<ExactLaw> exact(const Law& law) {
  ExactLaw out;
  std::vector<Fraction> parts;
  for (const auto& [outcome, probability] : law) {
    const std::optional<Fraction> part = fraction_of(probability);
    if (!part) return std::nullopt;
    if (part->numerator == 0) continue;
    out.emplace_back(outcome, *part);
    parts.push_back(*part);
  }
  if (!sum_to_one(parts)) return std::nullopt;
  return out;
}

// A row's sum must be a power of two up to 2^20: then its probabilities are exact in float. `or_dead_end`: or 0.
inline void check_row(const Case& of, const Weights& row, bool or_dead_end) {
  const std::int64_t sum = std::accumulate(row.begin(), row.end(), std::int64_t{0});
  for (const std::int64_t weight : row)
    if (weight < 0) throw std::runtime_error(of.id + ": a weight is negative");
  const bool power_of_two = sum > 0 && (sum & (sum - 1)) == 0 && sum <= 1 << 20;
  if (!power_of_two && !(sum == 0 && or_dead_end))
    throw std::runtime_error(of.id + ": a row sums to " + std::to_string(sum) +
                             ", which is no power of two up to 2^20");
}

// A table has a row for each context of its order, and the prompt is such a context, at least.
inline void check_table(const Case& of, const Table& table) {
  Index contexts = 1;
  for (Index i = 0; i < table.order; ++i) contexts *= of.vocab_size();
  if (std::ssize(table.rows) != contexts)
    throw std::runtime_error(of.id + ": a table of order " + std::to_string(table.order) + " has " +
                             std::to_string(table.rows.size()) + " rows");
  if (std::ssize(of.writing->prompt) < table.order)
    throw std::runtime_error(of.id + ": the prompt is shorter than the order of a table");
}

inline void check_rows(const Case& of) {
  const auto check = [&](const std::vector<Weights>& rows, Index width, bool may_be_dead) {
    for (const Weights& row : rows) {
      if (row == chosen) continue;
      if (std::ssize(row) != width) throw std::runtime_error(of.id + ": rows have different lengths");
      check_row(of, row, may_be_dead);
    }
  };
  const auto check_both = [&](const std::vector<Weights>& target, const std::vector<Weights>& draft) {
    check(target, of.vocab_size(), true);
    check(draft, of.draft_vocab_size(), false);
  };
  if (of.writing) {
    check_both(of.writing->target.rows, of.writing->draft.rows);
    for (const Table& table : {of.writing->target, of.writing->draft}) check_table(of, table);
  }
  check_both(of.drafted.target, of.drafted.draft);
  for (const Drafted& step : of.steps) check_both(step.target, step.draft);
}

}  // namespace vectors
