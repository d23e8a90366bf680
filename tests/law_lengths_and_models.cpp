// Every draft length drafts with every kind of draft model's rows and every strategy, or is refused in a sentence.
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/heads/head_model.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/knowing.hpp"
#include "support/layouts.hpp"
#include "support/models.hpp"
#include "support/tree_models.hpp"

namespace law_lengths_and_models {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Small = WatchedTreeModel;
const TokenMap map{std::vector<Token>{2, TokenMap::none, 0, 1}, 3};
const std::vector<Token> context{1, 0};

Small small() {
  std::mt19937_64 rng{3};
  return Small(coarse_model(4, 1, rng));
}

// A head on the target's hidden states, and a layer. The rows depend on the last token.
struct Plain {
  RowMajor<double> output = {};

  Index vocab_size() const { return 3; }
  Index state_size() const { return 2; }
  void begin(const Eigen::Vector2f& hidden, Eigen::Ref<Eigen::VectorXf> state) { state = hidden; }
  const RowMajor<double>& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                  std::span<const Token> tokens, Eigen::Ref<Eigen::MatrixXf> next,
                                  Index rows) {
    next = states;
    output.resize(rows, 3);
    for (Index i = 0; i < rows; ++i)
      output.row(i) =
          Eigen::RowVector3d{{0.25, 0.5, 0.25}} +
          0.25 * Eigen::RowVector3d::Unit(tokens[tokens.size() - static_cast<std::size_t>(rows - i)]);
    output.array().colwise() /= output.rowwise().sum().array().eval();
    return output;
  }
};
struct PlainLayer : Plain {
  using Plain::forward;
  const RowMajor<double>& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                  std::span<const Token> tokens, std::span<const Index>,
                                  Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    return forward(states, tokens, next, rows);
  }
  void keep(std::span<const Index>) const {}
  void truncate(Index) const {}
};

// It has read all of the context but its last token.
Knowing& target_of_heads() {
  static Knowing target = [] {
    Knowing begun = knowing(3, 1);
    begun.forward(std::span(context).first(context.size() - 1), 1);
    return begun;
  }();
  return target;
}

// A model of each kind of rows. Wrappers that pass rows on have the rows of the model within.
auto models() {
  return std::tuple{small(),
                    ProcessedModel{small(), Chain{Temperature{0.5}, TopK{2}}},
                    CommonTokens{small(), map},
                    CommonTokens{ProcessedModel{small(), Temperature{0}}, map},
                    HeadModel{target_of_heads(), Plain{}},
                    EagleModel{target_of_heads(), PlainLayer{}}};
}

// What makes such a model for many texts.
auto models_of_many() {
  const auto processed = [](const auto& chain) { return ProcessedModel{ModelPerSequence{small()}, chain}; };
  return std::tuple{[] { return ModelPerSequence{small()}; },
                    [=] {
                      return processed(Chain{Temperature{0.5}, TopK{2}});
                    },
                    [] {
                      return CommonTokens{ModelPerSequence{small()}, map};
                    },
                    [=] {
                      return CommonTokens{processed(Temperature{0}), map};
                    }};
}

auto strategies() {
  const auto shape = TreeShape::of_widths({2, 1, 1});
  return std::tuple{Line{},
                    Tree{shape, WithoutReplacement{}},
                    Tree{shape, Independent{}},
                    Tree{shape, Likeliest{}},
                    Spares{3, {1}},
                    ConfidentTree{.width = 2, .depth = 3, .nodes = 5}};
}

// The draft lengths that read rows. All others are asked for a number alone.
// ConfidentLength and EntropyLength are for
// lines, and refused for trees: see tests/compile/length_of_a_line_for_trees.cpp.
auto lengths() { return std::tuple{ConfidentLength{0.1}, EntropyLength{}, EarlyStoppingLength{}}; }

template <class... Types>
void each(const std::tuple<Types...>& all, const auto& visit) {
  std::apply([&](const Types&... one) { (visit(one), ...); }, all);
}

template <class Model, class Strategy, class Length>
void check(const Model& model, const Strategy& strategy, Length length) {
  std::mt19937_64 rng{5};
  ModelDrafter drafter{Model(model), strategy};
  specdec::detail::DraftReadings readings;
  const specdec::detail::KeepDrafting<Length, false> keep_drafting{&length, &readings};
  const auto draft = drafter.draft(context, {.nodes = 5, .depth = 3}, rng, keep_drafting);
  CHECK(draft.tokens.size() >= 1);
  CHECK(draft.tokens.size() <= 5);
}

// Two texts in a batch.
template <class Model, class Strategy, class Length>
void check_many(const Model& make_model, const Strategy& strategy, Length length) {
  using Rule = std::conditional_t<Strategy::drafts_trees, TraversalVerifier, BlockVerifier>;
  Batch batch{ModelPerSequence{small()}, ModelDrafter{make_model(), strategy}, Rule{}, std::move(length)};
  for (const std::uint64_t seed : {1u, 2u})
    batch.add(context, {.max_new_tokens = 6, .gamma = 5}, SplitMix64{seed});
  Index drafted = 0;
  for (const Finished& done : batch.run()) {
    CHECK_FALSE(done.error);
    CHECK(done.result.tokens.size() == 6);
    drafted += done.result.stats.drafted;
  }
  CHECK(drafted > 0);
}

// Calls visit for each strategy and each length that fits it, and counts the cases.
int each_case(const auto& model, const auto& visit) {
  int cases = 0;
  each(strategies(), [&]<class Strategy>(const Strategy& strategy) {
    each(lengths(), [&]<class Length>(const Length& length) {
      if constexpr (!Strategy::drafts_trees || counts_nodes<Length>) {
        visit(model, strategy, length);
        ++cases;
      }
    });
  });
  return cases;
}

constexpr int cases_of_a_model = 1 * 3 + 5 * 1;

}  // namespace

TEST_CASE("each draft length that reads rows reads those of each model, by each strategy") {
  each(models(), [](const auto& model) {
    CHECK(each_case(model, [](const auto&... one) { check(one...); }) == cases_of_a_model);
  });
}

TEST_CASE("each draft length that reads rows reads those of many texts, of each model and by each strategy") {
  each(models_of_many(), [](const auto& model) {
    CHECK(each_case(model, [](const auto&... one) { check_many(one...); }) == cases_of_a_model);
  });
}

}  // namespace law_lengths_and_models
