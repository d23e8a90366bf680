// Writes many texts at a time: each target call and each call of the draft model serves all of them.
//
//   serve_batch --batch 8
//   serve_batch --requests 60 --batch 16 --gamma auto --arrivals 40 --output texts.txt
//   serve_batch --batch 32 --no-draft --threads 2 --check
//   serve_batch --drafter eagle
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/heads/head_model.hpp>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "generate/text.hpp"
#include "serve/costs.hpp"
#include "serve/rules.hpp"
#include "serve/server.hpp"
#include "serve/threads.hpp"
#include "transformer/batch.hpp"
#include "transformer/deepened.hpp"
#include "transformer/eagle.hpp"
#include "transformer/eagle_batch.hpp"
#include "transformer/speculator.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weights.hpp"

#ifndef SPECDEC_EXAMPLES
#define SPECDEC_EXAMPLES "examples"
#endif

namespace {

using serve::Index;
using serve::Outcome;
using serve::Request;
using serve::Tokens;
using transformer::Tokenizer;
using Weights = transformer::Weights<float>;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  std::string prompts = SPECDEC_EXAMPLES "/data/prompts.txt";
  std::string output;
  std::optional<Index> requests;
  Index batch = 8;
  std::string gamma = "3";
  std::string verifier = "block";
  std::string drafter = "model";
  bool no_draft = false;
  double temperature = 0.8;
  Index tokens = 100;
  Index seed = 1;
  std::optional<double> arrivals;
  std::optional<Index> tokens_per_call;
  Index threads = 1;
  bool check = false;
  std::optional<Index> target_layers;

  /// Whether a network on the target's hidden states drafts.
  bool reads_states() const { return drafter != "model"; }
  bool automatic() const { return (gamma == "auto" || gamma == "early") && !no_draft; }
  /// Rules for several drafts get two drafts of each text.
  bool two_drafts() const { return verifier == "k-seq" || verifier == "recursive-rejection"; }
  /// The longest draft.
  Index most_gamma() const { return no_draft ? 0 : automatic() ? 8 : std::stoi(gamma, nullptr, 0); }
  Index most_drafted() const { return two_drafts() ? 2 * most_gamma() : most_gamma(); }
};

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("prompts,--prompts", settings.prompts, "File of prompts, one a line");
  app.add_option("--output", settings.output, "File to write the texts to; default: standard output");
  app.add_option("--requests", settings.requests,
                 "Texts to write, each after the next prompt in turn; default: one for each prompt")
      ->check(CLI::Range(1, 100000));
  app.add_option("--batch", settings.batch, "The most texts to write at a time")->check(CLI::Range(1, 1024));
  CLI::Option* gamma =
      app.add_option("--gamma", settings.gamma,
                     "Tokens drafted for each text per target call, or 'auto' for the number up to 8 that "
                     "gives the most tokens per second at the measured costs of calls, or 'early' to go on "
                     "with those texts whose next token is likeliest to survive")
          ->check(CLI::IsMember({"auto", "early"}) | CLI::Range(1, 64));
  CLI::Option* verifier =
      app.add_option("--verifier", settings.verifier,
                     "block or token; or k-seq or recursive-rejection, which judge two drafts of each text")
          ->check(CLI::IsMember({"block", "token", "k-seq", "recursive-rejection"}));
  CLI::Option* no_draft =
      app.add_flag("--no-draft", settings.no_draft, "Draft nothing: one token of each text per target call")
          ->excludes(gamma)
          ->excludes(verifier);
  app.add_option("--drafter", settings.drafter,
                 "What drafts: the draft model, or a head or a layer on the target's hidden states")
      ->check(CLI::IsMember({"model", "speculator", "eagle"}))
      ->excludes(no_draft);
  app.add_option("--temperature", settings.temperature, "Of both models; 0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--tokens", settings.tokens, "The most tokens of a text")->check(CLI::Range(1, 1000000));
  app.add_option("--seed", settings.seed,
                 "Seed of arrivals and of the first text; text i has this seed plus i")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("--arrivals", settings.arrivals,
                 "Requests per second, on average, at random times; default: all come at once")
      ->check(CLI::Range(1e-3, 1e9));
  app.add_option("--tokens-per-call", settings.tokens_per_call,
                 "The most tokens of a target call: long prompts are fed piece by piece")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--threads", settings.threads, "Threads that judge drafts")->check(CLI::Range(1, 64));
  app.add_option("--target-layers", settings.target_layers,
                 "Layers to give the target: its output stays, its cost is that of a model of this depth")
      ->check(CLI::Range(1, 100000));
  app.add_flag("--check", settings.check, "Write every text again, alone, and report whether it is the same");
}

/// Throws: std::invalid_argument if the settings do not go together.
void check(const Settings& settings) {
  if (!(settings.temperature >= 0))  // CLI::Range accepts a NaN
    throw std::invalid_argument("--temperature: nan is not in the range 0 to 100");
  if (settings.arrivals && !(*settings.arrivals > 0))
    throw std::invalid_argument("--arrivals: nan is not in the range 0.001 to 1e9");
  if (settings.tokens_per_call && *settings.tokens_per_call <= settings.most_drafted())
    throw std::invalid_argument("--tokens-per-call " + std::to_string(*settings.tokens_per_call) +
                                " has no room for a draft of " + std::to_string(settings.most_drafted()) +
                                " tokens and one more");
  if (settings.two_drafts() && settings.automatic())
    throw std::invalid_argument("--verifier " + settings.verifier +
                                " needs a draft length: give --gamma a number");
  if (settings.reads_states() && (settings.two_drafts() || settings.automatic()))
    throw std::invalid_argument(
        "--drafter " + settings.drafter +
        " drafts lines of a given length: --gamma a number, --verifier block or token");
  if (settings.check && settings.automatic())
    throw std::invalid_argument(
        "--check needs a draft length that does not depend on times: give --gamma a number");
}

// ---- The steps of the program -----------------------------------------------------------------------

struct Pair {
  std::shared_ptr<const Weights> target, draft;
  Tokenizer tokenizer;
};

Pair load(const Settings& settings) {
  const std::string folder = SPECDEC_EXAMPLES "/transformer/weights/";
  Weights target = Weights::read(folder + "target.bin");
  if (settings.target_layers) target = transformer::deepened(std::move(target), *settings.target_layers);
  Tokenizer tokenizer(folder + "tokenizer.bin", target.shape.vocab_size);
  return {std::make_shared<const Weights>(std::move(target)),
          std::make_shared<const Weights>(Weights::read(folder + "draft.bin")), std::move(tokenizer)};
}

std::vector<Tokens> read_prompts(const Pair& pair, const std::string& path) {
  std::ifstream file(path);
  std::vector<Tokens> prompts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty()) continue;
    prompts.push_back(pair.tokenizer.encode(line));
    const auto most = static_cast<std::size_t>(pair.target->shape.context_size);
    if (prompts.back().size() > most)
      throw std::invalid_argument("line " + std::to_string(number) + " of '" + path + "' has " +
                                  std::to_string(prompts.back().size()) +
                                  " tokens, but the target's context holds " + std::to_string(most));
  }
  if (prompts.empty()) throw std::runtime_error("cannot read any prompt from '" + path + "'");
  return prompts;
}

std::vector<Request> requests_of(const Pair& pair, const Settings& settings) {
  const std::vector<Tokens> prompts = read_prompts(pair, settings.prompts);
  std::vector<Request> requests(settings.requests ? static_cast<std::size_t>(*settings.requests)
                                                  : prompts.size());
  for (std::size_t i = 0; i < requests.size(); ++i) requests[i].prompt = prompts[i % prompts.size()];
  let_arrive(requests, settings.arrivals.value_or(0), static_cast<std::uint64_t>(settings.seed));
  return requests;
}

specdec::Options options_of(const Settings& settings) {
  return {.max_new_tokens = settings.tokens,
          .gamma = settings.most_drafted(),
          .stop_tokens = {Tokenizer::begin_of_text, Tokenizer::end_of_text}};
}

/// Calls use(model) with a draft model on the hidden states of the target, which shows them from now on.
template <class Layer, class Target, class Use>
auto with_states(const Settings& settings, Target& target, const Use& use) {
  const std::string folder = SPECDEC_EXAMPLES "/transformer/weights/";
  if (settings.drafter == "speculator") {
    transformer::Speculator<float> head(folder + "speculator.bin");
    target.show_hidden(head.layers());
    return use(specdec::HeadModel{target, std::move(head)});
  }
  Layer layer(folder + "eagle.bin");
  target.show_hidden(layer.layers());
  return use(specdec::EagleModel{target, std::move(layer)});
}

/// A tree of two lines of tokens.
specdec::TreeShape two_lines(const Settings& settings) {
  std::vector<Index> widths(static_cast<std::size_t>(settings.most_gamma()), 1);
  widths.front() = 2;
  return specdec::TreeShape::of_widths(widths);
}

Outcome serve_all(const Pair& pair, const Settings& settings, const std::vector<Request>& requests) {
  const specdec::Chain chain{specdec::Temperature{settings.temperature}};
  transformer::TransformerBatch<float> large(pair.target), small(pair.draft);
  const Index most = std::min<Index>(settings.batch, std::ssize(requests));
  const auto make_contexts = [&] {
    serve::make_contexts(large, most);
    if (!settings.no_draft && !settings.reads_states()) serve::make_contexts(small, most);
  };
  specdec::ProcessedModel target{large, chain};
  specdec::ModelDrafter drafter{specdec::ProcessedModel{small, chain}};
  const specdec::BatchOptions room{.tokens_per_call = settings.tokens_per_call.value_or(specdec::unlimited)};
  serve::Threads threads(settings.threads);
  const auto run = [&](auto&& batch) {
    make_contexts();
    return serve::run(batch, requests, settings.batch, options_of(settings),
                      static_cast<std::uint64_t>(settings.seed), threads);
  };
  if (settings.no_draft)
    return run(specdec::Batch{target, specdec::NoDrafter{}, specdec::BlockVerifier{}, room});
  if (settings.two_drafts()) {
    specdec::ModelDrafter drafts{specdec::ProcessedModel{small, chain},
                                 specdec::Tree{two_lines(settings), specdec::Independent{}}};
    return run(specdec::Batch{target, drafts, serve::LinesRule{settings.verifier == "k-seq"}, room});
  }
  const serve::LineRule rule{settings.verifier == "token"};
  if (settings.reads_states())
    return with_states<transformer::EagleBatch<float>>(settings, large, [&](auto model) {
      return run(
          specdec::Batch{target, specdec::ModelDrafter{specdec::ProcessedModel{model, chain}}, rule, room});
    });
  if (!settings.automatic()) return run(specdec::Batch{target, drafter, rule, room});
  specdec::CostCurve target_costs = serve::target_costs(large, most, settings.most_gamma());
  specdec::CostCurve draft_costs = serve::draft_costs(small, most);
  specdec::BatchCosts costs{std::move(target_costs), std::move(draft_costs)};
  if (settings.gamma == "early") {
    specdec::EarlyStoppingLength length{std::move(costs)};
    return run(specdec::Batch{target, drafter, rule, length, room});
  }
  specdec::CostOptimalLength length{std::move(costs)};
  return run(specdec::Batch{target, drafter, rule, length, room});
}

/// Writes each text alone, and counts the texts that differ.
Index differences(const Pair& pair, const Settings& settings, const std::vector<Request>& requests,
                  const Outcome& outcome) {
  const specdec::Chain chain{specdec::Temperature{settings.temperature}};
  transformer::Transformer<float> large(pair.target), small(pair.draft);
  const auto count = [&](auto&& alone) {
    Index different = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto generator = serve::generator_of(static_cast<std::uint64_t>(settings.seed), static_cast<Index>(i));
      const auto result = alone.generate(requests[i].prompt, options_of(settings), generator);
      if (result.tokens != outcome.texts[i].tokens) ++different;
    }
    return different;
  };
  specdec::ProcessedModel target{large, chain}, draft{small, chain};
  if (settings.two_drafts())
    return count(specdec::SpecDec{
        target, specdec::ModelDrafter{draft, specdec::Tree{two_lines(settings), specdec::Independent{}}},
        serve::LinesRule{settings.verifier == "k-seq"}});
  const serve::LineRule rule{settings.verifier == "token"};
  if (!settings.reads_states()) return count(specdec::SpecDec{target, specdec::ModelDrafter{draft}, rule});
  return with_states<transformer::Eagle<float>>(settings, large, [&](auto model) {
    return count(
        specdec::SpecDec{target, specdec::ModelDrafter{specdec::ProcessedModel{model, chain}}, rule});
  });
}

void print_texts(std::ostream& out, const Pair& pair, const std::vector<Request>& requests,
                 const Outcome& outcome) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    std::string text;
    specdec::Token before = requests[i].prompt.front();  // the beginning-of-text token has no text
    const auto add = [&](std::span<const specdec::Token> tokens) {
      for (const specdec::Token token : tokens) {
        text += pair.tokenizer.decode(before, token);
        before = token;
      }
    };
    add(std::span(requests[i].prompt).subspan(1));
    add(outcome.texts[i].tokens);
    out << '[' << i << "] " << generate::printable(text) << "\n\n";
  }
}

double mean(const Outcome& outcome, double serve::Served::*time) {
  double sum = 0;
  for (const serve::Served& text : outcome.texts) sum += text.*time;
  return sum / static_cast<double>(outcome.texts.size());
}

void print_table(const Outcome& outcome) {
  using generate::fixed;
  const auto tokens = static_cast<double>(outcome.tokens()),
             calls = static_cast<double>(outcome.target_calls);
  std::cout << "texts               " << outcome.texts.size() << "\ntokens              " << outcome.tokens()
            << "\ntarget calls        " << outcome.target_calls << "\ntokens per call     "
            << fixed(tokens / calls, 2) << "\nfed per call        "
            << fixed(static_cast<double>(outcome.fed) / calls, 2) << "\ntime (ms)           "
            << fixed(1e3 * outcome.seconds, 0) << ", of a text "
            << fixed(1e3 * mean(outcome, &serve::Served::took), 0) << ", before it begins "
            << fixed(1e3 * mean(outcome, &serve::Served::waited), 0) << "; "
            << fixed(tokens / outcome.seconds, 0) << " tokens/s\n";
}

bool run(const Settings& settings) {
  const Pair pair = load(settings);
  const std::vector<Request> requests = requests_of(pair, settings);
  std::ofstream file;
  if (!settings.output.empty()) {
    file.open(settings.output, std::ios::binary);
    if (!file) throw std::runtime_error("cannot write to '" + settings.output + "'");
  }
  const Outcome outcome = serve_all(pair, settings, requests);
  print_texts(file.is_open() ? file : std::cout, pair, requests, outcome);
  if (file.is_open() && !file.flush()) throw std::runtime_error("cannot write to '" + settings.output + "'");
  print_table(outcome);
  if (!settings.check) return true;
  const Index different = differences(pair, settings, requests, outcome);
  std::cout << "texts that are not what they are alone: " << different << '\n';
  return different == 0;
}

/// Runs the program with the given arguments. Returns its exit status.
int serve_as_told(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Writes many texts at a time with two transformers, and says how fast.", "serve_batch"};
  app.footer("Example: serve_batch --requests 60 --batch 16 --arrivals 40");
  add_options(app, settings);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  }
  check(settings);
  return run(settings) ? 0 : 1;
}

int fail(std::string message, int status) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "serve_batch: " << message << '\n';
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = serve_as_told(argc, argv);
    return std::cout.flush() ? status : fail("cannot write to standard output", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 2);
  }
}
