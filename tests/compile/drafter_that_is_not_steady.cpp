// must say: needs drafts whose length is settled
// A drafter that says of itself that it is not steady, under a rule that remembers its sequence.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Rule = specdec::BlockVerifier;
#else
using Rule = specdec::GreedyBlockVerifier;
#endif

// Ends a draft before a row that cannot be drawn from.
struct EndsByRows : specdec::ModelDrafter<specdec::testing::TableModel<>&> {
  static constexpr bool steady = false;
  using ModelDrafter::ModelDrafter;
};

void use(specdec::testing::TableModel<>& target, specdec::testing::TableModel<>& small) {
  specdec::SpecDec decoder{target, EndsByRows{small}, Rule{}};
  std::mt19937_64 rng;
  decoder.generate(std::vector<specdec::Token>{0}, {}, rng);
}
