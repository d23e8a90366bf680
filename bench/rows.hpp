// The rows of the benches: logits like those of a language model, and logits of a drafter with the acceptance rate that the
// bench wants.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <typeinfo>
#include <vector>

#include "specdec/types.hpp"

namespace bench {

using specdec::Index;
using specdec::Token;

template <class S>
using MatrixOf = Eigen::Matrix<S, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowMajor = MatrixOf<float>;
using Rows = Eigen::Map<const RowMajor>;
using Row = Eigen::Array<float, 1, Eigen::Dynamic>;

enum class Order {
  ordered,   ///< token ids by frequency, the most frequent first
  shuffled,  ///< in every row another order
};

enum class Side { target, draft };

/// The setting of a pool of rows. `accept` is the acceptance rate in percent.
struct PoolSetting {
  Index vocab_size;
  Order order;
  int accept;
  auto operator<=>(const PoolSetting&) const = default;
};

template <class Logits, class Out>
void softmax(const Logits& logits, Out&& out) {
  out = (logits - logits.maxCoeff()).exp();
  out /= out.sum();
}

/// Target logits by rank: −1.6·log(1 + rank) + 0.7·N(0, 1).
class TargetLogits {
 public:
  explicit TargetLogits(Index vocab_size)
      : zipf_(-1.6f * Row::LinSpaced(vocab_size, 1, static_cast<float>(vocab_size)).log()) {}
  float operator()(Index rank, std::mt19937_64& generator) { return zipf_[rank] + 0.7f * normal_(generator); }
  float noise(std::mt19937_64& generator) { return normal_(generator); }

 private:
  Row zipf_;
  std::normal_distribution<float> normal_;
};

/// The σ for which draft logits target + σ·N(0, 1) have the acceptance rate `accept` = E Σ min(p, q). Found by
/// bisection over the first 4096 ranks of 256 rows, which hold all but half a percent of the mass.
inline float draft_noise(Index vocab_size, double accept) {
  const Index rows = 256, head = std::min<Index>(vocab_size, 4096);
  std::mt19937_64 generator(7);
  TargetLogits logits(head);
  RowMajor l(rows, head), noise(rows, head);
  for (Index i = 0; i < rows; ++i)
    for (Index x = 0; x < head; ++x) {
      l(i, x) = logits(x, generator);
      noise(i, x) = logits.noise(generator);
    }
  Row p(head), q(head);
  const auto rate = [&](float sigma) {
    double sum = 0;
    for (Index i = 0; i < rows; ++i) {
      softmax(l.row(i).array(), p);
      softmax((l.row(i) + sigma * noise.row(i)).array(), q);
      sum += static_cast<double>(p.min(q).sum());
    }
    return sum / static_cast<double>(rows);
  };
  float low = 0, high = 16;
  for (int step = 0; step < 12; ++step) {
    const float middle = (low + high) / 2;
    (rate(middle) > accept ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Rows of logits. Keeps the objects that are made from them, and destroys them with the rows.
class Pool {
 public:
  Pool(const PoolSetting& setting, Index rows)
      : setting_(setting), target_(rows, setting.vocab_size), draft_(rows, setting.vocab_size) {
    const Index vocab_size = setting.vocab_size;
    const float sigma = draft_noise(vocab_size, setting.accept / 100.0);
    std::mt19937_64 generator(static_cast<std::uint64_t>(vocab_size));
    TargetLogits logits(vocab_size);
    std::vector<Index> id(static_cast<std::size_t>(vocab_size));
    std::iota(id.begin(), id.end(), Index{0});
    for (Index i = 0; i < rows; ++i) {
      if (setting.order == Order::shuffled) std::ranges::shuffle(id, generator);
      for (Index rank = 0; rank < vocab_size; ++rank) {
        const Index x = id[static_cast<std::size_t>(rank)];
        target_(i, x) = logits(rank, generator);
        draft_(i, x) = target_(i, x) + sigma * logits.noise(generator);
      }
    }
  }

  const PoolSetting& setting() const { return setting_; }
  Index rows() const { return target_.rows(); }
  Index vocab_size() const { return target_.cols(); }
  const RowMajor& logits(Side side) const { return side == Side::target ? target_ : draft_; }
  auto logits(Side side, Index i) const { return logits(side).row(i).array(); }

  /// A T made from this pool and the arguments at the first call. `key` distinguishes several objects of type T.
  template <class T, class... Arguments>
  T& made(const std::string& key, const Arguments&... arguments) {
    std::shared_ptr<void>& slot = made_[typeid(T).name() + key];
    if (!slot) slot = std::make_shared<T>(*this, arguments...);
    return *static_cast<T*>(slot.get());
  }

 private:
  PoolSetting setting_;
  RowMajor target_, draft_;
  std::map<std::string, std::shared_ptr<void>> made_;
};

/// The pool of a setting, made on demand. Only one pool exists at a time, because it takes 280 MB, and with all
/// kinds of rows up to 1 GB. So run the benches of one pool together.
inline Pool& pool(const PoolSetting& setting) {
  static std::unique_ptr<Pool> only;
  if (!only || only->setting() != setting) {
    only.reset();
    const Index blocks = setting.vocab_size > 200'000 ? 8 : setting.vocab_size > 100'000 ? 16 : 64;
    only = std::make_unique<Pool>(setting, 17 * blocks);
  }
  return *only;
}

/// Empties the cache of all rows: reads 64 MB of other numbers.
inline float evict() {
  static const Eigen::ArrayXf other = Eigen::ArrayXf::Ones(Index{1} << 24);
  return other.sum();
}

}  // namespace bench
