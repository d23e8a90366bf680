// Draft models that are heads on the target's hidden states.
// Source: Stern et al., "Blockwise Parallel Decoding for Deep Autoregressive Models", arXiv:1811.03115; Cai et al.,
// "Medusa", arXiv:2401.10774; Wertheimer et al., "Accelerating Production LLMs with Combined Token/Embedding Speculators",
// arXiv:2404.19124; Cheng et al., "Recurrent Drafter for Fast Speculative Decoding in Large Language Models",
// arXiv:2403.09919.
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/draft_vocabulary.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/hidden_states.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec {
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

namespace detail {

/// Compiles only if H is a Head; the error names the missing function.
template <class H>
consteval bool fits_head() {
  if constexpr (!Head<H>) {
    static_assert(HasSizes<H>,
                  "the head has no vocab_size() const or no state_size() const that returns a number: see "
                  "specdec::Head");
    static_assert(
        BeginsStates<H>,
        "the head has no begin(hidden, state), which writes a state to an Eigen::Ref<Eigen::VectorXf>: see "
        "specdec::Head");
    static_assert(
        TakesStates<H>,
        "the head has no forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const "
        "specdec::Token> "
        "tokens, Eigen::Ref<Eigen::MatrixXf> next, specdec::Index rows) that returns a matrix of logits: see "
        "specdec::Head");
  }
  return true;
}

}  // namespace detail

/// A model of logits whose rows are a head's, for a ModelDrafter beside the target itself. It takes lines and trees. On a
/// target for many texts it is a model for many texts, for a Batch: each call of the head serves all of them.
///
///   HeadModel head{engine, MySpeculator{"speculator.bin"}};
///   SpecDec decoder{ProcessedModel{engine, chain}, ModelDrafter{ProcessedModel{head, chain}}};
///
/// The first row of a draft follows from the target's hidden state and the tokens that the target has not taken in yet,
/// usually the last token of the text. Each drafted token turns the state before it into the state after it. The state begins
/// again from hidden() as soon as the target has taken in more tokens. Before the target's first call no hidden state is
/// known: then the state of the empty context is all zeros. If the target lacks more than 16 tokens of the context, as with a
/// long prompt, a ModelDrafter proposes nothing (can_draft), because each of these tokens would take a call of the head.
///
/// steady_rows = false: the row after a token may change once the target has taken the token in. So a rule that remembers
/// its sequence (GreedyBlockVerifier) does not compile with it.
/// Pre: the target outlives this object. The target's context begins with the same tokens as the context of this model, or
/// is shorter; in a batch both give a text one number. SpecDec and Batch see to this.
/// Throws: std::invalid_argument on bad arguments and if the head returns logits of another shape; std::logic_error on a
/// line while a tree is open; what the head throws. After a throw contexts and trees are as before.
/// Cost: a call of the head for each token of the longest line, and for each level of the deepest tree; a copy of each row.
/// Tokens that the target has taken in, too, are skipped if their rows are not wanted. No allocation in steady state.
template <class Target, class H>
class HeadModel
    : public detail::ModelOverFeeds<HeadModel<Target, H>, detail::HiddenStates<Target>::for_many, true> {
  static_assert(
      ShowsHidden<Target>,
      "the target shows no hidden states: it has no length() const, or no hidden() const that returns "
      "a column of floats: see specdec::ShowsHidden");
  static_assert(detail::fits_head<H>());

  using Base = detail::ModelOverFeeds<HeadModel, detail::HiddenStates<Target>::for_many, true>;
  friend Base;
  using Base::for_many;
  using Output = std::remove_cvref_t<decltype(std::declval<H&>().forward(
      std::declval<const Eigen::Ref<const Eigen::MatrixXf>&>(), std::span<const Token>{},
      std::declval<Eigen::Ref<Eigen::MatrixXf>>(), Index{}))>;
  using Scalar = typename Output::Scalar;

 public:
  /// A row for each wanted token, one column for each token of the vocabulary. The view lives until the next call.
  using Logits = Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;
  static constexpr bool steady_rows = false;

  HeadModel(Target& target, H head) : target_(target), head_(std::move(head)) {
    detail::check_token_map(head_);
    if constexpr (!for_many) texts_.make(0, head_.state_size());
  }

  const H& head() const { return head_; }
  Index vocab_size() const { return detail::token_count(head_); }
  Index context_size() const { return specdec::context_size(target_.target()); }

 private:
  using Columns = Eigen::MatrixXf;

  // The states of a text.
  struct Text {
    explicit Text(Index state_size) : states(Columns::Zero(state_size, 1)) {}

    Index length = 0;    // tokens of the context
    Index begun = 0;     // the state after so many of them is in the first column
    bool known = false;  // it is the one of the target's hidden state
    TokenTree tree;      // after the context
    Columns states;  // a column for each token after the first `begun`, of the context and then of the tree

    // The column after token number `node` of the tree, or of a line that is being added; −1 is the end of the context.
    Index column(Index node) const { return length - begun + 1 + node; }
    void reserve(Index tokens) {
      if (states.cols() < column(tokens))
        states.conservativeResize(Eigen::NoChange, std::max(column(tokens), 2 * states.cols()));
    }
    // Makes the context so long, with an unknown state.
    void begin_unknown(Index size) {
      begun = length = size;
      known = false;
      states.col(0).setZero();
    }
  };

  // What is left of a feed: the tokens from `next` on have no state yet. They get the numbers first + next and so on.
  struct Task {
    Text* text;
    TokenTreeView fed;
    Index rows, first_row;      // of the call's logits
    Index before;               // the length of the context before the call
    Index next = 0, ready = 0;  // the tokens up to `ready` have parents with states

    bool is_line() const { return fed.parents().empty(); }
    Index size() const { return fed.size(); }
    Index first() const { return is_line() ? 0 : text->tree.size(); }
    bool wants(Index i) const { return i >= size() - rows; }
  };

  Logits forward_feeds(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) check_feed(feeds[k], k);
    make_tasks(feeds);
    const auto call = [&] {
      for (std::size_t k = 0; k < feeds.size(); ++k) begin_task(tasks_[k], feeds[k].sequence);
      while (next_level()) run();
    };
    detail::undo_on_error(call, [this] {
      for (const Task& task : tasks_)
        if (task.text->length != task.before) task.text->begin_unknown(task.before);
    });
    for (const Task& task : tasks_) enter(task);
    return Logits(logits_.data(), rows_, vocab_size(), Eigen::OuterStride<>(vocab_size()));
  }

  void check_feed(const BatchFeed& feed, std::size_t k) {
    const Text* const text = texts_.find(feed.sequence);
    detail::FeedCheck<for_many>{feed, k}.after(text == nullptr ? 0 : text->length,
                                               text == nullptr ? 0 : text->tree.size());
    detail::check_tokens("tokens", feed.tokens, vocab_size());
  }

  // Makes room for all that the call brings.
  void make_tasks(std::span<const BatchFeed> feeds) {
    tasks_.clear();
    rows_ = 0;
    Index tokens = 0;
    for (const BatchFeed& feed : feeds) {
      Text& text = texts_.make(feed.sequence, head_.state_size());
      text.tree.reserve(static_cast<std::size_t>(text.tree.size()) + feed.parents.size());
      text.reserve(text.tree.size() + std::ssize(feed.tokens));
      tasks_.push_back({&text, {feed.tokens, feed.parents}, feed.rows, rows_, text.length});
      rows_ += feed.rows;
      tokens += std::ssize(feed.tokens);
    }
    detail::make_room(from_, head_.state_size(), tokens);
    detail::make_room(next_, head_.state_size(), tokens);
    detail::make_room(logits_, rows_, vocab_size());
  }

  void begin_task(Task& task, Index sequence) {
    Text& text = *task.text;
    if (!task.is_line()) {
      if (text.tree.empty()) begin_again(text, sequence, text.length);
      return;
    }
    const Index end = text.length + task.size();
    begin_again(text, sequence, end - task.rows);
    task.fed = {task.fed.tokens().last(static_cast<std::size_t>(end - text.length)), {}};
  }

  // Begins again from the target's hidden state, if it is of a later token than the known one, and of none after the first
  // `most` tokens, because rows after later tokens are wanted.
  void begin_again(Text& text, Index sequence, Index most) {
    const Index length = target_.length(sequence);
    if (length < text.length || length > most || (text.known && length == text.begun)) return;
    text.begin_unknown(length);
    if (length > 0) head_.begin(target_.last(sequence), text.states.col(0));
    text.known = true;
  }
  // Finds the tokens whose parents have states, of all texts: they go through the head together. Returns whether there are
  // any.
  bool next_level() {
    for (Task& task : tasks_) {
      task.next = task.ready;
      while (task.ready < task.size() && task.fed.parent(task.ready) < task.first() + task.next) ++task.ready;
    }
    tokens_.clear();
    wanted_.clear();
    each_of_level([this](const Task& task, Index i) {
      from_.col(std::ssize(tokens_)) = task.text->states.col(task.text->column(task.fed.parent(i)));
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
    each_of_level([&](const Task& task, Index i) {
      task.text->states.col(task.text->column(task.first() + i)) = next_.col(column++);
    });
  }

  // Calls f(task, i) for each token of the level, those with a wanted row last.
  template <class F>
  void each_of_level(const F& f) const {
    for (const bool wanted : {false, true})
      for (const Task& task : tasks_)
        for (Index i = task.next; i < task.ready; ++i)
          if (task.wants(i) == wanted) f(task, i);
  }

  // The call has succeeded: its tokens are in the context, or in the tree.
  static void enter(const Task& task) {
    if (task.is_line()) task.text->length += task.size();
    else task.text->tree.append(task.fed.tokens(), task.fed.parents());
  }

  void keep_path(Index sequence, std::span<const Index> path) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    detail::check_path(path, text->tree.parents());
    const Index root = text->column(0);
    for (std::size_t i = 0; i < path.size(); ++i)
      text->states.col(root + static_cast<Index>(i)) = text->states.col(root + path[i]);
    text->length += std::ssize(path);
    text->tree.clear();
  }

  void keep_length(Index sequence, Index length) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    text->tree.clear();
    if (length >= text->length) return;
    if (length < text->begun) text->begin_unknown(std::max<Index>(length, 0));
    else text->length = length;
  }

  void forget(Index sequence) { texts_.erase(sequence); }
  bool drafts_after(Index sequence, Index length) const { return target_.almost_at(sequence, length); }

  detail::HiddenStates<Target> target_;
  H head_;
  detail::PerSequence<Text, for_many> texts_;
  // Of a call:
  std::vector<Task> tasks_;  // one for each feed
  std::vector<Token> tokens_;
  std::vector<Index> wanted_;  // the row of the logits for each token with a wanted row
  Columns from_, next_;        // the states before and after the tokens of a call of the head
  Index rows_ = 0;
  Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> logits_;
};

}  // namespace specdec
