// The cost law of the race: one round is expected at every position, for all models.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"

namespace law_rounds {

using namespace specdec;
using namespace specdec::testing;

namespace {

// Enumerates. For the race at each position it adds up the expected rounds, 1/(S + 1 − w), times the probability that
// the race is run at all. Positions come in the order γ, γ−1, ...
struct CountingRounds : Enumerator {
  std::vector<double> rounds;  // in the order of the races in this run

  template <Distribution P, Distribution Q>
  std::optional<Token> race(double w, const P& p, const Q& q) {
    const double mass = residual_mass(w, p, 1.0, q, 0, p.vocab_size()), end = mass + std::max(0.0, 1 - w);
    rounds.push_back(end > 0 ? 1 / end : 0.0);
    return Enumerator::race(w, p, q);
  }

  template <Distribution P>
  std::optional<Token> race(double w, const P& p) {
    rounds.push_back(1.0);
    return Enumerator::race(w, p);
  }
};

}  // namespace

TEST_CASE("block verification takes one expected round at every position", "[law]") {
  std::mt19937_64 rng{41};
  for (const Index vocab_size : {2, 3, 4})
    for (const Index gamma : {1, 2, 3})
      for (int n = 0; n < 20; ++n) {
        auto target = TableModel<>::random(vocab_size, 2, rng);
        auto draft_model = TableModel<>::random(vocab_size, 2, rng);
        // Where p equals q, a position is reached with probability 0 or never. Some distance between p and q keeps
        // every position alive.
        const std::vector<Token> prompt{0};
        std::vector<double> rounds(static_cast<std::size_t>(gamma) + 1), reached(rounds.size());
        CountingRounds chance;
        do {
          chance.rounds.clear();
          ModelDrafter drafter{TableModel<>(draft_model)};
          const auto draft = drafter.draft(std::span<const Token>(prompt), {gamma}, chance);
          std::vector<Token> all = prompt;
          all.insert(all.end(), draft.tokens.begin(), draft.tokens.end());
          target.truncate(0);
          const auto& rows = target.forward(all, gamma + 1);
          BlockVerifier{}(rows, draft.rows, draft.tokens, chance);
          for (std::size_t k = 0; k < chance.rounds.size(); ++k) {
            rounds[k] += chance.probability() * chance.rounds[k];
            reached[k] += chance.probability();
          }
        } while (chance.next());
        // rounds[k] sums P(path)·1/(S + 1 − w) over the paths that race at position γ − k. A prefix reaches this race
        // with probability S + 1 − w. So the sum is one round for each prefix that can be left at all.
        CHECK(std::abs(reached[0] - 1) < 1e-12);
        for (std::size_t k = 0; k < rounds.size(); ++k) {
          const Index i = gamma - static_cast<Index>(k);
          double alive = 0;  // probability of prefixes x_1..x_i with S_i + 1 − w_i > 0
          enumerate([&](Enumerator& e) {
            ModelDrafter drafter{TableModel<>(draft_model)};
            const auto draft = drafter.draft(std::span<const Token>(prompt), {i}, e);
            std::vector<Token> context = prompt;
            double w = 1;
            for (Index j = 0; j < i; ++j) {
              const Token x = draft.tokens[static_cast<std::size_t>(j)];
              w = std::min(1.0, w * target.distribution(context).probability(x) /
                                    draft_model.distribution(context).probability(x));
              context.push_back(x);
            }
            if (i == gamma) {
              alive += e.probability();
            } else if (residual_mass(w, target.distribution(context), 1.0, draft_model.distribution(context),
                                     0, vocab_size) +
                           1 - w >
                       0) {
              alive += e.probability();
            }
          });
          CHECK(std::abs(rounds[k] - alive) < 1e-12);
          CHECK(rounds[k] <= 1 + 1e-12);
        }
      }
}

}  // namespace law_rounds
