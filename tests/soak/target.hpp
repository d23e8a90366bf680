// A target whose rows may go through a processor of the text and a sampling step. The processed rows depend on the
// last two tokens only, so the text has a known law. Every row is compared with the row made from scratch.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>

#include "soak/witness.hpp"

namespace soak {

// A grammar in which a token may not follow the one that comes next by its number. It can only be copied.
class NoStepDown {
 public:
  static bool may_follow(Token last, Token next) { return last < 0 || (next + 1) % vocabulary != last; }

  void allow(std::span<std::uint32_t> mask) const {
    for (Token x = 0; x < vocabulary; ++x)
      if (may_follow(last_, x)) mask[0] |= 1u << x;
  }
  bool advance(Token x) {
    const bool good = may_follow(last_, x);
    last_ = x;
    return good;
  }

 private:
  Token last_ = -1;
};

class Target {
  using Processor = specdec::Processors<specdec::RepetitionPenalty, specdec::FrequencyPenalty,
                                        specdec::Grammar<NoStepDown>>;

 public:
  Target(Model& model, bool processes) : model_(&model), law_(law_of(model.table(), processes)) {
    if (processes) processed_.emplace(model, step(), processor());
  }
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return model_->context_size(); }
  // The law of the text.
  const Table& law() const { return law_; }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    if (!processed_) return model_->forward(tokens, rows);
    return checked(processed_->forward(tokens, rows));
  }
  const Matrix& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    if (!processed_) return model_->forward(tokens, parents, rows);
    return checked(processed_->forward(tokens, parents, rows));
  }
  void keep(std::span<const Index> path) {
    if (processed_) processed_->keep(path);
    else model_->keep(path);
  }
  void truncate(Index length) {
    if (processed_) processed_->truncate(length);
    else model_->truncate(length);
  }

  // Takes a context from elsewhere, as an engine may, and forgets its own.
  void hold(std::span<const Token> text) {
    model_->hold({});
    if (!processed_) return model_->hold(text);
    processed_->truncate(0);
    model_->checks = false;
    if (!text.empty()) processed_->forward(text, 1);
    model_->checks = true;
  }

  // Changes a text into one that the grammar takes.
  void fit(Tokens& text) const {
    for (std::size_t i = 1; processed_ && i < text.size(); ++i)
      if (!NoStepDown::may_follow(text[i - 1], text[i])) text[i] = text[i - 1];
  }

 private:
  static specdec::Temperature step() { return specdec::Temperature{0.3}; }
  static Processor processor() {
    return Processor{specdec::RepetitionPenalty{1.3, 2}, specdec::FrequencyPenalty{0.1, 2},
                     specdec::Grammar{NoStepDown{}}};
  }

  // A row after two tokens that the grammar refuses decides nothing.
  static Table law_of(const Table& table, bool processes) {
    if (!processes) return table;
    Table::Rows rows = Table::Rows::Zero((vocabulary + 1) * (vocabulary + 1), vocabulary);
    for (Token a = -1; a < vocabulary; ++a)
      for (Token b = -1; b < vocabulary; ++b) {
        Processor fresh = processor();
        Tokens context;
        for (const Token x : {a, b})
          if (x >= 0 && fresh.push(x)) context.push_back(x);
        Eigen::RowVectorXd row = table.distribution(context).segment(0, vocabulary).matrix().transpose();
        fresh.apply(Eigen::Ref<Eigen::RowVectorXd>(row));
        const auto stepped = step()(specdec::Logits(row).row(0));
        for (Token x = 0; x < vocabulary; ++x)
          rows((a + 1) * (vocabulary + 1) + b + 1, x) = stepped.probability(x);
      }
    return Table(rows, 2);
  }

  // A copy, so that rows of both kinds have one type.
  const Matrix& checked(const auto& rows) {
    rows_.resize(rows.rows(), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i) {
      const auto row = rows.row(i);
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = row.probability(x);
      const auto text = model_->way(i, rows_.rows());
      if (!taken(text)) continue;
      const auto expected = law_.distribution(text);
      for (Token x = 0; x < vocabulary; ++x)
        require(rows_(i, x) == expected.probability(x), "a row is not what it is from scratch");
    }
    return rows_;
  }

  // Whether the grammar takes the end of a text. The end is longer than any draft.
  static bool taken(std::span<const Token> text) {
    for (std::size_t i = text.size() - 1, k = 0; i > 0 && k < 20; --i, ++k)
      if (!NoStepDown::may_follow(text[i - 1], text[i])) return false;
    return true;
  }

  Model* model_;
  Table law_;
  std::optional<specdec::ProcessedModel<Model&, specdec::Temperature, Processor>> processed_;
  Matrix rows_;
};

}  // namespace soak
