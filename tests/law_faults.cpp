// One failure in a generation, at any call of anybody, under every rule: where the step is tried again, the text keeps its
// law. A rule whose state moves before its verdict is committed, or a cache that keeps what was undone, bends it.
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace test_law_faults {

using namespace specdec;
using namespace specdec::testing;
using support::AnyRule;

namespace {

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("one call in a generation") {}
};

// Counts the calls of all, and lets one of them fail.
struct Calls {
  int before_failure = 0;
  bool failed = false;

  void count() {
    if (before_failure-- != 0) return;
    failed = true;
    throw Failure();
  }
};

// Fails before a call, or with the tokens taken in.
struct FailingModel {
  TableModel<> table;
  Calls* calls;

  Index vocab_size() const { return table.vocab_size(); }
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    calls->count();
    const auto& out = table.forward(tokens, rows);
    calls->count();
    return out;
  }
  void truncate(Index length) { table.truncate(length); }
};

struct FailingDrafter {
  ModelDrafter<FailingModel> inner;
  Calls* calls;

  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    calls->count();
    const auto draft = inner.draft(context, gamma, chance);
    calls->count();
    return draft;
  }
  void observe(const auto&, std::span<const Token>, const Verdict&) { calls->count(); }
  void truncate(Index length) { inner.truncate(length); }
};

struct FailingRule {
  AnyRule rule;
  Calls* calls;

  Verdict judge(const auto& drafted, auto& chance) {
    calls->count();
    const Verdict verdict = rule.judge(drafted, chance);
    calls->count();
    return verdict;
  }
  void commit() { rule.commit(); }
  Index min_draft_length() const { return rule.min_draft_length(); }
};

struct FailingLength {
  Calls* calls;
  Index next(Index most) const {
    calls->count();
    return most;
  }
  void observe(const StepRecord&) const {}
};

using Decoder = SpecDec<FailingModel, FailingDrafter, FailingRule, FailingLength>;
const std::vector<Token> prompt{0, 1};

// A step in one piece, or in halves around a call of a target outside.
void step(Decoder::Sequence& sequence, FailingModel& outside, bool halves, Enumerator& chance) {
  if (!halves) {
    sequence.step(chance);
    return;
  }
  const Feed feed = sequence.propose(chance);
  outside.truncate(feed.from);
  sequence.accept(outside.forward(feed.tokens, feed.rows), chance);
}

// The law of the text where the call behind the first `before_failure` fails; whether there was such a call.
bool has_law(const TableModel<>& target, const TableModel<>& draft, const AnyRule& rule,
             const Options& options, bool halves, int before_failure, const Law& expected) {
  Calls calls;
  Decoder decoder{FailingModel{target, &calls},
                  FailingDrafter{ModelDrafter{FailingModel{draft, &calls}}, &calls},
                  FailingRule{rule, &calls}, FailingLength{&calls}};
  FailingModel outside{target, &calls};
  Law law;
  bool failed = false;
  enumerate([&](Enumerator& chance) {
    calls = {before_failure};
    auto sequence = decoder.start(prompt, options);
    while (!sequence.done()) {
      try {
        step(sequence, outside, halves, chance);
      } catch (const Failure&) {
      }
    }
    failed = failed || calls.failed;
    const std::vector<Token> text(sequence.tokens().begin(), sequence.tokens().end());
    law[text] += chance.probability();
  });
  CAPTURE(before_failure, halves);
  CHECK(largest_difference(law, expected).size < 1e-12);
  return failed;
}

}  // namespace

TEST_CASE("a failure anywhere, and a retry, leave the law", "[law]") {
  std::mt19937_64 rng{41};
  const auto target = TableModel<>::random(2, 2, rng), draft = TableModel<>::random(2, 2, rng);
  const Options options{.max_new_tokens = support::exhaustive() ? 4 : 3, .gamma = 2};
  TableModel<> model = target;
  const Law expected = target_law(model, prompt, options);
  for (const auto& verifier : support::sampling_rules)
    for (const bool halves : {false, true}) {
      CAPTURE(verifier.name());
      int places = 0;
      while (has_law(target, draft, support::for_loops(verifier), options, halves, places, expected))
        ++places;
      CHECK(places >= 20);
    }
}

}  // namespace test_law_faults
