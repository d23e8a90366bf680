// Which sublayers of a model run.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "transformer/error.hpp"
#include "transformer/sparse_cache.hpp"

namespace transformer {

using Eigen::Index;

/// Some of a model's attentions and feed-forward networks, and what the attentions read. They are numbered from 0, in the
/// order in which they run: the attention of the first layer, its feed-forward network, the attention of the second layer,
/// and so on. Names count layers from 1: "a3" is the attention of the third layer, "f3" its feed-forward network.
class Sublayers {
 public:
  /// No sublayer.
  Sublayers() = default;
  /// All sublayers of the first `layers` layers.
  /// Pre: layers >= 0.
  static Sublayers first(Index layers) {
    Sublayers all;
    all.runs_.assign(static_cast<std::size_t>(2 * layers), true);
    return all;
  }

  /// These sublayers, without one of them.
  Sublayers without(Index sublayer) const {
    Sublayers rest = *this;
    rest.runs_[static_cast<std::size_t>(sublayer)] = false;
    return rest;
  }
  /// These sublayers, without those of the given names.
  /// Throws: std::invalid_argument if a name is not that of a sublayer below size().
  Sublayers without(std::span<const std::string> names) const {
    Sublayers rest = *this;
    for (const std::string& name : names) rest = rest.without(number_of(name));
    return rest;
  }

  /// These sublayers, with attentions that read a part of the context.
  /// Throws: std::invalid_argument if a number of tokens is negative.
  Sublayers reading(const SparseCache& seen) const {
    if (seen.first < 0 || seen.latest < 0)
      fail<std::invalid_argument>("sparse cache: first = ", seen.first, " or latest = ", seen.latest,
                                  " is negative");
    Sublayers sparse = *this;
    sparse.seen_ = seen;
    return sparse;
  }
  /// What the attentions read of the context.
  const SparseCache& seen() const { return seen_; }

  /// No sublayer with this number or a greater one runs.
  Index size() const { return std::ssize(runs_); }
  bool runs(Index sublayer) const { return sublayer < size() && runs_[static_cast<std::size_t>(sublayer)]; }

  /// No layer after so many layers runs, nor a part of it. Here layers are numbered from 0.
  Index layers() const { return size() / 2; }
  bool attention(Index layer) const { return runs(2 * layer); }
  bool feed_forward(Index layer) const { return runs(2 * layer + 1); }

  /// The number of layers, if these are all sublayers of the first layers, no other, and read the whole context; else 0.
  Index whole_layers() const {
    if (seen_ != SparseCache{}) return 0;
    const auto end = std::find(runs_.begin(), runs_.end(), false);
    const Index whole = end - runs_.begin();
    return whole % 2 == 0 && std::find(end, runs_.end(), true) == runs_.end() ? whole / 2 : 0;
  }

  /// The names of the sublayers below size() that do not run, with commas between them.
  std::string left_out() const {
    std::string names;
    for (Index i = 0; i < size(); ++i)
      if (!runs(i)) names += (names.empty() ? "" : ",") + name(i);
    return names;
  }
  static std::string name(Index sublayer) {
    return std::string(1, sublayer % 2 == 0 ? 'a' : 'f') + std::to_string(sublayer / 2 + 1);
  }

  friend bool operator==(const Sublayers&, const Sublayers&) = default;

 private:
  Index number_of(std::string_view name_of_one) const {
    for (Index i = 0; i < size(); ++i)
      if (name(i) == name_of_one) return i;
    fail<std::invalid_argument>("sublayers: '", name_of_one, "' is none of a1, f1 to a", layers(), ", f",
                                layers());
  }

  std::vector<bool> runs_;
  SparseCache seen_;
};

}  // namespace transformer
