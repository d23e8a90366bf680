// must say: takes no trees
// A draft model that takes in trees, but cannot keep a path of one.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Small {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXd forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
  Eigen::MatrixXd forward(std::span<const specdec::Token>, std::span<const specdec::Index>,
                          specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
  void truncate(specdec::Index) {}
#ifdef FIXED
  void keep(std::span<const specdec::Index>) {}
#endif
};

void use(Small& small) {
  specdec::ModelDrafter drafter{small, specdec::Tree{specdec::TreeShape::linear(2), specdec::Likeliest{}}};
}
