// Which tokens each sampling step keeps of a row of logits, by sorting.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <random>
#include <specdec/rows/kinds/logits.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace support {

using specdec::Index;
using specdec::LogitsRow;
using specdec::Token;

// A row of logits after a step: its cut, and the probabilities of its tokens.
struct Processed {
  double cut;
  std::vector<double> p;
};

template <class S>
std::vector<S> as(const std::vector<double>& logits) {
  std::vector<S> out;
  for (const double l : logits) out.push_back(static_cast<S>(static_cast<float>(l)));
  return out;
}

template <class S>
LogitsRow<S> row_of(const std::vector<S>& logits) {
  return LogitsRow<S>(specdec::NumberRow<S>(logits.data(), std::ssize(logits)));
}

template <class S>
Processed read(const LogitsRow<S>& row) {
  Processed out{static_cast<double>(row.cut()),
                std::vector<double>(static_cast<std::size_t>(row.vocab_size()))};
  for (std::size_t x = 0; x < out.p.size(); ++x) out.p[x] = row.probability(static_cast<Token>(x));
  return out;
}

// The result of a step on a row of logits with scalars S.
template <class S>
Processed process(const auto& step, const std::vector<double>& logits) {
  const std::vector<S> held = as<S>(logits);
  return read(step(row_of(held)));
}

// Logits, and which of them each step keeps by its definition.
class Sorted {
 public:
  explicit Sorted(std::vector<double> logits)
      : logits_(std::move(logits)),
        largest_(*std::ranges::max_element(logits_)),
        cut_(std::numeric_limits<double>::lowest()) {}

  bool kept(std::size_t x) const { return logits_[x] >= cut_; }

  void temperature(double t) { temperature_ *= t; }

  void top_k(Index k) {
    const auto sorted = kept_sorted();
    if (k > 0 && k < std::ssize(sorted)) cut_ = sorted[static_cast<std::size_t>(k - 1)];
  }

  // The smallest set with mass p. If a mass is within rounding of p, TopP may take that set or the next larger one.
  // Its cut is `taken`, which must be one of these two.
  void top_p(double p, double taken) {
    if (p == 1 || temperature_ == 0) return;
    constexpr long double rounding = 3e-6L;
    const auto sorted = kept_sorted();
    long double total = 0, mass = 0, without_last = 0;
    for (const double l : sorted) total += weight(l);
    double last = sorted.front();
    std::size_t n = 0;
    for (; n < sorted.size() && sorted[n] >= taken; ++n) {
      if (sorted[n] < last) without_last = mass;
      last = sorted[n];
      mass += weight(last);
    }
    REQUIRE(n > 0);
    CHECK((mass / total > p - rounding || n == sorted.size()));
    CHECK(without_last / total < p + rounding);
    cut_ = last;
  }

  // p(x) >= min_p · max p.
  void min_p(double p) {
    if (!(p > 0) || temperature_ == 0) return;
    double least = largest_;
    for (const double l : logits_)
      if (weight(l) >= static_cast<long double>(p)) least = std::min(least, l);
    cut_ = std::max(cut_, least);
  }

  // Whether both keep equal tokens with equal probabilities.
  void check(const Processed& row, double tolerance) const {
    const std::vector<double> expected = probabilities();
    REQUIRE(row.p.size() == expected.size());
    double worst = 0;
    bool same_tokens = true;
    for (std::size_t x = 0; x < expected.size(); ++x) {
      same_tokens &= (row.p[x] > 0) == (expected[x] > 0) || (row.p[x] < 1e-200 && expected[x] < 1e-200);
      worst = std::max(worst, std::abs(row.p[x] - expected[x]) / std::max(expected[x], 1e-9));
    }
    CHECK(same_tokens);
    CHECK(worst < tolerance);
  }

 private:
  long double weight(double l) const {
    return std::exp((static_cast<long double>(l) - static_cast<long double>(largest_)) /
                    static_cast<long double>(temperature_));
  }

  std::vector<double> kept_sorted() const {
    std::vector<double> sorted;
    for (std::size_t x = 0; x < logits_.size(); ++x)
      if (kept(x)) sorted.push_back(logits_[x]);
    std::ranges::sort(sorted, std::greater<>());
    return sorted;
  }

  std::vector<double> probabilities() const {
    long double total = 0;
    std::vector<double> out(logits_.size());
    const auto first = std::ranges::max_element(logits_) - logits_.begin();
    const auto p = [&](std::size_t x) {
      if (temperature_ == 0) return static_cast<std::ptrdiff_t>(x) == first ? 1.0L : 0.0L;
      return kept(x) ? weight(logits_[x]) : 0.0L;
    };
    for (std::size_t x = 0; x < out.size(); ++x) total += p(x);
    for (std::size_t x = 0; x < out.size(); ++x) out[x] = static_cast<double>(p(x) / total);
    return out;
  }

  std::vector<double> logits_;
  double temperature_ = 1, largest_, cut_;
};

// The precision of float logits. Logits of double have more.
template <class S>
inline constexpr double row_tolerance = std::same_as<S, double> ? 1e-9 : 4e-6;

template <class S>
double rounded_to(double l) {
  return static_cast<double>(static_cast<S>(static_cast<float>(l)));
}
using Rounding = double (*)(double);

// Rows of many kinds: flat, peaked, with ties, masked. The scalar in use holds all entries exactly.
inline std::vector<double> random_logits(std::size_t size, std::mt19937_64& rng,
                                         Rounding held = rounded_to<float>) {
  std::normal_distribution<double> normal(0, 1);
  const auto pick = [&](double a, double b, double c, double d) {
    const double list[] = {a, b, c, d};
    return list[rng() % 4];
  };
  const double spread = pick(0, 0.3, 1, 4), grid = pick(0, 0, 0.25, 1), offset = pick(0, 0, -20, 15);
  const double zipf = pick(0, 0, 1.6, 1.6), masked = pick(0, 0, 0.3, 0.95);
  std::vector<double> logits(size);
  for (std::size_t x = 0; x < size; ++x) {
    double l = spread * normal(rng) + offset - zipf * std::log(1.0 + static_cast<double>(x));
    if (grid > 0) l = std::round(l / grid) * grid;
    const bool none = static_cast<double>(rng() % 1000) < 1000 * masked;
    logits[x] = none ? -std::numeric_limits<double>::infinity() : held(l);
  }
  double& one = logits[rng() % size];
  if (std::isinf(one)) one = offset;
  return logits;
}

// A few thousand tokens at most.
inline std::size_t random_size(std::mt19937_64& rng) {
  const std::size_t limits[] = {3, 40, 600, 2049, 3000};
  return 1 + rng() % limits[rng() % 5];
}

// Rows that are hard to cut: with few different numbers; with many thousand tokens, shuffled or not; with soft masks
// and outliers; and one row that looks different to a sample at equal distances.
inline std::vector<std::vector<double>> hard_rows() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> rows;
  for (const std::size_t n : {1u, 2u, 513u, 2049u, 30'000u, 128'256u}) {
    if (sanitized && n > 100'000) break;
    rows.emplace_back(n, 1.0);
    rows.emplace_back(n, 1.0);
    for (std::size_t x = 0; x < n; x += 3) rows.back()[x] = 2;
    rows.emplace_back(n, -infinity);
    rows.back()[n / 2] = -3;
    rows.emplace_back(n, 0.0);
    for (std::size_t x = 1; x < n; x += 2) rows.back()[x] = -0.0;
  }
  std::mt19937_64 rng{5};
  std::normal_distribution<float> normal;
  for (const double mask : {-1e4, -1e9, static_cast<double>(std::numeric_limits<float>::lowest())})
    for (const double outlier : {0.0, 30.0, 1e6}) {
      rows.emplace_back(50'000);
      for (std::size_t x = 0; x < rows.back().size(); ++x)
        rows.back()[x] = x % 2 == 0 ? static_cast<float>(mask) : normal(rng);
      if (outlier > 0) rows.back()[777] = outlier;
    }
  for (const std::size_t size : {40'960u, 65'536u}) {
    // A sample takes entries at equal distances, and this row has no weight there.
    constexpr std::size_t step = 64;
    rows.emplace_back(size);
    for (std::size_t x = 0; x < size; ++x) {
      const float l = static_cast<float>(x % 977) * 0.001f;
      rows.back()[x] = x % step == step / 2 ? l - 4 : l;
    }
  }
  return rows;
}

}  // namespace support
