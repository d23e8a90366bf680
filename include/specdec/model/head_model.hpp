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
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/trees.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A model that shows its hidden states, so that heads can draft from them:
///
///   length()    the number of tokens in the context, without an open tree
///   hidden()    what the model knows after the last token of the context: a column of floats, for example what some of its
///               layers returned for that token. A rollback restores it, as truncate(length) and keep(path) restore the KV
///               cache. Not called while the context is empty. The column lives until the next call of the model.
template <class M>
concept ShowsHidden = requires(const M& model, Eigen::Ref<Eigen::VectorXf> column) {
  { model.length() } -> detail::Count;
  column = model.hidden();
};

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
/// Medusa's heads: a state is the hidden state and the depth in the draft; the tokens are not looked at. An MLP speculator or
/// a recurrent drafter: a state is the network's own. A head with attention over the draft (EAGLE) has a KV cache of its own:
/// write it as a Model that reads hidden().
template <class H>
concept Head = requires(H& head, const H& constant, const Eigen::Ref<const Eigen::MatrixXf>& states,
                        std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                        Eigen::Ref<Eigen::VectorXf> state, Index rows) {
  { constant.vocab_size() } -> detail::Count;
  { constant.state_size() } -> detail::Count;
  head.begin(state, state);
  { head.forward(states, tokens, next, rows) } -> NumberMatrix;
};

namespace detail {

/// Compiles only if H is a Head; the error names the missing function.
template <class H>
consteval bool fits_head() {
  if constexpr (!Head<H>) {
    static_assert(
        requires(const H& head) {
          { head.vocab_size() } -> Count;
          { head.state_size() } -> Count;
        },
        "the head has no vocab_size() const or no state_size() const that returns a number: see "
        "specdec::Head");
    static_assert(
        requires(H& head, Eigen::Ref<Eigen::VectorXf> state) { head.begin(state, state); },
        "the head has no begin(hidden, state), which writes a state to an Eigen::Ref<Eigen::VectorXf>: see "
        "specdec::Head");
    static_assert(
        Head<H>,
        "the head has no forward(const Eigen::Ref<const Eigen::MatrixXf>& states, std::span<const "
        "specdec::Token> "
        "tokens, Eigen::Ref<Eigen::MatrixXf> next, specdec::Index rows) that returns a matrix of logits: see "
        "specdec::Head");
  }
  return true;
}

}  // namespace detail

/// A model of logits whose rows are a head's, for a ModelDrafter beside the target itself. It takes lines and trees.
///
///   HeadModel head{engine, MySpeculator{"speculator.bin"}};
///   SpecDec decoder{ProcessedModel{engine, chain}, ModelDrafter{ProcessedModel{head, chain}}};
///
/// Its first row follows from the target's hidden state and the tokens that the target has not taken in yet, usually the
/// last token of the text. Each drafted token turns the state before it into the state after it. The state begins again from
/// hidden() as soon as the target has taken in more tokens. Before the target's first call no hidden state is known: then
/// the state of the empty context is all zeros.
///
/// steady_rows = false: the row after a token may change once the target has taken the token in. So a rule that remembers
/// its sequence (GreedyBlockVerifier) does not compile with it.
/// Pre: the target outlives this object. The target's context begins with the same tokens as the context of this model, or
/// is shorter. SpecDec sees to this.
/// Throws: std::invalid_argument on bad arguments and if the head returns logits of another shape; std::logic_error on a
/// line while a tree is open; what the head throws. After a throw context and tree are as before.
/// Cost: a call of the head for each token of a line, and for each level of a tree; a copy of each row. Tokens that the
/// target has taken in, too, are skipped if their rows are not wanted. No allocation in steady state.
template <class Target, class H>
class HeadModel {
  static_assert(
      ShowsHidden<Target>,
      "the target shows no hidden states: it has no length() const, or no hidden() const that returns "
      "a column of floats: see specdec::ShowsHidden");
  static_assert(detail::fits_head<H>());

  using Output = std::remove_cvref_t<decltype(std::declval<H&>().forward(
      std::declval<const Eigen::Ref<const Eigen::MatrixXf>&>(), std::span<const Token>{},
      std::declval<Eigen::Ref<Eigen::MatrixXf>>(), Index{}))>;
  using Scalar = typename Output::Scalar;

 public:
  /// A row for each wanted token, one column for each token of the vocabulary. The view lives until the next call.
  using Logits = Eigen::Map<const Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>, 0,
                            Eigen::OuterStride<>>;
  static constexpr bool steady_rows = false;

  HeadModel(Target& target, H head)
      : target_(&target), head_(std::move(head)), states_(Columns::Zero(head_.state_size(), 1)) {}

  const H& head() const { return head_; }
  Index vocab_size() const { return head_.vocab_size(); }
  Index context_size() const { return specdec::context_size(*target_); }

  Logits forward(std::span<const Token> tokens, Index rows) & {
    check(tokens, {}, rows);
    const Index length = length_, end = length + std::ssize(tokens);
    const auto call = [&] {
      begin_again(end - rows);
      const auto rest = tokens.last(static_cast<std::size_t>(end - length_));
      line_.clear();
      for (Index i = 0; i < std::ssize(rest); ++i) line_.push_back(i - 1);
      run(rest, line_, rows);
    };
    detail::undo_on_error(call, [&] {
      if (length_ != length) begin_unknown(length);
    });
    length_ = end;
    return view(rows);
  }

  Logits forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) & {
    detail::check_parent_count(std::ssize(parents), std::ssize(tokens));
    check(tokens, parents, rows);
    nodes_.reserve(nodes_.size() + tokens.size());
    if (nodes_.empty()) begin_again(length_);
    run(tokens, parents, rows);
    nodes_.insert(nodes_.end(), parents.begin(), parents.end());
    return view(rows);
  }

  void keep(std::span<const Index> path) {
    detail::check_path(path, nodes_);
    const Index root = column(0);
    for (std::size_t i = 0; i < path.size(); ++i)
      states_.col(root + static_cast<Index>(i)) = states_.col(root + path[i]);
    length_ += std::ssize(path);
    nodes_.clear();
  }

  void truncate(Index length) {
    nodes_.clear();
    if (length >= length_) return;
    if (length < begun_) begin_unknown(std::max<Index>(length, 0));
    else length_ = length;
  }

 private:
  using Columns = Eigen::MatrixXf;

  void check(std::span<const Token> tokens, std::span<const Index> parents, Index rows) const {
    const BatchFeed feed{{.tokens = tokens, .from = length_, .rows = rows, .parents = parents}, 0};
    const detail::FeedCheck<false> check{feed, 0};
    check.branches(!nodes_.empty());
    check.rows();
    detail::check_tokens("tokens", tokens, vocab_size());
    if (!parents.empty()) detail::check_parents(tokens, parents, std::ssize(nodes_));
  }

  // Begins again from the target's hidden state, if it is of a later token than the known one, and of none after the first
  // `most` tokens, because rows after later tokens are wanted.
  void begin_again(Index most) {
    const Index length = static_cast<Index>(target_->length());
    if (length < length_ || length > most || (known_ && length == begun_)) return;
    begin_unknown(length);
    if (length > 0) head_.begin(target_->hidden(), states_.col(0));
    known_ = true;
  }

  // Makes the context `length` tokens long, with an unknown state.
  void begin_unknown(Index length) {
    begun_ = length_ = length;
    known_ = false;
    states_.col(0).setZero();
  }

  // The state after token number `node` of the tree, or of a line that is being added; −1 is the end of the context.
  Index column(Index node) const { return length_ - begun_ + 1 + node; }

  // Computes the states after the tokens, which get the next numbers, and the logits after the last `rows` of them. Tokens
  // whose parents are known go through the head together.
  void run(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const Index count = std::ssize(tokens), first = std::ssize(nodes_);
    reserve(first + count, rows);
    for (Index begin = 0, end = 0; begin < count; begin = end) {
      while (end < count && parents[static_cast<std::size_t>(end)] < first + begin) ++end;
      for (Index i = begin; i < end; ++i)
        from_.col(i - begin) = states_.col(column(parents[static_cast<std::size_t>(i)]));
      const Index wanted = std::clamp<Index>(end - (count - rows), 0, end - begin);
      const auto& logits = head_.forward(
          from_.leftCols(end - begin),
          tokens.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          states_.middleCols(column(first + begin), end - begin), wanted);
      detail::check_shape("head", logits.rows(), logits.cols(), wanted, vocab_size());
      if (wanted > 0) logits_.middleRows(end - wanted - (count - rows), wanted) = logits;
    }
  }

  Logits view(Index rows) const {
    return Logits(logits_.data(), rows, logits_.cols(), Eigen::OuterStride<>(logits_.cols()));
  }

  // Makes room for `nodes` tokens after the context, all of which one call may bring.
  void reserve(Index nodes, Index rows) {
    if (const Index columns = column(nodes); states_.cols() < columns) {
      const Index more = std::max(columns, 2 * states_.cols());
      states_.conservativeResize(Eigen::NoChange, more);
      from_.resize(states_.rows(), more);
    }
    if (logits_.rows() < rows) logits_.resize(rows, vocab_size());
  }

  Target* target_;
  H head_;
  Index length_ = 0;          // tokens of the context
  Index begun_ = 0;           // the state after so many of them is in the first column
  bool known_ = false;        // it is the one of the target's hidden state
  std::vector<Index> nodes_;  // the parents of the open tree's tokens
  Columns states_;  // a column for each token after the first begun_, of the context and then of the tree
  Columns from_;    // of one call of the head
  Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> logits_;
  std::vector<Index> line_;  // the parents of a line's tokens
};

}  // namespace specdec
