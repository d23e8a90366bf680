// The rules for several drafted lines, of examples/write/paths: their laws, what they are on one line, and what they accept.
// SPDX-License-Identifier: MIT
#include "paths/layers.hpp"
#include "paths/most_of_lines.hpp"
#include "paths/multi_path.hpp"
#include "paths/one_step.hpp"
#include "paths/selected_row.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "mistakes/paths.hpp"
#include "mistakes/rules.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace paths_of_examples {

using namespace specdec;
using namespace specdec::testing;
using support::bound;

namespace {

using Model = TableModel<>;
const std::vector<Token> prompt{0, 1};

using Alone = paths::MultiPath<BlockVerifier, false>;
using WithSpares = paths::MultiPath<BlockVerifier>;
using OverRejection = paths::Layers<paths::RecursiveRejection>;
using OverTransport = paths::Layers<paths::Transport>;

struct Pair {
  Model target, draft;
};
// About a quarter of the probabilities are 0, and ratios are often equal.
Pair random_pair(Index vocab_size, std::mt19937_64& rng) {
  Model target = Model::random(vocab_size, 2, rng);
  return {std::move(target), Model::random(vocab_size, 2, rng)};
}

TreeShape shape_of(Index lines, Index length) {
  std::vector<Index> widths(static_cast<std::size_t>(length), 1);
  widths[0] = lines;
  return TreeShape::of_widths(widths);
}

template <class Rule, class Siblings = Independent>
auto decoder_of(const Pair& models, const TreeShape& shape, const Rule& rule, Siblings siblings = {}) {
  return SpecDec{Model(models.target), ModelDrafter{Model(models.draft), Tree{shape, siblings}}, rule};
}

// How far the exact law of a text is from the target's.
template <class Rule>
double bias(const Pair& models, const TreeShape& shape, const Rule& rule, const Options& options) {
  auto decoder = decoder_of(models, shape, rule);
  return largest_difference(exact_generate(decoder, prompt, options).law,
                            target_law(models.target, prompt, options))
      .size;
}

// The expected number of accepted tokens of the first step.
template <class Rule>
double accepted(const Pair& models, const TreeShape& shape, const Rule& rule) {
  auto decoder = decoder_of(models, shape, rule);
  double accepted = 0;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, {.max_new_tokens = 8, .gamma = shape.size()});
    sequence.step(chance);
    accepted += chance.probability() * static_cast<double>(sequence.stats().accepted);
  });
  return accepted;
}

struct Lines {
  Index vocab_size, lines, length;
};
constexpr Lines all_lines[] = {{2, 2, 1}, {3, 2, 1}, {4, 3, 1}, {2, 2, 2}, {3, 2, 2}, {2, 3, 2}, {3, 1, 3}};

}  // namespace

TEST_CASE("rules for several lines write the target's law, and toss no coin that no generator can toss") {
  std::mt19937_64 rng{3};
  for (int n = 0; n < bound(56, 280); ++n) {
    const auto [vocab_size, lines, length] = all_lines[n % 7];
    INFO("V = " << vocab_size << ", " << lines << " lines of " << length << ", pair " << n);
    const Pair models = random_pair(vocab_size, rng);
    const TreeShape shape = shape_of(lines, length);
    Options options{.max_new_tokens = length + 2, .gamma = shape.size()};
    if (n % 2 == 1) options.stop_tokens = {0};  // lines end at a token, and are no longer of one length
    const auto check = [&](const char* name, const auto& rule) {
      INFO(name);
      CHECK(bias(models, shape, rule, options) < 1e-12);
    };
    check("block on the selected line", Alone{});
    check("block on the selected line, and spares", WithSpares{});
    check("token on the selected line, and spares", paths::MultiPath<TokenVerifier>{});
    check("layers over rejection", OverRejection{});
    check("layers over transport", OverTransport{});
  }
}

TEST_CASE("check_lossless takes rules for several lines, if it drafts lines only") {
  const LosslessCheck lines{.gammas = {1, 2},
                            .models = bound(8, 40),
                            .wide_models = 0,
                            .max_new_tokens = 3,
                            .siblings = {Sibling::independent}};
  CHECK(check_lossless(Alone{}, lines));
  CHECK(check_lossless(WithSpares{}, lines));
  CHECK(check_lossless(OverRejection{}, lines));
  CHECK(check_lossless(OverTransport{}, lines));
}

TEST_CASE("layers are lossless on trees that branch below the context, too") {
  std::mt19937_64 rng{4};
  for (int n = 0; n < bound(12, 60); ++n) {
    const Pair models = random_pair(2, rng);
    const TreeShape shape = TreeShape::of_widths({2, 2});
    const Options options{.max_new_tokens = 3, .gamma = shape.size()};
    CHECK(bias(models, shape, OverRejection{}, options) < 1e-12);
    CHECK(bias(models, shape, OverTransport{}, options) < 1e-12);
  }
}

TEST_CASE(
    "on one line the rules for several lines accept what block verification accepts, and no rule accepts "
    "more") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < bound(24, 120); ++n) {
    const Pair models = random_pair(3, rng);
    const TreeShape line = TreeShape::linear(3);
    const double block = accepted(models, line, TraversalVerifier{});
    CHECK(accepted(models, line, WithSpares{}) == Approx(block).margin(1e-12));
    CHECK(accepted(models, line, OverRejection{}) == Approx(block).margin(1e-12));
    CHECK(accepted(models, line, OverTransport{}) == Approx(block).margin(1e-12));
    CHECK(paths::MostOfLines(models.target, models.draft, prompt, 1, 3).accepted() ==
          Approx(block).margin(1e-6));
  }
}

TEST_CASE(
    "transport accepts the most that can be accepted of independent siblings, and so says the linear "
    "program") {
  std::mt19937_64 rng{6};
  for (int n = 0; n < bound(24, 120); ++n) {
    const Pair models = random_pair(4, rng);
    const Index siblings = 1 + n % 3;
    const double most =
        most_accepted(models.target.distribution(prompt), models.draft.distribution(prompt), siblings);
    CHECK(accepted(models, shape_of(siblings, 1), OverTransport{}) == Approx(most).margin(1e-12));
    CHECK(paths::MostOfLines(models.target, models.draft, prompt, siblings, 1).accepted() ==
          Approx(most).margin(1e-6));
  }
}

TEST_CASE("of several lines no rule accepts more than the linear program says; spares and transport help") {
  std::mt19937_64 rng{7};
  double by_spares = 0, by_transport = 0, left = 0;
  for (int n = 0; n < bound(24, 120); ++n) {
    const Pair models = random_pair(3, rng);
    const TreeShape shape = shape_of(2, 2);
    const double most = paths::MostOfLines(models.target, models.draft, prompt, 2, 2).accepted(),
                 alone = accepted(models, shape, Alone{}), spares = accepted(models, shape, WithSpares{}),
                 rejection = accepted(models, shape, OverRejection{}),
                 transport = accepted(models, shape, OverTransport{});
    CHECK(accepted(models, shape, TraversalVerifier{}) < most + 1e-6);
    CHECK(alone < spares + 1e-12);
    CHECK(std::max({spares, rejection, transport}) < most + 1e-6);
    by_spares += spares - alone;
    by_transport += transport - rejection;
    left += most - transport;
  }
  CHECK(by_spares > 0.01);
  CHECK(by_transport > 0.01);
  CHECK(left > 0.01);
}

TEST_CASE("the row of a selected token is the law of the selection") {
  std::mt19937_64 rng{8};
  for (int n = 0; n < bound(60, 300); ++n) {
    const Index vocab_size = 2 + n % 3, lines = 1 + n % 4;
    const Pair models = random_pair(vocab_size, rng);
    const auto p = models.target.distribution(prompt), q = models.draft.distribution(prompt);
    // The tokens of all lines at two nodes, one after the other; the rows are equal at both.
    std::map<std::vector<Token>, double> law;
    enumerate([&](Enumerator& chance) {
      std::vector<std::vector<Token>> all;
      for (Index line = 0; line < lines; ++line) all.push_back({chance.draw(q), chance.draw(q)});
      const auto before = [&](Token x, Token y) {
        return paths::ByRatioThenId{}(paths::rated(p, q, x), paths::rated(p, q, y));
      };
      law[*std::ranges::max_element(all, [&](const auto& a, const auto& b) {
        return a[0] == b[0] ? before(a[1], b[1]) : before(a[0], b[0]);
      })] += chance.probability();
    });
    double sum = 0;
    const paths::SelectedRow first(p, q, lines, 0);
    for (Token x = 0; x < vocab_size; ++x) {
      const auto selected = first.selected(x);
      const paths::SelectedRow second(p, q, lines, selected.elsewhere);
      sum += first.probability(x);
      for (Token y = 0; y < vocab_size; ++y)
        CHECK(selected.probability * second.probability(y) == Approx(law[{x, y}]).margin(1e-12));
    }
    CHECK(sum == Approx(1).margin(1e-12));
    auto draw = first.sampler();
    CHECK(first.probability(draw(0)) > 0);
    CHECK(first.probability(draw(0x1.fffffffffffffp-1)) > 0);
  }
}

namespace {

template <class Siblings>
void draft_by(Siblings siblings, const TreeShape& shape, const auto& rule) {
  std::mt19937_64 rng{9};
  Eigen::RowVectorXd row(3);
  row << 0.5, 0.25, 0.25;
  const Pair models{Model::context_free(row), Model::context_free(row)};
  auto decoder = decoder_of(models, shape, rule, siblings);
  // Draws differ: one of a few shows what is wrong.
  for (int n = 0; n < 20; ++n)
    (void)decoder.generate(prompt, {.max_new_tokens = 8, .gamma = shape.size()}, rng);
}

}  // namespace

TEST_CASE("other trees are refused in words") {
  CHECK_THROWS_WITH(draft_by(Independent{}, TreeShape::of_widths({1, 2}), WithSpares{}),
                    Catch::Contains("both follow tokens[0]"));
  CHECK_THROWS_WITH(draft_by(Independent{}, TreeShape{-1, -1, 0}, WithSpares{}),
                    Catch::Contains("lines of one length"));
  CHECK_THROWS_WITH(draft_by(WithoutReplacement{}, shape_of(2, 1), WithSpares{}),
                    Catch::Contains("independent draws from one row"));
  CHECK_THROWS_WITH(draft_by(Likeliest{}, shape_of(2, 1), OverTransport{}),
                    Catch::Contains("independent draws from one row"));
}

TEST_CASE("mistakes of rules for several lines are convicted") {
  const LosslessCheck pairs{
      .gammas = {1, 2}, .wide_models = 0, .max_new_tokens = 3, .siblings = {Sibling::independent}};
  CHECK_FALSE(check_lossless(mistakes::SelectedBy<mistakes::TiesByDraw>{}, pairs));
  CHECK_FALSE(check_lossless(mistakes::SelectedBy<mistakes::ClippedRatios>{}, pairs));
  CHECK_FALSE(check_lossless(mistakes::ResidualOfPowers{}, pairs));
  const LosslessCheck single{
      .gammas = {1}, .models = 2, .wide_models = 0, .max_new_tokens = 2, .siblings = {Sibling::independent}};
  CHECK(check_lossless(mistakes::ResidualOfPowers{}, single));  // with one sibling it is right
}

TEST_CASE("branches with negative probabilities have the right law on paper, and are refused") {
  std::mt19937_64 rng{10};
  for (int n = 0; n < 20; ++n) {
    const Pair models = random_pair(3, rng);
    const auto p = models.target.distribution(prompt), q = models.draft.distribution(prompt);
    Eigen::RowVectorXd law = Eigen::RowVectorXd::Zero(3);
    for (Token x = 0; x < 3; ++x) {
      const double drawn = (q.probability(x) + 1) / 4;  // every token may be drafted
      const mistakes::Branches branches{p.probability(x) / drawn};
      law[x] += drawn * branches.probability(0);
      for (Token y = 0; y < 3; ++y) law[y] += drawn * branches.probability(1) * p.probability(y);
    }
    for (Token x = 0; x < 3; ++x) CHECK(law[x] == Approx(p.probability(x)).margin(1e-12));
  }
  CHECK_THROWS_WITH(check_lossless(mistakes::NegativeBranches{}), Catch::Contains("has the probability -"));
}

}  // namespace paths_of_examples
