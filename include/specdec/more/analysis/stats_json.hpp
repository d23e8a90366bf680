// Statistics as JSON.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "specdec/measure/stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/analysis/measures.hpp"
#include "specdec/more/analysis/projection.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A JSON object (RFC 8259) that grows, with the kinds of values that statistics need. Names need no escapes.
class JsonObject {
 public:
  JsonObject& add(std::string_view name, const auto& value) {
    text_ += text_.empty() ? "{\"" : ",\"";
    ((text_ += name) += "\":") += json(value);
    return *this;
  }
  /// Pre: it has a field.
  std::string text() const { return text_ + "}"; }

 private:
  static std::string json(const JsonObject& object) { return object.text(); }
  // The shortest text that reads back as the number, in any locale; null for NaN and infinity.
  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  static std::string json(Number number) {
    if constexpr (std::floating_point<Number>)
      if (!std::isfinite(number)) return "null";
    std::array<char, 32> digits;
    return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
  }
  template <class Value>
  static std::string json(const std::vector<Value>& values) {
    std::string list;
    for (const Value& value : values) (list += list.empty() ? "" : ",") += json(value);
    return "[" + list + "]";
  }

  std::string text_;  // without the closing bracket
};

inline std::vector<JsonObject> costs_as_json(const CostCurve& cost) {
  std::vector<JsonObject> sizes;
  for (Index size = 0; size < cost.sizes(); ++size)
    if (cost.measured(size)) sizes.push_back(JsonObject().add("tokens", size).add("seconds", cost(size)));
  return sizes;
}

inline JsonObject rule_as_json(const Stats& stats, const Measures& measures, double expected,
                               const std::vector<double>& survival) {
  const auto ends = [](const Interval& range) { return std::vector{range.low, range.high}; };
  std::vector<JsonObject> projections;
  for (const Projection& p : project(stats, measures, survival))
    projections.push_back(JsonObject()
                              .add("gamma", p.gamma)
                              .add("tokens_per_call", p.tokens_per_call)
                              .add("seconds_per_token", p.time_per_token)
                              .add("speed_up", p.speed_up)
                              .add("tokens_per_call_range", ends(p.tokens_range))
                              .add("seconds_per_token_range", ends(p.time_range))
                              .add("speed_up_range", ends(p.speed_up_range)));
  return JsonObject()
      .add("expected_accepted", expected)
      .add("survival", survival)
      .add("projections", projections);
}

}  // namespace detail

/// All statistics, and what was measured, as one JSON object in one line: the counts, the times and costs in seconds, and the
/// acceptance rate with its 95 % interval. P(τ > i) and the projections for γ = 0..16 come three times: as counted for the rule
/// in use ("counted"), and as expected for token and block verification ("token" and "block"). "acceptance_rate", "token" and
/// "block" are absent if nothing is known of them. A range is a list of its two ends: see Projection. Numbers read back
/// exactly; NaN and infinity are null.
inline std::string to_json(const Stats& stats, const Measures& measures = {}) {
  detail::JsonObject json;
  json.add("target_calls", stats.target_calls)
      .add("drafted", stats.drafted)
      .add("accepted", stats.accepted)
      .add("emitted", stats.emitted)
      .add("block_efficiency", stats.block_efficiency())
      .add("accepted_fraction", stats.accepted_fraction())
      .add("accepted_lengths", stats.accepted_lengths)
      .add("asked_by_position", stats.asked_by_position)
      .add("drafted_by_position", stats.drafted_by_position)
      .add("reached_by_position", stats.reached_by_position)
      .add("accepted_by_position", stats.accepted_by_position);
  if (!stats.offered_by_rank.empty())
    json.add("offered_by_rank", stats.offered_by_rank).add("accepted_by_rank", stats.accepted_by_rank);
  json.add("draft_seconds", detail::seconds(stats.draft_time))
      .add("target_seconds", detail::seconds(stats.target_time))
      .add("verify_seconds", detail::seconds(stats.verify_time))
      .add("draft_cost", detail::costs_as_json(measures.draft_cost))
      .add("target_cost", detail::costs_as_json(measures.target_cost));
  const auto rule = [&](double expected, const std::vector<double>& survival) {
    return detail::rule_as_json(stats, measures, expected, survival);
  };
  json.add("counted", rule(stats.accepted_per_step(), stats.survival()));
  const Acceptance& acceptance = measures.acceptance;
  if (acceptance.drafted.empty()) return json.text();
  const Interval rate = acceptance.rate_interval();
  json.add("acceptance_rate", detail::JsonObject()
                                  .add("value", acceptance.rate().value)
                                  .add("standard_error", acceptance.rate().standard_error)
                                  .add("low", rate.low)
                                  .add("high", rate.high))
      .add("token", rule(acceptance.expected_token(), acceptance.token_survival()))
      .add("block", rule(acceptance.expected_block(), acceptance.block_survival()));
  return json.text();
}

}  // namespace specdec
