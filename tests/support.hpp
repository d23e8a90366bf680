// What several tests share: matrices in every layout, and a model that serves its rows in one of them.
#pragma once

#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace support {

using specdec::Index;
using specdec::Token;

template <class Scalar>
using RowMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Scalar>
using ColMajor = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;

// Each layout holds the entries of a matrix its own way and shows them as an expression with direct access.
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

// Rows a good way apart, entries three apart.
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

// The middle of a larger matrix, seen through Ref.
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
  auto distribution(std::span<const Token> context) const { return table_.distribution(context); }

 private:
  Table table_;
  Layout layout_;
};

// The message of what f throws; empty when it throws nothing.
template <class E = std::invalid_argument, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

// The paper's toy models: p = (1/3, 2/3), q = (2/3, 1/3) in every context.
inline auto toy_target() {
  return specdec::testing::TableModel<>::context_free(Eigen::RowVector2d(1.0 / 3, 2.0 / 3));
}
inline auto toy_drafter() {
  return specdec::ModelDrafter{
      specdec::testing::TableModel<>::context_free(Eigen::RowVector2d(2.0 / 3, 1.0 / 3))};
}

}  // namespace support
