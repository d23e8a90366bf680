// Drafts and verifies for an engine that has its own scheduler: the engine decides when a request comes, waits and goes, calls
// its model once a round for all requests, and owns the KV cache.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::NgramModel, specdec::Token;
using Tokens = std::vector<Token>;

// The tokens of this example are letters.
constexpr std::string_view rhyme =
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";
Tokens letters(std::string_view text) { return {text.begin(), text.end()}; }

// Stands for the engine: a model, and a slot of the KV cache for each running request.
class Engine {
 public:
  using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  explicit Engine(const NgramModel& model) : model_(model) {}

  bool full() const { return slots_.size() == 3; }
  void open(Index request) { slots_.emplace(request, model_); }
  void close(Index request) { slots_.erase(request); }

  // One call: appends the tokens of each feed to its slot. Returns the rows that the feeds want, feed after feed.
  Rows call(std::span<const specdec::BatchFeed> feeds) {
    Rows rows(0, model_.vocab_size());
    for (const specdec::BatchFeed& feed : feeds) {
      const auto all = slots_.at(feed.sequence).forward(feed.tokens, std::ssize(feed.tokens));
      rows.conservativeResize(rows.rows() + feed.rows, Eigen::NoChange);
      rows.bottomRows(feed.rows) = all.bottomRows(feed.rows);  // a part of a long prompt wants no rows
    }
    return rows;
  }

  // The rollback: each slot keeps at most the tokens that `kept` allows.
  void cut(const auto& kept) {
    for (auto& [request, slot] : slots_) slot.truncate(kept(request));
  }

 private:
  NgramModel model_;
  std::map<Index, NgramModel> slots_;
};

struct Request {
  int round;  // it arrives before this round
  std::string_view prompt;
  specdec::Options options;
  unsigned seed;
};

int main() {
  auto large = NgramModel::train(letters(rhyme), {.order = 8, .vocab_size = 128}),
       small = large.with_order(3);
  const std::vector<Request> requests{
      {0, "This is the", {.max_new_tokens = 60, .gamma = 6}, 4},  // paused before round 3
      {0, "the rat", {.max_new_tokens = 200, .gamma = 4, .stop_tokens = {'.'}}, 5},
      {0, "that Jack built. This", {.max_new_tokens = 200, .gamma = 3}, 6},  // cancelled before round 6
      {0, "the cat", {.max_new_tokens = 40, .gamma = 0}, 7},                 // no drafts; waits for a slot
      {9, "in the house", {.max_new_tokens = 50, .gamma = 5}, 8},            // comes late
  };
  std::vector<Tokens> texts(requests.size());

  Engine engine{large};
  specdec::Batch batch{specdec::ExternalTarget{.vocabulary = large.vocab_size()},
                       specdec::ModelDrafter{specdec::ModelPerSequence{small}}, specdec::BlockVerifier{},
                       specdec::BatchOptions{.tokens_per_call = 24}};
  std::optional<decltype(batch)::Paused> paused;
  auto next = requests.begin();
  for (int round = 0; next != requests.end() || !batch.empty() || paused; ++round) {
    // Between rounds the scheduler adds, pauses and cancels requests. The batch numbers them in the order of add().
    if (round == 3) {
      paused = batch.pause(0);
      engine.close(0);  // its slot is for others
    }
    if (paused && round >= 8 && !engine.full()) {
      engine.open(batch.add(*std::move(paused)));  // under its own number; the engine is fed its text again
      paused.reset();
    }
    for (; next != requests.end() && next->round <= round && !engine.full(); ++next)
      engine.open(batch.add(letters(next->prompt), next->options, std::mt19937_64{next->seed}));
    if (round == 6) {
      texts[2] = batch.cancel(2).tokens;
      engine.close(2);
    }

    const auto rows = engine.call(batch.propose());
    for (const specdec::Finished& done : batch.accept(rows)) {
      texts[static_cast<std::size_t>(done.sequence)] = done.result.tokens;
      engine.close(done.sequence);
    }
    engine.cut([&](Index request) { return batch.sequence(request).kept(); });
  }

  // Each text must be what its request gets alone. The cancelled text is the beginning of that.
  Index tokens = 0, different = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    specdec::SpecDec decoder{large, specdec::ModelDrafter{small}};
    std::mt19937_64 rng{requests[i].seed};
    Tokens alone = decoder.generate(letters(requests[i].prompt), requests[i].options, rng).tokens;
    if (i == 2) alone.resize(std::min(alone.size(), texts[i].size()));
    if (texts[i] != alone) ++different;
    tokens += std::ssize(texts[i]);
    std::cout << requests[i].prompt << '|';
    for (const Token x : texts[i]) std::cout << static_cast<char>(x);
    std::cout << '\n';
  }
  std::cout << static_cast<double>(tokens) / static_cast<double>(batch.target_calls())
            << " tokens per call; texts that are not what they are alone: " << different << '\n';
  return different == 0 ? 0 : 1;
}
