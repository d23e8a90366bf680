// Computes exactly how many drafted tokens each rule for trees accepts, on small random models. It enumerates every draft,
// coin and race, and weighs each outcome with its probability.
// SPDX-License-Identifier: MIT
#include <array>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string_view>
#include <vector>

using specdec::Index;
using specdec::TreeShape;
using Model = specdec::testing::TableModel<>;

constexpr int pairs = 30;

struct Pair {
  Model target, draft;
};

std::vector<Pair> random_pairs() {
  specdec::SplitMix64 rng(1);
  std::vector<Pair> out;
  for (int n = 0; n < pairs; ++n) {
    Model target = Model::random(3, 2, rng);
    out.push_back({target, Model::random(3, 1, rng)});
  }
  return out;
}

// The expected number of accepted tokens in the first step.
template <class Siblings, class Rule>
double expected_accepted(const Pair& pair, const TreeShape& shape, const Siblings& siblings,
                         const Rule& rule) {
  specdec::SpecDec decoder{Model(pair.target),
                           specdec::ModelDrafter{Model(pair.draft), specdec::Tree{shape, siblings}}, rule};
  const std::vector<specdec::Token> prompt{0, 1};
  double accepted = 0;
  specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) {
    auto sequence = decoder.start(prompt, {.max_new_tokens = 8, .gamma = shape.size()});
    sequence.step(chance);
    const double probability = chance.probability();
    accepted += probability * static_cast<double>(sequence.stats().accepted);
  });
  return accepted;
}

template <class Siblings, class Rule>
double mean_accepted(const std::vector<Pair>& models, const TreeShape& shape, const Siblings& siblings,
                     const Rule& rule) {
  double sum = 0;
  for (const Pair& pair : models) sum += expected_accepted(pair, shape, siblings, rule);
  return sum / pairs;
}

template <class Siblings>
void print_row(const std::vector<Pair>& models, std::string_view name, const TreeShape& shape,
               const Siblings& siblings, bool one_row) {
  using namespace specdec;
  std::cout << std::left << std::setw(30) << name << std::right;
  const auto print = [](double accepted) { std::cout << std::setw(11) << accepted; };
  print(mean_accepted(models, shape, siblings, TraversalVerifier{}));
  print(mean_accepted(models, shape, siblings, RecursiveRejectionVerifier{}));
  print(mean_accepted(models, shape, siblings, TrunkAndSpares<BlockVerifier>{}));
  print(mean_accepted(models, shape, siblings, TrunkAndSpares<SampleMatchVerifier>{}));
  if (one_row) print(mean_accepted(models, shape, siblings, KSeqVerifier{}));
  std::cout << "\n";
}

int main() {
  const std::vector<Pair> models = random_pairs();
  std::cout << std::fixed << std::setprecision(3);
  std::cout << "                                traversal  recursive  block on a     sample      K-SEQ\n"
               "                                           rejection       trunk  and match\n";
  struct NamedShape {
    std::string_view name;
    TreeShape shape;
  };
  const std::array<NamedShape, 4> shapes{{{"a line of 2", TreeShape::linear(2)},
                                          {"2 siblings", TreeShape::of_widths({2})},
                                          {"2, and 1 after each", TreeShape::of_widths({2, 1})},
                                          {"2, and 2 after the first", TreeShape{-1, -1, 0, 0}}}};
  for (const auto& [name, shape] : shapes) {
    std::cout << name << "\n";
    print_row(models, "  independent", shape, specdec::Independent{}, true);
    print_row(models, "  without replacement", shape, specdec::WithoutReplacement{}, false);
    print_row(models, "  one drawn, then chosen", shape, specdec::DrawnThenLikeliest{}, false);
    print_row(models, "  chosen", shape, specdec::Likeliest{}, false);
  }
}
