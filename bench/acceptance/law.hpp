// Checks by enumeration whether a rule keeps the target's law, before its acceptance is measured.
// SPDX-License-Identifier: MIT
#pragma once

#include <map>
#include <sstream>
#include <string>
#include <string_view>

#include "acceptance/rules.hpp"
#include "specdec/testing/check_lossless.hpp"

namespace acceptance {

/// Checks a rule exactly, over all outcomes of a few dozen small models and several iterations.
template <class V>
specdec::testing::LosslessReport check_law(const Rule<V>& rule) {
  return specdec::testing::check_lossless(rule.verifier,
                                          {.vocab_sizes = {2, 3}, .reference = rule.reference});
}

/// The label beside every figure of the rule.
inline std::string law_label(const specdec::testing::LosslessReport& report) {
  if (report.lossless) return "lossless: exact";
  std::ostringstream text;
  text.precision(2);
  text << "LOSSY: off by " << report.worst_difference;
  return text.str();
}

/// The label of a rule. The rule is checked once, at the first call.
template <class V>
const std::string& label_of(const Rule<V>& rule) {
  static std::map<std::string, std::string, std::less<>> labels;
  auto found = labels.find(rule.name);
  if (found == labels.end()) found = labels.emplace(rule.name, law_label(check_law(rule))).first;
  return found->second;
}

}  // namespace acceptance
