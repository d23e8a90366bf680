// Logit bias: makes tokens more likely, less likely or impossible.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
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
/// Source: logit_bias of OpenAI's API and of llama.cpp; of Hugging Face transformers, sequence_bias of single tokens.
/// Throws: InvalidArgument on a negative id, or on a bias that is NaN or +inf.
/// Cost: O(listed tokens) a row. It has no state.
class LogitBias {
 public:
  LogitBias(std::initializer_list<TokenBias> biases) : LogitBias(std::vector(biases)) {}
  explicit LogitBias(std::vector<TokenBias> biases) : biases_(std::move(biases)) {
    for (std::size_t i = 0; i < biases_.size(); ++i) {
      const auto& [token, bias] = biases_[i];
      if (token < 0) detail::invalid_argument("biases[", i, "].token = ", token, " is negative");
      if (!(std::isfinite(bias) || bias < 0))
        detail::invalid_argument("biases[", i, "].bias = ", bias, " is neither finite nor -inf");
    }
  }

  template <class Logits>
  void apply(Logits&& logits) const {
    using Scalar = typename std::remove_cvref_t<Logits>::Scalar;
    const auto row = detail::partial(logits);
    for (const auto& [token, bias] : biases_) {
      Scalar* const logit = row.find(token);
      if (logit == nullptr) continue;
      if (std::isinf(bias)) *logit += static_cast<Scalar>(bias);
      else detail::change_finite<Scalar>(*logit, *logit + detail::nearest_finite<Scalar>(bias));
    }
  }
  void push(Token) {}
  void pop(Index) {}

 private:
  std::vector<TokenBias> biases_;
};

}  // namespace specdec
