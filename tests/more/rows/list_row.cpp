// Lists of structs as rows: they mean what a dense row of their numbers means, in any order.
// SPDX-License-Identifier: MIT
#include "specdec/more/rows/list_row.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_rows_list_row {

using namespace specdec;
using support::message_of;

namespace {

struct Candidate {
  std::int32_t id;
  float logit, p;
};
struct Wide {
  double p;
  std::int64_t id;
};
using List = std::vector<Candidate>;

constexpr auto id = &Candidate::id;
constexpr auto p = &Candidate::p;
constexpr float inf = std::numeric_limits<float>::infinity();

using Row = ListRow<Candidate, std::int32_t, float>;
static_assert(Distribution<Row> && SummableRow<Row> && SegmentedRow<Row> && ArgmaxRow<Row>);
static_assert(!ListedRow<Row>, "its ids do not ascend");
static_assert(Probabilities<ListRows<List, std::int32_t, float Candidate::*>>);
static_assert(!std::is_constructible_v<ListRows<List, std::int32_t, float Candidate::*>, std::vector<List>,
                                       std::int32_t Candidate::*, float Candidate::*, Index>);

// What the rows answer, asked for everything.
void check_same(const auto& row, const Eigen::RowVectorXd& dense) {
  const Index size = dense.size();
  CHECK(row.vocab_size() == size);
  for (Token x = 0; x < size; ++x) CHECK(row.probability(x) == Approx(dense[x]));
  for (Index start = 0; start <= size; ++start)
    for (Index count = 0; start + count <= size; ++count) {
      CHECK(row.sum(start, count) == Approx(dense.segment(start, count).sum()));
      CHECK(row.segment(start, count).matrix().transpose().isApprox(dense.segment(start, count), 1e-6));
    }
  Index largest = 0;
  dense.maxCoeff(&largest);
  CHECK(row.argmax() == largest);

  // A draw takes each token over a length of [0, 1) that is its probability.
  auto sampler = row.sampler();
  Eigen::RowVectorXd drawn = Eigen::RowVectorXd::Zero(size);
  const int draws = 4000;
  for (int k = 0; k < draws; ++k) drawn[sampler((k + 0.5) / draws)] += 1.0 / draws;
  CHECK((drawn - dense).cwiseAbs().maxCoeff() < 2.0 / draws);
}

}  // namespace

TEST_CASE("a list of structs gives its tokens their probabilities and the others none, in any order") {
  List list{{1, 0, 0.125f}, {4, 0, 0.25f}, {5, 0, 0.0f}, {9, 0, 0.625f}};
  Eigen::RowVectorXd dense = Eigen::RowVectorXd::Zero(11);
  for (const Candidate& c : list) dense[c.id] = static_cast<double>(c.p);
  do {
    check_same(ListRow(std::span<const Candidate>(list), id, p, 11), dense);
  } while (std::next_permutation(list.begin(), list.end(),
                                 [](const Candidate& a, const Candidate& b) { return a.id < b.id; }));

  std::vector<Wide> whole{{0.25, 0}, {0.5, 1}, {0.25, 2}};  // the vocabulary in the order of its ids
  check_same(ListRow(std::span<const Wide>(whole), &Wide::id, &Wide::p, 3),
             Eigen::RowVector3d(0.25, 0.5, 0.25));
}

TEST_CASE("a list of logits is normalised over the list") {
  const List list{{7, 2.f, 0}, {3, -1.f, 0}, {0, 0.5f, 0}, {5, -inf, 0}};
  for (const double temperature : {0.3, 1.0, 2.0}) {
    Eigen::RowVectorXd dense = Eigen::RowVectorXd::Zero(8);
    for (const Candidate& c : list) dense[c.id] = std::exp(static_cast<double>(c.logit) / temperature);
    dense /= dense.sum();
    check_same(ListRow(std::span(list), id, ListedLogits{&Candidate::logit, temperature}, 8), dense);
  }
  const List large{{1, 3e38f, 0}, {2, 3e38f, 0}};  // no exponential of these is finite
  check_same(ListRow(std::span(large), id, ListedLogits{&Candidate::logit}, 3),
             Eigen::RowVector3d(0, 0.5, 0.5));
}

TEST_CASE("at an infinite temperature the finite logits of a list are equally probable") {
  const List list{{1, 0.f, 0}, {2, -inf, 0}, {0, 3.f, 0}};
  check_same(ListRow(std::span(list), id,
                     ListedLogits{&Candidate::logit, std::numeric_limits<double>::infinity()}, 4),
             Eigen::RowVector4d(0.5, 0.5, 0, 0));
}

TEST_CASE("at temperature 0 the largest logit of a list is certain, the lowest id among equals") {
  const List list{{7, 2.f, 0}, {3, 2.f, 0}, {0, 0.5f, 0}};
  Eigen::RowVectorXd dense = Eigen::RowVectorXd::Zero(8);
  dense[3] = 1;
  for (const double temperature : {0.0, 1e-320})
    check_same(ListRow(std::span(list), id, ListedLogits{&Candidate::logit, temperature}, 8), dense);
  const List equal{{4, 0, 0.5f}, {2, 0, 0.5f}};
  CHECK(ListRow(std::span(equal), id, p, 8).argmax() == 2);
}

TEST_CASE("verdicts on lists are those on dense rows of their numbers") {
  // In ascending order, where a draw goes through the tokens as in a dense row.
  const std::vector<List> target{{{0, 0, .5f}, {2, 0, .5f}}, {{1, 0, .25f}, {3, 0, .75f}}, {{0, 0, 1.f}}};
  const std::vector<List> draft{{{1, 0, .5f}, {2, 0, .5f}}, {{0, 0, .5f}, {3, 0, .5f}}};
  const auto dense = [](const std::vector<List>& lists) {
    Eigen::MatrixXd m = Eigen::MatrixXd::Zero(std::ssize(lists), 4);
    for (std::size_t i = 0; i < lists.size(); ++i)
      for (const Candidate& c : lists[i]) m(static_cast<Index>(i), c.id) = static_cast<double>(c.p);
    return m;
  };
  const Eigen::MatrixXd dense_target = dense(target), dense_draft = dense(draft);
  const auto check = [&](auto rule, const std::vector<Token>& tokens) {
    std::mt19937_64 rng{5}, again{5};
    for (int n = 0; n < 50; ++n) {
      auto rule_again = rule;
      const Verdict on_lists =
          verify(rule, ListRows{target, id, p, 4}, ListRows{draft, id, p, 4}, tokens, rng);
      const Verdict on_dense = verify(rule_again, dense_target, dense_draft, tokens, again);
      CHECK(on_lists == on_dense);
    }
  };
  check(TokenVerifier{}, {2, 3});
  check(BlockVerifier{}, {2, 0});
  check(GreedyBlockVerifier{}, {1, 3});
}

TEST_CASE("a model may return lists, and a draft model as well") {
  struct Listing {
    std::vector<List> lists;
    Index vocab_size() const { return 5; }
    auto forward(std::span<const Token>, Index rows) {
      lists.assign(static_cast<std::size_t>(rows), {{4, 0, .75f}, {1, 0, .25f}});
      return ListRows{lists, id, p, 5};
    }
    void truncate(Index) {}
  };
  SpecDec decoder{Listing{}, ModelDrafter{Listing{}}};
  Philox rng{3};
  const Result result = decoder.generate(std::vector<Token>{0}, {.max_new_tokens = 400, .gamma = 3}, rng);
  const auto fours = std::count(result.tokens.begin(), result.tokens.end(), 4);
  CHECK(std::count(result.tokens.begin(), result.tokens.end(), 1) == 400 - fours);
  CHECK(fours > 260);
  CHECK(fours < 340);
  CHECK(result.stats.block_efficiency() == 4);
}

TEST_CASE("a copy of a list's row is a list") {
  using Copied = RowCopy<Row>;
  static_assert(std::is_same_v<Copied::View, Row>);
  Copied copied, of_logits;
  for (int round = 0; round < 2; ++round) {  // memory is used again
    List list{{4, 1.f, 0.25f}, {2, -inf, 0.0f}, {0, 1.f, 0.75f}};
    const Row copy = copied.assign(ListRow(std::span<const Candidate>(list), id, p, 5));
    const Row logits = of_logits.assign(
        ListRow(std::span<const Candidate>(list), id, ListedLogits{&Candidate::logit, 0.5}, 5));
    list.assign(3, {1, 7.f, 0.5f});
    check_same(copy, (Eigen::RowVectorXd(5) << 0.75, 0, 0, 0, 0.25).finished());
    check_same(logits, (Eigen::RowVectorXd(5) << 0.5, 0, 0, 0, 0.5).finished());
  }
}

TEST_CASE("a list that cannot be a row says so") {
  const List cut{{7, 0, 0.5f}, {3, 0, 0.25f}, {0, 0, 0.125f}};
  CHECK(message_of([&] { ListRow(std::span(cut), id, p, 8); }) ==
        "the probabilities of a list of 3 tokens sum to 0.875: renormalise them after a cut, or "
        "pass logits");
  const std::vector<List> good{{{0, 0, 1.f}}, {{0, 0, 1.f}}}, bad{{{0, 0, 1.f}}, cut};
  const std::vector<Token> tokens{0};
  const auto one = std::span(good).first(1);
  std::mt19937_64 rng{1};
  CHECK(message_of([&] {
          TokenVerifier{}(ListRows{bad, id, p, 8}, ListRows{one, id, p, 8}, tokens, rng);
        }) ==
        "specdec: target row 1: the probabilities of a list of 3 tokens sum to 0.875: renormalise them after "
        "a cut, or "
        "pass logits");

  for (const float wrong : {-0.25f, std::numeric_limits<float>::quiet_NaN()}) {
    const List list{{7, 0, 1.25f}, {3, 0, wrong}};
    CHECK_THAT(message_of([&] { ListRow(std::span(list), id, p, 8); }),
               Catch::Contains("the probability of token 3 is "));
  }

  List nan{{7, 0, 1}, {3, std::numeric_limits<float>::quiet_NaN(), 0}};
  const auto logits = [](const List& list, double temperature = 1) {
    return message_of([&] { ListRow(std::span(list), id, ListedLogits{&Candidate::logit, temperature}, 8); });
  };
  CHECK(logits(nan) == "the logit of token 3 is nan");
  nan[1].logit = inf;
  CHECK(logits(nan) == "the logit of token 3 is inf");
  CHECK(logits(cut, -1) == "specdec: temperature = -1 is not a number >= 0");
  CHECK(message_of([&] { ListRow(std::span(cut), id, p, 2); }) ==
        "specdec: a list has 3 tokens of a vocabulary of 2");
  CHECK(message_of([&] { ListRow(std::span(cut), id, p, -1); }) ==
        "specdec: a list has a vocabulary of -1 tokens");
  CHECK(message_of([&] { ListRows{good, id, p, -1}; }) == "specdec: lists have a vocabulary of -1 tokens");

  const std::vector<Wide> outside{{1, std::int64_t{1} << 40}};
  CHECK(message_of([&] { ListRow(std::span(outside), &Wide::id, &Wide::p, 8).sampler()(0.5); }) ==
        "id 2147483647 is outside the vocabulary 0..7");
}

TEST_CASE("a list without mass is a dead end: it can be read, but not drawn from") {
  const auto check_dead_end = [](const auto& row) {
    CHECK(specdec::detail::is_dead_end(row));
    for (Token x = 0; x < 8; ++x) CHECK(row.probability(x) == 0);
    CHECK(row.sum(0, 8) == 0);
    CHECK(message_of<InvalidDistribution>([&] { row.sampler()(0.5); }) == "the probabilities sum to 0");
    CHECK(message_of<InvalidDistribution>([&] { row.argmax(); }) == "no token has positive probability");
  };
  for (const List& none : {List{}, List{{7, -inf, 0}, {3, -inf, 0}}}) {
    check_dead_end(ListRow(std::span(none), id, p, 8));
    for (const double temperature : {1.0, 0.0})
      check_dead_end(ListRow(std::span(none), id, ListedLogits{&Candidate::logit, temperature}, 8));
  }
  const List one{{7, 0, 1}};
  CHECK(!specdec::detail::is_dead_end(ListRow(std::span(one), id, p, 8)));
  CHECK(!specdec::detail::is_dead_end(ListRow(std::span(one), id, ListedLogits{&Candidate::logit}, 8)));
}

TEST_CASE("long lists are not summed: a row of many tokens costs what is asked of it") {
  List list(Row::checked_size + 1, Candidate{0, 0, 0.5f});
  for (std::size_t k = 0; k < list.size(); ++k) list[k].id = static_cast<std::int32_t>(k);
  CHECK(ListRow(std::span<const Candidate>(list), id, p, 1000).sum(0, 1000) == 128.5);
  list.pop_back();
  CHECK_THROWS_AS(ListRow(std::span<const Candidate>(list), id, p, 1000), InvalidDistribution);
}

}  // namespace test_more_rows_list_row
