// What a verification answers.
#pragma once

#include "specdec/types.hpp"

namespace specdec {

/// The outcome of one verification: the step emits tokens[0..accepted) and then `token`.
struct Verdict {
  Index accepted = 0;  ///< τ: how many drafted tokens survive, 0 <= τ <= γ
  Token token = 0;     ///< Y: the correction token where τ < γ, the bonus token where τ = γ

  friend bool operator==(const Verdict&, const Verdict&) = default;
};

}  // namespace specdec
