// Draft models that are heads on the target's hidden states.
// Source: Stern et al., "Blockwise Parallel Decoding for Deep Autoregressive Models", arXiv:1811.03115; Cai et al., "Medusa",
// arXiv:2401.10774; Wertheimer et al., "Accelerating Production LLMs with Combined Token/Embedding Speculators",
// arXiv:2404.19124; Cheng et al., "Recurrent Drafter for Fast Speculative Decoding in Large Language Models", arXiv:2403.09919.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/heads/hidden_states.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
/// A head: what turns a hidden state and drafted tokens into logits.
///
///   vocab_size()                           number of tokens in the vocabulary
///   state_size()                           how many floats a state has
///   begin(hidden, state)                   writes the state that follows from the target's hidden() to the column `state`
///   forward(states, tokens, next, rows)    column i of `states` is the state before tokens[i]. Writes the state after
///                                          tokens[i] to column i of `next`. Returns a matrix of logits, with a row after
///                                          each of the last `rows` tokens (0 <= rows <= tokens.size()). The tokens do not
///                                          follow one another: each has a state of its own. The logits live until the next
///                                          call.
///
/// It may also have
///
///   token_map()                            returns a const TokenMap*, for a head that drafts only some of the target's tokens:
///                                          then its logits have a column for each draft token, vocab_size() in all, and the
///                                          map says which tokens of the target they are. All tokens are still taken in. Null:
///                                          the head drafts all tokens. The map lives and stays as long as the head
///
/// Medusa's heads: a state is the hidden state and the depth in the draft; only a Markov term looks at the tokens. An MLP
/// speculator or a recurrent drafter: a state is the network's own. A head with attention over the text (EAGLE) has a KV
/// cache of its own: see EagleModel.
template <class H>
concept Head = detail::HasSizes<H> && detail::BeginsStates<H> && detail::TakesStates<H>;

/// A model of logits whose rows are a head's, for a ModelDrafter beside the target itself. It takes lines and trees. On a
/// target for many texts it is a model for many texts, for a Batch: each call of the head serves all of them.
///
///   HeadModel head{engine, MySpeculator{"speculator.bin"}};
///   SpecDec decoder{ProcessedModel{engine, chain}, ModelDrafter{ProcessedModel{head, chain}}};
///
/// The first row of a draft follows from the target's hidden state and the tokens that the target has not taken in yet, usually
/// the last token of the text. Each drafted token turns the state before it into the state after it. The state begins again
/// from hidden() as soon as the target has taken in more tokens. A ModelDrafter proposes nothing (can_draft) where no hidden
/// state is known, before the target's first call and after a prefix without states (states_from): no head has seen zeros, from
/// which rows then follow that are asked for all the same. Nor does it if the target lacks more than 16 tokens of the context,
/// because each of these tokens would take a call of the head.
///
/// What it shares with EagleModel, Pre and Throws: more/heads/hidden_states.hpp.
/// Cost: a call of the head for each token of the longest line, and for each level of the deepest tree; a copy of each row.
/// Tokens that the target has taken in, too, are skipped if their rows are not wanted. No allocation in steady state.
template <class Target, class H>
class HeadModel
    : public detail::ModelOverFeeds<HeadModel<Target, H>, detail::HiddenStates<Target>::one_text, true> {
  static_assert(ShowsHidden<Target>, "the target shows no hidden states: see specdec::ShowsHidden");
  static_assert(Head<H>, "the head is no specdec::Head");

  using Base = detail::ModelOverFeeds<HeadModel, detail::HiddenStates<Target>::one_text, true>;
  friend Base;
  using Output = std::remove_cvref_t<decltype(std::declval<H&>().forward(
      std::declval<const Eigen::Ref<const Eigen::MatrixXf>&>(), std::span<const Token>{},
      std::declval<Eigen::Ref<Eigen::MatrixXf>>(), Index{}))>;
  using Scalar = typename Output::Scalar;

 public:
  /// A row for each wanted token, one column for each token of the vocabulary. The view lives until the next call.
  using Logits = Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;
  static constexpr bool steady_rows = false;
  static constexpr bool forks = true;

  HeadModel(Target& target, H head) : target_(target), head_(std::move(head)) {
    detail::check_token_map(head_);
  }

  const H& head() const { return head_; }
  Index vocab_size() const { return detail::token_count(head_); }
  Index context_size() const { return specdec::context_size(target_.target()); }

 private:
  using Columns = Eigen::MatrixXf;

  // A text, and its states.
  struct Text : detail::FedText {
    explicit Text(Index state_size) : states(Columns::Zero(state_size, 1)) {}

    Index begun = 0;  // the state after so many tokens of the context is in the first column
    Index known = 0;  // the states up to the one after so many follow from a hidden state; 0: from zeros
    Columns states;   // a column for each token after the first `begun`, of the context and then of the tree

    // The column of the state after so many tokens of the context and of the tree.
    Index column(Index tokens) const { return tokens - begun; }

    // Makes room for states from the one after `first` tokens on, with `more` tokens.
    void reserve(Index first, Index more) {
      const Index columns = length() + tree().size() + more - first + 1;
      if (states.cols() < columns)
        states.conservativeResize(Eigen::NoChange, std::max(columns, 2 * states.cols()));
    }
    void add(std::span<const Token> tokens, std::span<const Index> parents) {
      reserve(begun, std::ssize(tokens));
      detail::FedText::add(tokens, parents);
    }
    void keep(std::span<const Index> path) {
      const Index first = column(length() + 1);
      for (Index i = 0; i < std::ssize(path); ++i)
        states.col(first + i) = states.col(first + detail::at(path, i));
      detail::FedText::keep(path);
      if (known > 0) known = length();
    }
    void truncate(Index length) {
      const Index left = detail::FedText::truncate(length).length;
      if (left < begun || (known > 0 && known < left)) begin_unknown(left);
      known = std::min(known, left);
    }
    // The first column is the state after so many tokens, which is not known.
    void begin_unknown(Index tokens) {
      begun = tokens;
      known = 0;
      states.col(0).setZero();
    }
  };

  // What is left of a feed: the tokens from `next` on have no state yet.
  struct Task {
    Text* text;
    TokenTreeView fed;
    Index rows, first_row;      // of the call's logits
    Index root, first;          // how many tokens stand before the line or the tree, and before the feed
    Index next = 0, ready = 0;  // the tokens up to `ready` have parents with states

    Index size() const { return fed.size(); }
    bool wants(Index i) const { return i >= size() - rows; }
    // The columns of the states before and after token i.
    Index before(Index i) const { return text->column(root + 1 + fed.parent(i)); }
    Index after(Index i) const { return text->column(first + 1 + i); }
  };

  Text begin_text(Index) const { return Text(head_.state_size()); }

  Logits rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed>) {
    for (const BatchFeed& feed : feeds) detail::check_tokens("tokens", feed.tokens, vocab_size());
    make_tasks(feeds);
    while (next_level()) run();
    for (const Task& task : tasks_)
      if (task.text->known > 0) task.text->known = task.text->length();
    return Logits(logits_.data(), rows_, vocab_size(), Eigen::OuterStride<>(vocab_size()));
  }

  void make_tasks(std::span<const BatchFeed> feeds) {
    tasks_.clear();
    rows_ = 0;
    Index tokens = 0;
    for (const BatchFeed& feed : feeds) {
      begin_task(feed, texts_.at(feed.sequence));
      rows_ += feed.rows;
      tokens += std::ssize(feed.tokens);
    }
    detail::make_room(from_, head_.state_size(), tokens);
    detail::make_room(next_, head_.state_size(), tokens);
    detail::make_room(logits_, rows_, vocab_size());
  }

  void begin_task(const BatchFeed& feed, Text& text) {
    const Index length = text.length();
    if (!feed.parents.empty()) {
      const Index before = text.tree().size() - std::ssize(feed.tokens);
      if (before == 0) begin_again(text, feed.sequence, length, length);
      tasks_.push_back({&text, {feed.tokens, feed.parents}, feed.rows, rows_, length, length + before});
    } else {
      begin_again(text, feed.sequence, text.known > 0 ? feed.from : 1, length - feed.rows);
      const Index first = text.known > 0 ? text.known : feed.from;  // tokens before it need no state
      tasks_.push_back({&text, {detail::after(text.tokens(), first), {}}, feed.rows, rows_, first, first});
    }
  }

  // Begins again from the target's hidden state, if it is of a later token than the known one, and of a token from number `least`
  // (1 if no state is known: the tokens after it go through the head again) to number `most`: later rows are wanted.
  void begin_again(Text& text, Index sequence, Index least, Index most) {
    const Index length = target_.length(sequence);
    if (length < least || length > most || (text.known > 0 && length == text.begun)) return;
    if (length <= target_.states_from(sequence)) return;
    text.reserve(length, 0);
    text.begin_unknown(length);
    head_.begin(target_.last(sequence), text.states.col(0));
    text.known = length;
  }
  // Finds the tokens whose parents have states, of all texts, to go through the head together. Returns whether there are any.
  bool next_level() {
    for (Task& task : tasks_) {
      task.next = task.ready;
      while (task.ready < task.size() && task.before(task.ready) <= task.after(task.next - 1)) ++task.ready;
    }
    tokens_.clear();
    wanted_.clear();
    each_of_level([this](const Task& task, Index i) {
      from_.col(std::ssize(tokens_)) = task.text->states.col(task.before(i));
      tokens_.push_back(task.fed.token(i));
      if (task.wants(i)) wanted_.push_back(task.first_row + i - (task.size() - task.rows));
    });
    return !tokens_.empty();
  }

  // Computes the states after these tokens, and the wanted rows.
  void run() {
    const Index count = std::ssize(tokens_), wanted = std::ssize(wanted_);
    const auto& logits = head_.forward(from_.leftCols(count), tokens_, next_.leftCols(count), wanted);
    detail::check_shape("head", logits.rows(), logits.cols(), wanted, head_.vocab_size());
    const TokenMap* const map = detail::token_map_of(head_);
    for (Index r = 0; r < wanted; ++r)
      detail::copy_logits(map, logits.row(r), logits_.row(detail::at(wanted_, r)));
    Index column = 0;
    each_of_level(
        [&](const Task& task, Index i) { task.text->states.col(task.after(i)) = next_.col(column++); });
  }

  // Calls f(task, i) for each token of the level, those with a wanted row last.
  template <class F>
  void each_of_level(const F& f) const {
    for (const bool wanted : {false, true})
      for (const Task& task : tasks_)
        for (Index i = task.next; i < task.ready; ++i)
          if (task.wants(i) == wanted) f(task, i);
  }

  static std::monostate inner() { return {}; }  // the target is not told what happens to the texts
  bool drafts_after(Index sequence, Index length) const {
    return target_.almost_at(sequence, length) && target_.states_from(sequence) < target_.length(sequence);
  }

  detail::HiddenStates<Target> target_;
  H head_;
  detail::FedTexts<Text> texts_;
  // Of a call:
  std::vector<Task> tasks_;  // one for each feed
  std::vector<Token> tokens_;
  std::vector<Index> wanted_;  // the row of the logits for each token with a wanted row
  Columns from_, next_;        // the states before and after the tokens of a call of the head
  Index rows_ = 0;
  Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> logits_;
};

}  // namespace specdec
