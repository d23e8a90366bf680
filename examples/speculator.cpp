// An MLP speculator: a small network on the target's hidden states drafts, in place of a draft model.
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/model/head_model.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

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

  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 8 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));
  const auto write = [&](double temperature, const char* name, auto drafter, auto rule, Index gamma) {
    specdec::SpecDec decoder{specdec::ProcessedModel{model, specdec::Temperature{temperature}},
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
    const specdec::Temperature chain{temperature};
    write(temperature, "draft model, lines of 4",
          specdec::ModelDrafter{specdec::ProcessedModel{small, chain}}, specdec::BlockVerifier{}, 4);
    write(temperature, "speculator, lines of 4", specdec::ModelDrafter{specdec::ProcessedModel{head, chain}},
          specdec::BlockVerifier{}, 4);
    write(temperature, "speculator, trees of 16",
          specdec::ModelDrafter{specdec::ProcessedModel{head, chain}, specdec::ConfidentTree{.nodes = 16}},
          specdec::TraversalVerifier{}, 16);
  }
}
