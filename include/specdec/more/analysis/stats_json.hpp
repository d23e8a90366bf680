// Statistics as JSON.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>
#include <vector>

#include "specdec/measure/stats.hpp"
#include "specdec/more/analysis/measures.hpp"
#include "specdec/more/analysis/projection.hpp"
#include "specdec/more/lengths/cost_curve.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Writes the part of JSON (RFC 8259) that statistics need: objects and arrays of numbers, under names without escapes.
class JsonWriter {
 public:
  void open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    text_ += bracket;
    first_ = false;
  }

  JsonWriter& key(std::string_view name) {
    separate();
    ((text_ += '"') += name) += "\":";
    first_ = true;
    return *this;
  }

  /// Writes the shortest text that reads back as the number, in any locale; null for NaN and infinity.
  template <class Number>
    requires std::integral<Number> || std::floating_point<Number>
  void value(Number number) {
    separate();
    if constexpr (std::floating_point<Number>)
      if (!std::isfinite(number)) {
        text_ += "null";
        return;
      }
    std::array<char, 32> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    text_.append(digits.data(), end);
  }

  template <class Number>
  void value(const std::vector<Number>& numbers) {
    open('[');
    for (const Number number : numbers) value(number);
    close(']');
  }

  const std::string& text() const { return text_; }

 private:
  void separate() {
    if (!first_) text_ += ',';
    first_ = false;
  }

  std::string text_;
  bool first_ = true;
};

inline void write_costs(JsonWriter& json, const CostCurve& cost) {
  json.open('[');
  for (Index size = 0; size < cost.sizes(); ++size) {
    if (!cost.measured(size)) continue;
    json.open('{');
    json.key("tokens").value(size);
    json.key("seconds").value(cost(size));
    json.close('}');
  }
  json.close(']');
}

inline void write_projections(JsonWriter& json, const std::vector<Projection>& projections) {
  const auto ends = [](const Interval& range) { return std::vector{range.low, range.high}; };
  json.open('[');
  for (const Projection& p : projections) {
    json.open('{');
    json.key("gamma").value(p.gamma);
    json.key("tokens_per_call").value(p.tokens_per_call);
    json.key("seconds_per_token").value(p.time_per_token);
    json.key("speed_up").value(p.speed_up);
    json.key("tokens_per_call_range").value(ends(p.tokens_range));
    json.key("seconds_per_token_range").value(ends(p.time_range));
    json.key("speed_up_range").value(ends(p.speed_up_range));
    json.close('}');
  }
  json.close(']');
}

inline void write_rule(JsonWriter& json, const Stats& stats, const Measures& measures, double expected,
                       const std::vector<double>& survival) {
  json.open('{');
  json.key("expected_accepted").value(expected);
  json.key("survival").value(survival);
  json.key("projections");
  write_projections(json, project(stats, measures, survival));
  json.close('}');
}

}  // namespace detail

/// All statistics, and what was measured, as one JSON object in one line: the counts, the times and costs in seconds, and the
/// acceptance rate with its 95 % interval. P(τ > i) and the projections for γ = 0..16 come three times: as counted for the rule in use
/// ("counted"), and as expected for token and block verification ("token" and "block"). "acceptance_rate", "token" and
/// "block" are absent if nothing is known of them. A range is a list of its two ends: see Projection. Numbers read back exactly;
/// NaN and infinity are null.
inline std::string to_json(const Stats& stats, const Measures& measures = {}) {
  const auto seconds = [](std::chrono::nanoseconds t) { return std::chrono::duration<double>(t).count(); };
  detail::JsonWriter json;
  json.open('{');
  json.key("target_calls").value(stats.target_calls);
  json.key("drafted").value(stats.drafted);
  json.key("accepted").value(stats.accepted);
  json.key("emitted").value(stats.emitted);
  json.key("block_efficiency").value(stats.block_efficiency());
  json.key("accepted_fraction").value(stats.accepted_fraction());
  json.key("accepted_lengths").value(stats.accepted_lengths);
  json.key("asked_by_position").value(stats.asked_by_position);
  json.key("drafted_by_position").value(stats.drafted_by_position);
  json.key("reached_by_position").value(stats.reached_by_position);
  json.key("accepted_by_position").value(stats.accepted_by_position);
  if (!stats.offered_by_rank.empty()) {
    json.key("offered_by_rank").value(stats.offered_by_rank);
    json.key("accepted_by_rank").value(stats.accepted_by_rank);
  }
  json.key("draft_seconds").value(seconds(stats.draft_time));
  json.key("target_seconds").value(seconds(stats.target_time));
  json.key("verify_seconds").value(seconds(stats.verify_time));
  json.key("draft_cost");
  detail::write_costs(json, measures.draft_cost);
  json.key("target_cost");
  detail::write_costs(json, measures.target_cost);
  json.key("counted");
  detail::write_rule(json, stats, measures, stats.accepted_per_step(), stats.survival());
  const Acceptance& acceptance = measures.acceptance;
  if (!acceptance.drafted.empty()) {
    const Interval rate = acceptance.rate_interval();
    json.key("acceptance_rate").open('{');
    json.key("value").value(acceptance.rate().value);
    json.key("standard_error").value(acceptance.rate().standard_error);
    json.key("low").value(rate.low);
    json.key("high").value(rate.high);
    json.close('}');
    json.key("token");
    detail::write_rule(json, stats, measures, acceptance.expected_token(), acceptance.token_survival());
    json.key("block");
    detail::write_rule(json, stats, measures, acceptance.expected_block(), acceptance.block_survival());
  }
  json.close('}');
  return json.text();
}

}  // namespace specdec
