// must say: the communicator is no specdec::Communicator
// A communicator that adds up, which nothing here asks for.
// SPDX-License-Identifier: MIT
#include <specdec/more/ranks.hpp>

struct Ranks {
  specdec::Index rank() const { return 0; }
  specdec::Index size() const { return 1; }
#ifdef FIXED
  void all_gather(std::span<const double>, std::span<double>) {}
#else
  void all_reduce(std::span<double>) {}
#endif
};

void use(Ranks& ranks, const Eigen::RowVectorXf& columns) { specdec::Shards shards(columns, 0, 2, ranks); }
