// Probabilities of some tokens that have been looked up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "specdec/types.hpp"

namespace specdec::detail {

/// The probabilities that have been looked up in rows that are costly to ask. For few tokens: they are looked through.
class LookedUp {
 public:
  /// Room for so many more: add() then takes no memory.
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
