// Compares rules, drafters, draft lengths or trees on the same models and prompts, as a table.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <memory>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/drafters.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/text.hpp"
#include "generate/way.hpp"

namespace generate {

/// The texts written after all prompts, with their summed counts and times.
class Run {
 public:
  void add(specdec::Result result, const specdec::Measures& measures, std::chrono::duration<double> time) {
    stats_ += result.stats;
    time_ += time;
    efficiencies_.push_back(result.stats.block_efficiency());
    acceptances_.push_back(measures.acceptance);
    outputs_.push_back(std::move(result.tokens));
  }

  const specdec::Stats& stats() const { return stats_; }
  const std::vector<Tokens>& outputs() const { return outputs_; }
  const std::vector<double>& efficiencies() const { return efficiencies_; }
  const std::vector<specdec::Acceptance>& acceptances() const { return acceptances_; }
  Index emitted() const { return stats_.emitted; }
  bool drafted_any() const { return stats_.drafted > 0; }

  double drafted_per_call() const { return ratio(stats_.drafted, stats_.target_calls); }
  /// The mean depth of a draft, in tokens: the length of its longest path.
  double mean_depth() const {
    const auto& depths = stats_.drafted_by_position;
    return ratio(std::accumulate(depths.begin(), depths.end(), Index{0}), stats_.target_calls);
  }
  double block_efficiency() const { return stats_.block_efficiency(); }
  double accepted_fraction() const { return ratio(stats_.accepted, stats_.drafted); }
  double tokens_per_second() const { return static_cast<double>(stats_.emitted) / time_.count(); }
  double seconds_per_target_call() const { return mean(stats_.target_time, stats_.target_calls); }
  double seconds_per_step_drafting() const { return mean(stats_.draft_time, stats_.target_calls); }
  double seconds_per_drafted_token() const { return mean(stats_.draft_time, stats_.drafted); }

  /// The standard error of block_efficiency(), over the steps.
  double standard_error() const {
    const auto n = static_cast<double>(stats_.target_calls);
    double squares = 0;
    for (std::size_t k = 0; k < stats_.accepted_lengths.size(); ++k)
      squares += static_cast<double>(stats_.accepted_lengths[k]) * std::pow(static_cast<double>(k + 1), 2);
    return std::sqrt(std::max(squares / n - std::pow(block_efficiency(), 2), 0.0) / n);
  }

 private:
  static double ratio(Index part, Index whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  }
  static double mean(std::chrono::duration<double> time, Index events) {
    return time.count() / static_cast<double>(events);
  }

  std::vector<Tokens> outputs_;
  std::vector<double> efficiencies_;              // one for each text
  std::vector<specdec::Acceptance> acceptances_;  // of the drafts of each text
  specdec::Stats stats_;
  std::chrono::duration<double> time_{0};
};

// ---- What is compared -------------------------------------------------------------------------------

/// What a table compares.
struct Topic {
  std::string_view option;  ///< its name for --compare
  std::string_view column;  ///< the heading of the column that names its ways
};

inline constexpr std::array<Topic, 5> topics{{{"rules", "rule"},
                                              {"drafters", "drafter"},
                                              {"vocabularies", "drafter"},
                                              {"lengths", "draft length"},
                                              {"trees", "draft"}}};

/// The texts to write.
struct Texts {
  std::vector<Tokens> prompts;
  specdec::Options options;  ///< without gamma, which each way sets
  double temperature;
  Index seed;
  Index rounds;  ///< how often each prompt is continued
  OwnLayers own_layers;
};

inline Way target_alone() {
  return {"autoregressive", &rule_named("block"), &drafter_named("none"), {false, 0}};
}

inline void add_way(std::vector<Way>& ways, Way way) {
  if (objection(*way.rule, *way.drafter).empty() && objection(*way.rule, way.gamma).empty())
    ways.push_back(std::move(way));
}

/// Every rule with one drafter, and block verification with drafts of the length that is measured to be fastest, up to `most`,
/// beside a fixed one. Argmax verification decodes greedily at any temperature, so it is left out above
/// temperature 0.
inline std::vector<Way> rule_ways(const DrafterKind& drafter, const Gamma& gamma, Index most,
                                  double temperature) {
  std::vector<Way> ways{target_alone()};
  if (drafter.option == "none") return ways;
  for (const Rule& rule : rules)
    if (temperature == 0 || rule.option != "argmax")
      add_way(ways, {std::string(rule.title), &rule, &drafter, gamma});
  if (!gamma.automatic) ways.push_back({"block, auto", &rule_named("block"), &drafter, {true, most}});
  if (drafter.option == "model")
    ways.push_back({"prompt lookup + block", &rule_named("block"), &drafter_named("prompt-lookup"), gamma});
  return ways;
}

/// Whether a comparison of drafters has this one: the pair has what it drafts with.
inline bool is_compared(const DrafterKind& drafter, const Pair& pair, const OwnLayers& layers) {
  if (drafter.option == "none" || of_another_vocabulary(drafter)) return false;
  if (drafts_with_head(drafter.option)) return pair.heads.contains(drafter.option);
  if (drafter.option == "early-exit" || drafter.option == "retrieval") return pair.early_exit != nullptr;
  if (drafter.option == "online") return pair.online != nullptr;
  if (drafter.option == "skip-layers") return pair.skip_layers && !layers.left_out.empty();
  return true;
}

/// Every drafter of the pair under one rule, without the drafters of other vocabularies.
inline std::vector<Way> drafter_ways(const Pair& pair, const Rule& rule, const Gamma& gamma,
                                     const Texts& texts) {
  std::vector<Way> ways{target_alone()};
  for (const DrafterKind& drafter : drafters)
    if (is_compared(drafter, pair, texts.own_layers))
      add_way(ways, {std::string(drafter.title), &rule, &drafter, gamma});
  return ways;
}

/// The draft model and the drafters of other vocabularies, under one rule.
inline std::vector<Way> vocabulary_ways(const Rule& rule, const Gamma& gamma) {
  std::vector<Way> ways{target_alone()};
  for (const DrafterKind& drafter : drafters)
    if (drafter.option == "model" || of_another_vocabulary(drafter))
      add_way(ways, {std::string(drafter.title), &rule, &drafter, gamma});
  return ways;
}

/// Fixed draft lengths from 0 to `most`, and at the end the automatic ones.
inline std::vector<Way> length_ways(const Rule& rule, const DrafterKind& drafter, Index most) {
  std::vector<Way> ways;
  for (const Index gamma : {0, 1, 2, 3, 4, 5, 6, 8, 12, 16})
    if (gamma <= most) ways.push_back({"fixed", &rule, &drafter, {false, gamma}});
  ways.push_back({"auto", &rule, &drafter, {true, most}});
  add_way(ways, {"early", &rule, &drafter, {true, most, true}});
  return ways;
}

// ---- Measuring --------------------------------------------------------------------------------------

/// Runs all ways on the same prompts. The ways take turns at each prompt, so that a busy machine slows all of them.
/// A drafter that learns from the text learns from prompt to prompt. It starts afresh in each round, because a round
/// repeats the prompts. Draft-length policies keep what they learnt.
inline std::vector<Run> run_ways(Pair& pair, const std::vector<Way>& ways, const Texts& texts) {
  std::vector<Run> runs(ways.size());
  std::vector<std::unique_ptr<Length>> lengths;
  for (const Way& way : ways) lengths.push_back(way.policy());
  auto seed = static_cast<Generator::result_type>(texts.seed);
  for (Index round = 0; round < texts.rounds; ++round) {
    std::vector<Writer> writers;
    for (std::size_t w = 0; w < ways.size(); ++w)
      writers.push_back(writer(ways[w], pair, {texts.temperature, texts.own_layers}, *lengths[w]));
    for (const Tokens& prompt : texts.prompts) {
      for (std::size_t w = 0; w < ways.size(); ++w) {
        Generator generator(seed);
        Job job{prompt, texts.options, texts.temperature};
        job.options.gamma = ways[w].most();
        specdec::Measures measures;
        job.measures = &measures;
        const auto start = std::chrono::steady_clock::now();
        specdec::Result result = writers[w](job, generator, [](auto) {});
        runs[w].add(std::move(result), measures, std::chrono::steady_clock::now() - start);
      }
      ++seed;
    }
  }
  return runs;
}

// ---- The table --------------------------------------------------------------------------------------

/// The draft length of a row: the fixed gamma, the depth of a fixed tree, or the mean depth if it is automatic.
inline std::string length_of(const Way& way, const Run& run) {
  if (way.drafter->option == "none") return "-";
  if (way.gamma.automatic) return fixed(run.mean_depth(), 2);
  return std::to_string(way.tree ? way.tree->depth : way.gamma.most);
}

/// `last`: the cell of the table's own last column.
inline void print_row(const Way& way, const Run& run, double baseline, std::string_view last) {
  std::cout << std::left << std::setw(22) << way.title << std::right << std::setw(6) << length_of(way, run)
            << std::setw(19) << fixed(run.block_efficiency(), 3) + " +- " + fixed(run.standard_error(), 3)
            << std::setw(19) << fixed(run.accepted_fraction(), 3) << std::setw(10)
            << fixed(run.tokens_per_second(), 0) << std::setw(10)
            << fixed(run.tokens_per_second() / baseline, 2) << last << '\n';
}

/// The gain of b over a in per cent, with its standard error: the mean over the prompts of log(b/a).
inline std::string gain(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = std::log(b[i] / a[i]);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n, variance = (squares - n * mean * mean) / (n - 1);
  return fixed(100 * std::expm1(mean), 1) + " % +- " + fixed(100 * std::sqrt(variance / n), 1) + " %";
}

/// The gain of block over token verification on equal drafts and rows: for each draft of both runs, how many tokens each of the
/// two rules emits on average. Two runs write two texts, and chance makes them differ; here it does not.
inline std::string gain_on_equal_drafts(const Run& a, const Run& b) {
  std::vector<double> token, block;
  for (std::size_t i = 0; i < a.acceptances().size(); ++i) {
    specdec::Acceptance drafts = a.acceptances()[i];
    drafts += b.acceptances()[i];
    token.push_back(1 + drafts.expected_token());
    block.push_back(1 + drafts.expected_block());
  }
  return gain(token, block);
}

inline void print_costs(const Way& way, const Run& run, const Run& alone) {
  const double call = alone.seconds_per_target_call();
  std::cout << " Costs, in target calls of one token: a call over "
            << (way.gamma.automatic ? fixed(run.drafted_per_call() + 1, 1)
                                    : std::to_string(way.gamma.most + 1))
            << " tokens " << fixed(run.seconds_per_target_call() / call, 2) << ",\na drafted token "
            << fixed(run.seconds_per_drafted_token() / call, 3) << '.';
}

/// Says what decides the speed-up of the other rows, and what a length that measures it made of it.
inline void print_auto_by_cost(const Run& block, const Run& automatic, const Run& alone) {
  const auto calls = [&](const Run& run) {
    const double step = run.seconds_per_target_call() + run.seconds_per_step_drafting();
    return fixed(step / alone.seconds_per_target_call(), 2);
  };
  std::cout << " So " << fixed(block.block_efficiency(), 2) << " tokens cost " << calls(block)
            << " calls;\nwith " << fixed(automatic.drafted_per_call(), 1)
            << " tokens drafted a call, by 'auto', " << fixed(automatic.block_efficiency(), 2)
            << " tokens cost " << calls(automatic) << '.';
}

/// The index of the linear draft with as many sequential calls of the draft model; ways.size() if there is none.
inline std::size_t linear_beside(const std::vector<Way>& ways, std::size_t row) {
  if (ways[row].gamma.automatic) return ways.size();
  const Index depth = ways[row].tree ? ways[row].tree->depth : ways[row].gamma.most;
  const auto linear = std::ranges::find_if(
      ways, [&](const Way& way) { return !way.tree && !way.gamma.automatic && way.gamma.most == depth; });
  return static_cast<std::size_t>(linear - ways.begin());
}

/// For each depth, prints the gain of the best tree over the linear draft, by prompt.
inline void print_best_trees(const std::vector<Way>& ways, const std::vector<Run>& runs) {
  for (std::size_t linear = 0; linear < ways.size(); ++linear) {
    std::size_t best = linear;
    for (std::size_t w = 0; w < ways.size(); ++w)
      if (ways[w].tree && linear_beside(ways, w) == linear &&
          runs[w].block_efficiency() > runs[best].block_efficiency())
        best = w;
    if (best != linear)
      std::cout << "\nOver a line of " << ways[linear].gamma.most << ", by prompt: " << ways[best].title
                << ", " << gain(runs[linear].efficiencies(), runs[best].efficiencies()) << '.';
  }
}

/// Prints the speed of each automatic way, relative to the fastest line of a fixed length.
inline void print_auto(const std::vector<Way>& ways, const std::vector<Run>& runs) {
  std::size_t best = 0;
  for (std::size_t w = 0; w < ways.size(); ++w)
    if (!ways[w].tree && !ways[w].gamma.automatic &&
        runs[w].tokens_per_second() > runs[best].tokens_per_second())
      best = w;
  std::cout << "\nTokens/s, beside the fastest line of a fixed length, " << ways[best].gamma.most << ":";
  std::string_view separator = " ";
  for (std::size_t w = 0; w < ways.size(); ++w)
    if (ways[w].gamma.automatic) {
      std::cout << separator << ways[w].title << ' '
                << fixed(runs[w].tokens_per_second() / runs[best].tokens_per_second(), 3);
      separator = ", ";
    }
  std::cout << '.';
}

/// The cell of the table's own last column.
inline std::string own_column(const Topic& topic, const std::vector<Way>& ways, const std::vector<Run>& runs,
                              std::size_t row) {
  std::ostringstream cell;
  if (topic.column == "drafter")
    cell << std::setw(12)
         << fixed(runs[row].seconds_per_drafted_token() / runs.front().seconds_per_target_call(), 3);
  if (topic.option == "lengths") {
    double best = 0;
    for (std::size_t i = 0; i < runs.size(); ++i)
      if (!ways[i].gamma.automatic) best = std::max(best, runs[i].tokens_per_second());
    cell << std::setw(12) << fixed(runs[row].tokens_per_second() / best, 3);
  }
  if (topic.option == "trees" && ways[row].most() > 0) {
    cell << std::setw(8) << fixed(runs[row].drafted_per_call(), 1);
    if (const std::size_t linear = linear_beside(ways, row); linear < ways.size())
      cell << std::setw(11) << fixed(runs[row].block_efficiency() / runs[linear].block_efficiency(), 3);
  }
  return cell.str();
}

inline std::string own_heading(const Topic& topic) {
  if (topic.column == "drafter") return "  draft cost";
  if (topic.option == "lengths") return "  of the best";
  if (topic.option == "trees") return "   nodes  of linear";
  return {};
}

inline void print_table(const Topic& topic, const std::vector<Way>& ways, const std::vector<Run>& runs) {
  std::cout << std::left << std::setw(22) << topic.column << std::right << std::setw(6) << "gamma"
            << std::setw(19) << "block efficiency" << std::setw(19) << "accepted fraction" << std::setw(10)
            << "tokens/s" << std::setw(10) << "speed-up" << own_heading(topic) << '\n';
  for (std::size_t w = 0; w < ways.size(); ++w)
    print_row(ways[w], runs[w], runs.front().tokens_per_second(), own_column(topic, ways, runs, w));
}

/// Prints the table. The first way is the target alone. Returns whether all ways wrote the target's text, if the temperature
/// is 0; above 0 returns true.
inline bool compare(Pair& pair, const Topic& topic, const std::vector<Way>& ways, const Texts& texts) {
  const std::vector<Run> runs = run_ways(pair, ways, texts);
  const auto run_of = [&](std::string_view title) -> const Run* {
    const auto way = std::ranges::find(ways, title, &Way::title);
    return way == ways.end() ? nullptr : &runs[static_cast<std::size_t>(way - ways.begin())];
  };
  print_table(topic, ways, runs);
  const Run& alone = runs.front();
  std::cout << "\nTemperature " << texts.temperature << ", " << alone.emitted() << " tokens after "
            << alone.outputs().size() << " prompts. Block efficiency: tokens per target call,\n"
            << "+- one standard error.";
  const Run *token = run_of("token"), *block = run_of("block");
  if (topic.option == "rules" && block) {
    if (block->drafted_any()) print_costs(*std::ranges::find(ways, "block", &Way::title), *block, alone);
    if (const Run* automatic = run_of("block, auto")) print_auto_by_cost(*block, *automatic, alone);
    if (alone.outputs().size() > 1 && texts.temperature > 0)
      std::cout << "\nBlock over token verification, by prompt: "
                << gain(token->efficiencies(), block->efficiencies()) << "; on equal drafts, "
                << gain_on_equal_drafts(*token, *block) << '.';
  }
  if (topic.column == "drafter")
    std::cout << " Draft cost: of a drafted token, in target calls of one token.";
  if (topic.option == "trees") {
    std::cout << " Gamma: calls of the draft model, one after another.";
    if (alone.outputs().size() > 1) print_best_trees(ways, runs);
    print_auto(ways, runs);
  }
  std::cout << '\n' << pair.note;
  if (texts.temperature > 0) return true;

  const bool equal =
      std::ranges::all_of(runs, [&](const Run& run) { return run.outputs() == alone.outputs(); });
  std::cout << "Every " << topic.column
            << " wrote what the target alone writes, token for token: " << (equal ? "yes" : "NO") << '\n';
  return equal;
}

}  // namespace generate
