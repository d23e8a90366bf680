// Continues a prompt by speculative decoding: one transformer writes, and a smaller one drafts. Then it compares
// verification rules, drafters, draft lengths or draft trees on this pair of models.
//
//   generate "The white whale" --show-rejected
//   generate --prompt "Call me" --verifier token --gamma 4 --temperature 0
//   generate --temperature 0 --table-tokens 0 --svg picture.svg
//   generate --tokens 400 --table-tokens 0 --audit
//   generate --drafter suffix --gamma auto --compare drafters
//   generate --compare lengths --most-gamma 6 --rounds 5
//   generate --tree spares --tree-widths 6,4,3,3 --compare trees
//   generate --drafter intersection --compare vocabularies
//   generate --target-layers 64 --table-tokens 50
//   generate --model stories15M.bin --draft-model stories260K.bin --tokenizer tok512.bin
//   generate --ngram --text some_book.txt --order 6 --draft-order 3
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/audited.hpp"
#include "generate/comparison.hpp"
#include "generate/drafters.hpp"
#include "generate/last_draft.hpp"
#include "generate/ngram_pair.hpp"
#include "generate/other_tokenizers.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/shown_text.hpp"
#include "generate/svg.hpp"
#include "generate/terminal.hpp"
#include "generate/transformer_pair.hpp"
#include "generate/tree_rules.hpp"
#include "generate/tree_ways.hpp"
#include "generate/trees.hpp"
#include "generate/way.hpp"
#include "generate/window.hpp"

#ifndef SPECDEC_EXAMPLES
#define SPECDEC_EXAMPLES "examples"
#endif

namespace {

using generate::Index;
using generate::Tokens;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  static constexpr Index usual = 3;  ///< drafted tokens, where calls are not measured

  std::string prompt = "The white whale";
  std::string model = SPECDEC_EXAMPLES "/transformer/weights/target.bin";
  std::string draft_model = SPECDEC_EXAMPLES "/transformer/weights/draft.bin";
  std::string tokenizer = SPECDEC_EXAMPLES "/transformer/weights/tokenizer.bin";
  std::string other_model = SPECDEC_EXAMPLES "/transformer/weights/draft512.bin";
  std::string other_tokenizer = SPECDEC_EXAMPLES "/transformer/weights/tokenizer512.bin";
  std::string speculator = SPECDEC_EXAMPLES "/transformer/weights/speculator.bin";
  std::string eagle = SPECDEC_EXAMPLES "/transformer/weights/eagle.bin";
  std::string medusa = SPECDEC_EXAMPLES "/transformer/weights/medusa.bin";
  bool half = false;
  std::optional<Index> target_layers;

  bool ngram = false;
  std::string text = SPECDEC_EXAMPLES "/data/moby_dick.txt";
  Index order = 6;
  Index draft_order = 3;

  double temperature = 0.8;
  std::string drafter = "model";
  std::optional<Index> exit_layer;
  std::vector<std::string> skip;
  std::optional<Index> draft_window;
  std::string gamma = "auto";
  bool gamma_given = false;  // if not, trees and the table have 3
  std::optional<Index> most_gamma;
  std::string verifier = "block";
  std::string tree = "none";
  std::vector<Index> tree_widths;
  std::optional<Index> tree_nodes;
  Index tokens = 300;
  Index seed = 1;

  std::string compare = "rules";
  std::string prompts = SPECDEC_EXAMPLES "/data/prompts.txt";
  Index table_tokens = 200;
  Index rounds = 1;

  bool show = false;
  bool show_rejected = false;
  std::string color = "auto";
  std::string svg;
  bool audit = false;

  bool drafts_with_others() const {
    return compare == "vocabularies" || of_another_vocabulary(generate::drafter_named(drafter));
  }
  /// The files of the heads that draft, or that are compared; shipped heads are compared only on the shipped target.
  generate::HeadFiles heads() const {
    const Settings shipped;
    const auto file = [&](std::string_view name, const std::string& path, const std::string& own) {
      const bool compared = compare == "drafters" && (model == shipped.model || path != own);
      return drafter == name || compared ? std::optional(path) : std::nullopt;
    };
    return {file("speculator", speculator, shipped.speculator), file("eagle", eagle, shipped.eagle),
            file("medusa", medusa, shipped.medusa)};
  }
  /// Without --skip, the shipped target skips the sublayer that it misses least, and another target nothing.
  generate::OwnLayers own_layers() const {
    const bool chosen = skip.empty() && model == Settings{}.model;
    return {exit_layer, chosen ? std::vector<std::string>{"f2"} : skip};
  }
  bool shows() const { return show || show_rejected; }
  Index most() const { return most_gamma.value_or(compare == "trees" ? 4 : 16); }
  generate::Gamma draft_length() const {
    if (drafter == "none") return {false, 0};
    if (!gamma_given && tree != "none") return {false, usual};
    if (gamma == "auto" || gamma == "early") return {true, most(), gamma == "early"};
    return {false, std::stoi(gamma, nullptr, 0)};
  }
  /// The draft length of the table's ways.
  generate::Gamma table_length() const {
    return gamma_given || drafter == "none" ? draft_length() : generate::Gamma{false, usual};
  }
  /// The draft tree of the text that is written out; empty if drafts are linear.
  std::optional<generate::Tree> drafted_tree() const {
    if (tree == "none") return {};
    const generate::TreeKind& kind = generate::tree_kind_named(tree);
    if (!tree_widths.empty()) return generate::tree_of(kind, tree_widths);
    if (gamma == "early" && !tree_nodes) return generate::largest_tree(kind, most());
    if (tree_nodes) return generate::tree_of(kind, *tree_nodes, draft_length().most);
    return generate::usual_tree(kind, draft_length().most);
  }
};

template <class Named>
std::vector<std::string> options_of(const Named& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.emplace_back(one.option);
  return names;
}

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("prompt,--prompt", settings.prompt, "Text to continue");
  app.add_option("--temperature", settings.temperature, "Of both models; 0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--drafter", settings.drafter, "What drafts")
      ->check(CLI::IsMember(options_of(generate::drafters)));
  app.add_option("--exit-layer", settings.exit_layer,
                 "Layer of the target after which early-exit drafts; by default half of the layers")
      ->check(CLI::Range(1, 100000));
  app.add_option(
         "--skip", settings.skip,
         "What skip-layers leaves out of drafts, as a3,f4: the attention of layer 3, the feed-forward "
         "network of layer 4; there is a default for the shipped target")
      ->delimiter(',');
  app.add_option("--draft-window", settings.draft_window,
                 "Feed the draft model only this many tokens: the first 4 and the latest")
      ->check(CLI::Range(generate::shown_first + 1, Index{1000000}));
  CLI::Option* gamma =
      app.add_option(
             "--gamma", settings.gamma,
             "Tokens drafted per target call, one after another; 'auto' for the number that is measured "
             "to be fastest here (without --gamma, trees and the table draft 3); 'early' to go on while the "
             "draft model's rows promise enough, also for --tree "
             "confident, without-replacement and independent")
          ->check(CLI::IsMember({"auto", "early"}) | CLI::Range(1, 64));
  app.add_option("--most-gamma", settings.most_gamma,
                 "The most tokens that 'auto' and 'early' may draft; default 16")
      ->check(CLI::Range(1, 64));
  app.add_option("--verifier", settings.verifier, "Verification rule of the text that is written")
      ->check(CLI::IsMember(options_of(generate::rules)));
  std::vector<std::string> trees = options_of(generate::tree_kinds);
  trees.emplace_back("none");
  app.add_option("--tree", settings.tree, "How the draft of the text that is written branches")
      ->check(CLI::IsMember(trees));
  app.add_option("--tree-widths", settings.tree_widths,
                 "Children of each node, by depth, as 4,2,1; for 'spares', of each node of the trunk")
      ->delimiter(',')
      ->check(CLI::Range(1, 64))
      ->excludes(gamma);
  app.add_option("--tree-nodes", settings.tree_nodes,
                 "Tokens of a tree that takes its shape as it grows; default 16")
      ->check(CLI::Range(1, 256));
  app.add_option("--tokens", settings.tokens, "Tokens to write")->check(CLI::Range(1, 1000000));
  app.add_option("--seed", settings.seed, "Seed of everything random")->check(CLI::Range(0, 1000000000));

  const std::string models = "Transformers";
  app.add_option("--model", settings.model, "Checkpoint of the target, in the format of llama2.c")
      ->group(models);
  app.add_option("--draft-model", settings.draft_model, "Checkpoint of the draft model")->group(models);
  app.add_option("--tokenizer", settings.tokenizer, "The tokenizer.bin of both models")->group(models);
  app.add_option(
         "--other-model", settings.other_model,
         "Checkpoint of a draft model with another tokenizer, for --drafter intersection or retokenized")
      ->group(models);
  app.add_option("--other-tokenizer", settings.other_tokenizer, "The tokenizer.bin of --other-model")
      ->group(models);
  app.add_option("--speculator", settings.speculator,
                 "Head on the target's hidden states, for --drafter speculator")
      ->group(models);
  app.add_option("--eagle", settings.eagle, "Layer on the target's hidden states, for --drafter eagle")
      ->group(models);
  app.add_option("--medusa", settings.medusa, "Heads on the target's last state, for --drafter medusa")
      ->group(models);
  app.add_flag("--half", settings.half,
               "Keep all weights in half precision. Without it, those of drafters are, if this program reads "
               "halves faster than floats")
      ->group(models);
  app.add_option("--target-layers", settings.target_layers,
                 "Layers to give the target: its output stays, its cost is that of a model of this depth")
      ->check(CLI::Range(1, 100000))
      ->group(models);

  const std::string ngrams = "N-gram models";
  CLI::Option* ngram =
      app.add_flag("--ngram", settings.ngram, "Use n-gram models in place of transformers")->group(ngrams);
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
  app.add_option(
         "--compare", settings.compare,
         "What the table compares: all rules with the drafter, all drafters under the rule, drafters of "
         "other vocabularies, fixed draft lengths and 'auto', or trees of up to 16 tokens, lines, "
         "and both in the sizes that 'auto' chooses")
      ->check(CLI::IsMember(options_of(generate::topics)))
      ->group(table);
  app.add_option("--prompts", settings.prompts, "File of prompts to compare on, one a line")->group(table);
  app.add_option("--table-tokens", settings.table_tokens, "Tokens to write after each prompt; 0: no table")
      ->check(CLI::Range(0, 1000000))
      ->group(table);
  app.add_option("--rounds", settings.rounds, "Times to go over the prompts, each with another seed")
      ->check(CLI::Range(1, 100000))
      ->group(table);

  const std::string seeing = "Seeing it work";
  app.add_flag("--show", settings.show,
               "Mark accepted, correction and bonus tokens, by colours where --color allows")
      ->group(seeing);
  app.add_flag("--show-rejected", settings.show_rejected,
               "Like --show, and print rejected drafts before the tokens that replaced them")
      ->group(seeing);
  app.add_option("--color", settings.color,
                 "Colours of --show: 'auto' uses them on a terminal only, and never if NO_COLOR is set")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->group(seeing);
  app.add_flag(
         "--audit", settings.audit,
         "Read the text again with both models, and say whether it is the target's; exit status 1 if not")
      ->group(seeing);
  app.add_option("--svg", settings.svg, "SVG file to draw the text to, in the colours of --show")
      ->group(seeing);
}

/// Throws: std::invalid_argument on tree settings that do not go together.
void check_tree(const Settings& settings) {
  const bool tree = settings.tree != "none";
  const bool sized = tree && generate::tree_kind_named(settings.tree).size == generate::Size::nodes;
  if (!settings.tree_widths.empty() && (!tree || sized))
    throw std::invalid_argument("--tree-widths is for a --tree with a fixed shape");
  if (settings.tree_nodes && !sized)
    throw std::invalid_argument("--tree-nodes is for a --tree that takes its shape as it grows");
  if (!tree && settings.compare != "trees") return;
  const std::string option = tree ? "--tree " + settings.tree : "--compare trees";
  if (settings.ngram)
    throw std::invalid_argument(option + " needs models that take trees, which n-grams (--ngram) do not");
  if (settings.draft_window)
    throw std::invalid_argument(option + " needs models that take trees, which a --draft-window does not");
  if (settings.drafter != "model" && !generate::drafts_with_head(settings.drafter))
    throw std::invalid_argument(
        option + " drafts with the draft model, or from the text, not with --drafter " + settings.drafter);
  if (settings.verifier == "greedy-block")
    throw std::invalid_argument(option +
                                ": greedy block verification judges lines, no trees: --verifier block");
  if (!tree) return;
  if (settings.gamma == "early" && settings.tree != "confident" &&
      generate::tree_kind_named(settings.tree).siblings != generate::Siblings::drawn)
    throw std::invalid_argument(
        "--gamma early is for lines and for trees that grow by the draft model's rows, not for " + option);
  if (settings.gamma_given && settings.gamma == "auto")
    throw std::invalid_argument("--gamma auto is for lines, not for " + option);
  const bool draws =
      generate::draft_temperature(generate::rule_named(settings.verifier), settings.temperature) > 0;
  const std::string_view objection =
      generate::objection(generate::tree_kind_named(settings.tree).siblings, settings.verifier, draws);
  if (!objection.empty()) throw std::invalid_argument(option + ": " + std::string(objection));
}

/// Throws: std::invalid_argument on settings that do not go together.
void check(const Settings& settings) {
  if (settings.prompt.empty()) throw std::invalid_argument("--prompt is empty: there is nothing to continue");
  if (!(settings.temperature >= 0))  // CLI::Range accepts a NaN
    throw std::invalid_argument("--temperature: nan is not in the range 0 to 100");
  if (settings.audit && settings.temperature == 0)
    throw std::invalid_argument("--audit is for a --temperature above 0: it looks at what was drawn");
  if (settings.color != "auto" && !settings.shows())
    throw std::invalid_argument("--color is for --show or --show-rejected");
  if (settings.most_gamma && !settings.draft_length().automatic && settings.compare != "lengths" &&
      settings.compare != "trees")
    throw std::invalid_argument(
        "--most-gamma is a limit for --gamma auto or early, --compare lengths or trees");
  if (settings.exit_layer && settings.drafter != "early-exit" && settings.compare != "drafters")
    throw std::invalid_argument("--exit-layer is for --drafter early-exit or --compare drafters");
  if (!settings.skip.empty() && settings.drafter != "skip-layers" && settings.compare != "drafters")
    throw std::invalid_argument("--skip is for --drafter skip-layers or --compare drafters");
  if (settings.drafter == "skip-layers" && settings.own_layers().left_out.empty())
    throw std::invalid_argument("--drafter skip-layers needs --skip for this target");
  if (settings.drafter == "none" && settings.compare == "lengths")
    throw std::invalid_argument("--compare lengths needs a drafter, not --drafter none");
  if (settings.ngram && settings.drafts_with_others())
    throw std::invalid_argument("models of other vocabularies draft for transformers, not for --ngram");
  const std::string_view objection =
      generate::objection(generate::rule_named(settings.verifier), generate::drafter_named(settings.drafter));
  if (!objection.empty())
    throw std::invalid_argument("--drafter " + settings.drafter + " --verifier " + settings.verifier + ": " +
                                std::string(objection));
  const std::string_view early =
      generate::objection(generate::rule_named(settings.verifier), settings.draft_length());
  if (!early.empty())
    throw std::invalid_argument("--gamma early --verifier " + settings.verifier + ": " + std::string(early));
  check_tree(settings);
}

// ---- The steps of the program -----------------------------------------------------------------------

/// Throws: std::invalid_argument if the target's context is too short for the text; the message calls the text `name`.
Tokens encoded(const generate::Pair& pair, const std::string& text, const std::string& name) {
  Tokens tokens = pair.encode(text);
  const Index most = pair.target->context_size();
  if (std::ssize(tokens) > most)
    throw std::invalid_argument(name + " has " + std::to_string(tokens.size()) +
                                " tokens, but the target's context holds " + std::to_string(most));
  return tokens;
}

std::vector<Tokens> read_prompts(const generate::Pair& pair, const std::string& path) {
  std::ifstream file(path);
  std::vector<Tokens> prompts;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (!line.empty())
      prompts.push_back(encoded(pair, line, "line " + std::to_string(number) + " of '" + path + "'"));
  }
  if (prompts.empty()) throw std::runtime_error("cannot read any prompt from '" + path + "'");
  return prompts;
}

/// The way to write the text that is written out.
generate::Way way_of(const Settings& settings) {
  return {"", &generate::rule_named(settings.verifier), &generate::drafter_named(settings.drafter),
          settings.draft_length(), settings.drafted_tree()};
}

/// Everything that may fail because of the user's settings. It is made before anything is printed.
struct Prepared {
  Tokens prompt;
  std::vector<Tokens> prompts;  // for the table
  generate::Way way;
  std::unique_ptr<generate::Length> length;
  std::unique_ptr<generate::LastDraft> last;
  generate::Writer write;
  std::ofstream picture;
};

Prepared prepare(generate::Pair& pair, const Settings& settings) {
  Prepared prepared{.prompt = encoded(pair, settings.prompt, "--prompt"),
                    .prompts = {},
                    .way = way_of(settings),
                    .length = {},
                    .last = std::make_unique<generate::LastDraft>(),
                    .write = {},
                    .picture = {}};
  prepared.length = prepared.way.policy();
  prepared.write = writer(prepared.way, pair, {settings.temperature, settings.own_layers()}, *prepared.length,
                          prepared.last.get());
  if (settings.table_tokens > 0) {
    prepared.prompts = read_prompts(pair, settings.prompts);
    if (settings.compare == "drafters" && pair.early_exit) {
      pair.early_exit(settings.own_layers());
      pair.skip_layers(settings.own_layers());
    }
  }
  if (!settings.svg.empty()) {
    prepared.picture.open(settings.svg, std::ios::binary);
    if (!prepared.picture) throw std::runtime_error("cannot write to '" + settings.svg + "'");
  }
  return prepared;
}

/// Names the draft length or the draft tree, for the notes below a picture.
std::string drafted(const Settings& settings) {
  const generate::Gamma gamma = settings.draft_length();
  if (const auto tree = settings.drafted_tree())
    return "tree " + settings.tree + (gamma.automatic ? ", auto" : " of " + std::to_string(tree->nodes));
  return "\u03b3 = " + (gamma.automatic ? settings.gamma : std::to_string(gamma.most));
}

/// Names the models and the drafter, for the notes below a picture.
std::string models(const Settings& settings) {
  const Settings shipped;
  if (!settings.ngram && settings.model == shipped.model && settings.draft_model == shipped.draft_model &&
      settings.drafter == "model")
    return "the shipped pair of transformers";
  const auto name = [](const std::string& path) { return std::filesystem::path(path).filename().string(); };
  const std::string target = settings.ngram
                                 ? std::to_string(settings.order) + "-grams of " + name(settings.text)
                                 : name(settings.model);
  const std::string draft =
      settings.ngram ? std::to_string(settings.draft_order) + "-grams" : name(settings.draft_model);
  return "target " + target + ", drafts by " + (settings.drafter == "model" ? draft : settings.drafter);
}

/// `counted`: how many tokens were written in how many target calls.
void draw(std::ofstream& picture, const generate::ShownText& text, const std::string& counted,
          const Settings& settings) {
  std::ostringstream how;
  how << counted << ": " << generate::rule_named(settings.verifier).title << " verification, "
      << drafted(settings) << ", T = " << settings.temperature;
  picture << svg(text, settings.show_rejected,
                 {.title = "Speculative decoding of a text after: " + settings.prompt,
                  .notes = {how.str(), models(settings)}});
  if (!picture.flush()) throw std::runtime_error("cannot write to '" + settings.svg + "'");
}

/// Says how much was drafted where that was measured.
std::string by_cost(const specdec::Stats& stats) {
  const double calls = static_cast<double>(stats.target_calls);
  return "; by what calls cost here, " + generate::fixed(static_cast<double>(stats.drafted) / calls, 1) +
         " tokens drafted a call";
}

/// Returns false if an audit was asked for, and convicts the text.
bool stream(generate::Pair& pair, const Settings& settings, Prepared& prepared) {
  generate::ShownText text(settings.prompt, prepared.prompt.back(), pair.decode);
  generate::Printer printer(std::cout, settings.shows() && generate::colors(settings.color),
                            settings.show_rejected);
  const generate::OnStep print = [&](std::span<const generate::Token> emitted) {
    printer.print(text.add(emitted, prepared.last->drafted, prepared.last->verdict));
  };
  generate::Generator generator(static_cast<generate::Generator::result_type>(settings.seed));
  const generate::Job job{
      prepared.prompt, {settings.tokens, prepared.way.most(), pair.stop_tokens}, settings.temperature};

  printer.print(text.pieces());
  const auto result = prepared.write(job, generator, print);
  const std::string counted = std::to_string(result.stats.emitted) + " tokens in " +
                              std::to_string(result.stats.target_calls) + " target calls";
  printer.end();
  if (settings.shows()) printer.print_legend(text.counts());
  std::cout << '[' << (prepared.way.tree ? settings.tree + ", " : "") << settings.verifier << ": " << counted
            << (prepared.way.gamma.automatic && !prepared.way.tree ? by_cost(result.stats) : "")
            << (result.stop_reason == specdec::StopReason::context ? "; the context is full" : "") << "]\n";
  if (!settings.svg.empty()) draw(prepared.picture, text, counted, settings);
  if (!settings.audit) return true;
  const auto report = generate::audited(pair, settings.temperature, prepared.prompt, result.tokens);
  std::cout << "[audit: " << report << "]\n";
  return !report.convicts(1e-6);
}

std::vector<generate::Way> ways(generate::Pair& pair, const Settings& settings,
                                const generate::Texts& texts) {
  const generate::Rule& rule = generate::rule_named(settings.verifier);
  const generate::DrafterKind& drafter = generate::drafter_named(settings.drafter);
  if (settings.compare == "vocabularies") return vocabulary_ways(rule, settings.table_length());
  if (settings.compare == "drafters") return drafter_ways(pair, rule, settings.table_length(), texts);
  if (settings.compare == "lengths") return length_ways(rule, drafter, settings.most());
  if (settings.compare == "trees")
    return generate::TreeWays(pair, rule, drafter, texts).up_to(settings.most());
  return rule_ways(drafter, settings.table_length(), settings.most(), settings.temperature);
}

bool run(generate::Pair pair, const Settings& settings) {
  Prepared prepared = prepare(pair, settings);
  std::cout << pair.description << '\n';
  const bool passed = stream(pair, settings, prepared);
  if (settings.table_tokens == 0 || !passed) return passed;
  std::cout << '\n';
  const generate::Texts texts{
      .prompts = std::move(prepared.prompts),
      .options = {.max_new_tokens = settings.table_tokens, .stop_tokens = pair.stop_tokens},
      .temperature = settings.temperature,
      .seed = settings.seed,
      .rounds = settings.rounds,
      .own_layers = settings.own_layers()};
  return compare(pair, *std::ranges::find(generate::topics, settings.compare, &generate::Topic::option),
                 ways(pair, settings, texts), texts);
}

generate::Pair load_pair(const Settings& settings) {
  if (settings.ngram) return generate::ngram_pair(settings.text, settings.order, settings.draft_order);
  generate::TransformerFiles files{.target = settings.model,
                                   .draft = settings.draft_model,
                                   .tokenizer = settings.tokenizer,
                                   .target_layers = settings.target_layers,
                                   .half = settings.half,
                                   .heads = settings.heads()};
  if (!settings.drafts_with_others()) return transformer_pair(files);
  files.other = settings.other_model;
  files.other_tokenizer = settings.other_tokenizer;
  generate::Pair pair = transformer_pair(files);
  pair.bytes = generate::byte_model(settings.text);
  return pair;
}

generate::Pair load(const Settings& settings) {
  generate::Pair pair = load_pair(settings);
  if (settings.draft_window)
    pair.draft = std::make_shared<generate::WindowedModel>(pair.draft, *settings.draft_window);
  return pair;
}

/// Runs the program with the given arguments. Returns its exit status.
int generate_as_told(int argc, char** argv) {
  Settings settings;
  CLI::App app{"Continues a text by speculative decoding with two transformers, and compares the rules.",
               "generate"};
  app.footer("Example: generate \"The white whale\" --show-rejected --verifier token --gamma 4");
  add_options(app, settings);
  try {
    app.parse(argc, argv);
    settings.gamma_given = app.count("--gamma") > 0;
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  }
  check(settings);
  return run(load(settings), settings) ? 0 : 1;
}

int fail(std::string message, int status) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "generate: " << message << '\n';
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = generate_as_told(argc, argv);
    return std::cout.flush() ? status : fail("cannot write to standard output", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 2);
  }
}
