// The benches of all rules on lists of the most probable tokens.
// SPDX-License-Identifier: MIT
#include "verify.hpp"

namespace bench {

void add_sparse(const Setting& setting) { add_rules<SparseRows>(setting); }

}  // namespace bench
