// Drafts while the target verifies: the drafter on one core, the target on the other. Beside it one core, and both without that.
//
//   draft_ahead 150 3     texts of 150 tokens, three rounds; without arguments 20 and 1: one look
//
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
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

const specdec::Temperature temperature{0.8};

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

// Processor time of this thread: a clock would measure the machine's other work, too.
double now() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double seconds_of(const auto& work) {
  const double start = now();
  work();
  return now() - start;
}

// How long it took, were the cores free, and how often a draft was there.
struct Run {
  double seconds = 0;
  Index tokens = 0, hits = 0, drafts = 0;
};

struct Texts {
  std::span<const Tokens> prompts;
  Index tokens;           // of each text
  std::size_t at_a_time;  // how many are written together
};

// Writes texts. With `other` the target's calls run there, and drafts are made meanwhile.
template <class Drafter>
Run write(Model& target, Drafter drafter, Texts texts, OtherCore* other) {
  auto& [prompts, tokens, at_a_time] = texts;
  Run run;
  for (; !prompts.empty(); prompts = prompts.subspan(std::min(at_a_time, prompts.size()))) {
    specdec::Batch batch{
        specdec::ProcessedModel{specdec::ExternalTarget{target.vocab_size(), target.context_size()},
                                temperature},
        drafter};
    for (const Tokens& prompt : prompts.first(std::min(at_a_time, prompts.size())))
      batch.add(prompt, {.max_new_tokens = tokens, .gamma = 4}, std::mt19937_64{prompt.size()});
    while (!batch.empty()) {
      std::span<const specdec::BatchFeed> feeds;
      run.seconds += seconds_of([&] { feeds = batch.propose(); });
      for (const specdec::BatchFeed& feed : feeds) target.keep(feed.sequence, feed.from);
      std::optional<Model::Logits> logits;
      double called = 0, ahead = 0;
      const auto call = [&] { called = seconds_of([&] { logits.emplace(target.forward(feeds)); }); };
      if (other == nullptr) {
        call();
      } else if constexpr (requires { drafter.hits(); }) {
        other->begin(call);
        ahead = seconds_of([&] { batch.draft_ahead(); });  // while the call is out
        other->end();
      }
      run.seconds += std::max(called, ahead);
      run.seconds += seconds_of([&] {
        for (const specdec::Finished& done : batch.accept(*logits)) {
          run.tokens += std::ssize(done.result.tokens);
          target.release(done.sequence);
        }
      });
    }
  }
  if constexpr (requires { drafter.hits(); }) run.hits = drafter.hits(), run.drafts = drafter.drafts();
  return run;
}

int main(int count, char** arguments) {
  const Index tokens = count > 1 ? std::atoll(arguments[1]) : 20;
  const int rounds = count > 2 ? std::atoi(arguments[2]) : 1;
  if (tokens < 1 || rounds < 1) {
    std::cerr << "draft_ahead: wanted are two positive numbers, of tokens and of rounds\n";
    return 2;
  }
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Model target(weights + "target.bin"), small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 8 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));
  const std::span<const Tokens> all = prompts, half = all.first(4), rest = all.subspan(4);

  OtherCore other;
  const auto drafter = [&] {
    return specdec::ModelDrafter{specdec::ProcessedModel{Model(small), temperature}};
  };
  const auto speed = [](const Run& run) { return static_cast<double>(run.tokens) / run.seconds; };
  const auto median = [](std::vector<double> ratios) {
    std::ranges::sort(ratios);
    return ratios[ratios.size() / 2];
  };
  std::cout << std::fixed << std::setprecision(2)
            << "texts at a time, outcomes: hits, speed against one core, against two cores without drafts in "
               "advance\n";
  for (const std::size_t at_a_time : {std::size_t{1}, std::size_t{8}})
    for (const Index outcomes : {1, 3, 8}) {
      std::vector<double> one, two;
      Run ahead;
      const auto of = [&](std::span<const Tokens> some) { return Texts{some, tokens, at_a_time}; };
      for (int round = 0; round < rounds; ++round) {
        ahead = write(target, specdec::AheadDrafter{drafter(), outcomes}, of(all), &other);
        one.push_back(speed(ahead) / speed(write(target, drafter(), of(all), nullptr)));
        // Each core has half of the texts, with a target and a drafter of its own.
        Model twin = target;  // shares the weights
        Run of_other;
        other.begin([&] { of_other = write(twin, drafter(), of(rest), nullptr); });
        const double here = speed(write(target, drafter(), of(half), nullptr));
        other.end();
        two.push_back(speed(ahead) / (here + speed(of_other)));
      }
      std::cout << at_a_time << std::setw(3) << outcomes << ": "
                << static_cast<double>(ahead.hits) / static_cast<double>(ahead.drafts) << ", " << median(one)
                << ", " << median(two) << '\n';
    }
}
