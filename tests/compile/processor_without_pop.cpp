// must say: the hook is no specdec::TextProcessor
// A processor that can only go forward.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Processor {
  void apply(Eigen::Ref<Eigen::RowVectorXf>) {}
  void push(specdec::Token) {}
#ifdef FIXED
  void pop(specdec::Index) {}
#endif
};

struct Engine {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(std::span<const specdec::Token>, specdec::Index rows) {
    return Eigen::MatrixXf::Zero(rows, 2);
  }
  void truncate(specdec::Index) {}
};

void use(Engine& engine) { specdec::ProcessedModel model{engine, Processor{}}; }
