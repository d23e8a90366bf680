// The rules for trees, and which one stands for each rule for linear drafts.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>
#include <variant>

namespace generate {

/// Where the tokens of a tree come from: a drawn trunk with likely spares beside it; all drawn; all chosen without chance.
enum class Siblings { trunk, drawn, chosen };

/// A type-erased rule for trees, so that the decoder is compiled once for all rules.
class TreeRule {
 public:
  template <class R>
  explicit TreeRule(std::in_place_type_t<R> rule) : rule_(rule) {}

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& rule) { return rule.judge(drafted, chance); }, rule_);
  }

 private:
  std::variant<
      specdec::TraversalVerifier, specdec::RecursiveRejectionVerifier,
      specdec::TrunkAndSpares<specdec::TokenVerifier>, specdec::TrunkAndSpares<specdec::BlockVerifier>,
      specdec::TrunkAndSpares<specdec::SampleMatchVerifier>, specdec::TrunkAndSpares<specdec::ArgmaxVerifier>>
      rule_;
};

/// The rule for a tree. On a trunk it is the named rule itself. On a drawn tree it is the rule for trees that equals the
/// named rule on a line. On chosen tokens it is sample-and-match, which is the best rule there, or argmax if that is named.
inline TreeRule tree_rule(Siblings siblings, std::string_view rule) {
  using specdec::TrunkAndSpares;
  const auto of = []<class R>(std::in_place_type_t<R> type) { return TreeRule(type); };
  if (rule == "argmax") return of(std::in_place_type<TrunkAndSpares<specdec::ArgmaxVerifier>>);
  if (rule == "sample-match" || siblings == Siblings::chosen)
    return of(std::in_place_type<TrunkAndSpares<specdec::SampleMatchVerifier>>);
  if (siblings == Siblings::drawn) {
    if (rule == "token") return of(std::in_place_type<specdec::RecursiveRejectionVerifier>);
    return of(std::in_place_type<specdec::TraversalVerifier>);
  }
  if (rule == "token") return of(std::in_place_type<TrunkAndSpares<specdec::TokenVerifier>>);
  return of(std::in_place_type<TrunkAndSpares<specdec::BlockVerifier>>);
}

/// The reason why such trees do not go with the named rule; empty if they do. `draws`: whether the draft model is sampled
/// at a temperature above 0.
inline std::string_view objection(Siblings siblings, std::string_view rule, bool draws) {
  if (rule == "greedy-block") return "greedy block verification judges lines, no trees: --verifier block";
  if (siblings == Siblings::drawn && !draws)
    return "this tree is drawn, and of the most probable token alone nothing branches: --tree likeliest";
  return {};
}

}  // namespace generate
