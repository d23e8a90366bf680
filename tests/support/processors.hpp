// Models of logits, processors of every kind as one type, and their processed rows from scratch.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/bad_words.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/reasoning_budget.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "support/layouts.hpp"

namespace support {

// A model with the logarithms of a table's probabilities as logits.
class LogTable {
 public:
  LogTable(Index vocab_size, Index order, std::uint64_t seed) : table(random(vocab_size, order, seed)) {}
  explicit LogTable(specdec::testing::TableModel<> probabilities) : table(std::move(probabilities)) {}

  Index vocab_size() const { return table.vocab_size(); }
  const RowMajor<double>& forward(std::span<const Token> tokens, Index rows) {
    return output = table.forward(tokens, rows).array().log();
  }
  const RowMajor<double>& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return output = table.forward(tokens, parents, rows).array().log();
  }
  void keep(std::span<const Index> path) { table.keep(path); }
  void truncate(Index length) { table.truncate(length); }

  Eigen::RowVectorXd logits(std::span<const Token> context) const {
    return table.distribution(context).segment(0, vocab_size()).matrix().transpose().array().log();
  }

  specdec::testing::TableModel<> table;
  RowMajor<double> output;

 private:
  static specdec::testing::TableModel<> random(Index vocab_size, Index order, std::uint64_t seed) {
    std::mt19937_64 rng{seed};
    Index states = 1;
    for (Index k = 0; k < order; ++k) states *= vocab_size + 1;
    RowMajor<double> rows(states, vocab_size);
    for (double& p : rows.reshaped()) p = 0.05 + specdec::uniform01(rng) * specdec::uniform01(rng);
    for (Index i = 0; i < states; ++i) rows.row(i) /= rows.row(i).sum();
    return specdec::testing::TableModel<>(std::move(rows), order);
  }
};

// After 0 comes 2, after 1 any token, and after 2 or at the beginning 0 or 1. A refused token leaves the state as it
// was.
class Rhythm {
 public:
  void allow(std::span<std::uint32_t> mask) const { mask[0] |= after[state()]; }
  bool advance(Token x) {
    if (((after[state()] >> x) & 1u) == 0) return false;
    text_.push_back(x);
    return true;
  }
  void rollback(Index n) { text_.resize(text_.size() - static_cast<std::size_t>(n)); }

 private:
  static constexpr std::array<std::uint32_t, 4> after{0b011, 0b100, 0b111, 0b011};
  std::size_t state() const { return text_.empty() ? 0 : static_cast<std::size_t>(text_.back()) + 1; }
  std::vector<Token> text_;
};

// A Rhythm that is broken after it refuses a token, and can only be copied.
class ForwardRhythm {
 public:
  void allow(std::span<std::uint32_t> mask) const { rhythm_.allow(mask); }
  bool advance(Token x) {
    if (rhythm_.advance(x)) return true;
    rhythm_ = {};
    return false;
  }

 private:
  Rhythm rhythm_;
};

// Throws when its count of calls has run down.
struct Faulty {
  std::shared_ptr<int> calls_left;
  specdec::Grammar<ForwardRhythm> grammar;

  void count() const {
    if (--*calls_left == 0) throw std::runtime_error("a processor fails");
  }
  void apply(auto&& logits) {
    count();
    grammar.apply(logits);
  }
  bool push(Token x) {
    count();
    return grammar.push(x);
  }
  void pop(Index n) { grammar.pop(n); }
};

// Any processor, chosen at run time.
struct AnyProcessor {
  using Penalties =
      specdec::Processors<specdec::RepetitionPenalty, specdec::FrequencyPenalty, specdec::PresencePenalty>;
  std::variant<specdec::LogitBias, Penalties, specdec::NoRepeatNgrams, specdec::BadWords,
               specdec::ReasoningBudget, specdec::Grammar<Rhythm>, specdec::Grammar<ForwardRhythm>,
               specdec::Processors<Penalties, specdec::AfterPrompt<specdec::Grammar<ForwardRhythm>>>, Faulty>
      processor;

  void apply(auto&& logits) {
    std::visit([&](auto& each) { each.apply(logits); }, processor);
  }
  bool push(Token x) {
    return std::visit([x](auto& each) { return specdec::push_token(each, x); }, processor);
  }
  void pop(Index n) {
    std::visit([n](auto& each) { each.pop(n); }, processor);
  }
};

inline AnyProcessor::Penalties penalties(Index last_n) {
  return AnyProcessor::Penalties{specdec::RepetitionPenalty{1.3, last_n},
                                 specdec::FrequencyPenalty{0.4, last_n},
                                 specdec::PresencePenalty{0.3, last_n}};
}

inline AnyProcessor nothing() { return {specdec::LogitBias{}}; }

// All processors for texts with a prompt of this length.
inline std::vector<AnyProcessor> all_processors(Index prompt) {
  return {
      {penalties(specdec::unlimited)},
      {penalties(3)},
      {specdec::BadWords{{{0, 2}, {2, 1, 1}, {1, 1, 1}}}},
      {specdec::ReasoningBudget{{.start = {1}, .end = {2, 0}, .tokens = 2}}},
      {specdec::Grammar{Rhythm{}}},
      {specdec::Processors{penalties(4), specdec::AfterPrompt{prompt, specdec::Grammar{ForwardRhythm{}}}}},
      {specdec::NoRepeatNgrams{2}},
      {specdec::Grammar{ForwardRhythm{}}}};
}

// The processed logits after a context, from scratch; nothing if the processor refuses the context.
inline std::optional<Eigen::RowVectorXd> from_scratch(const LogTable& model, AnyProcessor processor,
                                                      std::span<const Token> context) {
  for (const Token x : context)
    if (!processor.push(x)) return std::nullopt;
  Eigen::RowVectorXd logits = model.logits(context);
  processor.apply(Eigen::Ref<Eigen::RowVectorXd>(logits));
  return logits;
}

}  // namespace support
