// A model for one text whose type is hidden, so that a test over several models is compiled once.
#pragma once

#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>

#include "support/layouts.hpp"

namespace support {

// Returns copies of the model's rows in double, which are exact. It has the functions for trees, which only a model that
// takes trees may be asked for.
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

}  // namespace support
