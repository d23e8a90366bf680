// must say: TrunkAndSpares takes a rule for lines
// A rule that judges trees by itself.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

#ifdef FIXED
specdec::TrunkAndSpares<specdec::BlockVerifier> rule;
#else
specdec::TrunkAndSpares<specdec::TraversalVerifier> rule;
#endif
