// Drafts with a model that has a short context, for a text that is longer than this context.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/models.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <utility>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. ";

// The tokens of this example are letters.
std::vector<Token> letters(std::string_view text) { return {text.begin(), text.end()}; }

// Stands for a small model that was trained on texts of 32 tokens.
class Small {
 public:
  explicit Small(specdec::NgramModel model) : model_(std::move(model)) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return 32; }  // the most tokens that the context may hold
  auto forward(std::span<const Token> tokens, Index rows) { return model_.forward(tokens, rows); }
  void truncate(Index length) { model_.truncate(length); }

 private:
  specdec::NgramModel model_;
};

int main() {
  const auto target = specdec::NgramModel::train(letters(rhyme), {.order = 8, .vocab_size = 128});
  Small small{target.with_order(4)};
  specdec::ModelDrafter whole{small};
  specdec::ModelDrafter windowed{
      specdec::Windowed{small, 4, 28}};  // feeds it the first 4 tokens and the latest 28
  const auto write = [&](const char* how, auto& drafter) {
    specdec::SpecDec decoder{specdec::NgramModel(target), drafter};
    std::mt19937_64 rng{1};
    const auto result = decoder.generate(letters("This is"), {.max_new_tokens = 1000, .gamma = 6}, rng);
    std::cout << how << result.stats.drafted << " tokens drafted, " << result.stats.block_efficiency()
              << " tokens per target call\n";
  };
  write("as it is:    ", whole);
  write("in a window: ", windowed);
}
