// Draft models that are a layer on the target's hidden states, with a KV cache of its own.
// Source: Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty", arXiv:2401.15077; "EAGLE-2",
// arXiv:2406.16858; "EAGLE-3", arXiv:2503.01840; DeepSeek-AI, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 2.2
// (MTP).
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <concepts>
#include <cstddef>
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
#include "specdec/model/hidden_states.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {
/// A layer that drafts: a small network with a KV cache, which reads a state beside each token.
///
///   vocab_size(), state_size()     numbers of tokens in the vocabulary, and of floats in a state
///   begin(hidden, state)           writes the state that is made of the target's hidden_at(i) to the column `state`
///   forward(states, tokens, next, rows)
///                                  appends `tokens` to the context. Column i of `states` is the state after the token
///                                  before tokens[i]: the target's, or the layer's own. Writes the layer's own state after
///                                  tokens[i] to column i of `next`. Returns a matrix of logits, with a row after each of
///                                  the last `rows` tokens (0 <= rows <= tokens.size()); they live until the next call.
///   truncate(length)               keeps the first `length` tokens of the context. Must not throw.
///   context_size()                 optional: how many tokens the context can hold
///
/// A layer that takes trees also has forward(states, tokens, parents, next, rows) and keep(path): see model/trees.hpp. Column
/// i of `states` is then the state after the parent of tokens[i]. A throw of forward() may leave anything behind that
/// truncate() takes away.
///
/// The first token of a text comes with zeros. A layer that was trained on texts without their first token leaves that token
/// out of its keys. A layer that knows only a part of the vocabulary (EAGLE-3) returns −∞ for all other tokens.
template <class L>
concept DraftLayer = requires(L& layer, const L& constant, const Eigen::Ref<const Eigen::MatrixXf>& states,
                              std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                              Eigen::Ref<Eigen::VectorXf> state, Index n) {
  { constant.vocab_size() } -> detail::Count;
  { constant.state_size() } -> detail::Count;
  layer.begin(state, state);
  { layer.forward(states, tokens, next, n) } -> NumberMatrix;
  layer.truncate(n);
};

namespace detail {

/// Whether a DraftLayer takes trees.
template <class L>
inline constexpr bool layer_takes_trees =
    requires(L& layer, const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const Token> tokens,
             Eigen::Ref<Eigen::MatrixXf> next, std::span<const Index> numbers, Index rows) {
      layer.forward(states, tokens, numbers, next, rows);
      layer.keep(numbers);
    };

/// Compiles only if L is a DraftLayer; the error names the missing function.
template <class L>
consteval bool fits_draft_layer() {
  if constexpr (!DraftLayer<L>) {
    static_assert(
        requires(const L& layer) {
          { layer.vocab_size() } -> Count;
          { layer.state_size() } -> Count;
        },
        "the layer has no vocab_size() const or no state_size() const that returns a number: see "
        "specdec::DraftLayer");
    static_assert(
        requires(L& layer, Eigen::Ref<Eigen::VectorXf> state) { layer.begin(state, state); },
        "the layer has no begin(hidden, state), which writes a state to an Eigen::Ref<Eigen::VectorXf>: see "
        "specdec::DraftLayer");
    static_assert(
        requires(L& layer, Index length) { layer.truncate(length); },
        "the layer has no truncate(specdec::Index length), which keeps the first tokens of its context: see "
        "specdec::DraftLayer");
    static_assert(
        DraftLayer<L>,
        "the layer has no forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const "
        "specdec::Token> "
        "tokens, Eigen::Ref<Eigen::MatrixXf> next, specdec::Index rows) that returns a matrix of logits: see "
        "specdec::DraftLayer");
  }
  return true;
}

}  // namespace detail

/// A model of logits whose rows are a layer's, for a ModelDrafter beside the target itself. It takes lines, and trees if the
/// layer does. On a target for many texts it is a model for many texts, for a Batch; each text has a copy of the layer.
///
///   EagleModel eagle{engine, MyLayer{"eagle.bin"}};
///   SpecDec decoder{ProcessedModel{engine, chain}, ModelDrafter{ProcessedModel{eagle, chain}}};
///
/// Each token goes into the layer with the state after the token before it: this is what ports get wrong. If the target has
/// taken the token before it in, this is the target's state. If not, it is the layer's own state, and the token is fed again
/// later, with the target's. Zeros stand for a state that nobody knows: before the first token, and sometimes after a rollback.
/// If the target lacks more than 16 tokens of the context, as with a long prompt, a ModelDrafter proposes nothing (can_draft),
/// because each of these tokens would take a call of the layer.
///
/// steady_rows = false: the row after a token may change once the target has taken the tokens before it in. So a rule that
/// remembers its sequence (GreedyBlockVerifier) does not compile with it.
/// Pre: the target outlives this object, and shows the hidden states of its whole context. That context begins with the same
/// tokens as this model's context, or is shorter; in a batch both give a text one number. SpecDec and Batch see to this.
/// Throws: std::invalid_argument on bad arguments and if the layer returns logits of another shape; std::logic_error on a
/// line while a tree is open; what the layer throws. After a throw contexts and trees are as before.
/// Cost, for each text of a call: a call of the layer for the tokens that the target has taken in since the last call, together
/// with the token after them (256 tokens at most in one call); then one for each further token of a line, and for each level of
/// a tree. A copy of each row. No allocation in steady state. Memory: what the layer keeps, the tokens of the context, and a
/// state for each token that the target has not taken in.
template <class Target, class Layer>
class EagleModel
    : public detail::ModelOverFeeds<EagleModel<Target, Layer>, detail::HiddenStates<Target>::for_many,
                                    detail::layer_takes_trees<Layer>> {
  static_assert(ShowsHiddenAt<Target>,
                "the target does not show the hidden state of each token: it has no length() const, or no "
                "hidden_at(specdec::Index "
                "token) const that returns a column of floats: see specdec::ShowsHiddenAt");
  static_assert(detail::fits_draft_layer<Layer>());
  static_assert(!detail::HiddenStates<Target>::for_many || std::copy_constructible<Layer>,
                "the layer cannot be copied, but with a target for many texts each text has a copy of it");

  static constexpr bool trees = detail::layer_takes_trees<Layer>;
  using Base = detail::ModelOverFeeds<EagleModel, detail::HiddenStates<Target>::for_many, trees>;
  friend Base;
  using Base::for_many;
  using Columns = Eigen::MatrixXf;
  using Output = std::remove_cvref_t<decltype(std::declval<Layer&>().forward(
      std::declval<const Eigen::Ref<const Columns>&>(), std::span<const Token>{},
      std::declval<Eigen::Ref<Columns>>(), Index{}))>;
  using Scalar = typename Output::Scalar;
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  static constexpr Index most_columns =
      256;  // of a call of the layer: a long prompt needs no more memory than that

 public:
  /// A row for each wanted token, one column for each token of the vocabulary. The view lives until the next call.
  using Logits = Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>;
  static constexpr bool steady_rows = false;

  EagleModel(Target& target, Layer layer) : target_(target), layer_(std::move(layer)) {
    layer_.truncate(0);
    if constexpr (!for_many) texts_.make(0, layer_);
  }

  const Layer& layer() const { return layer_; }
  Index vocab_size() const { return layer_.vocab_size(); }
  Index context_size() const {
    return std::min(specdec::context_size(target_.target()), specdec::context_size(layer_));
  }

 private:
  struct Nothing {
    explicit Nothing(const Layer&) {}
  };

  // A text, and what its layer knows of it. The layer may lack the last tokens, for example after an error.
  struct Text {
    explicit Text(const Layer& first) : layer(first), own(Columns::Zero(first.state_size(), 1)) {}

    [[no_unique_address]] std::conditional_t<for_many, Layer, Nothing> layer;
    std::vector<Token> tokens;   // of the context, then of the open tree
    std::vector<Index> parents;  // of the tree's tokens
    Index fed = 0;               // the layer holds the first `fed` tokens
    Index exact = 0;             // of these, so many were fed with the states of the target
    Columns own;  // the layer's states after the tokens from number exact − 1 on; zeros where it is not known

    Index length() const { return std::ssize(tokens) - std::ssize(parents); }
    // The columns of the layer's states before and after token number `token`, if it follows the one before it.
    Index before(Index token) const { return token - exact; }
    Index after(Index token) const { return token + 1 - exact; }
  };

  Layer& layer_of([[maybe_unused]] Text& text) {
    if constexpr (for_many) return text.layer;
    else return layer_;
  }

  // Removes all but the first `length` tokens, and an open tree, from the layer. If the layer's state after the last kept token
  // was not stored, that token is removed as well, and is fed again.
  void cut(Text& text, Index length) noexcept {
    if (length < text.exact) {
      length = text.exact = std::max<Index>(length - 1, 0);
      text.own.col(0).setZero();
    }
    text.fed = std::min(text.fed, length);
    layer_of(text).truncate(text.fed);
  }

  Logits forward_feeds(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) check(feeds[k], k);
    const Index rows = detail::rows_of(feeds);
    if (logits_.rows() < rows) logits_.resize(rows, vocab_size());
    row_ = 0;
    std::size_t entered = 0;
    const auto call = [&] {
      for (; entered < feeds.size(); ++entered) enter(feeds[entered]);
      for (const BatchFeed& feed : feeds) catch_up(feed);
    };
    detail::undo_on_error(call, [&] {
      for (const BatchFeed& feed : feeds.first(entered)) take_back(feed);
    });
    return Logits(logits_.data(), rows, vocab_size(), Eigen::OuterStride<>(vocab_size()));
  }

  void check(const BatchFeed& feed, std::size_t k) {
    const Text* const text = texts_.find(feed.sequence);
    const detail::FeedCheck<for_many> check{feed, k};
    check.from(text == nullptr ? 0 : text->length());
    check.branches(text != nullptr && !text->parents.empty());
    check.rows();
    detail::check_tokens("tokens", feed.tokens, vocab_size());
    if (!feed.parents.empty())
      detail::check_parents(feed.tokens, feed.parents, text == nullptr ? 0 : std::ssize(text->parents));
  }

  // Adds the tokens of a feed to its text, not yet to its layer.
  void enter(const BatchFeed& feed) {
    Text& text = texts_.make(feed.sequence, layer_);
    detail::append(text.parents, feed.parents);
    const auto add = [&] { detail::append(text.tokens, feed.tokens); };
    detail::undo_on_error(add, [&] { text.parents.resize(text.parents.size() - feed.parents.size()); });
  }
  void take_back(const BatchFeed& feed) noexcept {
    Text& text = texts_.at(feed.sequence);
    text.tokens.resize(text.tokens.size() - feed.tokens.size());
    text.parents.resize(text.parents.size() - feed.parents.size());
    cut(text, text.length());
  }

  // Feeds the layer what it has not got of a text.
  void catch_up(const BatchFeed& feed) {
    Text& text = texts_.at(feed.sequence);
    wanted_ = std::ssize(text.tokens) - feed.rows;
    feed_with_states_of_target(text, feed.sequence);
    const Index columns = text.after(std::ssize(text.tokens));
    if (text.own.cols() < columns)
      text.own.conservativeResize(Eigen::NoChange, std::max(columns, 2 * text.own.cols()));
    feed_context(text);
    if constexpr (trees) feed_tree(text);
  }

  // The tokens of the context for which the target has a state, if any of them was fed without it, or not at all.
  void feed_with_states_of_target(Text& text, Index sequence) {
    const Index end = std::min(text.length(), target_.length(sequence) + 1);
    if (text.exact < end) cut(text, text.exact);
    while (text.exact < end) {
      const Index first = text.exact, count = std::min(end - first, most_columns);
      reserve(count);
      for (Index i = 0; i < count; ++i) state_of_target(text, sequence, first + i, from_.col(i));
      feed_layer(text, first + count, {});
      text.own.col(0) = next_.col(count - 1);
      text.exact = first + count;
    }
  }

  // The rest of the context, one token after another.
  void feed_context(Text& text) {
    reserve(1);
    while (text.fed < text.length()) {
      const Index token = text.fed;
      from_.col(0) = text.own.col(text.before(token));
      feed_layer(text, token + 1, {});
      text.own.col(text.after(token)) = next_.col(0);
    }
  }

  // The tokens of the tree whose parents have states go into the layer together.
  void feed_tree(Text& text) {
    const Index length = text.length(), size = std::ssize(text.parents);
    const auto parent = [&](Index node) { return text.parents[static_cast<std::size_t>(node)]; };
    for (Index first = text.fed - length, end = first; first < size; first = end) {
      while (end < size && parent(end) < first) ++end;
      reserve(end - first);
      for (Index node = first; node < end; ++node)
        from_.col(node - first) = text.own.col(text.after(length + parent(node)));
      feed_layer(text, length + end,
                 detail::view_of(text.parents)
                     .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)));
      text.own.middleCols(text.after(length + first), end - first) = next_.leftCols(end - first);
    }
  }

  // Feeds the layer the next tokens, up to number `end`, with the states in from_. Copies the wanted rows.
  void feed_layer(Text& text, Index end, std::span<const Index> parents) {
    const Index count = end - text.fed, rows = std::clamp<Index>(end - wanted_, 0, count);
    const auto tokens = detail::view_of(text.tokens)
                            .subspan(static_cast<std::size_t>(text.fed), static_cast<std::size_t>(count));
    const auto take = [&](const auto& logits) {
      detail::check_shape("layer", logits.rows(), logits.cols(), rows, vocab_size());
      if (rows > 0) logits_.middleRows(row_, rows) = logits;
    };
    if (parents.empty()) {
      take(layer_of(text).forward(from_.leftCols(count), tokens, next_.leftCols(count), rows));
    } else if constexpr (trees) {
      take(layer_of(text).forward(from_.leftCols(count), tokens, parents, next_.leftCols(count), rows));
    }
    row_ += rows;
    text.fed = end;
  }

  // Writes the target's state before a token. The first token of a text has zeros.
  void state_of_target(Text& text, Index sequence, Index token, Eigen::Ref<Eigen::VectorXf> state) {
    if (token == 0) state.setZero();
    else layer_of(text).begin(target_.at(sequence, token - 1), state);
  }

  void reserve(Index columns) {
    if (from_.cols() >= columns) return;
    from_.resize(layer_.state_size(), columns);
    next_.resize(layer_.state_size(), columns);
  }

  void keep_path(Index sequence, std::span<const Index> path) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    detail::check_path(path, text->parents);
    const Index length = text->length(), kept = std::ssize(path);
    if (text->fed == std::ssize(text->tokens)) {
      if constexpr (trees) layer_of(*text).keep(path);
      text->fed = length + kept;
    } else {
      cut(*text, length);
    }
    for (Index i = 0; i < kept; ++i) {
      const Index from = length + path[static_cast<std::size_t>(i)];
      text->tokens[static_cast<std::size_t>(length + i)] = text->tokens[static_cast<std::size_t>(from)];
      text->own.col(text->after(length + i)) = text->own.col(text->after(from));
    }
    text->tokens.resize(static_cast<std::size_t>(length + kept));
    text->parents.clear();
  }

  void keep_length(Index sequence, Index length) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    length = std::clamp<Index>(length, 0, text->length());
    text->tokens.resize(static_cast<std::size_t>(length));
    text->parents.clear();
    cut(*text, length);
  }

  void forget(Index sequence) { texts_.erase(sequence); }
  bool drafts_after(Index sequence, Index length) const { return target_.almost_at(sequence, length); }

  detail::HiddenStates<Target> target_;
  Layer layer_;  // of the one text; or with an empty context, and copied for each of many texts
  detail::PerSequence<Text, for_many> texts_;
  // Of a call:
  Columns from_, next_;  // the states before and after the tokens of a call of the layer
  Matrix logits_;
  Index wanted_ = 0;  // the number of the first token of the text with a wanted row
  Index row_ = 0;     // the next row of the call's logits
};

}  // namespace specdec
