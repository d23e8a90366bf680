// Times the functions that read whole rows of 128 256 numbers from memory; see the script `kernels`.
//
//   read               the sum of a row of floats: the time of the memory
//   log_sum_exp        the log-sum-exp of a row of float logits
//   half_log_sum_exp   the log-sum-exp of a row of 16-bit logits
//   top_p, top_k, chain
//                      sampling steps: p = 0.95, k = 40, and both after temperature 0.8
//   residual           the mass of (p − q)+ of two rows of float probabilities
//   logits_residual    the mass of (p − q)+ of two rows of float logits with known log-sum-exps
//   argmax             the most probable token of a row of float probabilities
//   keyed              a keyed draw from a row of float probabilities
//   logits_keyed       a keyed draw from a row of float logits
//
// The calls go through 256 MB of rows, so that each row is read from memory.
// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "specdec/chance/keyed.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/logits.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/steps/temperature.hpp"
#include "specdec/sample/steps/top_k.hpp"
#include "specdec/sample/steps/top_p.hpp"

namespace {

using namespace specdec;

constexpr Index vocab_size = 128'256, bytes = Index{1} << 28;

/// 256 MB of copies of one row: N(0, 1) logits, or their probabilities.
template <class S>
const std::vector<S>& rows(bool probabilities) {
  static std::vector<S> kept[2];
  std::vector<S>& out = kept[probabilities];
  if (!out.empty()) return out;
  std::mt19937_64 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(vocab_size);
  float sum = 0;
  for (float& x : row) sum += std::exp(x = normal(generator));
  if (probabilities)
    for (float& x : row) x = std::exp(x) / sum;
  const Index count = bytes / (vocab_size * static_cast<Index>(sizeof(S)));
  out.reserve(static_cast<std::size_t>(count * vocab_size));
  for (Index i = 0; i < count; ++i)
    for (const float x : row) out.push_back(static_cast<S>(x));
  return out;
}

/// Times f(row, next row) over all rows.
template <class S, class F>
void time(benchmark::State& state, bool probabilities, F&& f) {
  const auto& all = rows<S>(probabilities);
  const std::size_t size = vocab_size, last = all.size() - 2 * size;
  std::size_t start = 0;
  for (auto _ : state) {
    auto result =
        f(NumberRow<S>(all.data() + start, vocab_size), NumberRow<S>(all.data() + start + size, vocab_size));
    benchmark::DoNotOptimize(result);
    start = start < last ? start + size : 0;
  }
}

void read(benchmark::State& state) {
  time<float>(state, false, [](const auto& row, const auto&) { return row.segment(0, vocab_size).sum(); });
}

template <class S>
void log_sum_exp(benchmark::State& state) {
  time<S>(state, false, [](const auto& row, const auto&) { return LogitsRow(row, 0.8).log_sum_exp().value; });
}

template <class Step>
void sample(benchmark::State& state, const Step& step) {
  time<float>(state, false,
              [&](const auto& row, const auto&) { return step(LogitsRow(row)).probability(0); });
}

void residual_of_floats(benchmark::State& state) {
  time<float>(state, true,
              [](const auto& p, const auto& q) { return residual_mass(1.0, DenseRow(p), 0.9, DenseRow(q)); });
}

void residual_of_logits(benchmark::State& state) {
  const LogSumExp known = LogitsRow(NumberRow<float>(rows<float>(false).data(), vocab_size)).log_sum_exp();
  time<float>(state, false, [&](const auto& p, const auto& q) {
    return residual_mass(1.0, LogitsRow(p, 1.0, known), 0.9, LogitsRow(q, 1.0, known));
  });
}

void argmax(benchmark::State& state) {
  time<float>(state, true, [](const auto& row, const auto&) { return DenseRow(row).argmax(); });
}

void keyed_draw(benchmark::State& state, bool probabilities) {
  Keyed keyed(1);
  time<float>(state, probabilities, [&](const auto& row, const auto&) {
    return probabilities ? keyed.draw(DenseRow(row)) : keyed.draw(LogitsRow(row));
  });
}

}  // namespace

int main(int argc, char** argv) {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("read", read);
  RegisterBenchmark("log_sum_exp", log_sum_exp<float>);
  RegisterBenchmark("half_log_sum_exp", log_sum_exp<Eigen::half>);
  RegisterBenchmark("top_p", sample<TopP>, TopP(0.95));
  RegisterBenchmark("top_k", sample<TopK>, TopK(40));
  using BothSteps = Chain<Temperature, TopK, TopP>;
  RegisterBenchmark("chain", sample<BothSteps>, BothSteps{Temperature(0.8), TopK(40), TopP(0.95)});
  RegisterBenchmark("residual", residual_of_floats);
  RegisterBenchmark("logits_residual", residual_of_logits);
  RegisterBenchmark("argmax", argmax);
  RegisterBenchmark("keyed", keyed_draw, true);
  RegisterBenchmark("logits_keyed", keyed_draw, false);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
