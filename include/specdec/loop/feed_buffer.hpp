// The tokens of a Feed, and which of them the target keeps.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The tokens of a text that are not cached, then the draft.
///
/// A drafted token that ends the text is not fed, and neither are the tokens after it. Nothing is emitted after it, so the row
/// there does not matter: it may be a dead end, and a grammar that has ended need not be asked for it. A rule that wants the
/// row gets the row before the token once more. Any row that depends only on the tokens before it would do: the rule is
/// lossless for every target, and two targets that differ only after the end of a text write the same texts.
/// Cost: no allocation in steady state.
class FeedBuffer {
 public:
  /// ends(k, parent) tells whether the text ends with drafted token k if it is accepted; it is not called for tokens after such
  /// a token. A token outside the target's vocabulary is fed as token 0 (see model/known_tokens.hpp).
  template <class Ends>
  void fill(std::span<const Token> uncached, TokenTreeView draft, Index vocab_size, const Ends& ends) {
    begin(uncached, static_cast<std::size_t>(draft.size()));
    for (Index k = 0; k < draft.size(); ++k) {
      const Index parent = draft.parent(k);
      const Index above = rows_[static_cast<std::size_t>(parent + 1)];
      if (above < 0 || ends(k, parent)) {
        rows_.push_back(std::min(above, ~above));  // negative until the end of the loop: see above
      } else {
        add(draft.token(k), above - 1, vocab_size);
      }
    }
    whole_ = fed_.size() == draft.size();
    for (Index& row : rows_) row = std::max(row, ~row);
    if (branches(above())) {
      make_line(parents_, uncached_);
      for (const Index parent : above()) parents_.push_back(uncached_ + parent);
    }
    kept_.reserve(tokens_.size());
  }

  /// Sets kept(): all tokens that were not cached, and of the draft tokens with the numbers in `path` those that were fed. The
  /// path begins after the context.
  void keep(std::span<const Index> path) {
    kept_.clear();
    for (Index i = 0; i < uncached_; ++i) kept_.push_back(i);
    Index last = 0;
    for (const Index k : path)
      if (const Index row = row_after(k); row > last) kept_.push_back(uncached_ + (last = row) - 1);
  }

  std::span<const Token> tokens() const { return view_of(tokens_); }
  std::span<const Index> parents() const { return view_of(parents_); }
  std::span<const Index> kept() const { return view_of(kept_); }
  /// How many draft tokens are kept.
  Index kept_drafted() const { return std::ssize(kept_) - uncached_; }

  /// Whether all tokens of the draft are fed.
  bool whole() const { return whole_; }
  /// The draft tokens that are fed, and their parents among them.
  std::span<const Token> drafted() const { return fed_.tokens(); }
  std::span<const Index> above() const { return fed_.parents(); }
  /// [node]: the number of the row that a rule gets for the node (Drafted). Of all nodes if not the whole draft is fed; else
  /// empty, since row and node then have one number.
  std::span<const Index> rows() const { return whole_ ? std::span<const Index>() : view_of(rows_); }
  Index row_after(Index k) const { return rows_[static_cast<std::size_t>(k) + 1]; }

 private:
  void begin(std::span<const Token> uncached, std::size_t drafted) {
    uncached_ = std::ssize(uncached);
    tokens_.clear();
    tokens_.reserve(uncached.size() + drafted);
    for (const Token x : uncached) tokens_.push_back(x);
    fed_.clear();
    parents_.clear();
    kept_.clear();
    rows_.assign(1, 0);
  }

  void add(Token x, Index parent, Index vocab_size) {
    tokens_.push_back(x < vocab_size ? x : Token{0});
    rows_.push_back(fed_.append(x, parent) + 1);
  }

  std::vector<Token> tokens_;
  TokenTree fed_;  // of the draft
  std::vector<Index> parents_, kept_, rows_;
  Index uncached_ = 0;
  bool whole_ = true;
};

}  // namespace specdec::detail
