// The common parts of the programs over llama.cpp: options, sampling and error messages.
// SPDX-License-Identifier: MIT
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <iostream>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

namespace gguf {

using specdec::Index;
using Chain = specdec::Chain<specdec::TopK, specdec::TopP, specdec::MinP, specdec::Temperature>;

/// The sampling settings.
struct Sampling {
  double temperature = 0.8;
  Index top_k = 40;
  double top_p = 0.95;
  double min_p = 0.05;

  /// The sampling steps, in llama.cpp's order. At temperature 0 the other steps are left out: they never change the
  /// likeliest token.
  Chain chain() const {
    if (temperature == 0) return chain_of_all(0);
    return Chain{specdec::TopK{top_k}, specdec::TopP{top_p}, specdec::MinP{min_p},
                 specdec::Temperature{temperature}};
  }
  /// Temperature only: samples from the whole vocabulary.
  static Chain chain_of_all(double temperature) {
    return Chain{specdec::TopK{0}, specdec::TopP{1}, specdec::MinP{0}, specdec::Temperature{temperature}};
  }
};

inline void add_options(CLI::App& app, Sampling& sampling) {
  app.add_option("--temp", sampling.temperature, "Temperature; 0 always takes the likeliest token")
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-k", sampling.top_k, "Tokens to sample from; 0: all")->check(CLI::Range(0, 10000000));
  app.add_option("--top-p", sampling.top_p, "Mass to sample from")->check(CLI::Range(0.001, 1.0));
  app.add_option("--min-p", sampling.min_p, "Least probability, relative to the likeliest token")
      ->check(CLI::Range(0.0, 1.0));
}

/// Settings of llama.cpp itself.
struct Engine {
  int threads = 1;
  int gpu_layers = 0;
  bool verbose = false;
};

inline void add_options(CLI::App& app, Engine& engine) {
  app.add_option("--threads", engine.threads, "Threads of llama.cpp")->check(CLI::Range(1, 1024));
  app.add_option("--gpu-layers", engine.gpu_layers, "Layers that llama.cpp puts on a GPU")
      ->check(CLI::Range(0, 10000));
  app.add_flag("--verbose", engine.verbose, "Let llama.cpp write its log to stderr");
}

/// The arguments in the reversed order that CLI11 wants. It replaces -md, llama.cpp's name for --model-draft, because CLI11
/// would read it as -m with the value "d".
inline std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  std::ranges::replace(arguments, "-md", "--model-draft");
  std::ranges::reverse(arguments);
  return arguments;
}

/// The first error message of llama.cpp. Later ones say less.
inline std::string first_error;

inline void keep_first_error() {
  constexpr auto keep = [](ggml_log_level level, const char* text, void*) {
    if (level == GGML_LOG_LEVEL_ERROR && first_error.empty()) first_error = text;
  };
  llama_log_set(keep, nullptr);
}

/// Prints the reason of a failure in one line. Returns the exit status.
inline int fail(const std::string& program, std::string message) {
  if (!first_error.empty()) message += "; llama.cpp says: " + first_error;
  while (message.ends_with('\n')) message.pop_back();
  std::ranges::replace(message, '\n', ' ');
  std::cerr << program << ": " << message << '\n';
  return 2;
}

/// Reads the arguments and calls `run`. Returns the exit status.
template <class Run>
int run_as_told(CLI::App& app, int argc, char** argv, const Run& run) {
  try {
    app.parse(arguments(argc, argv));
    return run();
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const std::exception& error) {
    return fail(app.get_name(), error.what());
  }
}

}  // namespace gguf
