// The inputs of the benches: rows like those of a language model, drafts really drawn from them, and a way to
// make the cache forget both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "specdec/core/chance.hpp"
#include "specdec/core/dense.hpp"
#include "specdec/types.hpp"

namespace bench {

using specdec::Index;
using specdec::Token;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Rows = Eigen::Map<const RowMajor>;

enum class Order {
  ordered,   ///< token ids by frequency, the most frequent first
  shuffled,  ///< every row in an order of its own
};

template <class Row>
void softmax(Eigen::Array<float, 1, Eigen::Dynamic>& logits, Row&& row) {
  logits = (logits - logits.maxCoeff()).exp();
  row = (logits / logits.sum()).matrix();
}

/// Target logits −1.6·log(1 + rank) + 0.7·N(0, 1), draft logits target + 0.6·N(0, 1), both through softmax.
struct Pool {
  RowMajor target, draft;

  Pool(Index rows, Index vocab_size, Order order, std::mt19937_64& generator)
      : target(rows, vocab_size), draft(rows, vocab_size) {
    using Logits = Eigen::Array<float, 1, Eigen::Dynamic>;
    std::normal_distribution<float> normal;
    Logits p(vocab_size), q(vocab_size);
    std::vector<Index> id(static_cast<std::size_t>(vocab_size));
    std::iota(id.begin(), id.end(), Index{0});
    const Logits zipf = -1.6f * Logits::LinSpaced(vocab_size, 1, static_cast<float>(vocab_size)).log();
    for (Index i = 0; i < rows; ++i) {
      if (order == Order::shuffled) std::ranges::shuffle(id, generator);
      for (Index rank = 0; rank < vocab_size; ++rank) {
        const Index x = id[static_cast<std::size_t>(rank)];
        p[x] = zipf[rank] + 0.7f * normal(generator);
        q[x] = p[x] + 0.6f * normal(generator);
      }
      softmax(p, target.row(i));
      softmax(q, draft.row(i));
    }
  }
};

/// What one bench runs over: the rows of a pool cut into blocks of γ+1 target and γ draft rows, and drafts
/// for them. Draft k is for block k modulo blocks(), so that a round of blocks() drafts visits no row twice.
class Input {
 public:
  Input(const Pool& pool, Index gamma, Index at_least, std::mt19937_64& generator)
      : pool_(&pool), gamma_(gamma), blocks_(pool.target.rows() / (gamma + 1)) {
    const Index drafts = (at_least + blocks_ - 1) / blocks_ * blocks_;
    specdec::RandomChance chance(generator);
    tokens_.reserve(static_cast<std::size_t>(drafts * gamma));
    for (Index k = 0; k < drafts; ++k) {
      const Rows q = draft(k);
      const specdec::DenseRows rows(q);
      for (Index i = 0; i < gamma; ++i) tokens_.push_back(chance.draw(rows.row(i)));
    }
    drafts_ = drafts;
  }

  Index gamma() const { return gamma_; }
  Index vocab_size() const { return pool_->target.cols(); }
  Index blocks() const { return blocks_; }
  Index drafts() const { return drafts_; }

  Rows target(Index k) const { return rows(pool_->target, k, gamma_ + 1); }
  Rows draft(Index k) const { return rows(pool_->draft, k, gamma_); }
  std::span<const Token> tokens(Index k) const {
    return std::span(tokens_).subspan(static_cast<std::size_t>(k * gamma_), static_cast<std::size_t>(gamma_));
  }

 private:
  Rows rows(const RowMajor& matrix, Index k, Index count) const {
    return {matrix.data() + k % blocks_ * (gamma_ + 1) * matrix.cols(), count, matrix.cols()};
  }

  const Pool* pool_;
  Index gamma_, blocks_, drafts_ = 0;
  std::vector<Token> tokens_;
};

/// What distinguishes one bench of a rule from another.
struct Setting {
  Index gamma, vocab_size;
  Order order;
};

/// Rows up to this vocabulary stay in the cache, as they do where a model with so few tokens has just written
/// them. Larger ones are read from memory.
inline constexpr Index cached_vocab_size = 1000;

/// The input of a setting; made on demand, and only one pool of rows (some 280 MB) lives at a time.
inline const Input& input(const Setting& setting) {
  static std::unique_ptr<Pool> pool;
  static std::optional<std::pair<Index, Order>> pool_key;
  static std::unique_ptr<Input> made;
  static Index made_gamma = -1;
  std::mt19937_64 generator(static_cast<std::uint64_t>(setting.vocab_size + setting.gamma));
  if (pool_key != std::pair(setting.vocab_size, setting.order)) {
    made.reset();
    pool.reset();
    const Index rows = 17 * (setting.vocab_size > 100'000 ? 16 : 64);
    pool = std::make_unique<Pool>(rows, setting.vocab_size, setting.order, generator);
    pool_key = {setting.vocab_size, setting.order};
  }
  if (!made || made_gamma != setting.gamma) {
    const Index drafts = setting.vocab_size > cached_vocab_size ? 480 : 4096;
    made = std::make_unique<Input>(*pool, setting.gamma, drafts, generator);
    made_gamma = setting.gamma;
  }
  return *made;
}

/// Reads 64 MB of something else.
inline float evict() {
  static const Eigen::ArrayXf other = Eigen::ArrayXf::Ones(Index{1} << 24);
  return other.sum();
}

}  // namespace bench
