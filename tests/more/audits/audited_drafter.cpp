// A drafter under audit drafts what it drafts without one.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/audits/draft_audit.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/one_text.hpp"

namespace test_more_audits_audited_drafter {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

const std::vector<Token> prompt{3, 1, 4, 1, 5};

// Throws on request, from its draft or from its row.
struct Fragile {
  struct BrittleRow : OneHotRow {
    BrittleRow(Token token, bool brittle) : OneHotRow(token), breaks(brittle) {}
    bool breaks;
    double probability(Token x) const {
      if (breaks) throw std::runtime_error("the device is gone");
      return OneHotRow::probability(x);
    }
  };
  bool breaks = false, row_breaks = false;
  std::vector<Token> tokens{1, 2};
  std::vector<BrittleRow> rows;

  Draft<RowSpan<BrittleRow>> draft(std::span<const Token>, Index gamma, auto&) {
    if (breaks) throw std::runtime_error("no memory");
    rows = {{1, false}, {2, row_breaks}};
    rows.resize(static_cast<std::size_t>(std::min<Index>(gamma, 2)), {0, false});
    return {std::span(tokens).first(rows.size()), RowSpan(rows, 3)};
  }
  void truncate(Index) {}
};

// Counts the calls that reach it.
struct Observing : ModelDrafter<TableModel<>> {
  int observed = 0, lengths = 0;
  void observe(const auto& judged) {
    const Index count = std::ssize(judged.tokens);
    observed += judged.rows.rows() == count + 1 && judged.parents.empty() && judged.verdict.node <= count;
  }
  void truncate(Index length) {
    ++lengths;
    ModelDrafter::truncate(length);
  }
};

template <class D>
concept Observes = requires(D& drafter, const RowMajor<double>& rows) {
  drafter.observe(Index{}, Judged<RowMajor<double>>{rows, {}, {}, {}});
};

// Counts the calls that reach it; its drafts are trees.
struct ObservingTrees : ModelDrafter<TableModel<>, Tree<WithoutReplacement>> {
  int observed = 0, lengths = 0;
  void observe(const auto& judged) {
    const Index count = std::ssize(judged.tokens);
    observed += judged.rows.rows() == count + 1 && std::ssize(judged.parents) == count &&
                judged.verdict.node <= count;
  }
  void truncate(Index length) {
    ++lengths;
    ModelDrafter::truncate(length);
  }
};

static_assert(Drafter<AuditedDrafter<ObservingTrees&>> && drafts_trees<AuditedDrafter<ObservingTrees&>>);
static_assert(Observes<AuditedDrafter<ObservingTrees>>);
static_assert(!drafts_trees<AuditedDrafter<Fragile>>);
static_assert(Drafter<AuditedDrafter<Fragile&>> && Drafter<AuditedDrafter<PromptLookupDrafter>>);
static_assert(Observes<AuditedDrafter<Observing>>);

}  // namespace

TEST_CASE("a throw leaves an audit as it was") {
  Fragile fragile;
  AuditedDrafter audited{fragile};
  std::mt19937_64 rng(1);
  OneText by_hand{audited};
  const auto draft = [&] { by_hand.draft(prompt, {2}, rng); };
  draft();
  CHECK(audited.report().tokens == 2);
  fragile.breaks = true;
  CHECK(message_of<std::runtime_error>(draft) == "no memory");
  CHECK(audited.report().tokens == 2);
  fragile.breaks = false;
  fragile.row_breaks = true;
  CHECK(message_of<std::runtime_error>(draft) == "the device is gone");
  CHECK(audited.report().tokens == 2);
  CHECK(audited.report());
}

TEST_CASE("an audit ignores a draft of the wrong shape, which the loop refuses") {
  const std::vector<Token> one{1}, two{1, 2};
  DraftAudit audit;
  audit.add(OneHotRows(one), two);
  audit.add(OneHotRows(two), one);
  CHECK(audit.report().tokens == 2);
}

namespace {

// A drafter with or without an audit, as one type, so that the loop is compiled once.
struct MaybeAudited {
  bool audited;
  Observing drafter;
  AuditedDrafter<Observing&> audit{drafter};
  OneText<AuditedDrafter<Observing&>&> around{audit};

  static constexpr bool drafts_trees = false;
  template <class Source>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
             auto&& keep_drafting) {
    return audited ? around.draft(context, limits, source, keep_drafting)
                   : drafter.draft(context, limits, source, keep_drafting);
  }
  template <class Source>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source) {
    return drafter.draft(context, limits, source);
  }
  void truncate(Index length) { audited ? around.truncate(length) : drafter.truncate(length); }
  void observe(const auto& judged) { audited ? around.observe(judged) : drafter.observe(judged); }
};

}  // namespace

TEST_CASE("a drafter under audit gives the same text, and the audit passes on what the drafter is told") {
  std::mt19937_64 seed(5);
  auto target = TableModel<>::random(12, 2, seed);
  const auto small = TableModel<>::random(12, 2, seed);
  std::vector<std::vector<Token>> texts;
  for (const double least : {0.0, 0.5}) {  // here keep_drafting is passed on to the drafter
    const auto text = [&](MaybeAudited& drafter) {
      SpecDec decoder{target, drafter, BlockVerifier{}, ConfidentLength{least}};
      std::mt19937_64 rng(7);
      return decoder.generate(prompt, {.max_new_tokens = 300}, rng);
    };
    MaybeAudited plain{false, {ModelDrafter{TableModel<>(small)}}}, audited{true, plain.drafter};
    const Result expected = text(plain), got = text(audited);
    CHECK(got.tokens == expected.tokens);
    CHECK(plain.audit.report().tokens == 0);
    CHECK(audited.audit.report().tokens == got.stats.drafted);
    CHECK(audited.drafter.observed == got.stats.target_calls);
    CHECK(audited.drafter.lengths == plain.drafter.lengths);
    CHECK(audited.drafter.lengths > audited.drafter.observed);
    texts.push_back(expected.tokens);
  }
  CHECK(texts[0] != texts[1]);
}

TEST_CASE("trees are audited in the loop, and the loop writes what it writes without an audit") {
  std::mt19937_64 seed(6);
  auto target = TableModel<>::random(12, 2, seed);
  const auto small = TableModel<>::random(12, 2, seed);
  const TreeShape shape = TreeShape::of_widths({3, 2});
  const Options options{.max_new_tokens = 300, .gamma = 9};
  const auto drafter = [&] {
    return ObservingTrees{ModelDrafter{TableModel<>(small), Tree{shape, WithoutReplacement{}}}};
  };
  ObservingTrees plain = drafter(), held = drafter();
  AuditedDrafter audited{held};
  SpecDec without{target, plain, TraversalVerifier{}};
  SpecDec with{target, audited, TraversalVerifier{}};
  std::mt19937_64 one(7), other(7);
  const Result expected = without.generate(prompt, options, one), got = with.generate(prompt, options, other);
  CHECK(got.tokens == expected.tokens);
  CHECK(audited.report().tokens == got.stats.drafted);
  CHECK(audited.report().acquitted());
  CHECK(held.observed == got.stats.target_calls);
  CHECK(held.lengths == plain.lengths);
}

TEST_CASE("a drafter of trees may be moved into its audit, and the audit into a decoder") {
  std::mt19937_64 seed(6);
  auto target = TableModel<>::random(12, 2, seed), small = TableModel<>::random(12, 2, seed);
  const TreeShape shape = TreeShape::of_widths({2, 2});
  SpecDec decoder{target, AuditedDrafter{ModelDrafter{small, Tree{shape, Independent{}}}},
                  TraversalVerifier{}};
  CHECK(decoder.generate(prompt, {.max_new_tokens = 30, .gamma = 6}, seed).tokens.size() == 30);
}

TEST_CASE("drafters that do not ask keep_drafting are audited too, and may be moved in") {
  PromptLookupDrafter plain;
  AuditedDrafter audited{PromptLookupDrafter{}};
  OneText by_hand{audited};
  const auto refuses = [](const auto&, Index) { return false; };
  std::mt19937_64 rng(7);
  std::vector<Token> text = prompt;
  Index drafted = 0;
  for (int i = 0; i < 100; ++i) {
    text.push_back(static_cast<Token>(4 * uniform01(rng)));
    std::mt19937_64 a(7), b(7);
    const auto expected = plain.draft(text, 4, a), got = by_hand.draft(text, {4}, b, refuses);
    CHECK(std::ranges::equal(got.tokens, expected.tokens));
    drafted += std::ssize(got.tokens);
  }
  CHECK(drafted > 100);
  CHECK(audited.report().tokens == drafted);
}

}  // namespace test_more_audits_audited_drafter
