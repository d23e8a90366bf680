// The row that a token has which was selected from several draws: the law of the last of them in an order of all tokens.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <specdec/specdec.hpp>

namespace paths {

using specdec::Index, specdec::Token;

// A token, and how much more the target likes it than the draft: p/q.
struct Rated {
  Token token;
  double ratio;
};

// The order in which tokens are selected: the ratio rises; among equals, the id does. No two tokens are equal in it. If the
// selection took them for equal, and the sums below did not, the text would be biased.
struct ByRatioThenId {
  constexpr bool operator()(const Rated& x, const Rated& y) const {
    return x.ratio < y.ratio || (x.ratio == y.ratio && x.token < y.token);
  }
};

template <class P, class Q>
Rated rated(const P& p, const Q& q, Token x) {
  return {x, std::min(specdec::probability(p, x) / specdec::probability(q, x), 1e300)};
}

// `lines` lines were drawn independently, with the same rows for equal texts. Of the tokens that they have at a node the last one
// is selected, in the order of p/q. This is the law of the selected token. It needs to know of the lines only how many there are,
// and of the nodes before only one number: `elsewhere`, the probability that one line does not come to this node, if nothing were
// known of the others. It is 0 at the first node.
//
// With l = the draft's probability of all tokens before y, u = elsewhere + (1 − elsewhere)·(l + q(y)) is the probability that a
// line is elsewhere, or has a token up to y, and v = elsewhere + (1 − elsewhere)·l that it has one before y. All lines have with
// u^K, and all have it before y with v^K. So y is selected with (u^K − v^K)/(1 − elsewhere^K), if a line is here at all.
// Cost: a pass over both rows for each token that is asked for.
template <specdec::Distribution P, specdec::Distribution Q>
class SelectedRow {
 public:
  SelectedRow(const P& p, const Q& q, Index lines, double elsewhere)
      : p_(p), q_(q), lines_(lines), elsewhere_(elsewhere) {}

  Index vocab_size() const { return q_.vocab_size(); }
  double probability(Token y) const { return selected(y).probability; }

  // The probability of token y, and `elsewhere` at the node after it.
  struct Selected {
    double probability, elsewhere;
  };
  Selected selected(Token y) const {
    const double q = specdec::probability(q_, y);
    if (!(q > 0) || lines_ == 1) return {q, 0};
    double before = 0;
    const Rated limit = rated(p_, q_, y);
    for (Token x = 0; x < q_.vocab_size(); ++x)
      if (const double other = q_.probability(x); other > 0 && ByRatioThenId{}(rated(p_, q_, x), limit))
        before += other;
    const double v = elsewhere_ + (1 - elsewhere_) * before, u = v + (1 - elsewhere_) * q;
    // (u^K − v^K)/(u − v) and (1 − elsewhere^K)/(1 − elsewhere) as sums, in which nothing cancels.
    double above = 0, all = 0, power = 1;
    for (Index line = 0; line < lines_; ++line) {
      above = above * v + power;
      all = all * elsewhere_ + 1;
      power *= u;
    }
    return {q * above / all, v / u};
  }

  // Draws by ascending ids. No rule draws from a draft's row, but a row must be able to.
  auto sampler() const {
    return [row = *this](double number) {
      Token last = -1;
      for (Token x = 0; x < row.vocab_size() && !(number < 0); ++x)
        if (const double probability = row.probability(x); probability > 0) {
          last = x;
          number -= probability;
        }
      if (last < 0) throw specdec::InvalidDistribution("a row of selected tokens has no mass");
      return last;
    };
  }

 private:
  P p_;
  Q q_;
  Index lines_;
  double elsewhere_;
};

}  // namespace paths
