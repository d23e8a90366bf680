// The tree of tokens after a context.
// SPDX-License-Identifier: MIT
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

/// A tree of tokens that grows call by call. Its tokens are numbered from 0. Each follows an earlier token, or the context,
/// which is number −1. The depth of a token is the number of tokens between it and the context.
class Tree {
 public:
  Index size() const { return std::ssize(parents_); }
  bool empty() const { return parents_.empty(); }
  Index parent(Index token) const { return parents_[static_cast<std::size_t>(token)]; }
  Index depth(Index token) const { return depths_[static_cast<std::size_t>(token)]; }

  /// Makes room for `tokens` tokens in all, so that adding them does not throw.
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

  /// Throws: std::invalid_argument unless each new token follows the context or an earlier token. The message begins with
  /// `words`.
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

  /// Throws: std::invalid_argument unless these tokens are a path that begins at the context.
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
