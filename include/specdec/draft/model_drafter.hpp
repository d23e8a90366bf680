// Drafts with a small model.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/core/chance.hpp"
#include "specdec/core/named_row.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/model/model.hpp"

namespace specdec {
namespace detail {

/// The scalar that a copy of a row is kept in: its own where it hands out blocks, else double.
template <class Row>
struct CopyScalar : std::type_identity<double> {};
template <BlockRow Row>
struct CopyScalar<Row>
    : std::type_identity<typename decltype(std::declval<const Row&>().block(0, 0))::Scalar> {};

/// Copies of the rows that tokens were drawn from, for models that overwrite their rows.
template <Distribution Row>
class RowCopies {
  using Scalar = typename CopyScalar<Row>::type;
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Rows = DenseRows<Eigen::Block<Matrix, Eigen::Dynamic, Eigen::Dynamic, true>>;

 public:
  void start(Index gamma, Index vocab_size) {
    if (copies_.rows() < gamma || copies_.cols() != vocab_size) copies_ = Matrix(gamma, vocab_size);
    size_ = 0;
  }

  void push(const Row& row) {
    if constexpr (BlockRow<Row>) {
      copies_.row(size_) = row.block(0, row.vocab_size()).matrix().transpose();
    } else {
      for (Index x = 0; x < row.vocab_size(); ++x) copies_(size_, x) = row.probability(static_cast<Token>(x));
    }
    ++size_;
  }

  Rows rows() { return Rows(copies_.topRows(size_)); }

 private:
  Matrix copies_;
  Index size_ = 0;
};

/// The rows themselves, for models with stable rows.
template <Distribution Row>
class RowList {
 public:
  class Rows {
   public:
    Rows(std::span<const Row> list, Index vocab_size) : list_(list), vocab_size_(vocab_size) {}
    Index rows() const { return static_cast<Index>(list_.size()); }
    Index vocab_size() const { return vocab_size_; }
    const Row& row(Index i) const { return list_[static_cast<std::size_t>(i)]; }

   private:
    std::span<const Row> list_;
    Index vocab_size_;
  };

  void start(Index, Index vocab_size) {
    list_.clear();
    vocab_size_ = vocab_size;
  }
  void push(const Row& row) { list_.push_back(row); }
  Rows rows() const { return Rows(list_, vocab_size_); }

 private:
  std::vector<Row> list_;
  Index vocab_size_ = 0;
};

}  // namespace detail

/// Drafts autoregressively with a model, and reports the very rows it drew from.
///
/// Source: Leviathan et al., arXiv:2211.17192, Alg. 1, lines 1–3 (the guesses of the approximation model).
/// A model passed as an lvalue is referred to and must outlive the drafter; an rvalue is moved in.
/// Random: one draw per token. Cost: γ calls of the model; the first also takes in what the model has not
/// seen of the context (after full acceptance that is x_γ as well as Y). No allocation in steady state.
template <class M>
requires Model<std::remove_reference_t<M>>
class ModelDrafter {
  using Row = RowOf<decltype(distributions(
      std::declval<std::remove_reference_t<M>&>().forward(std::span<const Token>{}, Index{1})))>;
  using Kept = std::conditional_t<has_stable_rows<std::remove_reference_t<M>>, detail::RowList<Row>,
                                  detail::RowCopies<Row>>;

 public:
  explicit ModelDrafter(M&& model) : model_(std::forward<M>(model)) {}

  /// Throws: std::invalid_argument on an empty context, and where the model returns rows of another shape
  /// than asked for.
  template <RandomSource Source>
  auto draft(std::span<const Token> context, Index gamma, Source& source) {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    auto&& chance = as_chance(source);
    tokens_.clear();
    kept_.start(gamma, model_.vocab_size());
    for (Index i = 0; i < gamma; ++i) {
      const auto& output = forward(i == 0 ? unseen(context) : std::span<const Token>(tokens_).last(1));
      const auto rows = distributions(output);
      check(rows);
      const auto q = rows.row(0);
      kept_.push(q);
      tokens_.push_back(chance.draw(detail::NamedRow(q, "draft", i)));
    }
    return Draft<decltype(kept_.rows())>{tokens_, kept_.rows()};
  }

  void truncate(Index length) {
    seen_ = std::min(seen_, length);
    model_.truncate(seen_);
  }

 private:
  // A row of another size would be read, or kept, out of bounds.
  template <class Rows>
  void check(const Rows& rows) const {
    if (rows.rows() != 1 || rows.row(0).vocab_size() != model_.vocab_size())
      detail::invalid_argument("the draft model returned ", rows.rows(), " rows over ",
                               rows.rows() > 0 ? rows.row(0).vocab_size() : 0,
                               " tokens, expected 1 row over its vocabulary of ", model_.vocab_size());
  }

  // What the model has to take in before it can guess: at least the last token, whose row is wanted.
  std::span<const Token> unseen(std::span<const Token> context) {
    if (seen_ >= static_cast<Index>(context.size())) truncate(static_cast<Index>(context.size()) - 1);
    return context.subspan(static_cast<std::size_t>(seen_));
  }

  decltype(auto) forward(std::span<const Token> tokens) {
    decltype(auto) output = model_.forward(tokens, Index{1});
    seen_ += static_cast<Index>(tokens.size());
    return output;
  }

  M model_;
  Index seen_ = 0;  // length of the model's context
  std::vector<Token> tokens_;
  Kept kept_;
};

template <class M>
ModelDrafter(M&&) -> ModelDrafter<M>;

}  // namespace specdec
