// must say: drafts in advance need keyed numbers at their places
// Drafts in advance for a keyed text, whose numbers are at no place.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(const specdec::testing::TableModel<>& model, specdec::Keyed& key) {
#ifdef FIXED
  const auto numbers = [key](std::uint64_t, specdec::Index, specdec::Index position) {
    specdec::Keyed there = key;
    there.stand_at(position);
    return there;
  };
  specdec::AheadDrafter ahead{specdec::ModelDrafter{specdec::testing::TableModel<>(model)}, 2, numbers};
#else
  specdec::AheadDrafter ahead{specdec::ModelDrafter{specdec::testing::TableModel<>(model)}, 2};
#endif
  specdec::SpecDec decoder{specdec::ExternalTarget{.vocabulary = 2}, ahead, specdec::KeyedVerifier{}};
  auto sequence = decoder.start(std::vector<specdec::Token>{0}, {});
  sequence.propose(key);
  sequence.draft_ahead();
}
