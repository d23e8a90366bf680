// SPDX-License-Identifier: MIT
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace test_testing_law {

using namespace specdec;
using namespace specdec::testing;

namespace {

// Lossless for `loyal` calls, then greedy: a verifier with state that it does not show.
struct Turncoat {
  int loyal = 2;
  Verdict judge(const auto& drafted, auto& chance) {
    support::AnyVerifier rule{TokenVerifier{}};
    if (loyal-- <= 0) rule = {ArgmaxVerifier{}};
    return rule.judge(drafted, chance);
  }
};

}  // namespace

TEST_CASE("the difference of two laws covers outputs that only one of them has") {
  const Law a{{{0}, 1.0}}, b{{{0}, 1.0}, {{1}, 0.5}};
  CHECK(largest_difference(a, a).size == 0);
  CHECK(largest_difference(a, b).size == 0.5);
  CHECK(largest_difference(b, a).size == 0.5);
  std::ostringstream printed;
  printed << specdec::testing::Difference{0.5, {1, 2}, 0.75, 0.25};
  CHECK(printed.str() == "0.5: output [1 2] has probability 0.75 and 0.25");
  CHECK(largest_difference(b, a).tokens == std::vector<Token>{1});
  CHECK(largest_difference(b, a).left == 0.5);
  CHECK(largest_difference(b, a).right == 0);
  const Law bad{{{0}, std::numeric_limits<double>::quiet_NaN()}};
  CHECK(std::isnan(largest_difference(a, bad).size));
}

TEST_CASE("the target's law is the product of its rows, up to a stop token") {
  std::mt19937_64 rng{1};
  const auto model = TableModel<>::random(3, 2, rng);
  const std::vector<Token> prompt{1, 2};
  const Law law = target_law(model, prompt, {.max_new_tokens = 3});
  double sum = 0;
  for (const auto& [tokens, p] : law) {
    REQUIRE(tokens.size() == 3);
    std::vector<Token> context = prompt;
    double product = 1;
    for (const Token x : tokens) {
      product *= model.distribution(context).probability(x);
      context.push_back(x);
    }
    CHECK(p == Approx(product));
    sum += p;
  }
  CHECK(sum == Approx(1));
  double stopped = 0;
  for (const auto& [tokens, p] : target_law(model, prompt, {.max_new_tokens = 3, .stop_tokens = {0}})) {
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) CHECK(tokens[i] != 0);
    CHECK((tokens.size() == 3 || tokens.back() == 0));
    stopped += p;
  }
  CHECK(stopped == Approx(1));
}

TEST_CASE("the greedy law is one output") {
  std::mt19937_64 rng{2};
  const auto model = TableModel<>::random(3, 2, rng);
  std::vector<Token> context{0};
  for (int i = 0; i < 4; ++i) context.push_back(model.distribution(context).argmax());
  const Law law = greedy_law(model, std::vector<Token>{0}, {.max_new_tokens = 4});
  CHECK(law == Law{{{context.begin() + 1, context.end()}, 1.0}});
}

TEST_CASE("expectations over a generation are exact") {
  // The toy models with γ = 1 and one drafted step of two tokens. The first call emits 5/3 tokens in the mean. A
  // second call is needed if the first emitted only one token.
  auto target = support::toy_target();
  SpecDec decoder{target, support::toy_drafter(), Turncoat{.loyal = 2}};
  const auto got = enumerate_generate(decoder, std::vector<Token>{0}, {.max_new_tokens = 2, .gamma = 1});
  CHECK(got.target_calls == Approx(1 + 1. / 3));
  CHECK(got.drafted == Approx(1));
  CHECK(got.accepted == Approx(2. / 3));
  CHECK(got.emitted == Approx(2));
  CHECK(got.block_efficiency() == Approx(1.5));
}

TEST_CASE("a text prints as its tokens") {
  CHECK(to_string(std::vector<Token>{}) == "[]");
  CHECK(to_string(std::vector<Token>{3, 0, 12}) == "[3 0 12]");
}

TEST_CASE("histories of a verifier with hidden state are not merged") {
  std::mt19937_64 rng{5};
  const std::vector<Token> prompt{0};
  const Options options{.max_new_tokens = 5, .gamma = 1};
  int biased = 0;
  for (int pair = 0; pair < 20; ++pair) {
    auto target = TableModel<>::random(2, 2, rng);
    SpecDec decoder{target, ModelDrafter{TableModel<>::random(2, 2, rng)}, Turncoat{}};
    const Law law = exact_generate(decoder, prompt, options).law;
    CHECK(largest_difference(law, enumerate_generate(decoder, prompt, options).law).size < 1e-12);
    biased += largest_difference(law, target_law(target, prompt, options)).size > 1e-3;
  }
  CHECK(biased > 10);
}

TEST_CASE("a generation too long to enumerate is named in the error") {
  using support::message_of;
  std::mt19937_64 rng{9};
  auto target = TableModel<>::random(2, 1, rng), small = TableModel<>::random(2, 1, rng);
  const std::vector<Token> prompt{0};
  SpecDec decoder{target, ModelDrafter{small}, BlockVerifier{}};
  const Options open{.max_new_tokens = unlimited};
  const std::string expected =
      "specdec: max_new_tokens = 9223372036854775807 is more than 4096, the longest output that is "
      "enumerated";
  CHECK(message_of([&] { target_law(target, prompt, open); }) == expected);
  CHECK(message_of([&] { greedy_law(target, prompt, open); }) == expected);
  CHECK(message_of([&] { enumerate_generate(decoder, prompt, open); }) == expected);
  CHECK(message_of([&] { exact_generate(decoder, prompt, open); }) == expected);
  CHECK(message_of([&] { target_law(target, prompt, {.max_new_tokens = -1}); }) ==
        "specdec: max_new_tokens = -1 is negative");
  CHECK(message_of([&] { target_law(target, std::vector<Token>{70000}, {.max_new_tokens = 1}); }) ==
        "specdec: context[0] = 70000 is outside the vocabulary 0..1");
}

}  // namespace test_testing_law
