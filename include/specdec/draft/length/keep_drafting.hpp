// Whether a draft length that looks at rows lets a draft go on.
#pragma once

#include "specdec/types.hpp"

namespace specdec::detail {

/// What a drafter asks before it draws from a row: the draft length's keep_drafting, or always yes if it has none.
/// `remembers`: whether the verifier remembers its sequence. A bool, not the verifier's type: so a drafter is compiled once
/// for all verifiers that do not remember.
template <class Policy, bool remembers>
struct KeepDrafting {
  Policy* length = nullptr;

  template <class Row>
  bool operator()([[maybe_unused]] const Row& row, [[maybe_unused]] Index i) const {
    if constexpr (requires { length->keep_drafting(row, i); }) {
      static_assert(!remembers,
                    "a verifier with state needs a draft length that does not depend on what was drafted");
      return length->keep_drafting(row, i);
    } else {
      return true;
    }
  }
};

}  // namespace specdec::detail
