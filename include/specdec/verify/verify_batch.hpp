// Judges many drafts at once. Each draft has its own rows and its own source of chance.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <span>  // and std::ranges::random_access_range: <ranges> takes a while to compile
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_range.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// The result for one of many drafts: a verdict, or an error.
struct BatchVerdict {
  Verdict verdict = {};
  std::exception_ptr error = nullptr;
};

namespace detail {

/// Throws if the offsets do not cut this many tokens into this many drafts.
inline void check_offsets(std::span<const Index> offsets, Index tokens, Index drafts) {
  if (std::ssize(offsets) != drafts + 1)
    invalid_argument("offsets has ", offsets.size(), " entries, expected one for each of ", drafts,
                     " drafts, and one more");
  if (offsets.front() != 0) invalid_argument("offsets[0] = ", offsets.front(), ", expected 0");
  for (std::size_t i = 1; i < offsets.size(); ++i)
    if (offsets[i] < offsets[i - 1] || offsets[i] > tokens)
      invalid_argument("offsets[", i, "] = ", offsets[i], " is outside ", offsets[i - 1], "..", tokens);
  if (offsets.back() != tokens)
    invalid_argument("offsets[", drafts, "] = ", offsets.back(), ", expected ", tokens,
                     ", the number of tokens");
}

inline void check_size(const char* name, const char* of, Index size, Index expected) {
  if (size != expected) invalid_argument(name, " has ", size, " ", of, ", expected ", expected);
}

}  // namespace detail

/// Judges many drafts of any lengths. Each gets the verdict that verify() would give it, in any order and on any thread.
/// Draft i has the γ_i tokens from tokens[offsets[i]] to tokens[offsets[i + 1] − 1]. Its rows are γ_i rows of `draft` from
/// row offsets[i] on, and γ_i + 1 rows of `target` from row offsets[i] + i on. It draws from sources[i]. Its result is
/// verdicts[i].
///
///   specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, offsets, rngs, verdicts, for_each);
///
/// `rule` is one rule for all drafts, or a span with one rule per draft. Rules that remember their sequence need a span.
/// Shapes: B drafts of Σγ tokens; target (Σγ + B)×V, draft Σγ×V', offsets B + 1 (segment offsets, see CUB), sources and
/// verdicts B.
/// Throws: std::invalid_argument if the shapes do not fit. An error in a single draft goes to its BatchVerdict::error.
/// Random: what verify() draws, for each draft from its own source.
/// Cost: that of verify() for each draft. No allocation for γ <= 64 if nothing fails.
template <class Rule, Probabilities Target, Probabilities Draft, std::ranges::random_access_range Sources,
          Executor E = InOrder>
  requires RandomSource<std::ranges::range_value_t<Sources>>
void verify_batch(Rule&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                  std::span<const Index> offsets, Sources&& sources, std::span<BatchVerdict> verdicts,
                  E&& for_each = {}) {
  constexpr bool one_each = std::ranges::random_access_range<Rule>;
  const auto all = distributions(target);
  const auto drafted = distributions(draft);
  const Index drafts = std::ssize(verdicts);
  detail::check_offsets(offsets, tokens.size(), drafts);
  detail::check_size("target", "rows", all.rows(), tokens.size() + drafts);
  detail::check_size("draft", "rows", drafted.rows(), tokens.size());
  detail::check_size("sources", "generators", static_cast<Index>(std::ranges::size(sources)), drafts);
  if constexpr (one_each)
    detail::check_size("rule", "rules", static_cast<Index>(std::ranges::size(rule)), drafts);
  else
    static_assert(
        !detail::has_commit<std::remove_cvref_t<Rule>>,
        "a rule that remembers its sequence is not one for all: pass a span of rules, one for each draft");
  const auto judge = [&](Index i) -> Verdict {
    const Index first = offsets[static_cast<std::size_t>(i)],
                gamma = offsets[static_cast<std::size_t>(i) + 1] - first;
    auto& source = std::ranges::begin(sources)[i];
    const RowRange p(all, first + i, gamma + 1);
    const RowRange q(drafted, first, gamma);
    if constexpr (one_each)
      return verify(std::ranges::begin(rule)[i], p, q, tokens.segment(first, gamma), source);
    else return verify(std::as_const(rule), p, q, tokens.segment(first, gamma), source);
  };
  for_each(drafts, [&](Index i) {
    BatchVerdict& out = verdicts[static_cast<std::size_t>(i)];
    out = {};
    out.error = detail::error_of([&] { out.verdict = judge(i); });
  });
}

}  // namespace specdec
