// Drafts while the target verifies: the drafter on one core, the target on the other. Beside it the same two cores without that.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <optional>
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
  double seconds_per_token() const { return seconds / static_cast<double>(tokens); }
};

// Writes texts after these prompts together. With `other` the target's calls run there, and drafts are made meanwhile.
template <class Drafter>
Run write(Model& target, Drafter drafter, std::span<const Tokens> prompts, double temperature,
          OtherCore* other) {
  specdec::Batch batch{
      specdec::ProcessedModel{specdec::ExternalTarget{target.vocab_size(), target.context_size()},
                              specdec::Temperature{temperature}},
      drafter};
  for (std::size_t i = 0; i < prompts.size(); ++i)
    batch.add(prompts[i], {.max_new_tokens = 150, .gamma = 4}, std::mt19937_64{i});
  Run run;
  const auto start = std::chrono::steady_clock::now();
  while (!batch.empty()) {
    const std::span<const specdec::BatchFeed> feeds = batch.propose();
    for (const specdec::BatchFeed& feed : feeds) target.keep(feed.sequence, feed.from);
    std::optional<Model::Logits> logits;
    const auto call = [&] { logits.emplace(target.forward(feeds)); };
    if (other == nullptr) {
      call();
    } else if constexpr (requires { drafter.hits(); }) {
      other->begin(call);
      batch.draft_ahead();  // while the call is out
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

// Without drafts in advance: each core has half of the texts, with a target and a drafter of its own.
template <class DrafterOf>
double on_two_cores(const Model& target, const DrafterOf& drafter, std::span<const Tokens> prompts,
                    double temperature, OtherCore& other) {
  Model one = target, two = target;  // they share the weights
  const auto half = prompts.size() / 2;
  const auto start = std::chrono::steady_clock::now();
  other.begin([&] { write(two, drafter(), prompts.subspan(half), temperature, nullptr); });
  write(one, drafter(), prompts.first(half), temperature, nullptr);
  other.end();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Model target(weights + "target.bin"), small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 8 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));

  OtherCore other;
  const auto drafter = [&](double temperature) {
    return specdec::ModelDrafter{specdec::ProcessedModel{Model(small), specdec::Temperature{temperature}}};
  };
  const auto median = [](std::vector<double> ratios) {
    std::ranges::sort(ratios);
    return ratios[ratios.size() / 2];
  };
  std::cout << "texts  T  outcomes  hits  speed against one core, against both\n"
            << std::fixed << std::setprecision(2);
  for (const std::size_t texts : {std::size_t{1}, std::size_t{8}})
    for (const double temperature : {0.8, 0.3})
      for (const Index outcomes : {2, 8}) {
        const std::span<const Tokens> some = std::span(prompts).first(texts);
        std::vector<double> one_core, two_cores;
        Run ahead;
        for (int round = 0; round < 5; ++round) {
          const Run plain = write(target, drafter(temperature), some, temperature, nullptr);
          ahead =
              write(target, specdec::AheadDrafter{drafter(temperature), outcomes}, some, temperature, &other);
          one_core.push_back(plain.seconds_per_token() / ahead.seconds_per_token());
          const double both = on_two_cores(
              target, [&] { return drafter(temperature); }, some, temperature, other);
          two_cores.push_back(both / static_cast<double>(plain.tokens) / ahead.seconds_per_token());
        }
        std::cout << std::setw(5) << texts << std::setw(6) << temperature << std::setw(7) << outcomes
                  << std::setw(9) << static_cast<double>(ahead.hits) / static_cast<double>(ahead.drafts)
                  << "  time (ms) " << median(one_core);
        if (texts > 1) std::cout << ", " << median(two_cores);
        std::cout << '\n';
      }
}
