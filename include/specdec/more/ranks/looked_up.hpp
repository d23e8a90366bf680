// A cache of looked-up probabilities.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// A cache for the probabilities of a few tokens, in rows that are slow to ask. The search is linear.
class LookedUp {
 public:
  /// Makes room for this many more: add() then does not allocate.
  void make_room(std::size_t more) {
    const std::size_t needed = all_.size() + more;
    if (needed > all_.capacity()) all_.reserve(std::max(needed, 2 * all_.capacity()));
  }
  void add(Index row, Token token, double p) { all_.push_back({row, token, p}); }

  std::optional<double> find(Index row, Token token) const {
    for (const Probability& each : all_)
      if (each.row == row && each.token == token) return each.p;
    return {};
  }

 private:
  struct Probability {
    Index row;
    Token token;
    double p;
  };

  std::vector<Probability> all_;
};

}  // namespace specdec::detail
