// A pool of contexts, with a target row and a draft row for each.
// SPDX-License-Identifier: MIT
#pragma once

#include <Eigen/Core>
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "acceptance/dial.hpp"
#include "acceptance/families.hpp"
#include "specdec/error.hpp"

namespace acceptance {

enum class Side { target, draft };

/// The setting of a pool.
struct PoolSetting {
  std::string family = "zipf";
  Index vocab_size = 1000;
  double overlap = 0.7;    ///< β = E Σ min(p, q) over the contexts, at temperature 1
  double temperature = 1;  ///< of both models, applied after the dial; 0 is the argmax
  std::uint64_t seed = 1;
  auto operator<=>(const PoolSetting&) const = default;
};

/// Rows for a fixed number of contexts, as float probabilities. Equal settings make equal rows.
///
/// The knob of the family is turned until the mean overlap over the contexts of this pool is the wanted one, within
/// dial_tolerance. Then the temperature is applied to both sides.
/// Throws: std::invalid_argument for an unknown family, an empty vocabulary, a negative temperature, and an overlap that the
/// family does not reach with this vocabulary.
/// Size: 32 to 1024 contexts; at most 66 MB for vocabularies of up to 256 000.
class Pool {
 public:
  explicit Pool(const PoolSetting& setting) : setting_(setting) {
    if (setting.vocab_size < 1)
      specdec::detail::invalid_argument("vocab_size = ", setting.vocab_size, " is below 1");
    if (!(setting.temperature >= 0))
      specdec::detail::invalid_argument("temperature = ", setting.temperature, " is negative");
    target_.resize(contexts(), vocab_size());
    draft_.resize(contexts(), vocab_size());
    if (!with_family(setting.family, [this](const auto& family) { make(family); }))
      specdec::detail::invalid_argument("family = ", setting.family, " is none of those in families.hpp");
  }

  const PoolSetting& setting() const { return setting_; }
  Index vocab_size() const { return setting_.vocab_size; }
  Index contexts() const { return std::clamp<Index>((Index{1} << 22) / vocab_size(), 32, 1024); }

  /// Whether all contexts have the same rows, as the family declares.
  bool context_free() const { return context_free_; }
  /// The knob of the family after the dial.
  double knob() const { return knob_; }
  /// The mean of Σ min(p, q) over the contexts, at the temperature of the setting.
  double overlap() const {
    double sum = 0;
    for (Index i = 0; i < contexts(); ++i) sum += acceptance::overlap(target_.row(i), draft_.row(i));
    return sum / static_cast<double>(contexts());
  }

  /// vocab_size() probabilities.
  const float* row(Side side, Index context) const {
    return (side == Side::target ? target_ : draft_).row(context).data();
  }

 private:
  using Matrix = Eigen::Array<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  // Until the knob is known, draft_ holds the directions.
  template <class F>
  void make(const F& family) {
    context_free_ = requires { family.context_free; };
    Row row(vocab_size());
    for (Index i = 0; i < contexts(); ++i) {
      SplitMix64 generator(mixed(setting_.seed, static_cast<std::uint64_t>(i)));
      family.target(generator, row);
      store(row / row.maxCoeff(), target_, i);
      family.direction(generator, row);
      store(row, draft_, i);
    }
    Row p, q;
    const auto overlap_at = [&](double knob) {
      double sum = 0;
      for (Index i = 0; i < contexts(); ++i) {
        pair(family, i, knob, p, q);
        sum += acceptance::overlap(p, q);
      }
      return sum / static_cast<double>(contexts());
    };
    knob_ = dial(overlap_at, family.most, setting_.overlap);
    for (Index i = 0; i < contexts(); ++i) {
      pair(family, i, knob_, p, q);
      cool(p), cool(q);
      store(p / total(p), target_, i);
      store(q / total(q), draft_, i);
    }
  }

  static void store(const Row& row, Matrix& matrix, Index i) {
    matrix.row(i) = row.transpose().cast<float>();
  }

  // The weights of context i at this knob.
  template <class F>
  void pair(const F& family, Index i, double knob, Row& p, Row& q) const {
    p = target_.row(i).transpose().cast<double>();
    const Row direction = draft_.row(i).transpose().cast<double>();
    family.draft(p, direction, knob, q);
    if constexpr (requires { family.finish_target(direction, knob, p); })
      family.finish_target(direction, knob, p);
    if constexpr (requires { family.finish(p); }) family.finish(p), family.finish(q);
  }

  void cool(Row& row) const {
    if (setting_.temperature == 1) return;
    Index likeliest = 0;
    row.maxCoeff(&likeliest);
    if (setting_.temperature > 0) {
      raise(Row(row), 1 / setting_.temperature, row);
    } else {
      row.setZero();
      row[likeliest] = 1;
    }
  }

  PoolSetting setting_;
  double knob_ = 0;
  bool context_free_ = false;
  Matrix target_, draft_;
};

}  // namespace acceptance
