// Draft models whose tokens are not the target's: a transformer of another tokenizer, and n-grams of bytes, which are
// learnt from a file of text.
#pragma once

#include <memory>
#include <span>
#include <specdec/model/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "generate/ngram_pair.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"
#include "generate/transformer_pair.hpp"

namespace generate {

/// The text with a space for each run of white space and plain hyphens and quotes, which is how the trained models know it.
inline std::string plain_text(const std::string& content) {
  constexpr std::pair<std::string_view, std::string_view> typography[] = {
      {"\u2018", "'"},  {"\u2019", "'"}, {"\u201c", "\""}, {"\u201d", "\""},
      {"\u2014", "--"}, {"\n", " "},     {"\r", " "}};
  std::string text = " ";
  for (std::string_view rest = content; !rest.empty();) {
    std::string_view piece = rest.substr(0, 1), plain = piece;
    for (const auto& [fancy, simple] : typography)
      if (rest.starts_with(fancy)) piece = fancy, plain = simple;
    rest.remove_prefix(piece.size());
    if (plain != " " || text.back() != ' ') text += plain;
  }
  return text;
}

/// An n-gram model of the bytes of a text. Throws: std::runtime_error where there is no text to read.
inline TextModel byte_model(const std::string& path) {
  constexpr Index order = 7;
  const Tokenizer tokenizer{[](Token x) { return std::string(1, static_cast<char>(x)); },
                            [](std::string_view text) {
                              Tokens tokens;
                              for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
                              return tokens;
                            }};
  const Tokens text = tokenizer.encode(plain_text(read_text(path)));
  return {erased(std::make_shared<NgramLogits>(
              specdec::NgramModel::train(text, {.order = order, .vocab_size = 256}))),
          tokenizer};
}

/// A transformer with a tokenizer of its own. Throws: std::runtime_error on a bad file.
inline TextModel other_transformer(const std::string& model, const std::string& tokenizer_path) {
  const auto transformer = std::make_shared<transformer::Transformer<float>>(model);
  const auto tokenizer =
      std::make_shared<const transformer::Tokenizer>(tokenizer_path, transformer->vocab_size());
  return {erased(transformer), text_tokenizer(tokenizer)};
}

/// The sampled model of what drafts by text. It guesses what it finds likeliest: that is accepted most often of tokens
/// without probabilities.
inline auto text_drafter(Pair& pair, TextModel& draft) {
  return specdec::RetokenizedDrafter{sampled(*draft.model, 0), pair.tokenizer, draft.tokenizer};
}

/// The tokens of some text alone: those that are none are left out.
inline Tokens encode_alone(const Tokenizer& tokenizer, std::string_view text) {
  Tokens tokens = tokenizer.encode(text);
  std::erase_if(tokens, [&](Token x) { return tokenizer.bytes(x).empty(); });
  return tokens;
}

/// The token's bytes; none where its tokenizer would write them otherwise, as it does bytes that are a piece, too.
inline std::string written_bytes(const Tokenizer& tokenizer, Token x) {
  const std::string bytes = tokenizer.bytes(x);
  return encode_alone(tokenizer, bytes) == Tokens{x} ? bytes : std::string();
}

/// Drafts the tokens that the target has, too. The draft model reads those it has not in the tokens of their bytes.
inline auto intersection_drafter(Pair& pair, TextModel& draft, double temperature) {
  const auto bytes = [](const Tokenizer& tokenizer) {
    return [&tokenizer](Token x) { return written_bytes(tokenizer, x); };
  };
  const Tokens matched = specdec::match_tokens(draft.model->vocab_size(), bytes(draft.tokenizer),
                                               pair.target->vocab_size(), bytes(pair.tokenizer));
  const auto spelled = [&](Token x) {
    const std::string text = pair.tokenizer.bytes(x);
    return text.empty() ? draft.tokenizer.encode(text) : encode_alone(draft.tokenizer, text);
  };
  return specdec::ModelDrafter{specdec::CommonTokens{
      sampled(*draft.model, temperature), specdec::TokenMap{matched, pair.target->vocab_size()}, spelled}};
}

}  // namespace generate
