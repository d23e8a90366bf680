// What each rule makes of the same models and prompts, as a table.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/pair.hpp"
#include "generate/rules.hpp"

namespace generate {

/// What a rule wrote after each of the prompts, its counts over all of them, and the time that took.
class Run {
 public:
  void add(specdec::Result result, std::chrono::duration<double> time) {
    const specdec::Stats& stats = result.stats;
    calls_ += stats.target_calls;
    drafted_ += stats.drafted;
    accepted_ += stats.accepted;
    emitted_ += stats.emitted;
    for (std::size_t k = 0; k < stats.accepted_lengths.size(); ++k)
      squares_ += static_cast<double>(stats.accepted_lengths[k]) * std::pow(static_cast<double>(k + 1), 2);
    time_ += time;
    target_time_ += stats.target_time;
    draft_time_ += stats.draft_time;
    efficiencies_.push_back(stats.block_efficiency());
    outputs_.push_back(std::move(result.tokens));
  }

  const std::vector<Tokens>& outputs() const { return outputs_; }
  const std::vector<double>& efficiencies() const { return efficiencies_; }
  Index emitted() const { return emitted_; }
  bool drafted_any() const { return drafted_ > 0; }

  double block_efficiency() const { return ratio(emitted_, calls_); }
  double accepted_fraction() const { return ratio(accepted_, drafted_); }
  double tokens_per_second() const { return static_cast<double>(emitted_) / time_.count(); }
  double seconds_per_target_call() const { return target_time_.count() / static_cast<double>(calls_); }
  double seconds_per_drafted_token() const { return draft_time_.count() / static_cast<double>(drafted_); }

  /// Of block_efficiency(), over the steps.
  double standard_error() const {
    const auto n = static_cast<double>(calls_);
    return std::sqrt(std::max(squares_ / n - std::pow(block_efficiency(), 2), 0.0) / n);
  }

 private:
  static double ratio(Index part, Index whole) {
    return static_cast<double>(part) / static_cast<double>(whole);
  }

  std::vector<Tokens> outputs_;
  std::vector<double> efficiencies_;  // of each text
  Index calls_ = 0, drafted_ = 0, accepted_ = 0, emitted_ = 0;
  double squares_ = 0;  // Σ (tokens of a step)²
  std::chrono::duration<double> time_{0}, target_time_{0}, draft_time_{0};
};

/// Argmax verification is greedy decoding at any temperature: it has no place among the rules but at 0.
template <class M>
bool has_place(const Rule<M>& rule, double temperature) {
  return temperature == 0 || rule.option != "argmax";
}

/// The rules on the same prompts. They take turns at each, so that a machine that is busy for a while is so for
/// all of them.
template <class M>
std::vector<Run> run_rules(Pair<M>& pair, const std::vector<Tokens>& prompts, const specdec::Options& options,
                           double temperature, Index seed) {
  std::vector<Run> runs(rules<M>.size());
  for (std::size_t i = 0; i < prompts.size(); ++i)
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (!has_place(rules<M>[r], temperature)) continue;
      Generator generator(static_cast<Generator::result_type>(seed) + i);
      const auto start = std::chrono::steady_clock::now();
      specdec::Result result =
          rules<M>[r].generate(pair, {prompts[i], options, temperature}, generator, [](auto) {});
      runs[r].add(std::move(result), std::chrono::steady_clock::now() - start);
    }
  return runs;
}

inline std::string fixed(double value, int digits) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(digits) << value;
  return text.str();
}

inline void print_row(std::string_view title, const Run& run, Index gamma, double baseline) {
  const bool drafted = run.drafted_any();
  std::cout << std::left << std::setw(22) << title << std::right << std::setw(6)
            << (drafted ? std::to_string(gamma) : "-") << std::setw(19)
            << fixed(run.block_efficiency(), 3) + " +- " + fixed(run.standard_error(), 3) << std::setw(19)
            << (drafted ? fixed(run.accepted_fraction(), 3) : "-") << std::setw(10)
            << fixed(run.tokens_per_second(), 0) << std::setw(10)
            << fixed(run.tokens_per_second() / baseline, 2) << '\n';
}

/// The mean of log(b/a) over the prompts as a gain in per cent, with its standard error.
inline std::string gain(const Run& a, const Run& b) {
  const auto n = static_cast<double>(a.efficiencies().size());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < a.efficiencies().size(); ++i) {
    const double x = std::log(b.efficiencies()[i] / a.efficiencies()[i]);
    sum += x;
    squares += x * x;
  }
  const double mean = sum / n, variance = (squares - n * mean * mean) / (n - 1);
  return fixed(100 * std::expm1(mean), 1) + " % +- " + fixed(100 * std::sqrt(variance / n), 1) + " %";
}

/// Prints the table. At temperature 0 every rule has to write what the target alone writes: returns whether they
/// all did.
template <class M>
bool compare(Pair<M>& pair, const std::vector<Tokens>& prompts, const specdec::Options& options,
             double temperature, Index seed) {
  const std::vector<Run> runs = run_rules(pair, prompts, options, temperature, seed);
  const auto run_of = [&](std::string_view title) -> const Run& {
    return runs[static_cast<std::size_t>(std::ranges::find(rules<M>, title, &Rule<M>::title) -
                                         rules<M>.begin())];
  };
  const Run& alone = run_of("autoregressive");
  const Run& block = run_of("block");

  std::cout << std::left << std::setw(22) << "rule" << std::right << std::setw(6) << "gamma" << std::setw(19)
            << "block efficiency" << std::setw(19) << "accepted fraction" << std::setw(10) << "tokens/s"
            << std::setw(10) << "speed-up" << '\n';
  for (std::size_t r = 0; r < runs.size(); ++r)
    if (has_place(rules<M>[r], temperature))
      print_row(rules<M>[r].title, runs[r], options.gamma, alone.tokens_per_second());

  std::cout << "\nTemperature " << temperature << ", " << alone.emitted() << " tokens after "
            << prompts.size()
            << " prompts. Block efficiency: tokens per target call,\n+- one standard error. Costs, in target "
               "calls of one token: a call over "
            << options.gamma + 1 << " tokens "
            << fixed(block.seconds_per_target_call() / alone.seconds_per_target_call(), 2)
            << ",\na drafted token "
            << fixed(block.seconds_per_drafted_token() / alone.seconds_per_target_call(), 3) << '.';
  if (prompts.size() > 1 && temperature > 0)
    std::cout << " Block over token verification, by prompt: " << gain(run_of("token"), block) << '.';
  std::cout << '\n' << pair.note;
  if (temperature > 0) return true;

  const bool equal =
      std::ranges::all_of(runs, [&](const Run& run) { return run.outputs() == alone.outputs(); });
  std::cout << "Every rule wrote what the target alone writes, token for token: " << (equal ? "yes" : "NO")
            << '\n';
  return equal;
}

}  // namespace generate
