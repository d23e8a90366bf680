// Bans strings, however tokens spell them: where one appears, the text goes back to the token that began it, and goes on with
// another token. Then proves what law such texts have.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;

// A token that may not come after so many tokens of the text.
struct Ban {
  std::size_t place;
  Token token;
};

// A hook for target and draft model. The bans change only when the text goes back.
auto hook_of(const std::vector<Ban>& bans) {
  return [&bans](std::span<const Token> context, auto logits) {
    for (const Ban& ban : bans)
      if (ban.place == context.size()) logits[ban.token] = -std::numeric_limits<double>::infinity();
  };
}

// Strings, and the bytes of each token.
struct Banned {
  std::vector<std::string> strings, pieces;

  // Which token began the string that is completed first; nothing if the tokens spell none of them.
  std::optional<std::size_t> first_token(std::span<const Token> tokens) const {
    std::string text;
    std::vector<std::size_t> token_of_byte;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::size_t before = text.size();
      text += pieces[static_cast<std::size_t>(tokens[i])];
      token_of_byte.resize(text.size(), i);
      std::size_t begin = std::string::npos;
      for (const std::string& string : strings)
        begin = std::min(begin, text.find(string, before - std::min(before, string.size() - 1)));
      if (begin != std::string::npos) return token_of_byte[begin];
    }
    return {};
  }
};

// Bans the token at this place, until the text goes back to an earlier place.
void ban(std::vector<Ban>& bans, std::size_t place, Token token) {
  std::erase_if(bans, [place](const Ban& each) { return each.place > place; });
  bans.push_back({place, token});
}

// Writes tokens that spell no banned string.
template <class Decoder, class Source>
Tokens write(Decoder& decoder, std::vector<Ban>& bans, const Banned& banned, const Tokens& prompt,
             specdec::Options options, Source& source) {
  const Index length = options.max_new_tokens;
  bans.clear();
  auto sequence = decoder.start(prompt, options);
  while (!sequence.done()) {
    sequence.step(source);
    const Tokens text(sequence.context().begin(), sequence.context().end());
    const auto begin = banned.first_token(std::span(text).subspan(prompt.size()));
    if (!begin) continue;
    const std::size_t place = prompt.size() + *begin;
    ban(bans, place, text[place]);
    options.max_new_tokens = length - static_cast<Index>(*begin);
    sequence.resume(std::span(text).first(place), options);
  }
  return {sequence.context().begin() + std::ssize(prompt), sequence.context().end()};
}

// The logits of a model of probabilities.
template <class M>
struct LogitsOf {
  M model;
  Eigen::MatrixXd logits = {};

  Index vocab_size() const { return model.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    return logits = model.forward(tokens, rows).array().log();
  }
  void truncate(Index length) { model.truncate(length); }
};

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. "
    "This is the cat that killed the rat that ate the malt that lay in the house that Jack built. ";

void write_rhyme(const std::vector<std::string>& strings) {
  Banned banned{strings, {}};  // the tokens are letters
  for (int c = 0; c < 128; ++c) banned.pieces.emplace_back(1, static_cast<char>(c));
  const auto target =
      specdec::NgramModel::train(Tokens(rhyme.begin(), rhyme.end()), {.order = 6, .vocab_size = 128});
  std::cout << (strings.empty() ? "Nothing banned:" : "No malt, cat or house:");
  std::vector<Ban> bans;
  const specdec::Chain chain{specdec::TopP{0.9}};
  specdec::ModelDrafter drafter{
      specdec::ProcessedModel{LogitsOf<specdec::NgramModel>{target.with_order(3)}, chain, hook_of(bans)}};
  specdec::SpecDec decoder{
      specdec::ProcessedModel{LogitsOf<specdec::NgramModel>{target}, chain, hook_of(bans)}, drafter};
  std::mt19937_64 rng{3};
  const std::string_view prompt = "This is the";
  for (const Token x :
       write(decoder, bans, banned, Tokens(prompt.begin(), prompt.end()), {.max_new_tokens = 90}, rng))
    std::cout << static_cast<char>(x);
  std::cout << "\n";
}

using Table = specdec::testing::TableModel<>;

// The target alone, token by token: the same way back, from rows without the banned tokens.
Tokens write_alone(const Table& target, const Banned& banned, const Tokens& prompt, std::size_t length,
                   auto& chance) {
  Tokens text = prompt;
  std::vector<Ban> bans;
  while (text.size() < prompt.size() + length) {
    const auto row = target.distribution(text);
    Eigen::RowVectorXd p(row.vocab_size());
    for (Token x = 0; x < p.size(); ++x) p[x] = row.probability(x);
    for (const Ban& each : bans)
      if (each.place == text.size()) p[each.token] = 0;
    p /= p.sum();
    text.push_back(chance.draw(specdec::distributions(p).row(0)));
    if (const auto begin = banned.first_token(std::span(text).subspan(prompt.size()))) {
      ban(bans, prompt.size() + *begin, text[prompt.size() + *begin]);
      text.resize(prompt.size() + *begin);
    }
  }
  return {text.begin() + std::ssize(prompt), text.end()};
}

// Rows of three tokens, one for each last token.
Table random_table(std::uint64_t seed) {
  std::mt19937_64 rng{seed};
  Table::Rows rows(4, 3);
  for (double& p : rows.reshaped()) p = 0.1 + specdec::uniform01(rng);
  for (Index i = 0; i < 4; ++i) rows.row(i) /= rows.row(i).sum();
  return Table(rows, 1);
}

void prove() {
  const Banned banned{{"aa", "abc"}, {"a", "ab", "c"}};
  const Table target = random_table(1), small = random_table(2);
  const Tokens prompt{0};
  const specdec::Options options{.max_new_tokens = 3, .gamma = 1};

  std::vector<Ban> bans;
  specdec::ModelDrafter drafter{
      specdec::ProcessedModel{LogitsOf<Table>{small}, specdec::Chain{}, hook_of(bans)}};
  specdec::SpecDec decoder{specdec::ProcessedModel{LogitsOf<Table>{target}, specdec::Chain{}, hook_of(bans)},
                           drafter};
  specdec::testing::Law with_drafts, alone, without_strings;
  specdec::testing::enumerate([&](auto& chance) {
    const Tokens text = write(decoder, bans, banned, prompt, options, chance);
    with_drafts[text] += chance.probability();
  });
  specdec::testing::enumerate([&](auto& chance) {
    const Tokens text = write_alone(target, banned, prompt, 3, chance);
    alone[text] += chance.probability();
  });
  double mass = 0;
  for (const auto& [text, p] : specdec::testing::target_law(target, prompt, options))
    if (!banned.first_token(text)) mass += without_strings[text] = p;
  for (auto& [text, p] : without_strings) p /= mass;
  const auto differ = [&](const specdec::testing::Law& law) {
    return specdec::testing::largest_difference(law, alone).size;
  };
  std::cout << alone.size() << " texts. With drafts they have the law of the target alone: "
            << (differ(with_drafts) < 1e-12 ? "yes" : "no")
            << "\nThe law of the target given that no string occurs is another: by up to "
            << differ(without_strings) << "\n";
}

int main() {
  write_rhyme({});
  write_rhyme({"malt", "cat", "hou"});
  prove();
}
