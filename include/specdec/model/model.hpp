// What a language model has to offer to serve as the target, or inside ModelDrafter as the draft model.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <span>

#include "specdec/error.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A language model with a context of tokens, such as a transformer with its KV cache:
///
///   vocab_size()            number of tokens
///   forward(tokens, rows)   appends `tokens` to the context and returns, as a matrix of probabilities, the
///                           next-token distributions after each of the last `rows` of them
///                           (1 <= rows <= tokens.size()). The rows live until the next call of the model.
///   truncate(length)        keeps the first `length` >= 0 tokens of the context: the rollback of a KV cache.
///                           Does nothing where the context is no longer than that. Must not throw.
///
/// The probabilities must be those that are sampled from, after temperature, top-k and the like.
/// A model whose rows stay valid until their positions are truncated away can say so with a member
/// `static constexpr bool stable_rows = true`: ModelDrafter then keeps the rows themselves instead of a copy.
/// A model whose context is bounded can say so with a member `Index context_size() const`: see context_size.
/// A wrapper that refers to a model can say so with a member `std::vector<const void*> identities() const` that returns
/// specdec::identities(model): wrappers around one model then know that they share its context. One whose calls may branch
/// (takes_trees) has two functions more: see model/trees.hpp.
template <class M>
concept Model = requires(M& model, const M& constant, std::span<const Token> tokens, Index n) {
  { constant.vocab_size() } -> detail::Count;
  { model.forward(tokens, n) } -> Probabilities;
  model.truncate(n);
};

namespace detail {

/// Says what of vocab_size() and truncate() a model lacks. What forward() returns is asked for elsewhere, as it differs
/// between models of probabilities and of logits.
template <class M>
consteval bool sized_and_truncatable() {
  static_assert(
      requires(const M& model) {
        { model.vocab_size() } -> Count;
      }, "the model has no vocab_size() const that returns the number of tokens: see specdec::Model");
  static_assert(
      requires(M& model, Index length) { model.truncate(length); },
      "the model has no truncate(specdec::Index length), which keeps the first tokens of its context: see "
      "specdec::Model");
  return true;
}

/// Refuses rows, over `size` tokens each, of another shape than asked for: they would be read, or copied, out of bounds.
/// `model` is what the message calls the model.
inline void check_shape(const char* model, Index rows, Index size, Index asked, Index vocab_size) {
  if (rows != asked || (asked > 0 && size != vocab_size))
    invalid_argument("the ", model, " returned ", rows, " rows over ", size, " tokens, expected ", asked,
                     asked == 1 ? " row" : " rows", " over its vocabulary of ", vocab_size);
}

/// Over how many tokens the rows of a matrix are, if it has any.
template <class Matrix>
Index row_size(const Matrix& rows) {
  return rows.rows() > 0 ? Index{rows.row(0).vocab_size()} : Index{0};
}

}  // namespace detail

/// The most tokens that the model's context holds, where it says so: a generation ends when the target's
/// context is full, and a drafter proposes no more than its model's has room for. `unlimited` where it says nothing,
/// or an unsigned number that is more than any Index.
template <class M>
Index context_size(const M& model) {
  if constexpr (requires { model.context_size(); }) {
    using Size = std::remove_cvref_t<decltype(model.context_size())>;
    static_assert(detail::Count<Size>, "the model's context_size() is no integer");
    if constexpr (std::unsigned_integral<Size>)
      return static_cast<Index>(std::min<std::uintmax_t>(model.context_size(), unlimited));
    else return model.context_size();
  } else {
    return unlimited;
  }
}

/// Stands for a target that the caller calls himself, between Sequence::propose() and accept().
struct ExternalTarget {
  Index vocabulary;           ///< how many tokens there are
  Index context = unlimited;  ///< how many tokens its context holds

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return context; }
};

/// Whether the model keeps the tokens that it was fed, as wrappers do for what they add, and says so with a member
/// `static constexpr bool keeps_context = true`: a context that somebody else has filled is then not known to it.
template <class M>
inline constexpr bool knows_its_context = [] {
  if constexpr (requires { M::keeps_context; }) return static_cast<bool>(M::keeps_context);
  else return false;
}();

/// Whether the calls of a model, for one text or for many, may branch: see model/trees.hpp.
template <class M>
inline constexpr bool takes_trees =
    requires(M& model, std::span<const Token> tokens, std::span<const Index> numbers, Index n) {
      model.forward(tokens, numbers, n);
      model.keep(numbers);
    } || requires(M& model, Index sequence, std::span<const Index> path) { model.keep(sequence, path); };

/// Whether the model promises rows that outlive the next call.
template <class M>
inline constexpr bool has_stable_rows = [] {
  if constexpr (requires { M::stable_rows; }) return static_cast<bool>(M::stable_rows);
  else return false;
}();

}  // namespace specdec
