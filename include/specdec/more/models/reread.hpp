// For models whose context can be cut back only so far: sliding-window caches, and recurrent models that keep a few states.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A Text of FedTexts that knows how much of the context the model holds. The model can be cut back by `reach` tokens.
class RereadText : public FedText {
 public:
  explicit RereadText(Index reach) : reach_(reach) {}

  void add(std::span<const Token> tokens, std::span<const Index> parents) {
    const Index before = tree().size();
    reserve(depths_, before + std::ssize(parents));
    FedText::add(tokens, parents);
    undo_on_error([&] { check_reach(); }, [&] { tree().forget_from(before); });
  }
  KeptContext keep(std::span<const Index> path) {
    const KeptContext kept = FedText::keep(path);
    const Index length = cached_ + std::ssize(path);
    if (cut(length) < length) return {0};
    return kept;
  }
  KeptContext truncate(Index length) {
    FedText::truncate(length);
    return {cut(std::min(this->length(), cached_))};
  }

  /// How many tokens of the context the model has cached, and those from there up to number `end`.
  Index cached() const { return cached_; }
  std::span<const Token> uncached(Index end) const { return detail::part(tokens(), cached_, end - cached_); }

  /// The model is about to take more tokens in, and has taken in a line. A tree's tokens are not cached before keep().
  void lengthen(Index tokens) { longest_ = std::max(longest_, held_ += tokens); }
  void taken(Index tokens) { cached_ += tokens; }

 private:
  // Notes that the model's context is cut to `length` tokens, or to 0 because its reach ends before. Returns the new length.
  Index cut(Index length) {
    const bool emptied = length <= 0 || longest_ - length > reach_;
    if (emptied) longest_ = 0;
    return held_ = cached_ = emptied ? 0 : length;
  }

  // To take a token in, the model goes back over those that are not on the way to it.
  void check_reach() {
    tree().view().depths(depths_);
    for (Index node = 0; node < tree().size(); ++node) {
      const Index beside = node + 1 - at(depths_, node);
      if (beside > reach_)
        invalid_argument("before token ", node, " of the tree stand ", beside,
                         " tokens that are not on the way to it, more than the reach of ", reach_);
    }
  }

  Index reach_;
  std::vector<Index> depths_;  // for check_reach()
  Index cached_ = 0;           // how many of the context's tokens the model has cached
  Index held_ = 0;             // these, and the tokens of the model's own tree
  Index longest_ = 0;          // the most that held_ has been since the model's context was last empty
};

}  // namespace detail

/// Makes a model whose context can be cut back only by reach() tokens one that can be cut back to any length. Within the
/// reach it cuts the model's context. Beyond it, it empties the context, and the next call reads the text again.
///
///   Reread target{model};                                             // the model has a member Index reach() const
///   ProcessedModel target{Reread{engine}, Chain{Temperature{0.8}}};   // if the model returns logits
///
/// Drafts stay within the reach by themselves, trees with all of their tokens. So a text is read again only if it is resumed from
/// far back, after a call that failed, or where a wrapper around this one goes far back. Returns the model's own rows, which live
/// as long as the model says. Takes trees if the model does. A wrapper: see model/feeds.hpp.
/// Cost: none within the reach; else one call more, for all tokens of the texts that are read again.
/// Memory: the tokens of each context.
template <class M>
class Reread : public detail::WrapsModel<Reread<M>, M> {
  using Base = detail::WrapsModel<Reread, M>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(detail::can_be_wrapped<Bare, false>());
  static_assert(detail::has_reach<Bare>,
                "the model has no Index reach() const, so its context can be cut back to any length without "
                "a specdec::Reread: see specdec::reach");

 public:
  explicit Reread(M&& model) : Base(std::forward<M>(model)) {}

  static constexpr bool stable_rows = has_stable_rows<Bare>;
  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;

 private:
  detail::RereadText begin_text(Index) const { return detail::RereadText(this->reach()); }

  decltype(auto) rows_after(std::span<const BatchFeed>, std::span<const BatchFeed> of_model) {
    read_again(of_model);
    return call(of_model);
  }

  // Feeds the tokens before each feed that the model has lost.
  void read_again(std::span<const BatchFeed> feeds) {
    again_.clear();
    for (const BatchFeed& feed : feeds) {
      const detail::RereadText& text = texts_.at(feed.sequence);
      if (text.cached() < feed.from)
        again_.push_back({{.tokens = text.uncached(feed.from), .from = text.cached()}, feed.sequence});
    }
    if (!again_.empty()) call(detail::view_of(again_));
  }

  decltype(auto) call(std::span<const BatchFeed> feeds) {
    for (const BatchFeed& feed : feeds) texts_.at(feed.sequence).lengthen(std::ssize(feed.tokens));
    decltype(auto) output = this->inner().forward(feeds);
    texts_.taken(feeds);
    for (const BatchFeed& feed : feeds)
      if (feed.parents.empty()) texts_.at(feed.sequence).taken(std::ssize(feed.tokens));
    return output;
  }

  detail::FedTexts<detail::RereadText> texts_;
  std::vector<BatchFeed> again_;
};

template <class M>
Reread(M&&) -> Reread<M>;

}  // namespace specdec
