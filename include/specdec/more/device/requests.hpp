// Many requests, as engines keep them, and the three pieces of their verification: sum segments, finish rows, judge.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

#include "specdec/more/device/address.hpp"
#include "specdec/more/device/draft_row.hpp"
#include "specdec/more/device/drafted.hpp"
#include "specdec/more/device/fault.hpp"
#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/row.hpp"
#include "specdec/more/device/segments.hpp"
#include "specdec/more/device/settings.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0::device {

/// Draft rows of logits, a row for each token of all requests. log_sum_exp[k] is log Σ exp(logit/temperature) of row k.
template <class Scalar>
struct DenseDrafts {
  const Scalar* logits = nullptr;
  Index vocab_size = 0;
  Index stride = 0;  ///< from a row to the next one; 0: vocab_size
  const float* log_sum_exp = nullptr;
  const float* temperatures = nullptr;  ///< of each request's drafter; nullptr: 1
  const float* cuts = nullptr;          ///< the least logit that was kept, of each row; nullptr: all were

  SPECDEC_TEAM DenseDraft<Scalar> row(Index request, Index k, Token) const {
    return {logits + k * (stride > 0 ? stride : vocab_size), vocab_size,
            temperatures ? static_cast<double>(temperatures[request]) : 1.0,
            static_cast<double>(log_sum_exp[k]), cuts ? cuts[k] : -infinity};
  }
};

/// Draft rows as lists of `width` tokens each; id −1 fills up a list.
struct ListedDrafts {
  const std::int32_t* ids = nullptr;
  const float* probabilities = nullptr;
  Index width = 0;

  SPECDEC_TEAM ListedDraft row(Index, Index k, Token) const {
    return {ids + k * width, probabilities + k * width, width};
  }
};

/// Drafts of a drafter that chooses, such as a look-up in the text: no rows.
struct ChosenDrafts {
  SPECDEC_TEAM ChosenDraft row(Index, Index, Token token) const { return ChosenDraft(token); }
};

/// Requests that are judged together: pointers into memory that the device reads and writes. Tokens of all requests lie one after
/// another, and so do target rows: the rows of request r begin with number begin(r) + r, and there is one more than tokens.
///
/// A draft ends before its first −1. A target row that a rule does not ask, because a token before it was rejected, may hold
/// anything.
template <class Scalar, class DraftRows>
struct Requests {
  Index count = 0;                     ///< how many requests
  const std::int32_t* ends = nullptr;  ///< ends[r]: how many tokens requests 0..r have (cu_num_draft_tokens)
  const std::int32_t* tokens = nullptr;  ///< drafted tokens, padded with −1

  const Scalar* target = nullptr;  ///< logits
  Index vocab_size = 0;
  Index stride = 0;  ///< from a target row to the next one; 0: vocab_size
  DraftRows draft = {};

  const float* temperatures = nullptr;  ///< of each request; nullptr: 1
  const float* min_p = nullptr;         ///< of each request; nullptr: 0
  const std::int32_t* top_k = nullptr;  ///< of each request; nullptr: 0, which keeps all
  const float* top_p = nullptr;         ///< of each request; nullptr: 1
  const std::uint64_t* seeds = nullptr;
  const std::uint64_t* steps =
      nullptr;  ///< how many verifications each request had before: see AddressedChance

  SegmentSum* sums = nullptr;  ///< work space: rows() × segments
  float* largest =
      nullptr;  ///< work space: rows() × segments × lanes; nullptr if no request has top-k or top-p
  double* cumulative = nullptr;   ///< work space: rows() × segments
  RowSummary* rows_of = nullptr;  ///< work space: rows()
  double* residual = nullptr;     ///< work space: count × segments

  std::int32_t* accepted =
      nullptr;  ///< τ of each request; −1 after a fault. Results may be nullptr where nobody wants them
  std::int32_t* token = nullptr;    ///< Y of each request; −1 after a fault
  std::int32_t* emitted = nullptr;  ///< count × width tokens: those accepted, then Y, then −1
  Index width = 0;                  ///< at least the longest draft and one more
  Fault* faults = nullptr;

  SPECDEC_TEAM Index segments() const { return segments_of(vocab_size); }
  SPECDEC_TEAM Index begin(Index request) const { return request > 0 ? ends[request - 1] : 0; }
  SPECDEC_TEAM Index rows() const { return begin(count) + count; }
  /// The tokens of a request up to the first −1.
  SPECDEC_TEAM Index gamma(Index request) const {
    Index gamma = 0;
    for (const Index first = begin(request); first + gamma < ends[request] && tokens[first + gamma] != -1;)
      ++gamma;
    return gamma;
  }
  SPECDEC_TEAM Settings settings(Index request) const {
    return {temperatures ? temperatures[request] : 1.0F, min_p ? min_p[request] : 0.0F,
            top_k ? top_k[request] : 0, top_p ? top_p[request] : 1.0F};
  }

  SPECDEC_TEAM Index row_number(Index request, Index i) const { return begin(request) + request + i; }
  SPECDEC_TEAM float* largest_of(Index row) const {
    return largest ? largest + row * segments() * lanes : nullptr;
  }
  SPECDEC_TEAM const Scalar* logits(Index request, Index i) const {
    return target + row_number(request, i) * (stride > 0 ? stride : vocab_size);
  }
};

/// The first piece: sums segment s of target row i of a request. A launch has a team for each; rows after a draft's end are
/// skipped.
template <class Team, class R>
SPECDEC_TEAM void sum_segment_of(Team team, const R& requests, Index request, Index i, Index s) {
  if (i > requests.gamma(request)) return;
  const Index row = requests.row_number(request, i);
  float* of_lanes = requests.largest_of(row);
  const SegmentSum sum = sum_segment(
      team, requests.logits(request, i) + s * segment_size, detail::columns_of(requests.vocab_size, s),
      scale_of(requests.settings(request)), of_lanes ? of_lanes + s * lanes : nullptr);
  SegmentSum* out = requests.sums + row * requests.segments() + s;
  team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
    if (lane == 0) *out = sum;
  });
}

/// The second piece: finishes target row i of a request. A launch has a crew for each; a crew of one team is enough where no
/// request has top-k, top-p or min-p.
template <class Crew, class R>
SPECDEC_TEAM void finish_row_of(Crew& crew, const R& requests, Index request, Index i) {
  if (i > requests.gamma(request)) return;
  const Index row = requests.row_number(request, i), first = row * requests.segments();
  const RowSummary summary =
      finish_row(crew, requests.logits(request, i), requests.sums + first, requests.largest_of(row),
                 requests.cumulative + first, requests.vocab_size, requests.settings(request));
  crew.lead([&]() SPECDEC_TEAM_LAMBDA { requests.rows_of[row] = summary; });
}

namespace detail {

/// The rows of one request.
template <class R>
struct RowsOfRequest {
  const R& all;
  Index request;

  SPECDEC_TEAM auto target(Index i) const {
    const Index row = all.row_number(request, i), first = row * all.segments();
    return Row(all.logits(request, i), all.sums + first, all.cumulative + first, all.vocab_size,
               scale_of(all.settings(request)), all.rows_of[row]);
  }
  SPECDEC_TEAM auto draft(Index i) const {
    const Index k = all.begin(request) + i;
    return all.draft.row(request, k, all.tokens[k]);
  }
};

/// Negative ids are in no vocabulary. Ids above the target's may be in the draft's, and have p = 0. As on the host, a token that
/// was not drawn from its draft row is a fault wherever it stands, unless the rule needs no draft rows.
template <bool needs_draft, class R>
SPECDEC_TEAM Fault fault_of_tokens(const R& all, Index request, Index gamma) {
  if (gamma > most_drafted) return {FaultKind::too_long, 0};
  for (Index i = 0; i < gamma; ++i) {
    const Index k = all.begin(request) + i;
    const Token token = all.tokens[k];
    const FaultKind kind = token < 0     ? FaultKind::unknown_token
                           : needs_draft ? all.draft.row(request, k, token).fault_of(token)
                                         : FaultKind::none;
    if (kind != FaultKind::none) return {kind, static_cast<std::int32_t>(i)};
  }
  return {};
}

template <class R>
SPECDEC_TEAM void write_verdict(const R& all, Index request, Fault fault, const Verdict& verdict) {
  const bool sound = fault.kind == FaultKind::none;
  if (all.accepted) all.accepted[request] = sound ? static_cast<std::int32_t>(verdict.accepted) : -1;
  if (all.token) all.token[request] = sound ? verdict.token : -1;
  if (all.faults) all.faults[request] = fault;
  if (!all.emitted) return;
  const Index many = sound ? verdict.accepted + 1 : 0, first = all.begin(request);
  for (Index k = 0; k < all.width; ++k)
    all.emitted[request * all.width + k] = k >= many       ? -1
                                           : k + 1 == many ? verdict.token
                                                           : all.tokens[first + k];
}

/// Whether a device judges the rule, given what it answers. Greedy block verification is left out because its memory is lists that
/// grow: each thread would keep them in its slow memory, between requests, too. Rules for trees ask for sums over rows at each
/// rejected sibling.
template <class Rule, class Answer>
inline constexpr bool judged_on_device =
    std::is_same_v<Answer, Verdict> && !specdec::detail::has_commit<Rule> && !remembers_sequence<Rule> &&
    !draws_keyed<Rule>;

}  // namespace detail

/// The third piece: judges a request by a rule of the library, the template that the proofs run. A launch has a crew for each.
/// The verdict is that of specdec::verify() with AddressedChance{seed, step} over equal rows.
///
/// There is a fault where verify() throws, and nowhere else, but for the limits of a device that FaultKind names. It is this
/// request's alone. `Numbers` stands for the numbers of a seed; a proof puts all numbers in their place.
template <class Crew, class Rule, class R, class Numbers>
SPECDEC_TEAM void judge_request(Crew& crew, Rule rule, const R& requests, Index request,
                                const Numbers& numbers) {
  using Rows = detail::RowsOfRequest<R>;
  const Index gamma = requests.gamma(request);
  Fault fault = detail::fault_of_tokens<needs_draft<Rule>>(requests, request, gamma);
  Drafted<Crew, Rows> drafted(crew, Rows{requests, request}, requests.tokens + requests.begin(request), gamma,
                              requests.residual + request * requests.segments(), fault);
  Chance<Numbers> chance(numbers, requests.steps ? requests.steps[request] : 0, fault);
  Verdict verdict{};
  constexpr bool can_judge = detail::judged_on_device<Rule, decltype(rule.judge(drafted, chance))>;
  static_assert(can_judge,
                "a device judges lines, by rules without a memory: greedy block verification, KeyedVerifier "
                "and rules for trees are for the host");
  if constexpr (can_judge)
    if (fault.kind == FaultKind::none) verdict = rule.judge(drafted, chance);
  for (Index i = 0; i < verdict.accepted && fault.kind == FaultKind::none; ++i)
    if (drafted.token(i) >= requests.vocab_size)
      fault = {FaultKind::no_verdict, static_cast<std::int32_t>(i)};
  crew.lead([&]() SPECDEC_TEAM_LAMBDA { detail::write_verdict(requests, request, fault, verdict); });
}
template <class Crew, class Rule, class R>
SPECDEC_TEAM void judge_request(Crew& crew, Rule rule, const R& requests, Index request) {
  judge_request(crew, rule, requests, request, specdec::detail::SeededNumbers(requests.seeds[request]));
}

/// All three pieces by a loop, in memory of the host: what a kernel must give, to the bit.
template <class Rule, class Scalar, class DraftRows>
void judge_on_cpu(Rule rule, const Requests<Scalar, DraftRows>& requests) {
  LoopCrew<8> crew;
  for (Index r = 0; r < requests.count; ++r) {
    for (Index i = 0; i <= requests.gamma(r); ++i) {
      for (Index s = 0; s < requests.segments(); ++s) sum_segment_of(LoopTeam{}, requests, r, i, s);
      finish_row_of(crew, requests, r, i);
    }
    judge_request(crew, rule, requests, r);
  }
}

}  // namespace specdec::device
