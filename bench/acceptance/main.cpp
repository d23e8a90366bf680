// Measures what the rules accept: every rule over families of synthetic rows, acceptance rates, draft lengths and
// vocabularies, in one step and over whole generations.
//
//   specdec_acceptance                                              one setting, in seconds
//   specdec_acceptance --benchmark_filter='one_step/block/zipf/gamma:8/'
//   specdec_acceptance --quick --seed=7 --benchmark_filter='toy'    fewer samples; other rows and drafts
//
//   one_step/<rule>      many drafts; a fresh verifier judges each of them once. All rules and all γ see the same
//                        drafts
//   whole_loop/<rule>    generations of many steps through SpecDec. A rule with state (greedy block verification)
//                        pays in the next steps for the gain of one step
//
//   <rule>               a rule of rules.hpp; your own verifier takes one line there. full_information is no rule,
//                        but the bound that no rule can exceed in one step
//   <family>             a family of families.hpp: zipf, dirichlet, sharpened, flattened, truncated, disjoint, toy
//   gamma:1|2|4|6|8|12|16
//   beta:0.70            the acceptance rate to which the rows are dialled, at temperature 1
//   vocab:1000
//   temperature:0.6      only if it is not 1: applied to both models after the dial
//
// Every line says what enumeration found about the rule's law, "lossless: exact" or "LOSSY". A rule that changes the text
// can accept more, but that is no gain. Counters:
//
//   block_efficiency     tokens per step, and the standard error (_se) over drafts or generations
//   gain                 ratio of the block efficiency to token verification on the same drafts (or prompts),
//                        minus 1, and the standard error
//   accepted_fraction    accepted tokens divided by drafted tokens
//   beta                 the acceptance rate of the rows, at the temperature of the setting
//   beyond_<i>           the share of the steps that accepted more than i tokens
//   exact                the expected block efficiency, where it can be computed (toy). A measurement more than five
//                        standard errors away is an error
// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acceptance/exact.hpp"
#include "acceptance/law.hpp"
#include "acceptance/pool.hpp"
#include "acceptance/rules.hpp"
#include "acceptance/shared.hpp"

namespace acceptance {
namespace {

constexpr std::array<Index, 7> gammas{1, 2, 4, 6, 8, 12, 16};

bool quick = false;
std::uint64_t seed = 1;

/// The shared data of a pool's benches. Only one exists at a time, so benches of one pool are registered together.
Shared& shared(const PoolSetting& setting) {
  static std::unique_ptr<Shared> only;
  if (!only || only->pool().setting() != setting) {
    only.reset();
    only = std::make_unique<Shared>(setting, quick ? Effort::quick() : Effort::full(setting.vocab_size),
                                    gammas.back());
  }
  return *only;
}

void report(benchmark::State& state, const Pool& pool, const Measured& measured) {
  const auto count = [&](const std::string& name, double value) { state.counters[name] = value; };
  count("block_efficiency", measured.efficiency.value);
  count("block_efficiency_se", measured.efficiency.standard_error);
  count("gain", measured.gain.value);
  count("gain_se", measured.gain.standard_error);
  count("accepted_fraction", measured.accepted_fraction);
  count("beta", pool.overlap());
  for (std::size_t i = 0; i < measured.beyond.size(); ++i)
    count("beyond_" + std::to_string(i), measured.beyond[i]);
  if (!measured.consistent)
    state.SkipWithError("the verifier accepts other than its survival() says: one of them is wrong");
}

void report_exact(benchmark::State& state, std::optional<double> exact, const Measured& measured) {
  if (!exact) return;
  state.counters["exact"] = *exact;
  const double off = std::abs(measured.efficiency.value - *exact);
  if (off > 5 * measured.efficiency.standard_error + 1e-6)
    state.SkipWithError("measured other than what is to be expected");
}

std::string name_of(const PoolSetting& setting, Index gamma) {
  std::array<char, 200> text;
  std::snprintf(text.data(), text.size(), "/%s/gamma:%d/beta:%.2f/vocab:%d", setting.family.c_str(),
                static_cast<int>(gamma), setting.overlap, static_cast<int>(setting.vocab_size));
  std::string name = text.data();
  if (setting.temperature != 1) {
    std::snprintf(text.data(), text.size(), "/temperature:%.1f", setting.temperature);
    name += text.data();
  }
  return name;
}

/// Registers a bench that runs once: measure(shared), compared with exact(pool) if that is known.
template <class Measure, class Exact>
void add(const std::string& name, const PoolSetting& setting, const std::string& label, Measure measure,
         Exact exact) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 try {
                                   Shared& here = shared(setting);
                                   Measured measured;
                                   for (auto _ : state) measured = measure(here);
                                   report(state, here.pool(), measured);
                                   report_exact(state, exact(here.pool()), measured);
                                 } catch (const std::exception& error) {
                                   state.SkipWithError(error.what());
                                 }
                                 state.SetLabel(label);
                               })
      ->Iterations(1)
      ->Unit(benchmark::kMillisecond);
}

template <class V>
void add_rule(const Rule<V>& rule, const PoolSetting& setting, Index gamma) {
  if (!has_place(rule, setting.temperature)) return;
  const std::string suffix = std::string(rule.name) + name_of(setting, gamma);
  const V& verifier = rule.verifier;
  add(
      "one_step/" + suffix, setting, label_of(rule),
      [=](Shared& here) { return here.one_step(verifier, gamma); },
      [=](const Pool& pool) { return exact_step_efficiency(verifier, pool, gamma); });
  add(
      "whole_loop/" + suffix, setting, label_of(rule),
      [=](Shared& here) { return here.whole_loop(verifier, gamma); },
      [=](const Pool& pool) { return exact_loop_efficiency(verifier, pool, gamma); });
}

/// Adds keyed verification. Its drafts use its own random numbers, so it cannot judge the drafts of the other rules. These
/// numbers cannot be enumerated either. But it only emits the target's own draws, by the code of sample_match.
void add_keyed(const PoolSetting& setting, Index gamma) {
  if (setting.temperature == 0) return;
  add(
      "whole_loop/keyed" + name_of(setting, gamma), setting, "lossless: the target's draws",
      [=](Shared& here) { return here.whole_loop(specdec::KeyedVerifier{}, gamma); },
      [=](const Pool& pool) { return exact_keyed_efficiency(pool, gamma); });
}

/// Adds all benches of one pool.
void add_pool(const PoolSetting& setting) {
  for (const Index gamma : gammas) {
    std::apply([&](const auto&... rule) { (add_rule(rule, setting, gamma), ...); }, rules);
    add_keyed(setting, gamma);
    add(
        "one_step/full_information" + name_of(setting, gamma), setting, "a bound, no rule",
        [=](Shared& here) { return full_information(here.drafts(), gamma); },
        [=](const Pool& pool) { return exact_step_efficiency(specdec::GreedyBlockVerifier{}, pool, gamma); });
  }
}

void add_everything() {
  const auto setting = [](const char* family, Index vocab_size, double overlap, double temperature = 1) {
    return PoolSetting{family, vocab_size, overlap, temperature, seed};
  };
  for (const Index vocab_size : {100, 1000, 32'000, 128'256, 256'000})
    for (const double beta : {0.1, 0.3, 0.5, 0.53, 0.62, 0.7, 0.71, 0.8, 0.9, 0.95, 0.99})
      add_pool(setting("zipf", vocab_size, beta));
  for (const double beta : {0.1, 0.3, 0.5, 2. / 3, 0.8, 0.9, 0.99}) add_pool(setting("toy", 2, beta));
  for (const char* family : {"dirichlet", "sharpened", "flattened", "truncated", "disjoint"})
    for (const double beta : {0.5, 0.6, 0.7, 0.8, 0.9, 0.95}) add_pool(setting(family, 1000, beta));
  for (const double temperature : {0.0, 0.2, 0.6}) add_pool(setting("zipf", 1000, 0.7, temperature));
}

/// Prints the laws of all rules, with the wrong text of a lossy rule.
void print_laws() {
  const auto print = [](const auto& rule) {
    std::cerr << rule.name << ": " << law_label(check_law(rule)) << ": " << check_law(rule) << "\n";
  };
  std::apply([&](const auto&... rule) { (print(rule), ...); }, rules);
}

/// Takes our own arguments out of the list. Returns false if one of them makes no sense.
bool take_arguments(std::vector<char*>& arguments) {
  bool fine = true;
  const auto ours = [&](std::string_view argument) {
    if (argument == "--quick") return quick = true;
    if (!argument.starts_with("--seed=")) return false;
    const std::string_view digits = argument.substr(7);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
    fine = fine && error == std::errc() && end == digits.data() + digits.size();
    return true;
  };
  std::erase_if(arguments, ours);
  return fine;
}

}  // namespace
}  // namespace acceptance

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  if (!acceptance::take_arguments(arguments)) {
    std::cerr << "--seed= wants a number\n";
    return 1;
  }
  const auto given = [&](std::string_view start) {
    return std::any_of(arguments.begin() + 1, arguments.end(),
                       [&](std::string_view argument) { return argument.starts_with(start); });
  };
  std::string filter = "--benchmark_filter=/zipf/gamma:8/beta:0.70/vocab:1000/iterations";
  if (!given("--benchmark_filter") && !given("--benchmark_list_tests"))
    arguments.insert(arguments.begin() + 1, filter.data());
  if (!given("--benchmark_list_tests")) acceptance::print_laws();
  acceptance::add_everything();
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
