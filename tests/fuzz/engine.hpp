// Models as the loop sees them: with rows as they are, or with logits that went through a processor of the text and a
// chain of steps. Every returned row is compared with the row made from scratch.
// SPDX-License-Identifier: MIT
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <span>
#include <specdec/more/samplers/after_prompt.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/logit_bias.hpp>
#include <specdec/more/samplers/min_length.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/model.hpp"

namespace fuzz {

// A grammar in which a token may not follow the one that comes next by its number. It is broken by what it refuses, and can
// only be copied.
class NoStepDown {
 public:
  static bool may_follow(Token last, Token next) { return last < 0 || (next + 1) % vocabulary != last; }

  void allow(std::span<std::uint32_t> mask) const {
    for (Token x = 0; x < vocabulary; ++x)
      if (may_follow(last_, x)) mask[0] |= 1u << x;
  }
  bool advance(Token x) {
    const bool good = may_follow(last_, x);
    last_ = good ? x : vocabulary;
    return good;
  }

 private:
  Token last_ = -1;
};

// The grammar, with a rollback.
class NoStepDownWithRollback {
 public:
  void allow(std::span<std::uint32_t> mask) const { now().allow(mask); }
  bool advance(Token x) {
    NoStepDown next = now();
    if (!next.advance(x)) return false;
    states_.push_back(next);
    return true;
  }
  void rollback(Index n) {
    require(n <= std::ssize(states_));
    states_.resize(states_.size() - static_cast<std::size_t>(n));
  }

 private:
  NoStepDown now() const { return states_.empty() ? NoStepDown() : states_.back(); }
  std::vector<NoStepDown> states_;
};

// A processor that leaves logits unchanged where it would forbid every token.
template <class P>
struct NeverAll {
  P processor;

  template <class Logits>
  void apply(Logits&& logits) {
    const Eigen::RowVectorXd before = logits;
    processor.apply(logits);
    if (logits.maxCoeff() == -std::numeric_limits<double>::infinity()) logits = before;
  }
  void push(Token x) { processor.push(x); }
  void pop(Index n) { processor.pop(n); }
};

// One of the processors. It fails when the bytes say so.
class AnyProcessor {
  using Penalties =
      specdec::Processors<specdec::RepetitionPenalty, specdec::FrequencyPenalty, specdec::PresencePenalty>;
  using Mixed =
      specdec::Processors<specdec::AfterPrompt<Penalties>, specdec::MinLength, specdec::Grammar<NoStepDown>>;

 public:
  static constexpr Index kinds = 6;
  static bool has_grammar(Index which) { return which >= 3; }

  AnyProcessor(Index which, Faults* faults) : faults_(faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        processor_.emplace<Penalties>(penalties(1 + which));
        break;
      case 2:
        processor_.emplace<NeverAll<NoRepeatNgrams>>(NoRepeatNgrams{3});
        break;
      case 3:
        processor_.emplace<Grammar<NoStepDown>>(NoStepDown{});
        break;
      case 4:
        processor_.emplace<Grammar<NoStepDownWithRollback>>(NoStepDownWithRollback{});
        break;
      case 5:
        processor_.emplace<Mixed>(AfterPrompt{3, penalties(unlimited)}, MinLength{9, {3}},
                                  Grammar{NoStepDown{}});
        break;
      default:
        break;
    }
  }

  template <class Logits>
  void apply(Logits&& logits) {
    if (faults_ != nullptr) faults_->may_fail();
    std::visit([&](auto& each) { each.apply(logits); }, processor_);
  }
  bool push(Token x) {
    if (faults_ != nullptr) faults_->may_fail();
    return std::visit([x](auto& each) { return specdec::push_token(each, x); }, processor_);
  }
  void pop(Index n) {
    std::visit([n](auto& each) { each.pop(n); }, processor_);
  }

 private:
  static Penalties penalties(Index last_n) {
    return Penalties{specdec::RepetitionPenalty{1.3, last_n}, specdec::FrequencyPenalty{0.05, last_n},
                     specdec::PresencePenalty{0.1, last_n}};
  }

  Faults* faults_;
  std::variant<specdec::LogitBias, Penalties, NeverAll<specdec::NoRepeatNgrams>, specdec::Grammar<NoStepDown>,
               specdec::Grammar<NoStepDownWithRollback>, Mixed>
      processor_{specdec::LogitBias{}};
};

// How a model's logits become rows, or that its rows are already probabilities.
struct Processing {
  using Steps = specdec::Chain<specdec::Temperature, specdec::TopK>;

  Index processor = -1;  // no processor and no chain
  double temperature = 1;
  Index top_k = 0;

  Processing() = default;
  explicit Processing(Bytes& bytes)
      : processor(bytes.up_to(AnyProcessor::kinds - 1)), temperature(bytes.flag() ? 0.25 : 1) {
    top_k = bytes.up_to(3);
  }

  bool any() const { return processor >= 0; }
  Steps steps() const { return Steps{specdec::Temperature{temperature}, specdec::TopK{top_k}}; }
  AnyProcessor made(Faults* faults) const { return {processor, faults}; }

  // Changes a text into one that the grammar takes.
  void fit(Tokens& text) const {
    if (!AnyProcessor::has_grammar(processor)) return;
    for (std::size_t i = 1; i < text.size(); ++i)
      if (!NoStepDown::may_follow(text[i - 1], text[i])) text[i] = text[i - 1];
  }

  // The row after a text, before processing.
  Eigen::RowVectorXd raw_row(const Model& model, std::span<const Token> text) const {
    Eigen::RowVectorXd row = model.row_behind(text);
    if (any()) row = (row.array() - row.maxCoeff()).exp();
    return row / row.sum();
  }

  // The processed row after a text, from scratch; none if the processor refuses the text.
  std::optional<Eigen::RowVectorXd> row(const Model& model, std::span<const Token> text) const {
    Eigen::RowVectorXd row = model.row_behind(text);
    if (!any()) return row;
    AnyProcessor fresh = made(nullptr);
    for (const Token x : text)
      if (!fresh.push(x)) return std::nullopt;
    fresh.apply(Eigen::Ref<Eigen::RowVectorXd>(row));
    const auto processed = steps()(specdec::Logits(row).row(0));
    Eigen::RowVectorXd out(vocabulary);
    for (Token x = 0; x < vocabulary; ++x) out[x] = processed.probability(x);
    return out;
  }
};

// Rows of one type for all engines. They keep the raw rows, and a row may be an error.
class ShownRows {
  using Dense = specdec::DenseRow<double>;
  struct Row : Dense {
    Dense raw;
    Row(const Dense& row, const Dense& before) : Dense(row), raw(before) {}
    Dense unprocessed() const { return raw; }
  };

 public:
  ShownRows(const Matrix& rows, const Matrix& raw, std::span<const std::exception_ptr> errors = {})
      : rows_(&rows), raw_(&raw), errors_(errors) {}

  Index rows() const { return rows_->rows(); }
  Index vocab_size() const { return rows_->cols(); }
  Row row(Index i) const {
    if (!errors_.empty() && errors_[static_cast<std::size_t>(i)])
      std::rethrow_exception(errors_[static_cast<std::size_t>(i)]);
    return {Dense(rows_->row(i).data(), rows_->cols()), Dense(raw_->row(i).data(), raw_->cols())};
  }

 private:
  const Matrix *rows_, *raw_;
  std::span<const std::exception_ptr> errors_;
};

// Checks a row against the one from scratch. After a refused token there is none to check.
inline void check_row(const Processing& processing, const Model& model, std::span<const Token> text,
                      const auto& row) {
  const auto expected = processing.row(model, text);
  require(!expected || *expected == row);
}

// A model that takes trees itself, or path by path, or that has its rows processed.
class Engine {
 public:
  Engine(Model& model, const Processing& processing, bool by_paths = false)
      : model_(&model), processing_(processing) {
    if (processing.any()) processed_.emplace(model, processing.steps(), processing.made(&model.faults()));
    else if (by_paths) paths_.emplace(model);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return model_->context_size(); }
  const Model& model() const { return *model_; }
  const Processing& processing() const { return processing_; }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    return shown([&](auto& each) { return specdec::distributions(each.forward(tokens, rows)); });
  }
  const Matrix& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return shown([&](auto& each) { return specdec::distributions(each.forward(tokens, parents, rows)); });
  }
  void keep(std::span<const Index> path) {
    visit([&](auto& each) { each.keep(path); });
  }
  void truncate(Index length) {
    visit([&](auto& each) { each.truncate(length); });
  }

  // The last rows before processing.
  const Matrix& raw() const { return raw_; }

  // Whether the context is this text. Path by path, the last kept tokens are fed by the next call.
  bool holds(std::span<const Token> text) const {
    if (!paths_) return model_->holds(text);
    return model_->holds(text.first(std::min(text.size(), model_->context().size())));
  }

 private:
  void visit(const auto& f) {
    if (processed_) f(*processed_);
    else if (paths_) f(*paths_);
    else f(*model_);
  }

  const Matrix& shown(const auto& call) {
    visit([&](auto& each) {
      const auto rows = call(each);
      rows_.resize(rows.rows(), rows.vocab_size());
      raw_.resize(rows.rows(), rows.vocab_size());
      for (Index i = 0; i < rows_.rows(); ++i) {
        const auto row = rows.row(i);
        copy(row, rows_.row(i));
        if constexpr (requires { row.unprocessed(); }) copy(row.unprocessed(), raw_.row(i));
        else raw_.row(i) = rows_.row(i);
      }
    });
    if (!paths_ && !model_->has_lied())
      for (Index i = 0; i < rows_.rows(); ++i)
        check_row(processing_, *model_, model_->way(i, rows_.rows()), rows_.row(i));
    return rows_;
  }

  // A row may be a lie, and then it is an error when it is read.
  void copy(const auto& row, Matrix::RowXpr out) const {
    try {
      for (Token x = 0; x < out.size(); ++x) out[x] = row.probability(x);
    } catch (const specdec::InvalidDistribution&) {
      require(model_->has_lied());
      out.setConstant(std::numeric_limits<double>::quiet_NaN());
    }
  }

  using Processed = specdec::ProcessedModel<Model&, Processing::Steps, AnyProcessor>;

  Model* model_;
  Processing processing_;
  std::optional<specdec::PathByPath<Model&>> paths_;
  std::optional<Processed> processed_;
  Matrix rows_, raw_;
};

// An engine whose rows keep the raw rows, as a target needs.
class Target : public Engine {
 public:
  using Engine::Engine;

  ShownRows forward(std::span<const Token> tokens, Index rows) {
    const Matrix& processed = Engine::forward(tokens, rows);
    return {processed, raw()};
  }
  ShownRows forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    const Matrix& processed = Engine::forward(tokens, parents, rows);
    return {processed, raw()};
  }
};

}  // namespace fuzz
