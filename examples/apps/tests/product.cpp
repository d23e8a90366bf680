// Products of weights and vectors are Eigen's up to rounding. A vector's product is the same to the bit, alone or with others.
// This file is also compiled for the machine that builds it, whose registers may be wider.
// SPDX-License-Identifier: MIT
#include "transformer/product.hpp"

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "transformer/panels.hpp"

namespace test_examples_product {

using Eigen::Index;
using transformer::Panels;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

namespace {

double largest(const Eigen::ArrayXXd& numbers) { return numbers.abs().maxCoeff(); }

bool finite_half(std::uint32_t bits) { return (bits >> 10 & 31) != 31; }

// The number that a finite half stands for.
float value_of_half(std::uint32_t bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  const double size = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25);
  return static_cast<float>(bits >> 15 != 0 ? -size : size);
}

}  // namespace

TEMPLATE_TEST_CASE("product: W x for all numbers of rows, columns and vectors", "", float, Eigen::half) {
  std::mt19937 rng{1};
  std::uniform_real_distribution<float> uniform{-1, 1};
  const auto random = [&] { return uniform(rng); };
  int products = 0;
  for (const Index rows : {1, 16, 17, 50, 64, 80})
    for (const Index cols : {1, 7, 300, 2100})  // 2100: more than the cache holds at a time
      for (const Index count : {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 17, 40}) {
        if (products++ % support::every(7) != 0) continue;
        const RowMajor w =
            RowMajor::NullaryExpr(rows, cols, random).template cast<TestType>().template cast<float>();
        const Eigen::MatrixXf x = Eigen::MatrixXf::NullaryExpr(cols + 3, count, random);
        Panels<TestType> panels(rows, cols);
        panels.set_rows(0, w);
        Eigen::ArrayXXf y = Eigen::ArrayXXf::Constant(panels.view().panels * 16 + 16, count, 5);
        transformer::product(panels.view(), {x.data(), count, x.rows()}, y.data(), y.rows());
        const Eigen::MatrixXd expected = w.cast<double>() * x.topRows(cols).cast<double>();
        const double rounding = 1e-6 + 1e-7 * static_cast<double>(cols);
        INFO(rows << " rows, " << cols << " columns, " << count << " vectors");
        CHECK(largest(y.topRows(rows).cast<double>() - expected.array()) <= rounding);
        CHECK((y.bottomRows(16) == 5).all());  // not written to
        for (Index i = 0; i < count; ++i) {    // the result of one vector alone, to the bit
          Eigen::ArrayXf alone = Eigen::ArrayXf::Zero(y.rows() - 16);
          transformer::product(panels.view(), {&x(0, i), 1, 0}, alone.data(), alone.size());
          CHECK((alone == y.col(i).head(alone.size())).all());
        }
        const Eigen::ArrayXXf once = y;
        transformer::add_product(panels.view(), {x.data(), count, x.rows()}, y.data(), y.rows());
        CHECK(largest((y - 2 * once).topRows(rows).cast<double>()) <= 2 * rounding);
      }
}

TEST_CASE("product: a corner of a matrix, and nothing beyond") {
  for (const Index cols : {9, 1500}) {  // 1500: the cache holds two panels at a time
    const RowMajor w = RowMajor::Random(150, cols + 21);
    const Eigen::MatrixXf x = Eigen::MatrixXf::Random(cols + 21, 41);
    Panels<float> panels(w.rows(), w.cols());
    panels.set_rows(0, w);
    Eigen::ArrayXXf y = Eigen::ArrayXXf::Constant(128, 41, 5);
    transformer::product(panels.block(0, 76, 0, cols), {x.data(), 41, x.rows()}, y.data(), y.rows());
    CHECK(y.topRows(76).matrix().isApprox(w.topLeftCorner(76, cols) * x.topRows(cols), 1e-5f));
    CHECK((y.bottomRows(128 - 80) == 5).all());
  }
}

TEST_CASE("product: every finite half is the float that it stands for") {
  Panels<Eigen::half> panels(1 << 16, 1);
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits)
    if (finite_half(bits))
      panels(static_cast<Index>(bits), 0) = std::bit_cast<Eigen::half>(static_cast<std::uint16_t>(bits));
  const Eigen::ArrayXXf x = Eigen::ArrayXXf::Ones(1, 3);
  Eigen::ArrayXXf y(1 << 16, 3);
  transformer::product(panels.view(), {x.data(), 3, 1}, y.data(), y.rows());
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 1u << 16; ++bits)
    if (finite_half(bits) && !(y.row(static_cast<Index>(bits)) == value_of_half(bits)).all()) ++wrong;
  CHECK(wrong == 0);
}

TEST_CASE("Panels: rows as they were set") {
  RowMajor w = RowMajor::Random(37, 5);
  Panels<float> panels(40, 5);
  panels.set_rows(3, w);
  for (Index i = 0; i < 37; ++i) CHECK((panels.row(i + 3) == w.row(i).array()).all());
  for (Index i = 0; i < 3; ++i) CHECK((panels.row(i) == 0).all());
}

}  // namespace test_examples_product
