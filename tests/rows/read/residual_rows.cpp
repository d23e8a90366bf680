// What is left of a row after multiples of other rows are subtracted: for rows of all kinds, in one piece and over
// ranks.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/lists.hpp"
#include "support/message_of.hpp"
#include "support/shards.hpp"
#include "support/thread_ranks.hpp"

namespace test_rows_residual_rows {

using namespace specdec;
using specdec::detail::all_of_it;
using specdec::detail::hardly_any_left;
using specdec::detail::little_left;
using specdec::detail::RoughResidualRow;
using specdec::detail::SumOfRows;
using support::RowMajor;
using support::ThreadRank;

namespace {

// Two rows and a token.
template <class R>
struct Taken {
  R first, second;
  double b_first, b_second;
  Token token;

  void each(const auto& visit) const {
    visit(b_first, first);
    visit(all_of_it, OneHotRow(token));
    visit(b_second, second);
  }
};

// All of token 1, three times.
struct ThreeTimes {
  void each(const auto& visit) const {
    for (int k = 0; k < 3; ++k) visit(all_of_it, OneHotRow(1));
  }
};

struct Input {
  RowMajor<double> p, q;  // a row, and the two rows that are subtracted from it
  double b_first = 0.5, b_second = 0.25;
  Token token = 0;

  Input(Index size, std::mt19937_64& rng)
      : p(support::random_rows(1, size, rng)), q(support::random_rows(2, size, rng)) {
    p.row(0).maxCoeff(&token);
  }

  Eigen::ArrayXd left() const {
    Eigen::ArrayXd left = (p.row(0) - b_first * q.row(0) - b_second * q.row(1)).array().max(0).transpose();
    left[token] = 0;
    return left;
  }
  auto taken() const {
    const DenseRows rows(q);
    return Taken<RowOf<DenseRows<decltype(numbers(q))>>>{rows.row(0), rows.row(1), b_first, b_second, token};
  }
};

// Subtracts so much that only this share of the row is left.
void take_all_but(double share, Input& in) {
  in.q.row(0) = in.p.row(0);
  in.b_first = 1 - share;
  in.b_second = 0;
}

// What is left of p, with a mass that may be given.
auto rest_of(const auto& p, const auto& taken, auto... mass) {
  return RoughResidualRow(1.0, p, 1.0, SumOfRows(taken), mass...);
}

void check_row(const auto& row, const Eigen::ArrayXd& expected) {
  const Index size = expected.size();
  for (Token x = 0; x < size; ++x) CHECK(row.probability(x) == Approx(expected[x]).margin(1e-14));
  CHECK(row.sum(0, size) == Approx(1));
  CHECK(row.sum(1, size - 3) == Approx(expected.segment(1, size - 3).sum()).margin(1e-14));
}

// The tokens drawn with ascending numbers, to compare with the sums of the probabilities.
std::vector<Token> drawn(auto sampler) {
  std::vector<Token> tokens;
  for (int k = 0; k < 200; ++k) tokens.push_back(sampler((k + 0.5) / 200));
  return tokens;
}
std::vector<Token> drawn_of(const Eigen::ArrayXd& probabilities) {
  std::vector<Token> tokens;
  double below = probabilities[0];
  Token x = 0;
  for (int k = 0; k < 200; ++k) {
    while ((k + 0.5) / 200 >= below) below += probabilities[++x];
    tokens.push_back(x);
  }
  return tokens;
}

}  // namespace

TEST_CASE(
    "a residual of several rows is a row: its look-ups, sums and draws agree, for dense rows and lists") {
  std::mt19937_64 rng(61);
  for (const Index size : {6, 40, 2500}) {
    const Input in(size, rng);
    const Eigen::ArrayXd left = in.left(), expected = left / left.sum();
    const support::Lists lists(in.p);
    const auto row = rest_of(DenseRows(in.p).row(0), in.taken(), left.sum());
    const auto list = rest_of(lists.view().row(0), in.taken(), left.sum());
    static_assert(ListedRow<decltype(list)> && !ListedRow<decltype(row)>);
    check_row(row, expected);
    check_row(list, expected);
    CHECK(rest_of(DenseRows(in.p).row(0), in.taken()).mass() == Approx(left.sum()));
    CHECK(rest_of(lists.view().row(0), in.taken()).mass() == Approx(left.sum()));
    CHECK(row.left(in.token, in.p(0, in.token)) == 0);
    const Index count = std::min<Index>(size - 1, max_segment_size);
    CHECK((row.segment(1, count) - expected.segment(1, count)).abs().maxCoeff() < 1e-14);
    CHECK(drawn(row.sampler()) == drawn_of(expected));
    CHECK(drawn(list.sampler()) == drawn_of(expected));
  }
}

TEST_CASE(
    "over ranks a residual of several rows is drawn from with one number as in one piece, however little is "
    "left") {
  std::mt19937_64 rng(62);
  for (int n = 0; n < 12; ++n) {
    Input in(8 + n, rng);
    if (n % 2 == 0) take_all_but(n % 4 == 0 ? little_left / 8 : hardly_any_left / 8, in);
    const Eigen::ArrayXd left = in.left(), expected = left / left.sum();
    support::rethrow_first(support::on_ranks(1 + n % 4, [&](ThreadRank& rank) {
      const support::Columns mine = support::columns_of(rank, in.p.cols());
      const RowMajor<double> p = support::part(in.p, mine);
      Shards shards(p, mine.first, in.p.cols(), rank);
      const auto row = rest_of(shards.rows().row(0), in.taken(), left.sum());
      for (Token x = 0; x < in.p.cols(); ++x)
        if (!(std::abs(row.probability(x) - expected[x]) < 1e-10))
          throw std::logic_error("another probability than in one piece");
      if (!(std::abs(row.sum(2, 5) - expected.segment(2, 5).sum()) < 1e-10))
        throw std::logic_error("another sum than in one piece");
      if (drawn(row.sampler()) != drawn_of(expected)) throw std::logic_error("other draws than in one piece");
    }));
  }
}

TEST_CASE("over float logits, mass that is left of a row is some token's, and is drawn") {
  std::mt19937_64 rng(63);
  std::normal_distribution<float> normal;
  int with_mass = 0, without = 0;
  for (int n = 0; n < 400; ++n) {
    // The rows are nearly equal, so rounding decides what is left. Segments and look-ups are rounded differently.
    RowMajor<float> logits(2, 2 + n % 7);
    for (float& l : logits.reshaped()) l = 2 * normal(rng);
    logits.row(1) = logits.row(0);
    logits(1, 0) += (n % 2 == 0 ? 1e-6f : 1e-3f) * normal(rng);
    const Chain plain{Temperature{1.0}};
    const ProcessedRows rows(logits, plain);
    const auto p = rows.row(0), q = rows.row(1);
    const auto check = [&](const auto& row, double mass) {
      double sum = 0;
      for (Token x = 0; x < row.vocab_size(); ++x) sum += row.probability(x);
      if (mass > 0) {
        CHECK(sum == Approx(1).epsilon(0.02));
        for (const double u : {0.0, 0.4, 0.9}) CHECK(row.probability(row.sampler()(u)) > 0);
      } else {
        CHECK_FALSE(sum > 0);
      }
      ++(mass > 0 ? with_mass : without);
    };
    const double b = 1 + (n % 3) * 1e-5;
    const ResidualRow residual(1.0, p, b, q);
    check(residual, residual.mass());
    const Taken<std::remove_cvref_t<decltype(q)>> half_each{q, q, b / 2, b / 2, 0};
    const double left = rest_of(p, half_each).mass();
    check(rest_of(p, half_each, left), left);
  }
  CHECK(with_mass > 100);
  CHECK(without > 100);
}

TEST_CASE("tokens of which several coefficients take all have no mass left") {
  const RowMajor<double> p = RowMajor<double>::Constant(1, 4, 0.25);
  const auto row = rest_of(DenseRows(p).row(0), ThreeTimes{});
  CHECK(row.mass() == Approx(0.75));
  CHECK(row.probability(1) == 0);
  CHECK(row.probability(2) == Approx(1.0 / 3));
}

TEST_CASE("if nothing is left of a row, the row itself is drawn from; NaN is an error") {
  const RowMajor<double> p = RowMajor<double>::Constant(1, 4, 0.25);
  RowMajor<double> q = RowMajor<double>::Constant(2, 4, 0.5);
  const DenseRows rows(q);
  const Taken<RowOf<decltype(rows)>> all{rows.row(0), rows.row(1), 1, 1, 0};
  CHECK(drawn(rest_of(DenseRows(p).row(0), all, 1e-17).sampler()) ==
        drawn_of(Eigen::ArrayXd::Constant(4, 0.25)));
  q(0, 1) = std::nan("");
  CHECK(support::message_of<InvalidDistribution>([&] {
          rest_of(DenseRows(p).row(0), all);
        }).find("the residual of target and draft sums to nan") != std::string::npos);
}

}  // namespace test_rows_residual_rows
