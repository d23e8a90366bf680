// must say: the executor is not called with (specdec::Index n, const auto& f): see specdec::Executor
// An executor that is told what to call, but not how often.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

void use(specdec::testing::TableModel<>& model) {
  specdec::Batch batch{specdec::ModelPerSequence{model}, specdec::NoDrafter{}};
#ifdef FIXED
  batch.step([](specdec::Index n, const auto& f) { specdec::InOrder{}(n, f); });
#else
  batch.step([](const auto&) {});
#endif
}
