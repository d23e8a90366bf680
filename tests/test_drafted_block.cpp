// What every verifier refuses, and what it defines: shapes, ids, q = 0, numbers that are no probabilities.
#include <cmath>
#include <limits>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "catch.hpp"
#include "support.hpp"

using namespace specdec;
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
    in.draft.conservativeResize(2, 2);
    CHECK(in.complaint(verifier) == "specdec: draft has a vocabulary of 2, target of 3");
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
