// Dense rows as lists of their entries.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <specdec/rows/kinds/row_span.hpp>
#include <specdec/rows/kinds/sparse.hpp>
#include <specdec/types.hpp>
#include <vector>

#include "support/layouts.hpp"

namespace support {

using specdec::Index;

// The entries above 0 of each row as a list.
struct Lists {
  std::vector<std::vector<std::int32_t>> ids;
  std::vector<std::vector<double>> numbers;
  std::vector<specdec::SparseRow<double>> rows;

  explicit Lists(const RowMajor<double>& m) : ids(static_cast<std::size_t>(m.rows())), numbers(ids.size()) {
    for (Index i = 0; i < m.rows(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      for (Index x = 0; x < m.cols(); ++x)
        if (m(i, x) > 0) {
          ids[k].push_back(static_cast<std::int32_t>(x));
          numbers[k].push_back(m(i, x));
        }
      rows.emplace_back(ids[k], numbers[k], m.cols());
    }
  }
  auto view() const { return specdec::RowSpan<specdec::SparseRow<double>>(rows, rows.front().vocab_size()); }
};

}  // namespace support
