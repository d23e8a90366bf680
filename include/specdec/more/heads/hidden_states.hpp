// What a target shows of its hidden states, so that heads and layers can draft from them.
//
// The models that draft so, HeadModel and EagleModel, promise this, in addition to their own comments:
//
//   the target   an lvalue always: it is the decoder's own, and outlives the model. Its context begins with the same tokens as the
//                model's, or is shorter; in a batch both give a text one number. SpecDec and Batch see to this
//   the head     or layer is taken by value: nobody else may call it. (One with large weights shares them between its copies)
//   the rows     steady_rows = false: the row after a token may change once the target has taken in the tokens before it, or the
//                token. So a rule that remembers its sequence (GreedyBlockVerifier) does not compile with it
//   throws       InvalidArgument on bad arguments and if the head returns logits of another shape; InvalidCall on a line while a
//                tree is open; what the head throws. After a throw contexts and trees are as before
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <limits>
#include <span>

#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/rows/mapped.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

template <class M>
concept CountsTokensOfOne = requires(const M& model) {
  { model.length() } -> Count;
};
template <class M>
concept CountsTokensOfMany = requires(const M& model, Index sequence) {
  { model.length(sequence) } -> Count;
};

/// The requirements that heads and layers share.
template <class H>
concept HasSizes = HasVocabSize<H> && requires(const H& head) {
  { head.state_size() } -> Count;
};
template <class H>
concept BeginsStates = requires(H& head, Eigen::Ref<Eigen::VectorXf> state) { head.begin(state, state); };
template <class H>
concept TakesStates = requires(H& head, const Eigen::Ref<const Eigen::MatrixXf>& states,
                               std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
  { head.forward(states, tokens, next, rows) } -> NumberMatrix;
};

}  // namespace detail

/// A model that shows its hidden states, so that heads can draft from them:
///
///   length()    the number of tokens in the context, without an open tree
///   hidden()    what the model knows after the last token of the context: a column of floats, for example what some of its
///               layers returned for that token. A rollback restores it, as truncate(length) and keep(path) restore the KV
///               cache. Not called while the context is empty. The column lives until the next call of the model.
///   states_from()    optional: the first token whose state is known, where only keys and values were kept of those before
///
/// A model for many texts has length(sequence), which is 0 for an unknown number, hidden(sequence) and states_from(sequence).
template <class M>
concept ShowsHidden =
    (detail::CountsTokensOfOne<M> &&
     requires(const M& model, Eigen::Ref<Eigen::VectorXf> column) { column = model.hidden(); }) ||
    (detail::CountsTokensOfMany<M> && requires(const M& model, Eigen::Ref<Eigen::VectorXf> column,
                                               Index sequence) { column = model.hidden(sequence); });

/// A model that shows the hidden state of each token of its context, so that a layer with a KV cache can draft from them:
///
///   length()         as in ShowsHidden
///   hidden_at(i)     what the model knows after token number i of the context, 0 <= i < length(): a column as hidden() is
///                    after the last token. The column lives until the next call of the model.
///   states_from()    as in ShowsHidden. Unless it is 0, nothing is drafted: no layer has seen texts without their beginning
///
/// Any token may be asked for, and more than once. So an engine keeps the states of all tokens beside its KV cache.
/// A model for many texts has length(sequence), which is 0 for an unknown number, hidden_at(sequence, i), states_from(sequence).
template <class M>
concept ShowsHiddenAt =
    (detail::CountsTokensOfOne<M> && requires(const M& model, Eigen::Ref<Eigen::VectorXf> column,
                                              Index token) { column = model.hidden_at(token); }) ||
    (detail::CountsTokensOfMany<M> &&
     requires(const M& model, Eigen::Ref<Eigen::VectorXf> column, Index sequence, Index token) {
       column = model.hidden_at(sequence, token);
     });

namespace detail {

/// Makes a matrix at least this large; its numbers are lost if it grows. After a throw it is as before. (Eigen's own resize()
/// frees the old numbers first, and leaves a dangling pointer if memory runs out.)
template <class Matrix>
void make_room(Matrix& matrix, Index rows, Index cols) {
  if (matrix.rows() >= rows && matrix.cols() >= cols) return;
  Matrix larger(rows, cols);
  matrix.swap(larger);
}

/// The map from the tokens of a head's rows to the target's; null if its rows are over the whole vocabulary.
template <class Head>
const TokenMap* token_map_of([[maybe_unused]] const Head& head) {
  if constexpr (requires { head.token_map(); }) return head.token_map();
  else return nullptr;
}

/// The number of tokens that a head takes in.
template <class Head>
Index token_count(const Head& head) {
  const TokenMap* const map = token_map_of(head);
  return map == nullptr ? head.vocab_size() : map->vocab_size();
}

/// Throws: InvalidArgument if the map is for rows of another size.
template <class Head>
void check_token_map(const Head& head) {
  const TokenMap* const map = token_map_of(head);
  if (map != nullptr && map->draft_vocab_size() != head.vocab_size())
    invalid_argument("token_map() has ", map->draft_vocab_size(),
                     " draft tokens, expected vocab_size() = ", head.vocab_size());
}

/// Copies rows of a head's logits. The other tokens of the target get −∞.
template <class Logits, class Rows>
void copy_logits(const TokenMap* map, const Logits& logits, Rows&& rows) {
  if (map == nullptr) {
    rows = logits;
    return;
  }
  rows.setConstant(-std::numeric_limits<typename Logits::Scalar>::infinity());
  for (Index i = 0; i < logits.rows(); ++i)
    for (Index d = 0; d < logits.cols(); ++d)
      if (const Token x = map->to(static_cast<Token>(d)); x != TokenMap::none) rows(i, x) = logits(i, d);
}

/// The hidden states of a target for one text or for many. With one text, the number of the sequence is not used.
template <class Target>
class HiddenStates {
 public:
  static constexpr bool one_text = !CountsTokensOfMany<Target>;

  explicit HiddenStates(const Target& target) : target_(&target) {}

  const Target& target() const { return *target_; }
  Index length([[maybe_unused]] Index sequence) const {
    if constexpr (!one_text) return static_cast<Index>(target_->length(sequence));
    else return static_cast<Index>(target_->length());
  }
  decltype(auto) last([[maybe_unused]] Index sequence) const {
    if constexpr (!one_text) return target_->hidden(sequence);
    else return target_->hidden();
  }
  decltype(auto) at([[maybe_unused]] Index sequence, Index token) const {
    if constexpr (!one_text) return target_->hidden_at(sequence, token);
    else return target_->hidden_at(token);
  }

  Index states_from([[maybe_unused]] Index sequence) const {
    if constexpr (requires { target_->states_from(sequence); }) return target_->states_from(sequence);
    else if constexpr (requires { target_->states_from(); }) return target_->states_from();
    else return 0;
  }

  /// Whether the target has taken in all but a few of the first `context` tokens. Otherwise, as after a long prompt, a draft
  /// would cost a head a call for each of these tokens.
  bool almost_at(Index sequence, Index context) const { return context - length(sequence) <= 16; }

 private:
  const Target* target_;
};

}  // namespace detail
}  // namespace specdec
