// Many requests, as engines keep them, and the three pieces of their verification: sum segments, finish rows, judge.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <type_traits>

#include "specdec/more/device/address.hpp"
#include "specdec/more/device/cut.hpp"
#include "specdec/more/device/draft_row.hpp"
#include "specdec/more/device/drafted.hpp"
#include "specdec/more/device/fault.hpp"
#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/row.hpp"
#include "specdec/more/device/segments.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/rules/traits.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0::device {

/// Rows of logits.
template <class Scalar>
struct LogitRows {
  const Scalar* logits = nullptr;
  Index vocab_size = 0;
  Index stride = 0;  ///< from a row to the next one; 0: vocab_size

  SPECDEC_TEAM const Scalar* row(Index k) const { return logits + k * (stride > 0 ? stride : vocab_size); }
};

/// Draft rows of logits, a row for each token of all requests. log_sum_exp[k] is log Σ exp(logit/temperature) of row k.
template <class Scalar>
struct DenseDrafts {
  LogitRows<Scalar> rows = {};
  const float* log_sum_exp = nullptr;
  const float* temperatures = nullptr;  ///< of each request's drafter; nullptr: 1
  const float* cuts = nullptr;          ///< the least logit that was kept, of each row; nullptr: all were

  SPECDEC_TEAM DenseDraft<Scalar> row(Index request, Index k, Token) const {
    return {rows.row(k), rows.vocab_size, temperatures ? static_cast<double>(temperatures[request]) : 1.0,
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
  SPECDEC_TEAM ChosenDraft row(Index, Index, Token token) const { return {token}; }
};

/// How each request samples: arrays of what Settings has. Of one that is nullptr, all requests have the default.
struct RequestSettings {
  const float* temperatures = nullptr;
  const float* min_p = nullptr;
  const std::int32_t* top_k = nullptr;
  const float* top_p = nullptr;

  SPECDEC_TEAM Settings of(Index request) const {
    return {temperatures ? temperatures[request] : 1.0F, min_p ? min_p[request] : 0.0F,
            top_k ? top_k[request] : 0, top_p ? top_p[request] : 1.0F};
  }
};

/// What the pieces leave for one another.
struct WorkSpace {
  SegmentSum* sums = nullptr;    ///< rows() × segments()
  float* largest = nullptr;      ///< rows() × segments() × lanes; nullptr if no request has top-k or top-p
  double* cumulative = nullptr;  ///< rows() × segments()
  RowSummary* rows = nullptr;    ///< rows()
  double* residual = nullptr;    ///< count × segments()
};

/// What is found. An array may be nullptr where nobody wants it.
struct Verdicts {
  std::int32_t* accepted = nullptr;  ///< τ of each request; −1 after a fault
  std::int32_t* token = nullptr;     ///< Y of each request; −1 after a fault
  std::int32_t* emitted = nullptr;   ///< count × width tokens: those accepted, then Y, then −1
  Index width = 0;                   ///< at least the longest draft and one more
  Fault* faults = nullptr;
};

/// Requests that are judged together: pointers into memory that the device reads and writes. Tokens of all requests lie one after
/// another, and so do target rows: the rows of request r begin with number begin(r) + r, and there is one more than tokens.
///
/// A draft ends before its first −1. A target row that no rule asks, since a token before it was rejected, may hold anything.
template <class Scalar, class DraftRows>
struct Requests {
  Index count = 0;                     ///< how many requests
  const std::int32_t* ends = nullptr;  ///< ends[r]: how many tokens requests 0..r have (cu_num_draft_tokens)
  const std::int32_t* tokens = nullptr;  ///< drafted tokens, padded with −1
  LogitRows<Scalar> target = {};
  DraftRows draft = {};
  RequestSettings settings = {};
  const std::uint64_t* seeds = nullptr;
  const std::uint64_t* steps = nullptr;  ///< how many verifications each had before: see AddressedChance
  WorkSpace work = {};
  Verdicts verdicts = {};

  SPECDEC_TEAM Index segments() const { return segments_of(target.vocab_size); }
  SPECDEC_TEAM Index begin(Index request) const { return request > 0 ? ends[request - 1] : 0; }
  SPECDEC_TEAM Index rows() const { return begin(count) + count; }
  /// The tokens of a request up to the first −1.
  SPECDEC_TEAM Index gamma(Index request) const {
    Index gamma = 0;
    for (const Index first = begin(request); first + gamma < ends[request] && tokens[first + gamma] != -1;)
      ++gamma;
    return gamma;
  }
  SPECDEC_TEAM Index row_number(Index request, Index i) const { return begin(request) + request + i; }
  /// Target row i of a request, to be summed and finished.
  SPECDEC_TEAM SummedRow<Scalar> row(Index request, Index i) const {
    const Index row = row_number(request, i), first = row * segments();
    return {target.row(row), target.vocab_size, work.sums + first,
            work.largest ? work.largest + first * lanes : nullptr, work.cumulative + first};
  }
  SPECDEC_TEAM Row<Scalar> finished_row(Index request, Index i) const {
    return {row(request, i), scale_of(settings.of(request)), work.rows[row_number(request, i)]};
  }
  /// The draft row of token i of a request.
  SPECDEC_TEAM auto draft_row(Index request, Index i) const {
    const Index k = begin(request) + i;
    return draft.row(request, k, tokens[k]);
  }
};

/// The first piece: sums segment s of target row i of a request. A launch has a team for each; rows after a draft's end are
/// skipped.
template <class Team, class R>
SPECDEC_TEAM void sum_segment_of(Team team, const R& requests, Index request, Index i, Index s) {
  if (i > requests.gamma(request)) return;
  sum_segment(team, requests.row(request, i), s, scale_of(requests.settings.of(request)));
}

/// The second piece: finishes target row i of a request. A launch has a crew for each; a crew of one team is enough where no
/// request has top-k, top-p or min-p.
template <class Crew, class R>
SPECDEC_TEAM void finish_row_of(Crew& crew, const R& requests, Index request, Index i) {
  if (i > requests.gamma(request)) return;
  const RowSummary summary = finish_row(crew, requests.row(request, i), requests.settings.of(request));
  crew.lead([&]() SPECDEC_TEAM_LAMBDA { requests.work.rows[requests.row_number(request, i)] = summary; });
}

namespace detail {

/// Negative ids are in no vocabulary. Ids above the target's may be in the draft's, and have p = 0. As on the host, a token that
/// was not drawn from its draft row is a fault wherever it stands, unless the rule needs no draft rows.
template <bool needs_draft, class R>
SPECDEC_TEAM Fault fault_of_tokens(const R& all, Index request, Index gamma) {
  if (gamma > most_drafted) return {FaultKind::too_long, 0};
  for (Index i = 0; i < gamma; ++i) {
    const Token token = all.tokens[all.begin(request) + i];
    const FaultKind kind = token < 0     ? FaultKind::unknown_token
                           : needs_draft ? all.draft_row(request, i).fault_of(token)
                                         : FaultKind::none;
    if (kind != FaultKind::none) return {kind, static_cast<std::int32_t>(i)};
  }
  return {};
}

template <class R>
SPECDEC_TEAM void write_verdict(const R& all, Index request, Fault fault, const Verdict& verdict) {
  const bool sound = fault.kind == FaultKind::none;
  const Verdicts& out = all.verdicts;
  if (out.accepted) out.accepted[request] = sound ? static_cast<std::int32_t>(verdict.accepted) : -1;
  if (out.token) out.token[request] = sound ? verdict.token : -1;
  if (out.faults) out.faults[request] = fault;
  if (!out.emitted) return;
  const Index many = sound ? verdict.accepted + 1 : 0, first = all.begin(request);
  for (Index k = 0; k < out.width; ++k)
    out.emitted[request * out.width + k] = k >= many       ? -1
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
  const Index gamma = requests.gamma(request);
  Fault fault = detail::fault_of_tokens<needs_draft<Rule>>(requests, request, gamma);
  Drafted<Crew, R> drafted(crew, requests, request, fault);
  Chance<Numbers> chance(numbers, requests.steps ? requests.steps[request] : 0, fault);
  Verdict verdict{};
  constexpr bool can_judge = detail::judged_on_device<Rule, decltype(rule.judge(drafted, chance))>;
  static_assert(can_judge,
                "a device judges lines, by rules without a memory: greedy block verification, KeyedVerifier "
                "and rules for trees are for the host");
  if constexpr (can_judge)
    if (fault.kind == FaultKind::none) verdict = rule.judge(drafted, chance);
  for (Index i = 0; i < verdict.accepted && fault.kind == FaultKind::none; ++i)
    if (drafted.token(i) >= requests.target.vocab_size)
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
