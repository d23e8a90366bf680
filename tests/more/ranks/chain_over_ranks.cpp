// Steps on rows spread over ranks keep what they keep of whole rows, and what the ranks exchange for it does not grow
// with the vocabulary.
// SPDX-License-Identifier: MIT
#include "specdec/more/ranks/chain_over_ranks.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/thread_ranks.hpp"

namespace test_sample_chain_over_ranks {

using namespace specdec;
using support::RowMajor;
using support::ThreadRank;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double normal(std::mt19937_64& rng) {
  double sum = -6;
  for (int k = 0; k < 12; ++k) sum += uniform01(rng);
  return sum;
}

// Rows as models give them, rows with ties, of one number, with few possible tokens, over all magnitudes, each of one
// sign, and sorted, so that the first rank has all the mass.
template <class S>
RowMajor<S> many_rows(Index size, std::mt19937_64& rng) {
  RowMajor<S> m(8, size);
  for (Index x = 0; x < size; ++x) {
    m(0, x) = static_cast<S>(3 * normal(rng));
    m(1, x) = static_cast<S>(std::round(2 * normal(rng)));
    m(2, x) = static_cast<S>(-1.5);
    m(3, x) = static_cast<S>(x % 7 == 3 ? normal(rng) : -infinity);
    m(4, x) = static_cast<S>(normal(rng) * std::pow(10.0, 60 * uniform01(rng) - 35));
    m(5, x) = static_cast<S>(-std::abs(m(4, x)));
    m(6, x) = static_cast<S>(10 * std::exp(-static_cast<double>(x) / 20));
    m(7, x) = static_cast<S>(x == size / 2 ? 60 : 0.01 * normal(rng));
  }
  return m;
}

// Ragged columns of ranks. One of the ranks has none.
Index first_of(Index rank, Index ranks, Index size) {
  if (rank == 0) return 0;
  if (rank == ranks) return size;
  return ranks > 2 && rank == 2 ? first_of(1, ranks, size) : (size * rank * rank + 1) / (ranks * ranks);
}

// Temperatures are equal up to `rounding`, tokens without exception.
template <class S, class Steps>
void check_kept(const RowMajor<S>& whole, Index ranks, const Steps& steps, double temperature = 1,
                double rounding = 0) {
  support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
    const Index size = whole.cols(), first = first_of(rank.rank(), ranks, size),
                count = first_of(rank.rank() + 1, ranks, size) - first;
    const RowMajor<S> mine = whole.middleCols(first, count);
    ChainOverRanks over_ranks(steps, rank);
    const auto columns = over_ranks(mine, size, temperature);
    bool equal = true;
    for (Index i = 0; i < whole.rows(); ++i) {
      const auto row = steps(LogitsRow(numbers(whole).row(i), temperature));
      if (!(std::abs(columns.row(i).temperature() - row.temperature()) <= rounding))
        throw std::logic_error("another temperature is left");
      for (Index x = 0; x < count; ++x)
        equal = equal &&
                columns.row(i).possible(static_cast<Token>(x)) == row.possible(static_cast<Token>(first + x));
    }
    if (!equal) throw std::logic_error("other tokens are kept than of the whole rows");
    // Three rounds, and one more for each four bits. Before them, two or three numbers of each row.
    const Index exchanges = over_ranks.exchanges(), steps_taken = 4;
    constexpr Index rounds = 3 + static_cast<Index>(sizeof(S)) * 2;
    if (exchanges > steps_taken * (1 + rounds)) throw std::logic_error("too many exchanges");
    if (over_ranks.numbers_given() > exchanges * 18 * whole.rows())
      throw std::logic_error("too many numbers");
  }));
}

template <class S>
void check_chains(std::uint64_t seed) {
  std::mt19937_64 rng(seed);
  for (int n = 0; n < support::bound(12, 60); ++n) {
    const Index size = n % 4 == 0 ? 3000 : 8 + 9 * n, ranks = 1 + n % 5;
    const RowMajor<S> rows = many_rows<S>(size, rng);
    const TopK k(n % 3 == 0 ? 1 : static_cast<Index>(uniform01(rng) * static_cast<double>(size)));
    const TopP p(n % 3 == 1 ? 0.999 : 0.02 + 0.9 * uniform01(rng));
    const MinP m(0.3 * uniform01(rng));
    const Temperature t(0.3 + 2 * uniform01(rng));
    check_kept(rows, ranks, Chain{t, k, p, m});
    check_kept(rows, ranks, Chain{m, p, Chain{t, p}, k});
    check_kept(rows, ranks, Chain{t, k, p, m}, 0.6);
    if (n % 4 == 1) check_kept(rows, ranks, Chain{Temperature(0), k, p, m});
    const Index few = n % 3 == 0 ? n % 2 : static_cast<Index>(uniform01(rng) * static_cast<double>(size));
    check_kept(rows, ranks, Chain{t, MinKeep{few, p}, MinKeep{2, m}});
    check_kept(rows, ranks, Chain{k, MinKeep{few, Chain{MinKeep{few / 2, m}, p}}});
    check_kept(rows, ranks, Chain{k, TopNSigma{n % 4 == 0 ? 0 : 3 * uniform01(rng)}, TopNSigma{1}});
    const double range = n % 5 == 0 ? 0 : uniform01(rng), rounding = std::same_as<S, float> ? 1e-5 : 1e-12;
    check_kept(rows, ranks, Chain{k, DynamicTemperature{0.7, range, 1.5}}, 0.9, rounding);
  }
}

}  // namespace

TEST_CASE("over ranks a chain of steps keeps the tokens that it keeps of whole rows") {
  check_chains<float>(41);
  check_chains<double>(42);
}

TEST_CASE("what ranks exchange to cut rows does not grow with the vocabulary") {
  using Cost = std::pair<Index, Index>;
  std::mt19937_64 rng(43);
  for (const Index size : {600, 60000}) {
    RowMajor<float> logits(5, size);
    for (float& l : logits.reshaped()) l = static_cast<float>(3 * normal(rng));
    Cost nothing, of_entropy, of_sigma, of_min_p, of_top_k, of_top_p;  // as counted on rank 0
    support::rethrow_first(support::on_ranks(4, [&](ThreadRank& rank) {
      const RowMajor<float> mine = logits.middleCols(size / 4 * rank.rank(), size / 4);
      const auto cost = [&](const auto& steps) {
        ChainOverRanks over_ranks(steps, rank);
        over_ranks(mine, size);
        return Cost(over_ranks.exchanges(), over_ranks.numbers_given());
      };
      const std::tuple costs{
          cost(Chain{Temperature{0.7}, DynamicTemperature{0.7, 0}, TopK{0}, TopP{1}, MinP{0}, TopNSigma{0}}),
          cost(DynamicTemperature{0.7, 0.2}),
          cost(TopNSigma{1}),
          cost(MinP{0.05}),
          cost(TopK{40}),
          cost(TopP{0.9})};
      if (rank.rank() == 0) std::tie(nothing, of_entropy, of_sigma, of_min_p, of_top_k, of_top_p) = costs;
    }));
    CHECK(nothing == Cost(0, 0));
    CHECK(of_entropy == Cost(1, 15));
    CHECK(of_sigma == Cost(1, 20));
    CHECK(of_min_p == Cost(1, 5));
    CHECK(of_top_k.first <= 3);
    CHECK(of_top_k.second <= 5 * (2 + 2 * 18));
    CHECK(of_top_p.first <= 5);
    CHECK(of_top_p.second <= 5 * (3 + 4 * 18));
  }
}

TEST_CASE("a NaN or infinite logit on one rank is an error on all ranks") {
  std::mt19937_64 rng(44);
  const RowMajor<float> good = many_rows<float>(40, rng);
  const auto message = [&](const RowMajor<float>& logits, const auto& steps) {
    std::string first;
    for (const auto& error : support::on_ranks(2, [&](ThreadRank& rank) {
           const RowMajor<float> mine = logits.middleCols(20 * rank.rank(), 20);
           ChainOverRanks over_ranks(steps, rank);
           const auto columns = over_ranks(mine, 40);
           for (Index i = 0; i < 4; ++i) columns.row(i);
         })) {
      REQUIRE(error);
      const std::string text =
          support::message_of<InvalidDistribution>([&] { std::rethrow_exception(error); });
      CHECK((first.empty() || text == first));
      first = text;
    }
    return first;
  };
  const auto check = [&](const auto& steps) {
    for (const double wrong : {std::numeric_limits<double>::quiet_NaN(), infinity}) {
      RowMajor<float> bad = good;
      bad(1, 30) = static_cast<float>(wrong);
      CHECK(message(bad, steps).find("rank 1 has a logit in row 1 that is nan or inf") != std::string::npos);
    }
  };
  check(Chain{MinP{0.1}});
  check(Chain{DynamicTemperature{1, 0.5}});
  check(Chain{TopP{0.5}});
}

TEST_CASE("a row without a finite logit on any rank stays a dead end, and the others are cut") {
  std::mt19937_64 rng(45);
  const RowMajor<float> good = many_rows<float>(40, rng);
  RowMajor<float> logits = good;
  logits.row(3).setConstant(static_cast<float>(-infinity));
  const auto check = [&](const auto& steps) {
    support::rethrow_first(support::on_ranks(2, [&](ThreadRank& rank) {
      const RowMajor<float> mine = logits.middleCols(20 * rank.rank(), 20),
                            whole = good.middleCols(20 * rank.rank(), 20);
      ChainOverRanks over_ranks(steps, rank), of_good(steps, rank);
      const auto columns = over_ranks(mine, 40);
      const auto expected = of_good(whole, 40);
      if (!specdec::detail::is_dead_end(columns.row(3))) throw std::logic_error("row 3 is no dead end");
      for (const Index i : {0, 1, 2})
        if (columns.row(i).cut() != expected.row(i).cut())
          throw std::logic_error("another row is cut otherwise");
    }));
  };
  check(Chain{MinP{0.1}});
  check(Chain{TopP{0.5}});
  check(Chain{TopK{3}});
  check(Chain{DynamicTemperature{1, 0.5}});
  check(Chain{TopNSigma{1}});
  check(Chain{MinKeep{2, TopP{0.5}}});
  check(Chain{TopP{0.5}, MinP{0.1}, TopK{3}});
}

}  // namespace test_sample_chain_over_ranks
