// must say: needs drafts whose length is settled
// A drafter for all of a batch whose drafts may end by a row after a drawn token, under a rule that remembers.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Rule = specdec::BlockVerifier;
#else
using Rule = specdec::GreedyBlockVerifier;
#endif

using Many = specdec::ModelPerSequence<specdec::testing::TableModel<>>;

struct Unsteady : specdec::ModelDrafter<Many> {
  static constexpr bool steady = false;
  using specdec::ModelDrafter<Many>::ModelDrafter;
};

void use(Many& target, Many&& small) {
  specdec::Batch batch{target, Unsteady{std::move(small)}, Rule{}};
  batch.add(std::vector<specdec::Token>{0}, {}, std::mt19937_64{1});
  batch.run();
}
