// must say: the model has no forward(std::span<const specdec::BatchFeed> feeds) for many texts, or is a wrapper around such a model: see specdec::BatchModel
// A model for one text as the target of many.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

void use(specdec::testing::TableModel<>& model) {
#ifdef FIXED
  specdec::ModelPerSequence target{model};
#else
  auto& target = model;
#endif
  specdec::Batch batch{target, specdec::NoDrafter{}};
}
