// GatheredRows: rows of several calls, each in the place that the caller asked for.
#include "specdec/model/gathered_rows.hpp"

#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace test_model_gathered_rows {

using namespace specdec;

namespace {

constexpr Index vocab_size = 3;

// Rows that are certain of their number, in memory of their own for each call.
struct Certain {
  std::vector<std::vector<Token>> ids;
  std::vector<double> one{1};
  std::vector<SparseRow<double>> rows;

  explicit Certain(std::vector<Token> tokens) {
    ids.reserve(tokens.size());
    for (const Token x : tokens) rows.emplace_back(ids.emplace_back(1, x), one, vocab_size);
  }
  RowSpan<SparseRow<double>> view() const { return RowSpan(rows, vocab_size); }
};

}  // namespace

TEST_CASE("rows of several calls are gathered in the places that were asked for, and outlive the calls") {
  specdec::detail::GatheredRows<RowSpan<SparseRow<double>>> gathered;
  for (int round = 0; round < 2; ++round) {  // memory is used again
    gathered.begin(3, vocab_size);
    {
      const Certain first({2, 0}), second({1});
      const auto of_first = gathered.checked(first.view(), 2), of_second = gathered.checked(second.view(), 1);
      gathered.put(2, of_first, 0);
      gathered.put(0, of_first, 1);
      gathered.put(1, of_second, 0);
    }
    const auto all = gathered.all();
    REQUIRE(all.rows() == 3);
    for (Token x = 0; x < 3; ++x) CHECK(all.row(x).probability(x) == 1);
  }
}

TEST_CASE("numbers of several calls are gathered in the places that were asked for") {
  specdec::detail::GatheredRows<Eigen::MatrixXf> gathered;
  gathered.begin(2, 2);
  {
    const Eigen::MatrixXf first = Eigen::RowVector2f(3, 4), second = Eigen::RowVector2f(1, 2);
    gathered.put(1, gathered.checked(first, 1), 0);
    gathered.put(0, gathered.checked(second, 1), 0);
  }
  CHECK(gathered.all() == (Eigen::MatrixXf(2, 2) << 1, 2, 3, 4).finished());
  gathered.begin(1, 2);
  CHECK(gathered.all().rows() == 1);
  const Eigen::MatrixXf wide = Eigen::MatrixXf::Zero(1, 3);
  CHECK_THROWS_AS(gathered.checked(wide, 1), std::invalid_argument);
  CHECK_THROWS_AS(gathered.checked(wide, 2), std::invalid_argument);
}

}  // namespace test_model_gathered_rows
