// The benches of all rules on probabilities in bfloat16.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_bfloat16(const Setting& setting) { add_rules<Bfloat16Rows>(setting); }

}  // namespace bench
