// must say: are for the host
// A rule that remembers its text, where the logits lie on a GPU.
// SPDX-License-Identifier: MIT
#include <specdec/more/device.hpp>
#include <specdec/specdec.hpp>

#ifdef FIXED
using Rule = specdec::BlockVerifier;
#else
using Rule = specdec::GreedyBlockWithin<8>;
#endif

void use(const specdec::device::Requests<float, specdec::device::ChosenDrafts>& requests) {
  specdec::device::judge_on_cpu(Rule{}, requests);
}
