// Rows with the numbers of a device's rows, for specdec::verify(): to hold a kernel's verdicts to those of the host.
// SPDX-License-Identifier: MIT
#pragma once

#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <specdec/error.hpp>
#include <specdec/more/device/cut.hpp>
#include <specdec/more/device/drafted.hpp>
#include <specdec/more/device/row.hpp>
#include <specdec/more/device/segments.hpp>
#include <specdec/more/device/team.hpp>
#include <specdec/types.hpp>

namespace support {

namespace device = specdec::device;
using specdec::Index;
using specdec::Token;

/// A row of a device as a Distribution.
template <class Scalar>
class RowOnHost {
 public:
  explicit RowOnHost(const device::Row<Scalar>& row) : row_(row) {}

  Index vocab_size() const { return row_.vocab_size(); }
  double probability(Token x) const { return readable().probability(x); }
  auto sampler() const {
    readable();
    return [row = *this](double u) { return row.sound().draw(device::LoopTeam{}, u); };
  }
  Token argmax() const { return sound().argmax(device::LoopTeam{}); }

  /// Ends a race by the sums of a device, for sources of chance by address.
  template <class Q, class Pair>
  std::optional<Token> settle(double w, const Q& q, const Pair& pair) const {
    std::vector<double> residual(static_cast<std::size_t>(device::segments_of(vocab_size())));
    device::LoopCrew<1> crew;
    const device::detail::RaceEnd end = device::detail::settle_race(crew, pair, w, row_, q, residual.data());
    if (end.is_nan)
      specdec::detail::invalid_distribution("the residual of target and draft sums to no number");
    return end.winner;
  }

 private:
  // A dead end can be read, and a draw from it is an error: rows/read/dead_end.hpp.
  const device::Row<Scalar>& readable() const {
    if (row_.fault() == device::FaultKind::target_is_nan)
      specdec::detail::invalid_distribution("a logit is nan");
    if (row_.fault() == device::FaultKind::target_is_infinite)
      specdec::detail::invalid_distribution("a logit is inf");
    if (row_.fault() == device::FaultKind::bad_setting)
      specdec::detail::invalid_distribution("a setting is out of range");
    return row_;
  }
  const device::Row<Scalar>& sound() const {
    if (readable().fault() != device::FaultKind::none)
      specdec::detail::invalid_distribution("the row has no mass");
    return row_;
  }

  device::Row<Scalar> row_;
};

/// Target rows of logits in the host's memory, summed as a device sums them. A matrix of distributions.
template <class Scalar>
class TargetOnHost {
 public:
  /// `rows` rows, `stride` numbers apart. The logits must outlive this.
  TargetOnHost(const Scalar* logits, Index rows, Index vocab_size, Index stride, device::Settings settings)
      : logits_(logits), size_(vocab_size), stride_(stride), scale_(device::scale_of(settings)) {
    const Index segments = device::segments_of(vocab_size);
    sums_.resize(static_cast<std::size_t>(rows * segments));
    cumulative_.resize(sums_.size());
    largest_.resize(static_cast<std::size_t>(segments * device::lanes));
    device::LoopCrew<1> crew;
    for (Index i = 0; i < rows; ++i) {
      const device::SummedRow<Scalar> row = summed(i);
      for (Index s = 0; s < segments; ++s) device::sum_segment(device::LoopTeam{}, row, s, scale_);
      summaries_.push_back(device::finish_row(crew, row, settings));
    }
  }

  Index rows() const { return static_cast<Index>(summaries_.size()); }
  Index vocab_size() const { return size_; }
  RowOnHost<Scalar> row(Index i) const {
    return RowOnHost<Scalar>(device::Row<Scalar>(summed(i), scale_, summaries_[static_cast<std::size_t>(i)]));
  }

 private:
  device::SummedRow<Scalar> summed(Index i) const {
    const Index first = i * device::segments_of(size_);
    return {logits_ + i * stride_, size_, sums_.data() + first, largest_.data(), cumulative_.data() + first};
  }

  const Scalar* logits_;
  Index size_, stride_;
  float scale_;
  mutable std::vector<device::SegmentSum> sums_;
  mutable std::vector<float> largest_;  // of the row that is being summed
  mutable std::vector<double> cumulative_;
  std::vector<device::RowSummary> summaries_;
};

/// Draft rows of a device as a matrix of distributions. The rows must outlive this.
template <class DraftRow>
class DraftOnHost {
 public:
  class OneRow {
   public:
    OneRow(const DraftRow& row, Index vocab_size) : row_(row), size_(vocab_size) {}
    Index vocab_size() const { return size_; }
    double probability(Token x) const { return row_.probability(x); }
    auto sampler() const {
      return [row = *this](double u) { return row.draw(u); };
    }

   private:
    Token draw(double u) const {
      Token found = -1;
      for (Token x = 0; x < size_; ++x) {
        const double here = probability(x);
        if (!(here > 0)) continue;
        found = x;
        if (u < here) break;
        u -= here;
      }
      if (found < 0) specdec::detail::invalid_distribution("the probabilities sum to 0");
      return found;
    }

    DraftRow row_;
    Index size_;
  };

  DraftOnHost(std::span<const DraftRow> rows, Index vocab_size) : rows_(rows), size_(vocab_size) {}

  Index rows() const { return std::ssize(rows_); }
  Index vocab_size() const { return size_; }
  OneRow row(Index i) const { return OneRow(rows_[static_cast<std::size_t>(i)], size_); }

 private:
  std::span<const DraftRow> rows_;
  Index size_;
};

}  // namespace support
