// Times the steps from logits to the distribution that is sampled.
//
//   specdec_bench --benchmark_filter='_(top_p|top_k)/vocab:128256/'
//
//   sample_<step>      the step of the library, from a new row to its first probability
//   reference_<step>   the step as CPU samplers commonly do it: a list of candidates, sorted as far as needed (for
//                      top-p, ever more of the list until the mass is reached)
//   lse_<step>         one log-sum-exp of the row, by the library: what a verification takes without a step
//   read_<step>        one vectorised sum of the row
//
//   <step>             top_p (0.95), top_k (40), min_p (0.05), chain (temperature 0.8, then top-k, top-p, min-p)
//   vocab:1000|32000|128256|256000
//   normal             logits N(0, 1), so that most tokens stay in the nucleus
//   ordered|shuffled   logits −1.6·log(1 + rank) + 0.7·N(0, 1), ids by frequency or in random order
//
// The calls go through 32 MB of rows, so that each row is read from memory. For a vocabulary of 1000 there is only one
// row.
//
// The results are checked: library and reference must keep equally many tokens (up to rounding at the boundary) and give
// the likeliest of these tokens the same probability.
// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "specdec/rows/kinds/logits.hpp"
#include "specdec/sample/chain.hpp"
#include "specdec/sample/steps/min_p.hpp"
#include "specdec/sample/steps/temperature.hpp"
#include "specdec/sample/steps/top_k.hpp"
#include "specdec/sample/steps/top_p.hpp"

namespace {

using specdec::Index;
using specdec::Token;
using Row = Eigen::ArrayXf;

enum class Shape { normal, ordered, shuffled };

constexpr const char* name_of(Shape shape) {
  return shape == Shape::normal ? "normal" : shape == Shape::ordered ? "ordered" : "shuffled";
}

struct SampleSetting {
  Index vocab_size;
  Shape shape;
  friend bool operator==(const SampleSetting&, const SampleSetting&) = default;
};

Row make_row(const SampleSetting& setting, std::mt19937_64& generator) {
  std::normal_distribution<float> normal;
  Row row(setting.vocab_size);
  for (Index x = 0; x < row.size(); ++x)
    row[x] = setting.shape == Shape::normal
                 ? normal(generator)
                 : -1.6f * std::log(1 + static_cast<float>(x)) + 0.7f * normal(generator);
  if (setting.shape == Shape::shuffled) std::shuffle(row.begin(), row.end(), generator);
  return row;
}

// Rows are made on demand. Only the rows of one setting exist at a time.
const std::vector<Row>& rows_of(const SampleSetting& setting) {
  static SampleSetting made{0, Shape::normal};
  static std::vector<Row> rows;
  if (made == setting) return rows;
  made = setting;
  rows.clear();
  std::mt19937_64 generator(static_cast<std::uint64_t>(setting.vocab_size));
  const Index count = setting.vocab_size > 1000 ? (Index{1} << 23) / setting.vocab_size : 1;
  for (Index i = 0; i < count; ++i) rows.push_back(make_row(setting, generator));
  return rows;
}

struct Candidate {
  float logit;
  Token id;
  float p = 0;
};

// A row as a list of candidates, and the steps on this list. The first `sorted` candidates are in order.
struct Candidates {
  std::vector<Candidate> list;
  std::size_t sorted = 0;
  float temperature = 1;

  explicit Candidates(const Row& row) {
    list.reserve(static_cast<std::size_t>(row.size()));
    for (Index x = 0; x < row.size(); ++x) list.push_back({row[x], static_cast<Token>(x)});
  }

  void sort(std::size_t count) {
    count = std::min(count, list.size());
    if (count <= sorted) return;
    std::partial_sort(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(count), list.end(),
                      [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    sorted = count;
  }

  void softmax() {
    float largest = list.front().logit;
    for (const Candidate& c : list) largest = std::max(largest, c.logit);
    double sum = 0;
    for (Candidate& c : list) sum += static_cast<double>(c.p = std::exp((c.logit - largest) / temperature));
    for (Candidate& c : list) c.p /= static_cast<float>(sum);
  }

  void top_k(std::size_t k) {
    sort(k);
    list.resize(std::min(k, list.size()));
  }

  void top_p(double p) {
    softmax();
    double sum = 0;
    std::size_t kept = 0;
    for (std::size_t k = 64; sum < p && kept < list.size(); k *= 2) {
      sort(k);
      while (sum < p && kept < sorted) sum += static_cast<double>(list[kept++].p);
    }
    list.resize(kept);
    softmax();
  }

  void min_p(float p) {
    float largest = list.front().logit;
    for (const Candidate& c : list) largest = std::max(largest, c.logit);
    const float least = largest + temperature * std::log(p);
    std::erase_if(list, [&](const Candidate& c) { return c.logit < least; });
    sorted = 0;
  }
};

struct TopPStep {
  static constexpr const char* name = "top_p";
  static auto sample(const specdec::LogitsRow<float>& row) { return specdec::TopP(0.95)(row); }
  static void reference(Candidates& c) { c.top_p(0.95); }
};

struct TopKStep {
  static constexpr const char* name = "top_k";
  static auto sample(const specdec::LogitsRow<float>& row) { return specdec::TopK(40)(row); }
  static void reference(Candidates& c) { c.top_k(40), c.softmax(); }
};

struct MinPStep {
  static constexpr const char* name = "min_p";
  static auto sample(const specdec::LogitsRow<float>& row) { return specdec::MinP(0.05)(row); }
  static void reference(Candidates& c) { c.min_p(0.05f), c.softmax(); }
};

struct ChainStep {
  static constexpr const char* name = "chain";
  static auto sample(const specdec::LogitsRow<float>& row) {
    using namespace specdec;
    return Chain{Temperature(0.8), TopK(40), TopP(0.95), MinP(0.05)}(row);
  }
  static void reference(Candidates& c) {
    c.temperature = 0.8f;
    c.top_k(40), c.top_p(0.95), c.min_p(0.05f), c.softmax();
  }
};

template <class Step>
auto sampled(const Row& row) {
  return Step::sample(specdec::LogitsRow<float>(specdec::NumberRow<float>(row.data(), row.size())));
}

template <class Step>
Candidates referenced(const Row& row) {
  Candidates candidates(row);
  Step::reference(candidates);
  return candidates;
}

template <class Step>
bool agree(const Row& row) {
  const auto processed = sampled<Step>(row);
  Candidates candidates = referenced<Step>(row);
  Index kept = 0;
  for (Index x = 0; x < row.size(); ++x) kept += processed.probability(static_cast<Token>(x)) > 0 ? 1 : 0;
  const Index expected = std::ssize(candidates.list), slack = 1 + expected / 10'000;
  const Candidate first = *std::ranges::max_element(candidates.list, {}, &Candidate::logit);
  const double p = processed.probability(first.id);
  return std::abs(kept - expected) <= slack && std::abs(p - static_cast<double>(first.p)) < 1e-4 * p;
}

template <class F>
void time_rows(benchmark::State& state, const std::vector<Row>& rows, F&& f) {
  std::size_t k = 0;
  for (auto _ : state) {
    auto result = f(rows[k]);
    benchmark::DoNotOptimize(result);
    k = (k + 1) % rows.size();
  }
}

template <class Step>
void time_sample(benchmark::State& state, const SampleSetting& setting) {
  const auto& rows = rows_of(setting);
  if (!agree<Step>(rows.back())) return state.SkipWithError("library and reference disagree");
  time_rows(state, rows, [](const Row& row) { return sampled<Step>(row).probability(0); });
}

template <class Step>
void time_reference(benchmark::State& state, const SampleSetting& setting) {
  time_rows(state, rows_of(setting), [](const Row& row) { return referenced<Step>(row).list.front().p; });
}

void time_lse(benchmark::State& state, const SampleSetting& setting) {
  time_rows(state, rows_of(setting), [](const Row& row) {
    return specdec::LogitsRow<float>(specdec::NumberRow<float>(row.data(), row.size())).log_sum_exp().value;
  });
}

void time_read(benchmark::State& state, const SampleSetting& setting) {
  time_rows(state, rows_of(setting), [](const Row& row) { return row.sum(); });
}

template <class Step>
void add(const SampleSetting& setting) {
  const auto add_one = [&](const std::string& kind, void (*time)(benchmark::State&, const SampleSetting&)) {
    const std::string name = kind + Step::name + "/vocab:" + std::to_string(setting.vocab_size) + "/float/" +
                             name_of(setting.shape);
    benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
      time(state, setting);
    })->Unit(benchmark::kMicrosecond);
  };
  add_one("sample_", time_sample<Step>);
  add_one("lse_", time_lse);
  add_one("read_", time_read);
  add_one("reference_", time_reference<Step>);
}

const bool registered = [] {
  for (const Index vocab_size : {1000, 32000, 128256, 256000})
    for (const Shape shape : {Shape::normal, Shape::ordered, Shape::shuffled}) {
      const SampleSetting setting{vocab_size, shape};
      add<TopPStep>(setting);
      add<TopKStep>(setting);
      add<MinPStep>(setting);
      add<ChainStep>(setting);
    }
  return true;
}();

}  // namespace
