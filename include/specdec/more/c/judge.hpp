// A rule of the C interface, by its number, over what C describes.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <type_traits>

#include "specdec/chance/philox.hpp"
#include "specdec/eigen.hpp"
#include "specdec/error.hpp"
#include "specdec/more/c/greedy_block.hpp"
#include "specdec/more/c/rows.hpp"
#include "specdec/more/c/specdec.h"
#include "specdec/more/c/status.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/logits_row.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/k_seq.hpp"
#include "specdec/verify/rules/argmax.hpp"
#include "specdec/verify/rules/greedy_block.hpp"
#include "specdec/verify/rules/recursive_rejection.hpp"
#include "specdec/verify/rules/sample_match.hpp"
#include "specdec/verify/rules/token.hpp"
#include "specdec/verify/rules/traversal.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::inline v0_2_0::detail {

/// What a rule is given. C can pass what C++ cannot: null pointers, and counts that contradict each other. They are found
/// here, before anything is read or allocated.
struct DraftOfC {
  /// `drafts`: how many drafts lie in the rows, each with a target row more than it has tokens.
  DraftOfC(const specdec_rows* target_rows, const specdec_rows* draft_rows, TokenIds ids, bool needs_draft,
           std::optional<Index> drafts = {})
      : tokens(ids),
        target(target_of(target_rows, ids.size() + drafts.value_or(1), drafts ? "" : "gamma + 1 = ")),
        draft(draft_of(draft_rows, tokens, needs_draft, drafts ? "" : "gamma = ")) {}

  template <class Id>
  static TokenIds ids_of(const char* name, const Id* ids, Index count) {
    if (count < 0 || count > std::numeric_limits<int32_t>::max())
      invalid_argument("gamma = ", count, " is outside 0..", std::numeric_limits<int32_t>::max());
    if (count > 0) check_not_null(ids, name);
    return std::span<const Id>(ids, static_cast<std::size_t>(count));
  }
  static RowsOfC target_of(const specdec_rows* rows, Index expected, const char* formula) {
    check_not_null(rows, "target");
    check_row_count("target", rows->rows, expected, formula);
    return RowsOfC("target", *rows);
  }
  static RowsOfC draft_of(const specdec_rows* rows, TokenIds tokens, bool needed, const char* formula) {
    if (needed) check_not_null(rows, "draft");
    if (rows == nullptr || rows->kind == SPECDEC_ONE_HOT) return RowsOfC(tokens);
    check_row_count("draft", rows->rows, tokens.size(), formula);
    return RowsOfC("draft", *rows);
  }
  static void check_row_count(const char* name, Index rows, Index expected, const char* formula) {
    // A negative number is an error of the description: see RowsOfC.
    if (rows >= 0 && rows != expected)
      invalid_argument(name, " has ", rows, " rows, expected ", formula, expected);
  }

  /// Draft i of many: `gamma` tokens from token `first` on. Each draft before it has a target row more than it has tokens.
  DraftOfC part(Index i, Index first, Index gamma) const {
    DraftOfC some = *this;
    some.tokens = tokens.segment(first, gamma);
    some.target = target.part(first + i, gamma + 1);
    some.draft = draft.part(first, gamma);
    return some;
  }

  /// Returns judge(target, draft). Where both have one frequent type, or the draft is one-hot, they are judged as rows of their types,
  /// as fast as in C++. All else is of any kind: each pair of types costs a compiler two seconds. Row row_of(k) judges token k.
  template <class RowNumber, class Judge>
  specdec_verdict judged(const RowNumber& row_of, const Judge& judge) const {
    return target.with_type([&]<class R>(std::type_identity<R>) -> specdec_verdict {
      constexpr bool numbers = one_of<R, DenseRow<float>, DenseRow<double>>;
      if constexpr (numbers ||
                    one_of<R, DenseRow<Eigen::half, Eigen::Dynamic>,
                           DenseRow<Eigen::bfloat16, Eigen::Dynamic>, ListOfC<float>, ListOfC<double>>)
        if (draft.are<R>()) return judge(RowsOfType<R>(target), RowsOfType<R>(draft));
      if constexpr (numbers || one_of<R, LogitsRow<float>>)
        if (draft.are<OneHotRow>()) return judge(RowsOfType<R>(target), RowsOfType<OneHotRow>(draft));
      prefetch(row_of);
      if (draft.are<OneHotRow>()) return judge(target, RowsOfType<OneHotRow>(draft));
      return judge(target, draft);
    });
  }

  TokenIds tokens;
  RowsOfC target, draft;

 private:
  template <class R, class... Some>
  static constexpr bool one_of = (std::same_as<R, Some> || ...);

  // The look-ups that a rule begins with. Asked for together, their cache misses overlap.
  template <class RowNumber>
  void prefetch(const RowNumber& row_of) const {
    for (Index k = 0; k < tokens.size(); ++k) {
      draft.prefetch(k, as_token(tokens[k]));
      target.prefetch(row_of(k), as_token(tokens[k]));
    }
  }
};

/// Calls f(rule) for a rule for lines that remembers nothing.
template <class F>
auto with_rule_for_lines(specdec_rule number, F&& f) {
  switch (number) {
    case SPECDEC_BLOCK:
      return f(BlockVerifier{});
    case SPECDEC_TOKEN:
      return f(TokenVerifier{});
    case SPECDEC_ARGMAX:
      return f(ArgmaxVerifier{});
    case SPECDEC_SAMPLE_MATCH:
      return f(SampleMatchVerifier{});
    case SPECDEC_GREEDY_BLOCK:
      invalid_argument("rule = ", number, " remembers its text: call specdec_verify_greedy_block");
    default:
      invalid_argument("rule = ", number, " is no rule for lines");
  }
}

/// Calls f(rule) for a rule for trees.
template <class F>
auto with_rule_for_trees(specdec_rule number, F&& f) {
  switch (number) {
    case SPECDEC_TRAVERSAL:
      return f(TraversalVerifier{});
    case SPECDEC_RECURSIVE_REJECTION:
      return f(RecursiveRejectionVerifier{});
    case SPECDEC_K_SEQ:
      return f(KSeqVerifier{});
    default:
      invalid_argument("rule = ", number, " is no rule for trees");
  }
}

/// Whether a rule looks at the draft's rows.
inline bool looks_at_draft(specdec_rule number) {
  return number != SPECDEC_ARGMAX && number != SPECDEC_SAMPLE_MATCH;
}

/// Calls f(generator). The caller's generator goes on only if f succeeds.
template <class F>
auto with_generator(specdec_philox& rng, F&& f) {
  Philox source(rng.seed, rng.offset, rng.stream);
  const auto result = f(source);
  rng.offset = source.offset();
  return result;
}

/// Judges a line: by the memory's rule if there is a memory, else by the rule of this number.
inline specdec_verdict judge_line(specdec_rule number, specdec_greedy_block* memory, const DraftOfC& given,
                                  specdec_philox& rng) {
  return given.judged(
      [](Index k) { return k; },
      [&](const auto& target, const auto& draft) -> specdec_verdict {
        const auto by = [&](auto&& rule) {
          return with_generator(
              rng, [&](Philox& source) { return verify(rule, target, draft, given.tokens, source); });
        };
        const Verdict verdict = memory != nullptr ? by(memory->rule) : with_rule_for_lines(number, by);
        return {verdict.accepted, verdict.token};
      });
}

/// Judges a tree, and writes the path to `path`, if there is one.
inline specdec_verdict judge_tree(specdec_rule number, const DraftOfC& given, TokenIds parents,
                                  specdec_philox& rng, int32_t* path) {
  const auto judge = [&](const auto& target, const auto& draft) -> specdec_verdict {
    const Drafted drafted(target, draft, given.tokens, parents);
    const NodeVerdict stop = with_rule_for_trees(number, [&](auto&& rule) {
      return with_generator(rng, [&](Philox& source) { return verify_at_node(rule, drafted, source); });
    });
    const Index accepted = drafted.depth(stop.node);
    if (path != nullptr) {
      Index at = accepted;
      each_back(drafted, stop.node - 1, [&](Index k) { path[--at] = static_cast<int32_t>(k); });
    }
    return {accepted, stop.token};
  };
  return given.judged([&](Index k) { return Index{as_token(parents[k])} + 1; }, judge);
}

}  // namespace specdec::detail
