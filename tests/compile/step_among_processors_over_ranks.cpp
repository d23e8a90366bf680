// must say: TextProcessor
// A step among processors cuts a whole row. In the chain of a ShardedModel the ranks look for the cut together.
// SPDX-License-Identifier: MIT
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>

// A processor over ranks is handed these in place of a row.
void use(specdec::PartialLogits<float> logits) {
#ifdef FIXED
  specdec::Processors sampler{specdec::RepetitionPenalty{1.1}};
#else
  specdec::Processors sampler{specdec::TopK{2}};
#endif
  sampler.apply(logits);
}
