// Verifies a draft when the engine returns only the k likeliest tokens of each row, as servers do.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

// What a server returns for one position: token ids in ascending order, and probabilities that sum to 1. The engine samples
// from these tokens only, so the draft is verified against them only.
struct TopTokens {
  std::vector<int> ids;
  std::vector<float> probabilities;
};

int main() {
  constexpr specdec::Index vocabulary = 128'256;  // no loop runs over it
  const std::vector<TopTokens> target{{{11, 29'871, 100'000}, {0.2f, 0.7f, 0.1f}},
                                      {{7, 13, 522}, {0.25f, 0.5f, 0.25f}},
                                      {{13, 90'001}, {0.9f, 0.1f}}};
  const std::vector<TopTokens> draft{{{11, 29'871}, {0.5f, 0.5f}}, {{13, 99}, {0.8f, 0.2f}}};
  const std::vector<specdec::Token> tokens{29'871, 13};

  const auto rows_of = [&](const std::vector<TopTokens>& positions) {
    std::vector<specdec::SparseRow<float, int>> rows;
    for (const TopTokens& top : positions) rows.emplace_back(top.ids, top.probabilities, vocabulary);
    return rows;
  };
  const auto p = rows_of(target), q = rows_of(draft);

  std::mt19937_64 rng{1};
  const specdec::Verdict verdict =
      specdec::BlockVerifier{}(specdec::RowSpan{p, vocabulary}, specdec::RowSpan{q, vocabulary}, tokens, rng);
  std::cout << verdict.accepted << " of 2 accepted, then token " << verdict.token << "\n";
}
