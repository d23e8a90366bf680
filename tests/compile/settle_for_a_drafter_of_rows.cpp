// must say: a verdict that was made elsewhere has none
// A drafter that learns from the target's rows, and an engine that hands in verdicts.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

struct Learner : specdec::NoDrafter {
  void observe(const auto& judged) {
#ifdef FIXED
    learnt += judged.verdict.node;
#else
    learnt += specdec::distributions(judged.rows).rows();
#endif
  }
  specdec::Index learnt = 0;
};

void use() {
  specdec::SpecDec decoder{specdec::ExternalTarget{.vocabulary = 4}, Learner{}};
  auto sequence = decoder.start(std::vector<specdec::Token>{0}, {});
  std::mt19937_64 rng;
  sequence.propose(rng);
  sequence.settle({.accepted = 0, .token = 1});
}
