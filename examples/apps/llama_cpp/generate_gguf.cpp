// Continues a prompt by speculative decoding with two GGUF models on llama.cpp, and then with the target alone, to compare.
//
//   generate_gguf -m target.gguf -md draft.gguf -p "It was a bright" -n 256 --temp 0.8 --gamma 8
//   generate_gguf -m target.gguf -p "..."                 drafts by prompt lookup, without a second model
//   generate_gguf -m target.gguf -md draft.gguf --tree without-replacement      drafts that branch
//   generate_gguf -m target.gguf -md draft.gguf --grammar list.gbnf             text of a grammar
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <exception>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models.hpp>
#include <specdec/more/samplers.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../generate/text.hpp"
#include "any_llama.hpp"
#include "llama_grammar.hpp"
#include "program.hpp"
#include "trees.hpp"

namespace {

using specdec::Index;
using specdec::Token;
using Tokens = std::vector<Token>;
using generate::fixed;
using generate::printable;
using Clock = std::chrono::steady_clock;
using gguf::Chain;

// The grammar of the new text, if any.
struct Grammar {
  std::optional<specdec::AfterPrompt<LlamaGrammar>> grammar;

  void apply(auto&& logits) {
    if (grammar) grammar->apply(logits);
  }
  bool push(Token x) { return !grammar || grammar->push(x); }
  void pop(Index n) {
    if (grammar) grammar->pop(n);
  }
};
using Model = specdec::ProcessedModel<AnyLlama&, Chain, Grammar>;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  std::string model, draft_model;
  std::string prompt = "Once upon a time";
  Index tokens = 256;
  gguf::Sampling sampling;
  Index gamma = 8;
  std::string verifier = "block";
  std::string tree = "none";
  std::string grammar;
  Index seed = 1;
  gguf::Engine engine;

  bool greedy() const { return sampling.temperature == 0 || verifier == "argmax"; }

  // Whether drafted tokens are drawn. Rules that do not read draft probabilities get the likeliest tokens.
  bool draws() const {
    return sampling.temperature > 0 && verifier != "sample-match" && verifier != "argmax";
  }

  Chain chain() const { return sampling.chain(); }
  Chain draft_chain() const { return draws() ? chain() : gguf::Sampling::chain_of_all(0); }
  // For trees of the likeliest tokens. At temperature 0 a row has only one token, so temperature 1 is used.
  Chain choosing_chain() const {
    if (draws()) return draft_chain();
    return gguf::Sampling::chain_of_all(1);
  }

  // The draft tree; empty if drafts are linear.
  std::optional<gguf::Tree> drafted_tree() const {
    if (tree == "none") return {};
    return gguf::Tree(gguf::tree_kind_named(tree), gamma);
  }
};

std::vector<std::string> tree_names() {
  std::vector<std::string> names{"none"};
  for (const gguf::TreeKind& kind : gguf::tree_kinds) names.emplace_back(kind.option);
  return names;
}

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("-m,--model", settings.model, "GGUF file of the target")->required();
  app.add_option("--model-draft", settings.draft_model,
                 "GGUF file of the draft model, also -md; without one, drafts are looked up in the text");
  app.add_option("-p,--prompt", settings.prompt, "Text to continue");
  app.add_option("-n,--tokens", settings.tokens, "Tokens to write")->check(CLI::Range(1, 1000000));
  add_options(app, settings.sampling);
  app.add_option("--gamma", settings.gamma, "Tokens drafted per target call, one after another")
      ->check(CLI::Range(1, 64));
  app.add_option("--tree", settings.tree, "How the draft branches, in a tree of about 16 tokens")
      ->check(CLI::IsMember(tree_names()));
  app.add_option("--verifier", settings.verifier, "Rule of acceptance")
      ->check(CLI::IsMember({"token", "block", "greedy-block", "sample-match", "argmax"}));
  app.add_option("--grammar", settings.grammar,
                 "File with a grammar of llama.cpp (GBNF) that the text follows");
  app.add_option("--seed", settings.seed, "Seed of everything random")->check(CLI::Range(0, 1000000000));
  add_options(app, settings.engine);
}

/// Throws: std::invalid_argument if the settings do not go together.
void check(const Settings& settings) {
  const std::optional<gguf::Tree> tree = settings.drafted_tree();
  if (!tree) return;
  const std::string option = "--tree " + settings.tree;
  if (tree->kind().by_model && settings.draft_model.empty())
    throw std::invalid_argument(option + " needs a draft model (-md): without one, --tree suffix");
  if (!tree->kind().by_model && !settings.draft_model.empty())
    throw std::invalid_argument(option + " is looked up in the text, without the draft model of -md");
  const std::string_view objection =
      generate::objection(tree->kind().siblings, settings.verifier, settings.draws());
  if (!objection.empty()) throw std::invalid_argument(option + ": " + std::string(objection));
}

// ---- Models -----------------------------------------------------------------------------------------

struct Pair {
  AnyLlama target;
  std::optional<AnyLlama> draft;
  Tokens prompt;
  Grammar grammar;

  Model target_by(const Chain& chain) { return {target, chain, grammar}; }
  Model draft_by(const Chain& chain) { return {*draft, chain, grammar}; }
};

Grammar read_grammar(const std::string& path, const LlamaWeights& weights, Index prompt_size) {
  if (path.empty()) return {};
  std::ifstream file(path);
  const std::string gbnf{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error("'" + path + "' cannot be read");
  return {specdec::AfterPrompt{prompt_size, LlamaGrammar(weights, gbnf)}};
}

// The most tokens of the text. Greedy block verification may draft beyond the last token that is asked for.
Index longest_text(const Settings& settings, Index prompt_size) {
  return prompt_size + settings.tokens + (settings.verifier == "greedy-block" ? settings.gamma : 0);
}

// Makes a context for the text and for a tree after it.
AnyLlama open(const LlamaWeights& weights, const Settings& settings, Index text, const gguf::Room& tree,
              const specdec::ReplayedOptions& replayed = {}) {
  AnyLlama model(
      weights, {.context = text + tree.tokens, .threads = settings.engine.threads, .sequences = tree.leaves},
      replayed);
  const std::vector<Token> any{0};
  model.forward(any, 1);  // the first call of a context is slow
  model.truncate(0);
  return model;
}

Pair load(const Settings& settings) {
  const LlamaWeights target(settings.model, settings.engine.gpu_layers);
  Tokens prompt = target.tokenize(settings.prompt);
  if (prompt.empty()) throw std::invalid_argument("--prompt is empty: there is nothing to continue");
  const Index text = longest_text(settings, std::ssize(prompt));
  if (text > target.trained_context())
    throw std::length_error("-n " + std::to_string(settings.tokens) + " after a prompt of " +
                            std::to_string(prompt.size()) + " tokens needs a context of " +
                            std::to_string(text) + ", but '" + settings.model + "' was trained for " +
                            std::to_string(target.trained_context()));
  const std::optional<gguf::Tree> tree = settings.drafted_tree();
  std::optional<AnyLlama> draft;
  if (!settings.draft_model.empty()) {
    const LlamaWeights weights(settings.draft_model, settings.engine.gpu_layers);
    check_same_vocabulary(target, weights);
    draft = open(weights, settings, text, tree ? tree->of_draft() : gguf::Room{});
  }
  Grammar grammar = read_grammar(settings.grammar, target, std::ssize(prompt));
  return {open(target, settings, text, tree ? tree->of_target() : gguf::Room{}, {.snapshots = 1}),
          std::move(draft), std::move(prompt), std::move(grammar)};
}

// ---- Generation -------------------------------------------------------------------------------------

// The generated text and its speed. The first step reads the prompt, so the clock starts after it.
class Run {
 public:
  template <class Generate>
  explicit Run(const Settings& settings, Generate&& generate) {
    std::mt19937_64 generator(static_cast<std::mt19937_64::result_type>(settings.seed));
    Clock::time_point start;
    Index untimed = 0;
    result_ = generate(generator, [&](Index emitted) {
      if (untimed > 0) return;
      untimed = emitted;
      start = Clock::now();
    });
    const std::chrono::duration<double> time = Clock::now() - start;
    rate_ = static_cast<double>(result_.stats.emitted - untimed) / time.count();
  }

  const Tokens& tokens() const { return result_.tokens; }
  const specdec::Stats& stats() const { return result_.stats; }
  double tokens_per_second() const { return rate_; }

 private:
  specdec::Result result_;
  double rate_;
};

// Calls f with the named verifier.
template <class F>
auto with_verifier(std::string_view name, F&& f) {
  if (name == "token") return f(specdec::TokenVerifier{});
  if (name == "greedy-block") return f(specdec::GreedyBlockVerifier{});
  if (name == "sample-match") return f(specdec::SampleMatchVerifier{});
  if (name == "argmax") return f(specdec::ArgmaxVerifier{});
  return f(specdec::BlockVerifier{});
}

// Calls f with the drafter of linear drafts.
template <class F>
auto with_drafter(const Settings& settings, Pair& pair, F&& f) {
  if (!pair.draft) return f(specdec::PromptLookupDrafter{});
  return f(specdec::ModelDrafter{pair.draft_by(settings.draft_chain())});
}

// Calls f with the drafter of trees.
template <class F>
auto with_tree_drafter(const gguf::Tree& tree, const Settings& settings, Pair& pair, F&& f) {
  if (!pair.draft) return f(gguf::FromText{tree.depth()});
  return gguf::with_model_drafter(tree, pair.draft_by(settings.draft_chain()),
                                  pair.draft_by(settings.choosing_chain()), settings.draws(), f);
}

// Calls f with drafter and rule.
template <class F>
auto with_method(const Settings& settings, Pair& pair, F&& f) {
  if (const std::optional<gguf::Tree> tree = settings.drafted_tree())
    return with_tree_drafter(*tree, settings, pair, [&](auto drafter) {
      return f(drafter, generate::tree_rule(tree->kind().siblings, settings.verifier));
    });
  return with_drafter(settings, pair, [&](auto drafter) {
    return with_verifier(settings.verifier, [&](auto verifier) { return f(drafter, verifier); });
  });
}

specdec::Options options_of(const Settings& settings, const Pair& pair) {
  const std::optional<gguf::Tree> tree = settings.drafted_tree();
  return {settings.tokens, tree ? tree->nodes() : settings.gamma, pair.target.weights().end_tokens()};
}

// Writes the text, and prints it while it grows.
Run speculate(const Settings& settings, Pair& pair) {
  const LlamaWeights& weights = pair.target.weights();
  const auto generate = [&](auto& generator, auto on_emitted, auto& drafter, const auto& verifier) {
    specdec::SpecDec decoder{pair.target_by(settings.chain()), drafter, verifier};
    return decoder.generate(pair.prompt, options_of(settings, pair), generator,
                            [&](std::span<const Token> emitted) {
                              for (const Token x : emitted) std::cout << printable(weights.text(x));
                              std::cout << std::flush;
                              on_emitted(std::ssize(emitted));
                            });
  };
  std::cout << printable(settings.prompt) << std::flush;
  return Run(settings, [&](auto& generator, auto on_emitted) {
    return with_method(settings, pair, [&](auto& drafter, const auto& verifier) {
      return generate(generator, on_emitted, drafter, verifier);
    });
  });
}

Run target_alone(const Settings& settings, Pair& pair) {
  Model target = pair.target_by(settings.chain());
  return Run(settings, [&](auto& generator, auto on_emitted) {
    const auto on_step = [&](std::span<const Token> emitted) { on_emitted(std::ssize(emitted)); };
    const specdec::Options options = options_of(settings, pair);
    if (settings.greedy())
      return specdec::autoregressive<specdec::ArgmaxVerifier>(target, pair.prompt, options, generator,
                                                              on_step);
    return specdec::autoregressive(target, pair.prompt, options, generator, on_step);
  });
}

// ---- What is reported -------------------------------------------------------------------------------

constexpr int name_width = 48;

// Names the draft and the rule, for the table.
std::string method(const Settings& settings) {
  std::string drafted = settings.draft_model.empty() ? "prompt lookup, " : "";
  if (const auto tree = settings.drafted_tree())
    drafted = settings.tree + " tree of " + std::to_string(tree->nodes()) + ", ";
  return drafted + settings.verifier + ", gamma " + std::to_string(settings.gamma);
}

void print_row(const std::string& name, const Run& run, const Run& baseline) {
  const specdec::Stats& stats = run.stats();
  std::cout << std::left << std::setw(name_width) << name << std::right << std::setw(8) << stats.emitted
            << std::setw(14) << stats.target_calls << std::setw(18) << fixed(stats.block_efficiency(), 3)
            << std::setw(19) << (stats.drafted > 0 ? fixed(stats.accepted_fraction(), 3) : "-")
            << std::setw(12) << fixed(run.tokens_per_second(), 1) << std::setw(10)
            << fixed(run.tokens_per_second() / baseline.tokens_per_second(), 2) << '\n';
}

void print_table(const Settings& settings, const Run& baseline, const Run& run) {
  std::cout << "\n\n"
            << std::left << std::setw(name_width) << "" << std::right << std::setw(8) << "tokens"
            << std::setw(14) << "target calls" << std::setw(18) << "block efficiency" << std::setw(19)
            << "accepted fraction" << std::setw(12) << "tokens/s" << std::setw(10) << "speed-up" << '\n';
  print_row("autoregressive", baseline, baseline);
  print_row(method(settings), run, baseline);
}

// With a grammar the target's own logits cannot explain why two texts differ, so only the place is printed.
void compare_by_grammar(const LlamaWeights& weights, const Tokens& alone, const Tokens& speculative) {
  const auto [left, right] = std::ranges::mismatch(alone, speculative);
  const auto name = [&](const Tokens& text, Tokens::const_iterator at) {
    return at == text.end() ? std::string("its end") : "'" + std::string(printable(weights.text(*at))) + "'";
  };
  if (left == alone.end() && right == speculative.end()) std::cout << "yes\n";
  else
    std::cout << "no, they part at token " << left - alone.begin() << ": " << name(alone, left) << " or "
              << name(speculative, right) << '\n';
}

// Two greedy texts may differ by rounding: llama.cpp rounds differently for several tokens in a call than for one. Then the
// two tokens have nearly equal logits.
void compare_greedy(Pair& pair, const Tokens& alone, const Tokens& speculative) {
  std::cout << "\nThe output equals autoregressive decoding token for token: ";
  if (pair.grammar.grammar) return compare_by_grammar(pair.target.weights(), alone, speculative);
  const auto parting = specdec::testing::explain_divergence(pair.target, pair.prompt, alone, speculative);
  if (parting.kind == specdec::testing::Divergence::Kind::none) {
    std::cout << "yes\n";
    return;
  }
  std::cout << "no: " << parting;
  if (parting.position >= 0)
    std::cout << " (" << printable(pair.target.weights().text(parting.left)) << " or "
              << printable(pair.target.weights().text(parting.right)) << ")";
  std::cout << '\n';
}

int run(const Settings& settings) {
  check(settings);
  if (!settings.engine.verbose) gguf::keep_first_error();
  Pair pair = load(settings);
  const Run speculative = speculate(settings, pair);
  const Run alone = target_alone(settings, pair);
  print_table(settings, alone, speculative);
  if (settings.greedy()) compare_greedy(pair, alone.tokens(), speculative.tokens());
  return std::cout.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Continues a text by speculative decoding with GGUF models on llama.cpp.", "generate_gguf"};
  app.footer("Example: generate_gguf -m target.gguf -md draft.gguf -p \"It was a bright\" --temp 0.8");
  add_options(app, settings);
  return gguf::run_as_told(app, argc, argv, [&] { return run(settings); });
}
