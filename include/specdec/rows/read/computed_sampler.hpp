// Draws from rows that are computed from others.
#pragma once

#include <type_traits>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/list.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"

namespace specdec::detail {

/// Draws from a SpreadRow by what its parts sum to.
template <class Row>  // complete only by the time of a draw
class SpreadSampler {
 public:
  explicit SpreadSampler(const Row& row) : row_(row) {}

  Token operator()(double u) { return row_.spread().draw(u, row_); }

 private:
  Row row_;
};

/// Draws from a row in the way that reads least: by its parts, by its list, or by sums of its segments.
template <class Row>
using ComputedSampler =
    std::conditional_t<SpreadRow<Row>, SpreadSampler<Row>,
                       std::conditional_t<ListedRow<Row>, ListSampler<Row>, PrefixSampler<Row>>>;

}  // namespace specdec::detail
