// The benches of all rules on float probabilities with a pointer to each row.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_pointers(const Setting& setting) { add_rules<PointerRows>(setting); }

}  // namespace bench
