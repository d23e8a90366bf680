// Times many verifications on several threads.
//
//   specdec_bench --benchmark_filter='verify_batch/'
//
//   verify_batch/batch:64/gamma:3/vocab:1000|128256/<kind>/threads:1|2|4
//                      specdec::verify_batch with block verification, on an executor with this many threads
//   <kind>             float probabilities, or logits, whose normalisers are computed during the verification. The
//                      acceptance rate is 0.7, ids are shuffled. Above a vocabulary of 1000, all rows together are
//                      larger than the cache
//
// The results are checked: any number of threads must give the verdicts of one thread.
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
  std::span<const Index> offsets() const { return offsets_; }

 private:
  Index vocab_size_;
  std::vector<Token> tokens_;
  std::vector<Index> offsets_{0};
  PerSide<std::vector<const float*>> pointers_;
};

/// Times the verification of all drafts. `as_rows` turns the numbers into rows of distributions.
template <class AsRows>
void time_threads(benchmark::State& state, Index threads, const Drafts& drafts, const AsRows& as_rows) {
  std::vector<specdec::BatchVerdict> verdicts(batch), alone(batch);
  std::vector<std::mt19937_64> sources;
  const auto judge = [&](Index count, std::vector<specdec::BatchVerdict>& out) {
    sources.clear();
    for (unsigned k = 0; k < batch; ++k) sources.emplace_back(k);
    const auto target = drafts.rows(Side::target), draft = drafts.rows(Side::draft);
    specdec::verify_batch(specdec::BlockVerifier{}, as_rows(target), as_rows(draft), drafts.tokens(),
                          drafts.offsets(), sources, std::span(out), Threads{count});
  };
  judge(1, alone);
  for (auto _ : state) judge(threads, verdicts);
  double accepted = 0;
  for (std::size_t k = 0; k < verdicts.size(); ++k) {
    accepted += static_cast<double>(verdicts[k].verdict.accepted) / batch;
    if (verdicts[k].error || verdicts[k].verdict.token != alone[k].verdict.token ||
        verdicts[k].verdict.accepted != alone[k].verdict.accepted)
      state.SkipWithError("threads come to other verdicts");
  }
  state.counters["accepted"] = accepted;
}

void time_float(benchmark::State& state, Index vocab_size, Index threads) {
  const Setting setting = setting_of(vocab_size);
  Drafts drafts(input<FloatRows>(setting));
  const auto& rows = pool(setting.pool).made<FloatRows>("");
  drafts.point_at([&](Side side, Index i) { return rows.row(side, i); });
  time_threads(state, threads, drafts, [](const auto& numbers) { return numbers; });
}

void time_logits(benchmark::State& state, Index vocab_size, Index threads) {
  const Setting setting = setting_of(vocab_size);
  Drafts drafts(input<FloatRows>(setting));
  const Pool& rows = pool(setting.pool);
  drafts.point_at([&](Side side, Index i) { return rows.logits(side).row(i).data(); });
  time_threads(state, threads, drafts, [](const auto& numbers) { return specdec::Logits(numbers); });
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
  }
  return true;
}();

}  // namespace
}  // namespace bench
