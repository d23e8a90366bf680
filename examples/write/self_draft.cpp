// Draft & Verify: which of the target's attentions and feed-forward networks can its own drafts do without? They are searched
// on texts after some prompts, and measured on texts after others, beside exits after the first layers.
//
//   self_draft                   the shipped target
//   self_draft layer_skip.bin    another checkpoint of llama2.c, with the shipped tokenizer
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "transformer/choose_sublayers.hpp"
#include "transformer/self_draft.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token;
using transformer::Prospect, transformer::Sublayers, transformer::Written;
using Tokens = std::vector<Token>;
using Transformer = transformer::Transformer<float>;

constexpr Index tokens_of_a_text = 24;

std::vector<Written> write(Transformer& model, const std::vector<Tokens>& prompts, double temperature) {
  specdec::ProcessedModel target{model, specdec::Temperature{temperature}};
  std::mt19937_64 rng{1};
  std::vector<Written> texts;
  for (const Tokens& prompt : prompts) {
    const Tokens tokens =
        specdec::autoregressive(target, prompt, {.max_new_tokens = tokens_of_a_text}, rng).tokens;
    texts.push_back({prompt, std::ssize(prompt)});
    texts.back().tokens.insert(texts.back().tokens.end(), tokens.begin(), tokens.end());
  }
  return texts;
}

// Tokens per target call of a decoder whose target drafts by these sublayers.
double tokens_per_call(Transformer& target, const Prospect& drafts, const std::vector<Tokens>& prompts,
                       double temperature) {
  transformer::SelfDraft drafting(target, drafts.sublayers);
  const specdec::Temperature chain{temperature};
  specdec::SpecDec decoder{specdec::ProcessedModel{target, chain},
                           specdec::ModelDrafter{specdec::ProcessedModel{drafting, chain}}};
  std::mt19937_64 rng{1};
  specdec::Stats stats;
  for (const Tokens& prompt : prompts)
    stats += decoder.generate(prompt, {.max_new_tokens = tokens_of_a_text, .gamma = drafts.gamma}, rng).stats;
  return stats.block_efficiency();
}

void print(const std::string& name, const Prospect& drafts) {
  std::cout << std::left << std::setw(30) << name << std::right << std::fixed << std::setprecision(3)
            << std::setw(8) << drafts.acceptance << std::setw(7) << drafts.share << std::setw(7)
            << drafts.gamma << std::setw(10) << drafts.speed_up;
}

// Searches the sublayers to leave out. Returns the best rest.
Sublayers search(Transformer& target, const std::vector<Tokens>& prompts, double temperature) {
  std::cout << "T = " << std::fixed << std::setprecision(1) << temperature
            << ", left out             accepted   cost  gamma  speed-up\n";
  const std::vector<Prospect> path =
      leave_out_one_by_one(target, write(target, prompts, temperature), temperature);
  for (const Prospect& drafts : path) {
    print(drafts.sublayers.left_out(), drafts);
    std::cout << '\n';
  }
  return std::ranges::max_element(path, {}, &Prospect::speed_up)->sublayers;
}

// Measures drafts by these sublayers, and by the first layers.
void measure(Transformer& target, const Sublayers& best, const std::vector<Tokens>& prompts,
             double temperature) {
  std::vector<Sublayers> sets{best};
  std::vector<std::string> names{"without " + best.left_out()};
  for (Index layers = 1; layers < target.shape().n_layers; ++layers) {
    sets.push_back(Sublayers::first(layers));
    names.push_back("exit after layer " + std::to_string(layers));
  }
  const std::vector<double> accepted =
      acceptances(target, write(target, prompts, temperature), temperature, sets);
  std::cout << "on other texts                accepted   cost  gamma  speed-up  tokens per call\n";
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const Prospect drafts = prospect(target.shape(), sets[i], accepted[i]);
    print(names[i], drafts);
    std::cout << std::setw(11) << tokens_per_call(target, drafts, prompts, temperature) << '\n';
  }
}

int main(int argc, char** argv) try {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(argc > 1 ? argv[1] : weights + "target.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> searched, measured;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; std::getline(lines, line);)
    (searched.size() == measured.size() ? searched : measured).push_back(tokenizer.encode(line));
  for (const double temperature : {0.0, 0.8}) {
    measure(target, search(target, searched, temperature), measured, temperature);
    std::cout << '\n';
  }
} catch (const std::exception& error) {
  std::cerr << "self_draft: " << error.what() << '\n';
  return 2;
}
