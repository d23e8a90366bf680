// What a transformer remembers of a text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <stdexcept>
#include <vector>

#include "transformer/attention.hpp"
#include "transformer/error.hpp"
#include "transformer/shape.hpp"
#include "transformer/tree.hpp"

namespace transformer {

/// The keys and values of a text's tokens in all layers, and a tree that may be open behind it.
class Context {
 public:
  /// Of no layers: there is nothing in it, and nothing can be put in.
  Context() = default;
  explicit Context(const Shape& shape)
      : caches_(static_cast<std::size_t>(shape.n_layers), KeyValueCache(shape)) {}

  /// Tokens of the text; those of an open tree are not.
  Index length() const { return length_; }
  const Tree& tree() const { return tree_; }
  KeyValueCache& cache(Index layer) { return caches_[static_cast<std::size_t>(layer)]; }

  /// Throws std::logic_error, which begins with the words, while a tree is open.
  template <class... Words>
  void check_closed(const Words&... words) const {
    if (!tree_.empty())
      fail<std::logic_error>("transformer: ", words..., "a tree is open: keep() or truncate() closes it");
  }

  /// Room for so many more tokens: adding them throws nothing then.
  void reserve(Index tokens) { tree_.reserve(tree_.size() + tokens); }

  /// Adds tokens to the tree, whose keys and values are to come. A line is a tree that does not branch.
  void add(std::span<const Index> parents) {
    for (const Index parent : parents) tree_.add(parent);
  }
  void add_line(Index count) {
    for (Index i = 0; i < count; ++i) tree_.add(i - 1);
  }
  /// The line that was added is of the text now.
  void take_line() {
    length_ += tree_.size();
    tree_.clear();
  }
  /// Forgets the tree.
  void close() noexcept { tree_.clear(); }

  /// Makes a way of the tree, from the text outward, part of the text, and forgets the rest of the tree.
  /// Throws: std::invalid_argument where the numbers are no such way. After a throw nothing has changed.
  void keep(std::span<const Index> path) {
    tree_.check_path(path);
    for (Index i = 0; i < std::ssize(path); ++i) {
      const Index token = path[static_cast<std::size_t>(i)];
      if (token == i) continue;  // i is its depth: its keys are turned for that place
      for (KeyValueCache& cache : caches_) cache.copy(length_ + token, length_ + i);
    }
    length_ += std::ssize(path);
    tree_.clear();
  }

  /// Forgets an open tree, and keeps the first `length` tokens of the text, all where there are no more. O(1): keys and
  /// values beyond are overwritten by the tokens that come there next.
  void truncate(Index length) noexcept {
    tree_.clear();
    length_ = std::clamp<Index>(length, 0, length_);
  }

 private:
  std::vector<KeyValueCache> caches_;  // one a layer
  Index length_ = 0;
  Tree tree_;  // behind the text; the tokens of a line are one while they are taken in
};

}  // namespace transformer
