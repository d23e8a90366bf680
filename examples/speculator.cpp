// Heads on the target's hidden states draft, in place of a draft model: an MLP speculator, and Medusa's heads.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/model/head_model.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transformer/medusa.hpp"
#include "transformer/speculator.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  transformer::Transformer<float> model(weights + "target.bin"), small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", model.vocab_size());

  transformer::Speculator<float> speculator(weights + "speculator.bin");
  model.show_hidden(speculator.layers());
  specdec::HeadModel head{model, speculator};  // a model like any other

  transformer::Transformer<float> same = model;  // shares the weights, and shows other states
  transformer::Medusa<float> medusa(weights + "medusa.bin", same);
  same.show_hidden(medusa.layers());
  specdec::HeadModel heads{same, medusa};

  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 8 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));
  const auto write = [&](double temperature, const std::string& name, auto& target, auto drafter, auto rule,
                         Index gamma) {
    specdec::SpecDec decoder{specdec::ProcessedModel{target, specdec::Temperature{temperature}},
                             std::move(drafter), rule};
    std::mt19937_64 rng{1};
    specdec::Stats stats;
    for (const Tokens& prompt : prompts)
      stats += decoder.generate(prompt, {.max_new_tokens = 60, .gamma = gamma}, rng).stats;
    std::cout << std::fixed << std::left << std::setprecision(1) << "T = " << temperature << ", "
              << std::setw(26) << name << std::setprecision(2) << stats.block_efficiency()
              << " tokens per target call\n";
  };
  for (const double temperature : {0.0, 0.8}) {
    // At temperature 0 a row has one token. A tree needs more to choose from.
    const specdec::Temperature drawing{temperature}, choosing{temperature > 0 ? temperature : 1};
    const auto lines_of_4 = [&](const std::string& name, auto& target, auto& draft) {
      write(temperature, name + ", lines of 4", target,
            specdec::ModelDrafter{specdec::ProcessedModel{draft, drawing}}, specdec::BlockVerifier{}, 4);
    };
    const auto trees_of_16 = [&](const std::string& name, auto& target, auto& draft) {
      write(temperature, name + ", trees of 16", target,
            specdec::ModelDrafter{specdec::ProcessedModel{draft, choosing},
                                  specdec::ConfidentTree{.nodes = 16}},
            specdec::TraversalVerifier{}, 16);
    };
    lines_of_4("draft model", model, small);
    lines_of_4("speculator", model, head);
    trees_of_16("speculator", model, head);
    lines_of_4("Medusa", same, heads);
    trees_of_16("Medusa", same, heads);
  }
}
