// Draft lengths that measure time, on a machine with neighbours, by a simulated clock: another program on the sibling core slows
// calls in bursts, and single calls are stalled. Steps are no slower than without drafts, and about as fast as with the best
// fixed length. Costs are those of examples/apps/generate on an AMD Zen 3 core (AVX2), in microseconds.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/chance/random.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"

namespace test_law_neighbours {

using namespace specdec;

namespace {

constexpr Index texts = 20, size = 200, most = 16;

// A target call over 1..8 tokens, and a drafted token.
struct Costs {
  std::array<double, 8> calls;
  double token;

  double call(Index fed) const {
    const double beyond = std::max(0.0, static_cast<double>(fed) - 8);
    return calls[static_cast<std::size_t>(std::min<Index>(fed, 8)) - 1] + beyond * (calls[7] - calls[5]) / 2;
  }
};
struct Machine {
  const char* name;
  Costs quiet, shared;  // with the sibling core idle, and busy
};
// How long the sibling core is idle and busy in turn, in microseconds on the mean, and how often a call is stalled.
struct Neighbour {
  const char* name;
  double idle, busy, stalls;
};

class Clock {
 public:
  Clock(const Machine& machine, const Neighbour& neighbour, std::uint64_t seed)
      : machine_(machine), neighbour_(neighbour), switches_(seed), noise_(seed + 1) {
    busy_ = neighbour_.idle == 0;
    until_ = busy_ || neighbour_.busy == 0 ? 1e300 : lasts();
  }

  double now() const { return now_; }
  bool busy() const { return busy_; }
  const Costs& costs() const { return busy_ ? machine_.shared : machine_.quiet; }

  std::chrono::nanoseconds spend(double microseconds) {
    const double stall = uniform01(noise_) < neighbour_.stalls ? 1.5 + 6 * uniform01(noise_) : 1;
    const double time = microseconds * stall * (0.97 + 0.06 * uniform01(noise_));
    now_ += time;
    while (now_ > until_) {
      busy_ = !busy_;
      until_ += lasts();
    }
    return std::chrono::nanoseconds(std::llround(1000 * time));
  }

 private:
  double lasts() { return -std::log(1 - uniform01(switches_)) * (busy_ ? neighbour_.busy : neighbour_.idle); }

  Machine machine_;
  Neighbour neighbour_;
  std::mt19937_64 switches_, noise_;
  bool busy_ = false;
  double now_ = 0, until_ = 0;
};

// A drafter that is sure of easy tokens and not of hard ones. Token verification: the ratio p/q of a token is its chance.
struct Drafts {
  std::mt19937_64 rng;
  bool easy = true;
  std::vector<double> survival, readings;
  Index accepted = 0;

  template <class Length>
  void draft(const Length& length, Index asked) {
    survival.clear();
    readings.clear();
    accepted = 0;
    double reached = 1;
    bool more = asked > 0, survives = true;
    while (more) {
      const bool certain = uniform01(rng) < (easy ? 0.76 : 0.26);
      const double ratio = certain ? 1 : easy ? 0.3 : 0.2;
      survives = survives && uniform01(rng) < ratio;
      accepted += survives;
      survival.push_back(reached *= ratio);
      readings.push_back(easy ? 0.9 : 0.35);
      more = std::ssize(survival) < asked;
      if constexpr (requires { length.more({.readings = readings}); })
        more = more && length.more({.readings = readings}).level;
      if (uniform01(rng) > 0.75) easy = !easy;
    }
  }
};

// Drafts by whether the sibling core is busy, which no length can know.
struct ByState {
  Index idle, busy;
  const Clock* clock = nullptr;

  Index next(Index limit) const { return std::min(clock->busy() ? busy : idle, limit); }
  void observe(const StepRecord&) const {}
};

// Tokens a microsecond of texts that are written one after another.
template <class Length>
double speed(Length length, const Machine& machine, const Neighbour& neighbour, std::uint64_t seed) {
  Clock clock(machine, neighbour, seed);
  Drafts drafts;
  drafts.rng.seed(seed + 2);
  if constexpr (requires { length.clock; }) length.clock = &clock;
  double all = 0;
  for (Index text = 0; text < texts; ++text) {
    Index written = 0, prompt = 9;
    double unread = 10;  // tokens that the draft model must read first; it reads several in a call
    while (written < size) {
      const Index asked = length.next(std::min(most, size - written - 1));
      drafts.draft(length, asked);
      const Index drafted = std::ssize(drafts.survival);
      StepRecord step{.asked = asked,
                      .drafted = drafted,
                      .accepted = drafts.accepted,
                      .fed = drafted + 1 + std::exchange(prompt, 0),
                      .survival = drafts.survival,
                      .readings = drafts.readings};
      if (asked > 0)
        step.draft_time = clock.spend(clock.costs().token * (static_cast<double>(drafted) + 0.15 * unread));
      step.target_time = clock.spend(clock.costs().call(step.fed));
      unread = asked > 0 ? 0 : unread + 1;
      written += drafts.accepted + 1;
      length.observe(step);
    }
    all += static_cast<double>(written);
  }
  return all / clock.now();
}

// Over the speed without drafts, beside the same neighbour, on the mean.
template <class Length>
double gain(const Length& length, const Machine& machine, const Neighbour& neighbour) {
  constexpr int runs = 16;
  double sum = 0;
  for (std::uint64_t seed = 0; seed < runs; ++seed)
    sum += speed(length, machine, neighbour, 10 * seed) / speed(ByState{0, 0}, machine, neighbour, 10 * seed);
  return sum / runs;
}

// The best fixed length, and its gain.
std::pair<Index, double> best_fixed(const Machine& machine, const Neighbour& neighbour) {
  std::pair<Index, double> best{0, 1.0};
  for (Index gamma = 1; gamma <= 5; ++gamma)
    if (const double its = gain(ByState{gamma, gamma}, machine, neighbour); its > best.second)
      best = {gamma, its};
  return best;
}

const Neighbour none{"nobody", 1, 0, 0.003}, always{"one who never rests", 0, 1, 0.003};
const std::vector<Neighbour> neighbours{none,
                                        always,
                                        {"short bursts", 5e3, 5e3, 0.003},
                                        {"longer bursts", 5e4, 5e4, 0.003},
                                        {"rare bursts, many stalls", 1e5, 5e3, 0.02},
                                        {"short pauses", 5e3, 4e4, 0.01}};

const std::vector<Machine> machines{
    {"floats",
     {{276, 280, 304, 375, 404, 588, 714, 777}, 22},
     {{340, 430, 480, 640, 700, 1000, 1210, 1330}, 30}},
    {"halves",
     {{149, 188, 248, 318, 380, 478, 587, 655}, 15},
     {{190, 300, 343, 536, 565, 670, 910, 1095}, 20}},
    {"wide registers",
     {{100, 101, 103, 107, 110, 115, 120, 126}, 4},
     {{150, 155, 160, 170, 175, 190, 200, 215}, 6}},
    {"drafts never pay",
     {{139, 231, 285, 388, 482, 590, 700, 800}, 17},
     {{210, 360, 430, 600, 740, 900, 1050, 1200}, 25}},
};

void check(const Machine& machine, const Neighbour& neighbour) {
  const auto [gamma, best] = best_fixed(machine, neighbour);
  const ByState knowing{best_fixed(machine, none).first, best_fixed(machine, always).first};
  const double by_cost = gain(CostOptimalLength{}, machine, neighbour),
               early = gain(EarlyStoppingLength{}, machine, neighbour);
  INFO(machine.name << " beside " << neighbour.name << ": best fixed " << gamma << ' ' << best
                    << ", knowing the neighbour " << gain(knowing, machine, neighbour) << ", auto " << by_cost
                    << ", early " << early);
  CHECK(by_cost > 0.98);
  CHECK(early > 0.98);
  CHECK(by_cost > 0.95 * best);
  CHECK(early > 0.94 * best);
}

}  // namespace

TEST_CASE(
    "alone on a machine drafts whose length is measured are no slower than no drafts, and near the best") {
  check(machines[0], none);
}

TEST_CASE("beside neighbours drafts whose length is measured are no slower than no drafts, and near the best",
          "[long]") {
  for (const Machine& machine : machines)
    for (const Neighbour& neighbour : neighbours) check(machine, neighbour);
}

}  // namespace test_law_neighbours
