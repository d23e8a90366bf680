// The benches of all rules on float probabilities.
#include "verify.hpp"

namespace bench {

void add_float(const Setting& setting) { add_rules<FloatRows>(setting); }

}  // namespace bench
