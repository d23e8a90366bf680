#include <specdec/draft/length/batch_costs.hpp>
#include <specdec/types.hpp>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_draft_batch_costs {

using namespace specdec;
using support::message_of;

namespace {

// A target call costs 1, and its tokens 1/4 each up to the eighth and 1/2 beyond; a draft call costs 2 and 1/8 for each text.
auto costs() {
  return BatchCosts{[](Index n) {
                      return 1 + 0.25 * static_cast<double>(n) +
                             0.25 * static_cast<double>(n > 8 ? n - 8 : 0);
                    },
                    [](Index texts) { return 2 + 0.125 * static_cast<double>(texts); }};
}

StepRecord drafted(Index tokens, Index fed) { return {.asked = tokens, .drafted = tokens, .fed = fed}; }

}  // namespace

TEST_CASE("a text bears its share of the calls that it takes part in") {
  auto alone = costs();
  CHECK(alone.plain() == Approx(1.25));
  CHECK(alone(3, 2) == Approx(2 + 2 * 2.125));  // a call over 4 tokens, and two levels
  auto shared = costs();
  shared.batch(4);
  CHECK(shared.plain() == Approx(2.0 / 4));           // a call over the last token of each
  CHECK(shared(0, 0) == Approx(shared.plain()));      // while nothing else is known, the others draft nothing
  CHECK(shared(0, 1) == Approx((2.0 + 2.5) / 4));     // and an equal share of a draft call
  CHECK(shared(3, 0) == Approx(2.0 / 4 + 3 * 0.25));  // a call over 7 tokens, not over 4
  CHECK(shared(6, 0) == Approx(2.0 / 4 + 4 * 0.25 + 2 * 0.5));  // the tokens after the eighth cost more
}

TEST_CASE("a text pays in full for what it feeds beyond the usual number of tokens") {
  auto shared = costs();
  shared.batch(4);
  shared.observe(drafted(1, 2));  // so each of the four feeds 2, all together 8
  const double share = 3.0 / 4;
  CHECK(shared(1, 0) == Approx(share));
  CHECK(shared(2, 0) == Approx(share + 0.5));
  CHECK(shared(0, 0) == Approx(share - 0.25));
  CHECK(shared.plain() == Approx(2.0 / 4));  // all without a draft
}

TEST_CASE("a step that takes in a prompt does not tell how many tokens are usual") {
  auto shared = costs();
  shared.batch(4);
  shared.observe(drafted(1, 2));
  const double before = shared(1, 1);
  shared.observe(drafted(0, 500));
  shared.observe(drafted(1, 501));
  CHECK(shared(1, 1) == before);
  for (int n = 0; n < 2000; ++n) shared.observe(drafted(3, 4));  // longer drafts do, by and by
  CHECK(shared(3, 0) == Approx((1 + 0.25 * 16 + 0.25 * 8) / 4));
}

TEST_CASE("a number of texts that no batch has is refused, and the number before it stays") {
  auto shared = costs();
  shared.batch(4);
  CHECK(message_of([&] { shared.batch(0); }) == "specdec: batch = 0 is outside 1..1073741824");
  CHECK(message_of([&] { shared.batch(1073741825); }) ==
        "specdec: batch = 1073741825 is outside 1..1073741824");
  CHECK(shared.plain() == Approx(2.0 / 4));
}

}  // namespace test_draft_batch_costs
