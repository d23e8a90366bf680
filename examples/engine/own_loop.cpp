// Shows a loop of your own: the engine calls its model itself, and the library drafts before the call and verifies after it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <iostream>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

// Stands for the engine, and for the small model that drafts: x + 1 is the likeliest token after x.
class Counter {
 public:
  explicit Counter(double sharpness) : sharpness_(sharpness) {}

  specdec::Index vocab_size() const { return 10; }

  // Returns a row for each of the last `rows` tokens. A row depends on its last token only, so there is no KV cache.
  Eigen::MatrixXd forward(std::span<const specdec::Token> tokens, specdec::Index rows) const {
    Eigen::MatrixXd p(rows, 10);
    tokens = tokens.last(static_cast<std::size_t>(rows));
    for (specdec::Index i = 0; i < rows; ++i)
      for (specdec::Token x = 0; x < 10; ++x)
        p(i, x) = std::exp(-sharpness_ * ((x - tokens[static_cast<std::size_t>(i)] + 9) % 10));
    return p.array().colwise() / p.rowwise().sum().array();
  }
  void truncate(specdec::Index) {}

 private:
  double sharpness_;
};

int main() {
  Counter engine{1.5};
  specdec::SpecDec decoder{specdec::ExternalTarget{.vocabulary = 10}, specdec::ModelDrafter{Counter{1.0}}};
  std::mt19937_64 rng{1};

  auto sequence = decoder.start(std::vector<specdec::Token>{0}, {.max_new_tokens = 60, .gamma = 6});
  while (!sequence.done()) {
    const specdec::Feed feed = sequence.propose(rng);
    engine.truncate(feed.from);  // roll the KV cache back to this length
    const Eigen::MatrixXd rows = engine.forward(feed.tokens, feed.rows);  // one call may serve many sequences
    for (const specdec::Token x : sequence.accept(rows, rng)) std::cout << x;
  }
  std::cout << "\n" << sequence.stats().block_efficiency() << " tokens per call of the engine\n";

  // An engine that also judges the drafts, in a kernel of its own, hands in its verdicts.
  std::mt19937_64 again{1};
  auto settled = decoder.start(std::vector<specdec::Token>{0}, {.max_new_tokens = 60, .gamma = 6});
  while (!settled.done()) {
    const specdec::Feed feed = settled.propose(again);
    const auto& draft = settled.draft();  // its tokens, and the rows that they were drawn from
    const Eigen::MatrixXd rows = engine.forward(feed.tokens, feed.rows);
    const specdec::Verdict verdict = specdec::BlockVerifier{}(rows, draft.rows, draft.tokens, again);
    settled.settle(verdict);
  }
  const bool same = std::ranges::equal(settled.tokens(), sequence.tokens());
  std::cout << "the same text by verdicts: " << (same ? "yes" : "no") << "\n";
}
