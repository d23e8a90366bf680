// Drafts with a model that has another tokenizer than the target, in two ways: by the tokens that both have, and by text.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/drafters/retokenized_drafter.hpp>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/text.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using specdec::Index, specdec::Token;

constexpr std::string_view rhyme =
    " This is the house that Jack built. This is the malt that lay in the house that Jack built."
    " This is the rat that ate the malt that lay in the house that Jack built."
    " This is the cat that killed the rat that ate the malt that lay in the house that Jack built.";

// A tokenizer that always takes the longest piece. Single letters are pieces, too.
struct Pieces {
  std::vector<std::string> pieces;

  explicit Pieces(std::vector<std::string> longer) : pieces(std::move(longer)) {
    for (char c = ' '; c <= 'z'; ++c) pieces.emplace_back(1, c);
  }
  Index size() const { return std::ssize(pieces); }
  const std::string& bytes(Token x) const { return pieces[static_cast<std::size_t>(x)]; }
  std::vector<Token> encode(std::string_view text) const {
    std::vector<Token> tokens;
    while (!text.empty()) {
      std::size_t longest = 0;
      for (std::size_t x = 0, length = 0; x < pieces.size(); ++x)
        if (pieces[x].size() > length && text.starts_with(pieces[x])) longest = x, length = pieces[x].size();
      tokens.push_back(static_cast<Token>(longest));
      text.remove_prefix(pieces[longest].size());
    }
    return tokens;
  }
};

template <class Decoder>
void write(std::string_view how, Decoder&& decoder, const Pieces& pieces) {
  std::mt19937_64 rng{4};
  const auto result =
      decoder.generate(pieces.encode(" This is the"), {.max_new_tokens = 40, .gamma = 4}, rng);
  std::cout << how << ":";
  for (const Token x : result.tokens) std::cout << pieces.bytes(x);
  std::cout << "\n  " << result.stats.block_efficiency() << " tokens per target call\n";
}

int main() {
  const Pieces words(
      {" the", " house", " that", " Jack", " built", " rat", " cat", " malt", " lay", " in", " ate"});
  const Pieces parts(
      {" the", " that", " ho", "use", " Ja", "ck", " b", "uilt", " rat", " cat", " ma", "lt", " in"});
  auto target = specdec::NgramModel::train(words.encode(rhyme), {.order = 6, .vocab_size = words.size()});
  auto small = specdec::NgramModel::train(parts.encode(rhyme), {.order = 3, .vocab_size = parts.size()});

  const auto word = [&](Token x) { return words.bytes(x); };
  const auto part = [&](Token d) { return parts.bytes(d); };

  // Finds the tokens that both models have. A token of the target alone is fed to the draft model as the draft tokens that
  // spell it.
  const auto matched = specdec::match_tokens(parts.size(), part, words.size(), word);
  const specdec::TokenMap map{matched, words.size()};
  const auto spelled = [&](Token x) { return parts.encode(words.bytes(x)); };
  specdec::ModelDrafter by_common_tokens{specdec::CommonTokens{small, map, spelled}};

  // Turns the draft model's tokens into text, and this text into tokens of the target.
  const auto as_words = [&](std::string_view text) { return words.encode(text); };
  const auto as_parts = [&](std::string_view text) { return parts.encode(text); };
  specdec::RetokenizedDrafter by_text{small, specdec::TextTokenizer{word, as_words},
                                      specdec::TextTokenizer{part, as_parts}};

  std::cout << map.size() << " of " << words.size() << " tokens are in both\n";
  write("by common tokens", specdec::SpecDec{target, by_common_tokens}, words);
  write("by text", specdec::SpecDec{target, by_text}, words);
}
