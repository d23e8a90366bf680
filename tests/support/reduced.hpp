// A head or a layer that drafts two of the target's tokens, usually of four.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <cmath>
#include <limits>
#include <memory>
#include <specdec/more/rows/mapped.hpp>
#include <utility>
#include <vector>

namespace support {

// Returns the logits of tokens 2 and 0, in this order, and between them a column that stands for no token.
template <class Inner>
class Reduced : public Inner {
 public:
  using Map = specdec::TokenMap;

  Reduced(Inner inner, Eigen::Index vocab_size = 3, Eigen::Index target_vocab_size = 4)
      : Inner(std::move(inner)),
        vocab_size_(vocab_size),
        map_(std::make_shared<const Map>(std::vector<specdec::Token>{2, Map::none, 0}, target_vocab_size)) {}

  Eigen::Index vocab_size() const { return vocab_size_; }
  const Map* token_map() const { return map_.get(); }

  const Eigen::MatrixXd& forward(const auto&... arguments) {
    const auto& rows = Inner::forward(arguments...);
    logits_.resize(rows.rows(), 3);
    for (Eigen::Index i = 0; i < rows.rows(); ++i)
      logits_.row(i) << std::log(rows(i, 2)), 9, std::log(rows(i, 0));
    return logits_;
  }

 private:
  Eigen::Index vocab_size_;
  std::shared_ptr<const Map> map_;
  Eigen::MatrixXd logits_;
};

// Takes all tokens.
template <class Inner>
struct Unreduced : Inner {
  const specdec::TokenMap* token_map() const { return nullptr; }
};

// The logits over the target's four tokens that follow from a row of probabilities over three.
inline Eigen::RowVectorXd reduced(const Eigen::RowVectorXd& row) {
  const double none = -std::numeric_limits<double>::infinity();
  Eigen::RowVectorXd logits(4);
  logits << std::log(row[0]), none, std::log(row[2]), none;
  return logits;
}

}  // namespace support
