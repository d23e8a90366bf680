// Online speculative decoding: a draft model learns from the target's rows while texts are written, and follows the texts to
// another topic.
// SPDX-License-Identifier: MIT
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "drafters/online.hpp"
#include "transformer/online_model.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Token;
using Tokens = std::vector<Token>;

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  transformer::Transformer<float> model(weights + "target.bin"), small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", model.vocab_size());
  std::vector<Tokens> prose, code;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prose.size() < 8 && std::getline(lines, line);)
    prose.push_back(tokenizer.encode(line));
  for (int n = 10; n < 18; ++n) {  // the models were not trained on such texts
    const std::string number = std::to_string(n);
    code.push_back(tokenizer.encode("for (int i = 0; i < " + number + "; ++i) sum += data[i];  // " + number +
                                    " numbers"));
  }

  // Writes texts of one topic, then of another, and prints the tokens per target call.
  const auto write = [&](const std::string& name, double temperature, auto drafter) {
    const specdec::Temperature chain{temperature};
    specdec::SpecDec decoder{specdec::ProcessedModel{model, chain}, std::move(drafter)};
    std::mt19937_64 rng{1};
    std::cout << std::fixed << std::setprecision(1) << "T = " << temperature << ", " << std::left
              << std::setw(13) << name << std::setprecision(2);
    for (const std::vector<Tokens>* const prompts : {&prose, &code}) {
      specdec::Stats stats;
      for (const Tokens& prompt : *prompts)
        stats += decoder.generate(prompt, {.max_new_tokens = 120, .gamma = 4}, rng).stats;
      std::cout << "   " << stats.block_efficiency();
    }
    std::cout << '\n';
  };

  std::cout << "                         prose   C++\n";
  for (const double temperature : {0.0, 0.8}) {
    const specdec::Temperature chain{temperature};
    write("draft model", temperature, specdec::ModelDrafter{specdec::ProcessedModel{small, chain}});

    transformer::OnlineModel<float> online{small, {.temperature = temperature}};
    specdec::ModelDrafter drafter{specdec::ProcessedModel{online, chain}};
    write("learning", temperature, drafters::OnlineDrafter{std::move(drafter), online});
  }
}
