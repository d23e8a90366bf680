// must say: settle() is for rules that remember nothing
// A verdict that was made elsewhere has no rows, by which this rule would remember the rejected draft.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

#ifdef FIXED
using Rule = specdec::BlockVerifier;
#else
using Rule = specdec::GreedyBlockVerifier;
#endif

void use(specdec::Batch<specdec::ExternalTarget, specdec::NoDrafter, Rule>& batch,
         const std::vector<specdec::Verdict>& verdicts) {
  batch.settle(verdicts);
}
