// A draft with its rows, and chance that takes every outcome in turn, for constant expressions. They need no Eigen: a rule of
// the library needs none.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <specdec/types.hpp>
#include <specdec/verify/verdict.hpp>

namespace support {

using specdec::Index;
using specdec::Token;

// A row over two tokens: t(x) = numbers[x] / scale. With its default scale it is a row of no numbers, or of probabilities.
struct ConstantRow {
  std::array<double, 2> numbers{};
  double scale = 1;

  constexpr double operator[](Token x) const { return numbers[static_cast<std::size_t>(x)] / scale; }
  constexpr double mass() const { return numbers[0] + numbers[1]; }
  constexpr ConstantRow without(double b, const ConstantRow& d) const {
    return {{std::max(numbers[0] - b * d[0], 0.0), std::max(numbers[1] - b * d[1], 0.0)}};
  }
};

// Σ min(p/l, q).
constexpr double lenient_overlap(const ConstantRow& p, const ConstantRow& q, double l) {
  return std::min(p[0] / l, q[0]) + std::min(p[1] / l, q[1]);
}

// A source of chance that takes every outcome in turn:
//
//   EveryOutcome chance;
//   do { ...; sum += chance.probability(); } while (chance.next());
class EveryOutcome {
 public:
  constexpr bool coin(double h) {
    if (h >= 1) return true;
    if (h <= 0) return false;
    return pick(std::array{1 - h, h}) == 1;
  }

  // A number with probability proportional to its weight.
  constexpr Token pick(std::span<const double> weights) {
    double sum = 0;
    int possible = 0;
    for (const double weight : weights) {
      sum += std::max(weight, 0.0);
      possible += weight > 0 ? 1 : 0;
    }
    if (possible == 0) throw "nothing can be picked";
    int which = choose(possible);
    std::size_t x = 0;
    while (!(weights[x] > 0) || which-- > 0) ++x;
    probability_ *= weights[x] / sum;
    return static_cast<Token>(x);
  }

  constexpr Token draw(const ConstantRow& t, Index = 0) { return pick(t.numbers); }
  // The race of weight w between t and d.
  constexpr std::optional<Token> race(double w, const ConstantRow& t, const ConstantRow& d = {}) {
    if (w <= 0) return std::nullopt;
    const double lost = std::max(1 - w, 0.0);
    const std::array<double, 3> weights{std::max(w * t[0] - d[0], 0.0), std::max(w * t[1] - d[1], 0.0), lost};
    if (weights[0] + weights[1] + lost == 0) return draw(t);
    const Token y = pick(weights);
    return y == 2 ? std::nullopt : std::optional<Token>(y);
  }

  // The probability of all that was picked since the last next().
  constexpr double probability() const { return probability_; }

  // Goes to the next outcome; false after the last one.
  constexpr bool next() {
    at_ = 0;
    probability_ = 1;
    while (made_ > 0) {
      Choice& last = choices_[made_ - 1];
      if (++last.taken < last.of) return true;
      --made_;
    }
    return false;
  }

 private:
  struct Choice {
    int taken = 0, of = 0;
  };

  constexpr int choose(int of) {
    if (at_ == made_) choices_[made_++] = {0, of};
    return choices_[at_++].taken;
  }

  std::array<Choice, 24> choices_{};
  std::size_t made_ = 0, at_ = 0;
  double probability_ = 1;
};

// Numbers for a rule's own use.
template <std::size_t size>
struct ConstantNumbers {
  std::array<double, size> numbers{};
  constexpr double& operator[](Index i) { return numbers[static_cast<std::size_t>(i)]; }
  constexpr double operator[](Index i) const { return numbers[static_cast<std::size_t>(i)]; }
};

// What was drafted, a line or a tree, over a vocabulary of two tokens. All that specdec::Drafted answers, by plain sums.
template <std::size_t size>
struct ConstantDraft {
  using Row = std::array<double, 2>;

  std::array<Row, size + 1> target_rows{};
  std::array<Row, size> draft_rows{};
  std::array<Token, size> tokens{};
  std::array<Index, size> parents{};

  constexpr ConstantDraft(const std::array<Row, size + 1>& target, const std::array<Row, size>& draft,
                          const std::array<Token, size>& ids, const std::array<Index, size>& above)
      : target_rows(target), draft_rows(draft), tokens(ids), parents(above) {}
  // A line, with one target row and one draft row at all places.
  constexpr ConstantDraft(const Row& target, const Row& draft, const std::array<Token, size>& ids)
      : tokens(ids) {
    target_rows.fill(target);
    draft_rows.fill(draft);
    for (std::size_t k = 0; k < size; ++k) parents[k] = static_cast<Index>(k) - 1;
  }

  constexpr ConstantRow target(Index i) const { return {target_rows[at(i)]}; }
  constexpr ConstantRow draft(Index k) const { return {draft_rows[at(k)]}; }

  constexpr Index gamma() const { return static_cast<Index>(size); }
  constexpr Token token(Index k) const { return tokens[at(k)]; }
  constexpr Index parent(Index k) const { return parents[at(k)]; }
  constexpr Index first_child(Index node) const { return child(node, 0); }
  constexpr Index next_sibling(Index k) const { return child(parent(k) + 1, k + 1); }
  constexpr double p(Index k) const { return p(parent(k) + 1, token(k)); }
  constexpr double q(Index k) const { return q(k, token(k)); }
  constexpr double ratio(Index k) const { return p(k) / q(k); }
  constexpr double p(Index i, Token x) const { return target(i)[x]; }
  constexpr double q(Index k, Token x) const { return draft(k)[x]; }
  constexpr Token argmax(Index i) const { return target(i)[0] >= target(i)[1] ? 0 : 1; }
  constexpr void look_up_all() const {}
  constexpr ConstantNumbers<size + 1> scratch() const { return {}; }
  constexpr void refuse_unless(bool holds, const auto&...) const {
    if (!holds) throw "the rule cannot judge this draft";
  }

  constexpr Token draw(EveryOutcome& chance, Index i) const { return chance.draw(target(i)); }
  constexpr std::optional<Token> race(EveryOutcome& chance, double w, Index i) const {
    return i == gamma() ? chance.race(w, target(i)) : chance.race(w, target(i), draft(i));
  }

  constexpr ConstantRow residual(Index i, double b, Index k, double mass = 1) const {
    return {target(i).without(b, draft(k)).numbers, mass};
  }
  friend constexpr ConstantRow residual(const ConstantDraft& drafted, Index i, const auto& each,
                                        double mass = 1) {
    ConstantRow rest = drafted.target(i);
    each([&](double b, Index k) { rest = rest.without(b, drafted.draft(k)); });
    return {rest.numbers, mass};
  }

 private:
  static constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

  constexpr Index child(Index node, Index from) const {
    while (from < gamma() && parent(from) + 1 != node) ++from;
    return from < gamma() ? from : -1;
  }
};

template <std::size_t size, class... More>
ConstantDraft(const std::array<double, 2>&, const std::array<double, 2>&, const std::array<Token, size>&,
              More...) -> ConstantDraft<size>;

// The probability that the rule gives the verdict.
template <class R, class D, class V>
constexpr double probability_of(const V& verdict, const R& rule, const D& draft) {
  EveryOutcome chance;
  double sum = 0;
  do {
    R fresh = rule;
    if (fresh.judge(draft, chance) == verdict) sum += chance.probability();
  } while (chance.next());
  return sum;
}

// Equal but for rounding.
constexpr bool near(double a, double b) { return a - b < 1e-12 && b - a < 1e-12; }

// The models of Sun et al., section 2: p = (1/3, 2/3), q = (2/3, 1/3).
inline constexpr std::array<double, 2> toy_p{1. / 3, 2. / 3}, toy_q{2. / 3, 1. / 3};

// The toy's draft AA.
inline constexpr ConstantDraft<2> toy_line(toy_p, toy_q, {0, 0});

// The toy's draft "A B" of two siblings: B was drawn given its elder sibling, so it was certain.
inline constexpr ConstantDraft<2> toy_siblings{{{toy_p, toy_p, toy_p}}, {{toy_q, {0, 1}}}, {0, 1}, {-1, -1}};

}  // namespace support
