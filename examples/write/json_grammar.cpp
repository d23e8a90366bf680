// Makes a chatty model write JSON of one schema: a grammar over bytes constrains the tokens of target and draft model.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

// The vocabulary: the end of a text, single bytes, and tokens of several bytes. These begin and end anywhere in the schema.
const std::vector<std::string> pieces = [] {
  std::vector<std::string> list{"<end>"};
  for (const char c : std::string_view(R"({}":, .!ABSabcdefghijklmnopqrstuvwxyz0123456789)"))
    list.emplace_back(1, c);
  for (const char* several :
       {R"({")", R"(":")", R"(","ag)", "name", "age", "An", "na", "nn", "Sam", "Sure", "12", "3}"})
    list.emplace_back(several);
  return list;
}();
constexpr Token stop = 0;
const std::vector<Token> prompt{stop};

// Matches texts like {"name":"Ann","age":7}, byte by byte. The matcher cannot go back, so it is copied.
class Schema {
 public:
  // Sets the bits of the tokens that may come next.
  void allow(std::span<std::uint32_t> mask) const {
    for (std::uint32_t x = 0; x < std::min(pieces.size(), 32 * mask.size()); ++x)
      if (Schema(*this).advance(static_cast<Token>(x))) mask[x / 32] |= std::uint32_t{1} << (x % 32);
  }
  // Advances by a token. Returns false if the token may not come next. After the end, only another end is allowed.
  bool advance(Token x) {
    if (x == stop) return at_ == form.size();
    const auto taken = [this](char byte) { return take(byte); };
    return std::ranges::all_of(pieces[static_cast<std::size_t>(x)], taken);
  }

 private:
  static constexpr std::string_view form =
      R"({"name":"@","age":#})";  // @: 2 to 8 letters, #: a number below 100

  bool take(char byte) {
    if (at_ == form.size()) return false;
    const bool letters = form[at_] == '@', digits = form[at_] == '#';
    if (!letters && !digits) return form[at_] == byte && ++at_ > 0;
    const bool one_more = letters ? std::isalpha(byte) && count_ < 8 : std::isdigit(byte) && count_ < 2;
    if (one_more) return ++count_ > 1 || byte != '0';
    if (count_ < (letters ? 2 : 1)) return false;
    count_ = 0;
    ++at_;
    return take(byte);
  }

  std::size_t at_ = 0;
  int count_ = 0;
};

// Stands for a model: its logits depend on the last token, with counts from a short chatty text.
class Chatter {
 public:
  explicit Chatter(float sharpness) {
    counts_.setConstant(vocab_size(), vocab_size(), 0.002f);
    for (std::string_view rest =
             R"(Sure! "Anna" said: age 12. {"name": "Sam", "age": 43}. {"name":"Susan","age":12} )"
             R"({"name":"Anna","age":31} Ask again, Sam. {"name":"Ben","age":27} Bananas.)";
         !rest.empty();) {
      const Token x = longest(rest);
      counts_(last_, x) += 1;
      last_ = x;
      rest.remove_prefix(pieces[static_cast<std::size_t>(x)].size());
    }
    counts_(last_, stop) += 1;
    counts_ = sharpness * counts_.array().log();
  }

  static Index vocab_size() { return std::ssize(pieces); }
  const Eigen::MatrixXf& forward(std::span<const Token> tokens, Index rows) {
    logits_.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i)
      logits_.row(i) = counts_.row(tokens.last(static_cast<std::size_t>(rows - i))[0]);
    return logits_;
  }
  void truncate(Index) {}  // a row depends on the last token only

 private:
  static Token longest(std::string_view text) {
    Token best = stop;
    std::size_t size = 0;
    for (std::size_t x = 1; x < pieces.size(); ++x)
      if (text.starts_with(pieces[x]) && pieces[x].size() > size) {
        best = static_cast<Token>(x);
        size = pieces[x].size();
      }
    return best;
  }

  Eigen::MatrixXf counts_, logits_;
  Token last_ = stop;
};

template <class Target, class Drafter>
void show(const char* what, Target target, Drafter drafter) {
  std::mt19937_64 rng{3};
  specdec::SpecDec decoder{target, drafter};
  specdec::Stats stats;
  std::cout << what << "\n";
  for (int text = 0; text < 3; ++text) {
    const auto result = decoder.generate(prompt, {.max_new_tokens = 40, .stop_tokens = {stop}}, rng);
    for (const Token x : result.tokens) std::cout << (x == stop ? "\n" : pieces[static_cast<std::size_t>(x)]);
    if (result.stop_reason != specdec::StopReason::stop_token) std::cout << " ...\n";
    stats += result.stats;
  }
  std::cout << stats.block_efficiency() << " tokens per target call\n";
}

int main() {
  Chatter large{1.0f}, small{0.7f};
  const specdec::Chain chain{specdec::Temperature{0.9}};
  const specdec::ModelDrafter chatty{specdec::ProcessedModel{small, chain}};
  show("Without a grammar:", specdec::ProcessedModel{large, chain}, chatty);

  // The grammar begins after the prompt.
  const specdec::AfterPrompt grammar{prompt.size(), specdec::Grammar{Schema{}}};
  const specdec::ProcessedModel target{large, chain, grammar};
  show("The target alone knows the grammar:", target, chatty);

  const specdec::ModelDrafter drafter{specdec::ProcessedModel{small, chain, grammar}};
  show("The drafter, too:", target, drafter);

  // Tokens that the grammar forces need no draft model. To try them before a draft model: FallbackDrafter{forced, drafter}.
  const specdec::ForcedTokens forced{grammar, large.vocab_size()};
  show("No draft model, only tokens without an alternative:", target, forced);
}
