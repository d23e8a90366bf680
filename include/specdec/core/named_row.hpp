// A row that knows its name, so that bad numbers are reported with the place they stand in.
#pragma once

#include <cmath>
#include <utility>

#include "specdec/core/distribution.hpp"
#include "specdec/core/error.hpp"

namespace specdec::detail {

/// Row i of the matrix called `matrix`. Every probability that is looked up is checked: finite and not
/// negative.
template <Distribution R>
class NamedRow {
 public:
  NamedRow(R row, const char* matrix, Index i) : row_(std::move(row)), matrix_(matrix), i_(i) {}

  Index vocab_size() const { return row_.vocab_size(); }

  double probability(Token x) const {
    const double value = row_.probability(x);
    if (!(value >= 0) || !std::isfinite(value))
      complain(message("the probability of token ", x, " is ", value));
    return value;
  }

  Token argmax() const requires ArgmaxRow<R> {
    return named([&] { return row_.argmax(); });
  }

  auto sampler() const {
    return
        [row = this, draw = row_.sampler()](double u) mutable { return row->named([&] { return draw(u); }); };
  }

  auto block(Index start, Index count) const requires BlockRow<R> { return row_.block(start, count); }

  double sum(Index start, Index count) const requires SummableRow<R> { return row_.sum(start, count); }

  template <class F>
  auto named(F&& f) const {
    try {
      return f();
    } catch (const InvalidDistribution& error) {
      complain(error.what());
    }
  }

 private:
  template <class What>
  [[noreturn]] void complain(const What& what) const {
    throw InvalidDistribution(message("specdec: ", matrix_, " row ", i_, ": ", what));
  }

  R row_;
  const char* matrix_;
  Index i_;
};

}  // namespace specdec::detail
