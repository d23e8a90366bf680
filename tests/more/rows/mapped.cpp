// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/rows/mapped.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_more_rows_mapped {

using namespace specdec;
using namespace support;

constexpr Token none = TokenMap::none;

static_assert(Distribution<MappedRow<LogitsRow<float>>>);
static_assert(constant_time_probability<MappedRow<DenseRow<float>>> &&
              !constant_time_probability<MappedRow<LogitsRow<float>>>);
static_assert(!ListedRow<MappedRow<SparseRow<float>>> && SegmentedRow<MappedRow<SparseRow<float>>>);
static_assert(!std::is_constructible_v<MappedRow<DenseRow<float>>, DenseRow<float>, TokenMap>);

TEST_CASE("a token map translates both ways") {
  const TokenMap map{std::vector<Token>{4, none, 0}, 6};
  CHECK(map.draft_vocab_size() == 3);
  CHECK(map.vocab_size() == 6);
  CHECK(map.size() == 2);
  const std::vector<Token> to{map.to(0), map.to(1), map.to(2), map.to(3), map.to(-1)};
  CHECK(to == std::vector<Token>{4, none, 0, none, none});
  std::vector<Token> from;
  for (Token x = -1; x <= 6; ++x) from.push_back(map.from(x));
  CHECK(from == std::vector<Token>{none, 2, none, none, none, 0, none, none});
  CHECK(std::vector<int>(map.mapped().begin(), map.mapped().end()) == std::vector<int>{1, 0, 1});
}

TEST_CASE("an invalid map is refused by token and value") {
  const auto refusal = [](std::vector<Token> targets, Index size) {
    return message_of([&] { TokenMap{targets, size}; });
  };
  CHECK(refusal({0, 6}, 6) == "specdec: targets[1] = 6 is outside the target's vocabulary 0..5");
  CHECK(refusal({-2}, 6) == "specdec: targets[0] = -2 is outside the target's vocabulary 0..5");
  CHECK(refusal({3, none, 1, 3}, 6) ==
        "specdec: targets[0] and targets[3] are both 3: two draft tokens cannot stand for one");
  CHECK(refusal({}, -1) == "specdec: vocab_size = -1 is negative");
}

namespace {

// How far a mapped row is from its definition, in probabilities and draws.
template <class Layout>
double deviation(std::mt19937_64& rng) {
  const std::vector<Token> targets{5, none, 0, 2, none, 1, 3};
  const TokenMap map{targets, 8};
  auto table = testing::TableModel<typename Layout::Scalar>::random(7, 0, rng);
  const auto expected = table.distribution({});
  double mass = 0;
  for (Token d = 0; d < 7; ++d)
    mass += targets[static_cast<std::size_t>(d)] == none ? 0 : expected.probability(d);
  if (mass == 0) return 0;
  Layout layout;
  layout.hold(table.forward(std::vector<Token>{0}, 1));
  const auto row = distributions(std::as_const(layout).view()).row(0);
  const MappedRow mapped(PartOfRow(row, OnlyTokens{map.mapped()}), map);
  std::vector<double> left(8, 0.0);
  double worst = mapped.vocab_size() == 8 ? 0 : 1;
  for (Token d = 0; d < 7; ++d)
    if (const Token x = targets[static_cast<std::size_t>(d)]; x != none)
      left[static_cast<std::size_t>(x)] = expected.probability(d) / mass;
  for (Token x = 0; x < 8; ++x) {
    const double p = left[static_cast<std::size_t>(x)];
    worst = std::max(worst, std::abs(mapped.probability(x) - p));
    if (p > 0 && !possible(mapped, x)) worst = 1;
  }
  worst =
      std::max(worst, std::abs(mapped.largest_probability() - *std::max_element(left.begin(), left.end())));
  if (left[static_cast<std::size_t>(mapped.argmax())] != *std::max_element(left.begin(), left.end()))
    worst = 1;
  worst = std::max(worst, std::abs(mapped.sum(1, 5) - (left[1] + left[2] + left[3] + left[4] + left[5])));
  for (Index i = 0; i < 5; ++i)
    worst = std::max(worst, std::abs(mapped.segment(2, 5)[i] - left[static_cast<std::size_t>(2 + i)]));
  auto draw = mapped.sampler();
  constexpr int draws = 4000;
  for (int n = 0; n < draws; ++n) left[static_cast<std::size_t>(draw((n + 0.5) / draws))] -= 1.0 / draws;
  for (const double more : left) worst = std::max(worst, std::abs(more) - 1.0 / draws);
  return worst;
}

}  // namespace

TEST_CASE("a mapped row has the draft tokens' probabilities, given that the token is mapped") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < 20; ++n) {
    CHECK(deviation<AsRowMajor<double>>(rng) < 1e-12);
    CHECK(deviation<AsLogits<float>>(rng) < 1e-6);
    CHECK(deviation<AsSparse<double>>(rng) < 1e-12);
  }
}

TEST_CASE("a verifier judges rows of a reduced vocabulary by the target's ids") {
  // The draft's tokens are 3 and 1 of the target's. The reference is block verification of these rows written over
  // four tokens.
  const TokenMap map{std::vector<Token>{3, 1}, 4};
  RowMajor<double> p(3, 4), q(2, 2), whole = RowMajor<double>::Zero(2, 4);
  p << .1, .2, .3, .4, .4, .3, .2, .1, .25, .25, .25, .25;
  q << .7, .3, .2, .8;
  whole.col(3) = q.col(0);
  whole.col(1) = q.col(1);
  const auto rows = distributions(q);
  for (unsigned seed = 0; seed < 50; ++seed) {
    std::mt19937_64 a{seed}, b{seed};
    const std::vector<Token> tokens{seed % 2 == 0 ? 3 : 1, 1};
    const Verdict mapped = BlockVerifier{}(p, MappedRows{rows, map}, tokens, a);
    CHECK(mapped == BlockVerifier{}(p, whole, tokens, b));
    b.seed(seed);
    CHECK(mapped == BlockVerifier{}(p, MappedRows{q, map}, tokens, b));
  }
}

TEST_CASE("of equally likely tokens the argmax is the lowest id of the target") {
  const TokenMap map{std::vector<Token>{3, none, 1, 2}, 4};
  const std::vector<double> p{0.375, 0, 0.375, 0.25}, unmapped{0.25, 0.5, 0.25, 0};
  CHECK(MappedRow(DenseRow<double>(p.data(), 4), map).argmax() == 1);
  CHECK(message_of<InvalidDistribution>([&] {
          MappedRow(DenseRow<double>(unmapped.data(), 4), map).argmax();
        }) == "token 1 has mass, but stands for no token of the target");
}

TEST_CASE("a draw of a token that is not mapped is named in the error") {
  const TokenMap map{std::vector<Token>{none, 0}, 1};
  RowMajor<double> q(1, 2);
  q << 1, 0;
  const auto rows = distributions(q);
  const MappedRow row(rows.row(0), map);
  CHECK(message_of<InvalidDistribution>([&] { row.sampler()(0.5); }) ==
        "token 0 has mass, but stands for no token of the target");
}

TEST_CASE("common tokens tell the draft model's confidence before temperature, cuts and hooks") {
  std::vector<float> logits{1, 0, 2, 3};
  const TokenMap map{std::vector<Token>{2, TokenMap::none, 0, 1}, 3};
  const auto at = [&](double temperature) {
    return detail::common_tokens(std::optional(LogitsRow(NumberRow<float>(logits.data(), 4), temperature)),
                                 map, 0);
  };
  const double all = std::exp(1.0) + std::exp(2.0) + std::exp(3.0);  // without draft token 1
  for (const double temperature : {0.0, 0.5, 1.0, 2.0}) {
    const auto row = at(temperature);
    if (temperature == 0) CHECK(row.probability(1) == 1);
    CHECK(row.unprocessed().probability(0) == Approx(std::exp(2.0) / all));
    CHECK(row.unprocessed().probability(1) == Approx(std::exp(3.0) / all));
    CHECK(specdec::confidence_of(row, 0) == Approx(std::exp(3.0) / all));
  }
  logits = {1, 5, 2, 3};  // at temperature 0 all mass is on a token that the target does not have
  CHECK(specdec::confidence_of(at(0), 0) == 1);
  CHECK(specdec::confidence_of(at(1), 0) == Approx(std::exp(3.0) / all));
  // A row that knows nothing else is read as it is.
  const std::vector<double> p{0.25, 0, 0.25, 0.5};
  CHECK(specdec::confidence_of(detail::common_tokens(std::optional(DenseRow<double>(p.data(), 4)), map, 0),
                               0) == 0.5);
}

TEST_CASE("common tokens have log-probabilities where their probabilities are too small for a double") {
  const std::vector<float> logits{0, 9, -2000, 0};
  const TokenMap map{std::vector<Token>{2, TokenMap::none, 0, 1}, 4};
  const auto row =
      detail::common_tokens(std::optional(LogitsRow(NumberRow<float>(logits.data(), 4))), map, 0);
  CHECK(row.probability(0) == 0);
  CHECK(specdec::log_probability(row, 0) == Approx(-2000 - std::log(2.0)));
  CHECK(specdec::log_probability(row, 1) == Approx(std::log(0.5)));
  CHECK(specdec::log_probability(row, 3) == -INFINITY);  // the draft model does not have it
  const auto& part = std::get<0>(row.row().held());
  CHECK(specdec::log_probability(part, 1) == -INFINITY);  // the target does not have it
}

}  // namespace test_more_rows_mapped
