// must say: truncate
// A model of logits that cannot roll its context back.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Engine {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXf::Zero(rows, 2);
  }
#ifdef FIXED
  void truncate(specdec::Index) {}
#endif
};

void use(Engine& engine) { specdec::ProcessedModel target{engine, specdec::Chain{specdec::TopK{2}}}; }
