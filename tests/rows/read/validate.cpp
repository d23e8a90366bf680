// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <limits>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_validate {

using namespace specdec;
using support::message_of;

TEST_CASE("validate accepts distributions and names other rows") {
  Eigen::MatrixXd m(3, 2);
  m << 0.5, 0.5, 1, 0, 0.25, 0.75;
  CHECK_NOTHROW(validate(m));
  CHECK_NOTHROW(validate(m.topRows(2)));
  CHECK_NOTHROW(validate(Eigen::MatrixXd(0, 2)));
  m(2, 1) = 0.7;
  CHECK(message_of([&] { validate(m, "target"); }) == "specdec: target row 2: the probabilities sum to 0.95");
  CHECK_NOTHROW(validate(m, "target", 0.1));
  m(1, 1) = -0.125;
  CHECK(message_of([&] { validate(m, "draft"); }) ==
        "specdec: draft row 1: the probability of token 1 is -0.125");
  m(0, 0) = std::numeric_limits<double>::quiet_NaN();
  CHECK(message_of([&] { validate(m); }) ==
        "specdec: probabilities row 0: the probability of token 0 is nan");
  m.setZero();
  CHECK_THROWS_AS(validate(m), InvalidDistribution);
}

TEST_CASE("rows may be off by rounding, and not by more") {
  Eigen::RowVector2d row(0.5, 0.5);
  const auto accepted = [&](double sum, double tolerance) {
    row[1] = sum - 0.5;
    return message_of([&] { validate(row, "target", tolerance); }).empty();
  };
  const auto accepted_unasked = [&](double sum) {
    row[1] = sum - 0.5;
    return message_of([&] { validate(row); }).empty();
  };
  for (const double sign : {-1.0, 1.0}) {
    CHECK(accepted_unasked(1 + sign * 0.9e-3));
    CHECK_FALSE(accepted_unasked(1 + sign * 1.1e-3));
    CHECK(accepted(1 + sign * 0x1p-10, 0x1p-10));
    CHECK_FALSE(accepted(1 + sign * 0x1p-10, 0x1p-11));
  }
}

namespace {

// The errors about a good matrix, one with NaN, and one with a row without mass.
template <class Layout>
std::vector<std::string> complaints() {
  support::RowMajor<double> m(2, 3);
  m << 0.5, 0.25, 0.25, 0, 0.75, 0.25;
  std::vector<std::string> told;
  const auto complain = [&] {
    Layout layout;
    layout.hold(m);
    told.push_back(
        message_of<InvalidDistribution>([&] { validate(std::as_const(layout).view(), "target"); }));
  };
  complain();
  m(1, 1) = std::numeric_limits<double>::quiet_NaN();
  complain();
  m.row(1).setZero();
  complain();
  return told;
}

}  // namespace

TEST_CASE("validate looks at every kind of row") {
  for (const auto& told :
       {complaints<support::AsColMajor<double>>(), complaints<support::AsNarrow<Eigen::bfloat16>>(),
        complaints<support::AsLogits<double>>(), complaints<support::AsNormalisedLogits<double>>(),
        complaints<support::AsSparse<double>>()}) {
    CHECK(told[0].empty());
    CHECK(told[1].starts_with("specdec: target row 1: "));
    CHECK(told[2].starts_with("specdec: target row 1: "));
  }
}

TEST_CASE("validate finds a log-sum-exp that does not belong to its row") {
  const Eigen::MatrixXd logits = Eigen::MatrixXd::Zero(2, 4);
  const std::vector<double> good{std::log(4.0), std::log(4.0)}, bad{std::log(4.0), std::log(5.0)};
  CHECK_NOTHROW(validate(Logits{logits, {.log_sum_exp = good}}));
  CHECK(message_of([&] {
          validate(Logits{logits, {.log_sum_exp = bad}});
        }) == "specdec: probabilities row 1: the probabilities sum to 0.8");
}

TEST_CASE("validate names ids that do not ascend or lie outside the vocabulary") {
  const auto complaint = []<class Id>(const std::vector<Id>& ids) {
    const std::vector<double> p{0.5, 0, 0.5};
    const std::vector<SparseRow<double, Id>> rows{{ids, p, 8}};
    return message_of<InvalidDistribution>([&] { validate(RowSpan(rows, 8), "draft"); });
  };
  CHECK(complaint(std::vector<Token>{0, 3, 7}).empty());
  CHECK(complaint(std::vector<Token>{3, 0, 7}) ==
        "specdec: draft row 0: the ids of a sparse row do not ascend: ids[1] = 0, after ids[0] = 3");
  CHECK(complaint(std::vector<Token>{3, 3, 7}) ==
        "specdec: draft row 0: the ids of a sparse row do not ascend: ids[1] = 3, after ids[0] = 3");
  CHECK(complaint(std::vector<Token>{-1, 3, 7}) ==
        "specdec: draft row 0: id -1 is outside the vocabulary 0..7");
  CHECK(complaint(std::vector<Token>{0, 3, 8}) ==
        "specdec: draft row 0: id 8 is outside the vocabulary 0..7");
  constexpr std::int64_t beyond = std::int64_t{1} << 32;
  CHECK(complaint(std::vector<std::int64_t>{0, 3, 7}).empty());
  CHECK(complaint(std::vector<std::int64_t>{0, beyond + 3, beyond + 7}) ==
        "specdec: draft row 0: id 2147483647 is outside the vocabulary 0..7");
}

TEST_CASE("validate names a row with another vocabulary than its matrix") {
  const std::vector<Token> ids{1};
  const std::vector<double> certain{1};
  const std::vector<SparseRow<double>> rows{{ids, certain, 5}, {ids, certain, 4}};
  CHECK(message_of([&] { validate(RowSpan(rows, 5)); }) ==
        "specdec: probabilities row 1: a vocabulary of 4, where the matrix has one of 5");
}

TEST_CASE("validate tolerates the rounding of narrow scalars") {
  const auto uniform = []<class S>(S, Index size, double factor) {
    support::RowMajor<S> row(1, size);
    row.setConstant(static_cast<S>(static_cast<float>(factor / static_cast<double>(size))));
    return message_of([&] { validate(row); });
  };
  // 1/V is rounded to a multiple of 2^-24, so it is off by up to 2^-25.
  CHECK(uniform(Eigen::half(), 338'900, 1).empty());
  CHECK(uniform(Eigen::half(), 1'000'000, 1).empty());
  CHECK(uniform(Eigen::bfloat16(), 3, 1).empty());  // 0.334 three times
  CHECK(uniform(Eigen::half(), 1000, 1.003) != "");
  CHECK(uniform(Eigen::bfloat16(), 4, 1.004) != "");
  CHECK(uniform(0.0f, 1'000'000, 1).empty());
  CHECK(uniform(0.0f, 1'000, 1.002) != "");
}

TEST_CASE("an invalid tolerance is named, not the rows") {
  const Eigen::RowVector2d row(0.5, 0.5);
  CHECK(message_of([&] { validate(row, "target", std::numeric_limits<double>::quiet_NaN()); }) ==
        "specdec: tolerance = nan is no number >= 0");
  CHECK(message_of([&] { validate(row, "target", -1); }) == "specdec: tolerance = -1 is no number >= 0");
}

}  // namespace test_rows_validate
