// Measures everything about a rule on an input but its time: whether it is right, its verdicts, what it reads.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "counted.hpp"
#include "input.hpp"
#include "rows.hpp"
#include "specdec/verify/verdict.hpp"

namespace bench {

using specdec::Verdict;

/// Mean and standard error of a series.
class Mean {
 public:
  void add(double x) {
    ++count_;
    sum_ += x;
    squares_ += x * x;
  }
  double value() const { return sum_ / count_; }
  double error() const { return std::sqrt(std::max(squares_ / count_ - value() * value(), 0.0) / count_); }

 private:
  double count_ = 0, sum_ = 0, squares_ = 0;
};

/// Whether verifier and reference accept equally many tokens, within 5 standard errors over 3000 drafts with a
/// small vocabulary.
template <class Rule, class Kind>
bool agree() {
  static const bool result = [] {
    Pool pool({50, Order::shuffled, 70}, 9 * 300);
    const Input<Kind> input(pool, {8, false, 3000});
    WholeRows<Kind> rows(input);
    std::mt19937_64 generator(1);
    typename Rule::Verifier verifier;
    typename Rule::Reference reference;
    Mean ours, theirs;
    for (Index k = 0; k < input.drafts(); ++k) {
      const auto target = input.target(k);
      const auto draft = input.draft(k);
      ours.add(static_cast<double>(verifier(target, draft, input.tokens(k), generator).accepted));
      theirs.add(
          static_cast<double>(reference(rows.target(k), rows.draft(k), input.tokens(k), generator).accepted));
    }
    return std::abs(ours.value() - theirs.value()) <= 5 * std::hypot(ours.error(), theirs.error());
  }();
  return result;
}

/// The generator of timed verifiers and of Verdicts, which therefore are the timed ones.
inline std::mt19937_64 fresh_generator() { return std::mt19937_64(6); }

/// The verdicts of a rule, one for each draft.
template <class Rule, class Kind>
struct Verdicts : std::vector<Verdict> {
  Verdicts(Pool& pool, const Cut& cut) {
    const auto& input = pool.made<Input<Kind>>(cut.key(), cut);
    std::mt19937_64 generator = fresh_generator();
    typename Rule::Verifier verifier;
    for (Index k = 0; k < input.drafts(); ++k) {
      const auto target = input.target(k);
      const auto draft = input.draft(k);
      this->push_back(verifier(target, draft, input.tokens(k), generator));
    }
  }
};

/// Mean acceptance rate of a pool: Σ min(p, q).
struct AcceptanceRate {
  explicit AcceptanceRate(const Pool& pool) {
    Row p(pool.vocab_size()), q(pool.vocab_size());
    for (Index i = 0; i < pool.rows(); ++i) {
      softmax(pool.logits(Side::target, i), p);
      softmax(pool.logits(Side::draft, i), q);
      rate.add(static_cast<double>(p.min(q).sum()));
    }
  }
  Mean rate;
};

/// What a rule draws and reads over all drafts.
template <class Rule, class Kind>
struct Counts {
  Counts(Pool& pool, const Cut& cut) {
    const auto& input = pool.made<Input<Kind>>(cut.key(), cut);
    std::mt19937_64 generator(5);
    typename Rule::Verifier verifier;
    for (Index k = 0; k < input.drafts(); ++k) {
      CountingChance chance(generator);
      std::vector<Reads> target_reads, draft_reads;
      const auto target = input.counted_target(k, target_reads);
      const auto draft = input.counted_draft(k, draft_reads);
      add(chance, input.gamma(), verifier(target, draft, input.tokens(k), chance).accepted);
      add(target_reads, draft_reads);
    }
  }

  double rounds() const { return 1 + surplus.value() / positions.value(); }
  double rounds_error() const { return surplus.error() / positions.value(); }

  /// Whether the mean is one round per position, within 5 standard errors. It may be less if races were cut short.
  bool one_round_per_position() const {
    return surplus.value() <= 5 * surplus.error() && (settled || surplus.value() >= -5 * surplus.error());
  }

  Mean draws, surplus, positions, rows, bytes;
  bool settled = false;

 private:
  void add(const CountingChance& chance, Index gamma, Index tau) {
    const Index visited = Rule::positions(gamma, tau);
    const Index rounds = chance.rounds != 0 ? chance.rounds : chance.draws;
    draws.add(static_cast<double>(chance.draws));
    positions.add(static_cast<double>(visited));
    surplus.add(static_cast<double>(rounds - visited));
    settled = settled || chance.settled > 0;
  }

  void add(const std::vector<Reads>& target, const std::vector<Reads>& draft) {
    Index touched = 0, entries = 0;
    for (const std::vector<Reads>* side : {&target, &draft})
      for (const Reads& row : *side) {
        touched += row.touched();
        entries += row.lookups + row.summed;
      }
    rows.add(static_cast<double>(touched));
    bytes.add(static_cast<double>(entries) * static_cast<double>(Kind::entry_bytes));
  }
};

}  // namespace bench
