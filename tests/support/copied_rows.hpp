// Models whose type is hidden, so that a test over several models is compiled once.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/layouts.hpp"

namespace support {

// A model for one text. Returns copies of the rows in double, which are exact. It has the functions for trees, which only
// a model that takes trees may be asked for.
class CopiedRows {
 public:
  template <class M>
  explicit CopiedRows(M model) : held_(std::make_unique<Held<M>>(std::move(model))) {}

  Index vocab_size() const { return held_->vocab_size(); }
  Index context_size() const { return held_->context_size(); }
  RowMajor<double> forward(std::span<const Token> tokens, Index rows) { return held_->line(tokens, rows); }
  RowMajor<double> forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return held_->tree(tokens, parents, rows);
  }
  void truncate(Index length) { held_->truncate(length); }
  void keep(std::span<const Index> path) { held_->keep(path); }

 private:
  struct Model {
    virtual ~Model() = default;
    virtual Index vocab_size() const = 0;
    virtual Index context_size() const = 0;
    virtual RowMajor<double> line(std::span<const Token> tokens, Index rows) = 0;
    virtual RowMajor<double> tree(std::span<const Token> tokens, std::span<const Index> parents,
                                  Index rows) = 0;
    virtual void truncate(Index length) = 0;
    virtual void keep(std::span<const Index> path) = 0;
  };

  template <class M>
  struct Held final : Model {
    M model;
    explicit Held(M given) : model(std::move(given)) {}

    Index vocab_size() const override { return model.vocab_size(); }
    Index context_size() const override { return specdec::context_size(model); }
    RowMajor<double> line(std::span<const Token> tokens, Index rows) override {
      return copy_of(model.forward(tokens, rows));
    }
    RowMajor<double> tree(std::span<const Token> tokens, std::span<const Index> parents,
                          Index rows) override {
      if constexpr (specdec::takes_trees<M>) return copy_of(model.forward(tokens, parents, rows));
      else throw std::logic_error("the model takes no trees");
    }
    void truncate(Index length) override { model.truncate(length); }
    void keep(std::span<const Index> path) override {
      if constexpr (specdec::takes_trees<M>) model.keep(path);
      else throw std::logic_error("the model takes no trees");
    }

    RowMajor<double> copy_of(const auto& output) const {
      const auto rows = specdec::distributions(output);
      RowMajor<double> copy(rows.rows(), vocab_size());
      for (Index i = 0; i < copy.rows(); ++i) {
        const auto row = rows.row(i);
        if (row.vocab_size() != copy.cols()) throw std::logic_error("the model's row has another size");
        for (Index x = 0; x < copy.cols(); ++x)
          copy(i, x) = static_cast<double>(row.probability(static_cast<Token>(x)));
      }
      return copy;
    }
  };

  std::unique_ptr<Model> held_;
};

// Rows of double, or what is thrown instead.
class RowsOrErrors {
 public:
  RowsOrErrors() = default;
  explicit RowsOrErrors(const auto& rows)
      : p_(rows.rows(), rows.vocab_size()), errors_(static_cast<std::size_t>(rows.rows())) {
    for (Index i = 0; i < p_.rows(); ++i) try {
        const auto row = rows.row(i);
        for (Token x = 0; x < p_.cols(); ++x) p_(i, x) = static_cast<double>(row.probability(x));
      } catch (...) {
        errors_[static_cast<std::size_t>(i)] = std::current_exception();
      }
  }
  Index rows() const { return p_.rows(); }
  Index vocab_size() const { return p_.cols(); }
  specdec::DenseRow<double> row(Index i) const {
    if (const auto& error = errors_[static_cast<std::size_t>(i)]) std::rethrow_exception(error);
    return {p_.data() + i * p_.cols(), p_.cols()};
  }

 private:
  RowMajor<double> p_;
  std::vector<std::exception_ptr> errors_;
};

// A model for many texts, of lines. Returns copies of the rows in double.
class CopiedTexts {
 public:
  template <class M>
  explicit CopiedTexts(M model) : held_(std::make_unique<Held<M>>(std::move(model))) {}

  Index vocab_size() const { return held_->vocab_size(); }
  Index context_size() const { return held_->context_size(); }
  const RowsOrErrors& forward(std::span<const specdec::BatchFeed> feeds) {
    return rows_ = held_->forward(feeds);
  }
  void keep(Index sequence, Index length) { held_->keep(sequence, length); }
  void release(Index sequence) { held_->release(sequence); }

 private:
  struct Model {
    virtual ~Model() = default;
    virtual Index vocab_size() const = 0;
    virtual Index context_size() const = 0;
    virtual RowsOrErrors forward(std::span<const specdec::BatchFeed> feeds) = 0;
    virtual void keep(Index sequence, Index length) = 0;
    virtual void release(Index sequence) = 0;
  };
  template <class M>
  struct Held final : Model {
    M model;
    explicit Held(M given) : model(std::move(given)) {}
    Index vocab_size() const override { return model.vocab_size(); }
    Index context_size() const override { return specdec::context_size(model); }
    RowsOrErrors forward(std::span<const specdec::BatchFeed> feeds) override {
      const auto& output = model.forward(feeds);
      return RowsOrErrors(specdec::distributions(output));
    }
    void keep(Index sequence, Index length) override { model.keep(sequence, length); }
    void release(Index sequence) override { model.release(sequence); }
  };

  std::unique_ptr<Model> held_;
  RowsOrErrors rows_;
};

}  // namespace support
