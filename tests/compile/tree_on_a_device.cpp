// must say: are for the host
// A rule for trees, where the logits lie on a GPU.
// SPDX-License-Identifier: MIT
#include <specdec/more/device.hpp>
#include <specdec/specdec.hpp>

#ifdef FIXED
using Rule = specdec::TokenVerifier;
#else
using Rule = specdec::TraversalVerifier;
#endif

void use(const specdec::device::Requests<float, specdec::device::ChosenDrafts>& requests) {
  specdec::device::judge_on_cpu(Rule{}, requests);
}
