// What a rule asks of a draft whose rows lie on a device: the questions of specdec::Drafted, answered by a crew of teams.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <optional>

#include "specdec/chance/race_rounds.hpp"
#include "specdec/more/device/address.hpp"
#include "specdec/more/device/draft_row.hpp"
#include "specdec/more/device/fault.hpp"
#include "specdec/more/device/numbers.hpp"
#include "specdec/more/device/row.hpp"
#include "specdec/more/device/team.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::device {

/// Chance by address, without errors: a coin with probability NaN is a fault, and false. It gives the decisions of
/// specdec::AddressedChance with equal seed and step.
template <class Numbers = specdec::detail::SeededNumbers>
class Chance {
 public:
  SPECDEC_TEAM Chance(Numbers numbers, std::uint64_t step, Fault& fault)
      : numbers_(numbers), next_{step, 0, 0}, fault_(&fault) {}

  SPECDEC_TEAM bool coin(double h) {
    const Address at = ask();
    if (h >= 1) return true;
    if (h <= 0) return false;
    if (h != h) {
      if (fault_->kind == FaultKind::none) *fault_ = {FaultKind::no_verdict, 0};
      return false;
    }
    return numbers_.at(at).below(h);
  }

  /// The address of the next question.
  SPECDEC_TEAM Address ask() {
    const Address at = next_;
    ++next_.question;
    return at;
  }
  SPECDEC_TEAM auto at(const Address& address) const { return numbers_.at(address); }
  SPECDEC_TEAM std::uint32_t race_rounds() const {
    return static_cast<std::uint32_t>(numbers_.race_rounds());
  }

 private:
  Numbers numbers_;
  Address next_;
  Fault* fault_;
};

namespace detail {

/// Each team of a crew draws the token, for itself.
template <class Team, class TargetRow, class Pair>
SPECDEC_TEAM Token draw_from(Team team, const TargetRow& row, const Pair& pair) {
  return pair.draw([&](double u) SPECDEC_TEAM_LAMBDA { return row.draw(team, u); }, row);
}

/// The residual of a race as a row, for the enumeration of proofs. On a device it is not asked.
template <class TargetRow, class DraftRow>
struct Residual {
  const TargetRow& p;
  const DraftRow& q;
  double w, mass;

  Index vocab_size() const { return p.vocab_size(); }
  double probability(Token x) const { return p.residual(w, q, x) / mass; }
};

/// How a race ended that was settled.
struct RaceEnd {
  std::optional<Token> winner;
  bool is_nan = false;  // the residual sums to no number
};

/// Ends a race by a pass over the row: a race is memoryless, so this does not change its law. It is won with probability
/// S/(S + 1 − w), and the winner is drawn from the residual. `residual` has room for a number a segment.
///
/// The sum of a segment, and the order in which segments are added, do not depend on the size of the crew.
template <class Crew, class Pair, class TargetRow, class DraftRow>
SPECDEC_TEAM RaceEnd settle_race(Crew& crew, const Pair& pair, double w, const TargetRow& row,
                                 const DraftRow& draft, double* residual) {
  const Index count = segments_of(row.vocab_size());
  crew.each([&](auto team, int j) SPECDEC_TEAM_LAMBDA {
    for (Index s = j; s < count; s += Crew::size) {
      const double mass = row.residual_mass(team, w, draft, s);
      team.run([&](int lane) SPECDEC_TEAM_LAMBDA {
        if (lane == 0) residual[s] = mass;
      });
    }
  });
  double mass = 0;
  for (Index s = 0; s < count; ++s) mass += residual[s];
  const double lost = specdec::detail::lost_below(w);
  if (!(mass <= 1e300)) return {std::nullopt, true};
  if (!(mass > 0)) {
    if (lost > 0) return {std::nullopt};
    return {draw_from(crew.team(), row, pair)};
  }
  if (!pair.below(mass / (mass + lost))) return {std::nullopt};
  const auto sampler = [&](double u) SPECDEC_TEAM_LAMBDA {
    u *= mass;
    Index drawn = 0;
    double left = 0;
    for (Index s = 0; s < count; ++s) {
      if (!(residual[s] > 0)) continue;
      drawn = s;
      left = u;
      if (u < residual[s]) break;
      u -= residual[s];
    }
    return row.draw_residual(crew.team(), w, draft, drawn, left);
  };
  return {pair.draw(sampler, Residual<TargetRow, DraftRow>{row, draft, w, mass})};
}

}  // namespace detail

/// The drafted tokens of one request with their rows. All lanes of a crew call its functions together, with equal arguments, and
/// get equal answers. After a fault the answers mean nothing, but the rule ends.
///
/// `R` has the functions of Requests. It must outlive this.
template <class Crew, class R>
class Drafted {
 public:
  SPECDEC_TEAM Drafted(Crew& crew, const R& requests, Index request, Fault& fault)
      : crew_(&crew),
        all_(&requests),
        request_(request),
        tokens_(requests.tokens + requests.begin(request)),
        gamma_(requests.gamma(request)),
        fault_(&fault) {}

  SPECDEC_TEAM Index gamma() const { return gamma_; }
  SPECDEC_TEAM Index depth(Index i) const { return i; }
  SPECDEC_TEAM Token token(Index i) const { return tokens_[i]; }
  SPECDEC_TEAM double* scratch() const { return crew_->scratch(); }
  SPECDEC_TEAM void look_up_all() const {}

  SPECDEC_TEAM double p(Index i) const {
    const auto row = all_->finished_row(request_, i);
    // A dead end can be read: each token has probability 0.
    const bool readable = row.fault() == FaultKind::target_has_no_mass || is_sound(row, i);
    return readable ? row.probability(token(i)) : 0;
  }
  SPECDEC_TEAM double q(Index i) const {
    const double q = all_->draft_row(request_, i).probability(token(i));
    const FaultKind fault = detail::fault_of_drawn(q);
    if (fault == FaultKind::none) return q;
    fail(fault, i);
    return 1;
  }
  SPECDEC_TEAM double ratio(Index i) const {
    const double ratio = p(i) / q(i);
    return ratio < 1e300 ? ratio : 1e300;
  }

  SPECDEC_TEAM Token argmax(Index i) const {
    const auto row = all_->finished_row(request_, i);
    return is_sound(row, i) ? row.argmax(crew_->team()) : 0;
  }

  template <class C>
  SPECDEC_TEAM Token draw(C& chance, Index i) const {
    const Address at = chance.ask();
    const auto row = all_->finished_row(request_, i);
    return is_sound(row, i) ? detail::draw_from(crew_->team(), row, chance.at(at)) : 0;
  }

  /// The race of specdec::Drafted. A crew makes as many rounds at once as it has teams.
  template <class C>
  SPECDEC_TEAM std::optional<Token> race(C& chance, double w, Index i) const {
    Address at = chance.ask();
    if (!(w > 0)) return std::nullopt;
    const auto row = all_->finished_row(request_, i);
    const double lost = specdec::detail::lost_below(w);
    if (i == gamma_) {
      const auto pair = chance.at(at);
      if (w < 1 && pair.below(lost)) return std::nullopt;  // nothing was read
      return is_sound(row, i) ? detail::draw_from(crew_->team(), row, pair) : Token{0};
    }
    const auto draft = all_->draft_row(request_, i);
    // (nvcc takes `at.round <` for the beginning of a template's arguments.)
    for (const std::uint32_t rounds = chance.race_rounds(); rounds > at.round; at.round += Crew::size) {
      if (chance.at(at).below(lost)) return std::nullopt;  // nothing was read
      if (!is_sound(row, i)) return Token{0};
      crew_->ask([&](auto team, int j)
                     SPECDEC_TEAM_LAMBDA { return round(team, chance, at, rounds, j, lost, row, draft); });
      Address here = at;
      for (int j = 0; j < Crew::size && rounds > here.round; ++j, ++here.round) {
        const auto pair = chance.at(here);
        if (pair.below(lost)) return std::nullopt;
        const Answer answer = crew_->answer(j);
        if (!detail::is_probability(answer.q)) return fail(FaultKind::draft_is_no_probability, i), Token{0};
        const double difference = product(w, answer.p) - answer.q;
        if (pair.below(specdec::detail::won_below(w, answer.p, difference > 0 ? difference : 0)))
          return answer.token;
      }
    }
    at.round = chance.race_rounds();
    double* residual = all_->work.residual + request_ * all_->segments();
    const detail::RaceEnd end = detail::settle_race(*crew_, chance.at(at), w, row, draft, residual);
    if (end.is_nan) return fail(FaultKind::draft_is_no_probability, i), Token{0};
    return end.winner;
  }

 private:
  SPECDEC_TEAM void fail(FaultKind kind, Index i) const {
    if (fault_->kind == FaultKind::none) *fault_ = {kind, static_cast<std::int32_t>(i)};
  }
  template <class TargetRow>
  SPECDEC_TEAM bool is_sound(const TargetRow& row, Index i) const {
    if (row.fault() != FaultKind::none) fail(row.fault(), i);
    return row.fault() == FaultKind::none;
  }

  // Round j of those that are made at once. If an earlier one of them is lost, it draws nothing.
  template <class Team, class C, class TargetRow, class DraftRow>
  SPECDEC_TEAM Answer round(Team team, C& chance, Address at, std::uint32_t rounds, int j, double lost,
                            const TargetRow& row, const DraftRow& draft) const {
    for (int k = 0; k <= j; ++k, ++at.round)
      if (at.round >= rounds || chance.at(at).below(lost)) return {-1, 0, 0};
    --at.round;
    const Token y = detail::draw_from(team, row, chance.at(at));
    return {y, row.probability(y), draft.probability(y)};
  }

  Crew* crew_;
  const R* all_;
  Index request_;
  const std::int32_t* tokens_;
  Index gamma_;
  Fault* fault_;
};

}  // namespace specdec::device
