// A million tokens, under every rule and with every drafter, in two texts at a time that take turns, are stopped,
// cancelled, cut, resumed and released, and whose calls fail now and then. The models check at every call that they
// hold what they should, the text is the target's, and memory does not grow.
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

// Greedy block verification is not for drafters whose rows of a place change from draft to draft.
bool fit(Index drafter, const support::AnyVerifier& rule) {
  const bool changing = drafter == AnyDrafter::lookahead || drafter == AnyDrafter::chain;
  return !(changing && std::holds_alternative<specdec::GreedyBlockVerifier>(rule.rule));
}

template <class Visit>
void each_pair(const Visit& visit) {
  for (Index drafter = 0; drafter < AnyDrafter::kinds; ++drafter)
    for (const support::AnyVerifier& rule : support::sampling_rules)
      if (fit(drafter, rule)) visit(drafter, rule);
}

// Bytes in use: at most, in the first fifth of what a world wrote and behind that, and when the world is gone.
struct Memory {
  std::size_t early = 0, late = 0, left = 0;
};

// What one rule and one drafter write.
struct Written {
  Memory memory;
  Tally tally;
  specdec::testing::SampledReport report;
};

Written write(Index drafter, const Rule& rule, std::uint64_t seed, Index tokens) {
  Written out;
  const std::size_t before = live_bytes();
  {
    World world(drafter, rule, seed);
    while (world.tally().tokens < tokens) {
      world.turn();
      std::size_t& most = world.tally().tokens < tokens / 5 ? out.memory.early : out.memory.late;
      most = std::max(most, live_bytes() - before);
    }
    out.tally = world.tally();
    out.report = world.report();
  }
  out.memory.left = live_bytes() - before;
  return out;
}

}  // namespace

TEST_CASE("a million tokens: contexts exact, the text the target's, memory constant") {
  Index pairs = 0;
  each_pair([&](Index, const support::AnyVerifier&) { ++pairs; });
  const Index tokens = (support::exhaustive() ? 10'000'000 : 1'000'000) / pairs + 1;
  std::ostringstream out;
  Tally tally;
  std::size_t left = 0;
  std::uint64_t seed = 0;
  each_pair([&](Index drafter, const support::AnyVerifier& rule) {
    const auto& [memory, written, report] = write(drafter, support::for_loops(rule), ++seed, tokens);
    INFO(AnyDrafter::names[drafter] << " under " << rule.name() << ": " << report);
    CHECK(report.accepted);
    // Some vector may double its room late. What grew with the text would be five times as much.
    CHECK(memory.late < memory.early + memory.early / 2);
    left += memory.left;
    tally += written;
    out << AnyDrafter::names[drafter] << " under " << rule.name() << ": " << memory.early << ", then "
        << memory.late << " bytes\n";
  });
  CHECK(left < 1000);  // in the library's one table, of whose turn it is
  CHECK(tally.tokens >= 1'000'000);
  out << tally;
  SUCCEED(out.str());  // with --success
}

}  // namespace test_soak
