// Models of which each rank has some columns, and the references for their texts.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/thread_ranks.hpp"

namespace support {

using specdec::BatchFeed, specdec::LogitColumns, specdec::NumbersOf, specdec::Token, specdec::unlimited;
using Table = specdec::testing::TableModel<>;

// Some columns of a table's log-probabilities.
class ColumnsModel {
 public:
  ColumnsModel(const Table& table, Index first, Index count) : table_(table), first_(first), count_(count) {}

  Index vocab_size() const { return table_.vocab_size(); }
  Index first() const { return first_; }
  Index count() const { return count_; }
  LogitColumns<NumbersOf<RowMajor<double>>> forward(std::span<const Token> tokens, Index rows) {
    begin(tokens);
    return mine(table_.forward(tokens, rows));
  }
  LogitColumns<NumbersOf<RowMajor<double>>> forward(std::span<const Token> tokens,
                                                    std::span<const Index> parents, Index rows) {
    begin(tokens);
    return mine(table_.forward(tokens, parents, rows));
  }
  void keep(std::span<const Index> path) { table_.keep(path); }
  void truncate(Index length) { table_.truncate(length); }
  Index length() const { return std::ssize(table_.context()); }
  const RowMajor<double>& logits() const { return logits_; }  // the logits of the last call

  bool throws = false;
  Index fed = 0, spoilt_from = unlimited, spoilt_to = unlimited;

 private:
  void begin(std::span<const Token> tokens) {
    if (throws) throw std::runtime_error("the model fails");
    fed += std::ssize(tokens);
  }
  LogitColumns<NumbersOf<RowMajor<double>>> mine(const RowMajor<double>& whole) {
    logits_ = whole.middleCols(first_, count_).array().log();
    if (fed > spoilt_from && fed <= spoilt_to) logits_(0, 0) = std::numeric_limits<double>::quiet_NaN();
    return {logits_, first_};
  }

  Table table_;
  Index first_, count_;
  RowMajor<double> logits_;
};

inline ColumnsModel model_of(const ThreadRank& rank, const Table& table) {
  const Index size = table.vocab_size(), first = size * rank.rank() / rank.size();
  return {table, first, size * (rank.rank() + 1) / rank.size() - first};
}

// A model for many texts: each text has a copy of a model for one text.
class ManyColumnsModel {
 public:
  explicit ManyColumnsModel(ColumnsModel prototype) : prototype_(std::move(prototype)) {}

  Index vocab_size() const { return prototype_.vocab_size(); }
  LogitColumns<NumbersOf<RowMajor<double>>> forward(std::span<const BatchFeed> feeds) {
    Index rows = 0, first = 0;
    for (const BatchFeed& feed : feeds) rows += feed.rows;
    logits_.resize(rows, prototype_.count());
    for (const BatchFeed& feed : feeds) {
      ColumnsModel& text = texts_.try_emplace(feed.sequence, prototype_).first->second;
      if (text.length() != feed.from) throw std::logic_error("a feed that does not go on where the text is");
      const Index asked = std::max<Index>(feed.rows, 1);
      if (feed.parents.empty()) text.forward(feed.tokens, asked);
      else text.forward(feed.tokens, feed.parents, asked);
      logits_.middleRows(first, feed.rows) = text.logits().topRows(feed.rows);
      first += feed.rows;
    }
    return {logits_, prototype_.first()};
  }
  void keep(Index sequence, Index length) {
    if (const auto text = texts_.find(sequence); text != texts_.end()) text->second.truncate(length);
  }
  void keep(Index sequence, std::span<const Index> path) { texts_.at(sequence).keep(path); }
  void release(Index sequence) { texts_.erase(sequence); }
  void fork(Index from, Index to) {
    texts_.emplace(to, texts_.at(from)).first->second.keep(std::span<const Index>{});
  }
  ColumnsModel& text(Index sequence) { return texts_.at(sequence); }
  Index size() const { return std::ssize(texts_); }

 private:
  ColumnsModel prototype_;
  std::map<Index, ColumnsModel> texts_;
  RowMajor<double> logits_;
};

// A row with some tokens already drawn.
template <class R>
struct Drawn : R {
  std::vector<Token> tokens;

  auto sampler() const {
    return [tokens = tokens, k = std::size_t{0}, rest = R::sampler()](double u) mutable {
      return k < tokens.size() ? tokens[k++] : rest(u);
    };
  }
};

// A model for one text that draws some tokens from every row when the row is returned, as ranks do.
template <class Model>
class DrawnAhead {
  using Row = specdec::RowOf<decltype(std::declval<Model&>().forward(std::span<const Token>{}, Index{}))>;

 public:
  using Rows = specdec::RowSpan<Drawn<Row>>;

  DrawnAhead(Model model, Index draws) : model_(std::move(model)), draws_(draws) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Rows forward(std::span<const Token> tokens, Index rows) { return drawn(model_.forward(tokens, rows)); }
  Rows forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return drawn(model_.forward(tokens, parents, rows));
  }
  void keep(std::span<const Index> path) { model_.keep(path); }
  void truncate(Index length) { model_.truncate(length); }

 private:
  Rows drawn(const auto& matrix) {
    rows_.clear();
    for (Index i = 0; i < matrix.rows(); ++i) {
      const Row row = matrix.row(i);
      rows_.push_back({row, {}});
      auto sampler = row.sampler();
      for (Index k = 0; k < draws_; ++k) rows_.back().tokens.push_back(sampler(specdec::uniform01(source_)));
    }
    return Rows(rows_, vocab_size());
  }

  Model model_;
  Index draws_;
  std::mt19937_64 source_{1};
  std::vector<Drawn<Row>> rows_;
};

// The text that all ranks write, by use(rank, text). It must be `expected`.
template <class Use>
void check_texts(Index ranks, const std::vector<Token>& expected, const Use& use) {
  std::vector<std::vector<Token>> each(static_cast<std::size_t>(ranks));
  rethrow_first(
      on_ranks(ranks, [&](ThreadRank& rank) { each[static_cast<std::size_t>(rank.rank())] = use(rank); }));
  for (const std::vector<Token>& text : each) CHECK(text == expected);
}

}  // namespace support
