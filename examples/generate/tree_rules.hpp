// The rules that judge trees, and which of them stands for a rule of linear drafts.
#pragma once

#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>
#include <variant>

#include "generate/rules.hpp"
#include "generate/sampled.hpp"
#include "generate/trees.hpp"

namespace generate {

/// A rule for trees of which no more is known, so that the decoder is compiled once for all of them.
class TreeRule {
 public:
  template <class R>
  explicit TreeRule(std::in_place_type_t<R> rule) : rule_(rule) {}

  specdec::Stop judge(const auto& drafted, auto& chance) {
    return std::visit([&](auto& rule) { return rule.judge(drafted, chance); }, rule_);
  }
  Index min_draft_length() const {
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

/// Trunks are judged by the rule itself; drawn trees by what the rule is where nothing branches; and chosen tokens by
/// sample-and-match, which no rule surpasses there, unless greedy decoding is asked for.
inline TreeRule tree_rule(const TreeKind& kind, const Rule& rule) {
  using specdec::TrunkAndSpares;
  const auto of = []<class R>(std::in_place_type_t<R> type) { return TreeRule(type); };
  if (rule.option == "argmax") return of(std::in_place_type<TrunkAndSpares<specdec::ArgmaxVerifier>>);
  if (rule.option == "sample-match" || kind.siblings == Siblings::chosen)
    return of(std::in_place_type<TrunkAndSpares<specdec::SampleMatchVerifier>>);
  if (kind.siblings == Siblings::drawn) {
    if (rule.option == "token") return of(std::in_place_type<specdec::RecursiveRejectionVerifier>);
    return of(std::in_place_type<specdec::TraversalVerifier>);
  }
  if (rule.option == "token") return of(std::in_place_type<TrunkAndSpares<specdec::TokenVerifier>>);
  if (rule.option == "greedy-block")
    return of(std::in_place_type<TrunkAndSpares<specdec::GreedyBlockVerifier>>);
  return of(std::in_place_type<TrunkAndSpares<specdec::BlockVerifier>>);
}

/// Why a kind of trees and a rule make no sense together; empty where they do.
inline std::string_view objection(const TreeKind& kind, const Rule& rule, double temperature) {
  if (kind.siblings == Siblings::trunk) return {};
  if (rule.option == "greedy-block")
    return "greedy block verification judges a line of tokens, and what is beside it: --tree spares";
  if (kind.siblings == Siblings::drawn && draft_temperature(rule, temperature) == 0)
    return "this tree is drawn, and of the most probable token alone nothing branches: --tree likeliest";
  return {};
}

inline specdec::Result speculate(Model& target, TreeDrafter& drafter, const TreeRule& rule, const Job& job,
                                 Generator& generator, const OnStep& on_step) {
  specdec::SpecDec decoder{sampled(target, job.temperature), drafter, rule};
  return decoder.generate(job.prompt, job.options, generator, on_step);
}

}  // namespace generate
