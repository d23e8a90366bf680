// From a run to a draft length: one run with drafts of 0..8 tokens, then what each gamma would gain by it.
//
// A run with a single gamma cannot tell: it has measured target calls of one size only. Here the times are made up, so that the
// program prints the same everywhere. A program of yours takes what was measured as it is.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <span>
#include <specdec/more/analysis/projection.hpp>
#include <specdec/specdec.hpp>
#include <vector>

namespace {

using specdec::Index;
using specdec::Token;

// A draft length: any of 0..most, by chance. So no length is tried at easier places than another.
class AnyLength {
 public:
  Index next(Index most) {
    return static_cast<Index>(specdec::uniform01(bits_) * static_cast<double>(most + 1));
  }
  void observe(const specdec::StepRecord&) {}

 private:
  specdec::SplitMix64 bits_{1};
};

// The next token depends on the last one. The drafter's logits are the target's with noise.
struct Model {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  float noise = 0;
  Rows logits = {};
  std::vector<Token> context = {};

  Index vocab_size() const { return 50; }
  auto forward(std::span<const Token> tokens, Index rows) {
    context.insert(context.end(), tokens.begin(), tokens.end());
    logits.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i) {
      const Token last = context[context.size() - static_cast<std::size_t>(rows - i)];
      for (Index x = 0; x < vocab_size(); ++x)
        logits(i, x) = 3 * mixed(last, x, 1) + noise * mixed(last, x, 2);
    }
    return specdec::Logits{logits};
  }
  void truncate(Index length) { context.resize(std::min(context.size(), static_cast<std::size_t>(length))); }

 private:
  static float mixed(Token last, Index x, unsigned seed) {
    auto bits = specdec::SplitMix64{
        (static_cast<std::uint64_t>(last) * 64 + static_cast<std::uint64_t>(x)) * 8 + seed};
    return static_cast<float>(2 * specdec::uniform01(bits) - 1);
  }
};

struct Run {
  specdec::Stats stats = {};
  specdec::Measures measures = {};
};

Run run_with(auto length, Index gamma) {
  Run run;
  Model target, small{.noise = 1.2f};
  specdec::SpecDec decoder{
      target, specdec::ModelDrafter{small}, specdec::BlockVerifier{}, length,
      specdec::Observers{specdec::StatsObserver{}, specdec::MeasuresObserver{run.measures}}};
  specdec::Philox rng{1};
  const std::vector<Token> prompt{0};
  run.stats = decoder.generate(prompt, {.max_new_tokens = 20'000, .gamma = gamma}, rng).stats;
  return run;
}

// Puts made-up milliseconds in place of the measured times: a call over n tokens takes 20 + n / 2, a drafted token 2.5. Drafts
// had least..most tokens.
void make_up_times(specdec::Measures& measures, Index least, Index most) {
  measures.target_cost = measures.draft_cost = specdec::CostCurve{};
  for (Index gamma = least; gamma <= most; ++gamma)
    for (int times = 0; times < 8; ++times) {
      measures.target_cost.add(gamma + 1, 20 + 0.5 * static_cast<double>(gamma + 1));
      measures.draft_cost.add(gamma, 2.5 * static_cast<double>(gamma));
    }
}

void print(const std::vector<specdec::Projection>& projections) {
  std::cout << "gamma  tokens per call  ms per token  speed-up  it can be\n" << std::fixed;
  for (const specdec::Projection& p : projections)
    std::cout << std::setw(5) << p.gamma << std::setprecision(2) << std::setw(17) << p.tokens_per_call
              << std::setw(14) << p.time_per_token << std::setw(10) << p.speed_up << "  "
              << p.speed_up_range.low << ".." << p.speed_up_range.high << "\n";
}

}  // namespace

int main() {
  auto [stats, measures] = run_with(AnyLength{}, 8);
  make_up_times(measures, 0, 8);
  const auto projections = specdec::project(stats, measures, measures.acceptance.block_survival(), 10);
  std::cout << "A run with drafts of 0..8 tokens\n";
  print(projections);

  const Index best = std::ranges::min_element(projections, {}, &specdec::Projection::time_per_token)->gamma;
  std::cout << "\nThe best: gamma " << best << ". A run with it has "
            << run_with(specdec::FixedLength{}, best).stats.block_efficiency() << " tokens per call.\n";

  Run fixed = run_with(specdec::FixedLength{}, 4);
  make_up_times(fixed.measures, 4, 4);
  std::cout << "\nA run with gamma 4 only\n";
  print(specdec::project(fixed.stats, fixed.measures, fixed.measures.acceptance.block_survival(), 6));
}
