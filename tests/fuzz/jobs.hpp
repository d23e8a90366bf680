// Texts to be written, as the bytes say.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <span>
#include <specdec/specdec.hpp>

#include "fuzz/bytes.hpp"
#include "fuzz/parties.hpp"

namespace fuzz {

inline Index context_size(Bytes& bytes) {
  return bytes.flag() ? std::numeric_limits<Index>::max() : 1 + bytes.up_to(30);
}

inline specdec::Options options_of(Bytes& bytes) {
  specdec::Options options{.max_new_tokens = bytes.up_to(40), .gamma = bytes.up_to(6)};
  if (bytes.up_to(3) == 0) options.stop_tokens = {bytes.up_to(vocabulary - 1)};
  if (bytes.up_to(15) == 15) {
    const Index gamma = std::max<Index>(0, bytes.size());
    options.gamma =
        gamma > specdec::longest_draft ? specdec::unlimited : gamma;  // spoil() has what is refused
  }
  return options;
}

inline Tokens prompt_of(Bytes& bytes) {
  Tokens prompt(1 + static_cast<std::size_t>(bytes.up_to(4)));
  for (Token& x : prompt) x = static_cast<Token>(bytes.up_to(vocabulary - 1));
  return prompt;
}

inline void check_text(std::span<const Token> tokens, const specdec::Options& options) {
  require(std::ssize(tokens) <= options.max_new_tokens);
  for (const Token x : tokens) require(x >= 0 && x < vocabulary);
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) require(!options.stops_at(tokens[i]));
}

// Options or a prompt that make no sense, if the bytes want them to.
inline bool spoil(Bytes& bytes, Tokens& prompt, specdec::Options& options) {
  switch (bytes.up_to(31)) {
    case 1:
      options.gamma = -1;
      return true;
    case 2:
      options.max_new_tokens = std::numeric_limits<Index>::min();
      return true;
    case 3:
      options.stop_tokens.push_back(std::int64_t{1} << 32);
      return true;
    case 4:
      prompt.back() = vocabulary;
      return true;
    case 5:
      prompt.clear();
      return true;
    case 6:
      options.gamma = specdec::unlimited - 1;
      return true;
    default:
      return false;
  }
}

}  // namespace fuzz
