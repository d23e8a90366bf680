// Rows of every kind, filled by bytes.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "fuzz/bytes.hpp"
#include "support/layouts.hpp"

namespace fuzz {

using support::ColMajor;
using support::RowMajor;

// Probabilities. Rows sum to 1 if the bytes say so and the numbers allow it.
template <class Matrix>
struct Dense {
  Matrix held;

  Dense(Bytes& bytes, Index rows, Index vocab_size) : held(rows, vocab_size) {
    using Scalar = typename Matrix::Scalar;
    const bool fair = bytes.up_to(3) != 0;
    for (Index i = 0; i < rows; ++i) {
      Eigen::RowVectorXd row(vocab_size);
      for (double& p : row) p = bytes.probability();
      if (fair) row = row.array().isFinite().select(row.array().max(0).min(1), 0);
      if (fair && row.sum() > 0) row /= row.sum();
      for (Index x = 0; x < vocab_size; ++x) held(i, x) = static_cast<Scalar>(static_cast<float>(row[x]));
    }
  }
  const Matrix& view() const { return held; }
};

// One pointer a row.
struct Pointers {
  Dense<RowMajor<float>> dense;
  std::vector<const float*> pointers;

  Pointers(Bytes& bytes, Index rows, Index vocab_size) : dense(bytes, rows, vocab_size) {
    for (Index i = 0; i < rows; ++i) pointers.push_back(dense.held.row(i).data());
  }
  auto view() const { return specdec::RowPointers<float>(pointers, dense.held.cols()); }
};

// Rows with a token already drawn.
struct Sampled {
  Dense<RowMajor<float>> dense;
  std::vector<Token> drawn;

  Sampled(Bytes& bytes, Index rows, Index vocab_size) : dense(bytes, rows, vocab_size) {
    for (Index i = 0; i < rows; ++i) drawn.push_back(static_cast<Token>(bytes.up_to(vocab_size - 1)));
  }
  auto view() const { return specdec::SampledRows(dense.held, drawn); }
};

// Logits at a temperature. Their log-sum-exp may be given, and may be wrong.
struct LogitsOf {
  RowMajor<float> held;
  double temperature;
  std::vector<double> log_sum_exp;

  LogitsOf(Bytes& bytes, Index rows, Index vocab_size) : held(rows, vocab_size) {
    temperature = bytes.flag() ? 1 : bytes.number();
    const bool handed = bytes.flag();
    for (Index i = 0; i < rows; ++i)
      for (Index x = 0; x < vocab_size; ++x) held(i, x) = static_cast<float>(bytes.number());
    for (Index i = 0; handed && i < rows; ++i) log_sum_exp.push_back(bytes.number());
  }
  auto view() const {
    return specdec::Logits{held, {.temperature = temperature, .log_sum_exp = log_sum_exp}};
  }
};

// Logits with a cut.
struct Processed {
  RowMajor<float> held;
  double temperature, top_p, min_p;
  Index top_k;

  Processed(Bytes& bytes, Index rows, Index vocab_size) : held(rows, vocab_size) {
    temperature = bytes.flag() ? 0.8 : bytes.number();
    top_k = bytes.size();
    top_p = bytes.flag() ? 0.9 : bytes.probability();
    min_p = bytes.flag() ? 0 : bytes.probability();
    for (Index i = 0; i < rows; ++i)
      for (Index x = 0; x < vocab_size; ++x) held(i, x) = static_cast<float>(bytes.number());
  }
  auto view() const {
    return specdec::ProcessedRows{
        held, specdec::Chain{specdec::TopK{top_k}, specdec::Temperature{temperature}, specdec::TopP{top_p},
                             specdec::MinP{min_p}}};
  }
};

// Lists of tokens: ascending if the bytes say so, otherwise disordered, doubled or beyond the vocabulary. None is longer than
// the vocabulary: a row refuses that.
struct Lists {
  struct List {
    std::vector<Token> ids;
    std::vector<double> probabilities;
  };
  std::vector<List> lists;
  std::vector<specdec::SparseRow<double>> rows;
  Index vocab_size;
  bool ordered;

  Lists(Bytes& bytes, Index count, Index size) : lists(static_cast<std::size_t>(count)), vocab_size(size) {
    ordered = bytes.up_to(3) != 0;
    const bool fair = bytes.up_to(3) != 0;
    for (List& list : lists) {
      for (Index k = std::min(bytes.up_to(5), size); k > 0; --k)
        list.ids.push_back(ordered ? static_cast<Token>(bytes.up_to(size - 1))
                                   : static_cast<Token>(bytes.size()));
      if (ordered) {
        std::sort(list.ids.begin(), list.ids.end());
        list.ids.erase(std::unique(list.ids.begin(), list.ids.end()), list.ids.end());
      }
      double sum = 0;
      for (std::size_t k = 0; k < list.ids.size(); ++k) {
        const double p = bytes.probability();
        list.probabilities.push_back(fair ? (p >= 0 && p <= 1 ? p : 0.5) : p);
        sum += list.probabilities.back();
      }
      if (fair && sum > 0)
        for (double& p : list.probabilities) p /= sum;
    }
    for (const List& list : lists) rows.emplace_back(list.ids, list.probabilities, vocab_size);
  }
  Lists(const Lists&) = delete;
  auto view() const { return specdec::RowSpan(rows, vocab_size); }
};

}  // namespace fuzz
