// Writes many texts at a time with llama.cpp: each call of the target and of the draft model serves all texts. Prints the
// speed with and without drafts, for each given number of texts at a time.
//
//   serve_gguf -m target.gguf -md draft.gguf --prompts prompts.txt --batch 8
//   serve_gguf -m target.gguf -md draft.gguf --batch 1 2 4 8 --gamma 1 3 --rounds 3 --output texts.txt
//   serve_gguf -m target.gguf --temp 0 --check
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../generate/text.hpp"
#include "../serve/costs.hpp"
#include "../serve/server.hpp"
#include "llama_batch.hpp"
#include "llama_model.hpp"
#include "program.hpp"

#ifndef SPECDEC_EXAMPLES
#define SPECDEC_EXAMPLES "examples"
#endif

namespace {

using generate::fixed;
using generate::printable;
using serve::Index;
using serve::Outcome;
using serve::Request;
using serve::Tokens;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  std::string model, draft_model;
  std::string prompts = SPECDEC_EXAMPLES "/data/prompts.txt";
  std::string output;
  std::optional<Index> requests;
  std::vector<Index> batches{8};
  std::vector<std::string> gammas{"3"};
  Index tokens = 100;
  gguf::Sampling sampling;
  std::optional<Index> tokens_per_call;
  Index seed = 1;
  Index rounds = 1;
  bool check = false;
  gguf::Engine engine;

  bool drafts() const { return !draft_model.empty(); }
};

// The draft of each text: `gamma` tokens, or, if automatic, the number up to `gamma` that is best by the costs of calls.
struct Drafts {
  Index gamma = 0;
  bool automatic = false;

  std::string name() const { return automatic ? "auto" : gamma > 0 ? std::to_string(gamma) : "none"; }
};

Drafts drafts_named(const std::string& gamma) {
  if (gamma == "auto") return {8, true};
  return {std::stoi(gamma, nullptr, 0), false};
}

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("-m,--model", settings.model, "GGUF file of the target")->required();
  CLI::Option* draft =
      app.add_option("--model-draft", settings.draft_model,
                     "GGUF file of the draft model, also -md; without one, nothing is drafted");
  app.add_option("--prompts", settings.prompts, "File of prompts, one a line");
  app.add_option("--output", settings.output, "File to write the texts to; default: standard output");
  app.add_option("--requests", settings.requests,
                 "Texts to write, each after the next prompt in turn; default: one for each prompt")
      ->check(CLI::Range(1, 100000));
  app.add_option("--batch", settings.batches, "The most texts to write at a time; several numbers may follow")
      ->check(CLI::Range(1, 256));
  app.add_option("--gamma", settings.gammas,
                 "Tokens drafted for each text per target call, or 'auto' for the number up to 8 that gives "
                 "the most tokens per second at the measured costs of calls; several may follow")
      ->check(CLI::IsMember({"auto"}) | CLI::Range(1, 64))
      ->needs(draft);
  app.add_option("-n,--tokens", settings.tokens, "The most tokens of a text")->check(CLI::Range(1, 1000000));
  add_options(app, settings.sampling);
  app.add_option("--tokens-per-call", settings.tokens_per_call,
                 "The most tokens of a target call: long prompts are fed piece by piece")
      ->check(CLI::Range(1, 1000000));
  app.add_option("--seed", settings.seed, "Seed of the first text; text i has this seed plus i")
      ->check(CLI::Range(0, 1000000000));
  app.add_option("--rounds", settings.rounds, "How often to serve all texts; the fastest round counts")
      ->check(CLI::Range(1, 1000));
  app.add_flag("--check", settings.check, "Write every text again, alone, and report whether it is the same");
  add_options(app, settings.engine);
}

// The ways to serve, in turn: without drafts, and with each draft length.
std::vector<Drafts> methods(const Settings& settings) {
  std::vector<Drafts> methods{{}};
  if (settings.drafts())
    for (const std::string& gamma : settings.gammas) methods.push_back(drafts_named(gamma));
  return methods;
}

/// Throws: std::invalid_argument if the settings do not go together.
void check(const Settings& settings) {
  for (const Drafts& drafts : methods(settings)) {
    if (settings.tokens_per_call && *settings.tokens_per_call <= drafts.gamma)
      throw std::invalid_argument("--tokens-per-call " + std::to_string(*settings.tokens_per_call) +
                                  " has no room for a draft of " + std::to_string(drafts.gamma) +
                                  " tokens and one more");
    if (settings.check && drafts.automatic)
      throw std::invalid_argument(
          "--check needs a draft length that does not depend on times: give --gamma a number");
  }
}

// ---- What is served ---------------------------------------------------------------------------------

struct Work {
  LlamaWeights target;
  std::optional<LlamaWeights> draft;
  std::vector<Request> requests;
  Index longest_text = 0;  // in tokens, with its prompt
  specdec::Options options;
};

std::vector<Tokens> read_prompts(const LlamaWeights& weights, const std::string& path) {
  std::ifstream file(path);
  std::vector<Tokens> prompts;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) prompts.push_back(weights.tokenize(line));
  if (prompts.empty()) throw std::runtime_error("cannot read any prompt from '" + path + "'");
  return prompts;
}

/// Throws: std::length_error if the longest text does not fit into the context that the target was trained for.
Work load(const Settings& settings) {
  Work work{LlamaWeights(settings.model, settings.engine.gpu_layers), {}, {}, 0, {}};
  if (settings.drafts()) {
    work.draft.emplace(settings.draft_model, settings.engine.gpu_layers);
    check_same_vocabulary(work.target, *work.draft);
  }
  const std::vector<Tokens> prompts = read_prompts(work.target, settings.prompts);
  work.requests.resize(settings.requests ? static_cast<std::size_t>(*settings.requests) : prompts.size());
  for (std::size_t i = 0; i < work.requests.size(); ++i) {
    work.requests[i].prompt = prompts[i % prompts.size()];
    work.longest_text = std::max(work.longest_text, std::ssize(work.requests[i].prompt) + settings.tokens);
  }
  if (work.longest_text > work.target.trained_context())
    throw std::length_error("-n " + std::to_string(settings.tokens) +
                            " after the longest prompt needs a context of " +
                            std::to_string(work.longest_text) + ", but '" + settings.model +
                            "' was trained for " + std::to_string(work.target.trained_context()));
  work.options = {.max_new_tokens = settings.tokens, .stop_tokens = work.target.end_tokens()};
  return work;
}

specdec::Options options_of(const Work& work, const Drafts& drafts) {
  specdec::Options options = work.options;
  options.gamma = drafts.gamma;
  return options;
}

// Makes a context for `sequences` texts, and calls it once.
LlamaBatch open(const LlamaWeights& weights, const Settings& settings, const Work& work, Index sequences) {
  constexpr Index measured = 128;  // a context long enough for measuring the costs of calls
  LlamaBatch model(weights, {.sequences = sequences,
                             .context = std::max(work.longest_text, measured),
                             .threads = settings.engine.threads});
  serve::make_contexts(model, sequences);
  return model;
}

Outcome serve_all(const Settings& settings, const Work& work, Index texts, const Drafts& drafts) {
  const Index most = std::min<Index>(texts, std::ssize(work.requests));
  const gguf::Chain chain = settings.sampling.chain();
  const specdec::BatchOptions room{.tokens_per_call = settings.tokens_per_call.value_or(specdec::unlimited)};
  LlamaBatch large = open(work.target, settings, work, most);
  specdec::ProcessedModel target{large, chain};
  const auto run = [&](auto&& batch) {
    specdec::InOrder in_order;
    return serve::run(batch, work.requests, most, options_of(work, drafts),
                      static_cast<std::uint64_t>(settings.seed), in_order);
  };
  if (drafts.gamma == 0)
    return run(specdec::Batch{target, specdec::NoDrafter{}, specdec::BlockVerifier{}, room});
  LlamaBatch small = open(*work.draft, settings, work, most);
  specdec::ModelDrafter drafter{specdec::ProcessedModel{small, chain}};
  if (!drafts.automatic) return run(specdec::Batch{target, drafter, specdec::BlockVerifier{}, room});
  specdec::CostOptimalLength length{
      specdec::BatchCosts{serve::target_costs(large, most, drafts.gamma), serve::draft_costs(small, most)}};
  return run(specdec::Batch{target, drafter, specdec::BlockVerifier{}, length, room});
}

// One way to serve all texts, and its fastest round.
struct Row {
  Index texts = 0;
  Drafts drafts;
  Outcome outcome;

  double tokens_per_second() const { return static_cast<double>(outcome.tokens()) / outcome.seconds; }
};

// ---- Whether a text is what it is alone -------------------------------------------------------------

// ---- Whether a text is what it is alone -------------------------------------------------------------

/// A model with random errors of up to `most` in its logits. It imitates llama.cpp, which rounds differently for calls of
/// another shape.
class Rounding {
 public:
  Rounding(LlamaModel& model, float most, std::uint64_t seed)
      : model_(&model), scale_(2 * most), generator_(seed) {}

  Index vocab_size() const { return model_->vocab_size(); }
  Index context_size() const { return model_->context_size(); }
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, Index rows) {
    const auto exact = model_->forward(tokens, rows);
    logits_.clear();
    for (Index i = 0; i < rows; ++i)
      for (Index x = 0; x < vocab_size(); ++x)
        logits_.push_back(exact.row(i)[x] +
                          scale_ * (static_cast<float>(specdec::uniform01(generator_)) - 0.5f));
    pointers_.clear();
    for (Index i = 0; i < rows; ++i) pointers_.push_back(logits_.data() + i * vocab_size());
    return {pointers_, vocab_size()};
  }
  void truncate(Index length) { model_->truncate(length); }

 private:
  LlamaModel* model_;
  float scale_;
  serve::Generator generator_;
  std::vector<float> logits_;
  std::vector<const float*> pointers_;
};

/// Writes the texts one by one, with models for one sequence.
class Alone {
 public:
  Alone(const Settings& settings, const Work& work)
      : settings_(&settings), work_(&work), target_(open(work.target)) {
    if (work.draft) draft_.emplace(open(*work.draft));
  }

  struct Differences {
    Index count = 0, unexplained = 0;
  };

  /// Counts the texts that differ from the text written alone, and those of them that rounding cannot explain. Prints a line
  /// for each.
  Differences differences(const Row& row, std::ostream& out) {
    const std::vector<Tokens>& alone = texts(row.drafts);
    Differences differences;
    for (std::size_t i = 0; i < alone.size(); ++i) {
      const Tokens& text = row.outcome.texts[i].tokens;
      if (alone[i] == text) continue;
      const bool explained = written_with_rounding(i, row.drafts, text);
      ++differences.count;
      differences.unexplained += !explained;
      out << "text " << i << " of " << row.texts << " at a time, drafted " << row.drafts.name() << ": "
          << parting(work_->requests[i].prompt, alone[i], text) << (explained ? ", by rounding" : "") << '\n';
    }
    return differences;
  }

 private:
  LlamaModel open(const LlamaWeights& weights) const {
    return {weights, {.context = work_->longest_text, .threads = settings_->engine.threads}};
  }

  const std::vector<Tokens>& texts(const Drafts& drafts) {
    std::vector<Tokens>& texts = texts_[drafts.gamma];
    while (texts.size() < work_->requests.size())
      texts.push_back(write<LlamaModel&>(texts.size(), drafts, target_, draft_));
    return texts;
  }

  /// Whether random errors of at most 0.01 in the logits can lead to this text. If they can, one of a few tries finds it:
  /// large errors change the text where it differs, and small errors leave it unchanged elsewhere.
  bool written_with_rounding(std::size_t number, const Drafts& drafts, const Tokens& text) {
    constexpr std::array most{0.01f, 0.005f, 0.0025f};
    for (std::uint64_t seed = 0; seed < 60; ++seed)
      for (const float off : most) {
        std::optional<Rounding> draft;
        if (draft_) draft.emplace(*draft_, off, seed + 1000);
        if (write<Rounding>(number, drafts, Rounding(target_, off, seed), draft) == text) return true;
      }
    return false;
  }

  template <class Model, class Draft>
  Tokens write(std::size_t number, const Drafts& drafts, Model target, std::optional<Draft>& draft) const {
    const gguf::Chain chain = settings_->sampling.chain();
    auto generator =
        serve::generator_of(static_cast<std::uint64_t>(settings_->seed), static_cast<Index>(number));
    const auto generate = [&](auto drafter) {
      specdec::SpecDec decoder{specdec::ProcessedModel{target, chain}, std::move(drafter)};
      return decoder.generate(work_->requests[number].prompt, options_of(*work_, drafts), generator).tokens;
    };
    if (drafts.gamma == 0) return generate(specdec::NoDrafter{});
    return generate(specdec::ModelDrafter{specdec::ProcessedModel{*draft, chain}});
  }

  // Says where the two texts differ first, and by which tokens.
  std::string parting(Tokens context, const Tokens& alone, const Tokens& other) {
    const auto [a, b] = std::ranges::mismatch(alone, other);
    std::string told = "parts at token " + std::to_string(a - alone.begin() + 1);
    if (a == alone.end() || b == other.end()) return told;
    context.insert(context.end(), alone.begin(), a);
    target_.truncate(0);
    const auto logits = target_.forward(context, 1).row(0);
    const auto named = [&](specdec::Token x) {
      return "'" + printable(work_->target.text(x)) + "' of logit " + fixed(logits[x], 4);
    };
    return told + " with " + named(*b) + ", alone " + named(*a);
  }

  const Settings* settings_;
  const Work* work_;
  LlamaModel target_;
  std::optional<LlamaModel> draft_;
  std::map<Index, std::vector<Tokens>> texts_;  // by draft length
};

// ---- What is reported -------------------------------------------------------------------------------

void print_texts(std::ostream& out, const Work& work, const Outcome& outcome) {
  for (std::size_t i = 0; i < work.requests.size(); ++i) {
    std::string text;
    for (const specdec::Token x : work.requests[i].prompt) text += work.target.text(x);
    for (const specdec::Token x : outcome.texts[i].tokens) text += work.target.text(x);
    out << '[' << i << "] " << printable(text) << "\n\n";
  }
}

std::vector<Row> serve_in_turns(const Settings& settings, const Work& work) {
  std::vector<Row> rows;
  for (const Index texts : settings.batches)
    for (const Drafts& drafts : methods(settings)) rows.push_back({texts, drafts, {}});
  for (Index round = 0; round < settings.rounds; ++round)
    for (Row& row : rows) {
      Outcome outcome = serve_all(settings, work, row.texts, row.drafts);
      if (round == 0 || outcome.seconds < row.outcome.seconds) row.outcome = std::move(outcome);
    }
  return rows;
}

void print_table(const std::vector<Row>& rows) {
  const auto print = [](const auto&... cells) {
    ((std::cout << std::setw(17) << cells), ...);
    std::cout << '\n';
  };
  print("texts at a time", "drafted", "tokens", "target calls", "tokens per call", "fed per call", "tokens/s",
        "of no draft");
  const Row* alone = nullptr;  // without drafts
  for (const Row& row : rows) {
    if (row.drafts.gamma == 0) alone = &row;
    const auto calls = static_cast<double>(row.outcome.target_calls);
    print(row.texts, row.drafts.name(), row.outcome.tokens(), row.outcome.target_calls,
          fixed(static_cast<double>(row.outcome.tokens()) / calls, 2),
          fixed(static_cast<double>(row.outcome.fed) / calls, 2), fixed(row.tokens_per_second(), 0),
          fixed(row.tokens_per_second() / alone->tokens_per_second(), 2));
  }
}

bool same_as_alone(const Settings& settings, const Work& work, const std::vector<Row>& rows) {
  Alone alone(settings, work);
  Index different = 0, unexplained = 0;
  for (const Row& row : rows) {
    const auto [count, more] = alone.differences(row, std::cout);
    different += count;
    unexplained += more;
  }
  std::cout << "texts that are not what they are alone: " << different << " of "
            << std::ssize(rows) * std::ssize(work.requests) << ", and " << unexplained
            << " for more than rounding\n";
  return unexplained == 0;
}

int run(const Settings& settings) {
  check(settings);
  if (!settings.engine.verbose) gguf::keep_first_error();
  const Work work = load(settings);
  std::ofstream file;
  if (!settings.output.empty()) {
    file.open(settings.output, std::ios::binary);
    if (!file) throw std::runtime_error("cannot write to '" + settings.output + "'");
  }
  const std::vector<Row> rows = serve_in_turns(settings, work);
  print_texts(file.is_open() ? file : std::cout, work, rows.back().outcome);
  if (file.is_open() && !file.flush()) throw std::runtime_error("cannot write to '" + settings.output + "'");
  print_table(rows);
  const bool same = !settings.check || same_as_alone(settings, work, rows);
  return std::cout.flush() && same ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Writes many texts at a time with GGUF models on llama.cpp, and says how fast.", "serve_gguf"};
  app.footer("Example: serve_gguf -m target.gguf -md draft.gguf --batch 1 4 --gamma 2");
  add_options(app, settings);
  return gguf::run_as_told(app, argc, argv, [&] { return run(settings); });
}
