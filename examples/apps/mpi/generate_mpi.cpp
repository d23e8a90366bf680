// Writes a text with a target whose output layer is spread over MPI ranks. The ranks exchange a few numbers per call,
// independent of the size of the vocabulary, and all write one text.
//
//   mpirun -n 4 generate_mpi --prompt "The white whale"
// SPDX-License-Identifier: MIT
#include <CLI/CLI.hpp>
#include <cstddef>
#include <exception>
#include <iomanip>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/more/ranks/mpi.hpp>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "transformer/columns.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"
#include "transformer/weights.hpp"

namespace {

using specdec::Index, specdec::Token;
using Weights = transformer::Weights<float>;

struct Settings {
  std::string prompt = "The white whale";
  Index tokens = 100;
  Index gamma = 4;
  double temperature = 0.8;
  Index top_k = 0;
  double top_p = 1;
  double repeat_penalty = 1;
  Index seed = 1;
  bool seed_of_rank = false;
};

void add_options(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  app.add_option("--prompt", settings.prompt, "What the text is to continue");
  app.add_option("--tokens", settings.tokens, "Tokens to write, at most")->check(CLI::Range(1, 1000000));
  app.add_option("--gamma", settings.gamma, "Tokens drafted per target call")->check(CLI::Range(0, 64));
  app.add_option("--temperature", settings.temperature, "Of both models; 0 takes the most probable token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", settings.top_k, "Sample from so many tokens; 0: from all")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--top-p", settings.top_p, "Sample from the fewest tokens of so much mass")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--repeat-penalty", settings.repeat_penalty,
                 "Divide the logits above 0 of tokens that occur, and multiply the others, by so much")
      ->check(CLI::Range(0.1, 100.0));
  app.add_option("--seed", settings.seed, "Seed of all that is random")->check(CLI::Range(0, 1000000000));
  app.add_flag("--seed-of-rank", settings.seed_of_rank,
               "Add the rank's number to its seed: the ranks find out, and stop");
}

// A communicator that counts the exchanged numbers.
struct Counted {
  Index rank() const { return inner.rank(); }
  Index size() const { return inner.size(); }
  void all_gather(std::span<const double> mine, std::span<double> all) {
    ++exchanges;
    numbers += std::ssize(mine);
    inner.all_gather(mine, all);
  }

  specdec::MpiCommunicator inner;
  Index exchanges = 0, numbers = 0;
};

// Whether all ranks wrote equal tokens.
bool all_alike(Counted& ranks, const std::vector<Token>& tokens) {
  const std::vector<double> mine(tokens.begin(), tokens.end());
  std::vector<double> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  ranks.inner.all_gather(mine, all);
  for (std::size_t k = 0; k < all.size(); ++k)
    if (all[k] != mine[k % mine.size()]) return false;
  return true;
}

void print(const Settings& settings, const transformer::Tokenizer& tokenizer, const specdec::Result& result) {
  std::cout << settings.prompt;
  Token before = tokenizer.encode(settings.prompt).back();
  for (const Token token : result.tokens) std::cout << tokenizer.decode(std::exchange(before, token), token);
  std::cout << "\n\n";
}

void print_counts(const Counted& ranks, const specdec::Stats& stats, Index vocab_size, Index gamma) {
  const auto per_call = [&](Index count) {
    return static_cast<double>(count) / static_cast<double>(stats.target_calls);
  };
  const Index columns = transformer::tokens_of_rank(vocab_size, 0, ranks.size()).count;
  std::cout << stats.emitted << " tokens in " << stats.target_calls
            << " target calls; ranks: " << ranks.size() << ", with " << columns << " of " << vocab_size
            << " columns\n"
            << std::fixed << std::setprecision(1) << "a call: " << per_call(ranks.exchanges)
            << " exchanges, and " << per_call(ranks.numbers)
            << " numbers from each rank; its part of the rows would be " << (gamma + 1) * columns << '\n';
}

void generate(const Settings& settings, Counted& ranks) {
  const std::string folder = SPECDEC_EXAMPLES "/transformer/weights/";
  Weights whole = Weights::read(folder + "target.bin");
  const Index vocab_size = whole.shape.vocab_size;
  const transformer::Tokenizer tokenizer(folder + "tokenizer.bin", vocab_size);
  const auto seed = static_cast<unsigned>(settings.seed + (settings.seed_of_rank ? ranks.rank() : 0));

  transformer::Columns<float> mine(std::move(whole),
                                   transformer::tokens_of_rank(vocab_size, ranks.rank(), ranks.size()));
  const specdec::Chain chain{specdec::Temperature{settings.temperature}, specdec::TopK{settings.top_k},
                             specdec::TopP{settings.top_p}};
  const specdec::RepetitionPenalty penalty{settings.repeat_penalty};
  specdec::ShardedModel target{specdec::ProcessedModel{mine, penalty}, ranks, std::mt19937_64{seed + 1u},
                               chain};
  transformer::Transformer<float> small(folder + "draft.bin");
  specdec::SpecDec decoder{target, specdec::ModelDrafter{specdec::ProcessedModel{small, chain, penalty}},
                           specdec::BlockVerifier{}};
  std::mt19937_64 rng(seed);
  const specdec::Result result = decoder.generate(
      tokenizer.encode(settings.prompt), {.max_new_tokens = settings.tokens, .gamma = settings.gamma}, rng);

  const bool alike = all_alike(ranks, result.tokens);
  if (ranks.rank() == 0) {
    print(settings, tokenizer, result);
    print_counts(ranks, result.stats, vocab_size, settings.gamma);
    std::cout << "all ranks wrote this text: " << (alike ? "yes" : "no") << std::endl;
  }
  if (!alike) throw std::runtime_error("the ranks wrote different texts");
}

// Prints the error, or the help text, on rank 0 only. All ranks return the status.
int say(const CLI::App& app, const CLI::Error& error, Index rank) {
  std::ostringstream nowhere;
  std::ostream& out = rank == 0 ? std::cout : nowhere;
  if (error.get_exit_code() == 0) return app.exit(error, out, out);
  (rank == 0 ? std::cerr : nowhere) << "generate_mpi: " << error.what() << std::endl;
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    Counted ranks;
    Settings settings;
    CLI::App app{"Text from a target whose output layer is spread over the ranks of MPI."};
    add_options(app, settings);
    try {
      app.parse(argc, argv);
      generate(settings, ranks);
    } catch (const CLI::Error& error) {
      status = say(app, error, ranks.rank());
    }
  } catch (const std::exception& error) {
    std::cerr << "generate_mpi: " + std::string(error.what()) + "\n" << std::flush;
    MPI_Abort(MPI_COMM_WORLD, 1);  // the other ranks may wait for this one
  }
  MPI_Finalize();
  return status;
}
