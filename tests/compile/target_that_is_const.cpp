// must say: the model is const, and its calls change its context: pass a model that is not const
// A decoder whose target is const.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#ifdef FIXED
using Target = specdec::testing::TableModel<>;
#else
using Target = const specdec::testing::TableModel<>;
#endif

void use(Target& target) { specdec::SpecDec decoder{target, specdec::PromptLookupDrafter{}}; }
