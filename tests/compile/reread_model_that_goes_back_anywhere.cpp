// must say: no Index reach
// A model that can be cut back to any length anyway.
// SPDX-License-Identifier: MIT
#include <specdec/more/models/reread.hpp>
#include <specdec/specdec.hpp>

struct Engine {
  specdec::Index vocab_size() const { return 2; }
#ifdef FIXED
  specdec::Index reach() const { return 4; }
#endif
  Eigen::MatrixXf forward(std::span<const specdec::Token>, specdec::Index) { return {}; }
  void truncate(specdec::Index) {}
};

void use(Engine& engine) { specdec::Reread target{engine}; }
