// Counts of which token follows which tokens, by scanning texts, and the tree of the likeliest continuations by its
// definition.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

namespace support {

using specdec::Index;
using specdec::Token;

// A tree without its one-hot rows.
struct ChosenTree {
  std::vector<Token> tokens;
  std::vector<Index> parents;
  friend bool operator==(const ChosenTree&, const ChosenTree&) = default;
};

inline ChosenTree chosen_tree(const specdec::Draft<specdec::OneHotRows>& draft) {
  return {{draft.tokens.begin(), draft.tokens.end()}, {draft.parents.begin(), draft.parents.end()}};
}

inline ChosenTree draft_chosen(auto& drafter, std::span<const Token> context,
                               const specdec::DraftLimits& limits) {
  specdec::SplitMix64 none{0};
  return chosen_tree(drafter.draft(context, limits, none));
}

// The path of eldest children.
inline std::vector<Token> eldest_path(const ChosenTree& tree) {
  std::vector<Token> path;
  for (Index last = -1;;) {
    const auto eldest = std::ranges::find(tree.parents, last);
    if (eldest == tree.parents.end()) return path;
    last = eldest - tree.parents.begin();
    path.push_back(tree.tokens[static_cast<std::size_t>(last)]);
  }
}

// What followed the last tokens of a context in the texts, counted anew for each question:
// specdec::detail::Continuations.
class ScannedTexts {
 public:
  ScannedTexts(const std::vector<std::vector<Token>>& texts, Index min_match, Index max_match,
               Index min_count = 1)
      : min_(min_match), max_(max_match), min_count_(min_count) {
    for (const auto& text : texts) add(text, 0);
  }

  // Among tokens of equal counts the lowest id comes first, not the latest token.
  void lowest_first() { lowest_first_ = true; }

  // Tokens before `begin` were counted with another text.
  void add(const std::vector<Token>& text, Index begin) { texts_.push_back({text, begin}); }

  void begin(std::span<const Token> context) {
    places_.assign(1, {context.begin(), context.end()});
    matches_.clear();
  }
  void follow(Index place, Token token) {
    auto next = places_[static_cast<std::size_t>(place)];
    next.push_back(token);
    places_.push_back(next);
  }
  void each_match(Index place, const auto& visit) {
    const auto text = places_[static_cast<std::size_t>(place)];
    for (Index n = std::min(max_, std::ssize(text)); n >= min_; --n) {
      matches_.push_back({text.end() - n, text.end()});
      if (!followers(std::ssize(matches_) - 1).empty() && !visit(std::ssize(matches_) - 1)) return;
    }
  }
  void each_continuation(Index match, const auto& visit) {
    auto found = followers(match);
    std::ranges::sort(found, [this](const Follower& a, const Follower& b) {
      if (a.count != b.count) return a.count > b.count;
      return lowest_first_ ? a.token < b.token : a.last > b.last;
    });
    for (const Follower& one : found) visit(one.token, one.count);
  }
  bool has(Index match, Token token) {
    return std::ranges::any_of(followers(match), [&](const Follower& one) { return one.token == token; });
  }

 private:
  struct Follower {
    Token token;
    Index count = 0, last = 0;
  };

  std::vector<Follower> followers(Index match) const {
    const auto& ngram = matches_[static_cast<std::size_t>(match)];
    std::map<Token, Follower> found;
    Index time = 0;
    for (const auto& [text, begin] : texts_)
      for (auto end = text.begin(); end != text.end(); ++end, ++time) {
        if (end - text.begin() < std::max(std::ssize(ngram), begin) ||
            !std::equal(ngram.begin(), ngram.end(), end - std::ssize(ngram)))
          continue;
        Follower& one = found[*end];
        one = {*end, one.count + 1, time};
      }
    std::vector<Follower> out;
    for (const auto& [token, one] : found)
      if (one.count >= min_count_) out.push_back(one);
    return out;
  }

  std::vector<std::pair<std::vector<Token>, Index>> texts_;
  Index min_, max_, min_count_;
  bool lowest_first_ = false;
  std::vector<std::vector<Token>> places_, matches_;
};

// The definition: of all continuations of all nodes in the tree, the best one is added next.
class CountedTreeByDefinition {
 public:
  CountedTreeByDefinition(ScannedTexts counted, std::span<const Token> context,
                          const specdec::DraftLimits& limits)
      : counted_(std::move(counted)), depth_(limits.depth) {
    if (limits.nodes < 1 || limits.depth < 1) return;
    counted_.begin(context);
    find(-1, 0, 1.0);
    while (std::ssize(tree_.tokens) < limits.nodes) {
      const std::ptrdiff_t next = best();
      if (next < 0) return;
      const Open chosen = open_[static_cast<std::size_t>(next)];
      open_.erase(open_.begin() + next);
      tree_.tokens.push_back(chosen.token);
      tree_.parents.push_back(chosen.parent);
      counted_.follow(chosen.parent + 1, chosen.token);
      find(std::ssize(tree_.tokens) - 1, chosen.depth, chosen.probability);
    }
  }

  const ChosenTree& tree() const { return tree_; }

 private:
  struct Open {
    Token token;
    Index parent, depth;
    bool eldest;
    double probability, priority;
  };

  void find(Index node, Index depth, double probability) {
    if (depth >= depth_) return;
    const std::size_t first = open_.size();
    double left = probability, most = 0;
    std::vector<Token> seen;
    counted_.each_match(node + 1, [&](Index match) {
      std::vector<std::pair<Token, double>> fresh;
      double times = 0;
      counted_.each_continuation(match, [&](Token token, Index count) {
        if (std::ranges::count(seen, token) > 0) return;
        fresh.emplace_back(token, static_cast<double>(count));
        times += static_cast<double>(count);
      });
      for (const auto& [token, count] : fresh) {
        const double p = left * (count - 0.5) / times;
        open_.push_back({token, node, depth + 1, open_.size() == first, p, p});
        most = std::max(most, p);
        seen.push_back(token);
      }
      if (!fresh.empty()) left *= 0.5 * static_cast<double>(fresh.size()) / times;
      return true;
    });
    if (open_.size() > first) open_[first].priority = most;
  }

  std::ptrdiff_t best() const {
    std::ptrdiff_t best = -1;
    for (std::size_t i = 0; i < open_.size(); ++i) {
      const Open& one = open_[i];
      const bool elder_waits = !one.eldest && std::ranges::any_of(open_, [&](const Open& other) {
        return other.eldest && other.parent == one.parent;
      });
      if (!elder_waits && (best < 0 || precedes(one, open_[static_cast<std::size_t>(best)])))
        best = static_cast<std::ptrdiff_t>(i);
    }
    return best;
  }
  static bool precedes(const Open& a, const Open& b) {
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.parent != b.parent) return a.parent < b.parent;
    return a.eldest != b.eldest ? a.eldest : a.token < b.token;
  }

  ScannedTexts counted_;
  Index depth_;
  ChosenTree tree_;
  std::vector<Open> open_;
};

}  // namespace support
