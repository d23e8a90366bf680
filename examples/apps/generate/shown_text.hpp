// A text that marks its tokens: accepted drafts, correction tokens, bonus tokens and rejected drafts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/text.hpp"
#include "generate/utf8.hpp"

namespace generate {

/// Where a piece of text comes from.
enum class Kind {
  prompt,
  accepted,   ///< drafted and accepted
  corrected,  ///< the correction token: the target's, in place of a rejected token
  bonus,      ///< the bonus token: the target's, after a draft that was accepted as a whole
  undrafted,  ///< the target's, in a step without a draft
  rejected    ///< drafted and rejected: not part of the text
};

/// One token, or several tokens of one kind.
struct Piece {
  Kind kind;
  std::string text;
};

/// How many tokens there were of each kind.
class Counts {
 public:
  specdec::Index operator[](Kind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  void add(Kind kind, std::size_t tokens) {
    counts_[static_cast<std::size_t>(kind)] += static_cast<specdec::Index>(tokens);
  }

 private:
  std::array<specdec::Index, 6> counts_{};
};

/// The pieces that a text consists of, step by step.
class ShownText {
 public:
  using Token = specdec::Token;
  using Decode = std::function<std::string(Token before, Token token)>;

  /// `last`: the last token of the prompt.
  ShownText(const std::string& prompt, Token last, Decode decode)
      : decode_(std::move(decode)), last_(last), pieces_{{Kind::prompt, prompt}} {}

  const std::vector<Piece>& pieces() const { return pieces_; }
  const Counts& counts() const { return counts_; }

  /// Adds the tokens of a step and returns their pieces. Rejected tokens stand before the token that replaced them.
  /// The view lives until the next step.
  std::span<const Piece> add(std::span<const Token> emitted, std::span<const Token> drafted,
                             const specdec::Verdict& verdict) {
    const std::size_t before = pieces_.size(), accepted = static_cast<std::size_t>(verdict.accepted);
    for (std::size_t i = 0; i < emitted.size(); ++i) {
      if (i == accepted) add_rejected(drafted.subspan(accepted));
      add_one(i < accepted ? Kind::accepted : kind_of_last(drafted.size(), accepted), emitted[i]);
    }
    return std::span<const Piece>(pieces_).subspan(before);
  }

 private:
  // The kind of the token that the target adds after the accepted ones.
  static Kind kind_of_last(std::size_t drafted, std::size_t accepted) {
    if (drafted == 0) return Kind::undrafted;
    return accepted < drafted ? Kind::corrected : Kind::bonus;
  }

  void add_one(Kind kind, Token token) {
    pieces_.push_back({kind, printable(decode_(last_, token))});
    counts_.add(kind, 1);
    last_ = token;
  }

  void add_rejected(std::span<const Token> tokens) {
    if (tokens.empty()) return;
    std::string text;
    Token before = last_;
    for (const Token token : tokens) {
      text += decode_(before, token);
      before = token;
    }
    pieces_.push_back({Kind::rejected, printable(std::move(text))});
    counts_.add(Kind::rejected, tokens.size());
  }

  Decode decode_;
  Token last_;
  std::vector<Piece> pieces_;
  Counts counts_;
};

// ---- For showing pieces -----------------------------------------------------------------------------

/// Rejected tokens on one line and in whole characters, because they are not part of the text's lines and characters.
inline std::string aside(std::string_view text) {
  std::string line;
  for (const char c : whole_characters(text))
    if (c == '\n') line += "\xE2\x86\xB5";  // U+21B5, an arrow for a return
    else line += c;
  return line;
}

/// Splits a text into its leading white space, which is shown without a mark, and the rest.
inline std::pair<std::string_view, std::string_view> split_space(std::string_view text) {
  const std::size_t word = std::min(text.find_first_not_of(" \n\t"), text.size());
  return {text.substr(0, word), text.substr(word)};
}

/// One kind in a legend.
struct Entry {
  Kind kind;
  std::string text;  ///< the number of tokens and the name of the kind
};

/// The kinds of a legend: always accepted, corrected and bonus; undrafted if there are any; rejected if these are shown.
inline std::vector<Entry> legend(const Counts& counts, bool with_rejected) {
  std::vector<Entry> entries;
  const auto add = [&](Kind kind, const char* name) {
    entries.push_back({kind, std::to_string(counts[kind]) + ' ' + name});
  };
  add(Kind::accepted, "accepted");
  add(Kind::corrected, "corrected");
  add(Kind::bonus, "bonus");
  if (counts[Kind::undrafted] > 0) add(Kind::undrafted, "undrafted");
  if (with_rejected) add(Kind::rejected, "rejected");
  return entries;
}

}  // namespace generate
