// must say: Temporary
// A sparse row looks at the lists that it is given.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>
#include <vector>

std::vector<float> weights();

double use(const std::vector<specdec::Token>& ids) {
#ifdef FIXED
  const std::vector<float> kept = weights();
  const specdec::SparseRow<float> row(ids, kept, 4);
#else
  const specdec::SparseRow<float> row(ids, weights(), 4);
#endif
  return row.probability(0);
}
