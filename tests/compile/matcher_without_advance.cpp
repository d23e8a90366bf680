// must say: the matcher is no specdec::GrammarMatcher
// A matcher that does not say whether it has taken the token in.
// SPDX-License-Identifier: MIT
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/specdec.hpp>

struct Matcher {
  void allow(std::span<std::uint32_t>) {}
#ifdef FIXED
  bool advance(specdec::Token) { return true; }
#else
  void advance(specdec::Token) {}
#endif
};

void use() { specdec::Grammar grammar{Matcher{}}; }
