// A model with a sliding window, whose cache is a ring: what lies too far back has been written over.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/strict.hpp"

namespace support {

// Rows depend on the last `window` tokens. The ring has a slot for each token of the window but the newest, and `spare` more.
// So it can be cut back by `spare` tokens. A token that was written over is missing from a row without a word. A tree's tokens
// take slots, too.
class Ring {
 public:
  Ring(specdec::Index vocab_size, specdec::Index window, specdec::Index spare, std::uint64_t seed = 7)
      : said(spare),
        vocab_size_(vocab_size),
        window_(window),
        seed_(seed),
        slots_(static_cast<std::size_t>(window - 1 + spare)) {}

  specdec::Index vocab_size() const { return vocab_size_; }
  specdec::Index reach() const { return said; }

  const Eigen::MatrixXd& forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    ++calls;
    if (fails-- == 0) throw std::runtime_error("a call");
    check_call(tokens, rows, vocab_size_);
    must(tree_.empty(), "fed a line while a tree is open");
    output_.resize(rows, vocab_size_);
    for (specdec::Index i = rows - std::ssize(tokens); const specdec::Token x : tokens) {
      if (i >= 0) set_row(i, window(length_, {x}));
      write(x);
      ++length_;
      ++i;
    }
    return output_;
  }
  const Eigen::MatrixXd& forward(std::span<const specdec::Token> tokens,
                                 std::span<const specdec::Index> parents, specdec::Index rows) {
    ++calls;
    check_call(tokens, parents, std::ssize(tree_), rows, vocab_size_);
    output_.resize(rows, vocab_size_);
    std::size_t k = 0;
    for (specdec::Index i = rows - std::ssize(tokens); const specdec::Token x : tokens) {
      if (i >= 0) set_row(i, window(length_, way_to(parents[k], x)));
      write(x);
      tree_.push_back(x);
      parents_.push_back(parents[k++]);
      ++i;
    }
    return output_;
  }
  void truncate(specdec::Index length) {
    tree_.clear();
    parents_.clear();
    length_ = std::clamp<specdec::Index>(length, 0, length_);
    if (length_ == 0) std::fill(slots_.begin(), slots_.end(), Slot{});
  }
  void keep(std::span<const specdec::Index> path) {
    const std::vector<specdec::Token> tree = std::exchange(tree_, {});
    parents_.clear();
    for (const specdec::Index node : path) {
      slots_[slot(length_)] = {length_, tree[static_cast<std::size_t>(node)]};
      ++length_;
    }
  }

  specdec::Index said;  // what reach() says
  specdec::Index calls = 0, fed = 0;
  int fails = -1;  // how many calls go well before one throws

 private:
  struct Slot {
    specdec::Index place = -1;
    specdec::Token token = 0;
  };
  using Window = std::vector<std::int64_t>;  // −1 for a token that is missing

  std::size_t slot(specdec::Index place) const { return static_cast<std::size_t>(place) % slots_.size(); }
  // Into the slot after those of the context and of the tree.
  void write(specdec::Token x) {
    const specdec::Index place = length_ + std::ssize(tree_);
    slots_[slot(place)] = {place, x};
    ++fed;
  }
  // The tokens on the way to a node of the tree, and one more.
  std::vector<specdec::Token> way_to(specdec::Index node, specdec::Token last) const {
    std::vector<specdec::Token> way{last};
    for (; node >= 0; node = parents_[static_cast<std::size_t>(node)])
      way.push_back(tree_[static_cast<std::size_t>(node)]);
    std::reverse(way.begin(), way.end());
    return way;
  }
  // The last tokens of a context of `length` tokens and of the way after it.
  Window window(specdec::Index length, const std::vector<specdec::Token>& way) const {
    Window out;
    for (specdec::Index place = std::max<specdec::Index>(length + std::ssize(way) - window_, 0);
         place < length; ++place) {
      const Slot& in = slots_[slot(place)];
      out.push_back(in.place == place ? in.token : -1);
    }
    out.insert(out.end(), way.begin(), way.end());
    if (std::ssize(out) > window_) out.erase(out.begin(), out.end() - window_);
    return out;
  }
  void set_row(specdec::Index i, const Window& window) {
    std::uint64_t hash = seed_;
    for (const std::int64_t x : window)
      hash = specdec::SplitMix64(hash * 31 + static_cast<std::uint64_t>(x + 1))();
    specdec::SplitMix64 numbers(hash);
    for (specdec::Index x = 0; x < vocab_size_; ++x) output_(i, x) = .01 + specdec::uniform01(numbers);
    output_.row(i) /= output_.row(i).sum();
  }

  specdec::Index vocab_size_, window_;
  std::uint64_t seed_;
  std::vector<Slot> slots_;
  specdec::Index length_ = 0;
  std::vector<specdec::Token> tree_;
  std::vector<specdec::Index> parents_;
  Eigen::MatrixXd output_;
};

}  // namespace support
