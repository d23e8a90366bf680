// must say: WholeRow
// The tokens nearest to the entropy are found by sorting, and a rank has a part of them.
// SPDX-License-Identifier: MIT
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/typical_p.hpp>
#include <specdec/specdec.hpp>

// A processor over ranks is handed these in place of a row.
void use(specdec::PartialLogits<float> logits) {
#ifdef FIXED
  specdec::Processors sampler{specdec::RepetitionPenalty{1.1}};
#else
  specdec::TypicalP sampler{0.9};
#endif
  sampler.apply(logits);
}
