// The shipped trained transformers: the text that they write, and that the rules are lossless on them.
// SPDX-License-Identifier: MIT
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"
#include "trained_pair.hpp"

namespace test_examples_trained_pair {

using namespace specdec;
using namespace specdec::testing;
using generate::sampled;
using support::AnyVerifier;
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

// The text is a recording of what the pair wrote when its weights were committed. With new weights, take the new text from
// the output of the failing test, if the next test passes: that test says that the text is the target's own.
TEMPLATE_TEST_CASE("greedy decoding with the trained pair goes on as it did", "", float, Eigen::half) {
  auto& [target, draft] = support::trained_pair<TestType>();
  const std::vector<Token> prompt = support::trained_tokenizer().encode("The Secretary of the Treasury");
  std::mt19937_64 rng{1};
  SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(draft, 0)}, AnyVerifier{BlockVerifier{}}};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 40, .gamma = 4}, rng);
  CHECK(text_of(prompt, r.tokens) ==
        " has, however, been received from the Treasury for the first quarter of the present year, and the "
        "amount of the public debt during the f");
  CHECK(r.stats.block_efficiency() > 1.5);
}

TEST_CASE("at temperature 0 every rule writes what the trained target alone writes") {
  auto& [target, draft] = support::trained_pair<float>();
  std::mt19937_64 rng{1};
  for (const char* text : {"Call me", "The people of the United States"}) {
    const std::vector<Token> prompt = support::trained_tokenizer().encode(text);
    const auto alone = autoregressive(sampled(target, 0), prompt, {.max_new_tokens = 60}, rng).tokens;
    for (const AnyVerifier& rule :
         {AnyVerifier{TokenVerifier{}}, AnyVerifier{BlockVerifier{}}, AnyVerifier{GreedyBlockVerifier{}},
          AnyVerifier{SampleMatchVerifier{}}, AnyVerifier{ArgmaxVerifier{}}})
      for (const Index gamma :
           support::exhaustive() ? std::vector<Index>{1, 3, 8, 16} : std::vector<Index>{3, 16}) {
        INFO(rule.name() << ", gamma " << gamma);
        SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(draft, 0)}, rule};
        CHECK(decoder.generate(prompt, {.max_new_tokens = 60, .gamma = gamma}, rng).tokens == alone);
      }
  }
}

namespace {
support::TrainedReport check_trained_pair(const AnyVerifier& rule) {
  TrainedPair<float> models = support::trained_pair<float>();
  SpecDec decoder{sampled(models.target, 1), ModelDrafter{sampled(models.draft, 1)}, rule};
  return support::check_trained([&](const auto& prompt, const Options& options, auto& rng) {
    return decoder.generate(prompt, options, rng).tokens;
  });
}
}  // namespace

// False-alarm rate 1e-6 each; the seed is fixed. The usual run tests the rule that remembers, --all also the
// rule that uses no ratios; law_lossless tests all rules.
TEST_CASE("what the trained pair writes follows the target's distribution, token after token",
          "[law][sampled]") {
  for (const AnyVerifier& rule : {AnyVerifier{GreedyBlockVerifier{}}, AnyVerifier{SampleMatchVerifier{}}}) {
    if (!support::exhaustive() && rule != AnyVerifier{GreedyBlockVerifier{}}) continue;
    const auto report = check_trained_pair(rule);
    INFO(rule.name() << ": " << report);
    CHECK(report.accepted());
  }
}

// The rule accepts a drafted token unless the target finds it more than 20 times less likely than the draft model does.
TEST_CASE("that check convicts a rule that accepts much more", "[law][sampled]") {
  const auto report = check_trained_pair(AnyVerifier{LenientVerifier{0.05}});
  INFO(report);
  CHECK(report.by_ratio > 3 * report.least);
  CHECK_FALSE(report.accepted());
}

TEST_CASE("a generation with the trained pair ends where the context is full") {
  auto& [target, draft] = support::trained_pair<float>();
  const std::vector<Token> prompt = support::trained_tokenizer().encode("It was");
  std::mt19937_64 rng{3};
  SpecDec decoder{sampled(target, 1), ModelDrafter{sampled(draft, 1)}, AnyVerifier{BlockVerifier{}}};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 100000, .gamma = 4}, rng);
  CHECK(r.stop_reason == StopReason::context);
  CHECK(std::ssize(prompt) + std::ssize(r.tokens) == target.context_size() + 1);
}

}  // namespace test_examples_trained_pair
