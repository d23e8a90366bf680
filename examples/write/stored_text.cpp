// Texts of old weights as drafts for new ones: how much of each is kept, by what.
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/rows.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;
using Transformer = transformer::Transformer<float>;
using Weights = transformer::Weights<float>;
using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index text_size = 60;
const specdec::Temperature temperature{0.8};

// A text of old weights, with the probabilities of its tokens, and the rows that they were drawn from, which most of the time
// nobody asks for; and their text by the numbers of a seed.
struct Rollout {
  Tokens prompt, tokens;
  std::vector<float> probabilities;
  Matrix rows;
  std::uint64_t seed;
  Tokens by_seed;
};

Tokens text_by_seed(Transformer& model, const Tokens& prompt, std::uint64_t seed) {
  specdec::SpecDec decoder{specdec::ProcessedModel{model, temperature}, specdec::NoDrafter{},
                           specdec::KeyedVerifier{}};
  specdec::Keyed keyed{seed};
  return decoder.generate(prompt, {.max_new_tokens = text_size, .gamma = 0}, keyed).tokens;
}

Rollout write(Transformer& model, const Tokens& prompt, std::uint64_t seed) {
  specdec::ProcessedModel old{model, temperature};
  std::mt19937_64 rng{seed};
  const Tokens tokens = specdec::autoregressive(old, prompt, {.max_new_tokens = text_size}, rng).tokens;
  Tokens fed = prompt;
  fed.insert(fed.end(), tokens.begin(), tokens.end() - 1);
  model.truncate(0);
  const auto& output = old.forward(fed, text_size);
  Matrix rows(text_size, model.vocab_size());
  for (Index i = 0; i < rows.rows(); ++i)
    for (Token x = 0; x < rows.cols(); ++x) rows(i, x) = static_cast<float>(output.row(i).probability(x));
  std::vector<float> probabilities;
  for (Index i = 0; i < rows.rows(); ++i)
    probabilities.push_back(rows(i, tokens[static_cast<std::size_t>(i)]));
  return {prompt, tokens, probabilities, rows, seed, text_by_seed(model, prompt, seed)};
}

// What training might do to the weights: each number of the layers' outputs changes by up to `share` of its size.
Transformer moved(const Transformer& model, double share) {
  auto weights = std::make_shared<Weights>(*model.weights());
  std::mt19937_64 rng{3};
  for (auto& layer : weights->layers)
    for (auto* matrix : {&layer.output, &layer.down})
      for (Index i = 0; i < matrix->rows(); ++i)
        for (Index k = 0; k < matrix->cols(); ++k)
          (*matrix)(i, k) *= static_cast<float>(1 + share * (2 * specdec::uniform01(rng) - 1));
  return Transformer(weights);
}

struct Kept {
  double share = 0, calls = 0, fetched = 0;
};

// New texts that begin as the old ones: how much of a text is kept, the calls that a text takes, and the old rows that it asks for.
Kept reuse(Transformer& model, const std::vector<Rollout>& rollouts, auto rule) {
  std::mt19937_64 rng{2};
  specdec::Stats stats;
  Index fetched = 0;
  for (const Rollout& old : rollouts) {
    const auto fetch = [&](Index i) {
      ++fetched;
      return specdec::DenseRow<float>(old.rows.row(i).data(), old.rows.cols());
    };
    const specdec::FetchedRows rows(old.tokens, std::span<const float>(old.probabilities), old.rows.cols(),
                                    fetch);
    specdec::SpecDec decoder{specdec::ProcessedModel{model, temperature},
                             specdec::StoredText{old.tokens, rows}, rule};
    // One more than stored: after a text that is kept whole the target adds a token.
    const specdec::Options options{.max_new_tokens = text_size + 1, .gamma = specdec::unlimited};
    stats += decoder.generate(old.prompt, options, rng).stats;
  }
  const auto texts = static_cast<double>(rollouts.size());
  return {static_cast<double>(stats.accepted) / (texts * text_size),
          static_cast<double>(stats.target_calls) / texts, static_cast<double>(fetched) / texts};
}

// How much of a text both weights write alike from the numbers of one seed.
double shared(Transformer& model, const std::vector<Rollout>& rollouts) {
  double kept = 0;
  for (const Rollout& old : rollouts) {
    const Tokens now = text_by_seed(model, old.prompt, old.seed);
    kept += static_cast<double>(std::ranges::mismatch(old.by_seed, now).in1 - old.by_seed.begin());
  }
  return kept / static_cast<double>(rollouts.size() * text_size);
}

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer model(weights + "target.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", model.vocab_size());
  std::vector<Rollout> rollouts;
  std::ifstream prompts(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; std::getline(prompts, line);)
    rollouts.push_back(write(model, tokenizer.encode(line), rollouts.size()));

  std::cout << "             kept by                                 calls of a text by   old rows by\n"
               "weights      blocks  tokens  the numbers of a seed   blocks  tokens       blocks  tokens\n"
            << std::fixed;
  for (const double share : {0.0, 0.001, 0.01, 0.1}) {
    Transformer now = moved(model, share);
    const Kept by_blocks = reuse(now, rollouts, specdec::BlockVerifier{});
    const Kept by_tokens = reuse(now, rollouts, specdec::TokenVerifier{});
    std::cout << "+-" << std::setprecision(1) << std::setw(5) << 100 * share << " %" << std::setprecision(2)
              << std::setw(9) << by_blocks.share << std::setw(8) << by_tokens.share << std::setw(23)
              << shared(now, rollouts) << std::setprecision(1) << std::setw(9) << by_blocks.calls
              << std::setw(8) << by_tokens.calls << std::setw(13) << by_blocks.fetched << std::setw(8)
              << by_tokens.fetched << "\n";
  }
}
