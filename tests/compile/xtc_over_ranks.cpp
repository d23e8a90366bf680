// must say: WholeRow
// Which tokens are likely is known of whole rows only.
// SPDX-License-Identifier: MIT
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/xtc.hpp>
#include <specdec/specdec.hpp>

// A processor over ranks is handed these in place of a row.
void use(specdec::PartialLogits<float> logits) {
#ifdef FIXED
  specdec::Processors sampler{specdec::RepetitionPenalty{1.1}};
#else
  specdec::Xtc sampler{0.5, 0.1, 1};
#endif
  sampler.apply(logits);
}
