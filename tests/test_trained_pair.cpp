// The trained transformers that are committed: what they write, and that the rules are lossless on them.
#include <algorithm>
#include <cstddef>
#include <deque>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "catch.hpp"
#include "generate/sampled.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using namespace specdec;
using namespace specdec::testing;
using generate::sampled;

namespace {

const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";

template <class Scalar>
struct TrainedPair {
  transformer::Transformer<Scalar> target{weights + "target.bin"}, draft{weights + "draft.bin"};
};

template <class Scalar>
TrainedPair<Scalar>& pair() {
  static TrainedPair<Scalar> read;
  return read;
}

const transformer::Tokenizer& tokenizer() {
  static const transformer::Tokenizer read(weights + "tokenizer.bin", pair<float>().target.vocab_size());
  return read;
}

std::string text_of(const std::vector<Token>& prompt, const std::vector<Token>& tokens) {
  std::string text;
  Token before = prompt.back();
  for (const Token token : tokens) {
    text += tokenizer().decode(before, token);
    before = token;
  }
  return text;
}

// Turns what a decoder writes into triples of numbers that are independent and uniform on 0..3 if and only if
// every token follows the target's distribution given those before it: its place among the tokens by falling
// probability, in quarters of the mass; a token that lies across an edge takes either side by chance.
// Source: the randomised probability integral transform (Rosenblatt, 1952).
template <class V>
class Quarters {
 public:
  Quarters(V verifier, std::uint64_t seed)
      : decoder_(sampled(target_, 1), ModelDrafter{sampled(draft_, 1)}, verifier), rng_(seed) {
    for (const char* text : {"Call me", "The Congress of the United States", "He looked at the sea and said"})
      prompts_.push_back(tokenizer().encode(text));
  }

  std::vector<Token> operator()() {
    while (places_.size() < 3) write();
    const std::vector<Token> triple(places_.begin(), places_.begin() + 3);
    places_.erase(places_.begin(), places_.begin() + 3);
    return triple;
  }

 private:
  void write() {
    const std::vector<Token>& prompt = prompts_[texts_++ % prompts_.size()];
    const auto tokens =
        decoder_.generate(prompt, {.max_new_tokens = 12, .gamma = 3, .stop_tokens = {1, 2}}, rng_).tokens;
    std::vector<Token> all = prompt;
    all.insert(all.end(), tokens.begin(), tokens.end());
    oracle_.truncate(0);
    const auto rows = distributions(
        sampled_oracle_.forward(std::span<const Token>(all), static_cast<Index>(tokens.size()) + 1));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      places_.push_back(place(rows.row(static_cast<Index>(i)), tokens[i]));
  }

  template <class Row>
  Token place(const Row& row, Token x) {
    const double p = row.probability(x);
    double before = uniform01(rng_) * p;
    for (Token y = 0; y < row.vocab_size(); ++y) {
      const double other = row.probability(y);
      if (other > p || (other == p && y < x)) before += other;
    }
    return static_cast<Token>(std::clamp(before * 4, 0.0, 3.0));
  }

  transformer::Transformer<float> target_ = pair<float>().target, draft_ = pair<float>().draft;
  transformer::Transformer<float> oracle_ = pair<float>().target;
  using Sampled = decltype(sampled(target_, 1));
  Sampled sampled_oracle_ = sampled(oracle_, 1);
  SpecDec<Sampled, ModelDrafter<Sampled>, V> decoder_;
  std::vector<std::vector<Token>> prompts_;
  std::mt19937_64 rng_;
  std::size_t texts_ = 0;
  std::deque<Token> places_;
};

}  // namespace

TEMPLATE_TEST_CASE("greedy decoding with the trained pair goes on as it did", "", float, Eigen::half) {
  auto& [target, draft] = pair<TestType>();
  const std::vector<Token> prompt = tokenizer().encode("The Secretary of the Treasury");
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
  auto& [target, draft] = pair<float>();
  std::mt19937_64 rng{1};
  for (const char* text : {"Call me", "The people of the United States"}) {
    const std::vector<Token> prompt = tokenizer().encode(text);
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
  Law even;
  for (Token cell = 0; cell < 64; ++cell) even[{cell / 16, cell / 4 % 4, cell % 4}] = 1.0 / 64;
  return check_sampled(Quarters<V>(verifier, 7), even, 1000);
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
  auto& [target, draft] = pair<float>();
  const std::vector<Token> prompt = tokenizer().encode("It was");
  std::mt19937_64 rng{3};
  SpecDec decoder{sampled(target, 1), ModelDrafter{sampled(draft, 1)}};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 100000, .gamma = 4}, rng);
  CHECK(r.stop_reason == StopReason::context);
  CHECK(std::ssize(prompt) + std::ssize(r.tokens) == target.context_size() + 1);
}
