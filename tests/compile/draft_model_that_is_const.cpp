// must say: the model is const, and its calls change its context: pass a model that is not const
// A drafter whose model is const. (The type is of this case alone: a compiler says each sentence once for a type.)
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Small = specdec::testing::TableModel<float>;
#else
using Small = const specdec::testing::TableModel<float>;
#endif

void use(Small& small) { specdec::ModelDrafter drafter{small}; }
