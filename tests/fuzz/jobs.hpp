// Texts to write, as the bytes say.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/model.hpp"

namespace fuzz {

inline Index context_size(Bytes& bytes) {
  return bytes.flag() ? std::numeric_limits<Index>::max() : 1 + bytes.up_to(30);
}

// The text of the tokens. One token is empty, and two tokens share one UTF-8 character. It fails when the bytes say
// so.
struct Pieces {
  Faults* faults = nullptr;

  std::string_view operator()(Token x) const {
    constexpr std::string_view pieces[vocabulary] = {"a", "b\xe2", "",
                                                     "\x82\xac"
                                                     "a"};
    if (faults != nullptr) faults->may_fail();
    return pieces[x];
  }
};

inline specdec::StopStrings stop_strings_of(Bytes& bytes, Faults* faults) {
  const std::string_view all[] = {"aa",
                                  "b",
                                  "b\xe2\x82\xac",
                                  "\xac"
                                  "ab",
                                  "aab",
                                  "aaaa",
                                  "\x82\xac"
                                  "aa",
                                  "ab\xe2"
                                  "b"};
  std::vector<std::string> some;
  for (std::uint8_t chosen = bytes.byte(), k = 0; k < std::size(all); ++k)
    if ((chosen >> k & 1) != 0) some.emplace_back(all[k]);
  return {std::move(some), Pieces{faults}};
}

// With a tokenizer that may fail.
inline specdec::Options options_of(Bytes& bytes, Faults* faults) {
  specdec::Options options{.max_new_tokens = bytes.up_to(40), .gamma = bytes.up_to(6)};
  const std::uint8_t stops = bytes.byte();
  if (stops % 4 == 0) options.stop_tokens = {bytes.up_to(vocabulary - 1)};
  if (bytes.up_to(15) == 15) {
    const Index gamma = std::max<Index>(0, bytes.size());
    options.gamma = gamma > specdec::longest_draft ? specdec::unlimited : gamma;  // spoil() makes bad values
  }
  if (stops >= 160) {
    if (stops >= 192) options.stop_strings = stop_strings_of(bytes, faults);
    const std::uint8_t told = bytes.byte();
    options.log_probabilities = {.processed = told % 2 == 1, .raw = told / 2 % 2 == 1};
    if (options.log_probabilities.any()) options.log_probabilities.top = told / 4 % 4;
  }
  return options;
}

// For a run in which nothing fails.
inline specdec::Options without_faults(specdec::Options options) {
  const std::span<const std::string> strings = options.stop_strings.strings();
  options.stop_strings = {std::vector(strings.begin(), strings.end()), Pieces{}};
  return options;
}

inline Tokens prompt_of(Bytes& bytes) {
  Tokens prompt(1 + static_cast<std::size_t>(bytes.up_to(4)));
  for (Token& x : prompt) x = static_cast<Token>(bytes.up_to(vocabulary - 1));
  return prompt;
}

// Where and why a text ends.
struct End {
  std::size_t tokens = 0;
  specdec::StopReason reason = specdec::StopReason::stop_token;
  std::optional<specdec::StopMatch> match = {};
};

// Where a text ends, by a search of all its bytes.
inline std::optional<End> end_of(std::span<const Token> tokens, const specdec::Options& options) {
  const auto strings = options.stop_strings.strings();
  std::string all;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (options.stop_tokens.contains(tokens[i])) return End{.tokens = i + 1};
    const std::string_view piece = Pieces{}(tokens[i]);
    for (const char byte : piece) {
      all += byte;
      std::optional<Index> longest;
      for (Index k = 0; k < std::ssize(strings); ++k)
        if (all.ends_with(strings[static_cast<std::size_t>(k)]) &&
            (!longest || strings[static_cast<std::size_t>(k)].size() >
                             strings[static_cast<std::size_t>(*longest)].size()))
          longest = k;
      if (!longest) continue;
      const Index length = std::ssize(strings[static_cast<std::size_t>(*longest)]);
      return End{i + 1, specdec::StopReason::stop_string,
                 specdec::StopMatch{*longest, std::ssize(all) - length, std::ssize(all)}};
    }
  }
  return std::nullopt;
}

inline void check_text(std::span<const Token> tokens, const specdec::Options& options) {
  require(std::ssize(tokens) <= options.max_new_tokens);
  for (const Token x : tokens) require(x >= 0 && x < vocabulary);
  const auto end = end_of(tokens, options);
  require(!end || end->tokens == tokens.size());
}

// Checks that a result gives the right end of its text.
inline void check_result(const specdec::Result& result, const specdec::Options& options) {
  using specdec::StopReason;
  check_text(result.tokens, options);
  const auto end = end_of(result.tokens, options);
  require(result.stop_match == (end ? end->match : std::nullopt));
  if (end) require(result.stop_reason == end->reason);
  else require(result.stop_reason != StopReason::stop_token && result.stop_reason != StopReason::stop_string);
}

// The likeliest tokens of a row, by sorting it.
inline std::vector<Token> sorted_tokens(const Eigen::RowVectorXd& row) {
  std::vector<Token> tokens;
  for (Token x = 0; x < row.size(); ++x)
    if (row[x] > 0) tokens.push_back(x);
  std::ranges::stable_sort(tokens, std::greater(), [&](Token x) { return row[x]; });
  return tokens;
}

// Checks that what is recorded of token i is true of the row that it came out of.
inline void check_told(const specdec::LogProbabilities& told, Index i, const Eigen::RowVectorXd& row, Token x,
                       Index top) {
  const auto close = [](double a, double b) { return a == b || std::abs(a - b) < 1e-9; };
  require(close(told[i], std::log(row[x])));
  const std::vector<Token> likeliest = sorted_tokens(row);
  const auto listed = told.top(i);
  require(std::ssize(listed) == std::min(top, std::ssize(likeliest)));
  for (std::size_t k = 0; k < listed.size(); ++k) {
    require(listed[k].token == likeliest[k]);
    require(close(listed[k].value, std::log(row[likeliest[k]])));
  }
}

// Checks the records of the tokens from number `first` on. Their text begins with the prompt.
inline void check_told(const specdec::LogProbabilities& processed, const specdec::LogProbabilities& raw,
                       const specdec::Options& options, const Processing& processing, const Model& model,
                       std::span<const Token> text, Index prompt, Index first) {
  const specdec::LogProbabilityOptions& wanted = options.log_probabilities;
  const Index tokens = std::ssize(text) - prompt;
  require(processed.size() == (wanted.processed ? tokens : 0) && raw.size() == (wanted.raw ? tokens : 0));
  for (Index i = first; i < tokens; ++i) {
    const auto before = text.first(static_cast<std::size_t>(prompt + i));
    const Token x = text[before.size()];
    if (wanted.processed) check_told(processed, i, processing.row(model, before).value(), x, wanted.top);
    if (wanted.raw) check_told(raw, i, processing.raw_row(model, before), x, wanted.top);
  }
}

// The token that a seed's numbers draw after a text.
inline Token drawn_behind(std::span<const Token> text, const Eigen::RowVectorXd& row, Index seed) {
  specdec::Keyed keyed(static_cast<std::uint64_t>(seed), std::ssize(text));
  return keyed.draw(specdec::DenseRow<double>(row.data(), row.size()));
}

// Makes options or a prompt invalid if the bytes say so. Returns whether it did.
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
