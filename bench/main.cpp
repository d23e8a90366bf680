// What one verification costs: every rule of the library over kind of row, draft length, vocabulary, order of
// the ids and acceptance rate, with the rows in memory or in the cache.
//
//   specdec_bench                                                            a few minutes, see below
//   specdec_bench --benchmark_filter='_block/gamma:8/vocab:32000/logits/ordered/accept:(30|95)/warm'
//
//   verify_<rule>      the verifier of the library
//   reference_<rule>   the rule as its paper prints it, on whole rows of float probabilities (reference.hpp);
//                      from any other kind of row these are made first, all of them, in memory
//   floor_<rule>       no rule at all: reading once the rows that such a rule cannot but read, those whose
//                      residual it needs and the one it draws from. A vectorised sum; of logits a log-sum-exp
//   lse_<rule>         the log-sum-exp of those rows in which the verifier looks a probability up, by their
//                      logits: what the library cannot but compute (for rows of logits only)
//
//   <rule>             token, block, greedy_block, argmax, sample_match; greedy_fresh is greedy_block where
//                      every call is the first of its sequence, so that no modification is live
//   gamma:1|4|8|16     drafted tokens
//   vocab:1000|32000|128256|256000
//   <kind>             float, half, bfloat16, pointers, logits, logits_lse, sparse, sampled: see kinds.hpp.
//                      Floor and reference of pointers and sampled are those of float
//   ordered|shuffled   ids by frequency, or every row in an order of its own
//   accept:30|70|95    acceptance rate in percent: the drafter is made to have it (draft_noise in rows.hpp)
//   cold|warm          every batch of calls finds a cache that has forgotten the rows; or its rows, 8 MB of
//                      them or one block, have been read before
//
// That makes some 24 000 (a filter makes listing them quick). Without a filter only those of gamma:8/vocab:128256/accept:70/cold run (and
// what other files register). Benches of one vocabulary, order and acceptance rate share a pool of rows, which
// takes seconds to make, and no two pools live at a time: with random interleaving, filter for one of them.
//
// What is timed is checked. Every verdict must be possible (0 <= τ <= γ, p_τ(Y) > 0), and on a small
// vocabulary the verifier and the reference must accept equally many tokens in the mean; a bench that fails
// says so instead of giving a time. Counters:
//
//   accepted           the mean τ
//   alpha              the acceptance rate of the rows before any of them was cut to a list
//   draws              tokens drawn per verification
//   rounds, rounds_se  rounds of the race (that for the bonus token is one) per position, which is 1 in
//                      expectation for token and block verification whatever the models, and its standard
//                      error. Less where races went on for so long that they were settled by a pass
//   rows               rows that the verifier looks at, or that the floor reads
//   bytes              bytes that the verifier reads of them, twice where twice; of a list without its ids
#include <benchmark/benchmark.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "settings.hpp"

namespace bench {

void add_float(const Setting&);
void add_half(const Setting&);
void add_bfloat16(const Setting&);
void add_pointers(const Setting&);
void add_logits(const Setting&);
void add_logits_lse(const Setting&);
void add_sparse(const Setting&);
void add_sampled(const Setting&);

namespace {

void add(const Setting& setting) {
  for (const auto add_kind :
       {add_float, add_half, add_bfloat16, add_pointers, add_logits, add_logits_lse, add_sparse, add_sampled})
    add_kind(setting);
}

/// Pool by pool.
void add_everything() {
  for (const Index vocab_size : {1000, 32000, 128256, 256000})
    for (const Order order : {Order::ordered, Order::shuffled})
      for (const int accept : {30, 70, 95})
        for (const bool warm : {false, true})
          for (const Index gamma : {1, 4, 8, 16}) add({{vocab_size, order, accept}, gamma, warm});
}

void add_selection() {
  for (const Order order : {Order::ordered, Order::shuffled}) add({{128256, order, 70}, 8, false});
}

}  // namespace
}  // namespace bench

/// The short default of --benchmark_min_time is enough for medians of several repetitions.
int main(int argc, char** argv) {
  const bool everything = std::any_of(argv + 1, argv + argc, [](std::string_view argument) {
    return argument.starts_with("--benchmark_filter") || argument.starts_with("--benchmark_list_tests");
  });
  if (everything) bench::add_everything();
  else bench::add_selection();
  std::string min_time = "--benchmark_min_time=0.02";
  std::vector<char*> arguments{argv[0], min_time.data()};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
