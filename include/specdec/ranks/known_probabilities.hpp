// Probabilities of some tokens that have been looked up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// What is known of rows that are costly to ask. For few tokens: they are looked through.
class KnownProbabilities {
 public:
  /// Room for so many more: add() then takes no memory.
  void make_room(std::size_t more) {
    const std::size_t needed = known_.size() + more;
    if (needed > known_.capacity()) known_.reserve(std::max(needed, 2 * known_.capacity()));
  }
  void add(Index row, Token token, double p) { known_.push_back({row, token, p}); }

  std::optional<double> find(Index row, Token token) const {
    for (const Known& known : known_)
      if (known.row == row && known.token == token) return known.p;
    return {};
  }

 private:
  struct Known {
    Index row;
    Token token;
    double p;
  };

  std::vector<Known> known_;
};

}  // namespace specdec::detail
