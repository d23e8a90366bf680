// Greedy block verification: accepts the most tokens that one step can, and modifies the target of the next tokens.
// Source: Sun et al., "Block Verification Accelerates Speculative Decoding", ICLR 2025, arXiv:2403.10444, App. C, Alg. 4–6.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/race_rounds.hpp"
#include "specdec/error.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/rules/callable.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// The modified target of one position: t = (p − b·q)+ / mass. With b = 0 and mass = 1 it is the target itself.
struct TargetLevel {
  double b = 0;
  double mass = 1;

  /// t(x) of a token x with p = p(x), q = q(x).
  constexpr double probability(double p, double q) const {
    return b == 0 ? p : std::max(p - b * q, 0.0) / mass;
  }
};

/// A list of at most `most` elements that lie inside the object. It has the functions of a std::vector that the rules use.
/// Pre: it never gets more than `most` elements.
template <class T, Index most>
class FixedList {
 public:
  constexpr std::size_t size() const { return size_; }
  constexpr T& operator[](std::size_t i) { return items_[i]; }
  constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  constexpr const T* begin() const { return items_; }
  constexpr const T* end() const { return items_ + size_; }

  constexpr void push_back(const T& item) { items_[size_++] = item; }
  constexpr void clear() { size_ = 0; }

  friend constexpr bool operator==(const FixedList& a, const FixedList& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.items_[i] == b.items_[i])) return false;
    return true;
  }

 private:
  T items_[static_cast<std::size_t>(most)] = {};
  std::size_t size_ = 0;
};

/// A list of at most `most` elements: inside the object if there is a limit, else on the heap.
template <class T, Index most>
using ListOfAtMost =
    std::conditional_t<most == unlimited, std::vector<T>, FixedList<T, most == unlimited ? 1 : most>>;

}  // namespace detail

/// Greedy block verification. Lossless. One step accepts Σ_i Σ min(p, q) tokens in expectation, where p and q are the joint
/// probabilities of the first i tokens. No rule accepts more in one step, even if it knows all rows of both models. But a
/// single step is biased. The verifier corrects the bias: it modifies the target of the next tokens. Over whole generations
/// this costs more than the steps gain: in the paper and in our measurements, block verification is slightly ahead.
/// Source: Sun et al., Alg. 4–6. g_0 = 1, g_{i+1} = g_i·t_i(x_{i+1})/q_i(x_{i+1}), which is not clipped. Races have the weights
/// g_i, with t_i as the target row. A stop at τ < γ with token Y leaves a modification (r, n) = (q_τ(Y)/(g_τ·t_τ(Y)), γ−τ−1). It
/// changes the target of the next n tokens from t' to t ∝ (t' − r·q)+. After token x, r becomes r·q(x)/t'(x). Since (max(a, 0) −
/// b)+ = (a − b)+ for b >= 0, nested modifications of a row need only one coefficient on q (TargetLevel).
///
/// State: the live modifications of one sequence. SpecDec starts a new sequence with a fresh object. By hand, call the
/// verifier on a variable, one for each sequence: a call on a temporary, which would lose the state, does not compile.
/// Pre: q depends on the context only, so that a position has one q in all drafts. The draft's length is fixed before its
/// first token is drawn, and is at least min_draft_length(). One-hot drafts need neither. A drafter that cannot promise
/// this says `steady = false` (see Drafter); the loop then does not compile.
/// Shapes: target (γ+1)×V, draft γ×V, tokens γ.
/// Units: probabilities.
/// Throws: wrong shapes, tokens that cannot have been drafted and numbers that are no probabilities are errors: see Drafted.
/// InvalidArgument on a draft shorter than min_draft_length(). After an error the state is unchanged.
/// Random: a race per position, from γ down to τ.
/// Cost: that of block verification, and a pass over both rows per live modification of a position.
/// Numeric: a modification is skipped where rounding leaves no mass in the modified row.
///
/// GreedyBlockVerifier is this rule for drafts of any length. GreedyBlockWithin<8> is this rule for drafts of at most 8
/// tokens: its memory lies inside the object, so it runs where there is no heap.
template <Index longest>
class GreedyBlockWithin : public detail::Callable<GreedyBlockWithin<longest>> {
  static_assert(longest > 0, "a draft has a token at least");

 public:
  /// The coefficient r, 0 < r < 1, and for how many more tokens it holds.
  struct Modification {
    double ratio = 0;
    Index left = 0;
    friend bool operator==(const Modification&, const Modification&) = default;
  };
  /// A std::vector if drafts may have any length.
  using Modifications = detail::ListOfAtMost<Modification, longest>;

  GreedyBlockWithin() = default;

  /// The verifier of a text that goes on elsewhere, for verification by hand: `live` are the modifications() that it had there.
  /// SpecDec and Batch refuse it: they give a copy of their verifier to each text, which must begin without a memory.
  /// Throws: InvalidArgument unless for each of them 0 < ratio < 1, and `left` is from 1 to 2^31 - 1 and not below that of the
  /// one before it. All modifications() are so. If drafts have at most `longest` tokens, `left` must also leave a token for
  /// each modification that comes later, as drafts of this length do.
  explicit GreedyBlockWithin(Modifications live) : live_(std::move(live)) {
    for (std::size_t k = 0; k < live_.size(); ++k) {
      const Modification m = live_[k];
      if (!(m.ratio > 0 && m.ratio < 1 && m.left >= 1 && m.left <= most_left(k)))
        detail::invalid_argument("modifications[", k, "] has the ratio ", m.ratio, " for ", m.left,
                                 " tokens");
      if (k > 0 && m.left < live_[k - 1].left)
        detail::invalid_argument("modifications[", k, "] is for ", m.left, " tokens, the one before it for ",
                                 live_[k - 1].left);
    }
  }

  /// The live modifications, oldest first.
  constexpr const Modifications& modifications() const& { return live_; }
  const Modifications& modifications() const&& = delete;  // the reference would dangle

  /// Whether no modification is live, as at the beginning of a text.
  constexpr bool is_fresh() const { return live_.empty(); }

  /// The length of the longest live modification, at most γ−1: modified positions need q, so the next draft must cover them.
  constexpr Index min_draft_length() const {
    Index most = 0;
    for (const Modification& m : live_) most = std::max(most, m.left);
    return most;
  }

  constexpr Verdict judge(const auto& drafted, auto& chance) {
    check_length(drafted);
    drafted.look_up_all();
    score(drafted);
    const Verdict verdict = decide(drafted, chance);
    modify(drafted, verdict);
    return verdict;
  }

  /// Makes the last verdict's modifications live, for the tokens after Y.
  constexpr void commit() { std::swap(live_, next_); }

  friend constexpr bool operator==(const GreedyBlockWithin& a, const GreedyBlockWithin& b) {
    return a.live_ == b.live_;
  }

 private:
  // A modification of a row, and the row's target under the modifications before it.
  struct Layer {
    Modification modification;
    detail::TargetLevel before;
  };
  // The state at row i, given the drafted tokens before it. Its layers are layers_[first], layers_[first + 1], ...
  struct Position {
    double g = 1;
    std::size_t first = 0, count = 0;
    detail::TargetLevel target;  // under all modifications
  };

  // A step that ends at a position leaves at most one modification, and none lives for more than longest − 1 tokens. So at
  // most longest − 1 − i modifications are live at row i.
  static constexpr Index most_layers =
      longest == unlimited ? unlimited : std::max<Index>(longest * (longest - 1) / 2, 1);
  static constexpr Index most_positions = longest == unlimited ? unlimited : longest + 1;

  // The most tokens that live_[k] may be for.
  constexpr Index most_left(std::size_t k) const {
    if constexpr (longest == unlimited) return std::numeric_limits<std::int32_t>::max();
    else return longest - static_cast<Index>(live_.size() - k);
  }

  constexpr Position& at(Index i) { return positions_[static_cast<std::size_t>(i)]; }

  constexpr void check_length(const auto& drafted) const {
    const Index gamma = drafted.gamma(), least = min_draft_length();
    drafted.refuse_unless(gamma >= least, "tokens has ", gamma,
                          " drafted tokens, but greedy block verification still modifies the next ", least,
                          ": draft at least that many");
    drafted.refuse_unless(gamma <= longest, "tokens has ", gamma,
                          " drafted tokens, but this greedy block verification is for at most ", longest);
  }

  // Forward pass: g_i, the live modifications and the modified target of every row.
  constexpr void score(const auto& drafted) {
    const Index gamma = drafted.gamma();
    reserve(static_cast<std::size_t>(gamma));
    positions_.clear();
    layers_.clear();
    positions_.push_back({1, 0, live_.size(), {}});
    for (const auto [ratio, left] : live_) layers_.push_back({{ratio, left}, {}});
    for (Index i = 0; i < gamma; ++i) {
      Position next{0, layers_.size(), 0, {}};
      if (at(i).g > 0) {  // after a token that the target rules out, no row is used
        stack_layers(drafted, i);
        const double p = drafted.p(i), q = drafted.q(i);
        const double t = at(i).target.probability(p, q);
        next.g = detail::bounded(at(i).g * detail::bounded(t / q));
        if (next.g > 0) pass(at(i), p, q, [&](const Modification& m) { layers_.push_back({m, {}}); });
        next.count = layers_.size() - next.first;
      }
      positions_.push_back(next);
    }
  }

  // Room on the heap for all live modifications: a stop adds one, which lives for less than γ tokens.
  constexpr void reserve(std::size_t gamma) {
    if constexpr (longest == unlimited) {
      const std::size_t most = std::max(gamma, live_.size() + 1);
      live_.reserve(most);
      next_.reserve(most);
      positions_.reserve(gamma + 1);
      layers_.reserve(most * gamma);
    }
  }

  // The target of row i under its first 0, 1, ... modifications.
  constexpr void stack_layers(const auto& drafted, Index i) {
    Position& here = at(i);
    for (std::size_t k = here.first; k < here.first + here.count; ++k) {
      layers_[k].before = here.target;
      detail::TargetLevel next = here.target;
      next.b += layers_[k].modification.ratio * next.mass;
      next.mass = drafted.residual(i, next.b, i).mass();
      if (next.mass > 0) here.target = next;
    }
  }

  // Calls add(m) for each modification that stays live after a token of this row, with probabilities p (target) and q (draft).
  constexpr void pass(const Position& here, double p, double q, const auto& add) const {
    const std::size_t end = here.first + here.count;
    for (std::size_t k = here.first; k < end; ++k) {
      const auto& [old, target] = layers_[k];
      const Modification m{old.ratio * q / target.probability(p, q), old.left - 1};
      if (is_live(m)) add(m);
    }
  }

  static constexpr bool is_live(const Modification& m) { return m.left > 0 && m.ratio > 0 && m.ratio < 1; }

  // Backward pass: the longest prefix with a won race.
  constexpr Verdict decide(const auto& drafted, auto& chance) {
    for (Index i = drafted.gamma();; --i)
      if (at(i).g != 0 || i == drafted.gamma())
        if (const std::optional<Token> y = race(drafted, chance, i)) return {i, *y};
  }

  // The race of row i, with the modified target if there are live modifications.
  constexpr std::optional<Token> race(const auto& drafted, auto& chance, Index i) {
    const auto [b, mass] = at(i).target;
    if (b == 0) return drafted.race(chance, at(i).g, i);
    const auto t = drafted.residual(i, b, i, mass);
    return chance.race(at(i).g, t, drafted.draft(i));
  }

  // The modifications for the tokens after Y.
  constexpr void modify(const auto& drafted, const Verdict& verdict) {
    const Index stop = verdict.accepted;
    next_.clear();
    if (stop == drafted.gamma()) return;
    const Position& here = at(stop);
    const double p = drafted.p(stop, verdict.token), q = drafted.q(stop, verdict.token);
    pass(here, p, q, [this](const Modification& m) { next_.push_back(m); });
    const Modification fresh{q / (here.g * here.target.probability(p, q)), drafted.gamma() - stop - 1};
    if (is_live(fresh)) next_.push_back(fresh);
  }

  Modifications live_;
  Modifications next_;  // live_ after the last verdict
  // Memory of judge():
  detail::ListOfAtMost<Position, most_positions> positions_;
  detail::ListOfAtMost<Layer, most_layers> layers_;
};

/// Greedy block verification for drafts of any length: see GreedyBlockWithin.
using GreedyBlockVerifier = GreedyBlockWithin<unlimited>;

}  // namespace specdec
