// must say: Temporary
// A span of rows looks at the rows that it is given.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

using Rows = std::vector<specdec::SparseRow<float>>;
Rows listed();

double use() {
#ifdef FIXED
  const Rows kept = listed();
  const specdec::RowSpan rows(kept, 4);
#else
  const specdec::RowSpan rows(listed(), 4);
#endif
  return rows.row(0).probability(0);
}
