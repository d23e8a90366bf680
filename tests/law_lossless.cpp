// The first law: the output is distributed as the target's. Exact, by enumeration of the shipped templates.
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/models.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

TEMPLATE_TEST_CASE("lossless on over a thousand random pairs of models", "[law]", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier, LenientVerifier) {
  // V in {2, 3, 4} × γ in {1, 2, 3, 4} × 84 pairs; joint law of six tokens, so up to six iterations.
  const LosslessReport report = check_lossless(TestType{}, {.models = 84, .max_new_tokens = 6, .order = 3});
  INFO(report);
  CHECK(report.lossless);
  CHECK(report.models == 1008);
  CHECK(report.worst_difference < 1e-12);
}

TEST_CASE("argmax verification gives greedy decoding, on over a thousand random pairs of models", "[law]") {
  const LosslessReport report =
      check_lossless(ArgmaxVerifier{}, {.models = 84, .max_new_tokens = 8, .reference = Reference::greedy});
  INFO(report);
  CHECK(report.lossless);
  CHECK(report.models == 1008);
}

namespace {

// The loop as it stands, caches and rollback included, over rows of one layout for the target and another for
// the draft.
template <class V, class TargetLayout, class DraftLayout>
void check_layouts() {
  std::mt19937_64 rng{21};
  for (const Index gamma : {1, 2, 3}) {
    for (int pair = 0; pair < 3; ++pair) {
      LayoutModel<TargetLayout> target(TableModel<typename TargetLayout::Scalar>::random(2, 2, rng));
      ModelDrafter drafter{
          LayoutModel<DraftLayout>(TableModel<typename DraftLayout::Scalar>::random(2, 2, rng))};
      SpecDec decoder{target, drafter, V{}};
      const std::vector<Token> prompt{1, 0};
      const Options options{.max_new_tokens = 5, .gamma = gamma};
      const GenerationLaw got = enumerate_generate(decoder, prompt, options);
      const bool greedy = std::is_same_v<V, ArgmaxVerifier>;
      const Law expected = greedy ? greedy_law(target, prompt, options) : target_law(target, prompt, options);
      CHECK(largest_difference(got.law, expected).size < 1e-12);
      CHECK(got.emitted == Approx(5));
      // The same by steps with merged states.
      const GenerationLaw merged = exact_generate(decoder, prompt, options);
      CHECK(largest_difference(got.law, merged.law).size < 1e-12);
      CHECK(got.target_calls == Approx(merged.target_calls).epsilon(1e-12));
      CHECK(got.accepted == Approx(merged.accepted).epsilon(1e-12));
      CHECK(got.drafted == Approx(merged.drafted).epsilon(1e-12));
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("lossless for every scalar and layout", "[law]", TokenVerifier, BlockVerifier,
                   GreedyBlockVerifier, SampleMatchVerifier, ArgmaxVerifier) {
  check_layouts<TestType, AsRowMajor<double>, AsColMajor<double>>();
  check_layouts<TestType, AsColMajor<float>, AsRowMajor<float>>();
  check_layouts<TestType, AsStridedMap<float>, AsRefOfBlock<double>>();
  check_layouts<TestType, AsRefOfBlock<float>, AsStridedMap<float>>();
  check_layouts<TestType, AsColMajorBlock<double>, AsColMajorBlock<float>>();
}

TEMPLATE_TEST_CASE("lossless with one-hot drafts", "[law]", TokenVerifier, BlockVerifier, GreedyBlockVerifier,
                   SampleMatchVerifier) {
  std::mt19937_64 rng{22};
  for (int pair = 0; pair < 40; ++pair) {
    auto target = TableModel<>::random(3, 2, rng);
    SpecDec decoder{target, PromptLookupDrafter{{.max_ngram = 2}}, TestType{}};
    const std::vector<Token> prompt{0, 1, 2, 0, 1, 1, 2, 0, 1};
    const Options options{.max_new_tokens = 6, .gamma = 3};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    CHECK(largest_difference(got.law, target_law(target, prompt, options)).size < 1e-12);
    CHECK(got.drafted > 0);
  }
}

TEMPLATE_TEST_CASE("lossless up to a stop token", "[law]", TokenVerifier, BlockVerifier, GreedyBlockVerifier,
                   SampleMatchVerifier) {
  std::mt19937_64 rng{23};
  for (int pair = 0; pair < 20; ++pair) {
    auto target = TableModel<>::random(3, 2, rng);
    SpecDec decoder{target, ModelDrafter{TableModel<>::random(3, 2, rng)}, TestType{}};
    const std::vector<Token> prompt{0};
    const Options options{.max_new_tokens = 5, .gamma = 3, .stop_tokens = {1}};
    CHECK(
        largest_difference(exact_generate(decoder, prompt, options).law, target_law(target, prompt, options))
            .size < 1e-12);
  }
}
