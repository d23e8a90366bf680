// The drafts of a batch of the C interface.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>

#include "specdec/error.hpp"
#include "specdec/more/c/judge.hpp"
#include "specdec/more/c/rows.hpp"
#include "specdec/more/c/specdec.h"
#include "specdec/more/c/status.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// Whether a rule is for trees.
inline bool is_for_trees(specdec_rule number) {
  return number == SPECDEC_TRAVERSAL || number == SPECDEC_RECURSIVE_REJECTION || number == SPECDEC_K_SEQ;
}

/// The drafts of a batch, one by one.
struct BatchOfC {
  const specdec_batch& in;

  Index offset(Index i) const { return in.offsets != nullptr ? in.offsets[i] : Index{in.offsets32[i]}; }
  Index gamma(Index i) const { return offset(i + 1) - offset(i); }
  specdec_rule rule(Index i) const { return in.rules != nullptr ? in.rules[i] : in.rule; }
  /// Whether the rule of any draft is of a kind.
  bool any(bool (*is_so)(specdec_rule)) const {
    if (in.rules == nullptr) return is_so(in.rule);
    return std::any_of(in.rules, in.rules + in.drafts, is_so);
  }

  void check_sizes() const {
    check_offsets();
    if (in.drafts > 0) check_not_null(in.rngs, "rngs");
    if (in.drafts > 0) check_not_null(in.verdicts, "verdicts");
    if (in.rules == nullptr) check_rule();
    else check_rules();
    if (any(is_for_trees)) {
      if (offset(in.drafts) > 0) check_not_null(in.parents, "parents");
    } else if (in.parents != nullptr && in.rules == nullptr) {
      invalid_argument("parents is not NULL, and rule = ", in.rule, " is no rule for trees");
    }
    check_memories();
    check_temperatures("target", in.target, in.target_temperatures);
    check_temperatures("draft", in.draft, in.draft_temperatures);
  }

  TokenIds tokens() const {
    const Index count = offset(in.drafts);
    if (in.tokens64 == nullptr) return DraftOfC::ids_of("tokens", in.tokens, count);
    if (in.tokens != nullptr) invalid_argument("tokens and tokens64 are both set: one of them is NULL");
    return DraftOfC::ids_of("tokens64", in.tokens64, count);
  }

  /// All drafts in one.
  DraftOfC all() const {
    const auto target = described(in.target, in.target_temperatures),
               draft = described(in.draft, in.draft_temperatures);
    return DraftOfC(target ? &*target : nullptr, draft ? &*draft : nullptr, tokens(), reads_draft(),
                    in.drafts);
  }

  /// Judges draft i.
  specdec_verdict judge(Index i, const DraftOfC& all) const {
    const Index first = offset(i);
    const DraftOfC given = at_temperatures(i, all.part(i, first, gamma(i)));
    if (!is_for_trees(rule(i)))
      return judge_line(rule(i), rule(i) == SPECDEC_GREEDY_BLOCK ? in.memories[i] : nullptr, given,
                        in.rngs[i]);
    const TokenIds links =
        gamma(i) > 0 ? DraftOfC::ids_of("parents", in.parents + first, gamma(i)) : TokenIds();
    return judge_tree(rule(i), given, links, in.rngs[i], in.paths == nullptr ? nullptr : in.paths + first);
  }

  bool is_chosen(Index i) const { return in.chosen != nullptr && in.chosen[i] != 0; }
  /// Whether the draft's rows of any draft are read.
  bool reads_draft() const {
    if (in.chosen == nullptr) return any(looks_at_draft);
    for (Index i = 0; i < in.drafts; ++i)
      if (looks_at_draft(rule(i)) && !is_chosen(i)) return true;
    return false;
  }

 private:
  // Rows whose temperature may be told draft by draft.
  static std::optional<specdec_rows> described(const specdec_rows* rows, const double* temperatures) {
    if (rows == nullptr) return {};
    specdec_rows out = *rows;
    if (temperatures != nullptr) out.temperature = 1;
    return out;
  }
  DraftOfC at_temperatures(Index i, DraftOfC given) const {
    if (in.target_temperatures != nullptr)
      given.target = given.target.at_temperature(in.target_temperatures[i], i);
    if (is_chosen(i)) given.draft = RowsOfC(given.tokens);
    else if (in.draft_temperatures != nullptr && in.draft != nullptr)
      given.draft = given.draft.at_temperature(in.draft_temperatures[i], i);
    return given;
  }

  void check_offsets() const {
    if (in.offsets != nullptr && in.offsets32 != nullptr)
      invalid_argument("offsets and offsets32 are both set: one of them is NULL");
    if (in.offsets32 == nullptr) check_not_null(in.offsets, "offsets");
    detail::check_offsets([this](Index i) { return offset(i); }, in.drafts);
  }
  void check_rule() const {
    if (!is_for_trees(in.rule) && in.rule != SPECDEC_GREEDY_BLOCK)
      with_rule_for_lines(in.rule, [](const auto&) {});
  }
  void check_rules() const {
    for (Index i = 0; i < in.drafts; ++i)
      if (!is_for_trees(in.rules[i]) && (in.rules[i] < SPECDEC_BLOCK || in.rules[i] > SPECDEC_GREEDY_BLOCK))
        invalid_argument("rules[", i, "] = ", in.rules[i], " is no rule");
  }
  void check_memories() const {
    for (Index i = 0; i < in.drafts; ++i) {
      if (rule(i) != SPECDEC_GREEDY_BLOCK) continue;
      check_not_null(in.memories, "memories");
      if (in.memories[i] == nullptr) invalid_argument("memories[", i, "] is NULL");
    }
  }
  static void check_temperatures(const char* name, const specdec_rows* rows, const double* temperatures) {
    if (rows == nullptr || temperatures == nullptr) return;
    if (rows->kind != SPECDEC_LOGITS && rows->kind != SPECDEC_GREEDY_LOGITS)
      invalid_argument(name, "_temperatures is not NULL, and ", name, ".kind = ", rows->kind,
                       " is not SPECDEC_LOGITS");
  }
};

/// What must hold before each draft of a batch can be told a status.
inline void check_statuses(const specdec_batch& in) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (in.drafts < 0) invalid_argument("drafts = ", in.drafts, " is negative");
  if (in.drafts > 0) check_not_null(in.statuses, "statuses");
  if (in.target != nullptr && in.drafts > in.target->rows)
    invalid_argument("target has ", in.target->rows, " rows, expected one at least for each of ", in.drafts,
                     " drafts");
  if (in.errors != nullptr && in.drafts > 0 && in.error_size > most / static_cast<std::size_t>(in.drafts))
    invalid_argument("error_size = ", in.error_size, " for each of ", in.drafts,
                     " drafts is more than fits into memory");
}

/// Judges the drafts one by one.
inline specdec_status judge_batch(const specdec_batch& in) {
  const specdec_status counted =
      status_of({in.errors, in.drafts == 0 ? 0 : in.error_size}, [&] { check_statuses(in); });
  if (counted != SPECDEC_OK) return counted;  // there need not be a status for each draft
  const BatchOfC batch{in};
  const ErrorText texts{in.drafts > 0 ? in.errors : nullptr, in.error_size};
  specdec_status* const statuses = in.statuses;
  specdec_status first = SPECDEC_OK;
  const specdec_status fits = status_of(texts, [&] {
    batch.check_sizes();
    const DraftOfC all = batch.all();
    for (Index i = 0; i < in.drafts; ++i) {
      statuses[i] = status_of(texts.of(i), [&] { in.verdicts[i] = batch.judge(i, all); });
      if (first == SPECDEC_OK) first = statuses[i];
    }
  });
  if (fits == SPECDEC_OK) return first;
  for (Index i = 0; i < in.drafts; ++i) {
    statuses[i] = fits;
    if (i > 0 && in.errors != nullptr) texts.of(i).set(in.errors);
  }
  return fits;
}

}  // namespace specdec::detail
