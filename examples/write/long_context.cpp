// Long contexts: a call reads the keys and values of all tokens, and these are soon more than the weights. Then the target
// can draft for itself with a sparse cache: its attentions read the first tokens of the text and the latest ones
// (MagicDec). Fewer sublayers make the drafts cheaper (SPIRe), and so does a small model that drafts for the drafts
// (TriForce). The text is the novel's beginning, then what the target writes.
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <random>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/long_context.hpp"
#include "transformer/self_draft.hpp"
#include "transformer/sparse_cache.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::CascadeDrafter, specdec::ModelDrafter, specdec::ProcessedModel, specdec::Temperature;
using specdec::Index, specdec::Token;
using transformer::SelfDraft, transformer::Sublayers;
using Transformer = transformer::Transformer<float>;
using Tokens = std::vector<Token>;

struct Settings {
  Index context = 8000, tokens = 100, gamma = 3;
  int texts = 3;
  double temperature = 0.8;
  transformer::SparseCache cache{16, 256};
  std::vector<std::string> left_out{"a2"};
};

// No draft in the first call of a text, which reads the prompt. A draft would have the target's sublayers read it, too.
struct FromSecondCall {
  Index next(Index most) { return std::exchange(first_, false) ? 0 : most; }
  void observe(const specdec::StepRecord&) const {}

 private:
  bool first_ = true;
};

// What was written after the first call, which writes one token.
struct Measured {
  Index tokens = 0, calls = 0;
  std::chrono::duration<double> time{0};

  double per_call() const { return static_cast<double>(tokens) / static_cast<double>(calls); }
  double seconds() const { return time.count() / static_cast<double>(tokens); }
};

// Every text has a decoder of its own, and so a FromSecondCall of its own.
template <class Drafter>
Measured measure(Transformer& target, Drafter&& drafter, const Tokens& prompt, const Settings& settings) {
  using Clock = std::chrono::steady_clock;
  const specdec::Options options{.max_new_tokens = settings.tokens + 1, .gamma = settings.gamma};
  Measured sum;
  for (int text = 1; text <= settings.texts; ++text) {
    specdec::SpecDec decoder{ProcessedModel{target, Temperature{settings.temperature}}, drafter,
                             specdec::BlockVerifier{}, FromSecondCall{}};
    std::mt19937_64 rng(static_cast<std::uint64_t>(text));
    auto sequence = decoder.start(prompt, options);
    sequence.step(rng);
    const auto begin = Clock::now();
    for (; !sequence.done(); ++sum.calls) sequence.step(rng);
    sum.time += Clock::now() - begin;
    sum.tokens += std::ssize(sequence.tokens()) - 1;
  }
  return sum;
}

Tokens novel(const transformer::Tokenizer& tokenizer, Index count) {
  const std::string path = SPECDEC_EXAMPLES "/data/moby_dick.txt";
  std::ifstream file(path);
  std::string text(static_cast<std::size_t>(8 * count), ' ');  // a token is about two characters
  file.read(text.data(), std::ssize(text));
  text.resize(static_cast<std::size_t>(file.gcount()));
  Tokens tokens = tokenizer.encode(text);
  if (std::ssize(tokens) < count) throw std::runtime_error(path + " has less text than --context asks for");
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

void compare(Transformer& target, Transformer& small, const Tokens& prompt, const Settings& settings) {
  double alone = 0;
  const auto print = [&](const std::string& name, const Measured& measured) {
    if (alone == 0) alone = measured.seconds();
    std::cout << std::left << std::setw(44) << name << std::right << std::fixed << std::setprecision(2)
              << std::setw(8) << measured.per_call() << std::setw(12) << 1000 * measured.seconds()
              << std::setw(10) << alone / measured.seconds() << std::endl;
  };
  std::cout << "after " << prompt.size() << " tokens, T = " << settings.temperature << "\n"
            << "drafts by                                   per call  ms a token  speed-up\n";

  const Temperature chain{settings.temperature};
  const Sublayers all = Sublayers::first(target.shape().n_layers);
  const auto windowed = [&] { return ModelDrafter{ProcessedModel{specdec::Windowed{small, 4, 252}, chain}}; };
  SelfDraft sparse(target, all.reading(settings.cache));
  SelfDraft fewer(target, all.without(settings.left_out).reading(settings.cache));

  Settings nobody = settings;
  nobody.gamma = 0;
  print("nobody", measure(target, windowed(), prompt, nobody));
  print("a small model, window of 256", measure(target, windowed(), prompt, settings));
  print("the target, sparse cache",
        measure(target, ModelDrafter{ProcessedModel{sparse, chain}}, prompt, settings));
  print("the target without some sublayers, sparse",
        measure(target, ModelDrafter{ProcessedModel{fewer, chain}}, prompt, settings));
  print(
      "both: small model, then sparse cache",
      measure(target, CascadeDrafter{ProcessedModel{sparse, chain}, windowed(), specdec::BlockVerifier{}, 2},
              prompt, settings));
}

int main(int argc, char** argv) try {
  Settings settings;
  CLI::App app("Compares drafters in a long context.");
  const auto option = [&](const char* name, auto& value, const char* says) {
    return app.add_option(name, value, says)->capture_default_str();
  };
  option("--context", settings.context, "tokens of the prompt")->check(CLI::PositiveNumber);
  option("--tokens", settings.tokens, "tokens to write")->check(CLI::PositiveNumber);
  option("--texts", settings.texts, "texts to write")->check(CLI::PositiveNumber);
  option("--gamma", settings.gamma, "draft length")->check(CLI::NonNegativeNumber);
  option("--temperature", settings.temperature, "0: greedy")->check(CLI::NonNegativeNumber);
  option("--first", settings.cache.first, "first tokens that the sparse cache keeps");
  option("--latest", settings.cache.latest, "latest tokens that the sparse cache keeps");
  option("--skip", settings.left_out, "sublayers to leave out, such as a2 f3");
  CLI11_PARSE(app, argc, argv);

  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(weights + "target.bin", transformer::LongContext::read(weights + "long_context.bin"));
  Transformer small(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  compare(target, small, novel(tokenizer, settings.context), settings);
} catch (const std::exception& error) {
  std::cerr << "long_context: " << error.what() << '\n';
  return 2;
}
