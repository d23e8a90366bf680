// Rows of any kind as one type. They answer what every row answers, and nothing more. Code over them is compiled once
// for all kinds.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/models.hpp"

namespace support {

// A row with look-ups only. Its draws add up probabilities in double, one by one.
class AnyRow {
 public:
  template <class Row>
    requires(!std::same_as<Row, AnyRow>)
  explicit AnyRow(const Row& row)
      : size_(row.vocab_size()),
        probability_([row](Token x) { return static_cast<double>(row.probability(x)); }) {}

  Index vocab_size() const { return size_; }
  double probability(Token x) const { return probability_(x); }

  auto sampler() const {
    return [row = *this](double u) {
      Token last = 0;
      for (Token x = 0; x < row.vocab_size(); ++x) {
        const double p = row.probability(x);
        if (p > 0) last = x;
        if (u < p) return x;
        u -= p;
      }
      return last;
    };
  }

  Token argmax() const {
    Token best = 0;
    for (Token x = 1; x < size_; ++x)
      if (probability(x) > probability(best)) best = x;
    return best;
  }

 private:
  Index size_;
  std::function<double(Token)> probability_;
};

class AnyRows {
 public:
  template <class Matrix>
    requires(!std::same_as<Matrix, AnyRows>)
  explicit AnyRows(const Matrix& matrix) : vocab_size_(matrix.vocab_size()) {
    for (Index i = 0; i < matrix.rows(); ++i) rows_.emplace_back(matrix.row(i));
  }
  Index rows() const { return std::ssize(rows_); }
  Index vocab_size() const { return vocab_size_; }
  AnyRow row(Index i) const { return rows_[static_cast<std::size_t>(i)]; }

 private:
  Index vocab_size_;
  std::vector<AnyRow> rows_;
};

// A LayoutModel of any layout.
class AnyModel {
 public:
  template <class Layout>
  static AnyModel of(const specdec::testing::TableModel<typename Layout::Scalar>& table) {
    return AnyModel(std::make_unique<Held<Layout>>(table));
  }

  Index vocab_size() const { return held_->vocab_size(); }
  AnyRows forward(std::span<const Token> tokens, Index rows) { return held_->forward(tokens, rows); }
  void truncate(Index length) { held_->truncate(length); }
  MeantRow distribution(std::span<const Token> context) const { return held_->distribution(context); }

 private:
  struct Model {
    virtual ~Model() = default;
    virtual Index vocab_size() const = 0;
    virtual AnyRows forward(std::span<const Token> tokens, Index rows) = 0;
    virtual void truncate(Index length) = 0;
    virtual MeantRow distribution(std::span<const Token> context) const = 0;
  };
  template <class Layout>
  struct Held final : Model {
    LayoutModel<Layout> model;
    explicit Held(const specdec::testing::TableModel<typename Layout::Scalar>& table) : model(table) {}
    Index vocab_size() const override { return model.vocab_size(); }
    AnyRows forward(std::span<const Token> tokens, Index rows) override {
      const auto& view = model.forward(tokens, rows);
      return AnyRows(specdec::distributions(view));
    }
    void truncate(Index length) override { model.truncate(length); }
    MeantRow distribution(std::span<const Token> context) const override {
      return model.distribution(context);
    }
  };
  explicit AnyModel(std::unique_ptr<Model> held) : held_(std::move(held)) {}

  std::unique_ptr<Model> held_;
};

}  // namespace support
