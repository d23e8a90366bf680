// Verifies many drafts of different lengths in one call, lines or trees, on threads of your choice. The engine's matrices hold
// the rows of all drafts, one draft after another.
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <exception>
#include <iostream>
#include <random>
#include <ranges>
#include <span>
#include <specdec/verify/block.hpp>
#include <specdec/verify/rules/traversal.hpp>
#include <specdec/verify/verify_batch.hpp>
#include <thread>
#include <vector>
#ifdef WITH_TBB
#include <oneapi/tbb/parallel_for.h>
#include <execution>
#endif

using specdec::Index, specdec::Token;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// An executor calls f(0), ..., f(n − 1), in any order, on any threads, and returns when all these calls have ended.
constexpr auto on_two_threads = [](Index n, const auto& f) {
  const auto every_other = [&](Index i) {
    for (; i < n; i += 2) f(i);
  };
  std::thread other(every_other, Index{1});
  every_other(0);
  other.join();
};

#ifdef _OPENMP
constexpr auto by_openmp = [](Index n, const auto& f) {
#pragma omp parallel for schedule(dynamic)
  for (Index i = 0; i < n; ++i) f(i);
};
#endif

#ifdef WITH_TBB
constexpr auto by_tbb = [](Index n, const auto& f) { oneapi::tbb::parallel_for(Index{0}, n, f); };

#ifdef __cpp_lib_execution
constexpr auto by_the_standard_library = [](Index n, const auto& f) {
  const auto all = std::views::iota(Index{0}, n);
  std::for_each(std::execution::par, all.begin(), all.end(), f);
};
#endif
#endif

// Stands for a model's output: `count` distributions over 50 tokens.
RowMajor rows(Index count, double sharpness) {
  RowMajor rows(count, 50);
  for (Index i = 0; i < count; ++i)
    for (Index x = 0; x < 50; ++x)
      rows(i, x) = static_cast<float>(std::exp(sharpness * std::sin(static_cast<double>((i + 2) * (x + 1)))));
  return rows.array().colwise() / rows.array().rowwise().sum();
}

int main() {
  // Four drafts, of 2, 0, 3 and 1 tokens: draft k is tokens offsets[k]..offsets[k + 1] − 1. A draft of n tokens has n + 1
  // rows of the target. Each draft has its own generator.
  const std::vector<Index> offsets{0, 2, 2, 5, 6};
  const std::vector<Token> tokens{3, 4, 15, 9, 26, 5};
  const RowMajor target = rows(10, 1.5), draft = rows(6, 1);
  const std::vector<std::mt19937_64> generators{std::mt19937_64{1}, std::mt19937_64{2}, std::mt19937_64{3},
                                                std::mt19937_64{4}};
  const auto judge = [&](const auto& for_each) {
    auto rngs = generators;
    std::vector<specdec::BatchVerdict> verdicts(rngs.size());
    specdec::verify_batch(specdec::BlockVerifier{}, target, draft, tokens, offsets, rngs, std::span(verdicts),
                          for_each);
    return verdicts;
  };

  const auto verdicts = judge(specdec::InOrder{});
  for (const specdec::BatchVerdict& each : verdicts) {
    if (each.error) std::rethrow_exception(each.error);  // an error of one draft does not touch the others
    std::cout << each.verdict.accepted << " accepted, then token " << each.verdict.token << "\n";
  }

  const auto is_the_same = [&](const auto& for_each) {
    return std::ranges::equal(judge(for_each), verdicts, {}, &specdec::BatchVerdict::verdict,
                              &specdec::BatchVerdict::verdict);
  };
  bool same = is_the_same(on_two_threads);
#ifdef _OPENMP
  same = same && is_the_same(by_openmp);
#endif
#ifdef WITH_TBB
  same = same && is_the_same(by_tbb);
#ifdef __cpp_lib_execution
  same = same && is_the_same(by_the_standard_library);
#endif
#endif
  std::cout << "the same on any threads: " << (same ? "yes" : "no") << "\n";

  // The same drafts as trees. The last two tokens of the third draft both follow its first one.
  const std::vector<Index> parents{-1, 0, -1, 0, 0, -1};
  auto rngs = generators;
  std::vector<specdec::BatchTreeVerdict> trees(rngs.size());
  specdec::verify_batch(specdec::TraversalVerifier{}, target, draft, tokens, parents, offsets, rngs,
                        std::span(trees), on_two_threads);
  for (const specdec::BatchTreeVerdict& each : trees) {
    if (each.error) std::rethrow_exception(each.error);
    std::cout << each.verdict << "\n";
  }
  return same ? 0 : 1;
}
