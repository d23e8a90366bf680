// Matchers as processors: masks of any length, and snapshots for matchers that cannot go back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/snapshots.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_sample_grammar {

using namespace specdec;

namespace {

// Allows tokens whose sum with the last one is not a multiple of 3.
class Sums {
 public:
  void allow(std::span<std::uint32_t> mask) const {
    for (std::uint32_t x = 0; x < 32 * mask.size(); ++x)
      if ((last_ + x) % 3 != 0) mask[x / 32] |= std::uint32_t{1} << (x % 32);
  }
  bool advance(Token x) {
    if ((last_ + static_cast<std::uint32_t>(x)) % 3 == 0) return false;
    last_ = static_cast<std::uint32_t>(x);
    return true;
  }

 private:
  std::uint32_t last_ = 1;
};

// Allows all of its tokens, and sets all bits of its mask.
struct All {
  Index tokens;
  Index vocab_size() const { return tokens; }
  void allow(std::span<std::uint32_t> mask) const {
    CHECK(std::ssize(mask) == (tokens + 31) / 32);
    std::ranges::fill(mask, ~std::uint32_t{0});
  }
  bool advance(Token x) const { return x < tokens; }
};

// A state that is its text, and is destroyed by a failure. Copies and pushes throw on request.
struct Text {
  std::vector<Token> tokens = {};
  std::shared_ptr<int> calls_left = std::make_shared<int>(0);
  Index* pushes = nullptr;

  Text() = default;
  Text(const Text& other) : calls_left(other.calls_left), pushes(other.pushes) { *this = other; }
  Text(Text&&) noexcept = default;
  Text& operator=(const Text& other) {
    tokens.assign(1, -7);  // half of the assignment
    count();
    tokens = other.tokens;
    return *this;
  }
  Text& operator=(Text&&) noexcept = default;

  void apply(auto&& logits) const { logits[0] = static_cast<float>(tokens.size()); }
  bool push(Token x) {
    if (pushes != nullptr) ++*pushes;
    const std::vector<Token> before = tokens;
    tokens.assign(1, -7);
    count();
    if (x == 9) return false;
    tokens = before;
    tokens.push_back(x);
    return true;
  }
  void count() const {
    if (--*calls_left == 0) throw std::runtime_error("no");
  }
};

}  // namespace

static_assert(GrammarMatcher<Sums> && TextProcessor<Grammar<Sums>> && TextProcessor<Snapshots<Text>>);

TEST_CASE("a grammar forbids the tokens that its mask leaves out, for every vocabulary size") {
  for (const Index size : {1, 31, 32, 33, 100}) {
    Grammar grammar{Sums{}};
    for (const Token pushed : {-1, 3, 4}) {
      if (pushed >= 0) CHECK(grammar.push(pushed));
      Eigen::RowVectorXd logits = Eigen::RowVectorXd::LinSpaced(size, 1, 2);
      grammar.apply(Eigen::Ref<Eigen::RowVectorXd>(logits));
      for (Index x = 0; x < size; ++x) {
        const bool forbidden = (x + (pushed < 0 ? 1 : pushed)) % 3 == 0;
        CHECK(logits[x] == (forbidden ? -std::numeric_limits<double>::infinity()
                                      : Eigen::RowVectorXd::LinSpaced(size, 1, 2)[x]));
      }
    }
    CHECK(!grammar.push(2));
  }
}

TEST_CASE("a mask has the size that the matcher declares, whatever the size of the row") {
  for (const Index tokens : {1, 32, 40})
    for (const Index size : {1, 31, 33, 100}) {
      Grammar grammar{All{tokens}};
      Eigen::RowVectorXf logits = Eigen::RowVectorXf::Ones(size);
      grammar.apply(Eigen::Ref<Eigen::RowVectorXf>(logits));
      for (Index x = 0; x < size; ++x)
        CHECK(logits[x] == (x < tokens ? 1 : -std::numeric_limits<float>::infinity()));
    }
}

TEST_CASE("a matcher that knows more tokens than the row has writes nothing after the row") {
  struct Even {  // the even ones of 70 tokens
    static Index vocab_size() { return 70; }
    static void allow(std::span<std::uint32_t> mask) { std::ranges::fill(mask, 0x55555555u); }
    static bool advance(Token x) { return x % 2 == 0; }
  };
  for (const Index size : {1, 3, 32, 33, 65}) {
    Eigen::RowVectorXf numbers = Eigen::RowVectorXf::Ones(128);
    Grammar{Even{}}.apply(numbers.head(size));
    for (Index x = 0; x < numbers.size(); ++x)
      CHECK(numbers[x] == (x < size && x % 2 == 1 ? -std::numeric_limits<float>::infinity() : 1));
  }
}

TEST_CASE("snapshots bring a state back to any place of its text, whatever fails on the way") {
  for (const Index most : {1, 3, 64}) {
    std::mt19937_64 rng{static_cast<std::uint64_t>(most)};
    const auto below = [&](Index end) {
      return static_cast<Index>(uniform01(rng) * static_cast<double>(end));
    };
    Text first;
    Snapshots tested{first, most};
    std::vector<Token> text;
    int failed = 0;
    for (int n = 0; n < 1000; ++n) {
      const Index back = std::min(below(n % 40 == 0 ? 100 : 5), std::ssize(text));
      tested.pop(back);
      text.resize(text.size() - static_cast<std::size_t>(back));
      for (Index more = below(6); more > 0; --more) {
        const auto x = static_cast<Token>(below(10));
        *first.calls_left = static_cast<int>(below(20));
        try {
          const bool pushed = tested.push(x);
          REQUIRE(pushed == (x != 9));
          if (pushed) text.push_back(x);
        } catch (const std::runtime_error&) {
          ++failed;
        }
        *first.calls_left = 0;
      }
      REQUIRE(tested.state().tokens == text);
    }
    CHECK(failed > 50);
  }
  CHECK(support::message_of([] {
          Snapshots{Text{}, 0};
        }) == "specdec: most = 0: there is a snapshot at least");
}

TEST_CASE("going back to a snapshot pushes no token again") {
  Index pushes = 0;
  Text first;
  first.pushes = &pushes;
  Snapshots tested{first, 4};
  for (Token x = 0; x < 8; ++x) tested.push(x);
  tested.pop(2);
  tested.pop(2);
  CHECK(tested.state().tokens.size() == 4);
  CHECK(pushes == 8);
  tested.pop(1);
  CHECK(tested.state().tokens.size() == 3);
  CHECK(pushes == 11);
  for (Token x = 0; x < 3; ++x) tested.push(x);  // snapshots are taken again
  tested.pop(3);
  CHECK(tested.state().tokens.size() == 3);
  CHECK(pushes == 14);
}

}  // namespace test_sample_grammar
