// Every draft length drafts with every kind of draft model's rows and every strategy, or is refused in a sentence.
#include <cstddef>
#include <random>
#include <span>
#include <specdec/model/common_tokens.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
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

// A model of each kind of rows. Wrappers that pass rows on have the rows of the model within.
auto models() {
  return std::tuple{small(), ProcessedModel{small(), Chain{Temperature{0.5}, TopK{2}}},
                    CommonTokens{small(), map}, CommonTokens{ProcessedModel{small(), Temperature{0}}, map}};
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

}  // namespace

TEST_CASE("each draft length that reads rows reads those of each model, by each strategy") {
  int cases = 0;
  each(models(), [&]<class Model>(const Model& model) {
    each(strategies(), [&]<class Strategy>(const Strategy& strategy) {
      each(lengths(), [&]<class Length>(const Length& length) {
        if constexpr (!Strategy::drafts_trees || counts_nodes<Length>) {
          check(model, strategy, length);
          ++cases;
        }
      });
    });
  });
  CHECK(cases == 4 * (1 * 3 + 5 * 1));
}

}  // namespace law_lengths_and_models
