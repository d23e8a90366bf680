// must say: specdec::Reread, of specdec/more/models/reread.hpp
// A cache that loses what lies far back, in a loop that may go back there.
// SPDX-License-Identifier: MIT
#include <specdec/more/models/reread.hpp>
#include <specdec/specdec.hpp>

struct Ring {
  specdec::Index vocab_size() const { return 2; }
  specdec::Index reach() const { return 4; }
  Eigen::MatrixXf forward(std::span<const specdec::Token>, specdec::Index) { return {}; }
  void truncate(specdec::Index) {}
};

void use(Ring& ring) {
#ifdef FIXED
  specdec::Reread target{ring};
#else
  Ring& target = ring;
#endif
  specdec::SpecDec decoder{target, specdec::NoDrafter{}};
}
