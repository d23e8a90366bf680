// What became of a step's draft, as the drafter hears of it.
#pragma once

#include <span>
#include <specdec/specdec.hpp>

#include "generate/drafters.hpp"

namespace generate {

/// Drafts as another drafter does, and remembers its last draft and the verdict on it.
class WatchedDrafter final : public Drafter {
 public:
  explicit WatchedDrafter(Drafter& drafter) : drafter_(drafter) {}

  std::span<const Token> drafted() const { return drafted_; }
  const specdec::Verdict& verdict() const { return verdict_; }

  void truncate(Index length) override { drafter_.truncate(length); }

  void observe(const TargetRows& rows, std::span<const Token> drafted,
               const specdec::Verdict& verdict) override {
    drafter_.observe(rows, drafted, verdict);
    drafted_.assign(drafted.begin(), drafted.end());
    verdict_ = verdict;
  }

 private:
  specdec::Draft<Rows> propose(std::span<const Token> context, Index gamma, Chance& chance) override {
    return drafter_.draft(context, gamma, chance);
  }

  Drafter& drafter_;
  Tokens drafted_;
  specdec::Verdict verdict_;
};

}  // namespace generate
