// Who follows whom among the tokens behind a context.
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "transformer/error.hpp"

namespace transformer {

using Eigen::Index;

/// A tree of tokens that grows call by call: they are numbered from 0 on, and each follows one before it, or the
/// context itself, which is number −1. A token's depth is how many tokens of the tree lie between it and the context.
class Tree {
 public:
  Index size() const { return std::ssize(parents_); }
  bool empty() const { return parents_.empty(); }
  Index parent(Index token) const { return parents_[static_cast<std::size_t>(token)]; }
  Index depth(Index token) const { return depths_[static_cast<std::size_t>(token)]; }

  /// Room for so many tokens: adding them throws nothing then.
  void reserve(Index tokens) {
    parents_.reserve(static_cast<std::size_t>(tokens));
    depths_.reserve(static_cast<std::size_t>(tokens));
  }

  void add(Index parent) {
    depths_.push_back(parent < 0 ? 0 : depth(parent) + 1);
    parents_.push_back(parent);
  }

  void clear() noexcept {
    parents_.clear();
    depths_.clear();
  }

  /// Throws std::invalid_argument, which begins with the words, unless the tokens that come next can follow these.
  template <class... Words>
  void check_parents(std::span<const Index> parents, const Words&... words) const {
    for (Index k = 0; k < std::ssize(parents); ++k) {
      const Index parent = parents[static_cast<std::size_t>(k)];
      if (parent < -1 || parent >= size() + k)
        fail<std::invalid_argument>("transformer: ", words..., "parents[", k, "] = ", parent,
                                    " is outside -1..", size() + k - 1,
                                    ": a token follows the context or a token before it");
    }
  }

  /// Throws std::invalid_argument unless these tokens are a way from the context outward.
  void check_path(std::span<const Index> path) const {
    Index last = -1;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] <= last || path[i] >= size() || parent(path[i]) != last)
        fail<std::invalid_argument>("transformer: path[", i, "] = ", path[i],
                                    " is no token of the tree that follows ", last);
      last = path[i];
    }
  }

 private:
  std::vector<Index> parents_, depths_;
};

}  // namespace transformer
