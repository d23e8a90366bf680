// Distributions stored in every way that the library takes. Each layout stores the entries of a matrix in its own way
// and gives a view of them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <specdec/more/rows/list_row.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

namespace support {

using specdec::Index;
using specdec::Token;

template <class Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using ColMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

// Each layout stores the entries of a matrix in its own way, and shows them as an expression with direct access.
template <class S>
struct AsRowMajor {
  using Scalar = S;
  RowMajor<S> held;
  void hold(const RowMajor<S>& m) { held = m; }
  const RowMajor<S>& view() const { return held; }
};

template <class S>
struct AsColMajor {
  using Scalar = S;
  ColMajor<S> held;
  void hold(const RowMajor<S>& m) { held = m; }
  const ColMajor<S>& view() const { return held; }
};

// Rows far apart, entries three apart.
template <class S>
struct AsStridedMap {
  using Scalar = S;
  using Stride = Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>;
  std::vector<S> held;
  Index rows = 0, cols = 0;
  void hold(const RowMajor<S>& m) {
    rows = m.rows();
    cols = m.cols();
    held.assign(static_cast<std::size_t>(rows * (3 * cols + 5) + 1), S{77});
    Eigen::Map<RowMajor<S>, 0, Stride>(held.data(), rows, cols, Stride(3 * cols + 5, 3)) = m;
  }
  auto view() const {
    return Eigen::Map<const RowMajor<S>, 0, Stride>(held.data(), rows, cols, Stride(3 * cols + 5, 3));
  }
};

// The middle of a larger matrix, through a Ref.
template <class S>
struct AsRefOfBlock {
  using Scalar = S;
  RowMajor<S> held;
  void hold(const RowMajor<S>& m) {
    held = RowMajor<S>::Constant(m.rows() + 2, m.cols() + 3, S{77});
    held.block(1, 2, m.rows(), m.cols()) = m;
  }
  auto view() const {
    return Eigen::Ref<const RowMajor<S>, 0, Eigen::OuterStride<>>(
        held.block(1, 2, held.rows() - 2, held.cols() - 3));
  }
};

template <class S>
struct AsColMajorBlock {
  using Scalar = S;
  ColMajor<S> held;
  void hold(const RowMajor<S>& m) {
    held = ColMajor<S>::Constant(m.rows() + 2, m.cols() + 3, S{77});
    held.block(1, 2, m.rows(), m.cols()) = m;
  }
  auto view() const { return held.block(1, 2, held.rows() - 2, held.cols() - 3); }
};

// Narrow scalars: the stored numbers are the nearest ones to the given numbers.
template <class S>
struct AsNarrow {
  using Scalar = double;
  RowMajor<S> held;
  void hold(const RowMajor<double>& m) { held = m.cast<S>(); }
  const RowMajor<S>& view() const { return held; }
};

// One pointer a row. The rows lie in memory in no order, their entries `Step` apart.
template <class S, int Stride = 1, Index Step = 1>
struct AsPointers {
  using Scalar = S;
  std::vector<std::vector<S>> held;
  std::vector<const S*> pointers;
  Index cols = 0;
  void hold(const RowMajor<S>& m) {
    cols = m.cols();
    held.assign(static_cast<std::size_t>(m.rows()),
                std::vector<S>(static_cast<std::size_t>(cols * Step) + 1, S{77}));
    pointers.clear();
    for (Index i = 0; i < m.rows(); ++i) {
      auto& row = held[static_cast<std::size_t>(m.rows() - 1 - i)];
      for (Index x = 0; x < cols; ++x) row[static_cast<std::size_t>(x * Step)] = m(i, x);
      pointers.push_back(row.data());
    }
  }
  auto view() const { return specdec::RowPointers<S, Stride>(pointers, cols, Step); }
};
template <class S>
using AsStridedPointers = AsPointers<S, Eigen::Dynamic, 3>;

// Logits T·log p + c of scalar S, with T = Percent/100. The probabilities that they mean are computed here in double
// from the stored numbers, as narrow logits do not mean exactly p. For this reason c differs from row to row only
// where that (nearly) keeps the meaning.
template <class S, int Percent = 100, bool Normalised = false>
struct AsLogits {
  using Scalar = double;
  static constexpr double temperature = Percent / 100.0;
  static constexpr double shift = sizeof(S) < 4 ? 0 : 1.5;
  RowMajor<S> held;
  std::vector<double> log_sum_exp;

  void hold(const RowMajor<double>& m) {
    held.resize(m.rows(), m.cols());
    log_sum_exp.clear();
    for (Index i = 0; i < m.rows(); ++i) {
      for (Index x = 0; x < m.cols(); ++x)
        held(i, x) = static_cast<S>(temperature * std::log(m(i, x)) + shift * static_cast<double>(i));
      log_sum_exp.push_back(std::log(exponentials(i).sum()) + largest(i) / temperature);
    }
  }
  auto view() const {
    if constexpr (Normalised)
      return specdec::Logits{held, {.temperature = temperature, .log_sum_exp = log_sum_exp}};
    else return specdec::Logits{held, {.temperature = temperature}};
  }
  static Eigen::RowVectorXd means(const RowMajor<double>& row) {
    AsLogits layout;
    layout.hold(row);
    const Eigen::RowVectorXd e = layout.exponentials(0);
    return e / e.sum();
  }

 private:
  double largest(Index i) const {
    double largest = -std::numeric_limits<double>::infinity();
    for (Index x = 0; x < held.cols(); ++x) largest = std::max(largest, static_cast<double>(held(i, x)));
    return largest;
  }
  Eigen::RowVectorXd exponentials(Index i) const {
    Eigen::RowVectorXd e(held.cols());
    const double most = largest(i);
    for (Index x = 0; x < held.cols(); ++x)
      e[x] = std::exp((static_cast<double>(held(i, x)) - most) / temperature);
    return e;
  }
};
template <class S>
using AsNormalisedLogits = AsLogits<S, 70, true>;

// Lists of the tokens with mass, and of every third of the other tokens.
template <class S, class Id = Token>
struct AsSparse {
  using Scalar = double;
  using Row = specdec::SparseRow<S, Id>;
  struct List {
    std::vector<Id> ids;
    std::vector<S> probabilities;
  };
  std::vector<List> held;
  std::vector<Row> rows;
  Index cols = 0;

  AsSparse() = default;
  AsSparse(const AsSparse& other) : cols(other.cols) { assign(other.held); }
  AsSparse& operator=(const AsSparse&) = delete;

  void hold(const RowMajor<double>& m) {
    cols = m.cols();
    std::vector<List> lists(static_cast<std::size_t>(m.rows()));
    for (Index i = 0; i < m.rows(); ++i)
      for (Index x = 0; x < cols; ++x) {
        if (m(i, x) == 0 && (x + i) % 3 != 0) continue;
        lists[static_cast<std::size_t>(i)].ids.push_back(static_cast<Id>(x));
        lists[static_cast<std::size_t>(i)].probabilities.push_back(static_cast<S>(m(i, x)));
      }
    assign(std::move(lists));
  }
  auto view() const { return specdec::RowSpan(rows, cols); }

 private:
  void assign(std::vector<List> lists) {
    held = std::move(lists);
    rows.clear();
    for (const List& list : held) rows.emplace_back(list.ids, list.probabilities, cols);
  }
};

// Lists of structs, as engines have them: the tokens that have mass. A whole vocabulary is listed where all have some.
template <class S>
struct AsList {
  using Scalar = double;
  struct Candidate {
    std::int64_t id;
    S p;
  };
  std::vector<std::vector<Candidate>> held;
  Index cols = 0;

  void hold(const RowMajor<double>& m) {
    cols = m.cols();
    held.assign(static_cast<std::size_t>(m.rows()), {});
    for (Index i = 0; i < m.rows(); ++i)
      for (Index x = 0; x < cols; ++x)
        if (m(i, x) != 0) held[static_cast<std::size_t>(i)].push_back({x, static_cast<S>(m(i, x))});
  }
  auto view() const { return specdec::ListRows{held, &Candidate::id, &Candidate::p, cols}; }
};

}  // namespace support
