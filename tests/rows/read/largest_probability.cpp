// Oracle: the definition, token by token.
// SPDX-License-Identifier: MIT
#include <specdec/rows/read/largest_probability.hpp>

#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_largest_probability {

using namespace specdec;
using namespace support;
using specdec::detail::largest_probability;

namespace {

template <class R>
using Part = PartOfRow<R, WithoutTokens>;

// Rows of this type have neither argmax() nor largest_probability().
struct Nothing {
  void each(const auto&) const {}
};
template <class R>
using Whole = specdec::detail::RoughResidualRow<R, specdec::detail::SumOfRows<Nothing>>;
static_assert(!ArgmaxRow<Whole<DenseRow<double>>>);

template <class Layout>
void check(const RowMajor<double>& p, Token best) {
  Layout layout;
  layout.hold(p.cast<typename Layout::Scalar>());
  const auto row = distributions(std::as_const(layout).view()).row(0);
  using Row = std::remove_cvref_t<decltype(row)>;
  const specdec::detail::SumOfRows nothing{Nothing{}};
  CHECK(largest_probability(row) == Approx(p(0, best)).epsilon(1e-5));
  CHECK(largest_probability(Whole<Row>(1.0, row, 1.0, nothing, 1.0)) == Approx(p(0, best)).epsilon(1e-5));
  RowMajor<double> rest = p;
  rest(0, best) = 0;
  const std::vector<Token> gone{best};
  CHECK(largest_probability(Part<Row>(row, {gone})) == Approx(rest.maxCoeff() / rest.sum()).epsilon(1e-5));
}

}  // namespace

TEST_CASE("the largest probability is found in rows of any kind, with an argmax or without") {
  std::mt19937_64 rng{1};
  for (const Index vocab_size : {2, 7, 1024, 1025, 3000})
    for (const Index best : {Index{0}, vocab_size / 2, vocab_size - 1}) {
      RowMajor<double> p(1, vocab_size);
      for (Index x = 0; x < vocab_size; ++x) p(0, x) = uniform01(rng);
      p(0, best) = 2;
      p /= p.sum();
      check<AsRowMajor<double>>(p, static_cast<Token>(best));
      check<AsSparse<double>>(p, static_cast<Token>(best));
      check<AsLogits<float>>(p, static_cast<Token>(best));
    }
}

TEST_CASE("one of several kinds of rows is asked for its largest probability") {
  using Either = VariantRow<Part<DenseRow<double>>, OneHotRow>;
  const std::vector<double> p{0.5, 0.125, 0.375};
  const std::vector<Token> gone{0};
  const DenseRow<double> row(p.data(), 3);
  CHECK(largest_probability(Either(std::in_place_index<0>, Part<DenseRow<double>>(row, {gone}))) == 0.75);
  CHECK(largest_probability(Either(std::in_place_index<1>, OneHotRow(2))) == 1);
}

namespace {

// Answers for one token at a time.
struct PlainRow {
  std::vector<double> p;

  Index vocab_size() const { return std::ssize(p); }
  double probability(Token x) const { return p[static_cast<std::size_t>(x)]; }
  auto sampler() const {
    return [](double) { return Token{0}; };
  }
};

// Says wrongly that the first token is the most probable.
struct FirstRow : PlainRow {
  Token argmax() const { return 0; }
};

}  // namespace

TEST_CASE("a row without a largest probability is an error") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto complaint = [](const auto& row) {
    return message_of<InvalidDistribution>([&] { largest_probability(row); });
  };
  CHECK(complaint(PlainRow{{0.75, nan}}) == "the probability of token 1 is nan");
  CHECK(complaint(PlainRow{{0.75, 0.375, -0.125}}) == "the probability of token 2 is -0.125");
  CHECK(complaint(PlainRow{{0, 0}}) == "no token has positive probability");
  CHECK(complaint(FirstRow{{{nan, 1}}}) == "the probability of token 0 is nan");
  CHECK(largest_probability(FirstRow{{{0.25, 0.75}}}) == 0.25);  // the rest is not read
}

}  // namespace test_rows_largest_probability
