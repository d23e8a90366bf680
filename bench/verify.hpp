// The benches of all rules on one kind of rows. main.cpp describes them.
// SPDX-License-Identifier: MIT
#pragma once

#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "input.hpp"
#include "measured.hpp"
#include "rows.hpp"
#include "rules.hpp"
#include "settings.hpp"

namespace bench {

template <class Kind>
const Input<Kind>& input(const Setting& setting) {
  const Cut cut = setting.cut();
  return pool(setting.pool).made<Input<Kind>>(cut.key(), cut);
}

template <class T>
const T& made(const Setting& setting) {
  const Cut cut = setting.cut();
  return pool(setting.pool).made<T>(cut.key(), cut);
}

/// Fills the cache with the rows (warm) or with other numbers (cold).
template <class Kind>
void prepare_cache(const Setting& setting, const Input<Kind>& input) {
  float sum = setting.warm ? input.read_all() : evict();
  benchmark::DoNotOptimize(sum);
}

/// Times call(k) for one draft after another, batch by batch. check(k, result) is not timed.
template <class Kind, class Call, class Check>
void time_calls(benchmark::State& state, const Setting& setting, const Input<Kind>& input, Call&& call,
                Check&& check) {
  std::vector<decltype(call(Index{}))> results(static_cast<std::size_t>(input.batch()));
  Index first = 0;
  prepare_cache(setting, input);
  while (state.KeepRunningBatch(input.batch())) {
    Index k = first;
    for (auto& result : results) result = call(k++);
    state.PauseTiming();
    k = first;
    for (const auto& result : results) check(k++, result);
    first = k % input.drafts();
    if (!setting.warm) prepare_cache(setting, input);
    state.ResumeTiming();
  }
}

/// Checks that verdicts are possible, and counts the accepted tokens.
template <class Kind>
class Judge {
 public:
  explicit Judge(const Input<Kind>& input) : input_(&input) {}

  void operator()(Index k, const Verdict& verdict) {
    const Index tau = verdict.accepted;
    possible_ = possible_ && 0 <= tau && tau <= input_->gamma() && verdict.token >= 0 &&
                verdict.token < input_->vocab_size() && possible(k, tau, verdict.token);
    accepted_.add(static_cast<double>(tau));
  }

  void report(benchmark::State& state) const {
    if (!possible_) state.SkipWithError("an impossible verdict");
    state.counters["accepted"] = accepted_.value();
  }

 private:
  bool possible(Index k, Index i, Token y) const {
    const auto target = input_->target(k);
    return specdec::possible(specdec::distributions(target).row(i), y);
  }

  const Input<Kind>* input_;
  Mean accepted_;
  bool possible_ = true;
};

/// Reports the counters of a verifier. Where a rule takes one round per position, any other number is an error.
template <class Rule, class Kind>
void report_counts(benchmark::State& state, const Setting& setting) {
  const auto& counts = made<Counts<Rule, Kind>>(setting);
  state.counters["draws"] = counts.draws.value();
  state.counters["rows"] = counts.rows.value();
  state.counters["bytes"] = counts.bytes.value();
  state.counters["alpha"] = pool(setting.pool).template made<AcceptanceRate>("").rate.value();
  if (!Rule::one_round_per_position) return;
  state.counters["rounds"] = counts.rounds();
  state.counters["rounds_se"] = counts.rounds_error();
  if (!counts.one_round_per_position()) state.SkipWithError("more or less than one round per position");
}

template <class Rule, class Kind>
void time_verifier(benchmark::State& state, const Setting& setting) {
  if (!agree<Rule, Kind>())
    return state.SkipWithError("verifier and reference accept differently many tokens");
  const auto& input = bench::input<Kind>(setting);
  std::mt19937_64 generator = fresh_generator();
  typename Rule::Verifier verifier;
  Judge<Kind> judge(input);
  const auto verify = [&](Index k) {
    const auto target = input.target(k);
    const auto draft = input.draft(k);
    return verifier(target, draft, input.tokens(k), generator);
  };
  time_calls(state, setting, input, verify, judge);
  judge.report(state);
  report_counts<Rule, Kind>(state, setting);
}

template <class Rule, class Kind>
void time_reference(benchmark::State& state, const Setting& setting) {
  const auto& input = bench::input<Kind>(setting);
  WholeRows<Kind> rows(input);
  std::mt19937_64 generator = fresh_generator();
  typename Rule::Reference reference;
  Judge<Kind> judge(input);
  const auto verify = [&](Index k) {
    const Rows target = rows.target(k), draft = rows.draft(k);
    return reference(target, draft, input.tokens(k), generator);
  };
  time_calls(state, setting, input, verify, judge);
  judge.report(state);
}

/// Times one pass over the rows that `list` gives for each verdict.
template <class Rule, class Kind>
void time_reading(benchmark::State& state, const Setting& setting, RowList (*list)(Index gamma, Index tau)) {
  const auto& input = bench::input<Kind>(setting);
  std::vector<RowList> rows;
  Mean count;
  for (const Verdict& verdict : made<Verdicts<Rule, Kind>>(setting)) {
    rows.push_back(list(input.gamma(), verdict.accepted));
    count.add(rows.back().size());
  }
  const auto read = [&](Index k) {
    const RowList& of_verdict = rows[static_cast<std::size_t>(k)];
    float sum = 0;
    for (const Index i : of_verdict.target) sum += input.read(Side::target, k, i);
    for (const Index i : of_verdict.draft) sum += input.read(Side::draft, k, i);
    return sum;
  };
  bool finite = true;
  time_calls(state, setting, input, read, [&](Index, float sum) { finite = finite && std::isfinite(sum); });
  if (!finite) state.SkipWithError("the rows do not sum to a number");
  state.counters["rows"] = count.value();
}

template <class Rule, class Kind>
void time_floor(benchmark::State& state, const Setting& setting) {
  time_reading<Rule, Kind>(state, setting, Rule::plain_rows);
}

template <class Rule, class Kind>
void time_log_sum_exp(benchmark::State& state, const Setting& setting) {
  time_reading<Rule, Kind>(state, setting, Rule::visited_rows);
}

using Time = void (*)(benchmark::State&, const Setting&);

inline void add_bench(const std::string& name, const Setting& setting, Time time) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    time(state, setting);
  })->Unit(benchmark::kMicrosecond);
}

template <class Rule, class Kind>
void add_rule(const Setting& setting) {
  const std::string suffix = Rule::name + setting.name(Kind::name);
  add_bench("verify_" + suffix, setting, time_verifier<Rule, Kind>);
  if constexpr (!Kind::as_float) {
    add_bench("floor_" + suffix, setting, time_floor<Rule, Kind>);
    add_bench("reference_" + suffix, setting, time_reference<Rule, Kind>);
  }
  if constexpr (Kind::normalises && Rule::needs_probabilities)
    add_bench("lse_" + suffix, setting, time_log_sum_exp<Rule, Kind>);
}

/// Registers the benches of every rule over rows of one kind.
template <class Kind>
void add_rules(const Setting& setting) {
  add_rule<TokenRule, Kind>(setting);
  add_rule<BlockRule, Kind>(setting);
  add_rule<GreedyBlockRule, Kind>(setting);
  add_rule<GreedyFreshRule, Kind>(setting);
  add_rule<ArgmaxRule, Kind>(setting);
  add_rule<SampleMatchRule, Kind>(setting);
}

}  // namespace bench
