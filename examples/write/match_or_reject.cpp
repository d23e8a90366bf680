// Match or reject? Engines verify in one of two ways. Some draw from the target, and accept a drafted token that equals the
// draw; their drafts are the likeliest tokens, and need no probabilities. Others draw the draft, keep its probabilities q,
// and accept by the ratio p/q. A third way needs no q: draft and target share their random numbers (keyed). This program
// prints how many tokens a call of the target emits in each way.
//
//   match_or_reject              20 texts of 200 tokens for each figure: a minute
//   match_or_reject 2 40         2 texts of 40 tokens
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::ModelDrafter, specdec::ProcessedModel, specdec::Temperature, specdec::Token;
using Transformer = transformer::Transformer<float>;

struct Texts {
  std::vector<std::vector<Token>> prompts;
  Index tokens;
};

// Block efficiency and its standard error over the steps.
void print(const specdec::Stats& stats) {
  const double calls = static_cast<double>(stats.target_calls), mean = stats.block_efficiency();
  double squares = 0;
  for (std::size_t k = 0; k < stats.accepted_lengths.size(); ++k)
    squares +=
        static_cast<double>(stats.accepted_lengths[k]) * std::pow(static_cast<double>(k + 1) - mean, 2);
  std::cout << std::setw(7) << mean << " +- " << std::sqrt(squares / calls / calls);
}

// Writes a text after each prompt. `source` makes the random numbers of a text from its number.
void write(Transformer& target, double temperature, auto drafter, auto rule, const Texts& texts,
           auto source) {
  specdec::SpecDec decoder{ProcessedModel{target, Temperature{temperature}}, std::move(drafter), rule};
  specdec::Stats stats;
  for (std::uint64_t k = 0; k < texts.prompts.size(); ++k) {
    auto numbers = source(k);
    stats += decoder.generate(texts.prompts[k], {.max_new_tokens = texts.tokens, .gamma = 4}, numbers).stats;
  }
  print(stats);
}

int main(int argc, char** argv) {
  const int most = argc > 1 ? std::stoi(argv[1]) : 20;
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(weights + "target.bin"), small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  Texts texts{{}, argc > 2 ? std::stoi(argv[2]) : 200};
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; std::ssize(texts.prompts) < most && std::getline(lines, line);)
    texts.prompts.push_back(tokenizer.encode(line));

  const auto generator = [](std::uint64_t k) { return std::mt19937_64(k); };
  const auto keyed = [](std::uint64_t k) { return specdec::Keyed(k); };
  std::cout << "           match, likeliest   match, drawn       keyed           token           block\n"
            << std::fixed << std::setprecision(2);
  for (const double temperature : {0.2, 0.5, 0.8, 1.0, 1.2}) {
    const auto likeliest = [&] { return ModelDrafter{ProcessedModel{small, Temperature{0}}}; };
    const auto drawn = [&] { return ModelDrafter{ProcessedModel{small, Temperature{temperature}}}; };
    std::cout << "T = " << std::setprecision(1) << temperature << std::setprecision(2) << "  ";
    write(target, temperature, likeliest(), specdec::SampleMatchVerifier{}, texts, generator);
    write(target, temperature, drawn(), specdec::SampleMatchVerifier{}, texts, generator);
    write(target, temperature, drawn(), specdec::KeyedVerifier{}, texts, keyed);
    write(target, temperature, drawn(), specdec::TokenVerifier{}, texts, generator);
    write(target, temperature, drawn(), specdec::BlockVerifier{}, texts, generator);
    std::cout << "\n";
  }
}
