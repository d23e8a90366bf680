// What a Keyed source draws: the row's law, by the documented numbers, on rows of every kind.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <random>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/any_rows.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/lists.hpp"
#include "support/message_of.hpp"
#include "support/shards.hpp"

namespace test_chance_keyed {

using namespace specdec;
using support::bound, support::RowMajor;

static_assert(Chance<Keyed> && RandomSource<Keyed>);
static_assert(is_keyed<Keyed&> && !is_keyed<RandomChance<std::mt19937>>);

namespace {

// The documented draw, token by token.
Token documented(std::uint64_t seed, Index position, const auto& row) {
  SplitMix64 of_seed(seed);
  SplitMix64 of_place(of_seed() + static_cast<std::uint64_t>(position));
  SplitMix64 numbers(of_place());
  long double least = std::numeric_limits<long double>::infinity();
  Token first = -1;
  for (Index x = 0; x < row.vocab_size(); ++x) {
    const long double b = static_cast<long double>(numbers());
    const long double e = -std::log1p(-(b + 0.5L) * 0x1p-64L);
    const auto p = static_cast<long double>(row.probability(static_cast<Token>(x)));
    if (p > 0 && e / p < least) {
      least = e / p;
      first = static_cast<Token>(x);
    }
  }
  return first;
}

// Probabilities that a half represents exactly; many of them are 0.
RowMajor<double> coarse_row(Index size, std::mt19937_64& rng) {
  RowMajor<double> row(1, size);
  for (Index x = 0; x < row.size(); ++x)
    row(0, x) = rng() % 4 == 0 ? 0.0 : std::ldexp(static_cast<double>(1 + rng() % 31), -17);
  return row;
}

}  // namespace

TEST_CASE("a keyed draw gives the documented token, on rows of any kind") {
  std::mt19937_64 rng{5};
  for (int i = 0; i < 30; ++i) {
    const std::uint64_t seed = i == 0 ? 0 : rng();
    const Index position = i == 0 ? 0 : static_cast<Index>(rng() % 100000);
    const Index size = i % 2 == 0 ? 2 * max_segment_size + 300 : 70 + i;
    const RowMajor<double> p = coarse_row(size, rng);
    const auto drawn = [&](const auto& matrix) {
      return Keyed(seed, position).draw(distributions(matrix).row(0));
    };
    const Token expected = documented(seed, position, distributions(p).row(0));
    REQUIRE(drawn(p) == expected);
    REQUIRE(drawn(RowMajor<float>(p.cast<float>())) == expected);
    REQUIRE(drawn(RowMajor<Eigen::half>(p.cast<Eigen::half>())) == expected);
    support::AsStridedMap<double> strided;
    strided.hold(p);
    REQUIRE(drawn(strided.view()) == expected);
    const support::Lists list(p);
    REQUIRE(drawn(list.view()) == expected);
    REQUIRE(drawn(support::AnyRows(distributions(p))) == expected);
    const RowMajor<double> logits = p.array().log();
    REQUIRE(drawn(Logits{logits}) == documented(seed, position, Logits{logits}.row(0)));
    const ProcessedRows cut(logits, TopK{20});
    REQUIRE(drawn(cut) == documented(seed, position, cut.row(0)));

    const Index ranks = 1 + i % 4;
    support::rethrow_first(support::on_ranks(ranks, [&](support::ThreadRank& rank) {
      const auto columns = support::columns_of(rank, p.cols());
      const RowMajor<double> mine = support::part(p, columns);
      Shards shards{mine, columns.first, p.cols(), rank};
      const Index before = shards.exchanges();
      if (drawn(shards.rows()) != expected) throw std::logic_error("another token over ranks");
      if (shards.exchanges() != before + 1) throw std::logic_error("more than one exchange");
    }));
  }
}

TEST_CASE("keyed draws have the row's law, and are independent over positions and over seeds") {
  Eigen::RowVectorXd p(5), q(5);
  p << 0.5, 0.0, 0.2, 0.01, 0.29;
  q << 0.1, 0.3, 0.0, 0.3, 0.3;
  testing::Law pairs;
  for (Token x = 0; x < 5; ++x)
    for (Token y = 0; y < 5; ++y) pairs[{x, y}] = p[x] * q[y];
  const auto row = distributions(p).row(0), next = distributions(q).row(0);
  Keyed along(3);
  const auto neighbours = [&] {
    const Token x = along.draw(row);
    return std::vector{x, along.draw(next)};
  };
  CHECK(testing::check_sampled(neighbours, pairs, bound(100000)));
  std::uint64_t seed = 0;
  const auto seeds_in_a_row = [&] {
    const Token x = Keyed(seed++, 9).draw(row);
    return std::vector{x, Keyed(seed++, 9).draw(next)};
  };
  CHECK(testing::check_sampled(seeds_in_a_row, pairs, bound(100000)));
}

TEST_CASE("a keyed source moves on by one token a draw, except when the draw's place is given") {
  const std::vector<double> p(50, 0.02);
  const DenseRow<double> row(p.data(), 50);
  Keyed keyed(1, 10);
  const Token third = keyed.draw(row, 2), again = keyed.draw(row, 2);
  CHECK(keyed.position() == 10);
  std::vector<Token> tokens;
  for (int i = 0; i < 4; ++i) tokens.push_back(keyed.draw(row));
  CHECK(keyed.position() == 14);
  for (Index i = 0; i < 4; ++i) CHECK(Keyed(1, 10 + i).draw(row) == tokens[static_cast<std::size_t>(i)]);
  CHECK((third == tokens[2] && again == tokens[2]));
  keyed.stand_at(11);
  CHECK(keyed.draw(row) == tokens[1]);
  CHECK(tokens != std::vector<Token>(4, tokens[0]));
}

TEST_CASE("a keyed source refuses a row that is not a distribution, and then stays where it is") {
  std::vector<double> p(1500, 0.0);
  const DenseRow<double> row(p.data(), std::ssize(p));
  Keyed keyed(1, 10);
  CHECK(support::message_of([&] { keyed.draw(row); }).find("positive probability") != std::string::npos);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), -0.5}) {
    p[1300] = bad;
    CHECK(support::message_of([&] { keyed.draw(row); }).find("token 1300") != std::string::npos);
    CHECK_THROWS_AS(keyed.draw(detail::NamedRow(row, "draft", 3)), InvalidDistribution);
  }
  p[1300] = std::numeric_limits<double>::denorm_min();
  CHECK(keyed.draw(row) == 1300);
  CHECK(keyed.position() == 11);
}

TEST_CASE("if one rank cannot draw from its part of a row, no rank draws") {
  const auto errors = support::on_ranks(3, [](support::ThreadRank& rank) {
    RowMajor<double> mine = RowMajor<double>::Constant(1, 100, 1.0 / 300);
    if (rank.rank() == 1) mine(0, 7) = -0.25 / 300;
    Shards shards{mine, 100 * Index{rank.rank()}, 300, rank};
    const auto rows = shards.rows();
    Keyed(3).draw(rows.row(0));
  });
  for (const std::exception_ptr& error : errors) {
    REQUIRE(error != nullptr);
    CHECK_THROWS_AS(std::rethrow_exception(error), InvalidDistribution);
  }
}

}  // namespace test_chance_keyed
