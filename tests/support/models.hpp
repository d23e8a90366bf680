// Small models: over a table, in a given layout, bounded, counting.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/layouts.hpp"

namespace support {

// A distribution by its probabilities.
struct MeantRow {
  Eigen::RowVectorXd p;
  Index vocab_size() const { return p.size(); }
  double probability(Token x) const { return p[x]; }
  Token argmax() const {
    Index x = 0;
    p.maxCoeff(&x);  // the first of equal ones
    return static_cast<Token>(x);
  }
};

// A prompt for each text of a batch. All differ in length and in tokens, so that no text passes for another.
inline std::vector<Token> prompt_of(Index text, Index vocab_size = 4) {
  std::vector<Token> prompt;
  for (Index k = 0; k < 3 + 2 * text; ++k) prompt.push_back(static_cast<Token>((text + k * k) % vocab_size));
  return prompt;
}

// A target and a smaller draft model over one vocabulary.
struct Models {
  specdec::testing::TableModel<> target, small;
};
inline Models models_of(std::mt19937_64& rng, Index vocab_size = 4) {
  return {specdec::testing::TableModel<>::random(vocab_size, 2, rng),
          specdec::testing::TableModel<>::random(vocab_size, 1, rng)};
}
inline Models models_of(std::uint64_t seed, Index vocab_size = 4) {
  std::mt19937_64 rng(seed);
  return models_of(rng, vocab_size);
}

// The logits whose softmax gives a table's rows: a view, or a matrix that the caller owns.
template <bool owned>
class TableLogits {
 public:
  explicit TableLogits(specdec::testing::TableModel<> table) : table_(std::move(table)) {}
  Index vocab_size() const { return table_.vocab_size(); }
  std::conditional_t<owned, RowMajor<double>, const RowMajor<double>&> forward(std::span<const Token> tokens,
                                                                               Index rows) {
    logits_ = table_.forward(tokens, rows).array().log().matrix();
    return logits_;
  }
  void truncate(Index length) { table_.truncate(length); }

 private:
  specdec::testing::TableModel<> table_;
  RowMajor<double> logits_;
};

// A TableModel that hands out its rows in a given layout.
template <class Layout>
class LayoutModel {
 public:
  using Table = specdec::testing::TableModel<typename Layout::Scalar>;
  explicit LayoutModel(Table table) : table_(std::move(table)) {}
  Index vocab_size() const { return table_.vocab_size(); }
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    layout_.hold(table_.forward(tokens, rows));
    return std::as_const(layout_).view();
  }
  void truncate(Index length) { table_.truncate(length); }

  // The probabilities that the model's rows mean.
  MeantRow distribution(std::span<const Token> context) const {
    const Eigen::RowVectorXd row =
        table_.distribution(context).segment(0, vocab_size()).matrix().transpose().template cast<double>();
    if constexpr (requires { &Layout::means; }) return {Layout::means(row)};
    else return {row};
  }

 private:
  Table table_;
  Layout layout_;
};

// A random model. Its probabilities are multiples of 2^-6, so every scalar holds them exactly, even bfloat16. A good
// third of them are 0, and ties are common.
template <class Scalar = double>
specdec::testing::TableModel<Scalar> coarse_model(Index vocab_size, Index order, std::mt19937_64& rng) {
  Index states = 1;
  for (Index k = 0; k < order; ++k) states *= vocab_size + 1;
  RowMajor<Scalar> table(states, vocab_size);
  for (Index i = 0; i < states; ++i) {
    const int grain = specdec::uniform01(rng) < 0.5 ? 8 : 1;
    std::vector<int> cuts{0, 64};
    while (static_cast<Index>(cuts.size()) <= vocab_size) {
      const int cut = static_cast<int>(specdec::uniform01(rng) * (64 / grain)) * grain;
      cuts.push_back(specdec::uniform01(rng) < 0.25 ? cuts.back() : cut);
    }
    std::ranges::sort(cuts);
    for (Index x = 0; x < vocab_size; ++x) {
      const auto k = static_cast<std::size_t>(x);
      table(i, x) = static_cast<Scalar>(cuts[k + 1] - cuts[k]) / Scalar{64};
    }
  }
  return specdec::testing::TableModel<Scalar>(std::move(table), order);
}

// A model whose rows often hold few tokens, as after top-k, top-p or a grammar. With probability `thin` a row has one
// token only.
inline specdec::testing::TableModel<> thin_model(Index vocab_size, Index order, double thin,
                                                 std::mt19937_64& rng) {
  auto states = static_cast<Index>(std::pow(vocab_size + 1, order));
  specdec::testing::TableModel<>::Rows table(states, vocab_size);
  const auto one_of_all = [&] {
    return static_cast<Index>(specdec::uniform01(rng) * static_cast<double>(vocab_size));
  };
  for (Index i = 0; i < states; ++i) {
    for (double& p : table.row(i)) p = 0.1 + specdec::uniform01(rng);
    if (specdec::uniform01(rng) < thin) table.row(i) = Eigen::RowVectorXd::Unit(vocab_size, one_of_all());
    else if (vocab_size > 2 && specdec::uniform01(rng) < thin) table(i, one_of_all()) = 0;
    table.row(i) /= table.row(i).sum();
  }
  return specdec::testing::TableModel<>(std::move(table), order);
}

// The paper's toy models: p = (1/3, 2/3), q = (2/3, 1/3) in every context.
inline auto toy_target() {
  return specdec::testing::TableModel<>::context_free(Eigen::RowVector2d(1.0 / 3, 2.0 / 3));
}
inline auto toy_drafter() {
  return specdec::ModelDrafter{
      specdec::testing::TableModel<>::context_free(Eigen::RowVector2d(2.0 / 3, 1.0 / 3))};
}

// Counts the tokens that it is fed.
struct CountingModel {
  specdec::testing::TableModel<> table;
  Index fed = 0;
  Index vocab_size() const { return table.vocab_size(); }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    fed += std::ssize(tokens);
    return table.forward(tokens, rows);
  }
  void truncate(Index length) { table.truncate(length); }
};

// A model with a bounded context, which must never be fed past it.
class BoundedModel {
 public:
  BoundedModel(specdec::testing::TableModel<> table, Index most) : table_(std::move(table)), most_(most) {}
  Index vocab_size() const { return table_.vocab_size(); }
  Index context_size() const { return most_; }
  const auto& forward(std::span<const Token> tokens, Index rows) {
    if (std::ssize(table_.context()) + std::ssize(tokens) > most_)
      throw std::logic_error("fed past its context");
    return table_.forward(tokens, rows);
  }
  void truncate(Index length) { table_.truncate(length); }
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }

 private:
  specdec::testing::TableModel<> table_;
  Index most_;
};

// Its rows last beyond the next calls, until their positions are truncated.
struct StableModel {
  static constexpr bool stable_rows = true;
  specdec::testing::TableModel<> table;
  std::vector<specdec::DenseRow<double>> rows = {};
  Index vocab_size() const { return table.vocab_size(); }
  specdec::RowSpan<specdec::DenseRow<double>> forward(std::span<const Token> tokens, Index count) {
    table.forward(tokens, count);
    rows.clear();
    for (Index i = count - 1; i >= 0; --i)
      rows.push_back(
          table.distribution(table.context().first(table.context().size() - static_cast<std::size_t>(i))));
    return {rows, vocab_size()};
  }
  void truncate(Index length) { table.truncate(length); }
};

}  // namespace support
