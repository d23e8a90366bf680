// Logit bias: makes tokens more likely, less likely or impossible.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/more/samplers/finite_logit.hpp"
#include "specdec/more/samplers/partial_logits.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A token and the bias that is added to its logit.
struct TokenBias {
  Token token;
  double bias;
};

/// Adds a bias to the logit of each listed token; −inf forbids the token.
///
///   LogitBias{{eos, -infinity}, {yes, 1.5}}
///
/// If a token is listed twice, its biases add up, at most to the largest finite number. An id without a logit in the row is
/// ignored, in llama.cpp, too; Hugging Face refuses it.
///
/// Source: logit_bias of OpenAI's API and of llama.cpp; sequence_bias of Hugging Face transformers, but only for single
/// tokens.
/// Throws: InvalidArgument on a negative id, or on a bias that is NaN or +inf.
/// Cost: O(listed tokens) a row. It has no state.
class LogitBias {
 public:
  LogitBias(std::initializer_list<TokenBias> biases) {
    for (const TokenBias& each : biases) add(each);
  }
  explicit LogitBias(const std::vector<TokenBias>& biases) {
    for (const TokenBias& each : biases) add(each);
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    const auto row = detail::partial(logits);
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      Scalar* const logit = row.find(tokens_[i]);
      if (logit == nullptr) continue;
      const double bias = biases_[i];
      if (std::isinf(bias)) *logit += static_cast<Scalar>(bias);
      else detail::change_finite<Scalar>(*logit, *logit + detail::nearest_finite<Scalar>(bias));
    }
  }
  void push(Token) {}
  void pop(Index) {}

 private:
  void add(const TokenBias& each) {
    const std::size_t i = tokens_.size();
    if (each.token < 0) detail::invalid_argument("biases[", i, "].token = ", each.token, " is negative");
    if (!(std::isfinite(each.bias) || each.bias < 0))
      detail::invalid_argument("biases[", i, "].bias = ", each.bias, " is neither finite nor -inf");
    tokens_.push_back(each.token);
    biases_.push_back(each.bias);
  }

  std::vector<Token> tokens_;
  std::vector<double> biases_;  // of each token
};

}  // namespace specdec
