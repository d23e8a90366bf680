// Times one verification: every rule of the library over kind of row, draft length, vocabulary, order of the ids and
// acceptance rate, with the rows in memory or in the cache.
//
//   specdec_bench                                                            a few minutes, see below
//   specdec_bench --benchmark_filter='_block/gamma:8/vocab:32000/logits/ordered/accept:(30|95)/warm'
//
//   verify_<rule>      the verifier of the library
//   reference_<rule>   the rule as its paper prints it, on whole rows of float probabilities (reference.hpp).
//                      Rows of any other kind are first converted to these, in memory
//   floor_<rule>       no rule: one pass over the rows that the reference must read, which are the rows with a
//                      residual and the row of its draw. A vectorised sum; for logits a log-sum-exp
//   lse_<rule>         the log-sum-exp of the rows in which the verifier looks up a probability: the library must
//                      compute it (rows of logits only)
//
//   <rule>             token, block, greedy_block, argmax, sample_match. greedy_fresh is greedy_block, but every
//                      call is the first of its sequence, so that no modification is live
//   gamma:1|4|8|16     drafted tokens
//   vocab:1000|32000|128256|256000
//   <kind>             float, half, bfloat16, pointers, logits, logits_lse, sparse, sampled: see kinds.hpp.
//                      For pointers and sampled, use floor and reference of float
//   ordered|shuffled   ids by frequency, or in every row another order
//   accept:30|70|95    acceptance rate of the drafter in percent (draft_noise in rows.hpp)
//   cold|warm          cold: no row is in the cache when a batch of calls begins. Warm: the rows of the batch
//                      (8 MB, or one block) have been read before
//
// These are about 24 000 benches (with a filter, listing them is quick). Without a filter only
// gamma:8/vocab:128256/accept:70/cold and the benches of other files are run. Benches with one vocabulary, order and
// acceptance rate share a pool of rows. A pool takes seconds to make, and only one exists at a time. So, with
// random interleaving, filter for one pool.
//
// The results are checked. Every verdict must be possible (0 <= τ <= γ, p_τ(Y) > 0). On a small vocabulary, verifier and
// reference must accept equally many tokens on average. A bench that fails reports an error instead of a time. Counters:
//
//   accepted           the mean τ
//   alpha              the acceptance rate of the rows, before any row is cut to a list
//   draws              tokens drawn per verification
//   rounds, rounds_se  rounds of races per position, and the standard error. The race for the bonus token has one
//                      round. For token and block verification the expectation is 1, whatever the models. It is
//                      less if long races were ended by a pass over the rows
//   rows               rows that the verifier looks at, or that the floor reads
//   bytes              bytes that the verifier reads from them; bytes read twice count twice, ids of lists do not
//                      count
// SPDX-License-Identifier: MIT
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

/// Adds the benches pool by pool.
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

/// Sets a short default of --benchmark_min_time, which is enough for medians of several repetitions.
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
