// Judges many drafts at once. Each draft has its own rows and its own source of chance.
#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <iterator>
#include <span>  // and std::ranges::random_access_range: <ranges> takes a while to compile
#include <type_traits>
#include <utility>

#include "specdec/chance/chance.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/row_range.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/draft_layout.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

/// The result for one of many drafts: a verdict, or an error.
struct BatchVerdict {
  Verdict verdict = {};
  std::exception_ptr error = nullptr;
};

/// Judges many drafts of any lengths. Each gets the verdict that verify() would give it, in any order and on any thread. The
/// layout says where each draft lies in the arrays: PackedDrafts, FedDrafts, PaddedDrafts, or a DraftLayout of your own.
/// Nothing is copied. Draft i draws from sources[i]. Its result is verdicts[i].
///
///   specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, specdec::PaddedDrafts{b, n}, rngs, verdicts, for_each);
///
/// `rule` is one rule for all drafts, or a span with one rule per draft. Rules that remember their sequence need a span.
/// Greedy and sampled requests go together in one call: the rows of a greedy request have temperature 0.
/// Shapes: of the layout; sources and verdicts have one entry for each draft.
/// Throws: std::invalid_argument if the shapes do not fit. An error in a single draft goes to its BatchVerdict::error.
/// Random: what verify() draws, for each draft from its own source.
/// Cost: that of verify() for each draft. No allocation for γ <= 64 if nothing fails.
template <class Rule, Probabilities Target, Probabilities Draft, DraftLayout Layout,
          std::ranges::random_access_range Sources, class E = InOrder>
  requires RandomSource<std::ranges::range_value_t<Sources>>
void verify_batch(Rule&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                  const Layout& layout, Sources&& sources, std::span<BatchVerdict> verdicts,
                  E&& for_each = {}) {
  static_assert(detail::fits_executor<E>());
  constexpr bool one_each = std::ranges::random_access_range<Rule>;
  const auto all = distributions(target);
  const auto drafted = distributions(draft);
  layout.check_sizes(tokens, all.rows(), drafted.rows());
  const Index drafts = layout.drafts();
  detail::check_size("verdicts", "entries", std::ssize(verdicts), drafts);
  detail::check_size("sources", "generators", static_cast<Index>(std::ranges::size(sources)), drafts);
  if constexpr (one_each)
    detail::check_size("rule", "rules", static_cast<Index>(std::ranges::size(rule)), drafts);
  else
    static_assert(
        !detail::has_commit<std::remove_cvref_t<Rule>>,
        "a rule that remembers its sequence is not one for all: pass a span of rules, one for each draft");
  const auto judge = [&](Index i) -> Verdict {
    const DraftPlace here = detail::place_of(layout, tokens, drafted.rows(), i);
    auto& source = std::ranges::begin(sources)[i];
    const RowRange p(all, here.target, here.gamma + 1);
    const RowRange q(drafted, here.draft, here.gamma);
    const TokenIds ids = tokens.segment(here.token, here.gamma);
    if constexpr (one_each) return verify(std::ranges::begin(rule)[i], p, q, ids, source);
    else return verify(std::as_const(rule), p, q, ids, source);
  };
  for_each(drafts, [&](Index i) {
    BatchVerdict& out = detail::at(verdicts, i);
    out = {};
    out.error = detail::error_of([&] { out.verdict = judge(i); });
  });
}

/// Judges drafts that lie one after another: PackedDrafts.
template <class Rule, Probabilities Target, Probabilities Draft, std::ranges::random_access_range Sources,
          class E = InOrder>
  requires RandomSource<std::ranges::range_value_t<Sources>>
void verify_batch(Rule&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                  std::span<const Index> offsets, Sources&& sources, std::span<BatchVerdict> verdicts,
                  E&& for_each = {}) {
  verify_batch(std::forward<Rule>(rule), target, draft, tokens, PackedDrafts{offsets},
               std::forward<Sources>(sources), verdicts, std::forward<E>(for_each));
}

/// Writes what the drafts emit as engines want it: row i of the emitted tokens gets the accepted tokens of draft i, then the token of
/// its verdict, then `padding`. accepted[i] gets the number of accepted tokens. A draft with an error emits nothing: its row is
/// padding, and its number −1.
///
/// Shapes: `emitted` holds one row for each draft; `accepted`, one entry. A row must have room for γ + 1 tokens.
/// Throws: std::invalid_argument if the shapes do not fit, or if a draft has fewer tokens than were accepted. Then nothing has
/// been written.
template <DraftLayout Layout, std::ranges::contiguous_range Emitted, std::ranges::contiguous_range Accepted>
  requires std::integral<std::ranges::range_value_t<Emitted>> &&
           std::integral<std::ranges::range_value_t<Accepted>>
void write_emitted(TokenIds tokens, const Layout& layout, Index draft_rows,
                   std::span<const BatchVerdict> verdicts, Emitted&& emitted_tokens,
                   Accepted&& accepted_counts, std::ranges::range_value_t<Emitted> padding = -1) {
  using Id = std::ranges::range_value_t<Emitted>;
  using Count = std::ranges::range_value_t<Accepted>;
  const std::span<Id> emitted(emitted_tokens);
  const std::span<Count> accepted(accepted_counts);
  const Index drafts = layout.drafts(), size = std::ssize(emitted), width = drafts > 0 ? size / drafts : 0;
  detail::check_size("verdicts", "entries", std::ssize(verdicts), drafts);
  detail::check_size("accepted", "entries", std::ssize(accepted), drafts);
  if (width * drafts != size)
    detail::invalid_argument("emitted has ", size, " entries, expected a multiple of ", drafts,
                             ", the number of drafts");
  for (Index i = 0; i < drafts; ++i) {
    const auto& [verdict, error] = detail::at(verdicts, i);
    if (error) continue;
    const Index gamma = detail::place_of(layout, tokens, draft_rows, i).gamma;
    if (verdict.accepted < 0 || verdict.accepted > gamma)
      detail::invalid_argument("verdicts[", i, "] accepts ", verdict.accepted, " of ", gamma, " tokens");
    if (verdict.accepted >= width)
      detail::invalid_argument("emitted has room for ", width, " tokens of each draft, but draft ", i,
                               " emits ", verdict.accepted + 1);
  }
  for (Index i = 0; i < drafts; ++i) {
    const auto& [verdict, error] = detail::at(verdicts, i);
    const auto row = detail::part(emitted, i * width, width);
    std::fill(row.begin(), row.end(), padding);
    detail::at(accepted, i) = static_cast<Count>(error ? -1 : verdict.accepted);
    if (error) continue;
    const DraftPlace here = layout.place(tokens, draft_rows, i);
    for (Index k = 0; k < verdict.accepted; ++k) detail::at(row, k) = static_cast<Id>(tokens[here.token + k]);
    detail::at(row, verdict.accepted) = static_cast<Id>(verdict.token);
  }
}

}  // namespace specdec
