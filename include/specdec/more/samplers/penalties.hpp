// Penalties on tokens that the text already contains.
//
// Each penalty counts the last n tokens of the text, including the prompt. AfterPrompt leaves the prompt out. Programs
// count different tokens:
//
//                          repetition               presence, frequency
//   this library           the last n of the text   the last n of the text
//   llama.cpp              the last n of the text   the last n of the text
//   Hugging Face           the whole text           it has none
//   vLLM, OpenAI           the whole text           the generated tokens
//
// llama.cpp (penalty_last_n, 64 by default) applies them in the order
// Processors{RepetitionPenalty{θ, n}, FrequencyPenalty{f, n}, PresencePenalty{p, n}}.
// A counted token without a logit in the row is skipped: a draft model's vocabulary may be smaller. A finite logit stays
// finite, however large the penalty. A forbidden token stays forbidden.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "specdec/error.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/more/samplers/token_counts.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Calls change(logit, count) for each counted token that has a logit.
template <class Logits, class Change>
void change_counted(const TokenCounts& counts, Logits& logits, const Change& change) {
  const auto row = partial(logits);
  counts.each([&](Token x, Index count) {
    if (auto* const logit = row.find(x)) change(*logit, count);
  });
}

/// Subtracts a price from the logits of counted tokens: once, or once for each occurrence.
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

/// Makes tokens that already occur less likely. Divides a logit above 0 by θ and multiplies any other by θ. How often
/// the token occurs does not matter. θ < 1 makes such tokens likelier, 1 changes nothing.
/// Source: CTRL (Keskar et al., arXiv:1909.05858, section 4.1). Negative logits are multiplied, by Hugging Face
/// (repetition_penalty) and llama.cpp (repeat_penalty), too. The result is not invariant under a shift of the logits.
/// Throws: InvalidArgument if θ is not above 0, infinite or NaN, or if last_n is negative.
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

/// Subtracts α from the logit of each token that already occurs, once, however often it occurs. 0 changes nothing.
/// Source: presence_penalty of OpenAI's API, of vLLM and of llama.cpp.
/// Throws: InvalidArgument if α is infinite or NaN, or if last_n is negative.
/// Cost: O(distinct tokens) a row. No allocation in steady state.
class PresencePenalty : public detail::Price<false> {
 public:
  explicit PresencePenalty(double alpha, Index last_n = unlimited)
      : Price("PresencePenalty", alpha, last_n) {}
};

/// Subtracts α from a token's logit once for each time that the token occurs. 0 changes nothing.
/// Source: frequency_penalty of OpenAI's API, of vLLM and of llama.cpp.
/// Throws: InvalidArgument if α is infinite or NaN, or if last_n is negative.
/// Cost: O(distinct tokens) a row. No allocation in steady state.
class FrequencyPenalty : public detail::Price<true> {
 public:
  explicit FrequencyPenalty(double alpha, Index last_n = unlimited)
      : Price("FrequencyPenalty", alpha, last_n) {}
};

}  // namespace specdec
