// must say: Temporary
// Rows by pointer look at the pointers that they are given.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

std::vector<const float*> pointers();

double use() {
#ifdef FIXED
  const std::vector<const float*> kept = pointers();
  const specdec::RowPointers<float> rows(kept, 4);
#else
  const specdec::RowPointers<float> rows(pointers(), 4);
#endif
  return static_cast<double>(rows.row(0)[0]);
}
