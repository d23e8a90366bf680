// must say: modifications
// What a rule remembers is gone with it.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <specdec/specdec.hpp>

std::size_t use() {
#ifdef FIXED
  const specdec::GreedyBlockVerifier verifier;
  const auto live = verifier.modifications();
#else
  const auto live = specdec::GreedyBlockVerifier{}.modifications();
#endif
  return live.size();
}
