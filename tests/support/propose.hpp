// The proposals of drafters without probabilities.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"

namespace support {

// A drafter's tokens. Checks that there are no more than asked for, and that each has probability 1 in its row.
template <class D>
std::vector<specdec::Token> propose(D& drafter, std::span<const specdec::Token> context,
                                    specdec::Index gamma) {
  std::mt19937_64 rng;
  specdec::RandomChance chance{rng};
  const auto draft = drafter.draft(context, gamma, chance);
  CHECK(static_cast<specdec::Index>(draft.tokens.size()) <= gamma);
  CHECK(draft.rows.rows() == std::ssize(draft.tokens));
  for (specdec::Index i = 0; i < draft.rows.rows(); ++i)
    CHECK(draft.rows.row(i).probability(draft.tokens[static_cast<std::size_t>(i)]) == 1);
  return {draft.tokens.begin(), draft.tokens.end()};
}

}  // namespace support
