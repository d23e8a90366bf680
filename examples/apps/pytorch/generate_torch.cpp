// Continues a prompt by speculative decoding with two TorchScript modules on PyTorch, and then with the target alone, to
// compare.
//
//   generate_torch -m target.pt -d draft.pt -t tokenizer.bin -p "The white whale" --temperature 0
// SPDX-License-Identifier: MIT
#include <ATen/Parallel.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <vector>

#include "generate/text.hpp"
#include "torch_model.hpp"
#include "transformer/tokenizer.hpp"

namespace {

using specdec::Index;
using specdec::Token;
using Tokens = std::vector<Token>;
using transformer::Tokenizer;
using Chain = specdec::Chain<specdec::Temperature, specdec::TopP>;
using Model = specdec::ProcessedModel<TorchModel&, Chain>;
using Clock = std::chrono::steady_clock;

struct Settings {
  std::string model, draft_model, tokenizer;
  std::string prompt = "Once upon a time";
  Index tokens = 128;
  Index gamma = 4;
  double temperature = 0.8, top_p = 1;
  std::uint64_t seed = 1;
  int threads = 1;

  Chain chain() const { return Chain{specdec::Temperature{temperature}, specdec::TopP{top_p}}; }
};

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("-m,--model", settings.model, "TorchScript module of the target (export.py)")->required();
  app.add_option("-d,--draft", settings.draft_model, "TorchScript module of the draft model")->required();
  app.add_option("-t,--tokenizer", settings.tokenizer, "Tokenizer in llama2.c's format")->required();
  app.add_option("-p,--prompt", settings.prompt, "Text to continue");
  app.add_option("-n,--tokens", settings.tokens, "Tokens to write")->check(CLI::Range(1, 1000000));
  app.add_option("--gamma", settings.gamma, "Tokens drafted per target call")->check(CLI::Range(1, 64));
  app.add_option("--temperature", settings.temperature, "0 takes the most probable token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-p", settings.top_p, "Mass to sample from")->check(CLI::Range(0.001, 1.0));
  app.add_option("--seed", settings.seed, "Seed of everything random");
  app.add_option("--threads", settings.threads, "Threads of PyTorch")->check(CLI::Range(1, 1024));
}

struct Run {
  specdec::Result result;
  double seconds;

  double rate() const { return static_cast<double>(result.tokens.size()) / seconds; }
};

template <class Generate>
Run timed(const Settings& settings, const Generate& generate) {
  std::mt19937_64 rng{settings.seed};
  const auto start = Clock::now();
  specdec::Result result = generate(rng);
  return {std::move(result), std::chrono::duration<double>(Clock::now() - start).count()};
}

void print_row(const char* name, const Run& run, const Run& baseline) {
  const specdec::Stats& stats = run.result.stats;
  std::cout << std::left << std::setw(16) << name << std::right << std::setw(8) << stats.emitted
            << std::setw(14) << stats.target_calls << std::setw(18)
            << generate::fixed(stats.block_efficiency(), 3) << std::setw(12) << generate::fixed(run.rate(), 1)
            << std::setw(10) << generate::fixed(run.rate() / baseline.rate(), 2) << '\n';
}

// PyTorch may add in another order in calls of several tokens, so greedy texts may differ by rounding.
bool equal_but_for_numbers(TorchModel& model, const Tokens& prompt, const Run& alone, const Run& drafted) {
  const auto parting =
      specdec::testing::explain_divergence(model, prompt, alone.result.tokens, drafted.result.tokens);
  std::cout << "\nThe output equals autoregressive decoding token for token: ";
  if (parting.kind == specdec::testing::Divergence::Kind::none) std::cout << "yes\n";
  else std::cout << "no: " << parting << '\n';
  return static_cast<bool>(parting);
}

int run(const Settings& settings) {
  at::set_num_threads(settings.threads);
  torch::jit::setGraphExecutorOptimize(false);  // it would recompile for each length of the context
  TorchModel model(settings.model), draft_model(settings.draft_model);
  const Tokenizer tokenizer(settings.tokenizer, model.vocab_size());
  const Tokens prompt = tokenizer.encode(settings.prompt);
  const specdec::Options options{.max_new_tokens = settings.tokens,
                                 .gamma = settings.gamma,
                                 .stop_tokens = {Tokenizer::begin_of_text, Tokenizer::end_of_text}};

  Model target{model, settings.chain()};
  specdec::SpecDec decoder{target, specdec::ModelDrafter{Model{draft_model, settings.chain()}}};
  std::cout << settings.prompt;
  Token last = prompt.back();
  const Run drafted = timed(settings, [&](auto& rng) {
    return decoder.generate(prompt, options, rng, [&](std::span<const Token> emitted) {
      for (const Token x : emitted)
        std::cout << generate::printable(std::string(tokenizer.decode(last, x))), last = x;
      std::cout << std::flush;
    });
  });
  const Run alone =
      timed(settings, [&](auto& rng) { return specdec::autoregressive(target, prompt, options, rng); });

  std::cout << "\n\n"
            << std::setw(24) << "tokens" << std::setw(14) << "target calls" << std::setw(18)
            << "block efficiency" << std::setw(12) << "tokens/s" << std::setw(10) << "speed-up" << '\n';
  print_row("autoregressive", alone, alone);
  print_row("block", drafted, alone);
  if (settings.temperature > 0) return 0;
  return equal_but_for_numbers(model, prompt, alone, drafted) ? 0 : 1;
}

// Prints the reason of a failure in one line. Returns the exit status.
int fail(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "generate_torch: " << message << '\n';
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Continues a text by speculative decoding with TorchScript modules.", "generate_torch"};
  add_options(app, settings);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(settings);
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
