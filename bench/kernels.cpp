// Times the functions that read whole rows of 128 256 numbers from memory; see the script `kernels`.
//
//   read               the sum of a row of floats: the time of the memory
//   log_sum_exp        the log-sum-exp of a row of float logits
//   half_log_sum_exp   the log-sum-exp of a row of 16-bit logits
//   top_p, top_k, min_p, chain
//                      sampling steps: p = 0.95, k = 40, min-p 0.05, and temperature 0.8 with all three after it, on
//                      rows like those of a language model: logits −1.6·log(1 + rank) + 0.7·N(0, 1), ids in random order
//   flat_top_p         p = 0.95 on N(0, 1) logits, which leaves three quarters of the tokens
//   residual           the mass of (p − q)+ of two rows of float probabilities
//   logits_residual    the mass of (p − q)+ of two rows of float logits with known log-sum-exps
//   argmax             the most probable token of a row of float probabilities
//   keyed              a keyed draw from a row of float probabilities
//   logits_keyed       a keyed draw from a row of float logits
//
// The calls go through 256 MB of rows, so that each row is read from memory.
// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "specdec/chance/keyed.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/logits.hpp"
#include "specdec/rows/read/residual.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/steps/min_p.hpp"
#include "specdec/sample/steps/temperature.hpp"
#include "specdec/sample/steps/top_k.hpp"
#include "specdec/sample/steps/top_p.hpp"

namespace {

using namespace specdec;

constexpr Index vocab_size = 128'256, bytes = Index{1} << 28;

enum class Numbers { logits, probabilities, zipf };

/// 256 MB of copies of one row: N(0, 1) logits, their probabilities, or logits like those of a language model.
template <class S>
const std::vector<S>& rows(Numbers numbers) {
  static std::vector<S> kept[3];
  std::vector<S>& out = kept[static_cast<std::size_t>(numbers)];
  if (!out.empty()) return out;
  std::mt19937_64 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> row(vocab_size);
  float sum = 0;
  for (float& x : row) sum += std::exp(x = normal(generator));
  if (numbers == Numbers::probabilities)
    for (float& x : row) x = std::exp(x) / sum;
  if (numbers == Numbers::zipf) {
    float rank = 0;
    for (float& x : row) x = 0.7f * x - 1.6f * std::log(++rank);
    std::ranges::shuffle(row, generator);
  }
  const Index count = bytes / (vocab_size * static_cast<Index>(sizeof(S)));
  out.reserve(static_cast<std::size_t>(count * vocab_size));
  for (Index i = 0; i < count; ++i)
    for (const float x : row) out.push_back(static_cast<S>(x));
  return out;
}

/// Times f(row, next row) over all rows.
template <class S, class F>
void time(benchmark::State& state, Numbers numbers, F&& f) {
  const auto& all = rows<S>(numbers);
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
  time<float>(state, Numbers::logits,
              [](const auto& row, const auto&) { return row.segment(0, vocab_size).sum(); });
}

template <class S>
void log_sum_exp(benchmark::State& state) {
  time<S>(state, Numbers::logits,
          [](const auto& row, const auto&) { return LogitsRow(row, 0.8).log_sum_exp().value; });
}

template <class Step>
void sample(benchmark::State& state, const Step& step, Numbers numbers) {
  time<float>(state, numbers,
              [&](const auto& row, const auto&) { return step(LogitsRow(row)).probability(0); });
}

void residual_of_floats(benchmark::State& state) {
  time<float>(state, Numbers::probabilities,
              [](const auto& p, const auto& q) { return residual_mass(1.0, DenseRow(p), 0.9, DenseRow(q)); });
}

void residual_of_logits(benchmark::State& state) {
  const LogSumExp known =
      LogitsRow(NumberRow<float>(rows<float>(Numbers::logits).data(), vocab_size)).log_sum_exp();
  time<float>(state, Numbers::logits, [&](const auto& p, const auto& q) {
    return residual_mass(1.0, LogitsRow(p, 1.0, known), 0.9, LogitsRow(q, 1.0, known));
  });
}

void argmax(benchmark::State& state) {
  time<float>(state, Numbers::probabilities,
              [](const auto& row, const auto&) { return DenseRow(row).argmax(); });
}

void keyed_draw(benchmark::State& state, Numbers numbers) {
  Keyed keyed(1);
  time<float>(state, numbers, [&](const auto& row, const auto&) {
    return numbers == Numbers::probabilities ? keyed.draw(DenseRow(row)) : keyed.draw(LogitsRow(row));
  });
}

}  // namespace

int main(int argc, char** argv) {
  using benchmark::RegisterBenchmark;
  RegisterBenchmark("read", read);
  RegisterBenchmark("log_sum_exp", log_sum_exp<float>);
  RegisterBenchmark("half_log_sum_exp", log_sum_exp<Eigen::half>);
  RegisterBenchmark("top_p", sample<TopP>, TopP(0.95), Numbers::zipf);
  RegisterBenchmark("flat_top_p", sample<TopP>, TopP(0.95), Numbers::logits);
  RegisterBenchmark("top_k", sample<TopK>, TopK(40), Numbers::zipf);
  RegisterBenchmark("min_p", sample<MinP>, MinP(0.05), Numbers::zipf);
  using Steps = Chain<Temperature, TopK, TopP, MinP>;
  RegisterBenchmark("chain", sample<Steps>, Steps{Temperature(0.8), TopK(40), TopP(0.95), MinP(0.05)},
                    Numbers::zipf);
  RegisterBenchmark("residual", residual_of_floats);
  RegisterBenchmark("logits_residual", residual_of_logits);
  RegisterBenchmark("argmax", argmax);
  RegisterBenchmark("keyed", keyed_draw, Numbers::probabilities);
  RegisterBenchmark("logits_keyed", keyed_draw, Numbers::logits);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
