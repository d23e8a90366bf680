// What every verifier refuses, and what it defines: shapes, ids, q = 0, numbers that are no probabilities.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

using namespace specdec;
using support::AnyVerifier;
using support::message_of;
using support::RowMajor;

namespace {

constexpr float NaN = std::numeric_limits<float>::quiet_NaN();
constexpr float inf = std::numeric_limits<float>::infinity();

// γ = 2, V = 3, uniform rows.
struct Input {
  RowMajor<float> target = RowMajor<float>::Constant(3, 3, 1.f / 3);
  RowMajor<float> draft = RowMajor<float>::Constant(2, 3, 1.f / 3);
  std::vector<Token> tokens{0, 2};

  template <class V>
  Verdict judge(V verifier) const {
    std::mt19937_64 rng{42};
    return verifier(target, draft, tokens, rng);
  }
  template <class V>
  std::string complaint(V verifier) const {
    return message_of([&] { judge(verifier); });
  }
};

}  // namespace

TEMPLATE_TEST_CASE("wrong shapes and ids are named", "", TokenVerifier, BlockVerifier, GreedyBlockVerifier,
                   ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  const TestType verifier;
  Input good;
  CHECK_NOTHROW(good.judge(verifier));
  {
    Input in;
    in.target.conservativeResize(2, 3);
    CHECK(in.complaint(verifier) == "specdec: target has 2 rows, expected gamma + 1 = 3");
  }
  {
    Input in;
    in.draft.conservativeResize(1, 3);
    CHECK(in.complaint(verifier) == "specdec: draft has 1 rows, expected gamma = 2, one per token");
  }
  {
    Input in;
    in.tokens.push_back(1);
    CHECK(in.complaint(verifier) == "specdec: draft has 2 rows, expected gamma = 3, one per token");
  }
  {
    Input in;
    in.target.resize(3, 0);
    CHECK(in.complaint(verifier) == "specdec: target has an empty vocabulary");
  }
  for (const Token bad : {-1, 3, 1000000, std::numeric_limits<Token>::min()}) {
    Input in;
    in.tokens[1] = bad;
    CHECK(in.complaint(verifier) ==
          "specdec: tokens[1] = " + std::to_string(bad) + " is outside the vocabulary 0..2");
  }
}

TEMPLATE_TEST_CASE("a drafted token with q = 0 is an error, never accepted", "", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, LenientVerifier) {
  Input in;
  in.draft.row(1) << 0.5f, 0.5f, 0.0f;
  CHECK(in.complaint(TestType{}) ==
        "specdec: tokens[1] = 2 has probability 0 in draft row 1, so it was not drawn from it");
  in.draft(1, 2) = std::numeric_limits<float>::denorm_min();
  CHECK_NOTHROW(in.judge(TestType{}));  // p/q overflows nothing
}

TEMPLATE_TEST_CASE("numbers that are no probabilities are named where a decision needs them", "",
                   TokenVerifier, BlockVerifier, GreedyBlockVerifier, LenientVerifier) {
  for (const float bad : {NaN, inf, -0.5f}) {
    std::ostringstream value;
    value << bad;
    Input in;
    in.draft(1, 2) = bad;
    CHECK(in.complaint(TestType{}) == "specdec: draft row 1: the probability of token 2 is " + value.str());
    in = {};
    in.target(0, 0) = bad;
    CHECK(in.complaint(TestType{}) == "specdec: target row 0: the probability of token 0 is " + value.str());
  }
}

TEMPLATE_TEST_CASE("a row of NaN is never turned into a token", "", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  for (Index row = 0; row < 3; ++row) {
    Input in;
    in.target.row(row).setConstant(NaN);
    // A row is read only if the verdict depends on it; with p = q every token is accepted, so all are.
    if (std::is_same_v<TestType, ArgmaxVerifier> && row > 0) in.tokens = {0, 0};
    if (std::is_same_v<TestType, SampleMatchVerifier> && row > 0) {
      in.target.topRows(2).setZero();
      in.target(0, 0) = in.target(1, 2) = 1;
      in.target.row(row).setConstant(NaN);
    }
    const std::string message = in.complaint(TestType{});
    CHECK(message.starts_with("specdec: target row " + std::to_string(row) + ": "));
  }
}

TEMPLATE_TEST_CASE("a row of zeros is never turned into a token", "", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  Input in;
  in.target.setZero();
  CHECK(in.complaint(TestType{}).starts_with("specdec: target row 0: "));
}

TEMPLATE_TEST_CASE("no draft: a draw from the only row", "", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  Input in;
  in.tokens.clear();
  in.draft.resize(0, 3);
  in.target.resize(1, 3);
  in.target << 0, 1, 0;
  CHECK(in.judge(TestType{}) == Verdict{0, 1});
  in.draft.resize(0, 0);
  CHECK(in.judge(TestType{}) == Verdict{0, 1});
}

TEMPLATE_TEST_CASE("a vocabulary of one", "", TokenVerifier, BlockVerifier, GreedyBlockVerifier,
                   ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  Input in;
  in.target.setOnes(3, 1);
  in.draft.setOnes(2, 1);
  in.tokens = {0, 0};
  CHECK(in.judge(TestType{}) == Verdict{2, 0});
}

TEMPLATE_TEST_CASE("p = q accepts everything", "", TokenVerifier, BlockVerifier, GreedyBlockVerifier,
                   LenientVerifier) {
  std::mt19937_64 rng{4};
  for (int n = 0; n < 200; ++n) {
    Input in;
    for (float& p : in.draft.reshaped()) p = static_cast<float>(uniform01(rng));
    in.target.topRows(2) = in.draft;
    CHECK(TestType{}(in.target, in.draft, in.tokens, rng).accepted == 2);
  }
}

TEMPLATE_TEST_CASE("disjoint supports accept nothing and correct from the target", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier, LenientVerifier) {
  Input in;
  in.draft << 1, 0, 0, 0, 0, 1;
  in.target << 0, 1, 0, 1, 0, 0, 1, 0, 0;
  CHECK(in.judge(TestType{}) == Verdict{0, 1});
}

TEMPLATE_TEST_CASE("no token of probability zero, whatever the rows hold", "", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  // Garbage of every kind: the answer is a token that its row gives mass, or an error.
  std::mt19937_64 rng{8};
  const float kinds[] = {0,     0,   0,   0.5f, 1, 0.25f, 1e-30f, std::numeric_limits<float>::denorm_min(),
                         3e38f, inf, NaN, -1};
  int verdicts = 0, errors = 0;
  for (int n = 0; n < 20000; ++n) {
    Input in;
    const auto garbage = [&](auto& matrix) {
      const double mildness = uniform01(rng);
      for (Index k = 0; k < matrix.size(); ++k)
        matrix.data()[k] = kinds[static_cast<int>(uniform01(rng) * (mildness < 0.7 ? 8 : 12))];
    };
    garbage(in.target);
    garbage(in.draft);
    try {
      TestType verifier;
      const Verdict v = verifier(in.target, in.draft, in.tokens, rng);
      ++verdicts;
      REQUIRE(v.accepted >= 0);
      REQUIRE(v.accepted <= 2);
      REQUIRE(v.token >= 0);
      REQUIRE(v.token < 3);
      REQUIRE(in.target(v.accepted, v.token) > 0);
    } catch (const std::invalid_argument&) {
      ++errors;
    }
  }
  CHECK(verdicts > 1000);
  CHECK(errors > 1000);
}

TEMPLATE_TEST_CASE("a token that only the drafter knows is rejected, and the correction is the target's", "",
                   TokenVerifier, BlockVerifier, GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier,
                   LenientVerifier) {
  Input in;
  in.draft.setConstant(2, 5, 0.2f);
  for (const std::vector<Token>& tokens : {std::vector<Token>{4, 0}, {3, 4}, {0, 4}, {2, 3}}) {
    in.tokens = tokens;
    const Index foreign = tokens[0] >= 3 ? 0 : 1;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      std::mt19937_64 rng{seed};
      TestType verifier;
      const Verdict v = verifier(in.target, in.draft, in.tokens, rng);
      REQUIRE(v.accepted <= foreign);
      REQUIRE(v.token >= 0);
      REQUIRE(v.token < 3);
    }
  }
  in.tokens = {0, 5};
  CHECK(in.complaint(TestType{}) == "specdec: tokens[1] = 5 is outside the vocabulary 0..4");
  in.tokens = {0, -1};
  CHECK(in.complaint(TestType{}) == "specdec: tokens[1] = -1 is outside the vocabulary 0..4");
}

TEMPLATE_TEST_CASE("a token that only the target knows was not drawn from the draft", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, LenientVerifier) {
  Input in;
  in.draft.setConstant(2, 2, 0.5f);
  CHECK(in.complaint(TestType{}) ==
        "specdec: tokens[1] = 2 has probability 0 in draft row 1, so it was not drawn from it");
  in.tokens = {0, 1};
  CHECK_NOTHROW(in.judge(TestType{}));
  in.tokens = {0, 3};
  CHECK(in.complaint(TestType{}) == "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
}

TEMPLATE_TEST_CASE("rules that need no q take any vocabulary for the draft's", "", ArgmaxVerifier,
                   SampleMatchVerifier) {
  Input in;
  in.draft.setConstant(2, 2, 0.5f);
  in.target << 1, 0, 0, 0, 0, 1, 0, 1, 0;
  CHECK(in.judge(TestType{}) == Verdict{2, 1});
}

TEMPLATE_TEST_CASE("an id outside the target's vocabulary has no one-hot row", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  const Input in;
  std::mt19937_64 rng{1};
  const std::vector<Token> tokens{0, 3};
  TestType verifier;
  CHECK(message_of([&] { verifier(in.target, OneHotRows(tokens), tokens, rng); }) ==
        "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
  const std::vector<Token> others{1, 1}, good{0, 2};
  if constexpr (!std::is_same_v<TestType, ArgmaxVerifier> && !std::is_same_v<TestType, SampleMatchVerifier>)
    CHECK(message_of([&] { verifier(in.target, OneHotRows(others), good, rng); }) ==
          "specdec: tokens[0] = 0 has probability 0 in draft row 0, so it was not drawn from it");
}

namespace {

// Verdicts on rows of one kind, some of whose numbers are bad.
template <class Layout>
std::string complaint_of_kind(const AnyVerifier& rule, const RowMajor<double>& target,
                              const RowMajor<double>& draft, std::span<const Token> tokens) {
  Layout p, q;
  p.hold(target);
  q.hold(draft);
  std::mt19937_64 rng{42};
  AnyVerifier verifier = rule;
  return message_of([&] { verifier(std::as_const(p).view(), std::as_const(q).view(), tokens, rng); });
}

}  // namespace

TEMPLATE_TEST_CASE("NaN in a row of any kind names the row", "", support::AsRowMajor<double>,
                   support::AsStridedPointers<double>, support::AsNarrow<Eigen::half>,
                   support::AsNarrow<Eigen::bfloat16>, support::AsLogits<double>, support::AsLogits<float>,
                   support::AsLogits<Eigen::half>, (support::AsSparse<double, std::int64_t>)) {
  RowMajor<double> uniform = RowMajor<double>::Constant(3, 4, 0.25), good = uniform.topRows(2);
  const std::vector<Token> tokens{1, 3};
  for (const AnyVerifier& rule : support::sampling_rules) {
    CHECK(complaint_of_kind<TestType>(rule, uniform, good, tokens).empty());
    const bool needs_q = !std::holds_alternative<SampleMatchVerifier>(rule.rule);
    for (Index row = 0; row < 3; ++row) {
      // p = q accepts everything, so every row is looked at; sample-and-match has to be led there.
      RowMajor<double> target = uniform;
      if (!needs_q) {
        target.setZero();
        target(0, 1) = target(1, 3) = target(2, 0) = 1;
      }
      target.row(row).setConstant(NaN);
      CHECK(complaint_of_kind<TestType>(rule, target, good, tokens)
                .starts_with("specdec: target row " + std::to_string(row) + ": "));
      if (row == 2 || !needs_q) continue;
      RowMajor<double> draft = good;
      draft.row(row).setConstant(NaN);
      CHECK(complaint_of_kind<TestType>(rule, uniform, draft, tokens)
                .find("draft row " + std::to_string(row)) != std::string::npos);
    }
  }
}

TEST_CASE("more rows than are kept in place are kept elsewhere") {
  // Logits that are read when they are made into rows: a row made twice would be read twice.
  struct Rows {
    std::vector<int>* made;
    Index rows() const { return static_cast<Index>(made->size()); }
    Index vocab_size() const { return 2; }
    OneHotRow row(Index i) const {
      ++(*made)[static_cast<std::size_t>(i)];
      return OneHotRow(static_cast<Token>(i % 2));
    }
  };
  for (const Index gamma : {1, 31, 32, 33, 34, 40, 100}) {
    std::vector<int> made(static_cast<std::size_t>(gamma) + 1, 0);
    std::vector<Token> tokens;
    for (Index i = 0; i < gamma; ++i) tokens.push_back(static_cast<Token>(i % 2));
    const auto check = [&](auto verifier) {
      std::mt19937_64 rng{1};
      CHECK(verifier(Rows{&made}, OneHotRows(tokens), tokens, rng) ==
            Verdict{gamma, static_cast<Token>(gamma % 2)});
    };
    check(BlockVerifier{});
    for (const int times : made) CHECK(times == 1);
    check(TokenVerifier{});
    check(GreedyBlockVerifier{});
    for (const int times : made) CHECK(times == 3);
  }
}

TEMPLATE_TEST_CASE("rows behind a token that the target rules out are not read", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier) {
  // As a grammar leaves them: the target forbids token 0, and knows no row behind it.
  const float no = -std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const float unknown : {no, nan}) {
    RowMajor<float> target(3, 3), draft = RowMajor<float>::Zero(2, 3);
    target << no, 0, 0, unknown, unknown, unknown, unknown, unknown, unknown;
    const std::vector<Token> tokens{0, 1};
    std::mt19937_64 rng{1};
    for (int i = 0; i < 20; ++i) {
      const Verdict verdict = TestType{}(Logits{target}, Logits{draft}, tokens, rng);
      CHECK(verdict.accepted == 0);
      CHECK(verdict.token > 0);
    }
  }
}

TEST_CASE("a drafted token of logit NaN is told from one of probability 0") {
  RowMajor<float> target = RowMajor<float>::Zero(2, 2), draft = RowMajor<float>::Zero(1, 2);
  const std::vector<Token> tokens{0};
  std::mt19937_64 rng{1};
  const auto complaint = [&](float logit) {
    draft(0, 0) = logit;
    return message_of([&] { BlockVerifier{}(Logits{target}, Logits{draft}, tokens, rng); });
  };
  CHECK(complaint(std::numeric_limits<float>::quiet_NaN()).starts_with("specdec: draft row 0: "));
  CHECK(complaint(-std::numeric_limits<float>::infinity()) ==
        "specdec: tokens[0] = 0 has probability 0 in draft row 0, so it was not drawn from it");
}

TEST_CASE("a one-hot id beyond 32 bits is no other token") {
  const std::vector<std::int64_t> ids{(std::int64_t{1} << 32) + 1};
  const std::vector<Token> tokens{1};
  const Eigen::MatrixXd target = Eigen::MatrixXd::Constant(2, 2, 0.5);
  std::mt19937_64 rng{1};
  CHECK(message_of([&] { BlockVerifier{}(target, OneHotRows(ids), tokens, rng); }) ==
        "specdec: tokens[0] = 1 has probability 0 in draft row 0, so it was not drawn from it");
}
