// must say: the model has no forward(std::span<const specdec::Token> tokens, specdec::Index rows) for one text
// A target whose call is not told how many rows are wanted.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Target {
  specdec::Index vocab_size() const { return 2; }
#ifdef FIXED
  Eigen::MatrixXd forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
#else
  Eigen::MatrixXd forward(std::span<const specdec::Token>) { return Eigen::MatrixXd::Constant(1, 2, 0.5); }
#endif
  void truncate(specdec::Index) {}
};

void use(Target& target) { specdec::SpecDec decoder{target, specdec::NoDrafter{}}; }
