// The benches of all rules on float probabilities.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_float(const Setting& setting) { add_rules<FloatRows>(setting); }

}  // namespace bench
