// The trained transformers that are committed: what they write, and that the rules are lossless on them.
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "trained_pair.hpp"

using namespace specdec;
using namespace specdec::testing;
using generate::sampled;
using support::TrainedPair;

namespace {

std::string text_of(const std::vector<Token>& prompt, const std::vector<Token>& tokens) {
  std::string text;
  Token before = prompt.back();
  for (const Token token : tokens) {
    text += support::trained_tokenizer().decode(before, token);
    before = token;
  }
  return text;
}

}  // namespace

TEMPLATE_TEST_CASE("greedy decoding with the trained pair goes on as it did", "", float, Eigen::half) {
  auto& [target, draft] = support::trained_pair<TestType>();
  const std::vector<Token> prompt = support::trained_tokenizer().encode("The Secretary of the Treasury");
  std::mt19937_64 rng{1};
  SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(draft, 0)}};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 40, .gamma = 4}, rng);
  CHECK(text_of(prompt, r.tokens) ==
        " has, however, been received from the Treasury for the first quarter of the present year, and the "
        "amount of the public debt during the f");
  CHECK(r.stats.block_efficiency() > 1.5);
}

TEMPLATE_TEST_CASE("at temperature 0 every rule writes what the trained target alone writes", "",
                   TokenVerifier, BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier, ArgmaxVerifier) {
  auto& [target, draft] = support::trained_pair<float>();
  std::mt19937_64 rng{1};
  for (const char* text : {"Call me", "The people of the United States"}) {
    const std::vector<Token> prompt = support::trained_tokenizer().encode(text);
    const auto alone = autoregressive(sampled(target, 0), prompt, {.max_new_tokens = 60}, rng).tokens;
    for (const Index gamma : {1, 3, 8, 16}) {
      SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(draft, 0)}, TestType{}};
      CHECK(decoder.generate(prompt, {.max_new_tokens = 60, .gamma = gamma}, rng).tokens == alone);
    }
  }
}

namespace {
template <class V>
SampledReport check_trained_pair(V verifier) {
  TrainedPair<float> models = support::trained_pair<float>();
  SpecDec decoder{sampled(models.target, 1), ModelDrafter{sampled(models.draft, 1)}, verifier};
  return support::check_trained([&](const auto& prompt, const Options& options, auto& rng) {
    return decoder.generate(prompt, options, rng);
  });
}
}  // namespace

// False-alarm rate 1e-6 each; the seed is fixed.
TEMPLATE_TEST_CASE("what the trained pair writes follows the target's distribution, token after token",
                   "[law][sampled]", TokenVerifier, BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier) {
  const auto report = check_trained_pair(TestType{});
  INFO(report);
  CHECK(report.accepted);
}

TEST_CASE("that check convicts a rule that accepts much more", "[law][sampled]") {
  const auto report = check_trained_pair(LenientVerifier{0.05});
  INFO(report);
  CHECK_FALSE(report.accepted);
}

TEST_CASE("a generation with the trained pair ends where the context is full") {
  auto& [target, draft] = support::trained_pair<float>();
  const std::vector<Token> prompt = support::trained_tokenizer().encode("It was");
  std::mt19937_64 rng{3};
  SpecDec decoder{sampled(target, 1), ModelDrafter{sampled(draft, 1)}};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 100000, .gamma = 4}, rng);
  CHECK(r.stop_reason == StopReason::context);
  CHECK(std::ssize(prompt) + std::ssize(r.tokens) == target.context_size() + 1);
}
