// Rows of probabilities, and what is drawn from them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <specdec/specdec.hpp>
#include <vector>

namespace mistakes {

using specdec::Index, specdec::Token, specdec::Verdict;
using Row = Eigen::RowVectorXd;
using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Draws a token from a row.
using Draw = std::function<Token(const Row&)>;
Draw draw_by(auto& chance) {
  return [&](const Row& row) { return chance.draw(specdec::distributions(row).row(0)); };
}

// The row without the tokens that are less than half as likely as the likeliest.
inline Row cut(const Row& row) {
  const Row kept = (row.array() >= 0.5 * row.maxCoeff()).select(row, 0.0);
  return kept / kept.sum();
}

// A uniform random number. So far it is known that it lies between `from` and `to`.
struct Uniform {
  double from = 0, to = 1;

  // The token where the cumulative sum of the row passes the number. After it, more is known of the number.
  Token invert(const auto& row, const Draw& draw) {
    if (to - from < 0x1p-40) return at(from, row);  // nothing is left to learn
    std::vector<Uniform> parts;
    Row shares(row.vocab_size());
    double sum = 0;
    for (Token x = 0; x < shares.size(); ++x) {
      const double before = sum;
      sum += row.probability(x);
      parts.push_back({std::max(from, before), std::min(to, sum)});
      shares[x] = std::max(0.0, parts.back().to - parts.back().from) / (to - from);
    }
    const Token x = draw(shares);
    *this = parts[static_cast<std::size_t>(x)];
    return x;
  }

 private:
  static Token at(double number, const auto& row) {
    Token x = 0;
    for (double sum = row.probability(0); sum <= number && x + 1 < row.vocab_size();)
      sum += row.probability(++x);
    return x;
  }
};

}  // namespace mistakes
