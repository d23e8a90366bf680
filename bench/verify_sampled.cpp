// The rules on rows of which a token has been drawn.
#include "verify.hpp"

namespace bench {

void add_sampled(const Setting& setting) { add_rules<SampledRows>(setting); }

}  // namespace bench
