// Rows for cases: by hand, sparse, and random ones.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <optional>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "laws.hpp"

namespace vectors {

using Numbers = specdec::SplitMix64;

inline Weights sparse(Index vocab_size,
                      std::initializer_list<std::pair<std::size_t, std::int64_t>> ids_and_weights) {
  Weights row(static_cast<std::size_t>(vocab_size));
  for (const auto& [id, weight] : ids_and_weights) row.at(id) = weight;
  return row;
}

// A number below `end`.
inline std::int64_t below(std::int64_t end, Numbers& numbers) {
  return static_cast<std::int64_t>(numbers() % static_cast<std::uint64_t>(end));
}

// The sum is cut into parts at random places. A third of the cuts repeat the cut before: so zeros are common.
inline Weights random_row(Index vocab_size, std::int64_t sum, Numbers& numbers) {
  std::vector<std::int64_t> cuts{0, sum};
  while (std::ssize(cuts) <= vocab_size)
    cuts.push_back(below(3, numbers) == 0 ? cuts.back() : below(sum + 1, numbers));
  std::sort(cuts.begin(), cuts.end());
  Weights row;
  for (std::size_t i = 1; i < cuts.size(); ++i) row.push_back(cuts[i] - cuts[i - 1]);
  return row;
}

inline Token drawn_from(const Weights& row, Numbers& numbers) {
  std::int64_t left = below(std::accumulate(row.begin(), row.end(), std::int64_t{0}), numbers);
  Token x = 0;
  while (left >= row[static_cast<std::size_t>(x)]) left -= row[static_cast<std::size_t>(x++)];
  return x;
}

inline Drafted random_line(Index vocab_size, Index gamma, std::int64_t sum, Numbers& numbers) {
  Drafted out;
  for (Index i = 0; i <= gamma; ++i) out.target.push_back(random_row(vocab_size, sum, numbers));
  for (Index i = 0; i < gamma; ++i) {
    out.draft.push_back(random_row(vocab_size, sum, numbers));
    out.tokens.push_back(drawn_from(out.draft.back(), numbers));
  }
  return out;
}

// Tries make(numbers), which returns a case or nothing, until the law is in fractions and has at least so many outcomes.
template <class Make>
Case first_exact(const std::string& id, std::uint64_t seed, std::size_t outcomes, const Make& make) {
  Numbers numbers(seed);
  for (int attempt = 0; attempt < 20'000; ++attempt) {
    const std::optional<Case> made = make(numbers);
    if (!made) continue;
    const std::optional<ExactLaw> law = exact(law_of(*made));
    if (law && law->size() >= outcomes) return *made;
  }
  throw std::runtime_error(id + ": no random rows have a law in fractions with " + std::to_string(outcomes) +
                           " outcomes");
}

inline Case random_case(const std::string& id, Index vocab_size, Index gamma, std::int64_t sum,
                        std::uint64_t seed) {
  const std::string shows = "Random rows of " + std::to_string(vocab_size) + " ids, and a draft of " +
                            std::to_string(gamma) + ": any mistake of the rule.";
  const auto outcomes = static_cast<std::size_t>(gamma + 2);
  return first_exact(id, seed, outcomes, [&](Numbers& numbers) -> std::optional<Case> {
    return Case{.id = id, .shows = shows, .drafted = random_line(vocab_size, gamma, sum, numbers)};
  });
}

}  // namespace vectors
