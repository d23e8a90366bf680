// A draft whose rows lie elsewhere. It has what a rule asks of a specdec::Drafted, and turns it into questions.
//
// A rule that has no answer yet goes on as if a race was lost, or as if the row drew the drafted token. So it asks for
// everything that it may need at once. What it returns then is not used: it is called again when the answers are there.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <optional>
#include <specdec/more/device.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "questions.hpp"

namespace in_python {

// Where the rows of a draft begin in the batch.
struct FirstRows {
  Index target, draft;
};

template <class Links>
class AskedDraft {
  using Kind = Question::Kind;
  static constexpr bool linear = Links::linear;

 public:
  // `chosen`: the tokens were not drawn, q = 1. Refers to `links` and to what was asked.
  AskedDraft(const Links& links, specdec::TokenIds tokens, const FirstRows& first, bool chosen,
             Inquiry& asked)
      : links_(links), tokens_(tokens), first_(first), chosen_(chosen), asked_(asked) {}

  // Asks for p and q of all drafted tokens; in a tree, for q in the rows of their elder siblings, too.
  void ask_for_tokens() const {
    for (Index k = 0; k < gamma(); ++k) {
      find(look_up(judged_by(k), k, token(k)));
      if constexpr (!linear)
        for (Index j = first_child(parent(k) + 1); j < k; j = next_sibling(j))
          find(look_up(judged_by(k), j, token(k)));
    }
  }

  Index gamma() const { return links_.gamma(); }
  Token token(Index k) const { return static_cast<Token>(tokens_[k]); }
  Index depth(Index i) const { return links_.depth(i); }
  Index parent(Index k) const { return links_.parent(k); }
  Index first_child(Index node) const { return links_.first_child(node); }
  Index next_sibling(Index k) const { return links_.next_sibling(k); }
  void look_up_all() const {}
  auto scratch() const { return specdec::detail::Scratch(gamma() + 1); }

  double p(Index k) const { return checked_p(judged_by(k), get(look_up(judged_by(k), k, token(k)))); }
  double q(Index k) const {
    const double q = checked_q(k, get(look_up(judged_by(k), k, token(k))));
    if (q == 0)
      specdec::detail::invalid_argument("tokens[", k, "] = ", token(k), " has probability 0 in draft row ", k,
                                        ", so it was not drawn from it");
    return q;
  }
  double ratio(Index k) const { return specdec::detail::bounded(p(k) / q(k)); }
  // Any token. It may have been looked up with the row of another sibling: the target's number is the same.
  double p(Index i, Token x) const {
    return checked_p(i, get(look_up(i, linear && i < gamma() ? i : -1, x)));
  }
  double q(Index k, Token x) const { return checked_q(k, get(look_up(judged_by(k), k, x))); }

  template <class... Words>
  void refuse_unless(bool holds, const Words&... words) const {
    if (!holds) specdec::detail::invalid_argument(words...);
  }

  // The row t = (p − Σ b·q)+/mass; without a sum, target row p.
  struct Row {
    const AskedDraft* draft;
    Index target;
    std::vector<Subtracted> subtracted = {};
    double given_mass = 1;

    double mass() const { return draft->mass_of(*this); }
  };
  struct DraftRow {
    Index k;
  };
  Row target(Index i) const { return {this, i}; }
  DraftRow draft(Index k) const { return {k}; }
  Row residual(Index i, double b, Index k, double mass = 1) const { return {this, i, {minus(k, b)}, mass}; }
  // The next two functions are found by the namespace of the draft.
  friend Row residual(const AskedDraft& draft, Index i, const auto& each, double mass = 1) {
    Row rest{&draft, i, {}, mass};
    each([&](double b, Index k) { rest.subtracted.push_back(draft.minus(k, b)); });
    return rest;
  }
  // Σ min(q/l, p) = Σ p − Σ (p − q/l)+.
  friend double lenient_overlap(const DraftRow& q, const Row& p, double l) {
    return p.mass() - p.draft->residual(p.target, 1 / l, q.k).mass();
  }

  Token argmax(Index i) const { return found(i, {.kind = Kind::largest, .target = first_.target + i}); }
  template <class C>
  Token draw(C& chance, Index i) const {
    return chance.draw(target(i));
  }
  template <class C>
  std::optional<Token> race(C& chance, double w, Index i) const {
    return i == gamma() ? chance.race(w, target(i)) : chance.race(w, target(i), draft(i));
  }

 private:
  friend class AskedChance;

  static constexpr int rounds_ahead = 8;  // rounds of a race that are asked for at once; then all the others

  Index judged_by(Index k) const { return links_.judged_by(k); }

  const Answer* find(const Question& question) const { return asked_.find(question); }
  const Answer& get(const Question& question) const { return asked_.get(question); }

  Question look_up(Index i, Index k, Token x) const {
    return {.kind = Kind::look_up, .target = first_.target + i, .draft = draft_row(k), .token = x};
  }
  Question draw_from(const Row& row, Index k, double u, double w = 1) const {
    const Kind kind = row.subtracted.empty() && w == 1 ? Kind::draw : Kind::residual;
    return {.kind = kind,
            .target = first_.target + row.target,
            .draft = draft_row(k),
            .u = u,
            .w = w,
            .subtracted = row.subtracted};
  }
  Index draft_row(Index k) const { return k < 0 || chosen_ ? -1 : first_.draft + k; }

  Subtracted minus(Index k, double b) const {
    if (chosen_ || b == specdec::detail::all_of_it)
      return {Subtracted::one_hot(token(k)), std::min(b, 1e300)};
    return {first_.draft + k, b};
  }
  double mass_of(const Row& row) const {
    Question question = draw_from(row, -1, 0);
    question.kind = Kind::residual;
    return checked_mass(row.target, get(question));
  }

  // q of a drawn token in draft row k.
  double q_of(Index k, const Answer& answer) const {
    return chosen_ ? static_cast<double>(answer.token == token(k)) : answer.q;
  }

  double checked_p(Index i, const Answer& answer) const {
    if (!specdec::detail::is_probability(answer.p)) complain("target", i, answer.token, answer.p);
    return answer.p;
  }
  double checked_q(Index k, const Answer& answer) const {
    const double q = q_of(k, answer);
    if (!specdec::detail::is_probability(q)) complain("draft", k, answer.token, q);
    return q;
  }
  // A token that was drawn from target row i.
  Token checked_token(Index i, const Answer& answer) const {
    if (answer.token < 0)
      throw specdec::InvalidDistribution("specdec: the probabilities have no finite sum").in("target", i);
    if (!(checked_p(i, answer) > 0))
      throw specdec::InvalidDistribution("specdec: the row has no mass").in("target", i);
    return answer.token;
  }
  double checked_mass(Index i, const Answer& answer) const {
    if (!(answer.mass >= 0 && answer.mass <= 1e300))
      throw specdec::InvalidDistribution(
          specdec::detail::message("specdec: the residual of target and draft sums to ", answer.mass))
          .in("target", i);
    return answer.mass;
  }
  [[noreturn]] static void complain(const char* matrix, Index row, Token x, double number) {
    throw specdec::InvalidDistribution(
        specdec::detail::message("specdec: the probability of token ", x, " is ", number))
        .in(matrix, row);
  }

  template <class C>
  static specdec::AddressedNumbers numbers(const C& chance, const specdec::Address& at) {
    return chance.at(at).numbers;
  }

  Token drawn(const Row& row, double u) const {
    const Question question = draw_from(row, -1, u);
    return row.subtracted.empty() ? found(row.target, question) : checked_token(row.target, get(question));
  }
  template <class C>
  std::optional<Token> leaf_race(C& chance, double w, const Row& row) const {
    const specdec::Address at = chance.ask();
    if (!(w > 0) || (w < 1 && chance.at(at).below(1 - w))) return std::nullopt;
    const Answer* answer = find(draw_from(row, -1, numbers(chance, at).draw));
    if (answer == nullptr) return go_on_as_if_lost(w);
    return checked_token(row.target, *answer);
  }

  Token found(Index i, const Question& question) const {
    if (const Answer* answer = find(question)) return checked_token(i, *answer);
    if (linear && i < gamma()) return token(i);
    throw Unanswered{};
  }

  static std::optional<Token> go_on_as_if_lost(double w) {
    if (w < 1) return std::nullopt;
    throw Unanswered{};  // it cannot be lost
  }

  // The race of weight w between row t and draft row k (specdec/chance/race.hpp). The rounds are those of AddressedChance.
  template <class C>
  std::optional<Token> race_in(C& chance, double w, const Row& row, Index k) const {
    specdec::Address at = chance.ask();
    if (!(w > 0)) return std::nullopt;
    const double lost = specdec::detail::lost_below(w);
    const std::uint32_t last = chance.race_rounds();
    for (std::uint32_t end = rounds_ahead; at.round < last; end = last) {
      if (!ask_for_rounds(chance, at, end, lost, row, k)) return go_on_as_if_lost(w);
      for (; at.round < end; ++at.round) {
        const auto pair = chance.at(at);
        if (pair.below(lost)) return std::nullopt;
        const Answer& answer = get(draw_from(row, k, pair.numbers.draw));
        const double t = weight(row, answer), q = checked_q(k, answer);
        if (pair.below(specdec::detail::won_below(w, t, std::max(w * t - q, 0.0)))) return answer.token;
      }
    }
    return settle(chance, at, w, row, k);
  }

  // Whether the draws of the rounds up to `end` are known. Asks for them if not. After a round that is lost none is needed.
  template <class C>
  bool ask_for_rounds(const C& chance, specdec::Address at, std::uint32_t end, double lost, const Row& row,
                      Index k) const {
    bool known = true;
    for (; at.round < end && !chance.at(at).below(lost); ++at.round)
      known = find(draw_from(row, k, numbers(chance, at).draw)) != nullptr && known;
    return known;
  }

  // t of a token that was drawn from row t.
  double weight(const Row& row, const Answer& answer) const {
    if (row.subtracted.empty()) return checked_token(row.target, answer), answer.p;
    if (!(answer.p > 0)) complain("target", row.target, answer.token, answer.p);
    return answer.p / row.given_mass;
  }

  // Ends a race by the sum of (w·t − q)+.
  template <class C>
  std::optional<Token> settle(const C& chance, const specdec::Address& at, double w, const Row& row,
                              Index k) const {
    const auto pair = chance.at(at);
    Row rest{this, row.target, {minus(k, 1)}};
    for (const Subtracted& each : row.subtracted)
      rest.subtracted.push_back({each.row, std::min(w * each.b / row.given_mass, 1e300)});
    const Answer* answer = find(draw_from(rest, k, pair.numbers.draw, w / row.given_mass));
    if (answer == nullptr) return go_on_as_if_lost(w);
    const double mass = checked_mass(row.target, *answer), lost = specdec::detail::lost_below(w);
    if (mass > 0)
      return pair.below(mass / (mass + lost)) ? std::optional<Token>(answer->token) : std::nullopt;
    if (lost > 0) return std::nullopt;
    return get(draw_from(row, k, pair.numbers.draw)).token;
  }

  const Links& links_;
  specdec::TokenIds tokens_;
  FirstRows first_;
  bool chosen_;
  Inquiry& asked_;
};

// Chance by address over rows that lie elsewhere: what is drawn from them is asked for.
class AskedChance : public specdec::device::Chance<> {
 public:
  using Chance::Chance;

  template <class Row>
  Token draw(const Row& row) {
    return row.draft->drawn(row, row.draft->numbers(*this, ask()).draw);
  }
  template <class Row>
  std::optional<Token> race(double w, const Row& row) {
    return row.draft->leaf_race(*this, w, row);
  }
  template <class Row, class DraftRow>
  std::optional<Token> race(double w, const Row& row, const DraftRow& q) {
    return row.draft->race_in(*this, w, row, q.k);
  }
};

}  // namespace in_python
