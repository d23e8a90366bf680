// Rows kept longer than the memory that they were read from.
// SPDX-License-Identifier: MIT
#include <specdec/rows/kinds/dense.hpp>
#include <specdec/rows/kinds/stored_rows.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace test_rows_stored_rows {

using namespace specdec;

using Row = DenseRow<double>;
static_assert(std::is_same_v<StoredRows<DenseRow<double, Eigen::Dynamic>, false>::Stored, Row>,
              "a copy is packed");
static_assert(std::is_same_v<StoredRows<DenseRow<double, Eigen::Dynamic>, true>::Stored,
                             DenseRow<double, Eigen::Dynamic>>);

namespace {

template <bool stable>
void add(StoredRows<Row, stable>& rows, const std::vector<double>& numbers) {
  rows.add(Row(numbers.data(), std::ssize(numbers)));
}

}  // namespace

TEST_CASE("stored rows are copies that outlive their originals") {
  StoredRows<Row, false> rows;
  for (int round = 0; round < 3; ++round) {  // clear() lets their memory be reused
    std::vector<double> numbers{0.5, 0.25, 0.25};
    add(rows, numbers);
    numbers = {0, 0, 1};
    add(rows, numbers);
    numbers = {9, 9, 9};
    REQUIRE(rows.size() == 2);
    CHECK(rows[0].probability(0) == 0.5);
    CHECK(rows[1].probability(2) == 1);
    const auto first = rows.first(1, 3);
    CHECK(first.rows() == 1);
    CHECK(first.vocab_size() == 3);
    CHECK(first.row(0).probability(1) == 0.25);
    rows.clear();
    CHECK(rows.size() == 0);
  }
  // More rows than before, and rows of other lengths.
  for (int n = 1; n <= 40; ++n) add(rows, std::vector<double>(static_cast<std::size_t>(n), 1.0 / n));
  for (Index n = 1; n <= 40; ++n) {
    REQUIRE(rows[n - 1].vocab_size() == n);
    CHECK(rows[n - 1].probability(static_cast<Token>(n - 1)) == 1.0 / static_cast<double>(n));
  }
}

TEST_CASE("stable rows are kept without a copy") {
  StoredRows<Row, true> rows;
  std::vector<double> numbers{0.5, 0.5};
  add(rows, numbers);
  numbers[0] = 0.75;
  CHECK(rows[0].probability(0) == 0.75);
  CHECK(rows.first(1, 2).row(0).probability(0) == 0.75);
}

TEST_CASE(
    "a copied container of stored rows is empty, as its rows would be views of the original's; a move keeps "
    "them") {
  StoredRows<Row, false> rows;
  add(rows, {0.25, 0.75});
  const auto copy = rows;
  CHECK(copy.size() == 0);
  const auto moved = std::move(rows);
  CHECK(moved.size() == 1);
  CHECK(moved[0].probability(1) == 0.75);
  rows = moved;
  CHECK(rows.size() == 0);
  add(rows, {0.5, 0.5});
  CHECK(rows[0].probability(1) == 0.5);
}

TEST_CASE("rows that are added with a place stand there, and outlive what they were copied from") {
  StoredRows<Row, false> rows;
  for (int round = 0; round < 2; ++round) {  // memory is used again
    rows.clear();
    std::vector<double> numbers{0, 0, 1};
    rows.add(Row(numbers.data(), 3), 2);
    numbers = {1, 0, 0};
    rows.add(Row(numbers.data(), 3), 0);
    numbers = {0, 1, 0};
    rows.add(Row(numbers.data(), 3), 1);
    numbers = {9, 9, 9};
    const auto all = rows.in_places(3);
    REQUIRE(all.rows() == 3);
    CHECK(all.vocab_size() == 3);
    for (Token x = 0; x < 3; ++x) CHECK(all.row(x).probability(x) == 1);
  }
  rows.clear();
  CHECK(rows.in_places(3).rows() == 0);
}

TEST_CASE("numbers are stored as they lie, and are a matrix of numbers") {
  StoredRows<NumberRow<Eigen::half, Eigen::Dynamic>, false> rows;
  Eigen::Matrix<Eigen::half, 2, 2> numbers;  // column-major: a row's numbers lie apart
  numbers << Eigen::half(3), Eigen::half(4), Eigen::half(1), Eigen::half(2);
  for (Index i = 0; i < 2; ++i) rows.add(specdec::numbers(numbers).row(i), 1 - i);
  numbers.setZero();
  const auto all = rows.in_places(2);
  static_assert(NumberMatrix<decltype(all)> && std::is_same_v<RowOf<decltype(all)>, NumberRow<Eigen::half>>);
  REQUIRE(all.rows() == 2);
  CHECK(all.cols() == 2);
  for (Index i = 0; i < 4; ++i) CHECK(all.row(i / 2)[i % 2] == static_cast<float>(i + 1));
  CHECK(rows.first(1, 2).row(0)[1] == 4);
}

}  // namespace test_rows_stored_rows
