// A target and a draft model, and how their tokens become text.
#pragma once

#include <functional>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace generate {

using specdec::Index;
using specdec::Token;
using Tokens = std::vector<Token>;

/// Two models of logits over one vocabulary.
template <specdec::LogitsModel M>
struct Pair {
  M target, draft;
  std::string description;  ///< lines that say what the models are
  std::string note;         ///< those of them, if any, that have to stand by every measurement too
  std::function<Tokens(std::string_view)> encode;
  std::function<std::string(Token before, Token token)> decode;
  Tokens stop_tokens;
};

/// The text of `tokens`, which follow the token `before`. Control characters that a terminal might obey become
/// question marks.
template <class M>
std::string text_of(const Pair<M>& pair, Token before, std::span<const Token> tokens) {
  std::string text;
  for (const Token token : tokens) {
    text += pair.decode(before, token);
    before = token;
  }
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

}  // namespace generate
