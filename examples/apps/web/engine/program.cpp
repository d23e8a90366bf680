// Writes a text as the page does, and prints what the page would be told: a line of JSON for the prompt, and one for each
// block. The test of the page compares these lines.
//
//   program MODELS PROMPT TEMPERATURE RULE DRAFTER GAMMA AUTOMATIC TOKENS SEED
//
// RULE and DRAFTER are the numbers of a web::RuleKind and a web::DrafterKind.
// SPDX-License-Identifier: MIT
#include <cstdlib>
#include <iostream>

#include "web/engine/engine.hpp"

int main(int argc, char** argv) {
  if (argc != 10) {
    std::cerr << "program MODELS PROMPT TEMPERATURE RULE DRAFTER GAMMA AUTOMATIC TOKENS SEED\n";
    return 2;
  }
  const auto number = [&](int k) { return std::atoi(argv[k]); };
  web::Engine engine(argv[1]);
  std::cout << engine.begin(argv[2], {.temperature = std::atof(argv[3]),
                                      .rule = static_cast<web::RuleKind>(number(4)),
                                      .drafter = static_cast<web::DrafterKind>(number(5)),
                                      .gamma = number(6),
                                      .automatic = number(7) != 0,
                                      .tokens = number(8),
                                      .seed = static_cast<unsigned>(number(9))})
            << '\n';
  while (!engine.done()) std::cout << engine.step() << '\n';
}
