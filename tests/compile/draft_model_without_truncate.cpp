// must say: truncate
// A draft model that cannot roll its context back.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Small {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXd forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
#ifdef FIXED
  void truncate(specdec::Index) {}
#endif
};

void use(Small& small) { specdec::ModelDrafter drafter{small}; }
