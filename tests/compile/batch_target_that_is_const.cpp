// must say: the model is const, and its calls change its context: pass a model that is not const
// A batch whose target is const.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Many = specdec::ModelPerSequence<specdec::testing::TableModel<>>;
#else
using Many = const specdec::ModelPerSequence<specdec::testing::TableModel<>>;
#endif

void use(Many& target) { specdec::Batch batch{target, specdec::NoDrafter{}}; }
