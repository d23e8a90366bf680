// must say: context_size
// A context of infinitely many tokens is one that does not tell its size, or specdec::unlimited.
// SPDX-License-Identifier: MIT
#include <limits>
#include <specdec/specdec.hpp>

struct Endless {
#ifdef FIXED
  specdec::Index context_size() const { return specdec::unlimited; }
#else
  double context_size() const { return std::numeric_limits<double>::infinity(); }
#endif
};

specdec::Index use() { return specdec::context_size(Endless{}); }
