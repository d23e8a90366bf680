// A project that uses specdec from outside: all of the front door, in two translation units.
#include <cstdlib>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "counter.hpp"

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void expect(bool fact, const char* what) {
  if (fact) return;
  std::cerr << "not so: " << what << "\n";
  std::exit(1);
}

template <class Verifier>
void verify_by_hand() {
  RowMajor target(3, 2), draft(2, 2);
  target << 0.25f, 0.75f, 0.5f, 0.5f, 1.0f, 0.0f;
  draft << 0.25f, 0.75f, 0.5f, 0.5f;
  const std::vector<specdec::Token> tokens{1, 0};
  std::mt19937_64 rng{42};
  Verifier verifier;
  const specdec::Verdict v = verifier(target, draft, tokens, rng);
  expect(v.accepted >= 0 && v.accepted <= 2 && (v.accepted < 2 || v.token == 0), "a verdict on two tokens");
}

int main() {
  verify_by_hand<specdec::BlockVerifier>();
  verify_by_hand<specdec::TokenVerifier>();
  verify_by_hand<specdec::GreedyBlockVerifier>();
  verify_by_hand<specdec::ArgmaxVerifier>();
  verify_by_hand<specdec::SampleMatchVerifier>();

  Counter target(2.0), small(1.0);
  specdec::ModelDrafter drafter{small};
  specdec::BlockVerifier verifier;
  specdec::SpecDec decoder{target, drafter, verifier};
  std::mt19937_64 rng{42};
  const std::vector<specdec::Token> prompt{1, 2, 3};
  const specdec::Options options{.max_new_tokens = 50, .gamma = 4};
  const specdec::Result r = decoder.generate(prompt, options, rng);
  expect(r.tokens.size() == 50, "50 new tokens");
  expect(r.stats.block_efficiency() > 1, "more than one token per target call");

  specdec::PromptLookupDrafter lookup{{.max_ngram = 3}};
  specdec::SpecDec greedy{target, lookup, specdec::ArgmaxVerifier{}};
  const specdec::Result g = greedy.generate(prompt, options, rng);
  expect(g.tokens == specdec::autoregressive<specdec::ArgmaxVerifier>(target, prompt, options, rng).tokens,
         "greedy decoding is the same with and without a draft");

  // The other translation unit has its own instances of the same templates, and the same random numbers.
  std::mt19937_64 again{42};
  expect(generate_elsewhere(prompt, options, again).tokens == r.tokens, "one seed, one text");
  std::cout << "block efficiency " << r.stats.block_efficiency() << "\n";
}
