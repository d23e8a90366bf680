// Real text in, real text out: trains two n-gram models on a book, lets the large one continue a prompt with
// the small one drafting for it, and compares the rules of verification on the same pair of models.
//
//   generate "The white whale "
//   generate --prompt "Call me " --verifier token --gamma 4 --draft-order 2 --text some_book.txt
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <random>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <specdec/specdec.hpp>

#ifndef SPECDEC_EXAMPLE_TEXT
#define SPECDEC_EXAMPLE_TEXT "examples/data/moby_dick.txt"
#endif

namespace {

using specdec::Index;
using specdec::NgramModel;
using specdec::Token;
using Tokens = std::vector<Token>;
using OnStep = std::function<void(std::span<const Token>)>;
using Generator = std::mt19937_64;

// ---- What can be set --------------------------------------------------------------------------------

struct Settings {
  std::string prompt = "The white whale ";
  std::string text = SPECDEC_EXAMPLE_TEXT;
  Index tokens = 400;
  Index gamma = 8;
  Index order = 6;
  Index draft_order = 3;
  std::string verifier = "block";
  Index seed = 1;
  Index table_tokens = 64000;
};

// ---- Bytes are tokens -------------------------------------------------------------------------------

constexpr Index bytes = 256;

Tokens encode(std::string_view text) {
  Tokens tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

// Control characters that a terminal might obey become question marks.
std::string decode(std::span<const Token> tokens) {
  std::string text;
  for (const Token x : tokens) {
    const bool control = (x < ' ' && x != '\n' && x != '\t') || x == 0x7f;
    text += control ? '?' : static_cast<char>(x);
  }
  return text;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) throw std::runtime_error("cannot read any text from '" + path + "'");
  return text.str();
}

// ---- The rules --------------------------------------------------------------------------------------

struct Models {
  NgramModel target, draft;
};

template <class Verifier>
specdec::Result with_draft_model(Models models, std::span<const Token> prompt,
                                 const specdec::Options& options, Generator& generator,
                                 const OnStep& on_step) {
  specdec::SpecDec decoder{models.target, specdec::ModelDrafter{models.draft}, Verifier{}};
  return decoder.generate(prompt, options, generator, on_step);
}

specdec::Result with_prompt_lookup(Models models, std::span<const Token> prompt,
                                   const specdec::Options& options, Generator& generator,
                                   const OnStep& on_step) {
  specdec::PromptLookupDrafter lookup{{.max_ngram = 3, .min_ngram = 1}};
  specdec::SpecDec decoder{models.target, lookup, specdec::BlockVerifier{}};
  return decoder.generate(prompt, options, generator, on_step);
}

template <class Verifier>
specdec::Result target_alone(Models models, std::span<const Token> prompt, const specdec::Options& options,
                             Generator& generator, const OnStep& on_step) {
  return specdec::autoregressive<Verifier>(models.target, prompt, options, generator, on_step);
}

struct Rule {
  std::string_view option;  // its name for --verifier, if it can be chosen
  std::string_view title;
  decltype(&with_prompt_lookup) generate;
};

constexpr std::array<Rule, 7> rules{{
    {"", "autoregressive", target_alone<specdec::BlockVerifier>},
    {"token", "token", with_draft_model<specdec::TokenVerifier>},
    {"block", "block", with_draft_model<specdec::BlockVerifier>},
    {"greedy-block", "greedy block", with_draft_model<specdec::GreedyBlockVerifier>},
    {"sample-match", "sample-match", with_draft_model<specdec::SampleMatchVerifier>},
    {"", "prompt lookup + block", with_prompt_lookup},
    {"argmax", "argmax", with_draft_model<specdec::ArgmaxVerifier>},
}};

const Rule& rule_named(std::string_view option) { return *std::ranges::find(rules, option, &Rule::option); }

// ---- The steps of the program -----------------------------------------------------------------------

Models train(const Settings& settings, std::string_view text) {
  const auto start = std::chrono::steady_clock::now();
  const auto target = NgramModel::train(encode(text), {.order = settings.order, .vocab_size = bytes});
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  std::cout << "Counted " << text.size() << " bytes of " << settings.text << " in " << std::fixed
            << std::setprecision(2) << time.count() << " s.\nTarget: order " << settings.order
            << ". Draft model: order " << settings.draft_order << ". A token is a byte.\n\n";
  return {target, target.with_order(settings.draft_order)};
}

void stream(const Settings& settings, const Models& models) {
  const Tokens prompt = encode(settings.prompt);
  const OnStep print = [](std::span<const Token> emitted) { std::cout << decode(emitted) << std::flush; };
  Generator generator(static_cast<Generator::result_type>(settings.seed));
  std::cout << decode(prompt);
  const auto result = rule_named(settings.verifier)
                          .generate(models, prompt, {settings.tokens, settings.gamma, {}}, generator, print);
  std::cout << "\n\n[" << settings.verifier << ": " << result.stats.emitted << " tokens in "
            << result.stats.target_calls << " target calls]\n\n";
}

// The prompt, and beginnings taken from all over the text.
std::vector<Tokens> prompts_of(const Settings& settings, std::string_view text) {
  constexpr std::size_t count = 16, length = 24;
  std::vector<Tokens> prompts{encode(settings.prompt)};
  for (std::size_t i = 1; i < count; ++i)
    prompts.push_back(encode(text.substr(text.size() / count * i, length)));
  return prompts;
}

// What a rule wrote after each of the prompts, and its counts over all of them.
struct Run {
  std::vector<Tokens> outputs;
  Index calls = 0, drafted = 0, accepted = 0, emitted = 0;
  double squares = 0;  // Σ (tokens of a step)²

  void add(specdec::Result result) {
    const specdec::Stats& stats = result.stats;
    calls += stats.target_calls;
    drafted += stats.drafted;
    accepted += stats.accepted;
    emitted += stats.emitted;
    for (std::size_t k = 0; k < stats.accepted_lengths.size(); ++k)
      squares += static_cast<double>(stats.accepted_lengths[k]) * std::pow(static_cast<double>(k + 1), 2);
    outputs.push_back(std::move(result.tokens));
  }

  double block_efficiency() const { return static_cast<double>(emitted) / static_cast<double>(calls); }
  double standard_error() const {
    const auto n = static_cast<double>(calls);
    return std::sqrt(std::max(squares / n - std::pow(block_efficiency(), 2), 0.0) / n);
  }
};

Run measure(decltype(Rule::generate) generate, const Settings& settings, const Models& models,
            const std::vector<Tokens>& prompts) {
  const auto count = static_cast<Index>(prompts.size());
  const specdec::Options options{(settings.table_tokens + count - 1) / count, settings.gamma, {}};
  Generator generator(static_cast<Generator::result_type>(settings.seed));
  Run run;
  for (const Tokens& prompt : prompts) run.add(generate(models, prompt, options, generator, [](auto) {}));
  return run;
}

void print_header() {
  std::cout << std::left << std::setw(22) << "rule" << std::right << std::setw(7) << "gamma" << std::setw(19)
            << "block efficiency" << std::setw(19) << "accepted fraction" << std::setw(29)
            << "target calls per 100 tokens" << '\n';
}

void print_row(const Rule& rule, const Run& run, Index gamma) {
  std::ostringstream efficiency, fraction;
  efficiency << std::fixed << std::setprecision(3) << run.block_efficiency() << " +- "
             << run.standard_error();
  fraction << std::fixed << std::setprecision(3)
           << static_cast<double>(run.accepted) / static_cast<double>(run.drafted);
  std::cout << std::left << std::setw(22) << rule.title << std::right << std::setw(7)
            << (run.drafted > 0 ? std::to_string(gamma) : "-") << std::setw(19) << efficiency.str()
            << std::setw(19) << (run.drafted > 0 ? fraction.str() : "-") << std::setw(29) << std::fixed
            << std::setprecision(1) << 100 / run.block_efficiency() << '\n';
}

// The table, and whether argmax verification wrote what greedy decoding with the target alone writes.
bool compare(const Settings& settings, const Models& models, const std::vector<Tokens>& prompts) {
  Run argmax;
  print_header();
  for (const Rule& rule : rules) {
    Run run = measure(rule.generate, settings, models, prompts);
    print_row(rule, run, settings.gamma);
    if (rule.option == "argmax") argmax = std::move(run);
  }
  const Run greedy = measure(target_alone<specdec::ArgmaxVerifier>, settings, models, prompts);
  const bool equal = argmax.outputs == greedy.outputs;
  std::cout << "\nBlock efficiency: tokens per target call, +- one standard error, over " << greedy.emitted
            << " tokens after " << prompts.size()
            << " prompts.\nArgmax output equals greedy decoding token for token: " << (equal ? "yes" : "NO")
            << '\n';
  return equal;
}

// ---- The command line -------------------------------------------------------------------------------

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  std::vector<std::string> names;
  for (const Rule& rule : rules)
    if (!rule.option.empty()) names.emplace_back(rule.option);
  app.add_option("prompt,--prompt", settings.prompt, "Text to continue");
  app.add_option("--text", settings.text, "File to train both models on")->check(CLI::ExistingFile);
  app.add_option("--tokens", settings.tokens, "Tokens (bytes) to write")->check(CLI::Range(1, 1000000));
  app.add_option("--gamma", settings.gamma, "Tokens drafted per target call")->check(CLI::Range(1, 64));
  app.add_option("--order", settings.order, "Order of the target: it sees order-1 bytes")
      ->check(CLI::Range(1, 12));
  app.add_option("--draft-order", settings.draft_order,
                 "Order of the draft model, at most that of the target")
      ->check(CLI::Range(1, 12));
  app.add_option("--verifier", settings.verifier, "Rule of the text that is written out")
      ->check(CLI::IsMember(names));
  app.add_option("--seed", settings.seed, "Seed of everything random")->check(CLI::Range(0, 1000000000));
  app.add_option("--table-tokens", settings.table_tokens,
                 "Tokens that each row of the table is measured over")
      ->check(CLI::Range(1000, 10000000));
}

void check(const Settings& settings) {
  if (settings.prompt.empty()) throw std::invalid_argument("--prompt is empty: there is nothing to continue");
  if (settings.draft_order > settings.order)
    throw std::invalid_argument("--draft-order " + std::to_string(settings.draft_order) +
                                " is above --order " + std::to_string(settings.order));
}

int fail(std::string message) {
  std::ranges::replace(message, '\n', ' ');
  std::cerr << "generate: " << message << '\n';
  return 2;
}

int run(const Settings& settings) {
  check(settings);
  const std::string text = read_file(settings.text);
  const Models models = train(settings, text);
  stream(settings, models);
  const bool equal = compare(settings, models, prompts_of(settings, text));
  return equal && std::cout.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app{
      "Continues a text by speculative decoding with n-gram models of a book, and compares the rules.",
      "generate"};
  app.footer("Example: generate \"The white whale \" --verifier token --gamma 4");
  add_options(app, settings);
  try {
    app.parse(argc, argv);
    return run(settings);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    return fail(error.what());
  }
}
