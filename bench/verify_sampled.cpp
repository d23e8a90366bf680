// The benches of all rules on float probabilities, with a token drawn from every target row.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_sampled(const Setting& setting) { add_rules<SampledRows>(setting); }

}  // namespace bench
