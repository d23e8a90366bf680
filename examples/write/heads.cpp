// Heads on the target's hidden states draft, in place of a draft model: an MLP speculator, an EAGLE layer, Medusa's heads.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <ranges>
#include <specdec/more/drafters.hpp>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/heads/head_model.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transformer/eagle.hpp"
#include "transformer/medusa.hpp"
#include "transformer/speculator.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;

// The `count` tokens that a novel has most often.
Tokens most_frequent(const transformer::Tokenizer& tokenizer, Index count) {
  std::ifstream novel(SPECDEC_EXAMPLES "/data/moby_dick.txt");
  std::map<Token, Index> times;
  for (const Token token : tokenizer.encode(std::string(std::istreambuf_iterator<char>(novel), {})))
    ++times[token];
  std::vector<std::pair<Index, Token>> all;
  for (const auto& [token, often] : times) all.emplace_back(often, token);
  std::ranges::sort(all, std::greater{});
  Tokens tokens;
  for (const auto& [often, token] : all | std::views::take(count)) tokens.push_back(token);
  return tokens;
}

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  transformer::Transformer<float> model(weights + "target.bin"), small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", model.vocab_size());

  transformer::Speculator<float> speculator(weights + "speculator.bin");
  model.show_hidden(speculator.layers());
  specdec::HeadModel head{model, speculator};  // a model like any other

  transformer::Transformer<float> twin = model;  // shares the weights, and may show other states
  transformer::Eagle<float> eagle(weights + "eagle.bin");
  twin.show_hidden(eagle.layers());
  specdec::EagleModel layer{twin, eagle};

  // The same layer with an output layer of half the size, for the tokens that are most frequent in a novel.
  transformer::Eagle<float> smaller(std::make_shared<const transformer::EagleWeights<float>>(
      eagle.weights()->drafting(most_frequent(tokenizer, model.vocab_size() / 2))));
  specdec::EagleModel half{twin, smaller};

  transformer::Transformer<float> triplet = model;
  transformer::Medusa<float> medusa(weights + "medusa.bin", triplet);
  triplet.show_hidden(medusa.layers());
  specdec::HeadModel heads{triplet, medusa};

  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 6 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));
  const auto tokens_per_call = [&](double temperature, auto& target, auto drafter, auto rule, Index gamma) {
    specdec::SpecDec decoder{specdec::ProcessedModel{target, specdec::Temperature{temperature}},
                             std::move(drafter), rule};
    std::mt19937_64 rng{1};
    specdec::Stats stats;
    for (const Tokens& prompt : prompts)
      stats += decoder.generate(prompt, {.max_new_tokens = 60, .gamma = gamma}, rng).stats;
    return stats.block_efficiency();
  };
  const auto compare = [&](double temperature, const std::string& name, auto& target, auto& draft) {
    // At temperature 0 a row has one token. A tree needs more to choose from.
    const specdec::Temperature drawing{temperature}, choosing{temperature > 0 ? temperature : 1};
    std::cout << std::fixed << std::left << std::setprecision(1) << "T = " << temperature << ", "
              << std::setw(17) << name << std::setprecision(2)
              << tokens_per_call(temperature, target,
                                 specdec::ModelDrafter{specdec::ProcessedModel{draft, drawing}},
                                 specdec::BlockVerifier{}, 4)
              << " in lines of 4, "
              << tokens_per_call(temperature, target,
                                 specdec::ModelDrafter{specdec::ProcessedModel{draft, choosing},
                                                       specdec::ConfidentTree{.nodes = 16}},
                                 specdec::TraversalVerifier{}, 16)
              << " in trees of 16\n";
  };
  std::cout << "Tokens per target call:\n";
  for (const double temperature : {0.0, 0.8}) {
    compare(temperature, "draft model", model, small);
    compare(temperature, "speculator", model, head);
    compare(temperature, "EAGLE layer", twin, layer);
    compare(temperature, "with 512 tokens", twin, half);
    compare(temperature, "Medusa", triplet, heads);
  }
}
