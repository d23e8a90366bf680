// SPDX-License-Identifier: MIT
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_rows_read_sum_check {

using namespace specdec;
using support::message_of;
using support::RowMajor;

namespace {

// Checks one verification in `every`, until the end of the test.
struct Checks {
  explicit Checks(Index every) : before(check_every(every)) {}
  ~Checks() { check_every(before); }
  Index before;
};

constexpr Index vocab_size = 64;

RowMajor<float> uniform(Index rows) {
  return RowMajor<float>::Constant(rows, vocab_size, 1 / static_cast<float>(vocab_size));
}

// The draft of 4 tokens that is judged in all tests here.
struct Verification {
  RowMajor<float> target = uniform(5), draft = uniform(4);
  std::vector<Token> tokens{3, 1, 4, 1};
  std::mt19937_64 rng{1};

  std::string error(const auto& rule) {
    return message_of([&] { (void)verify(rule, target, draft, tokens, rng); });
  }
  // The first error in so many verifications, and how many of them it took.
  std::pair<std::string, int> first_error(const auto& rule, int verifications) {
    for (int n = 1; n <= verifications; ++n)
      if (const std::string found = error(rule); !found.empty()) return {found, n};
    return {"", verifications};
  }
};

// Returns the same row everywhere, in numbers of 16 bits.
struct Bfloat16Model {
  std::array<float, 3> p;
  RowMajor<Eigen::bfloat16> rows{};

  Index vocab_size() const { return 3; }
  const auto& forward(std::span<const Token>, Index count) {
    rows.resize(count, 3);
    for (Index i = 0; i < count; ++i)
      for (Index x = 0; x < 3; ++x) rows(i, x) = Eigen::bfloat16(p[static_cast<std::size_t>(x)]);
    return rows;
  }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("rows that do not sum to 1 are judged without a word where no sums are checked, and else named") {
  Verification bad;
  bad.target *= 0.5f;  // cut, and not normalised
  CHECK(check_every(0) == 0);
  CHECK(bad.first_error(BlockVerifier{}, 300).first.empty());
  const Checks checks(8);
  CHECK(bad.first_error(BlockVerifier{}, 300) ==
        std::pair<std::string, int>("specdec: target row 0: the probabilities sum to 0.5", 1));
  Verification good;
  CHECK(good.first_error(BlockVerifier{}, 300).first.empty());
}

TEST_CASE("the rows take turns, so a single bad row is found, too") {
  for (Index i = 0; i < 9; ++i) {
    CAPTURE(i);
    const Checks checks(3);
    Verification bad;
    if (i < 5) bad.target.row(i) *= 0.75f;
    else bad.draft.row(i - 5) *= 0.75f;
    const std::string name = i < 5 ? "target row " + std::to_string(i) : "draft row " + std::to_string(i - 5);
    // Every third verification checks a row, and every second of these rows is the target's.
    const int turn = i < 5 ? 2 * static_cast<int>(i) : 2 * static_cast<int>(i - 5) + 1;
    CHECK(bad.first_error(TokenVerifier{}, 100) ==
          std::pair("specdec: " + name + ": the probabilities sum to 0.75", 3 * turn + 1));
  }
}

TEST_CASE("rows that a rule does not need, rows without mass, and rounding are no errors") {
  const Checks checks(1);
  Verification v;
  v.draft *= 0.5f;
  CHECK(v.first_error(SampleMatchVerifier{}, 20).first.empty());
  check_every(1);
  CHECK(v.first_error(TokenVerifier{}, 20).first == "specdec: draft row 0: the probabilities sum to 0.5");
  v.draft = uniform(4);
  v.target.row(0)[3] = 0;  // the first token is rejected
  v.target.row(0) /= v.target.row(0).sum();
  v.target.bottomRows(4).setZero();  // dead ends, which nobody draws from
  CHECK(v.first_error(TokenVerifier{}, 20).first.empty());

  constexpr Index many = 120'000;
  const auto half =
      RowMajor<Eigen::half>::Constant(1, many, Eigen::half(1 / static_cast<float>(many))).eval();
  CHECK(std::abs(half.cast<double>().sum() - 1) > 1e-3);
  std::mt19937_64 rng{1};
  CHECK_NOTHROW((void)verify(TokenVerifier{}, half, RowMajor<float>(0, many), std::vector<Token>{}, rng));
}

TEST_CASE("the loop's copies of halves and bfloat16 pass, and so does NaN where no decision reads it") {
  const Checks checks(1);
  Bfloat16Model target{{0.9f, 0.07f, 0.03f}}, small{{1.f / 3, 1.f / 3, 1.f / 3}};
  SpecDec decoder{target, ModelDrafter{small}, BlockVerifier{}};
  std::mt19937_64 rng{1};
  const std::vector<Token> prompt{0};
  CHECK_NOTHROW((void)decoder.generate(prompt, {.max_new_tokens = 60, .gamma = 2}, rng));

  Verification v;
  v.target.row(0)[3] = 0;  // the first token is rejected
  v.target.row(0) /= v.target.row(0).sum();
  v.target.bottomRows(4).setConstant(std::numeric_limits<float>::quiet_NaN());
  CHECK(v.first_error(TokenVerifier{}, 20).first.empty());
}

TEST_CASE("lists and trees are checked, logits are not") {
  const Checks checks(1);
  std::mt19937_64 rng{1};
  const std::vector<Token> ids{1, 3, 4}, tokens{3}, parents{-1};
  const std::vector<float> cut{0.25f, 0.25f, 0.125f};
  const SparseRow<float> row(ids, cut, vocab_size);
  const std::vector<SparseRow<float>> rows(2, row);
  const RowMajor<float> draft = uniform(1), target = 0.5f * uniform(2);
  CHECK(message_of([&] {
          (void)verify(TokenVerifier{}, RowSpan(std::span(rows), vocab_size), draft, tokens, rng);
        }) == "specdec: target row 0: the probabilities sum to 0.625");
  check_every(1);
  CHECK(message_of([&] { (void)verify(TraversalVerifier{}, target, draft, tokens, parents, rng); }) ==
        "specdec: target row 0: the probabilities sum to 0.5");
  CHECK_NOTHROW((void)verify(TokenVerifier{}, Logits{target}, draft, tokens, rng));
}

TEST_CASE("a row of one of several kinds is checked as the kind that it is of") {
  const RowMajor<float> cut = 0.5f * uniform(2), draft = uniform(1);
  using Rows = VariantRows<decltype(DenseRows(cut)), decltype(Logits(cut))>;
  const Checks checks(1);
  std::mt19937_64 rng{1};
  const std::vector<Token> tokens{3};
  const auto error = [&](const Rows& target) {
    check_every(1);
    return message_of([&] { (void)verify(TokenVerifier{}, target, draft, tokens, rng); });
  };
  CHECK(error(Rows(std::in_place_index<0>, DenseRows(cut))) ==
        "specdec: target row 0: the probabilities sum to 0.5");
  CHECK(error(Rows(std::in_place_index<1>, Logits(cut))).empty());
}

TEST_CASE("the loop names a model's bad row, and keeps its text") {
  using Model = testing::TableModel<>;
  Model::Rows p(1, 3), q(1, 3);
  p << 0.5, 0.3, 0.1;  // the model forgot a token
  q << 0.2, 0.3, 0.5;
  Model target(p, 0), small(q, 0);
  SpecDec decoder{target, ModelDrafter{small}, BlockVerifier{}};
  std::mt19937_64 rng{1};
  const std::vector<Token> prompt{0};
  auto sequence = decoder.start(prompt, {.max_new_tokens = 100, .gamma = 2});
  sequence.step(rng);
  const auto before = sequence.stats().emitted;
  const Checks checks(4);
  CHECK(message_of([&] { sequence.step(rng); }) == "specdec: target row 0: the probabilities sum to 0.9");
  CHECK(sequence.stats().emitted == before);
  CHECK(message_of([&] { check_every(-1); }) == "specdec: verifications = -1 is negative");
}

}  // namespace test_rows_read_sum_check
