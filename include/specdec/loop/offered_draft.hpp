// The draft on offer: its tokens, what of it is fed, and what its verdict adds to the text.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/text.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0::detail {

/// A draft from its offer to its end in the text.
///
/// The target is fed the tokens of the text that are not cached, then the draft. A drafted token that ends the text is not fed,
/// and neither are the tokens after it. Nothing is emitted after it, so the row there does not matter: it may be a dead end,
/// and a grammar that has ended need not be asked for it. A rule that wants the row gets the row before the token once more.
/// Any row that depends only on the tokens before it would do: the rule is lossless for every target, and two targets that
/// differ only after the end of a text write the same texts.
/// Cost: no allocation in steady state.
class OfferedDraft {
 public:
  /// The draft, a view into the drafter. That of a drafter of trees has parents, also if it is a line.
  TokenTreeView draft() const { return draft_; }
  /// Whether a draft is on offer.
  bool there() const { return state_.value > 0; }
  /// Whether one is made at this moment: the text's condition is being asked.
  bool in_the_making() const { return state_.value < 0; }

  /// Takes a draft. `branches`: whether drafts may be trees; `known`: the vocabulary size of the draft's rows, or 0. A token
  /// outside the target's vocabulary is valid only if the draft's rows cover it; it is fed as token 0 (see model/call.hpp).
  /// Throws: InvalidArgument if the draft is not valid, or exceeds the limits; std::bad_alloc. Nothing is on offer then.
  Feed make(TokenTreeView draft, bool branches, Index known, const DraftLimits& limits, Text& text,
            Index cached, Index vocabulary) {
    state_.value = -1;
    draft_ = {draft.tokens(), parents_of(draft, branches)};
    check_limits(branches, limits);
    check_tokens("draft", draft_.tokens(), std::max(vocabulary, known));
    const Index most = longest(branches, limits);
    detail::reserve(path_, most);
    detail::reserve(accepted_, most + 1);
    fill(text, cached, vocabulary);
    return {view_of(fed_), cached, tree_.size() + 1, view_of(parents_)};
  }
  /// The draft is on offer from here on.
  void place() { state_.value = 1; }
  void withdraw() { state_.value = 0; }
  /// For how many tokens of a draft to make room. A tree is often much smaller than its limit.
  Index longest(bool branches, const DraftLimits& limits) const {
    return branches ? draft_.size() : limits.nodes;
  }

  /// A Feed of tokens of the text alone: the target keeps all of them.
  void feed_only(Index tokens) {
    kept_.clear();
    for (Index i = 0; i < tokens; ++i) kept_.push_back(i);
  }

  void check_there() const {
    if (!there()) invalid_call("there is no draft to judge: offer() one, and accept or settle it once");
  }
  void begin_verdict() {
    check_there();
    state_.value = 1;
  }
  /// Where a verdict stops that was made elsewhere. Y is no token that the verdict rejects, unless it may be any (`repeats`), or
  /// one that was not fed (`unread`). Errors name `of` before what is wrong.
  /// Throws: InvalidArgument if there is no such verdict on this draft.
  template <class Answer>
  NodeVerdict stop_of(const Answer& verdict, Index vocabulary, bool repeats, bool unread,
                      std::string_view of) const {
    check_there();
    Verdict at_node{.token = verdict.token};
    if constexpr (std::same_as<Answer, Verdict>) at_node.accepted = verdict.accepted;
    else at_node.accepted = check_path(view_of(verdict.path), draft_.parents(), of) + 1;
    const NodeVerdict stop = checked(at_node, draft_, draft_.size(), vocabulary, of);
    const Index k = repeats ? -1 : draft_.child(stop.node - 1, stop.token);
    if (k >= 0 && !(unread && row_after(k) == row_after(stop.node - 1)))
      invalid_argument(of, "token = ", stop.token, " is the drafted tokens[", k,
                       "], which the verdict rejects: a rule that may do so says repeats_rejected");
    return stop;
  }
  /// Takes the verdict, and finds what of it enters the text.
  /// Throws: what the tokenizer of the stop strings, or the condition, throws about a token that would enter.
  void set_verdict(const NodeVerdict& verdict, Text& text) {
    set_path(verdict.node);
    accepted_.push_back(verdict.token);
    cut_ = text.cut();
    for (const Index k : path_)
      if (!text.ends(cut_)) cut_ = at(cuts_, k);
    if (!text.ends(cut_)) text.add(verdict.token, cut_, [this] { return accepted(); });
    if (cut_.error) std::rethrow_exception(cut_.error);
  }
  void end_verdict() { state_.value = 2; }
  void check_weighed() const {
    if (state_.value != 2) invalid_call("commit() has no verdict to commit: weigh() the offered draft");
  }
  /// Appends the accepted tokens and Y to the text, and returns them. Sets `cached`. The offer ends. Throws nothing.
  std::span<const Token> enter(Text& text, Index& cached) {
    const Index before = text.size(), uncached = this->uncached();
    const std::span<const Token> emitted = text.append(first(accepted_, cut_.tokens), cut_);
    feed_only(uncached);
    Index last = 0;
    for (const Index k : first(path_, std::min(std::ssize(path_), cut_.tokens)))
      if (const Index row = row_after(k); row > last) kept_.push_back(uncached + (last = row) - 1);
    cached = before + std::ssize(kept_) - uncached;
    withdraw();
    return emitted;
  }

  /// The accepted tokens' numbers in the draft, and the tokens.
  std::span<const Index> path() const { return view_of(path_); }
  std::span<const Token> accepted() const { return first(accepted_, std::ssize(path_)); }
  /// The tokens that enter the text: of the accepted tokens and Y.
  std::span<const Token> emitted() const { return first(accepted_, cut_.tokens); }
  /// The tokens that are fed, of the text and of the draft.
  std::span<const Token> fed() const { return view_of(fed_); }
  /// Of the fed tokens: the numbers of those that the target keeps.
  std::span<const Index> kept() const { return view_of(kept_); }
  /// Of a line: the number of the first token with which the text would end; −1 if there is none.
  Index ending() const { return whole() || !draft_.parents().empty() ? -1 : tree_.size(); }
  /// [node]: the number of the row that the rule gets for the node (Drafted); empty if that is the node's own number.
  std::span<const Index> rows_of_nodes() const { return whole() ? std::span<const Index>() : view_of(rows_); }

  /// What was fed of the draft, as a draft of its own. The verdict on it has the same text: if a token was accepted that ends the
  /// text, it is the token that the target added.
  TokenTreeView fed_draft() const {
    if (whole()) return draft_;
    return {tree_.tokens(), draft_.parents().empty() ? draft_.parents() : tree_.parents()};
  }
  NodeVerdict verdict_on_fed() const {
    Index node = 0;
    for (std::size_t i = 0; i < path_.size(); ++i) {
      const Index next = row_after(path_[i]);
      if (next == node) return {node, accepted_[i]};
      node = next;
    }
    return {node, accepted_.back()};
  }

 private:
  bool whole() const { return tree_.size() == draft_.size(); }
  Index uncached() const { return std::ssize(fed_) - tree_.size(); }
  Index row_after(Index k) const { return at(rows_, k + 1); }

  // A drafter of trees may propose a line with empty parents. A drafter of lines may propose no tree.
  std::span<const Index> parents_of(TokenTreeView draft, bool branches) {
    if (!branches) {
      if (detail::branches(draft.parents()))
        invalid_argument("the drafter proposed a tree, and says that it drafts none (drafts_trees)");
      return {};
    }
    if (!draft.parents().empty() || draft.size() == 0) return draft.parents();
    make_line(line_, draft.size());
    return view_of(line_);
  }

  void check_limits(bool branches, const DraftLimits& limits) {
    if (draft_.size() > limits.nodes)
      invalid_argument("the drafter proposed ", draft_.size(), " tokens when asked for at most ",
                       limits.nodes);
    if (!branches) return;
    check_parents(draft_.tokens(), draft_.parents());
    if (const Index depth = draft_.depths(rows_); depth > limits.depth)  // rows_ is not in use yet
      invalid_argument("the drafter proposed a path of ", depth, " tokens when asked for at most ",
                       limits.depth);
  }

  void fill(Text& text, Index cached, Index vocabulary) {
    const auto uncached = after(text.context(), cached);
    const Index size = draft_.size();
    fed_.clear();
    kept_.clear();
    detail::reserve(fed_, std::ssize(uncached) + size);
    for (const Token x : uncached) fed_.push_back(x);
    tree_.clear();
    rows_.assign(1, 0);
    resize(cuts_, size);
    for (Index k = 0; k < size; ++k) {
      const Index above = at(rows_, draft_.parent(k) + 1);
      if (above < 0 || ends_with(k, text, vocabulary)) {
        rows_.push_back(std::min(above, ~above));  // negative until the end of the loop
      } else {
        fed_.push_back(draft_.token(k) < vocabulary ? draft_.token(k) : Token{0});
        rows_.push_back(tree_.append(draft_.token(k), above - 1) + 1);
      }
    }
    for (Index& row : rows_) row = std::max(row, ~row);
    parents_.clear();
    if (!draft_.parents().empty() && branches(tree_.parents())) {
      make_line(parents_, std::ssize(uncached));
      for (const Index parent : tree_.parents()) parents_.push_back(std::ssize(uncached) + parent);
    }
    detail::reserve(kept_, std::ssize(fed_));
  }

  // Whether the text ends with token k if the path to it is accepted.
  bool ends_with(Index k, Text& text, Index vocabulary) {
    const Index parent = draft_.parent(k);
    Cut& cut = at(cuts_, k) = parent < 0 ? text.cut() : at(cuts_, parent);
    const auto before = [&] { return set_path(parent + 1), accepted(); };
    if (draft_.token(k) >= vocabulary || cut.tokens < 0) cut.tokens = -1;
    else text.add(draft_.token(k), cut, before);
    return text.ends(cut);
  }

  // Node 0 is the context, node k + 1 stands after token k.
  void set_path(Index node) {
    draft_.path_to(node - 1, path_);
    accepted_.clear();
    for (const Index k : path_) accepted_.push_back(draft_.token(k));
  }

  TokenTreeView draft_;
  Uncopied<int> state_;             // 1: on offer; 2: and weighed. A copy has none: the drafter is not copied
  std::vector<Index> line_;         // the parents of a line
  std::vector<Token> fed_;          // tokens of the text, then of the draft
  TokenTree tree_;                  // what of the draft is fed
  std::vector<Index> parents_;      // of the fed tokens, if they branch
  std::vector<Index> kept_, rows_;  // see kept(), rows_of_nodes()
  // [k]: of the path to token k. −1 tokens if one of them is outside the target's vocabulary: the path is never accepted.
  std::vector<Cut> cuts_;
  std::vector<Index> path_;      // see path()
  std::vector<Token> accepted_;  // and Y
  Cut cut_;                      // how many of these enter the text
};

}  // namespace specdec::detail
