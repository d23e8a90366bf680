// The rules by their names.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <variant>

#include "arrays.hpp"

namespace in_python {

// A rule for lines that remembers nothing, chosen at run time.
struct LineRule {
  std::variant<specdec::TokenVerifier, specdec::BlockVerifier, specdec::ArgmaxVerifier,
               specdec::SampleMatchVerifier>
      rule;

  // `called` is how an error calls the argument.
  static LineRule of(const std::string& name, const std::string& called = "rule") {
    if (name == "token") return {specdec::TokenVerifier{}};
    if (name == "block") return {specdec::BlockVerifier{}};
    if (name == "argmax") return {specdec::ArgmaxVerifier{}};
    if (name == "sample-match") return {specdec::SampleMatchVerifier{}};
    if (name == "greedy-block")
      refuse(called, " = 'greedy-block' remembers its text: use a specdec.GreedyBlock for each text");
    refuse(called, " = '", name,
           "' is no rule for lines: there are 'token', 'block', 'argmax' and 'sample-match'");
  }

  // Argmax and sample-and-match judge without the draft's rows.
  bool looks_at_draft() const { return rule.index() < 2; }

  specdec::Verdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& held) { return held.judge(drafted, chance); }, rule);
  }
};

// A rule for trees, chosen at run time.
struct TreeRule {
  std::variant<specdec::TraversalVerifier, specdec::RecursiveRejectionVerifier, specdec::KSeqVerifier> rule;

  static TreeRule of(const std::string& name, const std::string& called = "rule") {
    if (name == "traversal") return {specdec::TraversalVerifier{}};
    if (name == "recursive-rejection") return {specdec::RecursiveRejectionVerifier{}};
    if (name == "k-seq") return {specdec::KSeqVerifier{}};
    refuse(called, " = '", name,
           "' is no rule for trees: there are 'traversal', 'recursive-rejection' and 'k-seq'");
  }

  bool looks_at_draft() const { return true; }

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& held) { return held.judge(drafted, chance); }, rule);
  }
};

// Calls f(rule) for a rule whose acceptance is known in closed form.
decltype(auto) with_product_rule(const std::string& name, const auto& f) {
  if (name == "token") return f(specdec::TokenVerifier{});
  if (name == "block") return f(specdec::BlockVerifier{});
  if (name == "greedy-block") return f(specdec::GreedyBlockVerifier{});
  refuse("rule = '", name,
         "' has no expected acceptance here: there are 'token', 'block' and 'greedy-block'");
}

}  // namespace in_python
