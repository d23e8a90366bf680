// The benches of all rules on logits.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_logits(const Setting& setting) { add_rules<LogitsRows>(setting); }

}  // namespace bench
