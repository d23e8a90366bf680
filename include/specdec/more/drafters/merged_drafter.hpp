// The guesses of several drafters as one tree.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <exception>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/member_drafters.hpp"
#include "specdec/executor.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// Asks all its drafters, and proposes what they guess as one tree, in which equal beginnings stand once.
///
///   MergedDrafter drafter{ModelDrafter{small}, ModelDrafter{other}, SuffixDrafter{}};
///   SpecDec decoder{target, drafter, TrunkAndSpares<KeyedVerifier>{}};
///
/// With a Keyed every model guesses by the numbers that the target draws with: so several models guess the target's own token where
/// one of them would miss it, and one seed still gives one text, whatever is drafted (arXiv:2609.21858).
/// Members are as in FallbackDrafter, but are not asked to keep_drafting: a draft length that reads rows sees none. Each is asked for
/// an equal part of the tokens of the draft. Their tokens stand in the tree in the
/// order of the members. Which siblings there are depends on draws, and the rows of different members cannot be rows of one draw. So
/// the rows are one-hot: what was drawn counts as chosen, by numbers that no rule uses again. It is lossless under every rule for trees,
/// but ratios of p and q bring nothing: use TrunkAndSpares of SampleMatchVerifier, KeyedVerifier or ArgmaxVerifier.
/// Random: the draws of all members, one member after the other.
/// Cost: the drafts of all members; an allocation.
template <class... D>
class MergedDrafter : public detail::MemberDrafters<D...> {
  using Base = detail::MemberDrafters<D...>;

 public:
  static constexpr bool drafts_trees = true;

  explicit MergedDrafter(D&&... drafters) : Base(std::forward<D>(drafters)...) {}

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    std::vector<DraftRequest<std::remove_pointer_t<decltype(Request::source)>>> asked;
    asked.reserve(requests.size());
    for (Request& request : requests) {
      texts_[request.sequence].begin(request.limits.nodes);
      asked.push_back({request.sequence, request.context, request.limits, request.source});
      asked.back().limits.nodes = share(request.limits.nodes);
    }
    auto left = std::span(asked);
    Base::each([&](auto& member) {
      detail::draft_with(member, left, for_each);
      const auto failed = std::ranges::partition(left, [](const auto& request) { return !request.error; });
      for (auto& request : failed) texts_.find(request.sequence)->second.error = request.error;
      left = left.first(left.size() - failed.size());
    });
    for (const auto& request : left) merge(request.sequence);
    for (Request& request : requests)
      request.error = std::exchange(texts_.find(request.sequence)->second.error, nullptr);
  }

  Draft<OneHotRows> drafted(Index sequence) const {
    const TokenTree& tree = texts_.find(sequence)->second.tree;
    return {tree.tokens(), OneHotRows(tree.tokens()), tree.parents()};
  }

  void release(Index sequence) {
    Base::release(sequence);
    texts_.erase(sequence);
  }
  typename Base::State take(Index sequence) {
    texts_.erase(sequence);
    return Base::take(sequence);
  }

 private:
  struct Text {
    TokenTree tree;
    Index most;                // tokens of the tree
    std::exception_ptr error;  // of the draft in the making

    void begin(Index nodes) {
      tree.clear();
      most = nodes;
      error = nullptr;
    }
  };

  static Index share(Index most) {
    return most == unlimited ? most : std::max(most / Index{sizeof...(D)}, std::min<Index>(most, 1));
  }

  void merge(Index sequence) {
    Text& text = texts_.find(sequence)->second;
    Base::each([&](auto& member) {
      const auto& draft = std::as_const(member).drafted(sequence);
      add(text, TokenTreeView(draft.tokens, detail::parents_of(draft)));
    });
  }

  // Adds what the tree has not, as far as there is room.
  void add(Text& text, const TokenTreeView& draft) {
    numbers_.clear();
    for (Index k = 0; k < draft.size(); ++k) {
      const Index above = draft.parent(k), parent = above < 0 ? -1 : detail::at(numbers_, above);
      Index number = parent == left_out ? left_out : text.tree.view().child(parent, draft.token(k));
      if (number == -1)
        number = text.tree.size() < text.most ? text.tree.append(draft.token(k), parent) : left_out;
      numbers_.push_back(number);
    }
  }
  static constexpr Index left_out = -2;

  std::unordered_map<Index, Text> texts_;
  std::vector<Index> numbers_;  // in the tree, of the tokens of a draft
};

template <class... D>
MergedDrafter(D&&...) -> MergedDrafter<D...>;

}  // namespace specdec
