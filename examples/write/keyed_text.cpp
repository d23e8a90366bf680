// Writes a text that depends on the seed only: any drafter, any gamma and no drafter at all give the same tokens.
// SPDX-License-Identifier: MIT
#include <cstdint>
#include <iostream>
#include <specdec/more/analysis.hpp>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";

// The tokens of this example are letters.
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

int main() {
  const specdec::NgramModel target =
      specdec::NgramModel::train(letters(rhyme), {.order = 8, .vocab_size = 128});
  const auto prompt = letters("This is the");

  const auto write = [&](const char* how, auto drafter, Index gamma, std::uint64_t seed) {
    specdec::SpecDec decoder{specdec::PathByPath{specdec::NgramModel(target)}, std::move(drafter),
                             specdec::TrunkAndSpares<specdec::KeyedVerifier>{}};  // both take lines and trees
    specdec::Keyed keyed{seed};
    const auto result =
        decoder.generate(prompt, {.max_new_tokens = 200, .gamma = gamma, .stop_tokens = {'.'}}, keyed);
    std::cout << how << ", " << result.stats.target_calls << " calls:";
    for (const Token x : result.tokens) std::cout << static_cast<char>(x);
    std::cout << "\n";
  };
  write("no draft", specdec::NoDrafter{}, 0, 8);
  write("a small model, gamma 4", specdec::ModelDrafter{target.with_order(3)}, 4, 8);
  write("a small model, gamma 9", specdec::ModelDrafter{target.with_order(3)}, 9, 8);
  write("prompt lookup", specdec::PromptLookupDrafter{}, 6, 8);
  write("two small models, 4 tokens each",
        specdec::MergedDrafter{specdec::ModelDrafter{target.with_order(3)},
                               specdec::ModelDrafter{target.with_order(4)}},
        8, 8);
  write("another seed", specdec::ModelDrafter{target.with_order(3)}, 4, 4);

  // The acceptance rate at one prefix by three rules: token verification; a drafter that shares the target's random numbers
  // (keyed); and a drafter with its own random numbers (sample-and-match).
  const std::vector<double> p{0.5, 0.3, 0.15, 0.05}, q{0.35, 0.4, 0.05, 0.2};
  const specdec::DenseRow<double> p_row(p.data(), 4), q_row(q.data(), 4);
  double apart = 0;
  for (std::size_t x = 0; x < 4; ++x) apart += p[x] * q[x];
  std::cout << "token verification accepts " << specdec::overlap(p_row, q_row) << ", keyed "
            << specdec::keyed_agreement(p_row, q_row) << ", sample-and-match " << apart << "\n";
}
