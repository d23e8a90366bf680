// Which objects views may refer to. All views refuse an object that would be gone before they are used.
// SPDX-License-Identifier: MIT
#include <array>
#include <span>
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace test_rows_owning_temporary {

using namespace specdec;
using detail::OwningTemporary;

TEST_CASE("a temporary owns what it holds unless it is a view") {
  CHECK(OwningTemporary<std::vector<Token>>);
  CHECK(OwningTemporary<const std::vector<Token>>);
  CHECK(OwningTemporary<std::array<float, 3>>);
  CHECK(OwningTemporary<Eigen::MatrixXf>);
  CHECK(OwningTemporary<Eigen::RowVectorXd>);
  CHECK(OwningTemporary<Eigen::Ref<const Eigen::MatrixXf>>);  // a Ref may hold a copy
  CHECK_FALSE(OwningTemporary<std::span<const Token>>);
  CHECK_FALSE(OwningTemporary<std::string_view>);
  CHECK_FALSE(OwningTemporary<Eigen::Map<const Eigen::MatrixXf>>);
  CHECK_FALSE(OwningTemporary<Eigen::Map<Eigen::RowVectorXf>>);
  CHECK_FALSE(OwningTemporary<Eigen::Ref<Eigen::MatrixXf>>);
  CHECK_FALSE(OwningTemporary<Eigen::Block<Eigen::MatrixXf>>);
  CHECK_FALSE(OwningTemporary<RowPointers<float>>);
  CHECK_FALSE(OwningTemporary<TokenIds>);
}

TEST_CASE("an object with a name is not a temporary") {
  CHECK_FALSE(OwningTemporary<std::vector<Token>&>);
  CHECK_FALSE(OwningTemporary<const std::vector<Token>&>);
  CHECK_FALSE(OwningTemporary<const Eigen::MatrixXf&>);
  CHECK_FALSE(OwningTemporary<const Eigen::Ref<const Eigen::MatrixXf>&>);
}

TEST_CASE("views of lists take named containers and spans, but no temporary containers") {
  using Tokens = std::vector<Token>;
  using Weights = std::vector<float>;
  using Pointers = std::vector<const float*>;
  using Row = SparseRow<float>;
  using Drawn = SampledRows<DenseRows<NumbersOf<Eigen::MatrixXf>>>;
  CHECK(std::is_constructible_v<OneHotRows, const Tokens&>);
  CHECK(std::is_constructible_v<OneHotRows, std::span<const Token>>);
  CHECK(std::is_constructible_v<OneHotRows, TokenIds>);
  CHECK_FALSE(std::is_constructible_v<OneHotRows, Tokens>);
  CHECK(std::is_constructible_v<RowPointers<float>, Pointers&, Index>);
  CHECK(std::is_constructible_v<RowPointers<float>, std::span<const float* const>, Index>);
  CHECK_FALSE(std::is_constructible_v<RowPointers<float>, Pointers, Index>);
  CHECK_FALSE(std::is_constructible_v<RowPointers<float>, Pointers, Index, Index>);
  CHECK(std::is_constructible_v<RowSpan<Row>, const std::vector<Row>&, Index>);
  CHECK(std::is_constructible_v<RowSpan<Row>, std::span<const Row>, Index>);
  CHECK_FALSE(std::is_constructible_v<RowSpan<Row>, std::vector<Row>, Index>);
  CHECK(std::is_constructible_v<Drawn, const Eigen::MatrixXf&, const Tokens&>);
  CHECK_FALSE(std::is_constructible_v<Drawn, const Eigen::MatrixXf&, Tokens>);
  CHECK(std::is_constructible_v<Row, const Tokens&, std::span<const float>, Index>);
  CHECK_FALSE(std::is_constructible_v<Row, Tokens, const Weights&, Index>);
  CHECK_FALSE(std::is_constructible_v<Row, const Tokens&, Weights, Index>);
}

}  // namespace test_rows_owning_temporary
