// Real text in, real text out: a transformer continues a prompt with a smaller one drafting for it, and the rules
// of verification are compared on the same pair of models.
//
//   generate "The white whale"
//   generate --prompt "Call me" --verifier token --gamma 4 --temperature 0
//   generate --target-layers 64 --table-tokens 50
//   generate --model stories15M.bin --draft-model stories260K.bin --tokenizer tok512.bin
//   generate --ngram --text some_book.txt --order 6 --draft-order 3
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "generate/comparison.hpp"
#include "generate/ngram_pair.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/transformer_pair.hpp"

#ifndef SPECDEC_EXAMPLES
#define SPECDEC_EXAMPLES "examples"
#endif

namespace {

using generate::Index;
using generate::Tokens;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  std::string prompt = "The white whale";
  std::string model = SPECDEC_EXAMPLES "/transformer/weights/target.bin";
  std::string draft_model = SPECDEC_EXAMPLES "/transformer/weights/draft.bin";
  std::string tokenizer = SPECDEC_EXAMPLES "/transformer/weights/tokenizer.bin";
  bool half = false;
  std::optional<Index> target_layers;

  bool ngram = false;
  std::string text = SPECDEC_EXAMPLES "/data/moby_dick.txt";
  Index order = 6;
  Index draft_order = 3;

  double temperature = 0.8;
  Index gamma = 3;
  std::string verifier = "block";
  Index tokens = 300;
  Index seed = 1;

  std::string prompts = SPECDEC_EXAMPLES "/data/prompts.txt";
  Index table_tokens = 200;
};

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("prompt,--prompt", settings.prompt, "Text to continue");
  app.add_option("--temperature", settings.temperature, "Of both models; 0 takes the most probable token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--gamma", settings.gamma, "Tokens drafted per target call")->check(CLI::Range(1, 64));
  std::vector<std::string> names;
  for (const auto& rule : generate::rules<generate::NgramLogits>)
    if (!rule.option.empty()) names.emplace_back(rule.option);
  app.add_option("--verifier", settings.verifier, "Rule of the text that is written out")
      ->check(CLI::IsMember(names));
  app.add_option("--tokens", settings.tokens, "Tokens to write")->check(CLI::Range(1, 1000000));
  app.add_option("--seed", settings.seed, "Seed of everything random")->check(CLI::Range(0, 1000000000));

  const std::string models = "Transformers";
  app.add_option("--model", settings.model, "Checkpoint of the target, as llama2.c writes them")
      ->group(models);
  app.add_option("--draft-model", settings.draft_model, "Checkpoint of the draft model")->group(models);
  app.add_option("--tokenizer", settings.tokenizer, "Their tokenizer.bin")->group(models);
  app.add_flag("--half", settings.half, "Keep the weights in half precision")->group(models);
  app.add_option("--target-layers", settings.target_layers,
                 "Layers to give the target: it computes the same, at the cost of a model of that depth")
      ->check(CLI::Range(1, 100000))
      ->group(models);

  const std::string ngrams = "N-gram models";
  CLI::Option* ngram =
      app.add_flag("--ngram", settings.ngram, "Use these in place of transformers")->group(ngrams);
  for (CLI::Option* option : app.get_options([&](const CLI::Option* o) { return o->get_group() == models; }))
    option->excludes(ngram);
  app.add_option("--text", settings.text, "File to train both models on")->group(ngrams);
  app.add_option("--order", settings.order, "Order of the target: it sees order-1 bytes")
      ->check(CLI::Range(1, 12))
      ->group(ngrams);
  app.add_option("--draft-order", settings.draft_order,
                 "Order of the draft model, at most that of the target")
      ->check(CLI::Range(1, 12))
      ->group(ngrams);

  const std::string table = "Table";
  app.add_option("--prompts", settings.prompts, "File of prompts that the rules are compared on, one a line")
      ->group(table);
  app.add_option("--table-tokens", settings.table_tokens, "Tokens that are written after each; 0: no table")
      ->check(CLI::Range(0, 1000000))
      ->group(table);
}

// ---- The steps of the program -----------------------------------------------------------------------

template <class M>
void stream(generate::Pair<M>& pair, const Settings& settings) {
  const Tokens prompt = pair.encode(settings.prompt);
  generate::Token last = prompt.back();
  const generate::OnStep print = [&](std::span<const generate::Token> emitted) {
    std::cout << text_of(pair, last, emitted) << std::flush;
    last = emitted.back();
  };
  generate::Generator generator(static_cast<generate::Generator::result_type>(settings.seed));
  std::cout << settings.prompt;
  const generate::Job job{prompt, {settings.tokens, settings.gamma, pair.stop_tokens}, settings.temperature};
  const auto result = generate::rule_named<M>(settings.verifier).generate(pair, job, generator, print);
  std::cout << "\n\n[" << settings.verifier << ": " << result.stats.emitted << " tokens in "
            << result.stats.target_calls << " target calls"
            << (result.stop_reason == specdec::StopReason::context ? "; the context is full" : "") << "]\n";
}

template <class M>
std::vector<Tokens> read_prompts(const generate::Pair<M>& pair, const std::string& path) {
  std::ifstream file(path);
  std::vector<Tokens> prompts;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) prompts.push_back(pair.encode(line));
  if (prompts.empty()) throw std::runtime_error("cannot read any prompt from '" + path + "'");
  return prompts;
}

template <class M>
bool run(generate::Pair<M> pair, const Settings& settings) {
  std::cout << pair.description << '\n';
  stream(pair, settings);
  if (settings.table_tokens == 0) return true;
  std::cout << '\n';
  return compare(pair, read_prompts(pair, settings.prompts),
                 {settings.table_tokens, settings.gamma, pair.stop_tokens}, settings.temperature,
                 settings.seed);
}

template <class Scalar>
bool run_transformers(const Settings& settings) {
  return run(generate::transformer_pair<Scalar>(settings.model, settings.draft_model, settings.tokenizer,
                                                settings.target_layers),
             settings);
}

bool run(const Settings& settings) {
  if (settings.prompt.empty()) throw std::invalid_argument("--prompt is empty: there is nothing to continue");
  if (settings.ngram)
    return run(generate::ngram_pair(settings.text, settings.order, settings.draft_order), settings);
  return settings.half ? run_transformers<Eigen::half>(settings) : run_transformers<float>(settings);
}

int fail(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "generate: " << message << '\n';
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Continues a text by speculative decoding with two transformers, and compares the rules.",
               "generate"};
  app.footer("Example: generate \"The white whale\" --verifier token --gamma 4");
  add_options(app, settings);
  try {
    app.parse(argc, argv);
    return run(settings) && std::cout.flush() ? 0 : 1;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
