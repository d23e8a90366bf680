// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_loop_spec_dec {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// Records what it is asked for, checks that it is fed consistently, and must never be fed past its context. It is the
// one model of this file, so that the loop is compiled once. Copies share their state, so a test can inspect a model
// that it gave away.
class RecordingModel {
 public:
  explicit RecordingModel(TableModel<> table, Index most = std::numeric_limits<Index>::max())
      : table_(std::make_shared<TableModel<>>(std::move(table))), most_(most) {}
  Index vocab_size() const { return table_->vocab_size(); }
  Index context_size() const { return most_; }
  RowMajor<double> forward(std::span<const Token> tokens, Index rows) {
    if (std::ssize(tokens) > most_ - std::ssize(table_->context()))
      throw std::logic_error("fed past its context");
    calls.push_back({{tokens.begin(), tokens.end()}, rows});
    return table_->forward(tokens, rows);
  }
  void truncate(Index length) { table_->truncate(length); }
  std::span<const Token> context() const { return table_->context(); }

  struct Call {
    std::vector<Token> tokens;
    Index rows;
  };
  std::vector<Call> calls;

 private:
  std::shared_ptr<TableModel<>> table_;
  Index most_;
};

RecordingModel random_model(std::uint64_t seed, Index vocab_size = 3) {
  std::mt19937_64 rng{seed};
  return RecordingModel(TableModel<>::random(vocab_size, 2, rng));
}

// Deterministic models: the next token is f(last).
RecordingModel successor(Index vocab_size, Index step) {
  TableModel<>::Rows table = TableModel<>::Rows::Zero(vocab_size + 1, vocab_size);
  table(0, 0) = 1;
  for (Index x = 0; x < vocab_size; ++x) table(x + 1, (x + step) % vocab_size) = 1;
  return RecordingModel(TableModel<>(table, 1));
}

// Any rule, on copies of the rows. It may need longer drafts.
struct ByHand {
  AnyVerifier rule;
  Index needs = 0;

  Verdict judge(const auto& drafted, auto& chance) { return rule.judge(drafted, chance); }
  Index min_draft_length() const { return std::max(needs, rule.min_draft_length()); }
  friend bool operator==(const ByHand&, const ByHand&) = default;
};

const std::vector<Token> prompt{0, 1, 2};

}  // namespace

TEST_CASE("a prompt may have 64-bit ids") {
  auto target = random_model(1);
  SpecDec decoder{target, ModelDrafter{random_model(2)}, BlockVerifier{}};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  const std::vector<std::int64_t> wide(prompt.begin(), prompt.end());
  std::mt19937_64 rng{5}, same{5};
  CHECK(decoder.generate(wide, options, rng).tokens == decoder.generate(prompt, options, same).tokens);
  // Would be 1 if it were cut to 32 bits.
  const std::vector<std::int64_t> beyond{0, (std::int64_t{1} << 32) + 1};
  CHECK(message_of([&] { decoder.generate(beyond, options, rng); }) ==
        "specdec: prompt[1] = 4294967297 is outside the vocabulary 0..2");
  CHECK(message_of([&] { autoregressive(target, beyond, options, rng); }) ==
        "specdec: prompt[1] = 4294967297 is outside the vocabulary 0..2");
}

TEST_CASE("lvalue models are referred to, rvalues moved in") {
  auto target = random_model(1);
  ModelDrafter drafter{random_model(2)};
  SpecDec borrowed{target, drafter, BlockVerifier{}};
  static_assert(std::is_same_v<decltype(borrowed),
                               SpecDec<RecordingModel&, ModelDrafter<RecordingModel>&, BlockVerifier>>);
  SpecDec owning{random_model(1), ModelDrafter{random_model(2)}};
  static_assert(
      std::is_same_v<decltype(owning), SpecDec<RecordingModel, ModelDrafter<RecordingModel>, BlockVerifier>>);
  std::mt19937_64 rng{1};
  borrowed.generate(prompt, {.max_new_tokens = 5}, rng);
  CHECK_FALSE(target.calls.empty());
}

TEST_CASE("the first target call feeds the prompt and the draft, and asks for no prompt row but the last") {
  auto target = random_model(1);
  SpecDec decoder{target, ModelDrafter{random_model(2)}};
  std::mt19937_64 rng{1};
  decoder.generate(prompt, {.max_new_tokens = 20, .gamma = 4}, rng);
  REQUIRE_FALSE(target.calls.empty());
  CHECK(target.calls[0].tokens.size() == 3 + 4);
  CHECK(std::equal(prompt.begin(), prompt.end(), target.calls[0].tokens.begin()));
  CHECK(target.calls[0].rows == 5);
  for (std::size_t i = 1; i < target.calls.size(); ++i) {  // Y precedes the next draft
    CHECK(static_cast<Index>(target.calls[i].tokens.size()) == target.calls[i].rows);
    CHECK(target.calls[i].rows <= 5);
  }
}

TEST_CASE("after a generation both contexts hold exactly the tokens that survived") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    auto target = random_model(seed);
    auto small = random_model(seed + 100);
    SpecDec decoder{target, ModelDrafter{RecordingModel(small)}};
    std::mt19937_64 rng{seed};
    const Result r = decoder.generate(prompt, {.max_new_tokens = 15, .gamma = 3}, rng);
    std::vector<Token> all = prompt;
    all.insert(all.end(), r.tokens.begin(), r.tokens.end());
    const auto is_prefix = [&](std::span<const Token> context) {
      return context.size() < all.size() && std::equal(context.begin(), context.end(), all.begin());
    };
    CHECK(is_prefix(target.context()));
    CHECK(target.context().size() == all.size() - 1);  // everything but the last Y
    CHECK(is_prefix(small.context()));
  }
}

TEST_CASE(
    "a perfect drafter gives gamma + 1 tokens a call, and is fed its last token after full acceptance") {
  auto target = successor(5, 1);
  SpecDec decoder{target, ModelDrafter{successor(5, 1)}};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 20, .gamma = 4}, rng);
  CHECK(r.stats.target_calls == 4);
  CHECK(r.stats.block_efficiency() == 5);
  CHECK(r.stats.accepted_fraction() == 1);
  for (std::size_t i = 0; i < 20; ++i) CHECK(r.tokens[i] == static_cast<Token>((3 + i) % 5));
}

TEST_CASE("a hopeless drafter gives one correct token a call") {
  auto target = successor(5, 1);
  SpecDec decoder{target, ModelDrafter{successor(5, 2)}};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 7, .gamma = 3}, rng);
  CHECK(r.tokens == std::vector<Token>{3, 4, 0, 1, 2, 3, 4});
  CHECK(r.stats.target_calls == 7);
  CHECK(r.stats.accepted == 0);
}

TEST_CASE("the budget is met exactly, and no more tokens are drafted than can be emitted") {
  for (const Index budget : {0, 1, 2, 5, 6, 7, 23})
    for (const Index gamma : {0, 1, 4, 50}) {
      auto target = random_model(5);
      SpecDec decoder{target, ModelDrafter{random_model(6)}};
      std::mt19937_64 rng{7};
      const Result r = decoder.generate(prompt, {.max_new_tokens = budget, .gamma = gamma}, rng);
      CHECK(static_cast<Index>(r.tokens.size()) == budget);
      CHECK(r.stats.emitted == budget);
      CHECK(r.stop_reason == StopReason::length);
      Index emitted = 0;
      for (const auto& call : target.calls) {
        CHECK(call.rows - 1 <= std::min(gamma, budget - emitted - 1));
        ++emitted;  // at least one token
      }
      if (budget == 0) CHECK(target.calls.empty());
    }
}

TEST_CASE("a verifier gets the draft length that it needs, even beyond gamma and the budget") {
  SpecDec decoder{successor(5, 1), ModelDrafter{successor(5, 1)}, ByHand{{TokenVerifier{}}, 3}};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(prompt, {.max_new_tokens = 2, .gamma = 1}, rng);
  CHECK(r.tokens == std::vector<Token>{3, 4});
  CHECK(r.stats.drafted == 3);
  CHECK(r.stats.accepted == 2);
  CHECK(r.stats.emitted == 2);
}

TEST_CASE("a full context ends the output, and no more is drafted than the target's context can hold") {
  std::mt19937_64 seed{3};
  const auto table = TableModel<>::random(3, 2, seed), small = TableModel<>::random(3, 2, seed);
  for (const AnyVerifier& verifier : sampling_rules)
    for (const Index room : {3, 4, 5, 9, 20})
      for (const Index draft_room : {2, 3, 4, 8, 100})
        for (const Index gamma : {0, 1, 4}) {
          RecordingModel target(table, room);
          INFO(verifier.name() << ", contexts of " << room << " and " << draft_room << ", gamma " << gamma);
          SpecDec decoder{target, ModelDrafter{RecordingModel(small, draft_room)}, ByHand{verifier}};
          std::mt19937_64 rng{7};
          const Result r = decoder.generate(prompt, {.max_new_tokens = 1000, .gamma = gamma}, rng);
          CHECK(r.stop_reason == StopReason::context);
          CHECK(std::ssize(prompt) + std::ssize(r.tokens) ==
                room + 1);  // all tokens but the last are in the context
          const Result exact = decoder.generate(prompt, {.max_new_tokens = room - 2, .gamma = gamma}, rng);
          CHECK(exact.tokens.size() == r.tokens.size());
          CHECK(exact.stop_reason == StopReason::length);
          auto sequence = decoder.start(prompt, {.max_new_tokens = 1000, .gamma = gamma});
          while (!sequence.done()) sequence.step(rng);
          sequence.cancel();
          CHECK(sequence.result().stop_reason == StopReason::context);
        }
  std::mt19937_64 rng{7};
  CHECK(message_of([&] { autoregressive(RecordingModel(table, 2), prompt, {}, rng); }) ==
        "specdec: prompt has 3 tokens, but the target's context holds 2");
}

TEST_CASE("a full context does not bend the law of the text before it") {
  std::mt19937_64 seed{5};
  const auto table = TableModel<>::random(2, 2, seed), small = TableModel<>::random(2, 2, seed);
  const std::vector<Token> start{0};
  const Law alone = target_law(table, start, {.max_new_tokens = 4});
  for (const AnyVerifier& verifier : sampling_rules)
    for (const Index draft_room : {1, 2, 3, 4}) {
      SpecDec decoder{RecordingModel(table, 4), ModelDrafter{RecordingModel(small, draft_room)},
                      ByHand{verifier}};
      const Options options{.max_new_tokens = 100, .gamma = 3};
      CHECK(largest_difference(exact_generate(decoder, start, options).law, alone).size < 1e-12);
    }
}

TEST_CASE("a stop token within the accepted tokens ends the output there") {
  auto target = successor(10, 1);
  auto small = successor(10, 1);
  SpecDec decoder{target, ModelDrafter{RecordingModel(small)}};
  std::mt19937_64 rng{1};
  const std::vector<Token> one{0};
  for (Token stop = 1; stop < 10; ++stop) {
    const Result r = decoder.generate(one, {.max_new_tokens = 50, .gamma = 4, .stop_tokens = {stop}}, rng);
    CHECK(r.stop_reason == StopReason::stop_token);
    REQUIRE(static_cast<Token>(r.tokens.size()) == stop);
    for (Token i = 0; i < stop; ++i) CHECK(r.tokens[static_cast<std::size_t>(i)] == i + 1);
    CHECK(r.stats.emitted == stop);
    CHECK(r.stats.accepted == stop - stop / 5);  // every fifth token is a bonus
    Index steps = 0, accepted = 0;
    for (std::size_t k = 0; k < r.stats.accepted_lengths.size(); ++k) {
      steps += r.stats.accepted_lengths[k];
      accepted += static_cast<Index>(k) * r.stats.accepted_lengths[k];
    }
    CHECK(steps == r.stats.target_calls);
    CHECK(accepted == r.stats.accepted);
    CHECK(target.context().size() == r.tokens.size());  // the prompt's token, and all but the stop token
    CHECK(small.context().size() <= target.context().size());
  }
}

TEST_CASE("the first stop token that appears ends the output") {
  SpecDec decoder{successor(10, 1), ModelDrafter{successor(10, 1)}};
  std::mt19937_64 rng{1};
  const Result r = decoder.generate(std::vector<Token>{0},
                                    {.max_new_tokens = 50, .gamma = 7, .stop_tokens = {6, 3, 9}}, rng);
  CHECK(r.tokens == std::vector<Token>{1, 2, 3});
}

TEST_CASE("the callback sees every token once, step by step, and may stop the generation") {
  SpecDec decoder{random_model(1), ModelDrafter{random_model(2)}};
  std::mt19937_64 rng{1};
  std::vector<Token> seen;
  Index steps = 0;
  const Result r = decoder.generate(prompt, {.max_new_tokens = 30}, rng, [&](std::span<const Token> tokens) {
    seen.insert(seen.end(), tokens.begin(), tokens.end());
    ++steps;
  });
  CHECK(seen == r.tokens);
  CHECK(steps == r.stats.target_calls);

  seen.clear();
  const Result stopped =
      decoder.generate(prompt, {.max_new_tokens = 30}, rng, [&](std::span<const Token> tokens) {
        seen.insert(seen.end(), tokens.begin(), tokens.end());
        return seen.size() < 10;
      });
  CHECK(stopped.stop_reason == StopReason::callback);
  CHECK(stopped.tokens == seen);
  CHECK(seen.size() >= 10);
  CHECK(seen.size() < 15);

  const Result full =
      decoder.generate(prompt, {.max_new_tokens = 4}, rng, [](std::span<const Token>) { return true; });
  CHECK(full.stop_reason == StopReason::length);
}

TEST_CASE("one decoder serves many generations, each fresh: a seed gives its text again") {
  SpecDec decoder{random_model(1), ModelDrafter{random_model(2)}, ByHand{{GreedyBlockVerifier{}}}};
  const auto run = [&](std::uint64_t seed) {
    std::mt19937_64 rng{seed};
    return decoder.generate(prompt, {.max_new_tokens = 25, .gamma = 3}, rng).tokens;
  };
  const auto first = run(1), second = run(2);
  CHECK(first != second);
  CHECK(run(1) == first);
  CHECK(run(2) == second);
}

TEST_CASE("autoregressive() is the loop without drafts, and is greedy with ArgmaxVerifier") {
  auto target = random_model(3);
  std::mt19937_64 rng{1};
  const Result r = autoregressive(target, prompt, {.max_new_tokens = 12, .gamma = 9}, rng);
  CHECK(r.tokens.size() == 12);
  CHECK(r.stats.target_calls == 12);
  CHECK(r.stats.drafted == 0);
  CHECK(r.stats.block_efficiency() == 1);
  CHECK(r.stats.accepted_fraction() == 0);
  CHECK(r.stats.asked_by_position.empty());  // no draft was asked for

  // The oracle decodes by itself, from the model's rows.
  std::mt19937_64 seed{3};
  const auto table = TableModel<>::random(3, 2, seed);
  std::vector<Token> context = prompt;
  for (int i = 0; i < 20; ++i) context.push_back(table.distribution(context).argmax());
  const std::vector<Token> expected(context.begin() + 3, context.end());
  CHECK(autoregressive<ArgmaxVerifier>(target, prompt, {.max_new_tokens = 20}, rng).tokens == expected);
  for (const Index gamma : {1, 2, 5, 8}) {
    SpecDec decoder{target, ModelDrafter{random_model(9)}, ByHand{{ArgmaxVerifier{}}}};
    CHECK(decoder.generate(prompt, {.max_new_tokens = 20, .gamma = gamma}, rng).tokens == expected);
  }
  std::vector<Token> streamed;
  const Result stopped =
      autoregressive(target, prompt, {.max_new_tokens = 12}, rng, [&](std::span<const Token> tokens) {
        streamed.insert(streamed.end(), tokens.begin(), tokens.end());
        return streamed.size() < 3;
      });
  CHECK(stopped.tokens.size() == 3);
}

TEST_CASE("bad requests are named in the error before any model is called") {
  auto target = random_model(1);
  SpecDec decoder{target, ModelDrafter{random_model(2)}};
  std::mt19937_64 rng{1};
  const auto complaint = [&](std::vector<Token> tokens, Options options) {
    return message_of([&] { decoder.generate(tokens, options, rng); });
  };
  CHECK(complaint({}, {}) == "specdec: prompt is empty: there is nothing to continue");
  CHECK(complaint({0, 3}, {}) == "specdec: prompt[1] = 3 is outside the vocabulary 0..2");
  CHECK(complaint({-1}, {}) == "specdec: prompt[0] = -1 is outside the vocabulary 0..2");
  CHECK(complaint({0}, {.max_new_tokens = -1}) == "specdec: max_new_tokens = -1 is negative");
  CHECK(complaint({0}, {.gamma = -2}) == "specdec: gamma = -2 is negative");
  constexpr Index least = std::numeric_limits<Index>::min();
  CHECK(complaint({0}, {.max_new_tokens = least}) ==
        "specdec: max_new_tokens = -9223372036854775808 is negative");
  CHECK(complaint({0}, {.gamma = least}) == "specdec: gamma = -9223372036854775808 is negative");
  CHECK(complaint({0}, {.gamma = longest_draft}).empty());
  target.calls.clear();
  CHECK(complaint({0}, {.gamma = longest_draft + 1}) ==
        "specdec: gamma = 1048577 is more than 1048576, the longest draft, and not specdec::unlimited");
  CHECK(complaint({0}, {.gamma = unlimited - 1}) ==
        "specdec: gamma = 9223372036854775806 is more than 1048576, the longest draft, and not "
        "specdec::unlimited");
  CHECK(target.calls.empty());
}

TEST_CASE("a stop reason prints its name") {
  std::ostringstream out;
  for (const auto reason : {StopReason::length, StopReason::context, StopReason::stop_token,
                            StopReason::stop_string, StopReason::callback})
    out << reason << " ";
  CHECK(out.str() == "length context stop_token stop_string callback ");
}

}  // namespace test_loop_spec_dec
