// What a rule may ask, only declared. How a rule can be called is found out by these types, which need no rows.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <optional>

#include "specdec/types.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::inline v0_2_0::detail {

struct AnySampler {
  Token operator()(double u);
};

struct AnyRow {
  Index vocab_size() const;
  double probability(Token x) const;
  Token argmax() const;
  double sum(Index start, Index count) const;
  AnySampler sampler() const;
};

struct AnyChance {
  bool coin(double h);
  template <class Row>
  Token draw(const Row& row, Index place = 0);
  template <class... Rows>
  std::optional<Token> race(double w, const Rows&... rows);
};

/// A linear draft: see Drafted.
struct AnyDrafted {
  Index gamma() const;
  Index vocab_size() const;
  Token token(Index i) const;
  double p(Index i) const;
  double q(Index i) const;
  double ratio(Index i) const;
  template <class Chance>
  std::optional<Token> race(Chance& chance, double w, Index i) const;
  template <class Chance>
  Token draw(Chance& chance, Index i) const;
  Index depth(Index i) const;
  Token argmax(Index i) const;
  AnyRow target(Index i) const;
  AnyRow draft(Index i) const;
  void look_up_all() const;
  template <class... Words>
  void refuse_unless(bool holds, const Words&... words) const;
};

/// Whether the rule judges lines, and whether it can do so without a change of itself.
template <class R>
inline constexpr bool judges_lines = requires(R& rule, const AnyDrafted& drafted, AnyChance& chance) {
  { rule.judge(drafted, chance) } -> std::same_as<Verdict>;
};
template <class R>
inline constexpr bool judges_unchanged =
    requires(const R& rule, const AnyDrafted& drafted, AnyChance& chance) { rule.judge(drafted, chance); };

}  // namespace specdec::detail
