#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_testing_table_model {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;

static_assert(Model<TableModel<float>>);
static_assert(Model<TableModel<double>>);

TEST_CASE("a table is indexed by the last tokens") {
  TableModel<>::Rows table(9, 2);  // V = 2, order 2: digits 0 (none), 1 (token 0), 2 (token 1)
  for (Index i = 0; i < 9; ++i) table.row(i) << static_cast<double>(i) / 16, 1 - static_cast<double>(i) / 16;
  TableModel<> model(table, 2);
  const auto row_of = [&](std::vector<Token> context) {
    return model.distribution(context).probability(0) * 16;
  };
  CHECK(row_of({}) == 0);
  CHECK(row_of({0}) == 1);
  CHECK(row_of({1}) == 2);
  CHECK(row_of({0, 0}) == 4);
  CHECK(row_of({0, 1}) == 5);
  CHECK(row_of({1, 0}) == 7);
  CHECK(row_of({1, 1, 1, 0, 1}) == 5);
}

TEST_CASE("several rows at once are the rows one at a time, also after a rollback") {
  std::mt19937_64 rng{1};
  auto model = TableModel<float>::random(4, 3, rng);
  const std::vector<Token> tokens{3, 1, 0, 2, 2};
  const TableModel<float>::Rows all = model.forward(tokens, 5);
  for (Index i = 0; i < 5; ++i)
    for (Token x = 0; x < 4; ++x)
      CHECK(static_cast<double>(all(i, x)) ==
            model.distribution(std::span(tokens).first(static_cast<std::size_t>(i) + 1)).probability(x));
  model.truncate(2);
  const TableModel<float>::Rows again = model.forward(std::span(tokens).subspan(2), 3);
  CHECK(again == all.bottomRows(3));
  model.truncate(100);
  CHECK(model.context().size() == 5);
}

TEST_CASE("random tables: exact rows in float, zeros, and dependence on the context") {
  std::mt19937_64 rng{2};
  Index zeros = 0, entries = 0, different = 0;
  for (int n = 0; n < 20; ++n) {
    const auto model = TableModel<float>::random(4, 1, rng);
    for (Token last = 0; last < 4; ++last) {
      const std::vector<Token> context{last}, other{(last + 1) % 4};
      double sum = 0;
      for (Token x = 0; x < 4; ++x) {
        const double p = model.distribution(context).probability(x);
        sum += p;
        zeros += p == 0;
        ++entries;
        different += p != model.distribution(other).probability(x);
      }
      CHECK(sum == 1);
    }
  }
  CHECK(zeros > entries / 8);
  CHECK(zeros < entries / 2);
  CHECK(different > entries / 2);
}

TEST_CASE("bad tables and calls are named") {
  CHECK(message_of([] { TableModel<>(Eigen::MatrixXd::Zero(3, 2), 2); }) ==
        "specdec: table has 3 rows, expected (V+1)^order = 9");
  std::mt19937_64 rng{3};
  auto model = TableModel<>::random(2, 1, rng);
  const std::vector<Token> tokens{0, 1}, bad{0, 2};
  CHECK(message_of([&] { model.forward(tokens, 3); }) ==
        "specdec: rows = 3 is outside 1..2, the number of tokens");
  CHECK(message_of([&] { model.forward(tokens, 0); }) ==
        "specdec: rows = 0 is outside 1..2, the number of tokens");
  CHECK(message_of([&] { model.forward(bad, 1); }) ==
        "specdec: tokens[1] = 2 is outside the vocabulary 0..1");
  CHECK(model.context().empty());
}

TEST_CASE("tables that cannot be are named") {
  constexpr Index least = std::numeric_limits<Index>::min();
  const auto complaint = [](Index vocab_size, Index order) {
    SplitMix64 generator;
    return message_of([&] { TableModel<>::random(vocab_size, order, generator); });
  };
  CHECK(complaint(2, 0).empty());
  CHECK(complaint(0, 1) == "specdec: vocab_size = 0 is not positive");
  CHECK(complaint(least, 1) == "specdec: vocab_size = -9223372036854775808 is not positive");
  CHECK(complaint(2, -1) == "specdec: order = -1 is negative");
  CHECK(
      complaint(2, unlimited) ==
      "specdec: vocab_size = 2 and order = 9223372036854775807 make a table of more than 2147483647 entries");
  CHECK(
      complaint(unlimited, 2) ==
      "specdec: vocab_size = 9223372036854775807 and order = 2 make a table of more than 2147483647 entries");
  const TableModel<>::Rows row = TableModel<>::Rows::Constant(1, 2, 0.5);
  CHECK(message_of([&] { TableModel<>(row, -1); }) == "specdec: order = -1 is negative");
  CHECK(message_of([] { TableModel<>(TableModel<>::Rows(), 0); }) ==
        "specdec: vocab_size = 0 is not positive");
}

TEST_CASE("contexts that cannot be looked up are named; one is cut to nothing by any length below") {
  std::mt19937_64 rng{8};
  auto model = TableModel<>::random(2, 1, rng);
  CHECK(message_of([&] {
          model.distribution(std::vector<Token>{0, 70000});
        }) == "specdec: context[1] = 70000 is outside the vocabulary 0..1");
  CHECK(message_of([&] {
          model.distribution(std::vector<Token>{0, -1});
        }) == "specdec: context[1] = -1 is outside the vocabulary 0..1");
  model.forward(std::vector<Token>{0, 1}, 1);
  model.truncate(-1);
  CHECK(model.context().empty());
}

// What a temporary shows would be gone with it.
template <class M>
concept ShowsWhatIsGone = requires(M&& m, std::span<const Token> x) { std::forward<M>(m).distribution(x); } ||
                          requires(M&& m) { std::forward<M>(m).context(); } ||
                          requires(M&& m, std::span<const Token> x) { std::forward<M>(m).forward(x, 1); };
static_assert(ShowsWhatIsGone<const TableModel<>&> && !ShowsWhatIsGone<TableModel<>>);

}  // namespace test_testing_table_model
