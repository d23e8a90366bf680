// must say: logits
// A processed model inside another: its rows are distributions already.
// SPDX-License-Identifier: MIT
#include <specdec/more/models/windowed.hpp>
#include <specdec/specdec.hpp>

struct Engine {
  specdec::Index vocab_size() const { return 2; }
  Eigen::MatrixXf forward(std::span<const specdec::BatchFeed>) { return {}; }
  void keep(specdec::Index, specdec::Index) {}
  void release(specdec::Index) {}
};

void use(Engine& engine) {
  const specdec::Chain chain{specdec::TopK{2}};
#ifdef FIXED
  specdec::ProcessedModel target{specdec::Windowed{engine, 1, 3}, chain};
#else
  specdec::ProcessedModel target{specdec::ProcessedModel{engine, chain}, chain};
#endif
}
