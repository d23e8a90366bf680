// The benches of all rules on float probabilities, with a token drawn from every target row.
#include "verify.hpp"

namespace bench {

void add_sampled(const Setting& setting) { add_rules<SampledRows>(setting); }

}  // namespace bench
