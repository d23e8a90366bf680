// Drafts while the target verifies: the drafter on one core, the target on the other. Beside it the same two cores without that.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transformer/batch.hpp"
#include "transformer/tokenizer.hpp"

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;
using Model = transformer::TransformerBatch<float>;

// Runs the target's calls on another core.
class OtherCore {
 public:
  OtherCore() : thread_([this] { serve(); }) {}
  OtherCore(const OtherCore&) = delete;
  OtherCore& operator=(const OtherCore&) = delete;
  ~OtherCore() {
    stops_ = true;
    thread_.join();
  }
  void begin(std::function<void()> call) {
    call_ = std::move(call);
    busy_ = true;
  }
  void end() const {
    while (busy_) std::this_thread::yield();
  }

 private:
  void serve() {
    while (!stops_) {
      if (!busy_) std::this_thread::yield();
      else call_(), busy_ = false;
    }
  }
  std::function<void()> call_;
  std::atomic<bool> busy_ = false, stops_ = false;
  std::thread thread_;
};

struct Run {
  double seconds = 0;
  Index tokens = 0, hits = 0, drafts = 0;
};

// Writes texts after these prompts together.
template <class Drafter>
Run write(Model& target, Drafter drafter, std::span<const Tokens> prompts, Index gamma, OtherCore* other) {
  const specdec::Temperature temperature{1.0};
  specdec::Batch batch{
      specdec::ProcessedModel{specdec::ExternalTarget{target.vocab_size(), target.context_size()}, temperature},
      drafter};
  for (std::size_t i = 0; i < prompts.size(); ++i)
    batch.add(prompts[i], {.max_new_tokens = 150, .gamma = gamma}, std::mt19937_64{i});
  Run run;
  const auto start = std::chrono::steady_clock::now();
  while (!batch.empty()) {
    const std::span<const specdec::BatchFeed> feeds = batch.propose();
    for (const specdec::BatchFeed& feed : feeds) target.keep(feed.sequence, feed.from);
    std::optional<Model::Logits> logits;
    if (other == nullptr) {
      logits.emplace(target.forward(feeds));
    } else {
      other->begin([&] { logits.emplace(target.forward(feeds)); });
      if constexpr (requires { batch.draft_ahead(); }) batch.draft_ahead();
      other->end();
    }
    for (const specdec::Finished& done : batch.accept(*logits)) {
      run.tokens += std::ssize(done.result.tokens);
      target.release(done.sequence);
    }
  }
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if constexpr (requires { drafter.hits(); }) run.hits = drafter.hits(), run.drafts = drafter.drafts();
  return run;
}
int main() {}
