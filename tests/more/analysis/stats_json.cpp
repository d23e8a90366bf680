// SPDX-License-Identifier: MIT
#include <chrono>
#include <limits>
#include <random>
#include <specdec/more/analysis.hpp>
#include <specdec/more/analysis/stats_json.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/measured.hpp"

namespace test_more_analysis_stats_json {

using Numbers = std::vector<double>;

using namespace specdec;

namespace {

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("statistics as JSON have exactly this text") {
  support::Measured run;
  const std::string nothing = to_json(run.stats);
  CHECK(nothing == to_json(run.stats, run.measures));
  CHECK(
      nothing ==
      R"({"target_calls":0,"drafted":0,"accepted":0,"emitted":0,"block_efficiency":0,"accepted_fraction":0,)"
      R"("accepted_lengths":[],"asked_by_position":[],"drafted_by_position":[],"reached_by_position":[],)"
      R"("accepted_by_position":[],)"
      R"("draft_seconds":0,"target_seconds":0,"verify_seconds":0,"draft_cost":[],"target_cost":[],)"
      R"("counted":{"expected_accepted":0,"survival":[],"projections":[]}})");

  for (int n = 0; n < 8; ++n) {
    run.add(
        {.asked = 1, .drafted = 1, .accepted = 1, .fed = 2, .target_time = std::chrono::milliseconds{1500}},
        2);
    run.add({.fed = 1, .target_time = std::chrono::seconds{1}}, 1);
  }
  run.measures.acceptance.add(Numbers{0.25}, Numbers{0.5}, 1, 1);
  const std::string json = to_json(run.stats, run.measures);
  CHECK(holds(json, R"({"target_calls":16,"drafted":8,"accepted":8,"emitted":24,"block_efficiency":1.5,)"));
  CHECK(holds(json, R"("accepted_lengths":[8,8],"asked_by_position":[8],)"));
  CHECK(holds(json, R"("target_cost":[{"tokens":1,"seconds":1},{"tokens":2,"seconds":1.5}],)"));
  CHECK(holds(
      json,
      R"("counted":{"expected_accepted":0.5,"survival":[1],"projections":[)"
      R"({"gamma":0,"tokens_per_call":1,"seconds_per_token":1,"speed_up":1,)"
      R"("tokens_per_call_range":[1,1],"seconds_per_token_range":[1,1],"speed_up_range":[1,1]},)"
      R"({"gamma":1,"tokens_per_call":2,"seconds_per_token":0.75,"speed_up":1.3333333333333333,)"
      R"("tokens_per_call_range":[2,2],"seconds_per_token_range":[0.75,null],"speed_up_range":[0,1.33)"));
  CHECK(holds(json, R"("reached_by_position":[8],"accepted_by_position":[8],)"));
  CHECK(holds(json, R"("gamma":16,)"));
  CHECK(holds(json, R"("acceptance_rate":{"value":0.5,"standard_error":0,"low":)"));
  CHECK(holds(json, R"("token":{"expected_accepted":0.5,"survival":[0.5],"projections":[)"));
  CHECK(holds(json, R"("block":{"expected_accepted":0.5,"survival":[0.5],"projections":[)"));
  CHECK(json.ends_with("]}}"));
}

TEST_CASE("if a stop token cuts a step short, expected tokens count what was emitted") {
  Stats stats;
  stats.add({.asked = 4, .drafted = 4, .accepted = 3}, 2);
  CHECK(holds(to_json(stats), R"("counted":{"expected_accepted":2,)"));
}

TEST_CASE("numbers read back unchanged, and NaN or infinity is null") {
  const std::vector<double> numbers{0.1, 1e-300, std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN(), -2.5e17};
  CHECK(detail::JsonObject().add("numbers", numbers).text() ==
        R"({"numbers":[0.1,1e-300,null,null,-2.5e+17]})");
}

}  // namespace test_more_analysis_stats_json
