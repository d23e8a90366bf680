// Several processors together, and the small ones: minimum length, biases, processors that start after the prompt.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <cstdint>
#include <limits>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/more/samplers/min_length.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/sample/text_processor.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_samplers_processors {

using namespace specdec;
using support::message_of;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Records what it is told. It refuses one token, and throws for another.
struct Notes {
  std::string* log;
  char name;
  Token refused = -1, thrown = -1;

  void apply(auto&& logits) const { logits *= 2; }
  bool push(Token x) const {
    if (x == thrown) throw std::runtime_error("no");
    if (x == refused) return false;
    *log += name + std::to_string(x) + " ";
    return true;
  }
  void pop(Index n) const { *log += name + ("-" + std::to_string(n)) + " "; }
};

template <class P>
Eigen::RowVectorXd applied(P& processor, Eigen::RowVectorXd logits) {
  processor.apply(Eigen::Ref<Eigen::RowVectorXd>(logits));
  return logits;
}

}  // namespace

static_assert(TextProcessor<Processors<>> && TextProcessor<Processors<MinLength, AfterPrompt<LogitBias>>>);

TEST_CASE("processors are applied in the order written, and take a token all together or not at all") {
  std::string log;
  const auto told = [&] { return std::exchange(log, ""); };
  Processors tested{Notes{&log, 'a'}, LogitBias{{0, 1.0}}, Notes{&log, 'b', 3, 4}};
  CHECK(applied(tested, Eigen::RowVector2d(1, 5)) == Eigen::RowVector2d(6, 20));
  CHECK(tested.push(1));
  CHECK(told() == "a1 b1 ");
  CHECK(!tested.push(3));
  CHECK(told() == "a3 a-1 ");
  CHECK_THROWS_AS(tested.push(4), std::runtime_error);
  CHECK(told() == "a4 a-1 ");
  tested.pop(2);
  CHECK(told() == "a-2 b-2 ");
}

TEST_CASE("a processor that starts after the prompt is not shown the prompt") {
  std::string log;
  const auto told = [&] { return std::exchange(log, ""); };
  AfterPrompt tested{2, Notes{&log, 'a', 3}};
  const auto changes = [&] { return applied(tested, Eigen::RowVector2d(1, 1))[0] == 2; };
  CHECK(tested.push(3));
  CHECK(!changes());
  CHECK(tested.push(4));
  CHECK(changes());
  CHECK(told().empty());
  CHECK(!tested.push(3));
  CHECK(tested.push(5));
  CHECK(told() == "a5 ");
  tested.pop(2);
  CHECK(told() == "a-1 ");
  CHECK(!changes());
  CHECK(tested.push(3));
  tested.push(6);
  tested.push(7);
  CHECK(told() == "a6 a7 ");
  tested.pop(1);
  CHECK(told() == "a-1 ");
  CHECK(message_of([&] { AfterPrompt{-1, LogitBias{}}; }) == "specdec: prompt_length = -1 is negative");
  const std::vector<Token> prompt{3, 3};
  AfterPrompt of_size{prompt.size(), Notes{&log, 'b', 3}};
  CHECK(of_size.push(3));
  CHECK(of_size.push(3));
  CHECK(!of_size.push(3));
  CHECK(message_of([&] {
          AfterPrompt{~std::size_t{0}, LogitBias{}};
        }) == "specdec: prompt_length = 18446744073709551615 is more than 9223372036854775807");
}

TEST_CASE("a text does not end before its minimum length") {
  MinLength tested{2, {1, 9}};
  const Eigen::RowVectorXd logits = Eigen::RowVector3d(1, 2, 3);
  CHECK(applied(tested, logits) == Eigen::RowVector3d(1, -infinity, 3));
  tested.push(0);
  CHECK(applied(tested, logits)[1] == -infinity);
  tested.push(0);
  CHECK(applied(tested, logits) == logits);
  tested.pop(1);
  CHECK(applied(tested, logits)[1] == -infinity);
  const std::vector<std::int64_t> wide{0}, negative{1, -1};
  MinLength of_wide{1, wide};
  CHECK(applied(of_wide, logits)[0] == -infinity);
  CHECK(message_of([] { MinLength{-1, {0}}; }) == "specdec: MinLength: n = -1 is negative");
  CHECK(message_of([&] { MinLength{1, negative}; }).starts_with("specdec: ends[1] = -1 is outside"));
}

TEST_CASE("biases are added, and biases for ids that the row does not have are ignored") {
  LogitBias tested{{0, 0.5}, {2, -infinity}, {0, 0.25}, {7, 1.0}};
  tested.push(0);
  CHECK(applied(tested, Eigen::RowVector3d(1, 2, 3)) == Eigen::RowVector3d(1.75, 2, -infinity));
  constexpr float most = std::numeric_limits<float>::max();
  LogitBias large{{0, 1e39}, {0, 1e39}, {1, -1e39}, {1, -1e39}, {2, -infinity}, {2, 1e39}, {3, -infinity}};
  Eigen::RowVector4f narrow(1, 1, 1, most);
  large.apply(Eigen::Ref<Eigen::RowVectorXf>(narrow));
  const float never = -std::numeric_limits<float>::infinity();
  CHECK(narrow == Eigen::RowVector4f(most, -most, never, never));
  CHECK(message_of([] { LogitBias{{0, 1.0}, {-3, 1.0}}; }) == "specdec: biases[1].token = -3 is negative");
  CHECK(message_of([] {
          LogitBias{{0, infinity}};
        }) == "specdec: biases[0].bias = inf is neither finite nor -inf");
  CHECK(message_of([] {
          LogitBias{{0, std::numeric_limits<double>::quiet_NaN()}};
        }) == "specdec: biases[0].bias = nan is neither finite nor -inf");
}

}  // namespace test_more_samplers_processors
