// Times many verifications on several threads.
//
//   specdec_bench --benchmark_filter='verify_batch/'
//
//   verify_batch/batch:64/gamma:3/vocab:1000|128256/<kind>/threads:1|2|4
//                      specdec::verify_batch with block verification, on an executor with this many threads
//   <kind>             float probabilities, or logits, whose normalisers are computed during the verification; or trees:
//                      float probabilities by traversal, where the second token is a sibling of the first, and the third
//                      one follows the first. The acceptance rate is 0.7, ids are shuffled. Above a vocabulary of 1000, all
//                      rows together are larger than the cache
//
// The results are checked: any number of threads must give the verdicts of one thread.
// SPDX-License-Identifier: MIT
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "rows.hpp"
#include "specdec/rows/kinds/logits.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/rules/traversal.hpp"
#include "specdec/verify/verify_batch.hpp"
#include "verify.hpp"

namespace bench {
namespace {

constexpr Index batch = 64, gamma = 3;

Setting setting_of(Index vocab_size) { return {{vocab_size, Order::shuffled, 70}, gamma, false}; }

/// An executor that starts new threads for each call. This takes little time beside the work here.
struct Threads {
  Index count;

  void operator()(Index n, const auto& f) const {
    std::atomic<Index> next = 0;
    const auto work = [&] {
      for (Index i = next++; i < n; i = next++) f(i);
    };
    std::vector<std::thread> others;
    for (Index t = 1; t < count; ++t) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
  }
};

/// Many drafts in one list, as verify_batch takes them.
class Drafts {
 public:
  using Rows = specdec::RowPointers<float>;

  explicit Drafts(const Input<FloatRows>& input) : vocab_size_(input.vocab_size()) {
    for (Index k = 0; k < batch; ++k) {
      tokens_.insert(tokens_.end(), input.tokens(k).begin(), input.tokens(k).end());
      offsets_.push_back(std::ssize(tokens_));
      parents_.insert(parents_.end(), {-1, -1, 0});
    }
  }

  /// Points to the rows: numbers(side, i) is row i of a side. Draft k takes the rows from k·(γ + 1) on.
  template <class Numbers>
  void point_at(const Numbers& numbers) {
    for (const Side side : sides) pointers_[side].clear();
    for (Index k = 0; k < batch; ++k)
      for (const Side side : sides)
        for (Index i = 0; i < gamma + (side == Side::target ? 1 : 0); ++i)
          pointers_[side].push_back(numbers(side, k * (gamma + 1) + i));
  }

  Rows rows(Side side) const { return Rows(std::span<const float* const>(pointers_[side]), vocab_size_); }
  std::span<const Token> tokens() const { return tokens_; }
  std::span<const Index> parents() const { return parents_; }
  std::span<const Index> offsets() const { return offsets_; }

 private:
  Index vocab_size_;
  std::vector<Token> tokens_;
  std::vector<Index> parents_, offsets_{0};
  PerSide<std::vector<const float*>> pointers_;
};

Index accepted(const specdec::Verdict& verdict) { return verdict.accepted; }
Index accepted(const specdec::TreeVerdict& verdict) { return std::ssize(verdict.path); }

/// Times judge(sources, verdicts, for_each), which verifies all drafts.
template <class Found, class Judge>
void time_threads(benchmark::State& state, Index threads, const Judge& judge) {
  std::vector<Found> verdicts(batch), alone(batch);
  std::vector<std::mt19937_64> sources;
  const auto judge_on = [&](Index count, std::vector<Found>& out) {
    sources.clear();
    for (unsigned k = 0; k < batch; ++k) sources.emplace_back(k);
    judge(sources, std::span(out), Threads{count});
  };
  judge_on(1, alone);
  for (auto _ : state) judge_on(threads, verdicts);
  double sum = 0;
  for (std::size_t k = 0; k < verdicts.size(); ++k) {
    sum += static_cast<double>(accepted(verdicts[k].verdict)) / batch;
    if (verdicts[k].error || verdicts[k].verdict != alone[k].verdict)
      state.SkipWithError("threads come to other verdicts");
  }
  state.counters["accepted"] = sum;
}

/// Lines. `as_rows` turns the numbers into rows of distributions.
template <class AsRows>
void time_lines(benchmark::State& state, Index threads, const Drafts& drafts, const AsRows& as_rows) {
  time_threads<specdec::BatchVerdict>(
      state, threads, [&](auto& sources, auto verdicts, const auto& for_each) {
        const auto target = drafts.rows(Side::target), draft = drafts.rows(Side::draft);
        specdec::verify_batch(specdec::BlockVerifier{}, as_rows(target), as_rows(draft), drafts.tokens(),
                              drafts.offsets(), sources, verdicts, for_each);
      });
}

/// Drafts whose rows are the pool's float probabilities.
Drafts drafts_of_floats(const Setting& setting) {
  Drafts drafts(input<FloatRows>(setting));
  const auto& rows = pool(setting.pool).made<FloatRows>("");
  drafts.point_at([&](Side side, Index i) { return rows.row(side, i); });
  return drafts;
}

void time_float(benchmark::State& state, Index vocab_size, Index threads) {
  time_lines(state, threads, drafts_of_floats(setting_of(vocab_size)),
             [](const auto& numbers) { return numbers; });
}

void time_trees(benchmark::State& state, Index vocab_size, Index threads) {
  const Drafts drafts = drafts_of_floats(setting_of(vocab_size));
  time_threads<specdec::BatchTreeVerdict>(
      state, threads, [&](auto& sources, auto verdicts, const auto& for_each) {
        specdec::verify_batch(specdec::TraversalVerifier{}, drafts.rows(Side::target),
                              drafts.rows(Side::draft), drafts.tokens(), drafts.parents(), drafts.offsets(),
                              sources, verdicts, for_each);
      });
}

void time_logits(benchmark::State& state, Index vocab_size, Index threads) {
  const Setting setting = setting_of(vocab_size);
  Drafts drafts(input<FloatRows>(setting));
  const Pool& rows = pool(setting.pool);
  drafts.point_at([&](Side side, Index i) { return rows.logits(side).row(i).data(); });
  time_lines(state, threads, drafts, [](const auto& numbers) { return specdec::Logits(numbers); });
}

void add(const char* kind, Index vocab_size, void (*time)(benchmark::State&, Index, Index)) {
  for (const Index threads : {1, 2, 4}) {
    const std::string name = "verify_batch/batch:64/gamma:3/vocab:" + std::to_string(vocab_size) + "/" +
                             kind + "/threads:" + std::to_string(threads);
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) { time(state, vocab_size, threads); })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
}

const bool batches_added = [] {
  for (const Index vocab_size : {1000, 128256}) {
    add("float", vocab_size, time_float);
    add("logits", vocab_size, time_logits);
    add("trees", vocab_size, time_trees);
  }
  return true;
}();

}  // namespace
}  // namespace bench
