// The rules that judge trees, and which of them stands for a rule of linear drafts.
#pragma once

#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>
#include <variant>

namespace generate {

/// Where the tokens of a tree come from.
enum class Siblings { trunk, drawn, chosen };

/// A rule for trees of which no more is known, so that the decoder is compiled once for all of them.
class TreeRule {
 public:
  template <class R>
  explicit TreeRule(std::in_place_type_t<R> rule) : rule_(rule) {}

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) {
    return std::visit([&](auto& rule) { return rule.judge(drafted, chance); }, rule_);
  }
  specdec::Index min_draft_length() const {
    return std::visit([](const auto& rule) { return specdec::min_draft_length(rule); }, rule_);
  }
  void commit() {
    std::visit(
        [](auto& rule) {
          if constexpr (requires { rule.commit(); }) rule.commit();
        },
        rule_);
  }

 private:
  std::variant<
      specdec::TraversalVerifier, specdec::RecursiveRejectionVerifier,
      specdec::TrunkAndSpares<specdec::TokenVerifier>, specdec::TrunkAndSpares<specdec::BlockVerifier>,
      specdec::TrunkAndSpares<specdec::GreedyBlockVerifier>,
      specdec::TrunkAndSpares<specdec::SampleMatchVerifier>, specdec::TrunkAndSpares<specdec::ArgmaxVerifier>>
      rule_;
};

/// Trunks are judged by the rule of that name itself; drawn trees by what the rule is where nothing branches; and chosen
/// tokens by sample-and-match, which no rule surpasses there, unless greedy decoding is asked for.
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
  if (rule == "greedy-block") return of(std::in_place_type<TrunkAndSpares<specdec::GreedyBlockVerifier>>);
  return of(std::in_place_type<TrunkAndSpares<specdec::BlockVerifier>>);
}

/// Why such trees and the rule of that name make no sense together; empty where they do. `draws`: whether the draft
/// model has more than its most probable token to draw.
inline std::string_view objection(Siblings siblings, std::string_view rule, bool draws) {
  if (siblings == Siblings::trunk) return {};
  if (rule == "greedy-block")
    return "greedy block verification judges a line of tokens, and what is beside it: --tree spares";
  if (siblings == Siblings::drawn && !draws)
    return "this tree is drawn, and of the most probable token alone nothing branches: --tree likeliest";
  return {};
}

}  // namespace generate
