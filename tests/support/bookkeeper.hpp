// A batch model that checks every call.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/strict.hpp"
#include "support/tree_models.hpp"

namespace support {

// A batch model over a table, for lines and trees. It records every context, and refuses feeds that do not fit. On
// request a call fails before or after its tokens are taken in, or the rows of a sequence are spoilt.
class Bookkeeper {
  using Table = specdec::testing::TableModel<>;

 public:
  // What a failing call throws.
  struct Failure : std::runtime_error {
    Failure() : std::runtime_error("the model failed") {}
  };

  explicit Bookkeeper(Table table, Index most = specdec::unlimited) : table_(std::move(table)), most_(most) {}

  Index vocab_size() const { return table_.vocab_size(); }
  Index context_size() const { return most_; }
  const RowMajor<double>& forward(std::span<const specdec::BatchFeed> feeds) {
    if (++calls == fails_at) fail();
    Index rows = 0, tokens = 0;
    for (const specdec::BatchFeed& feed : feeds) rows += feed.rows, tokens += std::ssize(feed.tokens);
    most_fed = std::max(most_fed, tokens);
    rows_.resize(rows, vocab_size());
    rows = 0;
    for (const specdec::BatchFeed& feed : feeds) rows = take_in(feed, rows);
    if (calls == fails_behind) {
      for (const specdec::BatchFeed& feed : feeds) keep(feed.sequence, feed.from);
      fail();
    }
    fed += tokens;
    if (calls == one_row_short_at && rows > 0) rows_.conservativeResize(rows - 1, vocab_size());
    return rows_;
  }
  void keep(Index sequence, Index length) {
    trees_[sequence] = {};
    if (const auto found = contexts.find(sequence);
        found != contexts.end() && length < std::ssize(found->second))
      found->second.resize(static_cast<std::size_t>(length));
  }
  void keep(Index sequence, std::span<const Index> path) {
    Tree& tree = trees_[sequence];
    CHECK_NOTHROW(specdec::detail::check_path(path, tree.parents));
    for (const Index node : path)
      contexts.at(sequence).push_back(tree.tokens.at(static_cast<std::size_t>(node)));
    tree = {};
  }
  // Whether a tree is open after the sequence's context.
  bool keeps_path(Index sequence) { return !trees_[sequence].tokens.empty(); }
  void release(Index sequence) {
    contexts.erase(sequence);
    trees_.erase(sequence);
  }

  std::map<Index, std::vector<Token>> contexts;
  Token spoils_behind = -1;
  Index calls = 0, fails_at = -1, fails_behind = -1, one_row_short_at = -1, spoils = -1, most_fed = 0,
        fed = 0, failures = 0;

 private:
  struct Tree {
    std::vector<Token> tokens;
    std::vector<Index> parents;
  };

  void fail() {
    ++failures;
    throw Failure();
  }

  Index take_in(const specdec::BatchFeed& feed, Index rows) {
    std::vector<Token>& context = contexts[feed.sequence];
    Tree& tree = trees_[feed.sequence];
    check_feed(feed, std::ssize(context), std::ssize(tree.tokens), vocab_size());
    const Index size = std::ssize(feed.tokens);
    for (Index i = 0; i < size; ++i) {
      const auto at = static_cast<std::size_t>(i);
      std::vector<Token>& held = feed.parents.empty() ? context : tree.tokens;
      held.push_back(feed.tokens[at]);
      if (!feed.parents.empty()) tree.parents.push_back(feed.parents[at]);
      if (i >= size - feed.rows) fill(rows++, feed, text_behind(feed, std::ssize(held) - 1));
    }
    must(std::ssize(context) + std::ssize(tree.tokens) <= most_, "fed past its context");
    return rows;
  }

  std::vector<Token> text_behind(const specdec::BatchFeed& feed, Index last) const {
    const std::vector<Token>& context = contexts.at(feed.sequence);
    if (feed.parents.empty()) return context;
    const Tree& tree = trees_.at(feed.sequence);
    return text_before(context, tree.tokens, tree.parents, last);
  }

  void fill(Index row, const specdec::BatchFeed& feed, std::span<const Token> text) {
    rows_.row(row) = table_.distribution(text).segment(0, vocab_size()).matrix().transpose();
    if (feed.sequence == spoils || text.back() == spoils_behind)
      rows_.row(row).setConstant(std::numeric_limits<double>::quiet_NaN());
  }

  Table table_;
  Index most_;
  std::map<Index, Tree> trees_;  // trees that are open after their contexts
  RowMajor<double> rows_;
};

// Gives a new sequence a copy of a context, unless it refuses.
class ForkingBookkeeper : public Bookkeeper {
 public:
  using Bookkeeper::Bookkeeper;

  void fork(Index from, Index to) {
    ++forks;
    if (refuses) throw Failure();
    if (contexts.contains(to)) throw std::logic_error("the number has a context already");
    contexts[to] = contexts.at(from);
  }

  Index forks = 0;
  bool refuses = false;
};

}  // namespace support
