// What one verification costs: every rule of the library over draft length, vocabulary and order of the ids.
//
//   specdec_bench --benchmark_filter='_(token|block)/gamma:8/vocab:128256/'
//
//   verify_<rule>      the verifier of the library
//   reference_<rule>   the rule as its paper prints it, on whole rows (reference.hpp)
//   floor_<rule>       no rule at all: one vectorised sum over the rows that such a rule cannot but read:
//                      those whose residual it needs, and the one it draws from
//
// Rows are float probabilities (rows.hpp). Above a vocabulary of 1000 every round over the blocks starts from
// a cache that has forgotten them; at 1000 they stay in the cache.
//
// What is timed is checked. Every verdict must be possible (0 <= τ <= γ, p_τ(Y) > 0), and on a small
// vocabulary the verifier and the reference must accept equally many tokens in the mean; a bench that fails
// says so instead of giving a time. Counters: `accepted`, the mean τ; `draws`, tokens drawn per verification;
// `rounds`, rounds of the race (that for the bonus token is one) per position, which is 1 in expectation for
// token and block verification whatever the models (`rounds_se`, its standard error); `rows`, rows read by
// the floor.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "reference.hpp"
#include "rows.hpp"
#include "specdec/core/race.hpp"
#include "specdec/specdec.hpp"

namespace {

using bench::Index;
using bench::Input;
using bench::Order;
using bench::Rows;
using bench::Setting;
using bench::Token;
using specdec::Verdict;

/// Mean and standard error of a series.
class Mean {
 public:
  void add(double x) {
    ++count_;
    sum_ += x;
    squares_ += x * x;
  }
  double value() const { return sum_ / count_; }
  double error() const { return std::sqrt(std::max(squares_ / count_ - value() * value(), 0.0) / count_); }

 private:
  double count_ = 0, sum_ = 0, squares_ = 0;
};

/// Chance from a generator that counts what it is asked for. Its race is the library's loop.
class CountingChance {
 public:
  explicit CountingChance(std::mt19937_64& generator) : chance_(generator) {}

  Index draws = 0, rounds = 0;

  bool coin(double h) { return chance_.coin(h); }

  template <specdec::Distribution R>
  Token draw(const R& row) {
    ++draws;
    return chance_.draw(row);
  }

  template <specdec::TokenSampler S, specdec::Distribution R>
  Token draw_again(S& sampler, const R& row) {
    ++draws;
    return chance_.draw_again(sampler, row);
  }

  template <specdec::Distribution P, specdec::Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    const Index before = draws;
    const std::optional<Token> y = specdec::run_race(*this, w, p, q);
    rounds += draws - before + (y ? 0 : 1);  // the round that was lost drew nothing
    return y;
  }

  template <specdec::Distribution P>
  std::optional<Token> race(double w, const P& p) {
    ++rounds;
    if (!coin(w)) return std::nullopt;
    return draw(p);
  }

 private:
  specdec::RandomChance<std::mt19937_64> chance_;
};

// The rules. Each names its verifier, its reference, the rows that a plain implementation reads for a verdict
// of τ, and how many positions a verification stands to visit.
using List = std::vector<Index>;

struct PlainRows {
  List target, draft;
};

struct TokenRule {
  static constexpr const char* name = "token";
  static constexpr bool one_round_per_position = true;
  using Verifier = specdec::TokenVerifier;
  using Reference = bench::reference::TokenRule;
  static PlainRows plain_rows(Index gamma, Index tau) {
    if (tau == gamma) return {{tau}, {}};
    return {{tau}, {tau}};
  }
  // Token verification visits its positions from the first to the stop. A coin decides all but the race.
  static Index positions(Index, Index tau) { return tau + 1; }
};

struct BlockRule {
  static constexpr const char* name = "block";
  static constexpr bool one_round_per_position = true;
  using Verifier = specdec::BlockVerifier;
  using Reference = bench::reference::BlockRule;
  static PlainRows plain_rows(Index gamma, Index tau) {
    PlainRows rows;
    for (Index i = 1; i < gamma; ++i) {
      rows.target.push_back(i);
      rows.draft.push_back(i);
    }
    if (tau == 0) rows.draft.push_back(tau);
    if (tau == 0 || tau == gamma) rows.target.push_back(tau);
    return rows;
  }
  static Index positions(Index gamma, Index) { return gamma + 1; }
};

struct GreedyBlockRule : BlockRule {
  static constexpr const char* name = "greedy_block";
  static constexpr bool one_round_per_position = false;
  using Verifier = specdec::GreedyBlockVerifier;
  using Reference = bench::reference::GreedyBlockRule;
};

struct ArgmaxRule {
  static constexpr const char* name = "argmax";
  static constexpr bool one_round_per_position = false;
  using Verifier = specdec::ArgmaxVerifier;
  using Reference = bench::reference::ArgmaxRule;
  static PlainRows plain_rows(Index, Index tau) {
    PlainRows rows;
    for (Index i = 0; i <= tau; ++i) rows.target.push_back(i);
    return rows;
  }
  static Index positions(Index, Index tau) { return tau + 1; }
};

struct SampleMatchRule : ArgmaxRule {
  static constexpr const char* name = "sample_match";
  using Verifier = specdec::SampleMatchVerifier;
  using Reference = bench::reference::SampleMatchRule;
};

/// Mean accepted length of a rule over the drafts of an input.
template <class V>
Mean mean_accepted(const Input& input, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  V verifier;
  Mean accepted;
  for (Index k = 0; k < input.drafts(); ++k) {
    const Rows target = input.target(k), draft = input.draft(k);
    accepted.add(static_cast<double>(verifier(target, draft, input.tokens(k), generator).accepted));
  }
  return accepted;
}

/// Whether verifier and reference accept equally many tokens: within 5 standard errors over 8000 blocks.
template <class Rule>
bool agree() {
  static const bool result = [] {
    std::mt19937_64 generator(1);
    const bench::Pool pool(9 * 400, 50, Order::shuffled, generator);
    const Input input(pool, 8, 8000, generator);
    const Mean ours = mean_accepted<typename Rule::Verifier>(input, 2);
    const Mean theirs = mean_accepted<typename Rule::Reference>(input, 3);
    return std::abs(ours.value() - theirs.value()) <= 5 * std::hypot(ours.error(), theirs.error());
  }();
  return result;
}

/// The verdicts that a rule gives, one for each draft.
template <class Rule>
std::vector<Verdict> verdicts_of(const Input& input) {
  std::mt19937_64 generator(4);
  typename Rule::Verifier verifier;
  std::vector<Verdict> verdicts;
  for (Index k = 0; k < input.drafts(); ++k)
    verdicts.push_back(verifier(input.target(k), input.draft(k), input.tokens(k), generator));
  return verdicts;
}

/// Counts draws and rounds over all drafts; false where the rounds are not what they must be.
template <class Rule>
bool count_chance(benchmark::State& state, const Input& input) {
  std::mt19937_64 generator(5);
  typename Rule::Verifier verifier;
  Mean draws, surplus, positions;
  for (Index k = 0; k < input.drafts(); ++k) {
    CountingChance chance(generator);
    const Index tau = verifier(input.target(k), input.draft(k), input.tokens(k), chance).accepted;
    const Index visited = Rule::positions(input.gamma(), tau);
    const Index rounds = chance.rounds != 0 ? chance.rounds : chance.draws;
    draws.add(static_cast<double>(chance.draws));
    positions.add(static_cast<double>(visited));
    surplus.add(static_cast<double>(rounds - visited));
  }
  state.counters["draws"] = draws.value();
  if (!Rule::one_round_per_position) return true;
  state.counters["rounds"] = 1 + surplus.value() / positions.value();
  state.counters["rounds_se"] = surplus.error() / positions.value();
  return std::abs(surplus.value()) <= 5 * surplus.error();
}

/// Makes the cache forget the rows of an input, where it is to.
void forget(const Input& input) {
  if (input.vocab_size() <= bench::cached_vocab_size) return;
  float sum = bench::evict();
  benchmark::DoNotOptimize(sum);
}

/// Times V, a verifier or a reference, over one draft after the other.
template <class Rule, class V>
void time_rule(benchmark::State& state, const Setting& setting) {
  if (!agree<Rule>()) return state.SkipWithError("verifier and reference accept differently many tokens");
  const Input& input = bench::input(setting);
  const Index round = input.blocks(), gamma = input.gamma();
  std::mt19937_64 generator(6);
  V verifier;
  std::vector<Verdict> verdicts(static_cast<std::size_t>(round));
  Mean accepted;
  bool possible = true;
  Index first = 0;
  const auto check = [&] {
    Index k = first;
    for (const Verdict& verdict : verdicts) {
      const Index tau = verdict.accepted;
      possible = possible && 0 <= tau && tau <= gamma && verdict.token >= 0 &&
                 verdict.token < input.vocab_size() && input.target(k)(tau, verdict.token) > 0;
      accepted.add(static_cast<double>(tau));
      ++k;
    }
    first = (first + round) % input.drafts();
  };
  forget(input);
  while (state.KeepRunningBatch(round)) {
    Index k = first;
    for (Verdict& verdict : verdicts) {
      const Rows target = input.target(k), draft = input.draft(k);
      verdict = verifier(target, draft, input.tokens(k), generator);
      ++k;
    }
    state.PauseTiming();
    check();
    forget(input);
    state.ResumeTiming();
  }
  if (!possible) return state.SkipWithError("an impossible verdict");
  state.counters["accepted"] = accepted.value();
  if constexpr (std::is_same_v<V, typename Rule::Verifier>)
    if (!count_chance<Rule>(state, input)) state.SkipWithError("more or less than one round per position");
}

/// Times reading once what a plain implementation of the rule must read.
template <class Rule>
void time_floor(benchmark::State& state, const Setting& setting) {
  const Input& input = bench::input(setting);
  const Index round = input.blocks();
  std::vector<PlainRows> rows;
  Mean count;
  for (const Verdict& verdict : verdicts_of<Rule>(input)) {
    rows.push_back(Rule::plain_rows(input.gamma(), verdict.accepted));
    count.add(static_cast<double>(rows.back().target.size() + rows.back().draft.size()));
  }
  Index first = 0;
  forget(input);
  while (state.KeepRunningBatch(round)) {
    for (Index k = first; k < first + round; ++k) {
      const Rows target = input.target(k), draft = input.draft(k);
      const PlainRows& read = rows[static_cast<std::size_t>(k)];
      float sum = 0;
      for (const Index i : read.target) sum += target.row(i).sum();
      for (const Index i : read.draft) sum += draft.row(i).sum();
      benchmark::DoNotOptimize(sum);
    }
    state.PauseTiming();
    first = (first + round) % input.drafts();
    forget(input);
    state.ResumeTiming();
  }
  const double bytes = count.value() * static_cast<double>(input.vocab_size()) * sizeof(float);
  state.counters["rows"] = count.value();
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes * static_cast<double>(state.iterations())));
}

template <class Rule>
void add(const Setting& setting) {
  const std::string suffix = std::string(Rule::name) + "/gamma:" + std::to_string(setting.gamma) +
                             "/vocab:" + std::to_string(setting.vocab_size) + "/float/" +
                             (setting.order == Order::ordered ? "ordered" : "shuffled");
  const auto add_one = [&](const std::string& name, void (*time)(benchmark::State&, const Setting&)) {
    benchmark::RegisterBenchmark((name + suffix).c_str(), [=](benchmark::State& state) {
      time(state, setting);
    })->Unit(benchmark::kMicrosecond);
  };
  add_one("verify_", time_rule<Rule, typename Rule::Verifier>);
  add_one("floor_", time_floor<Rule>);
  add_one("reference_", time_rule<Rule, typename Rule::Reference>);
}

}  // namespace

/// There are 360 of them: the short default of --benchmark_min_time lets them all run within two minutes.
int main(int argc, char** argv) {
  for (const Index vocab_size : {1000, 32000, 128256})
    for (const Order order : {Order::ordered, Order::shuffled})
      for (const Index gamma : {1, 4, 8, 16}) {
        const Setting setting{gamma, vocab_size, order};
        add<TokenRule>(setting);
        add<BlockRule>(setting);
        add<GreedyBlockRule>(setting);
        add<ArgmaxRule>(setting);
        add<SampleMatchRule>(setting);
      }
  std::string min_time = "--benchmark_min_time=0.02";
  std::vector<char*> arguments{argv[0], min_time.data()};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
