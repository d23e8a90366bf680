// Shows verification inside an engine whose sampler chain leaves lists of candidates, as in llama.cpp: draft, one target call,
// verify, cut the caches, and audit the draft.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <iostream>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/more/rows.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token;

struct Candidate {
  std::int32_t id;
  float logit, p;
};
using Candidates = std::vector<Candidate>;

// Stands for the engine: a model over 100 tokens with a KV cache, and a sampler chain of top-k 20 and temperature 0.8.
class Engine {
 public:
  explicit Engine(float noise) : noise_(noise) {}

  // Feeds tokens. Returns the candidates after each of them, the likeliest first.
  std::vector<Candidates> decode(std::span<const Token> tokens) {
    std::vector<Candidates> all;
    for (const Token x : tokens) all.push_back(chain(x));
    cached_ += std::ssize(tokens);
    return all;
  }
  void cut(Index length) { cached_ = std::min(cached_, length); }  // the rollback of the KV cache
  Index cached() const { return cached_; }

 private:
  Candidates chain(Token last) const {
    Candidates list(100);
    for (Token x = 0; x < 100; ++x) {
      const auto n = static_cast<float>(7 * (x + 1) * (last + 3));
      list[static_cast<std::size_t>(x)] = {x, 4 * std::sin(n) + noise_ * std::cos(3 * n), 0};
    }
    std::ranges::sort(list, std::greater{}, &Candidate::logit);
    list.resize(20);
    float sum = 0;
    for (Candidate& c : list) sum += c.p = std::exp((c.logit - list[0].logit) / 0.8f);
    for (Candidate& c : list) c.p /= sum;  // renormalised after the cut: a row must sum to 1
    return list;
  }

  float noise_;
  Index cached_ = 0;
};

// The candidates as rows: no copy, in any order.
auto rows(const std::vector<Candidates>& lists) {
  return specdec::ListRows{lists, &Candidate::id, &Candidate::p, 100};
}

int main() {
  Engine target{0}, small{1};
  specdec::BlockVerifier verifier;
  specdec::testing::DraftAudit audit;
  specdec::Philox rng{42};  // the request's seed; rng.offset() is all of its state
  specdec::RandomChance chance{rng};
  std::vector<Token> text{0};
  Index calls = 0;

  while (text.size() < 2000) {
    // Draft: draw each token from the very candidates that the verifier is shown.
    std::vector<Candidates> q;
    std::vector<Token> draft, next(text.begin() + small.cached(), text.end());
    for (Index i = 0; i < 4; ++i) {
      q.push_back(small.decode(next).back());
      draft.push_back(chance.draw(rows(q).row(i)));
      next = {draft.back()};
    }
    audit.add(rows(q), draft);

    // One target call over the last token and the draft: a row after each.
    std::vector<Token> fed{text.back()};
    fed.insert(fed.end(), draft.begin(), draft.end());
    const std::vector<Candidates> p = target.decode(fed);
    ++calls;

    // Verify, emit, and cut both caches to the tokens that are text, without the last one.
    const specdec::Verdict verdict = verifier(rows(p), rows(q), draft, rng);
    text.insert(text.end(), draft.begin(), draft.begin() + verdict.accepted);
    text.push_back(verdict.token);
    target.cut(std::ssize(text) - 1);
    small.cut(std::ssize(text) - 1);
  }
  std::cout << static_cast<double>(text.size() - 1) / static_cast<double>(calls)
            << " tokens per target call\n"
            << (audit.report().acquitted() ? "the draft was drawn from its rows\n"
                                           : "the draft is dishonest\n");
}
