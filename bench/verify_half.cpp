// The benches of all rules on probabilities in half precision.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_half(const Setting& setting) { add_rules<HalfRows>(setting); }

}  // namespace bench
