// Many drafts, each with its own rows and its own chance, judged side by side.
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

/// What became of one draft of many: a verdict, or the error that it failed with.
struct BatchVerdict {
  Verdict verdict = {};
  std::exception_ptr error = nullptr;
};

namespace detail {

/// Refuses offsets that do not cut so many tokens into so many drafts.
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

/// Judges many drafts of any lengths: draft i is tokens[offsets[i]] to tokens[offsets[i + 1] − 1], γ_i of them. Its rows
/// are as many of `draft`, and γ_i + 1 of `target`, which begin at row offsets[i] + i; its chance is sources[i], and what
/// comes of it verdicts[i]. Each gets the verdict that verify() would give it, in any order and on any thread.
///
///   specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, offsets, rngs, verdicts, for_each);
///
/// `rule` is one rule for all, or a span of rules, one a draft, as rules have to be that remember their sequence.
/// Shapes: B drafts of Σγ tokens; target (Σγ + B)×V, draft Σγ×V', offsets B + 1 (as CUB has segments), sources and
/// verdicts B.
/// Throws: std::invalid_argument where these do not fit. What is wrong with a single draft becomes its error.
/// Random: verify() for each, from its own source. Cost: no allocation for γ <= 64 and where nothing fails.
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
