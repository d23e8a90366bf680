// must say: takes no trees, which this strategy drafts
// A draft model of lines, and a strategy that branches.
// SPDX-License-Identifier: MIT
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/specdec.hpp>

struct Small {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXd forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXd::Constant(rows, 2, 0.5);
  }
  void truncate(specdec::Index) {}
};

#ifdef FIXED
const specdec::Spares strategy{2, {1}};
#else
const specdec::ConfidentTree strategy{};
#endif

void use(Small& small) { specdec::ModelDrafter drafter{small, strategy}; }
