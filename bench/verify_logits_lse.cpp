// The benches of all rules on logits with a known log-sum-exp.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_logits_lse(const Setting& setting) { add_rules<LogitsLseRows>(setting); }

}  // namespace bench
