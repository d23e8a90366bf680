// Measures the costs of calls of a batch model before serving begins.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <specdec/more/lengths/cost_curve.hpp>
#include <specdec/specdec.hpp>
#include <vector>

namespace serve {

using specdec::Index;

/// Seconds of a call that feeds `tokens` tokens to each of `sequences`, after a context of 64 tokens. The least of five.
template <class Model>
double call_time(Model& model, Index sequences, Index tokens) {
  using Clock = std::chrono::steady_clock;
  constexpr Index length = 64;
  const std::vector<specdec::Token> context(length, 1), next(static_cast<std::size_t>(tokens), 1);
  std::vector<specdec::BatchFeed> feeds(static_cast<std::size_t>(sequences));
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    feeds[i].sequence = static_cast<Index>(i);
    feeds[i].tokens = context;
  }
  model.forward(feeds);
  for (specdec::BatchFeed& feed : feeds) feed.tokens = next, feed.from = length, feed.rows = tokens;
  double least = std::numeric_limits<double>::infinity();
  for (int n = 0; n < 5; ++n) {
    const auto start = Clock::now();
    model.forward(feeds);
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
    for (const specdec::BatchFeed& feed : feeds) model.keep(feed.sequence, length);
  }
  for (const specdec::BatchFeed& feed : feeds) model.release(feed.sequence);
  return least;
}

/// The cost of a target call by its number of tokens, up to `sequences` times 1 + gamma.
template <class Model>
specdec::CostCurve target_costs(Model& model, Index sequences, Index gamma) {
  specdec::CostCurve costs;
  for (Index n = 1; n < sequences; n *= 2) costs.add(n, call_time(model, n, 1));
  for (Index tokens = 1; tokens <= 1 + gamma; ++tokens)
    costs.add(sequences * tokens, call_time(model, sequences, tokens));
  return costs;
}

/// The cost of a draft call by its number of sequences; each sequence drafts one token.
template <class Model>
specdec::CostCurve draft_costs(Model& model, Index sequences) {
  specdec::CostCurve costs;
  for (Index n = 1; n < sequences; n *= 2) costs.add(n, call_time(model, n, 1));
  costs.add(sequences, call_time(model, sequences, 1));
  return costs;
}

}  // namespace serve
