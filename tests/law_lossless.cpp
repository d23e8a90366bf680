// The first law: the output is distributed as the target's. The shipped templates are enumerated exactly, each rule in
// its own type.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <random>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace law_lossless {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// V in {2, 3, 4} × γ in {1, 2, 3, 4} × 84 pairs are 1008.
const Index pairs = 84 / every(84);
const Index wide = 8 / every(4);
// The joint law covers as many tokens as the loop emits in at most this many iterations.
const Index length = std::max(bound(5, 6), 5);

template <class V>
LosslessReport check_pairs(const V& verifier) {
  return check_lossless(verifier,
                        {.models = pairs, .wide_models = wide, .max_new_tokens = length, .order = 3});
}

void check(const char* rule, const LosslessReport& report) {
  INFO(rule << ": " << report);
  CHECK(report.lossless);
  CHECK(report.models == 12 * pairs + wide);
  CHECK(report.worst_difference < 1e-12);
}

}  // namespace

TEST_CASE("every rule is lossless on over a thousand random pairs of models", "[law]") {
  check("token", check_pairs(TokenVerifier{}));
  check("block", check_pairs(BlockVerifier{}));
  check("greedy block", check_pairs(GreedyBlockVerifier{}));
  check("sample-match", check_pairs(SampleMatchVerifier{}));
  check("lenient", check_pairs(LenientVerifier{1.0}));
}

TEST_CASE("argmax verification gives greedy decoding, on over a thousand random pairs of models", "[law]") {
  check("argmax",
        check_lossless(
            ArgmaxVerifier{},
            {.models = pairs, .wide_models = wide, .max_new_tokens = 8, .reference = Reference::greedy}));
}

namespace {

// The law of one rule, computed in two ways: by the loop as it stands, with caches and rollback, and step by step with
// equal states merged.
struct TwoLaws {
  double difference = 0;  // between the loop's law and the target's
  double between = 0;     // between the two laws, and between the expectations under them
};

void compare(TwoLaws& laws, const GenerationLaw& loop, const GenerationLaw& merged, const Law& expected) {
  laws.difference = std::max(laws.difference, largest_difference(loop.law, expected).size);
  laws.between =
      std::max({laws.between, largest_difference(loop.law, merged.law).size,
                std::abs(loop.emitted - merged.emitted), std::abs(loop.target_calls - merged.target_calls),
                std::abs(loop.accepted - merged.accepted), std::abs(loop.drafted - merged.drafted)});
}

template <class V>
TwoLaws two_laws(const V& verifier, const Options& options, Index vocab_size, std::vector<Token> prompt) {
  std::mt19937_64 rng{21};
  TwoLaws laws;
  for (int pair = 0; pair < bound(3, 30); ++pair) {
    auto target = TableModel<>::random(vocab_size, 2, rng);
    ModelDrafter drafter{TableModel<>::random(vocab_size, 2, rng)};
    SpecDec decoder{target, drafter, verifier};
    const bool greedy = std::is_same_v<V, ArgmaxVerifier>;
    compare(laws, enumerate_generate(decoder, prompt, options), exact_generate(decoder, prompt, options),
            greedy ? greedy_law(target, prompt, options) : target_law(target, prompt, options));
  }
  return laws;
}

template <class V>
void check_loop(const char* rule, const V& verifier) {
  const auto expect = [&](const TwoLaws& laws) {
    INFO(rule);
    CHECK(laws.difference < 1e-12);
    CHECK(laws.between < 1e-11);
  };
  for (const Index gamma : {1, 2, 3}) {
    expect(two_laws(verifier, {.max_new_tokens = 5, .gamma = gamma}, 2, {1, 0}));
    expect(two_laws(verifier, {.max_new_tokens = 5, .gamma = gamma, .stop_tokens = {1}}, 3, {0}));
  }
}

}  // namespace

TEST_CASE("every rule is lossless with caches and rollback, over a whole budget and up to a stop token",
          "[law]") {
  check_loop("token", TokenVerifier{});
  check_loop("block", BlockVerifier{});
  check_loop("greedy block", GreedyBlockVerifier{});
  check_loop("sample-match", SampleMatchVerifier{});
  check_loop("lenient", LenientVerifier{1.0});
  check_loop("argmax", ArgmaxVerifier{});
}

namespace {

struct OneHotLaw {
  double difference = 0, drafted = 0;
};

template <class V>
OneHotLaw law_with_prompt_lookup(const V& verifier) {
  std::mt19937_64 rng{22};
  OneHotLaw found;
  for (int pair = 0; pair < bound(10, 40); ++pair) {
    auto target = TableModel<>::random(3, 2, rng);
    SpecDec decoder{target, PromptLookupDrafter{{.max_ngram = 2}}, verifier};
    const std::vector<Token> prompt{0, 1, 2, 0, 1, 1, 2, 0, 1};
    const Options options{.max_new_tokens = 6, .gamma = 3};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    found.difference =
        std::max(found.difference, largest_difference(got.law, target_law(target, prompt, options)).size);
    found.drafted += got.drafted;
  }
  return found;
}

}  // namespace

TEST_CASE("every rule is lossless with one-hot drafts", "[law]") {
  const auto check = [](const OneHotLaw& found) {
    CHECK(found.difference < 1e-12);
    CHECK(found.drafted > 1);
  };
  check(law_with_prompt_lookup(BlockVerifier{}));
  for (const AnyVerifier& rule : sampling_rules) check(law_with_prompt_lookup(for_loops(rule)));
}

}  // namespace law_lossless
