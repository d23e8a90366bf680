#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/models.hpp"

using namespace specdec;

static_assert(Verifier<SampleMatchVerifier>);

TEST_CASE("sample-and-match emits just the target's own draws") {
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
  auto target = support::toy_target();
  auto drafter = support::toy_drafter();
  const std::vector<Token> prompt{0};
  CHECK(testing::exact_step(target, drafter, SampleMatchVerifier{}, prompt, 1).expected_accepted() ==
        Approx(4. / 9));
  CHECK(testing::exact_step(target, drafter, TokenVerifier{}, prompt, 1).expected_accepted() ==
        Approx(6. / 9));
}
