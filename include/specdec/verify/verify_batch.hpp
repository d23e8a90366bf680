// Judges many drafts at once, lines or trees. Each draft has its own rows and its own source of chance.
// SPDX-License-Identifier: MIT
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

namespace specdec::inline v0_2_0 {

/// The result for one of many drafts: a verdict, or an error.
struct BatchVerdict {
  Verdict verdict = {};
  std::exception_ptr error = nullptr;
};

/// The result for one of many trees: a verdict, or an error.
struct BatchTreeVerdict {
  TreeVerdict verdict = {};
  std::exception_ptr error = nullptr;
};

namespace detail {

/// A layout, or the offsets of PackedDrafts.
template <class L>
concept LayoutOrOffsets = DraftLayout<L> || std::convertible_to<const L&, TokenIds>;

template <DraftLayout L>
const L& as_layout(const L& layout) {
  return layout;
}
inline PackedDrafts as_layout(TokenIds offsets) { return PackedDrafts(offsets); }

/// A random source for each draft, such as a std::vector<std::mt19937_64>: with one for all, verdicts depend on other drafts.
template <class S>
concept SourceForEach = std::ranges::random_access_range<S> && RandomSource<std::ranges::range_value_t<S>>;

/// Whether many drafts can be judged by these. A compile error that says why not, if they cannot.
template <class Layout, class Sources>
consteval bool fits_drafts() {
  static_assert(LayoutOrOffsets<Layout>,
                "the layout is no specdec::DraftLayout, such as PaddedDrafts, and no list of offsets, which "
                "are integers of 32 or 64 bits");
  static_assert(SourceForEach<Sources>,
                "the sources of random numbers are one for each draft, such as a "
                "std::vector<std::mt19937_64>: by one generator a verdict would depend on the other drafts");
  return LayoutOrOffsets<Layout> && SourceForEach<Sources>;
}

/// Calls judge(rule, target, draft, place, source, verdict) for each draft, with its own rows, and stores what it throws.
template <class Rule, DistributionMatrix Target, DistributionMatrix Draft, DraftLayout Layout, class Sources,
          class Out, class E, class Judge>
void judge_each(Rule& rule, const Target& target, const Draft& draft, TokenIds tokens, const Layout& layout,
                Sources& sources, std::span<Out> verdicts, E& for_each, const Judge& judge) {
  static_assert(fits_executor<E>());
  constexpr bool one_each = std::ranges::random_access_range<Rule>;
  layout.check_sizes(tokens, target.rows(), draft.rows());
  const Index drafts = layout.drafts();
  check_size("verdicts", "entries", std::ssize(verdicts), drafts);
  check_size("sources", "generators", static_cast<Index>(std::ranges::size(sources)), drafts);
  if constexpr (one_each) check_size("rule", "rules", static_cast<Index>(std::ranges::size(rule)), drafts);
  else
    static_assert(
        !has_commit<std::remove_const_t<Rule>>,
        "a rule that remembers its sequence is not one for all: pass a span of rules, one for each draft");
  const auto judge_one = [&](Index i, auto& verdict) {
    const DraftPlace here = place_of(layout, tokens, draft.rows(), i);
    auto& source = std::ranges::begin(sources)[i];
    const RowRange p(target, here.target, here.gamma + 1);
    const RowRange q(draft, here.draft, here.gamma);
    if constexpr (one_each) judge(std::ranges::begin(rule)[i], p, q, here, source, verdict);
    else judge(std::as_const(rule), p, q, here, source, verdict);
  };
  for_each(drafts, [&](Index i) {
    auto& [verdict, error] = at(verdicts, i);
    error = error_of([&, &out = verdict] { judge_one(i, out); });
    if (error) verdict = {};
  });
}

// How many tokens a verdict accepts, and the number of the k-th of them.
inline Index accepted_tokens(const Verdict& verdict) { return verdict.accepted; }
inline Index accepted_tokens(const TreeVerdict& verdict) { return std::ssize(verdict.path); }
inline Index accepted_token(const Verdict&, Index k) { return k; }
inline Index accepted_token(const TreeVerdict& verdict, Index k) { return at(verdict.path, k); }

}  // namespace detail

/// Judges many drafts of any lengths. Each gets the verdict that verify() would give it, in any order and on any thread. The
/// layout says where each draft lies in the arrays: PackedDrafts (its offsets will do), FedDrafts, PaddedDrafts, or a DraftLayout
/// of your own. Nothing is copied. Draft i draws from sources[i]. Its result is verdicts[i].
///
///   specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, specdec::PaddedDrafts{b, n}, rngs, verdicts, for_each);
///
/// `rule` is one rule for all drafts, or a span with one rule per draft. Rules that remember their sequence need a span.
/// Greedy and sampled requests go together in one call: the rows of a greedy request have temperature 0.
/// Shapes: of the layout; sources and verdicts have one entry for each draft.
/// Throws: InvalidArgument if the shapes do not fit. An error in a single draft goes to its BatchVerdict::error.
/// Random: what verify() draws, for each draft from its own source.
/// Cost: that of verify() for each draft. No allocation for γ <= 64 if nothing fails.
template <class Rule, class Target, class Draft, class Layout, class Sources, class E = InOrder>
void verify_batch(Rule&& rule, const Target& target, const Draft& draft, TokenIds tokens,
                  const Layout& layout, Sources&& sources, std::span<BatchVerdict> verdicts,
                  E&& for_each = {}) {
  static_assert(detail::rows_are_probabilities<Target, Draft>());
  const auto judge = [&](auto&& by, const auto& p, const auto& q, const DraftPlace& here, auto& source,
                         Verdict& verdict) {
    verdict = verify(std::forward<decltype(by)>(by), p, q, tokens.segment(here.token, here.gamma), source);
  };
  if constexpr (detail::fits_drafts<Layout, Sources>())
    detail::judge_each(rule, distributions(target), distributions(draft), tokens, detail::as_layout(layout),
                       sources, verdicts, for_each, judge);
}

/// Judges many trees by rules for trees. Each gets the verdict that verify() would give it. The parents lie as the tokens lie:
/// parents[k] is that of tokens[k]. It is the number of a token among the tokens of its own draft, or −1 for the context.
///
///   specdec::verify_batch(specdec::TraversalVerifier{}, target, draft, tokens, parents, offsets, rngs, verdicts, for_each);
///
/// Rules, layout, sources, executor and errors: see the function for lines, above.
/// Shapes: of the layout; `parents` has one number for each of `tokens`. What stands beside padding or a fed token is not read.
/// Throws: InvalidArgument if the shapes do not fit. Parents that make no tree are an error of their own draft.
/// Cost: that of verify() for each tree. No allocation for γ <= 64, if nothing fails and the verdicts held such paths before.
template <class Rule, class Target, class Draft, class Layout, class Sources, class E = InOrder>
void verify_batch(Rule&& rule, const Target& target, const Draft& draft, TokenIds tokens, TokenIds parents,
                  const Layout& layout, Sources&& sources, std::span<BatchTreeVerdict> verdicts,
                  E&& for_each = {}) {
  static_assert(detail::rows_are_probabilities<Target, Draft>());
  detail::check_parent_count(parents.size(), tokens.size());
  const auto judge = [&](auto&& by, const auto& p, const auto& q, const DraftPlace& here, auto& source,
                         TreeVerdict& verdict) {
    detail::verify_tree(std::forward<decltype(by)>(by), p, q, tokens.segment(here.token, here.gamma),
                        parents.segment(here.token, here.gamma), source, verdict);
  };
  if constexpr (detail::fits_drafts<Layout, Sources>())
    detail::judge_each(rule, distributions(target), distributions(draft), tokens, detail::as_layout(layout),
                       sources, verdicts, for_each, judge);
}

/// Writes what the drafts emit as engines want it: row i of the emitted tokens gets the accepted tokens of draft i, then the
/// token of its verdict, then `padding`. accepted[i] gets the number of accepted tokens. A draft with an error emits nothing:
/// its row is padding, and its number −1. `verdicts` is a list of BatchVerdict, or of BatchTreeVerdict.
/// Shapes: `emitted` holds one row for each draft; `accepted`, one entry. A row must have room for the accepted tokens and one
/// more: for γ + 1 under any verdict on a line, for one more than the tree is deep under any on a tree.
/// Throws: InvalidArgument if the shapes do not fit, or if a verdict accepts tokens that its draft lacks; nothing is written then.
template <DraftLayout Layout, std::ranges::contiguous_range Verdicts, std::ranges::contiguous_range Emitted,
          std::ranges::contiguous_range Accepted>
  requires(std::same_as<std::ranges::range_value_t<Verdicts>, BatchVerdict> ||
           std::same_as<std::ranges::range_value_t<Verdicts>, BatchTreeVerdict>) &&
          std::integral<std::ranges::range_value_t<Emitted>> &&
          std::integral<std::ranges::range_value_t<Accepted>>
void write_emitted(TokenIds tokens, const Layout& layout, Index draft_rows, const Verdicts& batch_verdicts,
                   Emitted&& emitted_tokens, Accepted&& accepted_counts,
                   std::ranges::range_value_t<Emitted> padding = -1) {
  using Id = std::ranges::range_value_t<Emitted>;
  using Count = std::ranges::range_value_t<Accepted>;
  const std::span<const std::ranges::range_value_t<Verdicts>> verdicts(batch_verdicts);
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
    const Index count = detail::accepted_tokens(verdict);
    if (count < 0 || count > gamma)
      detail::invalid_argument("verdicts[", i, "] accepts ", count, " of ", gamma, " tokens");
    for (Index k = 0; k < count; ++k)
      if (const Index number = detail::accepted_token(verdict, k); number < 0 || number >= gamma)
        detail::invalid_argument("verdicts[", i, "] accepts token ", number, " of ", gamma, " tokens");
    if (count >= width)
      detail::invalid_argument("emitted has room for ", width, " tokens of each draft, but draft ", i,
                               " emits ", count + 1);
  }
  for (Index i = 0; i < drafts; ++i) {
    const auto& [verdict, error] = detail::at(verdicts, i);
    const auto row = detail::part(emitted, i * width, width);
    std::fill(row.begin(), row.end(), padding);
    const Index count = error ? -1 : detail::accepted_tokens(verdict);
    detail::at(accepted, i) = static_cast<Count>(count);
    if (error) continue;
    const DraftPlace here = layout.place(tokens, draft_rows, i);
    for (Index k = 0; k < count; ++k)
      detail::at(row, k) = static_cast<Id>(tokens[here.token + detail::accepted_token(verdict, k)]);
    detail::at(row, count) = static_cast<Id>(verdict.token);
  }
}

}  // namespace specdec
