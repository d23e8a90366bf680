// Shows an engine that calls its model itself, and texts with a penalty and a grammar: the library processes the engine's
// logits; or it tells the engine which tokens the grammar allows, and the engine masks.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <random>
#include <span>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// Stands for the engine, and for the model that drafts: x + 1 is the likeliest token after x.
class Counter {
 public:
  Index vocab_size() const { return 10; }
  // Returns the logits after each of the last `rows` tokens. A row depends on its last token only, so there is no KV cache.
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index rows) {
    logits_.resize(rows, 10);
    for (Index i = 0; i < rows; ++i)
      for (Token x = 0; x < 10; ++x)
        logits_(i, x) =
            -static_cast<float>((x - tokens.last(static_cast<std::size_t>(rows - i))[0] + 9) % 10);
    return logits_;
  }
  void truncate(Index) {}

 private:
  Eigen::MatrixXf logits_;
};

// A grammar: two odd digits, two even digits, and so on.
class Pairs {
 public:
  void allow(std::span<std::uint32_t> mask) const {
    mask[0] |= length_ / 2 % 2 == 0 ? 0b1010101010 : 0b0101010101;
  }
  bool advance(Token x) {
    if (x % 2 == length_ / 2 % 2) return false;
    ++length_;
    return true;
  }
  void rollback(Index n) { length_ -= n; }

 private:
  Index length_ = 0;
};

int main() {
  const std::vector<Token> prompt{0};
  const specdec::Options options{.max_new_tokens = 60, .gamma = 6};
  const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopP{0.95}};
  const specdec::AfterPrompt grammar{prompt.size(), specdec::Grammar{Pairs{}}};
  const specdec::Processors processors{specdec::FrequencyPenalty{0.5, 5}, grammar};
  specdec::ModelDrafter drafter{specdec::ProcessedModel{Counter{}, chain}};  // no penalty, no grammar

  // The engine hands in its logits.
  Counter engine;
  specdec::SpecDec decoder{
      specdec::ProcessedModel{specdec::ExternalTarget{.vocabulary = 10}, chain, processors}, drafter};
  std::mt19937_64 rng{1};
  auto sequence = decoder.start(prompt, options);
  while (!sequence.done()) {
    const specdec::Feed feed = sequence.propose(rng);
    const Eigen::MatrixXf& logits = engine.forward(feed.tokens, feed.rows);
    for (const Token x : sequence.accept(logits, rng)) std::cout << x;
  }

  std::mt19937_64 again{1};
  specdec::SpecDec called{specdec::ProcessedModel{Counter{}, chain, processors}, drafter};
  const bool same = std::ranges::equal(called.generate(prompt, options, again).tokens, sequence.tokens());
  std::cout << "\nthe text of the model itself: " << (same ? "yes" : "no") << "\n";

  // The engine masks its logits, on its device, say, and leaves out the rows that the grammar has cut off.
  specdec::FeedMasks masks{grammar, 10};
  specdec::SpecDec masked{specdec::ProcessedModel{specdec::ExternalTarget{.vocabulary = 10}, chain}, drafter};
  auto text = masked.start(prompt, options);
  Index wanted = 0, left_out = 0;
  while (!text.done()) {
    const specdec::Feed feed = text.propose(rng);
    const auto bits = masks(text.context(), feed);  // while the engine's call is out
    Eigen::MatrixXf logits = engine.forward(feed.tokens, feed.rows);
    for (Index i = 0; i < feed.rows; ++i) {
      const std::uint32_t mask = bits[static_cast<std::size_t>(i * masks.words())];
      for (Token x = 0; x < 10; ++x)
        if ((mask >> x & 1) == 0) logits(i, x) = -std::numeric_limits<float>::infinity();
      if (mask == 0) ++left_out;
    }
    wanted += feed.rows;
    text.accept(logits, rng);
  }
  for (const Token x : text.tokens()) std::cout << x;
  std::cout << "\n" << left_out << " of " << wanted << " rows need not be computed\n";
}
