// Drafters over models with other tokens than the target, and such a model: n-grams of bytes, trained on a text file.
// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <span>
#include <specdec/more/drafters/retokenized_drafter.hpp>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/text.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "generate/ngram_pair.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"

namespace generate {

/// The text as the shipped models were trained on it: one space for each run of white space, and plain hyphens and quotes.
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

/// An n-gram model of the bytes of a text.
/// Throws: std::runtime_error if no text can be read.
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

/// Drafts by text. It drafts at temperature 0: drafts by text have no probabilities, and then the likeliest tokens are
/// accepted most often.
inline auto text_drafter(Pair& pair, TextModel& draft) {
  return specdec::RetokenizedDrafter{sampled(*draft.model, 0), pair.tokenizer, draft.tokenizer};
}

/// Encodes a text, and leaves out tokens without bytes (such as the beginning of text).
inline Tokens encode_alone(const Tokenizer& tokenizer, std::string_view text) {
  Tokens tokens = tokenizer.encode(text);
  std::erase_if(tokens, [&](Token x) { return tokenizer.bytes(x).empty(); });
  return tokens;
}

/// The token's bytes; empty if the tokenizer would encode these bytes as other tokens.
inline std::string written_bytes(const Tokenizer& tokenizer, Token x) {
  const std::string bytes = tokenizer.bytes(x);
  return encode_alone(tokenizer, bytes) == Tokens{x} ? bytes : std::string();
}

/// Drafts only tokens that both models have. If only the target has a token, the draft model is fed the tokens that spell
/// it.
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
