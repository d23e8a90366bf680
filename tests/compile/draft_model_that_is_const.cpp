// must say: the model is const, and its calls change its context: pass a model that is not const
// A drafter whose model is const.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Small = specdec::testing::TableModel<>;
#else
using Small = const specdec::testing::TableModel<>;
#endif

void use(Small& small) { specdec::ModelDrafter drafter{small}; }
