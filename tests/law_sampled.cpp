// The first law again, by sampling: real generators, real draws, the race as it is run.
// Each check has a false-alarm rate of 1e-6; the seeds are fixed.
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "catch.hpp"
#include "support.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

template <class V, class Layout, class Generator>
void check_joint_law(Index gamma, Generator rng) {
  std::mt19937_64 models{51};
  LayoutModel<Layout> target(TableModel<typename Layout::Scalar>::random(3, 2, models));
  ModelDrafter drafter{LayoutModel<Layout>(TableModel<typename Layout::Scalar>::random(3, 2, models))};
  SpecDec decoder{target, drafter, V{}};
  const std::vector<Token> prompt{2, 1};
  const Options options{.max_new_tokens = 5, .gamma = gamma};
  const auto report = check_sampled([&] { return decoder.generate(prompt, options, rng).tokens; },
                                    target_law(target, prompt, options), 60000);
  INFO(report);
  CHECK(report.accepted);
  CHECK(report.degrees > 20);
}

}  // namespace

TEMPLATE_TEST_CASE("the sampled joint law of five tokens is the target's", "[law][sampled]", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  check_joint_law<TestType, AsRowMajor<float>>(3, std::mt19937_64{1});
  check_joint_law<TestType, AsColMajor<double>>(4, std::mt19937_64{2});
  check_joint_law<TestType, AsRowMajor<double>>(2, std::mt19937{3});
  check_joint_law<TestType, AsStridedMap<float>>(1, std::minstd_rand{4});
}
