// Draft models that are a layer on the target's hidden states, with a KV cache of its own.
// Source: Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty", arXiv:2401.15077; "EAGLE-2",
// arXiv:2406.16858; "EAGLE-3", arXiv:2503.01840; DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 2.2
// (MTP).
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/heads/draft_layer.hpp"
#include "specdec/more/heads/hidden_states.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A model of logits whose rows are a layer's, for a ModelDrafter beside the target itself. It takes lines, and trees if the
/// layer does. On a target for many texts it is a model for many texts, for a Batch. Then a BatchDraftLayer is called for
/// all texts together, and of a DraftLayer each text has a copy.
///
///   EagleModel eagle{engine, MyLayer{"eagle.bin"}};
///   SpecDec decoder{ProcessedModel{engine, chain}, ModelDrafter{ProcessedModel{eagle, chain}}};
///
/// Each token goes into the layer with the state after the token before it: this is what ports get wrong. If the target has
/// taken the token before it in, this is the target's state. If not, it is the layer's own state, and the token is fed again
/// later, with the target's. Zeros stand before the first token only: if a rollback has left no state before a token, the layer reads
/// again from the last state of the target on. A ModelDrafter proposes nothing (can_draft) if the target does not know all states of
/// the context (states_from), or lacks more than 16 tokens of it, because each of these would take a call of the layer.
///
/// What it shares with HeadModel, Pre and Throws: more/heads/hidden_states.hpp.
/// Pre: the contexts of a BatchDraftLayer are empty. The target shows the hidden states of its whole context.
/// Cost: a call of the layer for the tokens that the target has taken in since the last call, together with the token after them
/// (a long prompt in pieces); then one for each further token of a line, and for each level of a tree. A BatchDraftLayer has
/// these calls for all texts together, a copied layer for each text. A copy of each row. No allocation in steady state. Memory:
/// what the layer keeps, the tokens of the context, a state for each token that the target has not taken in, and two states for
/// each of up to 256 tokens, or 16 for each text of a call.
template <class Target, class Layer>
class EagleModel
    : public detail::ModelOverFeeds<EagleModel<Target, Layer>, detail::HiddenStates<Target>::one_text,
                                    detail::layer_takes_trees<Layer>> {
  static_assert(ShowsHiddenAt<Target>,
                "the target does not show the hidden state of each token: see specdec::ShowsHiddenAt");
  static_assert(DraftLayer<Layer> || BatchDraftLayer<Layer>,
                "the layer is neither a specdec::DraftLayer nor a specdec::BatchDraftLayer");
  static_assert(detail::HiddenStates<Target>::one_text || !DraftLayer<Layer> || BatchDraftLayer<Layer> ||
                    std::copy_constructible<Layer>,
                "the layer cannot be copied, but with a target for many texts each text has a copy of it");

  static constexpr bool trees = detail::layer_takes_trees<Layer>;
  using Base = detail::ModelOverFeeds<EagleModel, detail::HiddenStates<Target>::one_text, trees>;
  friend Base;
  using Layers = detail::LayerOverFeeds<Layer, Base::one_text>;
  using Columns = Eigen::MatrixXf;
  using Matrix = Eigen::Matrix<typename Layers::Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

 public:
  /// A row for each wanted token, one column for each token of the vocabulary. The view lives until the next call.
  using Logits = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
  static constexpr bool steady_rows = false;
  static constexpr bool forks = Layers::forks;

  EagleModel(Target& target, Layer layer) : target_(target), layers_(std::move(layer)) {
    detail::check_token_map(this->layer());
  }

  const Layer& layer() const { return layers_.layer(); }
  Index vocab_size() const { return detail::token_count(layer()); }
  Index context_size() const {
    return std::min(specdec::context_size(target_.target()), specdec::context_size(layer()));
  }

 private:
  // A text, and what the layer knows of it: of the context and then of the tree. It may lack the last tokens, after an error, say.
  struct Text : detail::FedText {
    explicit Text(Index state_size) : own(Columns::Zero(state_size, 1)) {}

    Index fed = 0;      // the layer holds the first `fed` tokens
    Index exact = 0;    // of these, so many were fed with the states of the target
    Columns own;        // the layer's states after the tokens from number exact − 1 on
    bool known = true;  // whether the first of them is

    Index size() const { return length() + tree().size(); }
    // The number of the token that a token follows.
    Index before(Index token) const {
      const Index node = token - length();
      return node < 0 ? token - 1 : length() + tree().parent(node);
    }
    // The column of the layer's state after a token.
    Index after(Index token) const { return token + 1 - exact; }

    // Removes all but the first `length` tokens, and an open tree, from the layer. If the layer's state after the last kept
    // token was not stored, that token is removed as well, and is fed again.
    detail::KeptContext cut(Index length) {
      if (length < exact) {
        length = exact = std::max<Index>(length - 1, 0);
        own.col(0).setZero();
        known = false;
      }
      return {fed = std::min(fed, length)};
    }
    detail::KeptContext keep(std::span<const Index> path) {
      const bool holds_tree = fed == size();
      const Index root = length();
      detail::FedText::keep(path);
      if (!holds_tree) return cut(root);
      for (Index i = 0; i < std::ssize(path); ++i)
        own.col(after(root + i)) = own.col(after(root + detail::at(path, i)));
      fed = length();
      return {root, path};
    }
    detail::KeptContext truncate(Index length) { return cut(detail::FedText::truncate(length).length); }
    detail::KeptContext forget_from(Index node) {
      detail::FedText::forget_from(node);
      return cut(length());
    }
  };

  // What a call has to do for a feed.
  struct Task {
    Text* text;
    Index sequence;
    Index wanted;            // the number of the first token with a wanted row
    Index row;               // the next row of the call's logits
    bool of_target = false;  // the next tokens of the layer come with the target's states
  };

  Index state_size() const { return layer().state_size(); }

  Text begin_text(Index) const { return Text(state_size()); }

  Logits rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed>) {
    for (const BatchFeed& feed : feeds) detail::check_tokens("tokens", feed.tokens, vocab_size());
    const Index rows = detail::rows_of(feeds);
    detail::make_room(logits_, rows, vocab_size());
    list_tasks(feeds);
    while (plan_call()) call_layer();
    return Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(vocab_size()));
  }

  void list_tasks(std::span<const BatchFeed> feeds) {
    tasks_.clear();
    Index row = 0;
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.at(feed.sequence);
      tasks_.push_back({&text, feed.sequence, text.size() - feed.rows, row});
      row += feed.rows;
    }
  }

  // Finds the feeds of the next call of the layer. There is none if the layer has all tokens. A call is bounded, so that long
  // prompts need no more memory than drafts.
  bool plan_call() {
    parts_.clear();
    feeds_.clear();
    Index left = std::max<Index>(256, 16 * std::ssize(tasks_));
    for (Task& task : tasks_)
      if (const Index count = std::min(next_tokens(task), left); count > 0) {
        parts_.push_back(&task);
        feeds_.push_back(feed_of(task, count));
        left -= count;
      }
    return !feeds_.empty();
  }

  // How many tokens of a text can go into the layer together.
  Index next_tokens(Task& task) {
    Text& text = *task.text;
    const Index length = text.length(), end = std::min(length, target_.length(task.sequence) + 1);
    if (!text.known) text.exact = std::clamp<Index>(end - 1, 0, text.exact);
    task.of_target = text.exact < end;
    if (task.of_target) {  // the layer holds some of them with its own states, or none
      layers_.keep(task.sequence, text.cut(text.exact).length);
      return end - text.exact;
    }
    if (text.fed < length) return 1;
    Index last = text.fed;  // of the tree, all tokens whose parents have states
    while (last < text.size() && text.before(last) < text.fed) ++last;
    return last - text.fed;
  }

  BatchFeed feed_of(const Task& task, Index count) const {
    const Text& text = *task.text;
    const Index node = text.fed - text.length();
    const auto part = [&](const auto& list, Index first) { return detail::part(list, first, count); };
    return {{.tokens = node < 0 ? part(text.tokens(), text.fed) : part(text.tree().tokens(), node),
             .from = std::min(text.fed, text.length()),
             .rows = std::clamp<Index>(text.fed + count - task.wanted, 0, count),
             .parents = node < 0 ? std::span<const Index>{} : part(text.tree().parents(), node)},
            task.sequence};
  }

  void call_layer() {
    Index columns = 0;
    for (const BatchFeed& feed : feeds_) columns += std::ssize(feed.tokens);
    detail::make_room(from_, state_size(), columns);
    detail::make_room(next_, state_size(), columns);
    each_part([&](const Task& task, Index first, Index count) {
      for (Index i = 0; i < count; ++i) put_state(task, task.text->fed + i, from_.col(first + i));
    });
    const auto take = [&](std::size_t k, const auto& rows) {
      if (rows.rows() > 0)
        detail::copy_logits(detail::token_map_of(layer()), rows,
                            logits_.middleRows(parts_[k]->row, rows.rows()));
      parts_[k]->row += rows.rows();
    };
    layers_.forward(from_.leftCols(columns), detail::view_of(feeds_), next_.leftCols(columns), take);
    each_part([&](const Task& task, Index first, Index count) {
      take_states(task, next_.middleCols(first, count));
    });
  }

  // Calls visit(task, column, tokens) for each feed of a call of the layer: its tokens have the columns from `column` on.
  template <class Visit>
  void each_part(const Visit& visit) const {
    Index column = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      visit(*parts_[k], column, std::ssize(feeds_[k].tokens));
      column += std::ssize(feeds_[k].tokens);
    }
  }

  // Writes the state before a token. The first token of a text has zeros.
  void put_state(const Task& task, Index token, Eigen::Ref<Eigen::VectorXf> state) {
    if (!task.of_target) state = task.text->own.col(task.text->after(task.text->before(token)));
    else if (token == 0) state.setZero();
    else layers_.layer().begin(target_.at(task.sequence, token - 1), state);
  }

  // The layer has taken in the next tokens of a text, and returned these states.
  void take_states(const Task& task, const Eigen::Ref<const Columns>& states) {
    Text& text = *task.text;
    const Index end = text.fed + states.cols();
    if (task.of_target) {
      text.exact = end;
      text.own.col(0) = states.rightCols(1);
      text.known = true;
    } else {
      const Index columns = text.after(end);
      if (text.own.cols() < columns)
        text.own.conservativeResize(Eigen::NoChange, std::max(columns, 2 * text.own.cols()));
      text.own.middleCols(text.after(text.fed), states.cols()) = states;
    }
    text.fed = end;
  }

  Layers& inner() { return layers_; }
  bool drafts_after(Index sequence, Index length) const {
    return target_.almost_at(sequence, length) && target_.states_from(sequence) == 0;
  }

  detail::HiddenStates<Target> target_;
  Layers layers_;
  detail::FedTexts<Text> texts_;
  // Of a call:
  std::vector<Task> tasks_;       // one for each feed
  std::vector<BatchFeed> feeds_;  // of a call of the layer
  std::vector<Task*> parts_;      // of tasks_, one for each of feeds_
  Columns from_, next_;           // the states before and after the tokens of feeds_
  Matrix logits_;
};

}  // namespace specdec
