// How many tokens of a tree a rule accepts, by the few branches of compare_trees, beside all branches and beside samples.
// SPDX-License-Identifier: MIT
#include "paired/expected_accepted.hpp"

#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "generate/pair.hpp"
#include "paired/places.hpp"
#include "small_transformer.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/temporary_file.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_expected_accepted {

using namespace specdec;
using namespace specdec::testing;
using Model = TableModel<>;

namespace {

const std::vector<Token> prompt{0, 1};

// Calls use(rule, target rows, draft) for trees of each kind over random models, with a rule that goes with the kind.
template <class Use>
void each_tree(Index vocab_size, int models, const Use& use) {
  std::mt19937_64 rng{11};
  for (int n = 0; n < models; ++n) {
    const Model target = Model::random(vocab_size, 2, rng);
    const Model draft = Model::random(vocab_size, 1, rng);
    const auto with = [&](const auto& strategy, const auto& rule) {
      ModelDrafter drafter{Model(draft), strategy};
      const auto tree = drafter.draft(prompt, {}, rng);
      paired::Rows rows(std::ssize(tree.tokens) + 1, vocab_size);
      for (Index k = -1; k < std::ssize(tree.tokens); ++k) {
        std::vector<Token> text;
        for (Index i = k; i >= 0; i = tree.parents[static_cast<std::size_t>(i)])
          text.insert(text.begin(), tree.tokens[static_cast<std::size_t>(i)]);
        text.insert(text.begin(), prompt.begin(), prompt.end());
        for (Token x = 0; x < vocab_size; ++x) rows(k + 1, x) = target.distribution(text).probability(x);
      }
      use(rule, rows, tree);
    };
    const TreeShape shape{-1, -1, -1, 0, 0, 1};
    with(Tree{TreeShape::linear(3), Independent{}}, TraversalVerifier{});
    with(Tree{TreeShape::linear(3), Independent{}}, TrunkAndSpares<TokenVerifier>{});
    with(Tree{shape, Independent{}}, TraversalVerifier{});
    with(Tree{shape, WithoutReplacement{}}, RecursiveRejectionVerifier{});
    with(Tree{shape, DrawnThenLikeliest{}}, TraversalVerifier{});
    with(Tree{shape, WithoutReplacement{}}, TrunkAndSpares<SampleMatchVerifier>{});
    with(Tree{shape, Likeliest{}}, TrunkAndSpares<SampleMatchVerifier>{});
    with(Spares{3, {2, 1, 0}}, TrunkAndSpares<BlockVerifier>{});
    with(Spares{2, {2, 1}, 1}, TraversalVerifier{});
  }
}

}  // namespace

TEST_CASE("few branches tell as many accepted tokens as all branches do") {
  int compared = 0;
  for (const Index vocab_size : {3, 5})  // in the smaller one all tokens may be drafted
    each_tree(vocab_size, support::bound(4, 40), [&](const auto& rule, const auto& rows, const auto& tree) {
      double expected = 0;
      enumerate([&](Enumerator& chance) {
        const TreeVerdict verdict = verify(rule, rows, tree.rows, tree.tokens, tree.parents, chance);
        expected += chance.probability() * static_cast<double>(verdict.path.size());
      });
      CHECK(paired::expected_accepted(rule, rows, tree.rows, tree.tokens, tree.parents) ==
            Approx(expected).margin(1e-12));
      compared += expected > 0;
    });
  CHECK(compared > 9);
}

// Five standard errors: a false alarm in 60 000 trees; the seed is fixed.
TEST_CASE("samples agree with the number that is computed", "[sampled]") {
  std::mt19937_64 rng{5};
  const int samples = support::bound(4000);
  each_tree(40, 1, [&](const auto& rule, const auto& rows, const auto& tree) {
    double sum = 0, squares = 0;
    for (int n = 0; n < samples; ++n) {
      const auto accepted =
          static_cast<double>(verify(rule, rows, tree.rows, tree.tokens, tree.parents, rng).path.size());
      sum += accepted;
      squares += accepted * accepted;
    }
    const double mean = sum / samples, error = std::sqrt((squares / samples - mean * mean) / samples);
    CHECK(std::abs(paired::expected_accepted(rule, rows, tree.rows, tree.tokens, tree.parents) - mean) <
          5 * error + 1.0 / samples);
  });
}

// Closed form: the sum over all tokens of the product of the probabilities on their way.
TEST_CASE("a chosen tree is accepted as its paths are likely") {
  paired::Rows rows(4, 4);
  rows << 0.5, 0.25, 0.125, 0.125,  // after the context
      0.25, 0.5, 0.25, 0,           // after token 0
      1, 0, 0, 0,                   // after token 1
      0, 0, 0, 1;                   // after tokens 0 and 1
  const std::vector<Token> tokens{0, 1, 1};
  const std::vector<Index> parents{-1, -1, 0};
  const OneHotRows chosen{tokens};
  constexpr double expected = 0.5 + 0.25 + 0.5 * 0.5;
  CHECK(paired::expected_accepted(TrunkAndSpares<SampleMatchVerifier>{}, rows, chosen, tokens, parents) ==
        Approx(expected));
  CHECK(paired::expected_accepted(TraversalVerifier{}, rows, chosen, tokens, parents) == Approx(expected));
}

// Along a text, so that the cache is what earlier calls left of it.
TEST_CASE("a judge's rows of a tree are those of its paths, fed as lines") {
  const transformer::Shape shape{32, 48, 2, 2, 2, 40, 80, true};
  const support::TemporaryFile file(support::RandomModel(shape, 3).versioned<float>());
  const auto model = [&] {
    return generate::erased(std::make_shared<transformer::Transformer<float>>(file.path()));
  };
  const auto in_tree = model(), in_lines = model();
  for (const double temperature : {0.0, 0.7}) {
    paired::Softmax target(*in_tree, temperature), plain(*in_lines, temperature);
    paired::Judge judge(target);
    const std::vector<Token> text{5, 9, 2, 7, 31, 8}, tokens{4, 11, 11, 6};
    const std::vector<Index> parents{-1, -1, 0, 2};
    const std::vector<std::vector<Token>> paths{{}, {4}, {11}, {4, 11}, {4, 11, 6}};
    judge.begin_text();
    for (const Index length : {2, 3, 3, 6}) {
      const auto context = std::span(text).first(static_cast<std::size_t>(length));
      const paired::Rows rows = judge.rows(context, tokens, parents);
      REQUIRE(rows.rows() == std::ssize(paths));
      for (std::size_t k = 0; k < paths.size(); ++k) {
        std::vector<Token> line(context.begin(), context.end());
        line.insert(line.end(), paths[k].begin(), paths[k].end());
        plain.truncate(0);
        const auto& row = plain.forward(line, 1);
        CHECK(rows.row(static_cast<Index>(k)) == row.row(0));
        CHECK(row.sum() == Approx(1));
        CHECK((row.maxCoeff() == 1) == (temperature == 0));
      }
    }
  }
}

}  // namespace test_examples_expected_accepted
