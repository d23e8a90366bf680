// One of the rules of verification, chosen at run time: so the loop is compiled once.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>

namespace web {

/// The page sends the number of a kind.
enum class RuleKind { block, token, sample_match };

class ChosenRule {
  auto with(const auto& f) const {
    if (kind_ == RuleKind::token) return f(specdec::TokenVerifier{});
    if (kind_ == RuleKind::sample_match) return f(specdec::SampleMatchVerifier{});
    return f(specdec::BlockVerifier{});
  }

 public:
  explicit ChosenRule(RuleKind kind) : kind_(kind) {}

  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    return with([&](const auto& rule) { return rule.judge(drafted, chance); });
  }
  double survival(double before, double p, double q) const {
    return with([&](const auto& rule) { return rule.survival(before, p, q); });
  }

 private:
  RuleKind kind_;
};

}  // namespace web
