// must say: Model
// A draft model that does not say how many tokens it knows.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Small {
#ifdef FIXED
  specdec::Index vocab_size() const { return 2; }
#endif
  Eigen::MatrixXd forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
  void truncate(specdec::Index) {}
};

void use(Small& small) { specdec::ModelDrafter<Small&> drafter(small); }
