// Trees whose tokens are drawn, on the shipped pair at temperature 0.8: is a draft length that reads the draft model's rows as
// fast as the best fixed tree?
//
//   compare_drawn_trees 400    writes 400 tokens after each prompt with each tree, in some minutes
//
// Costs are given, not measured, so the clock brings no noise. But other draws give other texts: only long texts tell.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/more/analysis/sequoia_shape.hpp>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::TreeShape;
using Tokens = std::vector<specdec::Token>;
using Transformer = transformer::Transformer<float>;

constexpr Index most_nodes = 64, most_depth = 8;
const specdec::Temperature temperature{0.8};

// In target calls over one token.
struct Costs {
  double draft_call, fed_token;
};

// What was done to write all texts.
struct Work {
  specdec::Stats stats = {};
  Index levels = 0;  // calls of the draft model

  double steps() const { return static_cast<double>(stats.target_calls); }
  // Tokens per target call's time.
  double speed(const Costs& costs) const {
    return static_cast<double>(stats.emitted) / (steps() + costs.draft_call * static_cast<double>(levels) +
                                                 costs.fed_token * static_cast<double>(stats.drafted));
  }
};

// A draft length that is told the given costs in place of the measured times.
template <class Length>
class Told : public Length {
 public:
  Told(Length length, const Costs& costs) : Length(std::move(length)), costs_(costs) {}

  Index levels = 0;  // of all trees

  void observe(specdec::StepRecord step) {
    levels += step.depth();
    step.draft_time = time(costs_.draft_call * static_cast<double>(step.depth()));
    step.target_time = time(1 + costs_.fed_token * static_cast<double>(step.drafted));
    step.verify_time = {};
    Length::observe(step);
  }

 private:
  static std::chrono::nanoseconds time(double calls) {
    return std::chrono::nanoseconds(std::llround(1e6 * calls));
  }

  Costs costs_;
};

// Writes texts with trees. What the draft length learns, it keeps from one text to the next.
class Writing {
 public:
  Writing(Transformer& target, Transformer& draft, std::vector<Tokens> prompts, Index tokens)
      : target_(target), draft_(draft), prompts_(std::move(prompts)), tokens_(tokens) {}

  Work with_shape(const TreeShape& shape) const {
    Told fixed(specdec::FixedLength{}, {});
    return with(shape, fixed);
  }
  // Cuts a large tree by the rows.
  Work early(const TreeShape& largest, const Costs& costs) const {
    Told length(specdec::EarlyStoppingLength{}, costs);
    return with(largest, length);
  }

 private:
  template <class Length>
  Work with(const TreeShape& shape, Told<Length>& length) const {
    Work work;
    std::mt19937_64 rng{1};
    for (const Tokens& prompt : prompts_) {
      specdec::ModelDrafter drafter{specdec::ProcessedModel{draft_, temperature},
                                    specdec::Tree{shape, specdec::WithoutReplacement{}}};
      specdec::SpecDec decoder{specdec::ProcessedModel{target_, temperature}, std::move(drafter),
                               specdec::TraversalVerifier{}, length};
      work.stats += decoder.generate(prompt, {.max_new_tokens = tokens_, .gamma = most_nodes}, rng).stats;
    }
    work.levels = length.levels;
    return work;
  }

  Transformer& target_;
  Transformer& draft_;
  std::vector<Tokens> prompts_;
  Index tokens_;
};

struct Fixed {
  TreeShape shape;
  Work work;
};

// The best trees of these sizes.
std::vector<Fixed> fixed_trees(const Writing& writing, const std::vector<double>& by_rank) {
  std::vector<Fixed> all;
  for (const Index levels : {1, 2, 3, 4, 5, 6})
    for (const Index nodes : {4, 8, 12, 16, 24, 32, 48, 64}) {
      if (nodes < levels || nodes > 16 * levels) continue;
      const TreeShape shape(specdec::sequoia_shape(by_rank, nodes, levels).parents);
      all.push_back({shape, writing.with_shape(shape)});
    }
  return all;
}

int main(int count, char** arguments) {
  const Index tokens = count > 1 ? std::atoll(arguments[1]) : 2;
  if (tokens < 1) {
    std::cerr << "compare_drawn_trees: " << arguments[1] << " is no number of tokens\n";
    return 2;
  }
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(weights + "target.bin"), draft(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; std::getline(lines, line);) prompts.push_back(tokenizer.encode(line));

  const Writing writing(target, draft, std::move(prompts), tokens);
  // How often a child of each rank is accepted.
  const std::vector<double> by_rank =
      writing.with_shape(TreeShape::of_widths({6, 6})).stats.acceptance_by_rank();
  const std::vector<Fixed> trees = fixed_trees(writing, by_rank);
  const TreeShape largest(specdec::sequoia_shape(by_rank, most_nodes, most_depth).parents);
  std::cout << std::fixed << "draft    fed         best fixed tree\n"
            << " call   token   levels  tokens  speed-up   early  levels  tokens\n";
  for (const Costs& costs :
       {Costs{0.03, 0.01}, Costs{0.05, 0.002}, Costs{0.05, 0.005}, Costs{0.1, 0.005}, Costs{0.2, 0.02}}) {
    const Fixed& best =
        *std::ranges::max_element(trees, {}, [&](const Fixed& tree) { return tree.work.speed(costs); });
    const double speed = best.work.speed(costs);
    const Work early = writing.early(largest, costs);
    std::cout << std::setprecision(2) << std::setw(5) << costs.draft_call << std::setprecision(3)
              << std::setw(8) << costs.fed_token << std::setw(9) << best.shape.depth() << std::setw(8)
              << best.shape.size() << std::setprecision(2) << std::setw(10) << speed << std::setprecision(3)
              << std::setw(8) << early.speed(costs) / speed << std::setprecision(1) << std::setw(8)
              << static_cast<double>(early.levels) / early.steps() << std::setw(8)
              << static_cast<double>(early.stats.drafted) / early.steps() << std::endl;
  }
}
