// Computes exactly how many tokens a target call writes by drafts of four tokens: several lines, a line, a tree; under each rule, and
// under the best rule that there could be. The draft model's rows are mixtures of the target's rows and of noise.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iomanip>
#include <iostream>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "paths/layers.hpp"
#include "paths/most_of_lines.hpp"
#include "paths/multi_path.hpp"
#include "paths/one_step.hpp"
#include "paths/selected_row.hpp"

using specdec::Index, specdec::TreeShape;
using Model = specdec::testing::TableModel<>;

constexpr Index vocab_size = 4;
constexpr int pairs = 20;
const std::vector<specdec::Token> opening{0, 1};

struct Pair {
  Model target, draft;
};

// How far a draft model's rows are from the target's, and how unequal the probabilities of a row are.
struct Quality {
  double noise, sharpness;
};

paths::Row random_row(Index size, const Quality& quality, specdec::SplitMix64& rng) {
  paths::Row row(size);
  for (double& weight : row) weight = std::exp(quality.sharpness * specdec::uniform01(rng));
  return row / row.sum();
}

paths::Row mixed(const paths::Row& target, const paths::Row& noise, const Quality& quality) {
  return (1 - quality.noise) * target + quality.noise * noise;
}

std::vector<Pair> random_pairs(const Quality& quality) {
  constexpr Index order = 2, rows = (vocab_size + 1) * (vocab_size + 1);
  specdec::SplitMix64 rng(1);
  std::vector<Pair> out;
  for (int n = 0; n < pairs; ++n) {
    Model::Rows target(rows, vocab_size), draft(rows, vocab_size);
    for (Index i = 0; i < rows; ++i) {
      target.row(i) = random_row(vocab_size, quality, rng);
      draft.row(i) = mixed(target.row(i), random_row(vocab_size, quality, rng), quality);
    }
    out.push_back({Model(target, order), Model(draft, order)});
  }
  return out;
}

// The expected number of accepted tokens in the first step. The enumeration fails where a choice has a negative probability.
template <class Siblings, class Rule>
double accepted(const Pair& pair, const TreeShape& shape, const Siblings& siblings, const Rule& rule) {
  specdec::SpecDec decoder{Model(pair.target),
                           specdec::ModelDrafter{Model(pair.draft), specdec::Tree{shape, siblings}}, rule};
  double accepted = 0;
  specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) {
    auto sequence = decoder.start(opening, {.max_new_tokens = 8, .gamma = shape.size()});
    sequence.step(chance);
    accepted += chance.probability() * static_cast<double>(sequence.stats().accepted);
  });
  return accepted;
}

// How often one of four siblings is accepted where no token follows: the mean over random rows of many tokens. Without enumeration.
struct OfSiblings {
  double rejection = 0, selected = 0, best = 0, drawn_first = 0;

  static constexpr Index siblings = 4;

  void add(const paths::Row& p, const paths::Row& q, double share) {
    const DenseRow target(p.data(), p.size()), draft(q.data(), q.size());
    const paths::SelectedRow law(target, draft, siblings, 0);
    for (specdec::Token x = 0; x < p.size(); ++x) selected += share * std::min(p[x], law.probability(x));
    rejection += share * paths::RecursiveRejection{}(p, q, {0, 0, 0, 0}).expected.sum();
    best += share * specdec::most_accepted(target, draft, siblings);
    drawn_first += share * accepted_of_drawn_first(p, q);
  }

 private:
  using DenseRow = specdec::DenseRow<double>;

  // The likeliest are accepted with their p, the drawn one with min(p, t), where t is q without the likeliest, normalised.
  static double accepted_of_drawn_first(const paths::Row& p, paths::Row q) {
    double chosen = 0;
    for (Index k = 1; k < siblings; ++k) {
      Index likeliest = 0;
      q.maxCoeff(&likeliest);
      chosen += p[likeliest];
      q[likeliest] = 0;
    }
    return chosen + (q / q.sum()).cwiseMin(p).sum();
  }
};

OfSiblings of_siblings(const Quality& quality) {
  constexpr Index size = 100;
  constexpr int rows = 200;
  specdec::SplitMix64 rng(1);
  OfSiblings out;
  for (int n = 0; n < rows; ++n) {
    const paths::Row target = random_row(size, quality, rng);
    out.add(target, mixed(target, random_row(size, quality, rng), quality), 1.0 / rows);
  }
  return out;
}

int main() {
  using namespace specdec;
  const TreeShape lines{-1, -1, 0, 1};
  const auto on = [](const TreeShape& shape, auto siblings, auto rule) {
    return [=](const Pair& pair) { return accepted(pair, shape, siblings, rule); };
  };
  struct Row {
    std::string_view name;
    std::function<double(const Pair& pair)> accepted;
  };
  const std::vector<Row> rows{
      {"a line of 2, block verification", on(TreeShape::linear(2), Independent{}, TraversalVerifier{})},
      {"a line of 4, block verification", on(TreeShape::linear(4), Independent{}, TraversalVerifier{})},
      {"2 independent lines of 2", {}},
      {"  traversal", on(lines, Independent{}, TraversalVerifier{})},
      {"  greedy multi-path block", on(lines, Independent{}, paths::MultiPath<BlockVerifier, false>{})},
      {"  the same, with spares", on(lines, Independent{}, paths::MultiPath<BlockVerifier>{})},
      {"  layers over rejection", on(lines, Independent{}, paths::Layers<paths::RecursiveRejection>{})},
      {"  layers over transport", on(lines, Independent{}, paths::Layers<paths::Transport>{})},
      {"  no rule can do better than",
       [](const Pair& pair) {
         return paths::MostOfLines(pair.target, pair.draft, opening, 2, 2).accepted();
       }},
      {"2 siblings, and 1 after each", {}},
      {"  drawn first, traversal", on(lines, DrawnThenLikeliest{}, TraversalVerifier{})},
      {"  without replacement, traversal", on(lines, WithoutReplacement{}, TraversalVerifier{})}};

  constexpr std::array qualities{Quality{0.25, 2}, Quality{0.25, 6}, Quality{0.75, 2}, Quality{0.75, 6}};
  std::vector<std::vector<Pair>> models;
  for (const Quality& quality : qualities) models.push_back(random_pairs(quality));
  std::cout << "tokens per target call              draft: 1/4 noise        3/4 noise\n"
               "                                     flat    sharp     flat    sharp\n"
            << std::fixed << std::setprecision(3);
  for (const Row& row : rows) {
    if (!row.accepted) {
      std::cout << row.name << "\n";
      continue;
    }
    std::cout << std::left << std::setw(32) << row.name << std::right;
    for (const std::vector<Pair>& of_quality : models) {
      double sum = 0;
      for (const Pair& pair : of_quality) sum += row.accepted(pair);
      std::cout << std::setw(9) << 1 + sum / pairs;
    }
    std::cout << "\n";
  }

  std::vector<OfSiblings> groups;
  for (const Quality& quality : qualities) groups.push_back(of_siblings(quality));
  const auto print = [&](std::string_view name, double OfSiblings::*accepted) {
    std::cout << std::left << std::setw(32) << name << std::right;
    for (const OfSiblings& group : groups) std::cout << std::setw(9) << group.*accepted;
    std::cout << "\n";
  };
  std::cout << "accepted of 4 siblings, 100 tokens\n";
  print("  recursive rejection", &OfSiblings::rejection);
  print("  greedy multi-path block", &OfSiblings::selected);
  print("  no rule can do better than", &OfSiblings::best);
  print("  drawn first, traversal", &OfSiblings::drawn_first);
}
