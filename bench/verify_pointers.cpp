// The rules on rows that are given by a pointer each.
#include "verify.hpp"

namespace bench {

void add_pointers(const Setting& setting) { add_rules<PointerRows>(setting); }

}  // namespace bench
