// The rules. Each rule names its verifier and its reference. For a verdict of τ it lists the rows that a plain
// implementation must read (plain_rows) and the rows in which the library looks up a probability (visited_rows). It
// also gives the number of positions that a verification may visit (positions).
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <vector>

#include "reference.hpp"
#include "specdec/specdec.hpp"

namespace bench {

/// Rows of the target and of the draft, by their index in the block.
struct RowList {
  std::vector<Index> target, draft;
  double size() const { return static_cast<double>(target.size() + draft.size()); }
};

/// Rows 0..last of the target, and of the draft, which has γ rows.
inline RowList rows_up_to(Index last, Index gamma) {
  RowList rows;
  for (Index i = 0; i <= last; ++i) rows.target.push_back(i);
  for (Index i = 0; i <= std::min(last, gamma - 1); ++i) rows.draft.push_back(i);
  return rows;
}

struct TokenRule {
  static constexpr const char* name = "token";
  static constexpr bool one_round_per_position = true, needs_probabilities = true;
  using Verifier = specdec::TokenVerifier;
  using Reference = reference::PlainToken;
  static RowList plain_rows(Index gamma, Index tau) {
    if (tau == gamma) return {{tau}, {}};
    return {{tau}, {tau}};
  }
  static RowList visited_rows(Index gamma, Index tau) { return rows_up_to(tau, gamma); }
  // Token verification visits the positions from the first to the stop. A coin decides each of them, a race the last.
  static Index positions(Index, Index tau) { return tau + 1; }
};

struct BlockRule {
  static constexpr const char* name = "block";
  static constexpr bool one_round_per_position = true, needs_probabilities = true;
  using Verifier = specdec::BlockVerifier;
  using Reference = reference::PlainBlock;
  static RowList plain_rows(Index gamma, Index tau) {
    RowList rows;
    for (Index i = 1; i < gamma; ++i) {
      rows.target.push_back(i);
      rows.draft.push_back(i);
    }
    if (tau == 0) rows.draft.push_back(tau);
    if (tau == 0 || tau == gamma) rows.target.push_back(tau);
    return rows;
  }
  static RowList visited_rows(Index gamma, Index tau) {
    return rows_up_to(tau == gamma ? gamma : gamma - 1, gamma);
  }
  static Index positions(Index gamma, Index) { return gamma + 1; }
};

struct GreedyBlockRule : BlockRule {
  static constexpr const char* name = "greedy_block";
  static constexpr bool one_round_per_position = false;
  using Verifier = specdec::GreedyBlockVerifier;
  using Reference = reference::PlainGreedyBlock;
};

/// A rule without state: every call is the first of a sequence.
template <class V>
struct Fresh {
  auto operator()(const auto& target, const auto& draft, const auto& tokens, auto& source) const {
    V fresh;
    return fresh(target, draft, tokens, source);
  }
};

/// Greedy block verification while no modification is live.
struct GreedyFreshRule : GreedyBlockRule {
  static constexpr const char* name = "greedy_fresh";
  using Verifier = Fresh<specdec::GreedyBlockVerifier>;
  using Reference = Fresh<reference::PlainGreedyBlock>;
};

struct SampleMatchRule {
  static constexpr const char* name = "sample_match";
  static constexpr bool one_round_per_position = false, needs_probabilities = true;
  using Verifier = specdec::SampleMatchVerifier;
  using Reference = reference::PlainSampleMatch;
  static RowList plain_rows(Index, Index tau) {
    RowList rows;
    for (Index i = 0; i <= tau; ++i) rows.target.push_back(i);
    return rows;
  }
  static RowList visited_rows(Index gamma, Index tau) { return plain_rows(gamma, tau); }
  static Index positions(Index, Index tau) { return tau + 1; }
};

struct ArgmaxRule : SampleMatchRule {
  static constexpr const char* name = "argmax";
  static constexpr bool needs_probabilities = false;
  using Verifier = specdec::ArgmaxVerifier;
  using Reference = reference::PlainArgmax;
};

}  // namespace bench
