// Shows a row type of your own. It gives the probability of a token and draws a token, and every verifier takes it.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/analysis.hpp>
#include <specdec/specdec.hpp>
#include <vector>

using specdec::Index, specdec::Token;

// A cache model (Grave et al., arXiv:1612.04426): the model's row, mixed with the frequencies of the tokens in the text so
// far. The mixture is never computed as a whole: a draw picks one of the two parts and draws from it.
class CacheRow {
 public:
  CacheRow(specdec::DenseRow<float> model, std::span<const Token> text, double share)
      : model_(model), text_(text), share_(share) {}

  Index vocab_size() const { return model_.vocab_size(); }

  double probability(Token x) const {
    const auto count = static_cast<double>(std::count(text_.begin(), text_.end(), x));
    return (1 - share_) * model_.probability(x) + share_ * count / static_cast<double>(text_.size());
  }

  // Returns a function that maps a number u, uniform on [0, 1), to a token.
  auto sampler() const {
    return [this, from_model = model_.sampler()](double u) mutable {
      if (u >= share_) return from_model((u - share_) / (1 - share_));
      const auto i = static_cast<std::size_t>(u / share_ * static_cast<double>(text_.size()));
      return text_[std::min(i, text_.size() - 1)];
    };
  }

 private:
  specdec::DenseRow<float> model_;
  std::span<const Token> text_;
  double share_;
};

int main() {
  const std::vector<Token> text{3, 1, 3, 3, 2, 3}, tokens{3, 0};
  Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> model(3, 4), draft(2, 4);
  model << 0.7f, 0.1f, 0.1f, 0.1f,  //
      0.4f, 0.4f, 0.1f, 0.1f,       //
      0.1f, 0.1f, 0.1f, 0.7f;
  draft << 0.2f, 0.2f, 0.2f, 0.4f,  //
      0.6f, 0.2f, 0.1f, 0.1f;

  const auto model_rows = specdec::distributions(model);
  std::vector<CacheRow> rows;
  for (Index i = 0; i < model_rows.rows(); ++i) rows.emplace_back(model_rows.row(i), text, 0.5);
  const specdec::RowSpan target{rows, 4};
  specdec::validate(target);  // throws unless each number is a probability and each row sums to 1

  std::mt19937_64 rng{1};
  double accepted = 0;
  for (int k = 0; k < 10'000; ++k)
    accepted += static_cast<double>(specdec::TokenVerifier{}(target, draft, tokens, rng).accepted);
  std::cout << accepted / 10'000 << " of 2 accepted, expected "
            << specdec::survival_of_draft(specdec::TokenVerifier{}, target, draft, tokens).expected_accepted()
            << "\n";
}
