// Why two greedy texts that should agree do not.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <ostream>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/sample/model_logits.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::testing {

/// How two texts were compared.
struct DivergenceOptions {
  /// How many tokens of the text a call takes in at a time, asked for the rows after all of them, as verification of γ
  /// drafted tokens does with γ + 1. Of each the model is asked twice about the parting: by the first row of a call, and by
  /// the last.
  std::vector<Index> call_sizes = {1, 2, 3, 5, 9};
  /// By how much of itself a logit may be off, whatever the call: half a unit of its last bit, where it is as the type that
  /// it is handed over in; more where the engine computes in less. Negative: that of the type.
  double precision = -1;
};

/// What the model says where two texts part.
struct CallAtParting {
  Index call_size = 0, row = 0;  ///< by which row of a call of how many tokens, at most
  double left = 0, right = 0;    ///< the logits of the two tokens
  double largest = 0;            ///< and of the row
};

/// Where two texts part, and why.
struct Divergence {
  enum class Kind {
    none,     ///< they do not: they are one text
    shorter,  ///< they do not, but one ends before the other
    numbers,  ///< within what the call's shape and the rounding of logits may do: both texts are greedy
    left,     ///< the left text's token is not the model's: its logit is too small for numbers to be why
    right,    ///< the right text's is not
    both,     ///< nor is either
  };

  Kind kind = Kind::none;
  Index position = -1;          ///< how many tokens the two texts begin with in common, where they part
  Token left = -1, right = -1;  ///< what they go on with
  double left_short = 0,
         right_short = 0;  ///< by how much their logits are below the row's largest, at the least
  /// By how much the shape of a call moves one of the logits against another, and by how much rounding may.
  double moved = 0, rounding = 0;
  std::vector<CallAtParting> calls = {};

  /// Whether both texts may be greedy ones.
  explicit operator bool() const {
    return kind == Kind::none || kind == Kind::shorter || kind == Kind::numbers;
  }

  friend std::ostream& operator<<(std::ostream& out, const Divergence& d) {
    if (d.kind == Kind::none) return out << "the texts do not part";
    if (d.kind == Kind::shorter) return out << "one text is the beginning of the other";
    out << "the texts part after " << d.position << " tokens: " << d.left << " is " << d.left_short
        << " below the largest logit, " << d.right << " is " << d.right_short
        << "; calls of other shapes move logits by " << d.moved << ", rounding may by " << d.rounding << ": ";
    switch (d.kind) {
      case Kind::numbers:
        return out << "within the numbers";
      case Kind::left:
        return out << "the left text is not greedy";
      case Kind::right:
        return out << "the right text is not greedy";
      default:
        return out << "neither text is greedy";
    }
  }
};

namespace detail {

/// Asks a model about the row after one of the tokens of a text.
template <class M>
class AtParting {
 public:
  /// The row after the first `length` tokens of the text, the first `prompt` of which are fed together.
  AtParting(M& model, std::span<const Token> text, Index prompt, Index length, Token left, Token right)
      : model_(model), text_(text), prompt_(prompt), last_(length - 1), left_(left), right_(right) {}

  /// By row number `row` of a call of `size` tokens, where text and context have room for such a call. A call that would
  /// begin in the prompt begins with it.
  CallAtParting ask(Index size, Index row) {
    model_.truncate(0);
    const Index begin = last_ - row < prompt_ ? 0 : last_ - row;
    const Index end = std::min({last_ - row + size, std::ssize(text_), context_size(model_)});
    if (begin > 0) feed(0, prompt_, 1);
    for (Index at = prompt_; at < begin; at += size) {
      const Index count = std::min(size, begin - at);
      feed(at, count, count);
    }
    const Index rows = std::min(end - begin, end - last_ + row);
    const auto& logits = feed(begin, end - begin, rows);
    specdec::detail::check_shape(logits, rows, model_.vocab_size());
    const auto numbers = specdec::numbers(logits).row(last_ - (end - rows));
    const CallAtParting out{size, row, static_cast<double>(numbers[left_]),
                            static_cast<double>(numbers[right_]),
                            static_cast<double>(numbers.max(0, numbers.size()))};
    model_.truncate(0);
    return out;
  }

 private:
  decltype(auto) feed(Index at, Index count, Index rows) {
    return model_.forward(text_.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)), rows);
  }

  M& model_;
  std::span<const Token> text_;
  Index prompt_, last_;
  Token left_, right_;
};

/// How far apart numbers of the calls are. One that is infinite, of a token that cannot come out, tells nothing.
inline double spread(std::span<const CallAtParting> calls, auto&& number) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const CallAtParting& call : calls) {
    if (!std::isfinite(number(call))) continue;
    least = std::min(least, number(call));
    most = std::max(most, number(call));
  }
  return std::max(0.0, most - least);
}

/// What the calls make of the two tokens.
inline void weigh(Divergence& out, double precision) {
  const auto left = [](const CallAtParting& call) { return call.largest - call.left; };
  const auto right = [](const CallAtParting& call) { return call.largest - call.right; };
  out.left_short = out.right_short = std::numeric_limits<double>::infinity();
  for (const CallAtParting& call : out.calls) {
    out.left_short = std::min(out.left_short, left(call));
    out.right_short = std::min(out.right_short, right(call));
    for (const double logit : {call.largest, call.left, call.right})
      if (std::isfinite(logit))
        out.rounding = std::max(out.rounding, 2 * precision * std::abs(logit));  // of two
  }
  const auto margin = [](const CallAtParting& call) { return call.left - call.right; };
  out.moved = std::max({spread(out.calls, left), spread(out.calls, right), spread(out.calls, margin)});
  const double allowed = out.moved + out.rounding;
  const bool left_fits = out.left_short <= allowed, right_fits = out.right_short <= allowed;
  using Kind = Divergence::Kind;
  out.kind = left_fits && right_fits ? Kind::numbers
             : left_fits             ? Kind::right
             : right_fits            ? Kind::left
                                     : Kind::both;
}

inline void check_call_sizes(std::span<const Index> sizes) {
  using specdec::detail::invalid_argument;
  if (sizes.empty()) invalid_argument("call_sizes is empty: nothing would be asked");
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 1) invalid_argument("call_sizes[", i, "] = ", sizes[i], " is below 1");
}

template <class M>
double precision_of_logits() {
  using Stored = typename std::remove_cvref_t<
      decltype(numbers(std::declval<specdec::detail::OutputOf<M>&>()).row(0))>::Stored;
  if constexpr (std::floating_point<Stored>) return std::numeric_limits<Stored>::epsilon() / 2;
  else return rounding_of_itself<Stored>;
}

}  // namespace detail

/// Explains why two texts that the same model should have written greedily differ: where they part, how far the two tokens
/// are below the largest logit there, and whether that lies within what the model's own numbers do. For that the model is
/// asked about that place by calls of several shapes, since kernels that add in another order give other last bits.
///
/// `left` and `right` are the new tokens after `prompt`. Two greedy texts may part where both tokens are within
/// moved + rounding of the largest logit: then nothing is wrong but the wish for equal texts. Else something is: a cache
/// that was not rolled back, a row of another position, a rule that is not greedy. The logits are the model's own: where a
/// hook or a processor changed them, give a model of logits that does so, too.
/// Throws std::invalid_argument on an empty prompt, tokens outside the vocabulary, call sizes below 1 or none; what the model
/// throws. The model's context is left empty.
/// Cost: twice as many passes over the context as there are call sizes.
template <class M>
Divergence explain_divergence(M& model, TokenIds prompt, std::span<const Token> left,
                              std::span<const Token> right, const DivergenceOptions& options = {}) {
  static_assert(specdec::detail::sized_and_truncatable<M>());
  static_assert(NumberMatrix<specdec::detail::OutputOf<M>>,
                "the model returns no logits: its forward(tokens, rows) returns them as an Eigen matrix, "
                "RowPointers or RowVectors");
  using specdec::detail::check_tokens;
  if (prompt.empty()) specdec::detail::invalid_argument("prompt is empty: there is nothing to continue");
  check_tokens("prompt", prompt, model.vocab_size());
  check_tokens("left", left, model.vocab_size());
  check_tokens("right", right, model.vocab_size());
  detail::check_call_sizes(options.call_sizes);

  const auto [l, r] = std::ranges::mismatch(left, right);
  if (l == left.end() && r == right.end()) return {};
  if (l == left.end() || r == right.end()) return {.kind = Divergence::Kind::shorter};
  Divergence out{.position = l - left.begin(), .left = *l, .right = *r};
  std::vector<Token> text;
  for (Index i = 0; i < prompt.size(); ++i) text.push_back(static_cast<Token>(prompt[i]));
  text.insert(text.end(), left.begin(), left.end());
  detail::AtParting parting(model, text, prompt.size(), prompt.size() + out.position, *l, *r);
  for (const Index wanted : options.call_sizes) {
    const Index size = std::min(wanted, std::ssize(text));
    out.calls.push_back(parting.ask(size, 0));
    if (size > 1) out.calls.push_back(parting.ask(size, size - 1));
  }
  detail::weigh(out, options.precision < 0 ? detail::precision_of_logits<M>() : options.precision);
  return out;
}

}  // namespace specdec::testing
