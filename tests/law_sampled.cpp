// The first law again, by sampling: real generators, real draws, the race as it is run.
// Each check has a false-alarm rate of 1e-6; the seeds are fixed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/models.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

template <class V, class Layout, class Generator>
void check_joint_law(Index gamma, Generator rng) {
  std::mt19937_64 models{51};
  LayoutModel<Layout> target(TableModel<typename Layout::Scalar>::random(3, 2, models));
  ModelDrafter drafter{LayoutModel<Layout>(TableModel<typename Layout::Scalar>::random(3, 2, models))};
  SpecDec decoder{target, drafter, V{}};
  const std::vector<Token> prompt{2, 1};
  const Options options{.max_new_tokens = 5, .gamma = gamma};
  const auto report = check_sampled([&] { return decoder.generate(prompt, options, rng).tokens; },
                                    target_law(target, prompt, options), 60000);
  INFO(report);
  CHECK(report.accepted);
  CHECK(report.degrees > 20);
}

}  // namespace

TEMPLATE_TEST_CASE("the sampled joint law of five tokens is the target's", "[law][sampled]", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  check_joint_law<TestType, AsRowMajor<float>>(3, std::mt19937_64{1});
  check_joint_law<TestType, AsColMajor<double>>(4, std::mt19937_64{2});
  check_joint_law<TestType, AsRowMajor<double>>(2, std::mt19937{3});
  check_joint_law<TestType, AsStridedMap<float>>(1, std::minstd_rand{4});
}

namespace {

// Rows of many stretches and blocks, most of whose mass lies on three tokens; the others are counted as one.
constexpr Index row_size = 5000;
constexpr Token heads[] = {3, 2500, 4999};

RowMajor<double> peaked_rows(Index rows, std::mt19937_64& rng) {
  RowMajor<double> m(rows, row_size);
  for (double& p : m.reshaped()) p = uniform01(rng) < 0.2 ? uniform01(rng) / 1250 : 0.0;
  for (Index i = 0; i < rows; ++i) {
    for (const Token x : heads) m(i, x) += 0.1 + 0.3 * uniform01(rng);
    m.row(i) /= m.row(i).sum();
  }
  return m;
}

Token head_of(Token x) {
  const auto found = std::ranges::find(heads, x);
  return found == std::end(heads) ? Token{3} : static_cast<Token>(found - std::begin(heads));
}

// The text of one step, completed by the target's draws to three tokens: by Lemma 2 of Sun et al. it has the
// target's law under every valid step, here a product of rows that depend on nothing.
template <class V, class TargetLayout, class DraftLayout>
void check_long_rows(std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  TargetLayout target;
  DraftLayout draft;
  const RowMajor<double> p = peaked_rows(3, rng), q = peaked_rows(2, rng);
  target.hold(p.template cast<typename TargetLayout::Scalar>());
  draft.hold(q.template cast<typename DraftLayout::Scalar>());
  const auto rows = distributions(std::as_const(target).view());
  const auto drafts = distributions(std::as_const(draft).view());
  Law expected;
  for (Token a = 0; a < 4; ++a)
    for (Token b = 0; b < 4; ++b)
      for (Token c = 0; c < 4; ++c) {
        const auto mass = [&](Index i, Token x) {
          if (x < 3) return p(i, heads[x]);
          return 1 - p(i, heads[0]) - p(i, heads[1]) - p(i, heads[2]);
        };
        expected[{a, b, c}] = mass(0, a) * mass(1, b) * mass(2, c);
      }
  V verifier;
  RandomChance chance{rng};
  const auto sample = [&] {
    std::vector<Token> tokens{chance.draw(drafts.row(0)), chance.draw(drafts.row(1))};
    const Verdict v = verifier(std::as_const(target).view(), std::as_const(draft).view(), tokens, rng);
    tokens.resize(static_cast<std::size_t>(v.accepted));
    tokens.push_back(v.token);
    while (tokens.size() < 3) tokens.push_back(chance.draw(rows.row(static_cast<Index>(tokens.size()))));
    for (Token& x : tokens) x = head_of(x);
    return tokens;
  };
  const auto report = check_sampled(sample, expected, 4000);
  INFO(report);
  CHECK(report.accepted);
  CHECK(report.degrees > 20);
}

}  // namespace

TEMPLATE_TEST_CASE("the sampled law of a step over 5000 tokens is the target's, for every kind of row",
                   "[law][sampled]", TokenVerifier, BlockVerifier, SampleMatchVerifier) {
  check_long_rows<TestType, AsPointers<float>, AsStridedPointers<float>>(5);
  check_long_rows<TestType, AsSparse<double>, AsRowMajor<float>>(6);
  check_long_rows<TestType, AsLogits<float>, AsSparse<float, std::int64_t>>(7);
  check_long_rows<TestType, AsNormalisedLogits<float>, AsLogits<float, 70>>(8);
  check_long_rows<TestType, AsLogits<double, 70>, AsColMajor<float>>(9);
}
