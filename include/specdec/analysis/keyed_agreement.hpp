// How often two rows are drawn alike by numbers that the draws share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/segments.hpp"
#include "specdec/types.hpp"

namespace specdec {
namespace detail {

/// The tokens that two rows have in common, and the mass that each has beside them.
class CommonTokens {
 public:
  struct Numbers {
    double p, q;
    double ratio() const { return p / q; }
  };

  template <Distribution P, Distribution Q>
  CommonTokens(const P& p, const Q& q) {
    each_token(p, [&](Token x, double p_x) {
      const double q_x = checked(x, specdec::probability(q, x));
      if (checked(x, p_x) > 0 && q_x > 0) tokens.push_back({p_x, q_x});
      else p_alone += p_x;
    });
    each_token(q, [&](Token x, double q_x) {
      if (checked(x, specdec::probability(p, x)) == 0) q_alone += checked(x, q_x);
    });
  }

  std::vector<Numbers> tokens;
  double p_alone = 0, q_alone = 0;

 private:
  static double checked(Token x, double value) {
    if (!is_probability(value))
      throw InvalidDistribution(message("the probability of token ", x, " is ", value));
    return value;
  }
};

}  // namespace detail

/// The probability that draws from p and from q are one token where both are made by the same numbers (Keyed):
///
///   Σ_x 1/Σ_y max(p(y)/p(x), q(y)/q(x))
///
/// which is what KeyedVerifier accepts at a prefix. It is at least (1 − TV)/(1 + TV), where token verification accepts
/// 1 − TV = overlap(p, q), and independent draws agree with probability Σ p·q. Symmetric; of rows that do not sum to 1 it
/// is that of the rows normalised.
///
/// Source: Daliri, Musco and Suresh, arXiv:2408.07978. Throws: InvalidDistribution where a number is no probability.
/// Cost: O(n log n) of the n tokens that both rows have, which are sorted by p/q: of the y in the inner sum those above x
/// count by p, those below by q. A pass over each row, where it has a list over that, with a look-up in the other for
/// each token; two allocations. Numeric: in double.
template <Distribution P, Distribution Q>
double keyed_agreement(const P& p, const Q& q) {
  detail::CommonTokens common(p, q);
  std::ranges::sort(common.tokens, {}, &detail::CommonTokens::Numbers::ratio);
  // Sums from either end: to subtract would leave what rounding left where little is to come.
  std::vector<double> p_from(common.tokens.size());
  double p_sum = common.p_alone, q_sum = common.q_alone, agreement = 0;
  for (auto k = common.tokens.size(); k-- > 0;) p_from[k] = p_sum += common.tokens[k].p;
  for (std::size_t k = 0; k < common.tokens.size(); ++k) {
    const auto& x = common.tokens[k];
    agreement += 1 / (p_from[k] / x.p + q_sum / x.q);
    q_sum += x.q;
  }
  return agreement;
}

}  // namespace specdec
