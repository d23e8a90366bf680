// SPDX-License-Identifier: MIT
#include <cmath>
#include <map>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_verify_lenient {

using namespace specdec;
using support::AnyVerifier;
using support::message_of;

static_assert(Verifier<LenientVerifier>);

namespace {

using support::near;
using support::probability_of;
using support::toy_line;

// Worked by hand on the paper's example, and by the compiler: A survives with p/(l·q) = 2/3, and is corrected to B.
static_assert(near(probability_of(Verdict{0, 1}, LenientVerifier{0.75}, toy_line), 1. / 3));
static_assert(near(probability_of(Verdict{1, 1}, LenientVerifier{0.75}, toy_line), 2. / 9));
static_assert(near(probability_of(Verdict{2, 0}, LenientVerifier{0.75}, toy_line), 4. / 27));

}  // namespace

TEST_CASE("lenience is in (0, 1]") {
  CHECK(LenientVerifier{}.lenience() == 1);
  CHECK(LenientVerifier{0.5}.lenience() == 0.5);
  CHECK(message_of([] { LenientVerifier{0.0}; }) == "specdec: lenience = 0 is outside (0, 1]");
  CHECK(message_of([] { LenientVerifier{1.5}; }) == "specdec: lenience = 1.5 is outside (0, 1]");
  CHECK(message_of([] { LenientVerifier{1e-310}; }) == "specdec: lenience = 1e-310 is outside (0, 1]");
  CHECK(message_of([] { LenientVerifier{std::nan("")}; }) == "specdec: lenience = nan is outside (0, 1]");
}

TEST_CASE("lenient verification, worked by hand") {
  // l = 1/2: x is kept with min(1, 2p/q), else replaced from (p − q/2)+ = (0.3125, 0, 0.3125).
  support::RowMajor<double> target(2, 3), draft(1, 3);
  target << 0.5, 0.125, 0.375, 1, 0, 0;
  draft << 0.375, 0.5, 0.125;
  std::map<std::pair<Index, Token>, double> verdicts;
  testing::enumerate([&](testing::Enumerator& chance) {
    const std::vector<Token> tokens{1};
    const Verdict v = AnyVerifier{LenientVerifier{0.5}}(target, draft, tokens, chance);
    verdicts[{v.accepted, v.token}] += chance.probability();
  });
  CHECK(verdicts.size() == 3);
  CHECK(verdicts.at({1, 0}) == Approx(0.5));
  CHECK(verdicts.at({0, 0}) == Approx(0.25));
  CHECK(verdicts.at({0, 2}) == Approx(0.25));
}

TEST_CASE("the lenient acceptance rate is Σ min(p/l, q)") {
  support::RowMajor<double> target(2, 2), draft(1, 2);
  target << 1.0 / 3, 2.0 / 3, 1.0 / 3, 2.0 / 3;
  draft << 2.0 / 3, 1.0 / 3;
  const auto accepted = [&](double lenience) {
    double sum = 0;
    testing::enumerate([&](testing::Enumerator& chance) {
      const std::vector<Token> tokens{chance.draw(distributions(draft).row(0))};
      const Verdict v = AnyVerifier{LenientVerifier{lenience}}(target, draft, tokens, chance);
      sum += chance.probability() * static_cast<double>(v.accepted);
    });
    return sum;
  };
  CHECK(accepted(1.0) == Approx(2. / 3));
  CHECK(accepted(0.8) == Approx(5. / 12 + 1. / 3));
  CHECK(accepted(0.5) == Approx(1));
}

}  // namespace test_verify_lenient
