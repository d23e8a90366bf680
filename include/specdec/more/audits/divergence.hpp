// Explains why two greedy texts differ although they should be equal.
// SPDX-License-Identifier: MIT
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
#include "specdec/lists.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// How to compare two texts.
struct DivergenceOptions {
  /// Tokens per model call. A call returns the rows after all its tokens, like the verification of γ drafted tokens with
  /// γ + 1 rows. For each size the model is asked twice: the texts part at the first row of a call, then at the last row.
  std::vector<Index> call_sizes = {1, 2, 3, 5, 9};
  /// The relative error of a logit, in calls of any size: half a unit in the last place if the engine computes in the type
  /// of the logits; more if it computes in a narrower type. Negative: computed from the type of the logits.
  double precision = -1;
};

/// The model's logits at the place where two texts part, from one call.
struct CallAtParting {
  Index call_size = 0, row = 0;  ///< the most tokens of the call, and the row of the call at the parting
  double left = 0, right = 0;    ///< the logits of the two tokens
  double largest = 0;            ///< the largest logit of the row
};

/// Where two texts part, and why.
struct Divergence {
  enum class Kind {
    none,     ///< the texts are equal
    shorter,  ///< one text is the beginning of the other
    numbers,  ///< call shapes and rounding can explain the difference: both texts are greedy
    left,     ///< the left text is not greedy: the logit of its token is too small
    right,    ///< the right text is not greedy
    both,     ///< neither text is greedy
  };

  Kind kind = Kind::none;
  Index position = -1;                     ///< the length of the common prefix; −1 if the texts do not part
  Token left = -1, right = -1;             ///< the first tokens that differ
  double left_short = 0, right_short = 0;  ///< how far below the largest logit; the least over all calls
  /// How far the call shape moves the logits relative to each other, and how far rounding may move them.
  double moved = 0, rounding = 0;
  std::vector<CallAtParting> calls = {};

  /// Whether both texts can be greedy.
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
        return out << "the first text is not greedy";
      case Kind::right:
        return out << "the second text is not greedy";
      default:
        return out << "neither text is greedy";
    }
  }
};

namespace detail {

/// Asks a model for the row at the parting of two texts, of which `text` is one, after a prompt that is fed together. It is row
/// number `row` of a call of `size` tokens; the call is shorter if text or context end before. A call that would begin within the
/// prompt begins at its first token.
template <class M>
CallAtParting ask_at_parting(M& model, std::span<const Token> text, Index prompt, const Divergence& parting,
                             Index size, Index row) {
  const auto feed = [&](Index at, Index count, Index rows) -> decltype(auto) {
    return model.forward(specdec::detail::part(text, at, count), rows);
  };
  const Index last = prompt + parting.position - 1;
  const Index begin = last - row < prompt ? 0 : last - row;
  const Index end = std::min({last - row + size, std::ssize(text), context_size(model)});
  model.truncate(0);
  if (begin > 0) feed(0, prompt, 1);
  for (Index at = prompt; at < begin; at += size) {
    const Index count = std::min(size, begin - at);
    feed(at, count, count);
  }
  const Index rows = std::min(end - begin, end - last + row);
  const auto& logits = feed(begin, end - begin, rows);
  specdec::detail::check_shape("model", logits.rows(), logits.cols(), rows, model.vocab_size());
  const auto numbers = specdec::numbers(logits).row(last - (end - rows));
  const CallAtParting out{size, row, static_cast<double>(numbers[parting.left]),
                          static_cast<double>(numbers[parting.right]),
                          static_cast<double>(numbers.max(0, numbers.size()))};
  model.truncate(0);
  return out;
}

/// The difference between the largest and the smallest number of the calls. Infinite numbers (of impossible tokens) are ignored.
inline double spread(std::span<const CallAtParting> calls, auto&& number) {
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (const CallAtParting& call : calls) {
    if (!std::isfinite(number(call))) continue;
    least = std::min(least, number(call));
    most = std::max(most, number(call));
  }
  return std::max(0.0, most - least);
}

/// Decides from the calls what kind of divergence it is.
inline void weigh(Divergence& out, double precision) {
  const auto left = [](const CallAtParting& call) { return call.largest - call.left; };
  const auto right = [](const CallAtParting& call) { return call.largest - call.right; };
  out.left_short = out.right_short = std::numeric_limits<double>::infinity();
  for (const CallAtParting& call : out.calls) {
    out.left_short = std::min(out.left_short, left(call));
    out.right_short = std::min(out.right_short, right(call));
    for (const double logit : {call.largest, call.left, call.right})
      if (std::isfinite(logit))
        out.rounding = std::max(out.rounding, 2 * precision * std::abs(logit));  // two logits
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

/// Explains why two greedy texts of one model differ. It finds where they part, how far both tokens are below the largest
/// logit there, and whether the model's own numerical noise can explain that. To measure the noise, it asks for this row in
/// calls of several shapes: kernels that add in another order give other last bits.
///
/// `left` and `right` are the new tokens after `prompt`. If both tokens are within moved + rounding of the largest logit,
/// nothing is wrong: greedy texts may part there. Else there is a bug: a KV cache that was not rolled back, a row of another
/// position, a rule that is not greedy. If a hook or a processor changed the logits, pass a model that applies it, too. The
/// model's context is left empty.
/// Throws: InvalidArgument on an empty prompt, tokens outside the vocabulary, and call sizes that are below 1 or
/// missing; what the model throws.
/// Cost: two passes over the context for each call size.
template <class M>
Divergence explain_divergence(M& model, TokenIds prompt, std::span<const Token> left,
                              std::span<const Token> right, const DivergenceOptions& options = {}) {
  static_assert(specdec::detail::can_be_wrapped<M>());
  static_assert(NumberMatrix<specdec::detail::OutputOf<M>>);  // logits
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
  const auto ask = [&](Index size, Index row) {
    out.calls.push_back(detail::ask_at_parting(model, text, prompt.size(), out, size, row));
  };
  for (const Index wanted : options.call_sizes) {
    const Index size = std::min(wanted, std::ssize(text));
    ask(size, 0);
    if (size > 1) ask(size, size - 1);
  }
  detail::weigh(out, options.precision < 0 ? detail::precision_of_logits<M>() : options.precision);
  return out;
}

}  // namespace specdec::testing
