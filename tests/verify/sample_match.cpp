// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/constant_draft.hpp"
#include "support/layouts.hpp"
#include "support/rules.hpp"

namespace test_verify_sample_match {

using namespace specdec;

static_assert(Verifier<SampleMatchVerifier>);

namespace {

using support::near;
using support::probability_of;
using support::toy_line;

// Worked by hand on the paper's example, and by the compiler: each A of the draft AA is the target's draw with probability 1/3.
static_assert(near(probability_of(Verdict{0, 1}, SampleMatchVerifier{}, toy_line), 2. / 3));
static_assert(near(probability_of(Verdict{1, 1}, SampleMatchVerifier{}, toy_line), 2. / 9));
static_assert(near(probability_of(Verdict{2, 0}, SampleMatchVerifier{}, toy_line), 1. / 27));

}  // namespace

TEST_CASE("sample-and-match emits exactly the target's own draws") {
  Eigen::MatrixXd target(3, 4);
  target.setConstant(0.25);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 rng{seed}, twin{seed};
    const std::vector<Token> tokens{2, 1};
    const Verdict v = SampleMatchVerifier{}(target, tokens, rng);
    RandomChance chance{twin};
    for (Index i = 0; i <= v.accepted; ++i) {
      const Token y = chance.draw(distributions(target).row(i));
      CHECK(y == (i < v.accepted ? tokens[static_cast<std::size_t>(i)] : v.token));
    }
    CHECK(rng == twin);
  }
}

TEST_CASE("sample-and-match accepts Σ p·q where token verification accepts Σ min(p, q)") {
  support::RowMajor<double> target(2, 2), draft(1, 2);
  target << 1.0 / 3, 2.0 / 3, 1.0 / 3, 2.0 / 3;
  draft << 2.0 / 3, 1.0 / 3;
  const auto accepted = [&](const support::AnyVerifier& rule) {
    double sum = 0;
    testing::enumerate([&](testing::Enumerator& chance) {
      const std::vector<Token> tokens{chance.draw(distributions(draft).row(0))};
      const Verdict v = support::AnyVerifier(rule)(target, draft, tokens, chance);
      sum += chance.probability() * static_cast<double>(v.accepted);
    });
    return sum;
  };
  CHECK(accepted({SampleMatchVerifier{}}) == Approx(4. / 9));
  CHECK(accepted({TokenVerifier{}}) == Approx(6. / 9));
}

}  // namespace test_verify_sample_match
