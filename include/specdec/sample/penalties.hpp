// Penalties on the tokens that a text has already.
//
// Each counts the last n tokens of the text, the prompt included; AfterPrompt leaves the prompt out. Programs differ:
//
//                          repetition               presence, frequency
//   this library           the last n of the text   the last n of the text
//   llama.cpp              the last n of the text   the last n of the text
//   Hugging Face           the whole text           it has none
//   vLLM, OpenAI           the whole text           what was generated
//
// llama.cpp (penalty_last_n, 64 by default) applies them in the order
// Processors{RepetitionPenalty{θ, n}, FrequencyPenalty{f, n}, PresencePenalty{p, n}}.
// A token that the row has no logit for is left alone: a draft model's vocabulary may be smaller. A finite logit stays
// finite, however large the penalty, and one that is forbidden stays forbidden.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "specdec/error.hpp"
#include "specdec/sample/finite_logit.hpp"
#include "specdec/sample/partial_logits.hpp"
#include "specdec/sample/token_counts.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// Calls change(logit, count) for each token that was counted.
template <class Logits, class Change>
void change_counted(const TokenCounts& counts, Logits& logits, const Change& change) {
  const auto row = partial(logits);
  counts.each([&](Token x, Index count) {
    if (auto* const logit = row.find(x)) change(*logit, count);
  });
}

/// Subtracts a price from the logits of tokens that were counted: once, or for every time.
template <bool every_time>
class Price {
 public:
  Price(const char* name, double price, Index last_n)
      : price_(checked(name, price)), counts_(price == 0 && last_n > 0 ? 0 : last_n) {}

  template <class Logits>
  void apply(Logits&& logits) const {
    change_counted(counts_, logits, [this](auto& logit, Index count) {
      using Scalar = std::remove_cvref_t<decltype(logit)>;
      const double price = every_time ? price_ * static_cast<double>(count) : price_;
      change_finite<Scalar>(logit, logit - nearest_finite<Scalar>(price));
    });
  }
  void push(Token x) { counts_.push(x); }
  void pop(Index n) { counts_.pop(n); }

 private:
  static double checked(const char* name, double price) {
    if (!std::isfinite(price)) invalid_argument(name, "{", price, "} is not a finite number");
    return price;
  }

  double price_;
  TokenCounts counts_;
};

}  // namespace detail

/// Makes tokens that occur less likely, however often they do: divides their logits by θ where they are above 0, and
/// multiplies them by θ where they are not. θ < 1 makes them likelier, 1 changes nothing.
///
/// Source: CTRL (Keskar et al., arXiv:1909.05858, section 4.1), with the multiplication for negative logits that Hugging
/// Face (repetition_penalty) and llama.cpp (repeat_penalty) have, too. It is not invariant under a shift of the logits.
/// Throws std::invalid_argument: θ not above 0, infinite or NaN; last_n negative.
/// Cost: O(distinct tokens) a row. No allocation in steady state.
class RepetitionPenalty {
 public:
  explicit RepetitionPenalty(double theta, Index last_n = unlimited)
      : theta_(theta), counts_(theta == 1 && last_n > 0 ? 0 : last_n) {
    if (!(theta > 0 && theta <= std::numeric_limits<double>::max()))
      detail::invalid_argument("RepetitionPenalty{", theta, "} is not a finite number above 0");
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    detail::change_counted(counts_, logits, [this](auto& logit, Index) {
      using Scalar = std::remove_cvref_t<decltype(logit)>;
      const Scalar theta =
          std::max(detail::nearest_finite<Scalar>(theta_), std::numeric_limits<Scalar>::min());
      detail::change_finite<Scalar>(logit, logit > 0 ? logit / theta : logit * theta);
    });
  }
  void push(Token x) { counts_.push(x); }
  void pop(Index n) { counts_.pop(n); }

 private:
  double theta_;
  detail::TokenCounts counts_;
};

/// Subtracts α from the logits of tokens that occur, however often they do. 0 changes nothing.
///
/// Source: presence_penalty of OpenAI's API, of vLLM and of llama.cpp.
/// Throws std::invalid_argument: α infinite or NaN; last_n negative.
/// Cost: O(distinct tokens) a row. No allocation in steady state.
class PresencePenalty : public detail::Price<false> {
 public:
  explicit PresencePenalty(double alpha, Index last_n = unlimited)
      : Price("PresencePenalty", alpha, last_n) {}
};

/// Subtracts α for every time that a token occurs. 0 changes nothing.
///
/// Source: frequency_penalty of OpenAI's API, of vLLM and of llama.cpp.
/// Throws std::invalid_argument: α infinite or NaN; last_n negative.
/// Cost: O(distinct tokens) a row. No allocation in steady state.
class FrequencyPenalty : public detail::Price<true> {
 public:
  explicit FrequencyPenalty(double alpha, Index last_n = unlimited)
      : Price("FrequencyPenalty", alpha, last_n) {}
};

}  // namespace specdec
