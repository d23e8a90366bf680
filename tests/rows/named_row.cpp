// A row that knows its name adds it to error messages, and changes nothing else.
// SPDX-License-Identifier: MIT
#include <functional>
#include <limits>
#include <specdec/rows/kinds/one_hot.hpp>
#include <specdec/rows/named_row.hpp>
#include <specdec/rows/read/residual.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_rows_named_row {

using namespace specdec;
using detail::NamedRow;
using support::message_of;

namespace {

constexpr double NaN = std::numeric_limits<double>::quiet_NaN();

std::string complaint(const std::function<void()>& f) { return message_of<InvalidDistribution>(f); }

}  // namespace

static_assert(ArgmaxRow<NamedRow<DenseRow<float>>> && SummableRow<NamedRow<DenseRow<float>>> &&
              SegmentedRow<NamedRow<DenseRow<float>>> && !ListedRow<NamedRow<DenseRow<float>>>);
static_assert(ListedRow<NamedRow<OneHotRow>> && !SegmentedRow<NamedRow<OneHotRow>>);

TEST_CASE("a named row answers as the row that it names") {
  const Eigen::RowVector4d numbers(0.25, 0, 0.5, 0.25);
  const auto row = distributions(numbers).row(0);
  const NamedRow named(row, "target", 3);
  CHECK(named.vocab_size() == 4);
  for (Token x = 0; x < 4; ++x) {
    CHECK(named.probability(x) == row.probability(x));
    CHECK(named.possible(x) == possible(row, x));
  }
  CHECK(named.argmax() == 2);
  CHECK(named.sum(1, 3) == 0.75);
  CHECK((named.segment(1, 3) == row.segment(1, 3)).all());
  auto draw = named.sampler();
  CHECK(draw(0.3) == 2);
  const OneHotRow certain(5);
  const NamedRow list(certain, "draft", 0);
  CHECK(list.support_size() == 1);
  CHECK(list.support(0) == 5);
  CHECK(list.listed(0) == 1);
}

TEST_CASE("questions about tokens or segments that a row does not have never reach the row itself") {
  const Eigen::RowVector4d numbers(0.25, 0, 0.5, 0.25);
  const auto row = distributions(numbers).row(0);
  const NamedRow named(row, "draft", 3);
  CHECK(named.probability(4) == 0);
  CHECK(named.probability(1'000'000) == 0);
  CHECK_FALSE(named.possible(4));
  CHECK(message_of([&] { named.probability(-1); }) == "specdec: the draft row 3 is asked about token -1");
  CHECK(message_of([&] { named.possible(-2); }) == "specdec: the draft row 3 is asked about token -2");
  CHECK(named.sum(4, 0) == 0);
  for (const auto& [start, count] : {std::pair<Index, Index>{-1, 2}, {0, 5}, {4, 1}, {1, -1}, {5, 0}}) {
    CHECK_FALSE(message_of([&, s = start, c = count] { named.sum(s, c); }).empty());
    CHECK_FALSE(message_of([&, s = start, c = count] { named.segment(s, c); }).empty());
  }
  const OneHotRow certain(5);
  const NamedRow list(certain, "draft", 0);
  for (const Index k : {-1, 1}) {
    CHECK_FALSE(message_of([&] { list.support(k); }).empty());
    CHECK_FALSE(message_of([&] { list.listed(k); }).empty());
  }
}

TEST_CASE("an invalid probability is reported with token, matrix and row") {
  const Eigen::RowVector4d numbers(0.5, NaN, -0.25, std::numeric_limits<double>::infinity());
  const auto row = distributions(numbers).row(0);
  const NamedRow named(row, "target", 7);
  CHECK(named.probability(0) == 0.5);
  CHECK(complaint([&] { named.probability(1); }) ==
        "specdec: target row 7: the probability of token 1 is nan");
  CHECK(complaint([&] { named.probability(2); }) ==
        "specdec: target row 7: the probability of token 2 is -0.25");
  CHECK(complaint([&] { named.probability(3); }) ==
        "specdec: target row 7: the probability of token 3 is inf");
  const std::vector<Token> ids{0, 4};
  const std::vector<double> weights{1, NaN};
  const SparseRow<double> list(ids, weights, 6);
  const NamedRow listed(list, "draft", 2);
  CHECK(listed.listed(0) == 1);
  CHECK(complaint([&] { listed.listed(1); }) == "specdec: draft row 2: the probability of token 4 is nan");
}

namespace {

// Throws at every question.
struct Unreadable {
  Index vocab_size() const { return 3; }
  double probability(Token) const { throw InvalidDistribution("no 1"); }
  Token argmax() const { throw InvalidDistribution("no 2"); }
  Eigen::Array3d segment(Index, Index) const { throw InvalidDistribution("no 3"); }
  double sum(Index, Index) const { throw InvalidDistribution("no 4"); }
  auto sampler() const {
    throw InvalidDistribution("no 5");
    return [](double) { return Token{0}; };
  }
};

}  // namespace

TEST_CASE("a row's own error gets the row's name, once") {
  const Unreadable row;
  const NamedRow named(row, "draft", 1);
  CHECK(complaint([&] { named.probability(0); }) == "specdec: draft row 1: no 1");
  CHECK(complaint([&] { named.possible(0); }) == "specdec: draft row 1: no 1");
  CHECK(complaint([&] { named.argmax(); }) == "specdec: draft row 1: no 2");
  CHECK(complaint([&] { named.segment(0, 3); }) == "specdec: draft row 1: no 3");
  CHECK(complaint([&] { named.sum(0, 3); }) == "specdec: draft row 1: no 4");
  CHECK(complaint([&] { named.sampler(); }) == "specdec: draft row 1: no 5");
  const NamedRow outer(named, "target", 0);
  CHECK(complaint([&] { outer.argmax(); }) == "specdec: draft row 1: no 2");
  // Some samplers notice a bad row only when they draw.
  const Eigen::RowVector2d nothing(0, 0);
  const auto empty = distributions(nothing).row(0);
  auto draw = NamedRow(empty, "target", 4).sampler();
  CHECK(complaint([&] { draw(0.5); }) == "specdec: target row 4: the probabilities sum to 0");
}

TEST_CASE("a residual names the row with NaN in its list") {
  const std::vector<Token> ids{0, 2};
  const std::vector<double> good{1, 0}, bad{1, NaN};
  const SparseRow<double> whole(ids, good, 3), broken(ids, bad, 3);
  const Eigen::RowVector3d numbers(1, 0, 0);
  const auto dense = distributions(numbers).row(0);
  const auto mass = [](const auto& p, const auto& q) {
    return complaint([&] { residual_mass(1.0, NamedRow(p, "target", 0), 1.0, NamedRow(q, "draft", 0)); });
  };
  CHECK(mass(whole, whole).empty());
  CHECK(mass(broken, whole) == "specdec: target row 0: the probability of token 2 is nan");
  CHECK(mass(whole, broken) == "specdec: draft row 0: the probability of token 2 is nan");
  CHECK(mass(dense, broken) == "specdec: draft row 0: the probability of token 2 is nan");
}

}  // namespace test_rows_named_row
