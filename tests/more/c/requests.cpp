// Requests of the C interface: an engine that calls the functions in any order writes the texts of the target alone.
// SPDX-License-Identifier: MIT
#define SPECDEC_C_IMPLEMENTATION
#include "specdec/more/c/requests.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace test_more_c_requests {

using namespace specdec;

namespace {

constexpr Index vocabulary = 5, gamma = 3;
constexpr Token stop = 4;

// Row x is the target's distribution after token x.
const Eigen::MatrixXd rows = [] {
  std::mt19937_64 rng{1};
  Eigen::MatrixXd out(vocabulary, vocabulary);
  for (double& p : out.reshaped()) p = 0.05 + uniform01(rng);
  for (auto row : out.rowwise()) row /= row.sum();
  return out;
}();
Token draw(Token after, std::mt19937_64& rng) {
  return SampleMatchVerifier{}(rows.row(after), std::vector<Token>{}, rng).token;
}

// What the target writes alone.
std::vector<Token> alone(Token last, std::mt19937_64 rng, Index budget) {
  std::vector<Token> text;
  while (std::ssize(text) < budget && (text.empty() || text.back() != stop))
    text.push_back(last = draw(last, rng));
  return text;
}

// An engine that judges by drawing itself. What is drawn depends on the text alone, so its texts are those of the target alone,
// whatever is drafted, and whenever a verdict is told.
class Engine {
 public:
  explicit Engine(std::uint64_t seed, Index context = 0) : dice_(seed) {
    expect(SPECDEC_OK, specdec_requests_create(&requests_, vocabulary, context, error_, sizeof error_));
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    for (auto& [number, paused] : paused_) specdec_paused_destroy(paused);
    specdec_requests_destroy(requests_);
  }

  std::int64_t add(const std::vector<Token>& prompt, Index budget) {
    std::int64_t number = -1;
    expect(SPECDEC_OK, specdec_requests_add(requests_, prompt.data(), std::ssize(prompt), 0, budget, gamma,
                                            &stop, 1, &number, error_, sizeof error_));
    generators_.emplace(number, std::mt19937_64(static_cast<std::uint64_t>(number)));
    return number;
  }
  std::int64_t fork(std::int64_t of) {
    std::int64_t number = -1;
    expect(SPECDEC_OK, specdec_requests_fork(requests_, of, text(of).kept, &number, error_, sizeof error_));
    generators_.emplace(number, std::mt19937_64(static_cast<std::uint64_t>(number)));
    return number;
  }
  void pause(std::int64_t number) {
    expect(SPECDEC_OK, specdec_requests_pause(requests_, number, &paused_[number], error_, sizeof error_));
    forget(number);
  }
  void resume(std::int64_t number) {
    expect(SPECDEC_OK, specdec_requests_resume(requests_, &paused_.at(number), 0, error_, sizeof error_));
    CHECK(paused_.at(number) == nullptr);
    paused_.erase(number);
  }

  // Drafts at random, calls the target, and keeps the verdicts for later.
  void call(const std::vector<std::int64_t>& numbers) {
    std::vector<Token> tokens;
    std::vector<std::int64_t> offsets{0};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      for (std::uint64_t k = dice_() % (gamma + 2); k > 0; --k)
        tokens.push_back(static_cast<Token>(dice_() % vocabulary));
      offsets.push_back(std::ssize(tokens));
    }
    specdec_proposal proposal;
    expect(SPECDEC_OK, specdec_requests_propose(requests_, numbers.data(), std::ssize(numbers), tokens.data(),
                                                offsets.data(), &proposal, error_, sizeof error_));
    REQUIRE(proposal.size == std::ssize(numbers));
    for (Index i = 0; i < proposal.size; ++i) judge(proposal, i);
  }
  // Tells one of the verdicts.
  void settle(std::size_t which) {
    const auto [number, verdict] = verdicts_[which];
    verdicts_.erase(verdicts_.begin() + static_cast<std::ptrdiff_t>(which));
    const specdec_finished* finished = nullptr;
    std::int64_t count = 0;
    expect(SPECDEC_OK, specdec_requests_settle(requests_, &number, &verdict.first, 1, &finished, &count,
                                               error_, sizeof error_));
    generators_.at(number) = verdict.second;
    for (Index i = 0; i < count; ++i)
      texts[finished[i].request].assign(finished[i].tokens, finished[i].tokens + finished[i].size);
  }

  bool waits(std::int64_t number) const {
    return std::ranges::any_of(verdicts_, [&](const auto& verdict) { return verdict.first == number; });
  }
  bool is_paused(std::int64_t number) const { return paused_.contains(number); }
  std::size_t verdicts() const { return verdicts_.size(); }
  specdec_text text(std::int64_t number) {
    specdec_text out;
    expect(SPECDEC_OK, specdec_requests_text(requests_, number, &out, error_, sizeof error_));
    return out;
  }
  specdec_requests* get() { return requests_; }
  std::uint64_t dice(std::uint64_t n) { return dice_() % n; }

  std::map<std::int64_t, std::vector<Token>> texts;

 private:
  void expect(specdec_status wanted, specdec_status status) {
    CAPTURE(std::string(error_));
    REQUIRE(status == wanted);
  }
  void forget(std::int64_t number) {
    std::erase_if(verdicts_, [&](const auto& verdict) { return verdict.first == number; });
  }
  void judge(const specdec_proposal& proposal, Index i) {
    const specdec_feed& feed = proposal.feeds[i];
    const specdec_text before = text(feed.request);
    CHECK(feed.request == proposal.requests[i]);
    CHECK((feed.from == before.kept && feed.from + feed.size == before.size + feed.rows - 1));
    const std::int64_t first = proposal.offsets[i];
    REQUIRE(proposal.offsets[i + 1] - first == feed.rows - 1);
    forget(feed.request);
    std::mt19937_64 rng = generators_.at(feed.request);
    specdec_verdict verdict{0, draw(before.tokens[before.size - 1], rng)};
    while (verdict.accepted < feed.rows - 1 && verdict.token == proposal.tokens[first + verdict.accepted]) {
      ++verdict.accepted;
      verdict.token = draw(verdict.token, rng);
    }
    verdicts_.push_back({feed.request, {verdict, rng}});
  }

  specdec_requests* requests_ = nullptr;
  std::mt19937_64 dice_;
  std::map<std::int64_t, std::mt19937_64> generators_;
  std::map<std::int64_t, specdec_paused*> paused_;
  std::vector<std::pair<std::int64_t, std::pair<specdec_verdict, std::mt19937_64>>> verdicts_;
  char error_[256] = {};
};

}  // namespace

TEST_CASE("texts over the C interface are those of the target alone, whatever comes between") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Engine engine(seed);
    constexpr Index budget = 12;
    std::map<std::int64_t, std::vector<Token>> expected;
    for (Token last = 0; last < 4; ++last) {
      const std::int64_t number = engine.add({1, last}, budget);
      expected[number] = alone(last, std::mt19937_64(static_cast<std::uint64_t>(number)), budget);
    }
    for (int turn = 0; engine.texts.size() < expected.size(); ++turn) {
      REQUIRE(turn < 5000);
      std::vector<std::int64_t> free;
      for (const auto& [number, text] : expected)
        if (!engine.texts.contains(number) && !engine.is_paused(number) && !engine.waits(number) &&
            engine.dice(2) == 0)
          free.push_back(number);
      const auto number = static_cast<std::int64_t>(engine.dice(expected.size()));
      const bool here = !engine.texts.contains(number) && !engine.is_paused(number);
      switch (engine.dice(8)) {
        case 0:
          if (here) engine.pause(number);
          break;
        case 1:
          if (engine.is_paused(number)) engine.resume(number);
          break;
        case 2:
          if (here && expected.size() < 8) {
            const specdec_text text = engine.text(number);
            std::vector<Token> whole(text.tokens + text.size - text.new_tokens, text.tokens + text.size);
            const Token last = text.tokens[text.size - 1];
            const std::int64_t twin = engine.fork(number);
            for (const Token x :
                 alone(last, std::mt19937_64(static_cast<std::uint64_t>(twin)), budget - std::ssize(whole)))
              whole.push_back(x);
            expected[twin] = whole;
          }
          break;
        case 3:
        case 4:
          engine.call(free);
          break;
        default:
          if (engine.verdicts() > 0) engine.settle(engine.dice(engine.verdicts()));
      }
    }
    CHECK(engine.texts == expected);
    CHECK(specdec_requests_size(engine.get()) == 0);
  }
}

TEST_CASE("a text ends for its budget, its context or a stop token, and says what it took") {
  const auto run = [](Index budget, Index context, const std::vector<Token>& wanted) {
    specdec_requests* requests = nullptr;
    REQUIRE(specdec_requests_create(&requests, vocabulary, context, nullptr, 0) == SPECDEC_OK);
    const Token prompt[] = {0, 1};
    std::int64_t number = -1, count = 0;
    REQUIRE(specdec_requests_add(requests, prompt, 2, 1, budget, gamma, &stop, 1, &number, nullptr, 0) ==
            SPECDEC_OK);
    const specdec_finished* finished = nullptr;
    specdec_finished out = {};
    for (std::size_t at = 0; count == 0; at += 2) {
      const std::int64_t offsets[] = {0, 2};  // the right token, and a wrong one
      const Token draft[] = {wanted[at], at + 1 < wanted.size() ? 3 - wanted[at + 1] % 4 : 0};
      specdec_proposal proposal;
      REQUIRE(specdec_requests_propose(requests, &number, 1, draft, offsets, &proposal, nullptr, 0) ==
              SPECDEC_OK);
      const std::int64_t fed = proposal.feeds[0].rows - 1;
      specdec_verdict verdict{0, wanted[at]};
      if (fed > 0) verdict = {1, at + 1 < wanted.size() ? wanted[at + 1] : Token{0}};
      if (fed == 0) REQUIRE(at + 1 == wanted.size());
      if (wanted[at] == stop) CHECK(fed == 2);
      REQUIRE(specdec_requests_settle(requests, &number, &verdict, 1, &finished, &count, nullptr, 0) ==
              SPECDEC_OK);
    }
    out = finished[0];
    CHECK(out.request == number);
    CHECK(std::vector<Token>(out.tokens, out.tokens + out.size) == wanted);
    CHECK(out.cached == 1);
    specdec_requests_destroy(requests);
    return out;
  };
  const specdec_finished spent = run(4, 0, {0, 1, 2, 3});
  CHECK((spent.reason == SPECDEC_STOP_LENGTH && spent.target_calls == 2));
  CHECK((spent.drafted >= 3 && spent.accepted == 2));
  CHECK(run(9, 0, {0, 1, 2, 3, stop}).reason == SPECDEC_STOP_TOKEN);
  CHECK(run(9, 5, {0, 1, 2, 3}).reason == SPECDEC_STOP_CONTEXT);
}

// A draft without its stop tokens would be a draft of other tokens than were drawn: stop tokens would get rare.
TEST_CASE("drawn drafts with stop tokens are handed out whole, and the texts have the target's law") {
  constexpr Index texts = 20'000, most = 2;
  const float even[] = {0.5F, 0.5F}, flat[] = {0.5F, 0.5F, 0.5F, 0.5F, 0.5F, 0.5F};  // whatever the context
  const Token first = 0, last = 1;
  for (const specdec_rule rule : {SPECDEC_BLOCK, SPECDEC_TOKEN, SPECDEC_SAMPLE_MATCH}) {
    specdec_requests* requests = nullptr;
    REQUIRE(specdec_requests_create(&requests, 2, 0, nullptr, 0) == SPECDEC_OK);
    specdec_philox drafting{1, 0, 0}, verifying{1, 0, 1};
    Index tokens = 0, ended_at_once = 0;
    for (Index k = 0; k < texts; ++k) {
      std::int64_t number = -1, count = 0;
      REQUIRE(specdec_requests_add(requests, &first, 1, 0, 100, most, &last, 1, &number, nullptr, 0) ==
              SPECDEC_OK);
      const specdec_finished* finished = nullptr;
      while (count == 0) {
        Token draft[most];
        for (Token& x : draft)
          REQUIRE(specdec_draw_flat(SPECDEC_PROBABILITIES, even, 2, 0, &drafting, &x, nullptr, 0) ==
                  SPECDEC_OK);
        const std::int64_t offsets[] = {0, most};
        specdec_proposal out;
        REQUIRE(specdec_requests_propose(requests, &number, 1, draft, offsets, &out, nullptr, 0) ==
                SPECDEC_OK);
        REQUIRE((out.offsets[1] == most && out.feeds[0].rows == most + 1));
        REQUIRE(std::ranges::equal(draft, std::span(out.feeds[0].tokens, 3).last(most)));
        specdec_verdict verdict;
        specdec_status status = SPECDEC_OK;
        REQUIRE(specdec_verify_flat(SPECDEC_PROBABILITIES, flat, flat, 2, nullptr, &rule, nullptr, out.tokens,
                                    nullptr, out.offsets, 1, &verifying, nullptr, &verdict, &status, nullptr,
                                    0) == SPECDEC_OK);
        REQUIRE(specdec_requests_settle(requests, out.requests, &verdict, 1, &finished, &count, nullptr, 0) ==
                SPECDEC_OK);
      }
      tokens += finished[0].size;
      ended_at_once += finished[0].size == 1;
    }
    specdec_requests_destroy(requests);
    // A text has 2 tokens on average, with a variance of 2. Both bounds are five standard errors.
    CHECK(std::abs(static_cast<double>(tokens) / texts - 2) < 0.05);
    CHECK(std::abs(static_cast<double>(ended_at_once) / texts - 0.5) < 0.018);
  }
}

TEST_CASE("a request without a budget has no feed, and is told of by a call without verdicts") {
  Engine engine(1);
  const std::int64_t number = engine.add({0}, 0);
  specdec_proposal proposal;
  REQUIRE(specdec_requests_propose(engine.get(), &number, 1, nullptr, nullptr, &proposal, nullptr, 0) ==
          SPECDEC_OK);
  CHECK(proposal.size == 0);
  const specdec_finished* finished = nullptr;
  std::int64_t count = 0;
  REQUIRE(specdec_requests_settle(engine.get(), nullptr, nullptr, 0, &finished, &count, nullptr, 0) ==
          SPECDEC_OK);
  REQUIRE(count == 1);
  CHECK((finished->request == number && finished->size == 0 && finished->reason == SPECDEC_STOP_LENGTH));
}

TEST_CASE("what the C interface of requests refuses changes nothing") {
  Engine engine(1);
  const std::int64_t a = engine.add({0, 1}, 5), b = engine.add({2}, 5);
  char error[256];
  const auto refuses = [&](const std::string& message, specdec_status status) {
    CHECK(status == SPECDEC_INVALID_ARGUMENT);
    CHECK(std::string(error) == "specdec: " + message);
  };
  const Token outside[] = {vocabulary}, inside[] = {1, 2};
  const std::int64_t both[] = {a, b}, twice[] = {a, a}, none[] = {7}, offsets[] = {0, 1, 2},
                     falling[] = {0, 2, 1};
  std::int64_t number = -7, count = -7;
  specdec_proposal proposal = {};
  const auto propose = [&](const std::int64_t* requests, std::int64_t size, const Token* tokens,
                           const std::int64_t* places) {
    return specdec_requests_propose(engine.get(), requests, size, tokens, places, &proposal, error,
                                    sizeof error);
  };
  specdec_requests* other = nullptr;
  refuses("vocab_size = 0 is below 1", specdec_requests_create(&other, 0, 0, error, sizeof error));
  refuses("context_size = -1 is negative", specdec_requests_create(&other, 5, -1, error, sizeof error));
  CHECK(other == nullptr);
  const auto add = [&](const Token* prompt, std::int64_t size, std::int64_t cached) {
    return specdec_requests_add(engine.get(), prompt, size, cached, 5, gamma, nullptr, 0, &number, error,
                                sizeof error);
  };
  refuses("prompt is NULL", add(nullptr, 1, 0));
  refuses("prompt_size = -1 is negative", add(inside, -1, 0));
  CHECK(add(inside, 0, 0) == SPECDEC_INVALID_ARGUMENT);
  refuses("prompt[0] = 5 is outside the vocabulary 0..4", add(outside, 1, 0));
  refuses("cached = 3 is outside 0..2, the length of the prompt", add(inside, 2, 3));
  refuses("gamma = 9223372036854775807 is outside 0..1048576",
          specdec_requests_add(engine.get(), inside, 2, 0, 5, std::numeric_limits<std::int64_t>::max(),
                               nullptr, 0, &number, error, sizeof error));
  CHECK(number == -7);

  REQUIRE(propose(both, 2, inside, offsets) == SPECDEC_OK);  // is out from here on
  refuses("count = -1 is negative", propose(both, -1, inside, offsets));
  refuses("requests_drafted is NULL", propose(nullptr, 1, inside, offsets));
  refuses("offsets is NULL", propose(both, 2, inside, nullptr));
  refuses("offsets[2] = 1, after 2", propose(both, 2, inside, falling));
  for (const specdec_status status : {propose(both, 1, outside, offsets), propose(twice, 2, inside, offsets),
                                      propose(none, 1, inside, offsets)})
    CHECK(status == SPECDEC_INVALID_ARGUMENT);

  const specdec_finished* finished = nullptr;
  const auto settle = [&](const std::int64_t* requests, std::vector<specdec_verdict> verdicts) {
    return specdec_requests_settle(engine.get(), requests, verdicts.data(), std::ssize(verdicts), &finished,
                                   &count, error, sizeof error);
  };
  for (const specdec_status status : {settle(both, {{0, 0}, {2, 0}}), settle(both, {{0, 0}, {1, vocabulary}}),
                                      settle(both, {{0, 1}, {1, 0}}), settle(twice, {{0, 0}, {0, 0}}),
                                      settle(none, {{0, 0}}), settle(both, {{-1, 0}, {0, 0}})})
    CHECK(status == SPECDEC_INVALID_ARGUMENT);
  CHECK((finished == nullptr && count == -7));
  CHECK(engine.text(a).new_tokens == 0);
  REQUIRE(settle(both, {{1, 0}, {0, 3}}) == SPECDEC_OK);  // the proposals are still out
  CHECK((engine.text(a).new_tokens == 2 && engine.text(b).new_tokens == 1));
  CHECK((engine.text(a).kept == 3 && engine.text(b).kept == 1));

  specdec_paused* paused = nullptr;
  CHECK(specdec_requests_pause(engine.get(), 7, &paused, error, sizeof error) == SPECDEC_INVALID_ARGUMENT);
  CHECK(paused == nullptr);
  REQUIRE(specdec_requests_pause(engine.get(), a, &paused, error, sizeof error) == SPECDEC_OK);
  CHECK(specdec_requests_resume(engine.get(), &paused, 99, error, sizeof error) == SPECDEC_INVALID_ARGUMENT);
  REQUIRE(paused != nullptr);
  REQUIRE(specdec_requests_resume(engine.get(), &paused, 0, error, sizeof error) == SPECDEC_OK);
  CHECK(engine.text(a).new_tokens == 2);
  CHECK(specdec_requests_fork(engine.get(), 7, 0, &number, error, sizeof error) == SPECDEC_INVALID_ARGUMENT);
  CHECK(specdec_requests_cancel(engine.get(), 7, error, sizeof error) == SPECDEC_INVALID_ARGUMENT);
  CHECK(specdec_requests_cancel(engine.get(), a, error, sizeof error) == SPECDEC_OK);
  CHECK(specdec_requests_size(engine.get()) == 1);
  refuses("requests is NULL", specdec_requests_cancel(nullptr, 0, error, sizeof error));
}

}  // namespace test_more_c_requests
