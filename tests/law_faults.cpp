// One call fails during a generation: any call, of any party, under every rule. When the caller goes on, the text
// keeps its law. The law would be bent by a rule that changes its state before its verdict is committed, and by a
// cache that keeps what was undone.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/rules.hpp"

namespace test_law_faults {

using namespace specdec;
using namespace specdec::testing;

namespace {

using Tokens = std::vector<Token>;

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("one call in a generation") {}
};

// Which call fails: before it does anything, or after its work is done but before it returns.
enum class Fault {
  target,
  target_fed,
  small,
  small_fed,
  drafter,
  drafter_done,
  observer,
  rule,
  rule_done,
  policy,
  callback
};
constexpr const char* names_of_faults[] = {"target",     "target, fed",   "draft model", "draft model, fed",
                                           "drafter",    "drafter, done", "observer",    "rule",
                                           "rule, done", "draft length",  "callback"};

// Makes one call of one kind fail.
struct Plan {
  Fault who = {};
  int before = 0;  // this many calls of the kind succeed first
  bool failed = false;

  void call(Fault caller) {
    if (caller != who || before-- != 0) return;
    failed = true;
    throw Failure();
  }
};

struct FailingModel {
  TableModel<> table;
  Plan* plan;
  Fault before, after;

  Index vocab_size() const { return table.vocab_size(); }
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    plan->call(before);
    const auto& out = table.forward(tokens, rows);
    plan->call(after);
    return out;
  }
  void truncate(Index length) { table.truncate(length); }
};

struct FailingDrafter {
  ModelDrafter<FailingModel> inner;
  Plan* plan;

  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    plan->call(Fault::drafter);
    const auto draft = inner.draft(context, {gamma}, chance);
    plan->call(Fault::drafter_done);
    return draft;
  }
  void observe(const auto& /*judged*/) { plan->call(Fault::observer); }
  void truncate(Index length) { inner.truncate(length); }
};

// All rules of the library.
using Rule = support::AnyOf<false, TokenVerifier, BlockVerifier, GreedyBlockVerifier, SampleMatchVerifier,
                            LenientVerifier, ArgmaxVerifier>;

struct FailingRule {
  Rule rule;
  Plan* plan;

  Verdict judge(const auto& drafted, auto& chance) {
    plan->call(Fault::rule);
    const Verdict verdict = rule.judge(drafted, chance);
    plan->call(Fault::rule_done);
    return verdict;
  }
  void commit() { rule.commit(); }
  Index min_draft_length() const { return rule.min_draft_length(); }
};

struct FailingLength {
  Plan* plan;
  Index next(Index most) const {
    plan->call(Fault::policy);
    return most;
  }
  void observe(const StepRecord&) const {}
};

using Decoder = SpecDec<FailingModel, FailingDrafter, FailingRule, FailingLength>;

const Tokens prompt{0, 1};
const Options options{.max_new_tokens = support::exhaustive() ? 4 : 3, .gamma = 2};

// A target, a drafter and a rule that fail according to the plan.
struct Scene {
  Plan plan;
  TableModel<> table;
  Decoder decoder;
  FailingModel outside;  // the target that half steps call

  Scene(const TableModel<>& target, const TableModel<>& draft, const Rule& rule)
      : table(target),
        decoder{target_model(), FailingDrafter{ModelDrafter{small_model(draft)}, &plan},
                FailingRule{rule, &plan}, FailingLength{&plan}},
        outside(target_model()) {}

  FailingModel target_model() { return {table, &plan, Fault::target, Fault::target_fed}; }
  FailingModel small_model(const TableModel<>& draft) {
    return {draft, &plan, Fault::small, Fault::small_fed};
  }
};

// How a text is generated, and how the caller goes on after a failure. steps: calls step() again. half_steps: calls
// propose() and accept() again, around a target that the caller calls. generate: calls Sequence::generate() again.
// resume: calls resume() with the text so far, then generate(). refuse: as resume, but the callback says no instead of
// throwing. anew: calls SpecDec::generate() with the text that the callback was shown.
enum class Way { steps, half_steps, generate, resume, refuse, anew };

Tokens by_steps(Scene& scene, bool halves, Enumerator& chance) {
  auto sequence = scene.decoder.start(prompt, options);
  while (!sequence.done()) {
    try {
      if (!halves) {
        sequence.step(chance);
        continue;
      }
      const Feed feed = sequence.propose(chance);
      scene.outside.truncate(feed.from);
      sequence.accept(scene.outside.forward(feed.tokens, feed.rows), chance);
    } catch (const Failure&) {
    }
  }
  return {sequence.tokens().begin(), sequence.tokens().end()};
}

// Generates, and tries again after each failure. Returns the tokens that the callback was shown, each once.
template <class Generate, class GoOn>
Tokens told(Scene& scene, const Generate& generate, const GoOn& go_on) {
  Tokens text;
  const auto on_step = [&](std::span<const Token> emitted) {
    text.insert(text.end(), emitted.begin(), emitted.end());
    scene.plan.call(Fault::callback);
  };
  for (;;) try {
      generate(on_step);
      return text;
    } catch (const Failure&) {
      go_on(text);
    }
}

Options rest(const Tokens& text) {
  return {.max_new_tokens = options.max_new_tokens - std::ssize(text), .gamma = options.gamma};
}

Tokens by_generating(Scene& scene, bool resumes, Enumerator& chance) {
  auto sequence = scene.decoder.start(prompt, options);
  return told(
      scene, [&](const auto& on_step) { sequence.generate(chance, on_step); },
      [&](const Tokens& text) {
        if (resumes) sequence.resume(sequence.context(), rest(text));
      });
}

Tokens by_refusing(Scene& scene, Enumerator& chance) {
  auto sequence = scene.decoder.start(prompt, options);
  Tokens text;
  const auto on_step = [&](std::span<const Token> emitted) {
    text.insert(text.end(), emitted.begin(), emitted.end());
    try {
      scene.plan.call(Fault::callback);
    } catch (const Failure&) {
      return false;
    }
    return true;
  };
  while (sequence.generate(chance, on_step).stop_reason == StopReason::callback)
    sequence.resume(sequence.context(), rest(text));
  return text;
}

Tokens by_generating_anew(Scene& scene, Enumerator& chance) {
  Tokens context = prompt;
  Options left = options;
  return told(
      scene, [&](const auto& on_step) { scene.decoder.generate(context, left, chance, on_step); },
      [&](const Tokens& text) {
        context = prompt;
        context.insert(context.end(), text.begin(), text.end());
        left = rest(text);
      });
}

Tokens text_of(Scene& scene, Way way, Enumerator& chance) {
  if (way == Way::anew) return by_generating_anew(scene, chance);
  if (way == Way::refuse) return by_refusing(scene, chance);
  if (way == Way::generate || way == Way::resume) return by_generating(scene, way == Way::resume, chance);
  return by_steps(scene, way == Way::half_steps, chance);
}

// The law of the text under a plan, and in how many branches of chance the planned failure happened.
struct Outcome {
  Law law;
  Index struck = 0;
};
Outcome enumerated(Scene& scene, Way way, const Plan& plan) {
  Outcome out;
  enumerate([&](Enumerator& chance) {
    scene.plan = plan;
    const Tokens text = text_of(scene, way, chance);
    out.law[text] += chance.probability();
    out.struck += scene.plan.failed;
  });
  return out;
}

struct Case {
  const char* name;
  Rule rule;
  Law expected;
};

// Two models, and the law that each rule gives when nothing fails.
struct Pair {
  TableModel<> target, draft;

  explicit Pair(std::mt19937_64& rng)
      : target(TableModel<>::random(2, 2, rng)), draft(TableModel<>::random(2, 2, rng)) {}

  std::vector<Case> cases() const {
    const Law law = target_law(target, prompt, options);
    const Rule lossy{LenientVerifier{0.5}};
    Scene scene(target, draft, lossy);
    return {{"token", {TokenVerifier{}}, law},
            {"block", {BlockVerifier{}}, law},
            {"greedy block", {GreedyBlockVerifier{}}, law},
            {"sample-match", {SampleMatchVerifier{}}, law},
            {"argmax", {ArgmaxVerifier{}}, greedy_law(target, prompt, options)},
            {"lenient", lossy, enumerated(scene, Way::steps, {.before = -1}).law}};
  }
};

// For how many calls, and in how many branches, a kind of failure was tried under a rule.
struct Tried {
  Index calls = 0, branches = 0;
};

// Makes each call of a kind fail in turn, until there is no such call left.
void try_all(Tried& tried, Scene& scene, const Case& rule, Way way, Fault who) {
  for (int before = 0;; ++before) {
    const Outcome found = enumerated(scene, way, {.who = who, .before = before});
    INFO(rule.name << ", " << names_of_faults[static_cast<int>(who)] << ", way " << static_cast<int>(way)
                   << ", after " << before << " calls");
    CHECK(largest_difference(found.law, rule.expected).size < 1e-12);
    if (found.struck == 0) return;
    ++tried.calls;
    tried.branches += found.struck;
  }
}

constexpr int faults = static_cast<int>(std::size(names_of_faults));

std::string table(const std::vector<Case>& cases, const std::vector<std::vector<Tried>>& tried) {
  std::ostringstream out;
  out << "calls that failed, each in its turn / branches of chance in which they did\n| failure |";
  for (const Case& rule : cases) out << " " << rule.name << " |";
  for (int who = 0; who < faults; ++who) {
    out << "\n| " << names_of_faults[who] << " |";
    for (const Tried& cell : tried[static_cast<std::size_t>(who)])
      out << " " << cell.calls << "/" << cell.branches << " |";
  }
  return out.str();
}

}  // namespace

TEST_CASE("after a failure anywhere and a retry, the text keeps its law", "[law]") {
  std::mt19937_64 rng{41};
  const Pair pair(rng);
  const std::vector<Case> cases = pair.cases();
  std::vector<std::vector<Tried>> tried(faults, std::vector<Tried>(cases.size()));
  for (std::size_t k = 0; k < cases.size(); k += static_cast<std::size_t>(support::every(2))) {
    Scene scene(pair.target, pair.draft, cases[k].rule);
    for (int who = 0; who < faults; ++who) {
      Tried& cell = tried[static_cast<std::size_t>(who)][k];
      for (const Way way : {Way::steps, Way::half_steps, Way::generate, Way::resume})
        try_all(cell, scene, cases[k], way, static_cast<Fault>(who));
      if (static_cast<Fault>(who) == Fault::callback)
        try_all(cell, scene, cases[k], Way::refuse, Fault::callback);
      CHECK(cell.calls >= 4);
    }
  }
  SUCCEED(table(cases, tried));  // shown with --success
}

TEST_CASE("a new generation may go on from the text that a callback was shown, if the rule remembers nothing",
          "[law]") {
  std::mt19937_64 rng{41};
  const Pair pair(rng);
  const std::vector<Case> cases = pair.cases();
  for (std::size_t k = 0; k < cases.size(); k += static_cast<std::size_t>(support::every(2))) {
    const Case& rule = cases[k];
    Scene scene(pair.target, pair.draft, rule.rule);
    if (!std::holds_alternative<GreedyBlockVerifier>(rule.rule.rule)) {
      Tried tried;
      for (int who = 0; who < faults; ++who) try_all(tried, scene, rule, Way::anew, static_cast<Fault>(who));
      CHECK(tried.calls >= 20);
    } else {  // the rule remembers, but a new generation has lost what it remembered: the law is bent
      const Outcome found = enumerated(scene, Way::anew, {.who = Fault::callback});
      CHECK(largest_difference(found.law, rule.expected).size > 1e-3);
    }
  }
}

}  // namespace test_law_faults
