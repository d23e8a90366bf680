// must say: a generator that is an lvalue would be copied, and give its numbers twice: pass std::ref(rng)
// A batch that would draw from a copy of the caller's generator.
// SPDX-License-Identifier: MIT
#include <functional>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

void use(specdec::ModelPerSequence<specdec::testing::TableModel<>>& target, std::mt19937_64& rng) {
  specdec::Batch batch{target, specdec::NoDrafter{}};
#ifdef FIXED
  batch.add(std::vector<specdec::Token>{0}, {}, std::ref(rng));
#else
  batch.add(std::vector<specdec::Token>{0}, {}, rng);
#endif
}
