// Prints cases as JSON: one case a line, so that the changes of a version can be read.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "cases.hpp"

namespace vectors {

// The names and ids of this folder are in ASCII, and need no escapes.
inline std::string json(const std::string& text) {
  for (const char c : text)
    if (c < ' ' || c > '~' || c == '"' || c == '\\')
      throw std::runtime_error("this text would need escapes in JSON: " + text);
  return '"' + text + '"';
}

// [a, b, ...], where print(entry) is the JSON of an entry.
template <class Entry, class Print>
std::string json_list(const std::vector<Entry>& entries, const Print& print) {
  std::string out;
  for (const Entry& entry : entries) {
    if (!out.empty()) out += ", ";
    out += print(entry);
  }
  return "[" + out + "]";
}

template <class Integer>
std::string json_numbers(const std::vector<Integer>& numbers) {
  return json_list(numbers, [](Integer number) { return std::to_string(number); });
}

// A long row with few tokens as lists of ids and weights.
inline std::string json_row(const Weights& row) {
  if (row == chosen) return "null";
  std::vector<std::int64_t> ids, weights;
  for (std::size_t x = 0; x < row.size(); ++x)
    if (row[x] > 0) {
      ids.push_back(static_cast<std::int64_t>(x));
      weights.push_back(row[x]);
    }
  if (ids.empty() || row.size() < 16 || 2 * ids.size() > row.size()) return json_numbers(row);
  return "{\"ids\": " + json_numbers(ids) + ", \"weights\": " + json_numbers(weights) + "}";
}

inline std::string json_rows(const std::vector<Weights>& rows) { return json_list(rows, json_row); }

// The members of an object, without its brackets.
inline std::string json_members(const Drafted& drafted, bool with_tokens) {
  std::string out = "\"target\": " + json_rows(drafted.target) + ", \"draft\": " + json_rows(drafted.draft);
  if (with_tokens) out += ", \"tokens\": " + json_numbers(drafted.tokens);
  return out;
}

inline std::string json_table(const Table& table) {
  return "{\"order\": " + std::to_string(table.order) + ", \"rows\": " + json_rows(table.rows) + "}";
}

inline std::string json_members(const Writing& writing) {
  return "\"target\": " + json_table(writing.target) + ", \"draft\": " + json_table(writing.draft) +
         ", \"prompt\": " + json_numbers(writing.prompt) + ", \"gamma\": " + std::to_string(writing.gamma) +
         ", \"max_new_tokens\": " + std::to_string(writing.max_new_tokens) +
         ", \"stop_tokens\": " + json_numbers(writing.stop_tokens);
}

// A list of one list is printed as the inner one; in a tree an outcome is [path, Y].
inline std::string json_outcome(const Outcome& outcome, bool of_tree) {
  if (of_tree) return "[" + json_numbers(outcome.at(0)) + ", " + std::to_string(outcome.at(1).at(0)) + "]";
  if (outcome.size() == 1) return json_numbers(outcome[0]);
  return json_list(outcome, json_numbers<Index>);
}

inline std::string json_law(const ExactLaw& law, bool of_tree) {
  return json_list(law, [of_tree](const auto& entry) {
    return "[" + json_outcome(entry.first, of_tree) + ", " + json(entry.second.text()) + "]";
  });
}

inline std::string json_case(const Case& of, const ExactLaw& law) {
  std::string out = "{\"id\": " + json(of.id) + ", \"rule\": " + json(of.rule()) +
                    ", \"shows\": " + json(of.shows) + ", \"vocab_size\": " + std::to_string(of.vocab_size());
  if (of.draft_vocab_size() != of.vocab_size())
    out += ", \"draft_vocab_size\": " + std::to_string(of.draft_vocab_size());
  if (of.rule() == "keyed")
    out += ", \"seed\": " + std::to_string(of.seed) + ", \"position\": " + std::to_string(of.position);
  out += ", ";
  if (of.writing) out += json_members(*of.writing);
  else if (!of.steps.empty())
    out += "\"steps\": " +
           json_list(of.steps, [](const Drafted& step) { return "{" + json_members(step, true) + "}"; });
  else out += json_members(of.drafted, of.rule() != "any");
  if (of.is_tree()) out += ", \"parents\": " + json_numbers(of.parents);
  return out + ", \"law\": " + json_law(law, of.is_tree()) + "}";
}

// A probability with nine digits, which rounding does not change: what lies half way is rounded up.
inline std::string json_probability(double probability) {
  constexpr std::int64_t unit = 1'000'000'000;
  const auto parts = static_cast<std::int64_t>(probability * static_cast<double>(unit) + 0.5 + 1e-3);
  if (parts >= unit) return "1";
  std::string digits = std::to_string(unit + parts).substr(1);  // with leading zeros
  digits.erase(std::min(digits.find_last_not_of('0') + 1, digits.size()));
  return digits.empty() ? "0" : "0." + digits;
}

}  // namespace vectors
