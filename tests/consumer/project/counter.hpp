// A little model over ten tokens: after x most likely comes x + 1.
#pragma once

#include <cmath>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

class Counter {
 public:
  explicit Counter(double sharpness) : sharpness_(sharpness) {}

  specdec::Index vocab_size() const { return 10; }

  auto forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    context_.insert(context_.end(), tokens.begin(), tokens.end());
    Eigen::MatrixXf out(rows, vocab_size());
    for (specdec::Index i = 0; i < rows; ++i) {
      const specdec::Token last = context_[context_.size() - static_cast<std::size_t>(rows - i)];
      for (specdec::Token x = 0; x < 10; ++x)
        out(i, x) = static_cast<float>(std::exp(-sharpness_ * ((x - last + 9) % 10)));
      out.row(i) /= out.row(i).sum();
    }
    return out;
  }

  void truncate(specdec::Index length) {
    if (length < static_cast<specdec::Index>(context_.size()))
      context_.resize(static_cast<std::size_t>(length));
  }

 private:
  double sharpness_;
  std::vector<specdec::Token> context_;
};

specdec::Result generate_elsewhere(std::span<const specdec::Token> prompt, const specdec::Options& options,
                                   std::mt19937_64& rng);
