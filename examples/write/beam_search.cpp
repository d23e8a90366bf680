// Beam search over the shipped transformer, with the small one searching ahead: the texts of plain beam search, in fewer
// calls.
// SPDX-License-Identifier: MIT
#include <cstddef>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <specdec/more/search/beam_search.hpp>
#include <specdec/sample/processed_model.hpp>
#include <specdec/sample/steps/temperature.hpp>
#include <string>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace {

using specdec::BeamResult, specdec::Index, specdec::Token;

// The rows are the probabilities at temperature 1.
auto model(const std::string& file) {
  return specdec::ProcessedModel{
      transformer::Transformer<float>(SPECDEC_EXAMPLES "/transformer/weights/" + file),
      specdec::Temperature{1}};
}

bool equal(const BeamResult& a, const BeamResult& b) {
  if (a.beams.size() != b.beams.size()) return false;
  for (std::size_t i = 0; i < a.beams.size(); ++i)
    if (a.beams[i].tokens != b.beams[i].tokens) return false;
  return true;
}

}  // namespace

int main() {
  auto target = model("target.bin"), small = model("draft.bin");
  specdec::BeamSearch plain{target};
  specdec::BeamSearch search{target, small};
  const transformer::Tokenizer tokenizer(SPECDEC_EXAMPLES "/transformer/weights/tokenizer.bin",
                                         target.vocab_size());
  std::vector<std::string> prompts(4);
  std::ifstream file(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string& prompt : prompts) std::getline(file, prompt);

  std::cout << "width   draft width   tokens per target call   fed in a call   equal\n";
  bool all_equal = true;
  for (const Index width : {1, 2, 4, 8}) {
    Index levels = 0, calls = 0, drafted = 0;
    for (const std::string& prompt : prompts) {
      const specdec::BeamOptions options{.max_new_tokens = 50, .width = width, .draft_width = 2 * width};
      const BeamResult found = search.generate(tokenizer.encode(prompt), options);
      all_equal = all_equal && equal(found, plain.generate(tokenizer.encode(prompt), options));
      levels += found.levels, calls += found.target_calls, drafted += found.drafted;
    }
    const auto per_call = [calls](Index n) { return static_cast<double>(n) / static_cast<double>(calls); };
    std::cout << std::fixed << std::setw(5) << width << std::setw(14) << 2 * width << std::setw(25)
              << std::setprecision(2) << per_call(levels) << std::setw(16) << std::setprecision(0)
              << static_cast<double>(width) + per_call(drafted) << std::setw(8) << (all_equal ? "yes" : "no")
              << "\n";
  }
  return all_equal ? 0 : 1;
}
