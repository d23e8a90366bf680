// Measures the tokens per target call by the number of drafted nodes: several kinds of trees under several rules, and linear
// drafts, on the rows of acceptance/. Prints CSV; the script `trees` draws it.
//
//   specdec_trees [steps]      `steps` target calls for each figure (default: 20000)
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <string_view>
#include <utility>
#include <vector>

#include "acceptance/hashed_model.hpp"
#include "acceptance/pool.hpp"
#include "specdec/more/analysis/sequoia_shape.hpp"
#include "specdec/more/drafters.hpp"
#include "specdec/specdec.hpp"

namespace {

using acceptance::HashedModel;
using acceptance::Side;
using specdec::Index;
using specdec::Token;

// Every tree takes this many calls of the draft model, one after the other. A linear draft takes one per node.
constexpr Index draft_calls = 4;
constexpr Index order = 2;

struct Figure {
  double mean = 0, error = 0;
};

struct Laboratory {
  acceptance::Pool pool;
  Index steps;

  HashedModel target() const { return HashedModel(pool, Side::target, order); }
  HashedModel draft() const { return HashedModel(pool, Side::draft, order); }
  specdec::PathByPath<HashedModel> small() const { return specdec::PathByPath<HashedModel>(draft()); }

  // Mean number of tokens per target call. The standard error comes from the means of 20 texts.
  template <class Drafter, class Rule>
  Figure run(const Drafter& drafter, const Rule& rule, Index nodes, specdec::Stats* stats = nullptr) const {
    constexpr Index texts = 20;
    double sum = 0, squares = 0;
    for (Index k = 0; k < texts; ++k) {
      specdec::SplitMix64 generator(static_cast<std::uint64_t>(k));
      specdec::SpecDec decoder{specdec::PathByPath<HashedModel>(target()), Drafter(drafter), rule};
      auto sequence = decoder.start(std::vector<Token>{static_cast<Token>(k)},
                                    {.max_new_tokens = specdec::unlimited, .gamma = nodes});
      for (Index step = 0; step < steps / texts; ++step) sequence.step(generator);
      const double mean = sequence.stats().block_efficiency();
      sum += mean;
      squares += mean * mean;
      if (stats != nullptr) *stats += sequence.stats();
    }
    const double mean = sum / texts, variance = std::max(squares / texts - mean * mean, 0.0);
    return {mean, std::sqrt(variance / (texts - 1))};
  }
};

void print(double overlap, std::string_view kind, Index nodes, Index calls, const Figure& tokens) {
  std::cout << overlap << "," << kind << "," << nodes << "," << calls << "," << tokens.mean << ","
            << tokens.error << "\n"
            << std::flush;
}

// [k]: how often the (k+1)-th of eight siblings is accepted.
std::vector<double> acceptance_by_rank(const Laboratory& laboratory) {
  specdec::Stats stats;
  const specdec::ModelDrafter drafter{
      laboratory.small(), specdec::Tree{specdec::TreeShape::of_widths({8}), specdec::WithoutReplacement{}}};
  laboratory.run(drafter, specdec::TraversalVerifier{}, 8, &stats);
  return stats.acceptance_by_rank();
}

// Spares beside the tokens of a trunk of four. The first token gets twice as many as each other token, or a few more.
std::vector<Index> spares_of(Index nodes) {
  const Index spares = nodes - draft_calls, others = spares / (draft_calls + 1);
  return {spares - (draft_calls - 1) * others, others, others, others};
}

void measure(double overlap, Index steps) {
  using namespace specdec;
  const Laboratory laboratory{acceptance::Pool({.family = "zipf", .vocab_size = 1000, .overlap = overlap}),
                              steps};
  const std::vector<double> by_rank = acceptance_by_rank(laboratory);
  for (const Index nodes : {1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64}) {
    if (nodes <= 16)
      print(overlap, "linear", nodes, nodes,
            laboratory.run(ModelDrafter{laboratory.draft()}, BlockVerifier{}, nodes));
    if (nodes < draft_calls) continue;
    const TreeShape shape(sequoia_shape(by_rank, nodes, draft_calls).parents);
    const ModelDrafter drawn{laboratory.small(), Tree{shape, WithoutReplacement{}}};
    print(overlap, "drawn under traversal", nodes, shape.depth(),
          laboratory.run(drawn, TraversalVerifier{}, nodes));
    print(overlap, "drawn under recursive rejection", nodes, shape.depth(),
          laboratory.run(drawn, RecursiveRejectionVerifier{}, nodes));
    print(overlap, "trunk and spares", nodes, draft_calls,
          laboratory.run(ModelDrafter{laboratory.draft(), Spares{draft_calls, spares_of(nodes)}},
                         TrunkAndSpares<BlockVerifier>{}, nodes));
    const ModelDrafter confident{laboratory.small(),
                                 ConfidentTree{.width = 8, .depth = draft_calls, .nodes = nodes}};
    print(overlap, "chosen under sample-and-match", nodes, draft_calls,
          laboratory.run(confident, TrunkAndSpares<SampleMatchVerifier>{}, nodes));
  }
}

}  // namespace

int main(int count, char** arguments) {
  const Index steps = count > 1 ? std::atoll(arguments[1]) : 20000;
  if (steps < 20) return std::cerr << "steps = " << steps << " are fewer than 20\n", 2;
  std::cout << std::setprecision(5) << "overlap,kind,nodes,draft_calls,tokens_per_call,error\n";
  for (const double overlap : {0.7, 0.85}) measure(overlap, steps);
}
