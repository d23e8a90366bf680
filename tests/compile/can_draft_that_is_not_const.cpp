// must say: the model's can_draft is neither
// A model that says in another form when it can draft.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

struct Draft : specdec::testing::TableModel<> {
  using TableModel::TableModel;
#ifdef FIXED
  bool can_draft(specdec::Index length) const { return length > 2; }
#else
  bool can_draft(specdec::Index length) { return length > 2; }
#endif
};

void use(Draft& draft, std::span<const specdec::Token> context, std::mt19937_64& rng) {
  specdec::ModelDrafter drafter{draft};
  drafter.draft(context, {3}, rng);
}
