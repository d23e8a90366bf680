// What the page calls in WebAssembly. Texts are UTF-8 and end with a NUL; they live until the next call.
// SPDX-License-Identifier: MIT
#include <optional>
#include <string>

#include "web/engine/engine.hpp"

#define EXPORT(name) extern "C" __attribute__((export_name(#name)))

namespace {

std::optional<web::Engine> engine;
std::string prompt, answer;

const char* answer_with(std::string text) {
  answer = std::move(text);
  return answer.c_str();
}

}  // namespace

/// Reads the models. They must be in the folder "/models".
EXPORT(load) const char* load() { return answer_with(engine.emplace("/models").describe()); }

/// Where the page writes the bytes of the next prompt.
EXPORT(room_for_prompt) char* room_for_prompt(int bytes) {
  prompt.assign(static_cast<std::size_t>(bytes), ' ');
  return prompt.data();
}

EXPORT(begin)
const char* begin(double temperature, int rule, int drafter, int gamma, int automatic, int tokens,
                  unsigned seed) {
  return answer_with(engine->begin(prompt, {.temperature = temperature,
                                            .rule = static_cast<web::RuleKind>(rule),
                                            .drafter = static_cast<web::DrafterKind>(drafter),
                                            .gamma = gamma,
                                            .automatic = automatic != 0,
                                            .tokens = tokens,
                                            .seed = seed}));
}

EXPORT(step) const char* step() { return answer_with(engine->step()); }
