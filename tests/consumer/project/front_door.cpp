// A project that uses specdec from outside: everything in the front door, and one rule in another translation unit.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "by_hand.hpp"

static_assert(SPECDEC_VERSION_MAJOR == PACKAGE_MAJOR && SPECDEC_VERSION_MINOR == PACKAGE_MINOR &&
                  SPECDEC_VERSION_PATCH == PACKAGE_PATCH,
              "the headers and the package say the same version");

using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A small model over ten tokens: after x the likeliest token is x + 1.
class Counter {
 public:
  explicit Counter(double sharpness) : sharpness_(sharpness) {}

  specdec::Index vocab_size() const { return 10; }

  auto forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    Eigen::MatrixXf out(rows, vocab_size());
    for (specdec::Index i = 0; i < rows; ++i) {
      const specdec::Token last = context_[context_.size() - static_cast<std::size_t>(rows - i)];
      for (specdec::Token x = 0; x < 10; ++x)
        out(i, x) = static_cast<float>(std::exp(-sharpness_ * ((x - last + 9) % 10)));
      out.row(i) /= out.row(i).sum();
    }
    return out;
  }

  void truncate(specdec::Index length) {
    if (length < static_cast<specdec::Index>(context_.size()))
      context_.resize(static_cast<std::size_t>(length));
  }

 private:
  double sharpness_;
  std::vector<specdec::Token> context_;
};

void expect(bool fact, const char* what) {
  if (fact) return;
  std::cerr << "not so: " << what << "\n";
  std::exit(1);
}

// The draft of by_hand.cpp, under every rule.
template <class Verifier>
void verify() {
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
  verify<specdec::BlockVerifier>();
  verify<specdec::TokenVerifier>();
  verify<specdec::GreedyBlockVerifier>();
  verify<specdec::ArgmaxVerifier>();
  verify<specdec::SampleMatchVerifier>();
  // The other translation unit has its own instances of these templates.
  expect(accepted_by_hand() == 2, "a draft is accepted whose rows are the target's");

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

  std::cout << "block efficiency " << r.stats.block_efficiency() << "\n";
}
