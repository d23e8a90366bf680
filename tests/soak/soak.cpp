// A million tokens, and half a million from trees, under every rule and with every drafter. Two texts at a time take
// turns. They are stopped, cancelled, cut, resumed and released, and their calls fail now and then. The models check
// their contexts at every call, the text is the target's, and memory does not grow.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <variant>

#include "soak/witness.hpp"
#include "soak/world.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/rules.hpp"

namespace test_soak {

using namespace soak;

namespace {

// Greedy block verification does not fit drafters whose rows for a place change from draft to draft.
bool fit(Index drafter, const support::AnyVerifier& rule) {
  const bool changing = drafter == AnyDrafter::answers || drafter == AnyDrafter::chain;
  return !(changing && std::holds_alternative<specdec::GreedyBlockVerifier>(rule.rule));
}

template <class Visit>
void each_pair(const Visit& visit) {
  for (Index drafter = 0; drafter < AnyDrafter::kinds; ++drafter)
    for (const support::AnyVerifier& rule : support::sampling_rules)
      if (fit(drafter, rule)) visit(drafter, support::for_loops(rule), rule.name());
}

struct NamedTreeRule {
  support::AnyTreeRule rule;
  const char* name;
};

const NamedTreeRule tree_rules[] = {
    {{specdec::TraversalVerifier{}}, "traversal"},
    {{specdec::RecursiveRejectionVerifier{}}, "recursive rejection"},
    {{specdec::KSeqVerifier{}}, "K-SEQ"},
    {{specdec::TrunkAndSpares<specdec::BlockVerifier>{}}, "trunk and spares, block"},
    {{specdec::TrunkAndSpares<specdec::SampleMatchVerifier>{}}, "trunk and spares, sample-match"}};

// K-SEQ needs independent siblings.
template <class Visit>
void each_pair_of_trees(const Visit& visit) {
  for (Index drafter = 0; drafter < AnyTreeDrafter::kinds; ++drafter)
    for (const auto& [rule, name] : tree_rules) {
      if (std::holds_alternative<specdec::KSeqVerifier>(rule.rule) &&
          drafter != AnyTreeDrafter::Kind::independent)
        continue;
      visit(drafter, rule, name);
    }
}

// Bytes in use: the most in the first fifth of what a world wrote, the most after that, and the bytes left when the
// world is gone. (The last number may be negative: an entry of the library's table is removed when the next one
// comes.)
struct Memory {
  std::size_t early = 0, late = 0;
  std::ptrdiff_t left = 0;
};

// The results of one rule with one drafter.
struct Written {
  Memory memory;
  Tally tally;
  specdec::testing::SampledReport report;
};

template <class Drafts>
Written write(Index drafter, const typename Drafts::Rule& rule, std::uint64_t seed, Index tokens) {
  Written out;
  const std::size_t before = live_bytes();
  {
    World<Drafts> world(drafter, rule, seed);
    while (world.tally().tokens < tokens) {
      world.turn();
      std::size_t& most = world.tally().tokens < tokens / 5 ? out.memory.early : out.memory.late;
      most = std::max(most, live_bytes() - before);
    }
    out.tally = world.tally();
    out.report = world.report();
  }
  out.memory.left = static_cast<std::ptrdiff_t>(live_bytes()) - static_cast<std::ptrdiff_t>(before);
  return out;
}

// Shares this many tokens among the pairs of a drafter and a rule that each_pair visits.
template <class Drafts>
void soak_in(Index tokens, const auto& each_pair) {
  Index pairs = 0;
  each_pair([&](auto&&...) { ++pairs; });
  std::ostringstream out;
  Tally tally;
  std::ptrdiff_t left = 0;
  std::uint64_t seed = 0;
  each_pair([&](Index drafter, const typename Drafts::Rule& rule, const char* rule_name) {
    const char* name = Drafts::Drafter::names[drafter];
    const auto& [memory, written, report] = write<Drafts>(drafter, rule, ++seed, tokens / pairs + 1);
    INFO(name << " under " << rule_name << ": " << report);
    CHECK(report.accepted);
    // Some vector may double its capacity late. Memory that grew with the text would be five times as much.
    CHECK(memory.late < memory.early + memory.early / 2);
    left += memory.left;
    tally += written;
    out << name << " under " << rule_name << ": " << memory.early << ", then " << memory.late << " bytes\n";
  });
  CHECK(left < 1000);  // in the library's one table of turns
  CHECK(tally.tokens >= tokens);
  out << tally;
  SUCCEED(out.str());  // shown with --success
}

}  // namespace

TEST_CASE("a million tokens: contexts are exact, the text is the target's, and memory stays constant") {
  soak_in<Lines>(support::exhaustive() ? 3'000'000 : 1'000'000, [](const auto& visit) { each_pair(visit); });
}

TEST_CASE(
    "half a million tokens from trees: contexts are exact, the text is the target's, and memory stays "
    "constant") {
  soak_in<Trees>(support::exhaustive() ? 1'500'000 : 500'000,
                 [](const auto& visit) { each_pair_of_trees(visit); });
}

}  // namespace test_soak
