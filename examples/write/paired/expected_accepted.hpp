// How many tokens of one drafted tree a rule accepts on average, computed and not counted.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

namespace paired {

using specdec::Index, specdec::Token;

/// A source of chance for specdec::testing::enumerate that takes every branch which decides how many tokens are accepted, and
/// no others. A vocabulary has thousands of tokens, but a rule goes on differently only after tokens that were drafted. So a
/// draw has an outcome for each of the tokens `apart`, and one outcome for all other tokens together. A race is a coin, which
/// says whether it is won, and then such a draw.
class FewBranches {
 public:
  /// `other` stands for the tokens that are not in `apart`; none: all tokens are in `apart`.
  FewBranches(specdec::testing::Enumerator& branches, std::span<const Token> apart,
              std::optional<Token> other)
      : branches_(branches), apart_(apart), other_(other) {}

  bool coin(double h) { return branches_.coin(h); }

  template <specdec::Distribution R>
  Token draw(const R& row, Index /*place*/ = 0) {
    if (apart_.empty()) return *other_;
    weights_.clear();
    double rest = 1;
    for (const Token x : apart_) {
      weights_.push_back(specdec::probability(row, x));
      rest -= weights_.back();
    }
    if (other_) weights_.push_back(std::max(rest, 0.0));
    const auto outcome = static_cast<std::size_t>(
        branches_.draw(specdec::DenseRow<double>(weights_.data(), std::ssize(weights_))));
    return outcome < apart_.size() ? apart_[outcome] : *other_;
  }

  /// Won with probability S/(S + 1 − w), where S = Σ (w·p − q)+: see specdec/chance/race.hpp.
  template <specdec::Distribution P, specdec::Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    if (w <= 0) return std::nullopt;
    const specdec::ResidualRow<P, Q> rest(w, p, 1.0, q);
    const double lost = std::max(1 - w, 0.0);
    if (!(rest.mass() > 0)) return lost > 0 ? std::nullopt : std::optional<Token>(draw(p));
    if (!coin(rest.mass() / (rest.mass() + lost))) return std::nullopt;
    return draw(rest);
  }
  template <specdec::Distribution P>
  std::optional<Token> race(double w, const P& p) {
    return coin(w) ? std::optional<Token>(draw(p)) : std::nullopt;
  }

 private:
  specdec::testing::Enumerator& branches_;
  std::span<const Token> apart_;
  std::optional<Token> other_;
  std::vector<double> weights_;
};

/// Whether a rule may go on after it has drawn a token. Where it does not, no token has to be told apart.
template <class Rule>
inline constexpr bool goes_on_after_draw = true;
template <>
inline constexpr bool goes_on_after_draw<specdec::TraversalVerifier> = false;
template <>
inline constexpr bool goes_on_after_draw<specdec::RecursiveRejectionVerifier> = false;

/// The expected number of tokens of the tree that the rule accepts, over the rule's own chance. The arguments are those of
/// specdec::verify.
/// Cost: a verification for each way in which the rule can end: γ + 1 by traversal, more for rules that go on after a draw.
template <class Rule, class Target, class Draft>
double expected_accepted(const Rule& rule, const Target& target, const Draft& draft,
                         std::span<const Token> tokens, std::span<const Index> parents) {
  std::vector<Token> apart(tokens.begin(), tokens.end());
  std::ranges::sort(apart);
  apart.erase(std::ranges::unique(apart).begin(), apart.end());
  std::optional<Token> other = 0;  // the lowest id that was not drafted
  for (const Token x : apart)
    if (x == *other) ++*other;
  if (*other >= specdec::distributions(target).vocab_size()) other.reset();
  if (!goes_on_after_draw<Rule>) {
    apart.clear();
    other = 0;
  }
  double expected = 0;
  specdec::testing::enumerate([&](specdec::testing::Enumerator& branches) {
    FewBranches chance(branches, apart, other);
    const auto verdict = specdec::verify(rule, target, draft, tokens, parents, chance);
    expected += branches.probability() * static_cast<double>(verdict.path.size());
  });
  return expected;
}

}  // namespace paired
