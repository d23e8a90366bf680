// Trees of tokens for models that copy contexts: each branch is a sequence.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Lets a model for many texts take trees, if it can copy a context: each branch of a tree is a sequence of the model. For
/// engines whose calls take many sequences and share what these have in common (paged attention), but no trees. A wrapper: see
/// model/feeds.hpp. The model has fork(from, to): see BatchModel.
///
///   ForkedBranches target{engine};
///   BeamBatch searches{target};
///
/// This numbers the model's sequences, so the model serves nobody else.
/// Throws: also InvalidArgument on a token outside the vocabulary, and in keep(path) if `path` is no path of the tree.
/// After a throw open trees, too, are as before.
/// Cost: one call of the model, in which every branch takes part that grows. A token is read once, unless a branch begins at a
/// token of the same call: the branch then reads the way to that token once more if it has at most 16 tokens; else it waits for
/// another call of the model. So the trees of a beam search without a draft model are read once. Each row is
/// copied, and a new branch allocates.
template <class M>
class ForkedBranches : public detail::WrapsModel<ForkedBranches<M>, M, true> {
  using Base = detail::WrapsModel<ForkedBranches, M, true>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(Base::for_many && can_fork<Bare>,
                "the model is none for many texts that has fork(specdec::Index from, specdec::Index to): see "
                "specdec::ForkedBranches; specdec::PathByPath makes any model take trees");
  static_assert(detail::can_be_wrapped<Bare>());
  using Output = std::remove_cvref_t<detail::OutputOf<Bare>>;
  static_assert(
      Probabilities<Output>,
      "the model's forward() returns no rows, of probabilities or of logits: see specdec::BatchModel");

  // A way from the context into the tree, in a sequence of the model.
  struct Branch {
    Index number;    // of the sequence
    Index tip = -1;  // the last token of the tree on it
    Index read = 0;  // how many tokens the sequence's context has
    // What a call that fails goes back to. −1: there was no such branch.
    Index tip_before = -1, read_before = -1;
    // Of a round: the sequence that it grows from, and how much of that; the tokens that it reads, and which
    // tokens it reads as the first branch.
    Index source = 0, base = 0;
    std::vector<Token> fed = {};
    std::vector<Index> own = {};
  };

  struct Text {
    Index length = 0;  // of the context
    TokenTree tree = {};
    std::vector<Index> depths = {}, on = {};  // of each token of the tree: the branch that has read it
    std::vector<char> read = {};              // and whether it has
    std::vector<Branch> branches = {};
    Index before = 0, first = 0,
          place = 0;  // of a call: the tree's tokens before, the first wanted row and its place

    Index depth(Index k) const { return k < 0 ? 0 : detail::at(depths, k); }
    bool is_read(Index k) const { return detail::at(read, k) != 0; }
  };

 public:
  explicit ForkedBranches(M&& model) : Base(std::forward<M>(model)) {}

  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;

 private:
  // A branch that begins within a call reads at most so many tokens again.
  static constexpr Index most_again = 16;

  auto forward_feeds(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) check_feed(feeds[k], k);
    rows_.clear();
    const auto ask = [&] {
      Index place = 0;
      for (const BatchFeed& feed : feeds) {
        enter(feed, place);
        place += feed.rows;
      }
      while (begin_round(feeds)) take_rows(this->inner().forward(detail::view_of(round_)));
      return rows_.in_places(this->vocab_size());
    };
    const auto rows = detail::undo_on_error(ask, [&] {
      for (const BatchFeed& feed : feeds)
        if (Text* const text = texts_.find(feed.sequence)) leave(*text);
    });
    for (const BatchFeed& feed : feeds)
      if (feed.parents.empty()) {
        Text& text = texts_.at(feed.sequence);
        text.length += text.tree.size();
        close(text);
      }
    return rows;
  }

  void keep_path(Index sequence, std::span<const Index> path) {
    Text* const text = texts_.find(sequence);
    detail::check_path(path, text == nullptr ? std::span<const Index>() : text->tree.parents());
    if (path.empty()) return keep_length(sequence, unlimited);
    std::swap(text->branches[0], detail::at(text->branches, detail::at(text->on, path.back())));
    text->length += std::ssize(path);
    close(*text);
  }
  void keep_length(Index sequence, Index length) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    text->length = std::clamp<Index>(length, 0, text->length);
    close(*text);
  }
  void forget(Index sequence) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    for (const Branch& branch : text->branches) this->inner().release(branch.number);
    texts_.erase(sequence);
  }
  void fork_text(Index from, Index to) {
    if (texts_.find(to)) detail::invalid_argument("to = ", to, ": this sequence has a context already");
    const Text* const text = texts_.find(from);
    if (text == nullptr) return;
    Text& twin = texts_.make(to, begun());
    twin.length = twin.branches[0].read = text->length;
    if (twin.length == 0) return;
    detail::undo_on_error([&] { copy(text->branches[0].number, twin.branches[0]); },
                          [&] { texts_.erase(to); });
  }
  // The numbers here are not the model's.
  bool drafts_after(Index, Index) const { return true; }

  Text begun() {
    Text text;
    text.branches.push_back({.number = next_++});
    return text;
  }

  // Forgets the tree. The first branch has the context.
  void close(Text& text) {
    while (text.branches.size() > 1) drop_last(text);
    text.branches[0].tip = -1;
    cut(text.branches[0], text.length);
    forget_from(text, 0);
  }
  void drop_last(Text& text) {
    this->inner().release(text.branches.back().number);
    text.branches.pop_back();
  }
  void cut(Branch& branch, Index length) {
    branch.read = std::min(branch.read, length);
    this->inner().keep(branch.number, branch.read);
  }
  static void forget_from(Text& text, Index k) {
    text.tree.forget_from(k);
    for (auto* list : {&text.depths, &text.on})
      if (std::ssize(*list) > k) detail::resize(*list, k);
    if (std::ssize(text.read) > k) detail::resize(text.read, k);
  }

  // Throws if the feed is not valid. Notes the state before the call: a failed call goes back to it.
  void check_feed(const BatchFeed& feed, std::size_t k) {
    Text* const known = texts_.find(feed.sequence);
    Text& text = known != nullptr ? *known : texts_.make(feed.sequence, begun());
    text.before = text.tree.size();
    for (Branch& branch : text.branches) branch.tip_before = branch.tip, branch.read_before = branch.read;
    detail::FeedCheck<true>{feed, k}.after(text.length, text.before);
    detail::check_tokens("tokens", feed.tokens, this->vocab_size());
  }

  // A line is a tree without branches.
  void enter(const BatchFeed& feed, Index place) {
    Text& text = texts_.at(feed.sequence);
    text.tree.append(feed.tokens, feed.parents);
    for (Index k = text.before; k < text.tree.size(); ++k) {
      text.depths.push_back(text.depth(text.tree.parent(k)) + 1);
      text.on.push_back(-1);
      text.read.push_back(0);
    }
    text.first = text.tree.size() - feed.rows;
    text.place = place;
  }

  void leave(Text& text) {
    while (text.branches.back().read_before < 0) drop_last(text);
    for (Branch& branch : text.branches) {
      branch.tip = branch.tip_before;
      branch.read = branch.read_before;
      cut(branch, branch.read);
    }
    forget_from(text, text.before);
  }

  // Gives each token that can be read now to a branch. False if all have been read.
  bool begin_round(std::span<const BatchFeed> feeds) {
    round_.clear();
    growing_.clear();
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      for (Branch& branch : text.branches) {
        branch.source = branch.number;
        branch.base = branch.read;
        branch.fed.clear();
        branch.own.clear();
      }
      for (Index k = text.before; k < text.tree.size(); ++k)
        if (!text.is_read(k)) grow(text, k);
      for (Index b = 0; b < std::ssize(text.branches); ++b) {
        Branch& branch = detail::at(text.branches, b);
        if (branch.fed.empty()) continue;
        const auto wanted = std::lower_bound(branch.own.begin(), branch.own.end(), text.first);
        round_.push_back(
            {{.tokens = branch.fed, .from = branch.base, .rows = branch.own.end() - wanted}, branch.number});
        growing_.push_back({&text, b});
      }
    }
    return !round_.empty();
  }

  void grow(Text& text, Index k) {
    const Index above = text.tree.parent(k);
    Index b = above < 0 ? 0 : detail::at(text.on, above);
    if (b < 0) return;  // the token above waits itself
    if (detail::at(text.branches, b).tip != above) {
      // What a new branch has cached, and what of the way it reads again because others read it in this round.
      const Branch& parent = detail::at(text.branches, b);
      const Index way = text.length + text.depth(above), base = std::min(parent.base, way);
      if (way - base > most_again) return;
      add_branch(text, parent, base, way - base);
      b = std::ssize(text.branches) - 1;
    }
    Branch& branch = detail::at(text.branches, b);
    branch.own.push_back(k);
    branch.fed.push_back(text.tree.token(k));
    branch.tip = k;
    detail::at(text.on, k) = b;
  }

  // A branch that has `base` tokens of the parent's source, and reads the first `again` tokens of the parent's round.
  void add_branch(Text& text, const Branch& parent, Index base, Index again) {
    const Index source = parent.source;
    Branch branch{.number = next_++, .read = base, .source = source, .base = base};
    detail::append(branch.fed, detail::first(parent.fed, again));
    text.branches.push_back(std::move(branch));
    if (base > 0) copy(source, text.branches.back());
  }
  // The branch's sequence gets what it has read of the source.
  void copy(Index source, const Branch& branch) {
    this->inner().fork(source, branch.number);
    this->inner().keep(branch.number, branch.read);
  }

  void take_rows(const Output& output) {
    const auto rows =
        detail::checked_rows(output, detail::rows_of(detail::view_of(round_)), this->vocab_size());
    Index row = 0;
    for (std::size_t i = 0; i < round_.size(); ++i) {
      Text& text = *growing_[i].first;
      Branch& branch = detail::at(text.branches, growing_[i].second);
      branch.read = branch.base + std::ssize(branch.fed);
      for (const Index k : branch.own) detail::at(text.read, k) = 1;
      for (const Index k : detail::after(branch.own, std::ssize(branch.own) - round_[i].rows)) {
        detail::in_row("model", row, [&] { rows_.add(rows.row(row), text.place + k - text.first); });
        ++row;
      }
    }
  }

  detail::PerSequence<Text, true> texts_;
  Index next_ = 0;  // a number that the model has not seen
  std::vector<BatchFeed> round_;
  std::vector<std::pair<Text*, Index>> growing_;  // the branches of the round
  StoredRows<detail::RowAsStored<Output>, false> rows_;
};

template <class M>
ForkedBranches(M&&) -> ForkedBranches<M>;

}  // namespace specdec
