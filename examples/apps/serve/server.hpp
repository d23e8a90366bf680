// Serves requests by a batch: texts join when they arrive, and leave when they are done.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <thread>
#include <vector>

namespace serve {

using specdec::Index;
using specdec::Token;
using Tokens = std::vector<Token>;
using Generator = std::mt19937_64;

/// A request for a text.
struct Request {
  Tokens prompt;
  double arrives = 0;  ///< seconds after the start
};

/// A finished text, and its times in seconds.
struct Served {
  Tokens tokens;
  double waited = 0;  ///< from its arrival until it joined the batch
  double took = 0;    ///< from its arrival to its end
};

struct Outcome {
  std::vector<Served> texts;
  double seconds = 0;
  Index target_calls = 0, fed = 0;

  Index tokens() const {
    Index sum = 0;
    for (const Served& text : texts) sum += std::ssize(text.tokens);
    return sum;
  }
};

/// Sets the arrivals to a Poisson process of `rate` requests a second, which depends on the seed only. At rate 0 all
/// requests arrive at once.
inline void let_arrive(std::vector<Request>& requests, double rate, std::uint64_t seed) {
  Generator generator(seed);
  double now = 0;
  for (Request& request : requests) {
    if (rate > 0) now -= std::log1p(-specdec::uniform01(generator)) / rate;
    request.arrives = now;
  }
}

/// The generator of text number `number`. A program that writes this text alone uses this generator, too.
inline Generator generator_of(std::uint64_t seed, Index number) {
  return Generator(seed + static_cast<std::uint64_t>(number));
}

/// Makes a batch model create the contexts of `sequences` sequences, before requests wait for them.
template <class Model>
void make_contexts(Model& model, Index sequences) {
  const Tokens token{0};
  std::vector<specdec::BatchFeed> feeds;
  for (Index i = 0; i < sequences; ++i) feeds.push_back({{.tokens = token}, i});
  model.forward(feeds);
  for (const specdec::BatchFeed& feed : feeds) model.release(feed.sequence);
}

/// Writes all texts, up to `most` at a time, each with its own generator.
/// Throws: the error of the first text that failed.
template <class Batch, class Executor>
Outcome run(Batch& batch, std::span<const Request> requests, Index most, const specdec::Options& options,
            std::uint64_t seed, Executor& for_each) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  Outcome outcome;
  outcome.texts.resize(requests.size());
  const auto start = Clock::now();
  const auto now = [&] { return Seconds(Clock::now() - start).count(); };
  for (std::size_t next = 0; next < requests.size() || !batch.empty();) {
    if (batch.empty())
      std::this_thread::sleep_until(
          start + std::chrono::duration_cast<Clock::duration>(Seconds(requests[next].arrives)));
    for (; next < requests.size() && batch.size() < most && requests[next].arrives <= now(); ++next) {
      batch.add(requests[next].prompt, options, generator_of(seed, static_cast<Index>(next)));
      outcome.texts[next].waited = now() - requests[next].arrives;
    }
    for (const specdec::Finished& finished : batch.step(for_each)) {
      if (finished.error) std::rethrow_exception(finished.error);
      const auto number = static_cast<std::size_t>(finished.sequence);  // texts were added in this order
      outcome.texts[number].tokens = finished.result.tokens;
      outcome.texts[number].took = now() - requests[number].arrives;
    }
  }
  outcome.seconds = now();
  outcome.target_calls = batch.target_calls();
  outcome.fed = batch.fed();
  return outcome;
}

}  // namespace serve
