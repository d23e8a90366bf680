// Verifies what an inference engine has in memory, without a copy: one pointer to float logits for each row, 64-bit token
// ids, and the user's temperature, top-k and top-p.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

namespace {

using specdec::Index;

// Stands for an engine: the logits of the target, and logits of the draft model, which resemble them.
struct Engine {
  static constexpr Index vocab_size = 32'000, gamma = 4;
  std::vector<std::vector<float>> draft, target;

  explicit Engine(std::mt19937_64& rng) {
    // No distribution of <random>, because each standard library draws other numbers from it.
    const auto noise = [&rng] { return static_cast<float>(-std::log1p(-specdec::uniform01(rng))); };
    for (Index i = 0; i <= gamma; ++i) {
      std::vector<float> logits(vocab_size), other(vocab_size);
      for (float& l : logits) l = 3 * noise();
      for (std::size_t x = 0; x < logits.size(); ++x) other[x] = logits[x] + 2 * noise();
      draft.push_back(std::move(other));
      target.push_back(std::move(logits));
    }
    draft.pop_back();
  }
};

std::vector<const float*> pointers(const std::vector<std::vector<float>>& rows) {
  std::vector<const float*> out;
  for (const auto& row : rows) out.push_back(row.data());
  return out;
}

// The probabilities that the logits are sampled with, one pointer a row. Draft and target use this one function, because q
// must be the distribution that the drafted tokens were drawn from.
auto sampled(const std::vector<const float*>& logits, specdec::Index vocab_size) {
  const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopK{50}, specdec::TopP{0.95}};
  return specdec::ProcessedRows{specdec::RowPointers<float>{logits, vocab_size}, chain};
}

}  // namespace

int main() {
  std::mt19937_64 rng{6};
  const Engine engine(rng);
  const auto target = pointers(engine.target), draft = pointers(engine.draft);

  const auto p = sampled(target, Engine::vocab_size), q = sampled(draft, Engine::vocab_size);

  std::vector<std::int64_t> tokens;
  specdec::RandomChance chance{rng};
  for (Index i = 0; i < Engine::gamma; ++i) tokens.push_back(chance.draw(q.row(i)));

  specdec::BlockVerifier verifier;
  const specdec::Verdict verdict = verifier(p, q, tokens, rng);
  std::cout << verdict.accepted << " of " << tokens.size() << " accepted, then token " << verdict.token
            << "\n";
}
