// must say: the model has no release(specdec::Index sequence), which forgets a sequence: see specdec::BatchModel
// A model of logits for many texts that forgets none.
// SPDX-License-Identifier: MIT
#include <specdec/specdec.hpp>

struct Engine {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(std::span<const specdec::BatchFeed>) { return {}; }
  void keep(specdec::Index, specdec::Index) {}
#ifdef FIXED
  void release(specdec::Index) {}
#endif
};

void use(Engine& engine) { specdec::ProcessedModel target{engine, specdec::Chain{specdec::TopK{2}}}; }
