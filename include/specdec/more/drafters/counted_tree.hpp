// Lines and trees of the continuations that are most probable by their counts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <type_traits>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The form of a SuffixDrafter or a DatastoreDrafter that drafts a tree. Without it the draft is a line.
struct Branching {};

namespace detail {

struct Linear {};

template <class Form>
concept CountedForm = std::same_as<Form, Linear> || std::same_as<Form, Branching>;

/// What a draft of the form is limited by: a line by its length.
template <CountedForm Form>
using CountedLimits = std::conditional_t<std::same_as<Form, Branching>, DraftLimits, Index>;

inline double checked_share(const char* drafter, double min_share) {
  if (!(min_share >= 0 && min_share <= 1))
    invalid_argument(drafter, " needs 0 <= min_share <= 1, not min_share = ", min_share);
  return min_share;
}

/// The token that followed the longest match at a place most often, and how often any token followed it. 0: there is no match.
struct LikeliestToken {
  Token token = 0;
  Index count = 0, followed = 0;
};

/// Token by token the likeliest continuation. Ends where there is none, or where it is less than min_share of all that followed.
class CountedLine {
 public:
  /// `counted` has follow() of Continuations, and likeliest(place), which returns a LikeliestToken.
  template <class C>
  Draft<OneHotRows> grow(C& counted, Index gamma, double min_share) {
    tokens_.clear();
    for (Index place = 0; place < gamma; ++place) {
      const auto [token, count, followed] = counted.likeliest(place);
      if (count == 0 || static_cast<double>(count) < min_share * static_cast<double>(followed)) break;
      tokens_.push_back(token);
      counted.follow(place, token);
    }
    return chosen(tokens_);
  }

 private:
  std::vector<Token> tokens_;
};

/// Counts of which tokens followed which strings. A place is a position in the draft: place 0 is after the context, and each
/// follow() makes the next place. A match is a number that stands for the last tokens before a place, if some token has
/// followed these tokens before.
///
///   follow(place, token)             makes the place after `token` at `place`; places are numbered in the order of calls
///   each_match(place, visit)         calls visit(match) for the matches at the place, the longest first, while visit
///                                    returns true
///   each_continuation(match, visit)  calls visit(token, count) for each distinct token that followed the match: first for
///                                    the token that a line would draft, then for the others in any order
///   has(match, token)                whether the token followed the match
///
/// Pre: a token that followed a match has followed each shorter match at least as often. If the counts are wrong (a datastore
/// with a wrong order), siblings differ nevertheless.
template <class C>
concept Continuations = requires(C& counted, Index place, Index match, Token token) {
  counted.follow(place, token);
  counted.each_match(place, [](Index) { return true; });
  counted.each_continuation(match, [](Token, Index) {});
  { counted.has(match, token) } -> std::same_as<bool>;
};

/// The tree of a context's continuations that are most probable by their counts. Its path of eldest children equals the
/// draft that the drafter would make as a line.
///
/// A match was followed T times in all, and c times by one token. This token has probability (2c − 1)/2T. The rest, 1/2T for each
/// distinct token, goes to tokens that did not follow the match. The next shorter match shares it out in the same way, and so on.
/// The probability of a node is the product along its path. The tree gets the nodes of largest probability. An eldest child comes
/// before its siblings, whatever its probability. Among equals, the child of the earlier node comes first, then the lower id.
/// Source: prediction by partial matching with escape method D (Howard and Vitter, "Practical Implementations of Arithmetic
/// Coding", 1993), with exclusion.
/// Cost: each node above the deepest level reads the continuations of its matches, the longest match first, until a match's share
/// is too small to enter the tree; each continuation of a shorter match takes one has(). No allocation in steady state.
template <Continuations C>
class CountedTree {
 public:
  Draft<OneHotRows> grow(C& counted, const DraftLimits& limits) {
    tree_.clear();
    found_.clear();
    open_.clear();
    best_.clear();
    nodes_ = limits.nodes;
    depth_ = limits.depth;
    if (nodes_ > 0 && depth_ > 0) offer(expand(counted, {-1, 0, 1.0}));
    while (size() < nodes_ && !open_.empty()) offer(take(counted, next()));
    return {tree_.tokens(), OneHotRows(tree_.tokens()), tree_.parents()};
  }

 private:
  static constexpr Index none = -1;

  struct Node {
    Index number;
    Index depth;
    double probability;
  };

  // A continuation of a node. The continuations of one node are stored in sequence, each after its elder sibling.
  struct FoundContinuation {
    Token token;
    Index parent;
    Index depth;
    double probability;  // while a match is read: how often the token followed it
    double priority = 0;
    bool youngest = false;
  };

  Index size() const { return tree_.size(); }
  FoundContinuation& found(Index i) { return at(found_, i); }

  // Adds continuation i to the tree. Returns its eldest child, or none.
  Index take(C& counted, Index i) {
    const FoundContinuation taken = found(i);
    if (repeats(i)) {
      if (!taken.youngest) offer(i + 1);
      return none;
    }
    const Node node{tree_.append(taken.token, taken.parent), taken.depth, taken.probability};
    if (!taken.youngest) offer(i + 1);
    counted.follow(taken.parent + 1, taken.token);
    return node.depth < depth_ && size() < nodes_ ? expand(counted, node) : none;
  }

  // Whether an elder sibling has the same token.
  bool repeats(Index i) const {
    const FoundContinuation* const one = found_.data() + i;
    for (const FoundContinuation* elder = one; elder != found_.data() && (--elder)->parent == one->parent;)
      if (elder->token == one->token) return true;
    return false;
  }

  auto after() {
    return [this](Index a, Index b) {
      const double left = found(a).priority, right = found(b).priority;
      return left != right ? left < right : a > b;
    };
  }

  // Opens a continuation: open ones may be added next. At most one of several siblings is open, as elders go first.
  void offer(Index i) {
    if (i == none) return;
    open_.push_back(i);
    std::push_heap(open_.begin(), open_.end(), after());
  }
  Index next() {
    std::pop_heap(open_.begin(), open_.end(), after());
    const Index i = open_.back();
    open_.pop_back();
    return i;
  }
  // A continuation of this priority or less cannot come into the tree.
  double least() const { return std::ssize(best_) < nodes_ ? 0 : best_.front(); }

  void remember(double priority) {
    if (std::ssize(best_) == nodes_) {
      if (priority <= best_.front()) return;
      std::pop_heap(best_.begin(), best_.end(), std::greater<>());
      best_.pop_back();
    }
    best_.push_back(priority);
    std::push_heap(best_.begin(), best_.end(), std::greater<>());
  }

  // Finds the continuations of a node that may come into the tree. Returns the eldest, or none.
  Index expand(C& counted, const Node& node) {
    const std::size_t eldest = found_.size();
    Index longer = none;
    double left = node.probability;  // the share left for tokens that followed no match so far
    counted.each_match(node.number + 1, [&](Index match) {
      if (found_.size() > eldest && left <= least()) return false;
      left *= read(counted, match, longer, eldest, {node.number, node.depth, left});
      longer = match;
      return true;
    });
    if (found_.size() == eldest) return none;
    rank(eldest);
    return static_cast<Index>(eldest);
  }

  // Finds the tokens that followed a match and no longer match. Returns the share for tokens that did not follow it.
  double read(C& counted, Index match, Index longer, std::size_t eldest, const Node& node) {
    const std::size_t start = found_.size();
    double times = 0;
    counted.each_continuation(match, [&](Token token, Index count) {
      if (longer != none && counted.has(longer, token)) return;
      times += static_cast<double>(count);
      found_.push_back({token, node.number, node.depth + 1, static_cast<double>(count)});
    });
    if (found_.size() == start) return 1;
    const double share = 0.5 * static_cast<double>(found_.size() - start) / times;
    for (std::size_t i = start; i < found_.size(); ++i)
      found_[i].probability = node.probability * (found_[i].probability - 0.5) / times;
    const auto hopeless = [least = least()](const FoundContinuation& one) {
      return one.probability <= least;
    };
    const auto younger = found_.begin() + static_cast<std::ptrdiff_t>(std::max(start, eldest + 1));
    found_.erase(std::remove_if(younger, found_.end(), hopeless), found_.end());
    return share;
  }

  // Sets the order of siblings.
  void rank(std::size_t eldest) {
    const auto younger = found_.begin() + static_cast<std::ptrdiff_t>(eldest + 1);
    std::sort(younger, found_.end(), [](const FoundContinuation& a, const FoundContinuation& b) {
      return a.probability != b.probability ? a.probability > b.probability : a.token < b.token;
    });
    if (std::ssize(found_) - static_cast<Index>(eldest) > nodes_)
      found_.erase(younger + (nodes_ - 1), found_.end());
    for (std::size_t i = eldest; i < found_.size(); ++i) found_[i].priority = found_[i].probability;
    if (eldest + 1 < found_.size())
      found_[eldest].priority = std::max(found_[eldest].priority, found_[eldest + 1].priority);
    for (std::size_t i = eldest; i < found_.size(); ++i) remember(found_[i].priority);
    found_.back().youngest = true;
  }

  TokenTree tree_;
  std::vector<FoundContinuation> found_;
  std::vector<Index> open_;   // a heap
  std::vector<double> best_;  // the largest priorities found, a heap with the least of them in front
  Index nodes_ = 0, depth_ = 0;
};

}  // namespace detail
}  // namespace specdec
