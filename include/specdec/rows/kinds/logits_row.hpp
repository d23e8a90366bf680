// A row of logits as a distribution: softmax(logits / temperature), never written to memory.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "specdec/error.hpp"
#include "specdec/kernels/exponentials.hpp"
#include "specdec/kernels/machine_width.hpp"
#include "specdec/kernels/reductions.hpp"
#include "specdec/lists.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/stretches.hpp"
#include "specdec/rows/numbers.hpp"
#include "specdec/rows/read/prefix_sampler.hpp"

namespace specdec::inline v0_2_0 {

/// A known log Σ exp(l/T) of a row of logits l.
struct LogSumExp {
  double value;
};

/// One row of logits l as the distribution p(x) = exp(l(x)/T − log Σ exp(l/T)).
///
/// At temperature 0 (or so small that 1/T overflows) the largest logit has probability 1; among equals, the lowest id. A
/// logit of −inf has probability 0. Tokens with a logit below `cut` have probability 0, and the others are normalised
/// without them: sample/ implements top-k, top-p and min-p in this way.
///
/// A row whose logits are all −inf is a dead end: no token has a probability above 0. It can be read; draws and argmax fail.
/// Throws: InvalidDistribution, when the row is read: on a NaN, on a logit of +inf, or if no token reaches the cut. On a draw
/// or argmax(): if no logit is finite.
/// Cost: the first call that needs the normaliser reads the row once. After it a probability is O(1), and a draw reads two
/// small stretches of the row. A row with a given log-sum-exp is never read as a whole.
/// Numeric: exponentials in the logits' own arithmetic (float for float, half and bfloat16), see detail::Exponentials. They
/// are summed in this arithmetic over 1024 tokens, and in double across these sums. probability(x) is computed in double.
template <Real S, int Stride = 1>
class LogitsRow {
 public:
  using Scalar = Arithmetic<S>;

  /// Only tokens with a logit of −inf are below this cut.
  static constexpr Scalar no_cut = std::numeric_limits<Scalar>::lowest();

  explicit LogitsRow(const NumberRow<S, Stride>& logits, double temperature = 1, Scalar cut = no_cut)
      : logits_(logits),
        temperature_(temperature),
        inverse_temperature_(
            std::max(1 / temperature, static_cast<double>(std::numeric_limits<Scalar>::min()))),
        cut_(cut < no_cut ? no_cut : cut),
        stretch_(stretch_for(logits.size())) {
    if (!(temperature >= 0)) detail::invalid_argument("temperature = ", temperature, " is not a number >= 0");
  }

  /// With a known normaliser of the whole row. It is not checked.
  LogitsRow(const NumberRow<S, Stride>& logits, double temperature, LogSumExp normaliser)
      : LogitsRow(logits, temperature, no_cut, normaliser) {}

  /// With a known normaliser of the tokens that are not below the cut. It is not checked.
  LogitsRow(const NumberRow<S, Stride>& logits, double temperature, Scalar cut, LogSumExp normaliser)
      : LogitsRow(logits, temperature, cut) {
    hand_in(normaliser);
  }

  Index vocab_size() const { return logits_.size(); }
  NumberRow<S, Stride> logits() const { return logits_; }
  double temperature() const { return temperature_; }
  /// 1/T as used in the arithmetic. It is never 0, because 0·(−inf) is NaN: for float logits all T above 1e37 are equal.
  Scalar inverse_temperature() const { return static_cast<Scalar>(inverse_temperature_); }
  /// Tokens with a smaller logit have probability 0.
  Scalar cut() const { return cut_; }
  /// Whether the temperature is 0 (or so small that 1/T overflows): the argmax has probability 1.
  bool is_argmax() const {
    return !(inverse_temperature_ <= static_cast<double>(std::numeric_limits<Scalar>::max()));
  }

  /// Whether the normaliser is known.
  bool is_normalised() const { return state_ != State::unread; }

  /// The largest logit; −inf at a dead end.
  /// Cost: one pass without exponentials if the row has not been read yet.
  Scalar largest() const {
    if (std::isnan(largest_)) find_largest(nullptr);
    return largest_;
  }

  /// The largest logit of each stretch that may hold tokens with mass.
  /// Cost: one pass without exponentials.
  detail::Peaks<Scalar> peaks() const {
    detail::Peaks<Scalar> peaks(vocab_size());
    find_largest(&peaks);
    return peaks;
  }
  /// The largest logit of each stretch. If the row is not normalised yet, this pass does it.
  detail::Peaks<Scalar> peaks_and_normaliser() const {
    if (is_normalised()) return peaks();
    detail::Peaks<Scalar> peaks(vocab_size());
    normalise(&peaks);
    return peaks;
  }
  /// The stretches that may hold tokens with mass.
  const detail::LiveStretches& live() const { return live_; }

  /// Whether every logit is −inf. Reads the row, unless its normaliser was handed in: then it is no dead end.
  bool is_dead_end() const {
    read();
    return is_argmax() ? argmax_ < 0 : state_ == State::read && largest_ == no_logit;
  }

  /// log Σ exp(l/T) of the tokens that are not below the cut; −inf at a dead end. Not for T = 0.
  LogSumExp log_sum_exp() const {
    if (is_dead_end()) return {-std::numeric_limits<double>::infinity()};
    return {static_cast<double>(shift_) * inverse_temperature_ - std::log(scale_)};
  }

  /// The factors of the probabilities: p = scale() · exponentials(). Not for T = 0.
  detail::Exponentials<Scalar> exponentials() const {
    read();
    return shifted_exponentials();
  }
  double scale() const {
    read();
    return scale_;
  }

  /// The row at `factor` times the temperature, at most the largest double, because an infinite temperature times 0 is NaN.
  LogitsRow tempered(double factor) const {
    if (factor == 1) return *this;
    LogitsRow row(logits_, std::min(temperature_ * factor, std::numeric_limits<double>::max()), cut_);
    row.largest_ = largest_;
    row.live_ = live_;
    return row;
  }

  /// The row without the tokens below `cut`. If this row has an equal or higher cut, a copy of this row.
  LogitsRow above(Scalar cut) const {
    if (!(cut > cut_)) return *this;
    LogitsRow row(logits_, temperature_, cut);
    row.largest_ = largest_;
    row.live_ = live_;
    return row;
  }
  /// The row without the tokens below the cut, given its own peaks. From now on only stretches with a peak above the cut are read.
  LogitsRow above(Scalar cut, const detail::Peaks<Scalar>& peaks) const {
    LogitsRow row = above(cut);
    if (row.cut_ > no_cut && largest_ >= row.cut_) row.live_ = peaks.from(row.cut_);
    return row;
  }

  /// The row without the tokens below the cut, if `sum` = Σ exp((l − shift)/T) over the remaining tokens is known.
  LogitsRow above(Scalar cut, const detail::Peaks<Scalar>& peaks, Scalar shift, double sum) const {
    LogitsRow row = above(cut, peaks);
    if (row.state_ != State::unread || row.is_argmax()) return row;
    row.shift_ = shift;
    row.scale_ = 1 / sum;
    row.state_ = State::handed_in;
    return row;
  }

  /// This row over a contiguous copy of its logits, with its normaliser if known: for rows that must outlive the logits' memory.
  LogitsRow<S, 1> over(const S* copy) const {
    LogitsRow<S, 1> row(NumberRow<S, 1>(copy, vocab_size()), temperature_, cut_);
    row.learn(*this);
    return row;
  }

  /// A row of its own over other logits, side by side in memory and as many as this row has: their softmax.
  LogitsRow<S, 1> anew(const S* logits) const {
    return LogitsRow<S, 1>(NumberRow<S, 1>(logits, vocab_size()));
  }

  /// Whether a token may have a probability above 0: whether its logit is not below the cut, nor NaN. Does not read the row.
  bool possible(Token x) const { return logits_[x] >= cut_; }

  double probability(Token x) const {
    read();
    if (is_argmax()) return x == argmax_ ? 1.0 : 0.0;
    const Scalar l = logits_[x];
    if (l < cut_) return 0;
    return scale_ * std::exp((static_cast<double>(l) - static_cast<double>(shift_)) * inverse_temperature_);
  }

  /// The natural logarithm of the probability, without an exponential.
  double log_probability(Token x) const {
    read();
    constexpr double none = -std::numeric_limits<double>::infinity();
    if (is_argmax()) return x == argmax_ ? 0.0 : none;
    const Scalar l = logits_[x];
    if (l < cut_) return none;
    return std::log(scale_) + (static_cast<double>(l) - static_cast<double>(shift_)) * inverse_temperature_;
  }

  /// The softmax of the logits, at temperature 1 and without a cut.
  LogitsRow unprocessed() const { return temperature_ == 1 && !(cut_ > no_cut) ? *this : LogitsRow(logits_); }

  /// The token with the largest logit, the lowest id among equals.
  /// Cost: one pass without exponentials.
  Token argmax() const {
    const Token x = first_largest();
    if (x < 0) refuse_draw();
    return x;
  }

  /// Throws what a draw from a dead end throws.
  [[noreturn]] void refuse_draw() const { detail::invalid_distribution("no token has a finite logit"); }

  PrefixSampler<LogitsRow> sampler() const { return PrefixSampler<LogitsRow>(*this, known_stretch()); }

  double sum(Index start, Index count) const {
    read();
    if (is_argmax()) return start <= argmax_ && argmax_ < start + count ? 1.0 : 0.0;
    return scale_ *
           (state_ == State::read ? sum_of_stretches(start, count) : sum_of_exponentials(start, count));
  }

  /// The length of the stretches with a known sum, or with few tokens, which start at its multiples; 0 if no sums are known.
  Index known_stretch() const {
    read();
    return state_ == State::read || !live_.are_all() ? stretch_ : Index{0};
  }

  /// The probabilities of `count` <= max_segment_size tokens from `start` on.
  auto segment(Index start, Index count) const {
    read();
    detail::Segment<Scalar> out(count);
    if (is_argmax()) {
      out.setZero();
      if (start <= argmax_ && argmax_ < start + count) out[argmax_ - start] = 1;
      return out;
    }
    if (!live_.are_all()) out.setZero();
    // The array has room for whole lots from its beginning on. So each run begins at a lot of the array, with tokens before it
    // that are below the cut, whose probabilities are 0.
    live_.each(start, start + count, [&](Index first, Index size) {
      const Index begin = first - (first - start) % detail::lot;
      logits_.each_lots(begin, first + size - begin, no_logit, [&](const Scalar* l, Index offset, Index n) {
        detail::run_wide<detail::WriteExponentials<Scalar>>(
            l, n, shifted_exponentials(), static_cast<Scalar>(scale_), out.data() + (begin - start) + offset);
      });
    });
    return out;
  }

 private:
  template <Real, int>
  friend class LogitsRow;

  static constexpr Index min_stretch = 1024;
  static constexpr Index max_stretches = 16;  // few: a verification keeps some dozens of rows on the stack
  static constexpr Index piece = detail::largest_piece;  // read twice in a row, from the fastest cache
  static constexpr Scalar no_logit = -std::numeric_limits<Scalar>::infinity();
  static constexpr Scalar unknown = std::numeric_limits<Scalar>::quiet_NaN();

  enum class State { unread, read, handed_in };

  // A multiple of whole cache lines.
  static Index stretch_for(Index size) {
    constexpr Index line = 64;
    return std::max(min_stretch, (size + max_stretches * line - 1) / (max_stretches * line) * line);
  }

  Index stretch_size(Index start) const { return std::min(stretch_, logits_.size() - start); }

  // Calls f(logits, number of the first, count) for pieces of whole lots, of the live tokens in [start, end).
  template <class F>
  void each_live_piece(Index start, Index end, const F& f) const {
    live_.each(start, end, [&](Index first, Index count) {
      for (const Index last = first + count; first < last; first += piece)
        logits_.each_lots(first, std::min(piece, last - first), no_logit,
                          [&](const Scalar* l, Index offset, Index size) { f(l, first + offset, size); });
    });
  }

  // The largest logit of a piece. Those of its lots are put into the peaks, if they are wanted.
  static Scalar largest_of(const Scalar* l, Index start, Index size, detail::Peaks<Scalar>* peaks) {
    const auto largest = peaks != nullptr ? peaks->put_largest(l, start, size)
                                          : detail::run_wide<detail::LargestNumber<Scalar>>(l, size);
    check_number(largest);
    return largest;
  }
  double sum_of(const Scalar* l, Index size) const {
    return detail::run_wide<detail::SumOfExponentials<Scalar>>(l, size, shifted_exponentials());
  }

  void find_largest(detail::Peaks<Scalar>* peaks) const {
    Scalar largest = no_logit;
    each_live_piece(0, vocab_size(), [&](const Scalar* l, Index start, Index size) {
      largest = std::max(largest, largest_of(l, start, size, peaks));
    });
    largest_ = largest;
  }

  // A row that was read has no logit above the shift.
  detail::Exponentials<Scalar> shifted_exponentials() const {
    return {shift_, inverse_temperature(), cut_, state_ != State::handed_in};
  }

  // The sums of whole stretches are known; only the ends are summed.
  double sum_of_stretches(Index start, Index count) const {
    const Index end = start + count;
    double sum = 0;
    while (start < end) {
      const Index next = std::min(end, (start / stretch_ + 1) * stretch_);
      const bool whole = start % stretch_ == 0 && next - start == stretch_size(start);
      sum += whole ? static_cast<double>(detail::at(sums_, start / stretch_))
                   : sum_of_exponentials(start, next - start);
      start = next;
    }
    return sum;
  }

  double sum_of_exponentials(Index start, Index count) const {
    double sum = 0;
    each_live_piece(start, start + count,
                    [&](const Scalar* l, Index, Index size) { sum += sum_of(l, size); });
    return sum;
  }

  // The shift need not be the largest logit, only near it relative to the temperature. normaliser·T is near it. If the
  // temperature is so large that this product does not fit into a Scalar, 0 is near enough.
  void hand_in(LogSumExp normaliser) {
    if (is_argmax()) return;
    const double log_total = normaliser.value * temperature_;
    const bool held = std::abs(log_total) <= static_cast<double>(std::numeric_limits<Scalar>::max() / 2);
    shift_ = std::isnan(largest_) ? static_cast<Scalar>(held ? log_total : 0) : largest_;
    scale_ = std::exp(static_cast<double>(shift_) * inverse_temperature_ - normaliser.value);
    state_ = State::handed_in;
  }

  template <int OtherStride>
  void learn(const LogitsRow<S, OtherStride>& other) {
    state_ = static_cast<State>(other.state_);
    shift_ = other.shift_;
    largest_ = other.largest_;
    scale_ = other.scale_;
    argmax_ = other.argmax_;
    sums_ = other.sums_;
    live_ = other.live_;
  }

  void read() const {
    if (state_ == State::unread) normalise();
  }

  // One pass for the largest logit and the sums of exponentials, which are rescaled when a piece has a larger logit.
  void normalise(detail::Peaks<Scalar>* peaks = nullptr) const {
    if (is_argmax()) {
      argmax_ = first_largest();
      state_ = State::read;
      return;
    }
    shift_ = no_logit;
    double total = 0;
    std::size_t stretches = 0;
    for (Index start = 0; start < vocab_size(); start += stretch_, ++stretches) {
      double sum = 0;
      each_live_piece(start, start + stretch_size(start), [&](const Scalar* l, Index first, Index size) {
        const Scalar largest = largest_of(l, first, size, peaks);
        if (!(largest <= shift_)) {
          const double factor = raise_shift(largest, stretches);
          total *= factor;
          sum *= factor;
        }
        if (shift_ != no_logit) sum += sum_of(l, size);
      });
      sums_[stretches] = static_cast<Scalar>(sum);
      total += sum;
    }
    largest_ = shift_;
    state_ = State::read;
    if (largest_ == no_logit) {  // a dead end: all probabilities are 0, and −inf − (−inf) would be NaN
      shift_ = 0;
      scale_ = 0;
      return;
    }
    if (!(total > 0)) refuse_cut();
    scale_ = 1 / total;
  }

  // No token reaches the cut. The row stays unread.
  [[noreturn]] void refuse_cut() const {
    state_ = State::unread;
    largest_ = unknown;
    detail::invalid_distribution("no token has a logit of at least ", cut_);
  }

  // The token with the largest logit; −1 at a dead end.
  Token first_largest() const {
    const Index x = logits_.first_largest();
    const Scalar largest = x < vocab_size() ? logits_[x] : no_logit;
    check_number(largest);
    return largest == no_logit ? Token{-1} : static_cast<Token>(x);
  }

  // Sets the shift to a larger logit. Returns the factor by which the sums so far shrink.
  double raise_shift(Scalar largest, std::size_t stretches) const {
    const double factor =
        shift_ == no_logit
            ? 1.0
            : std::exp((static_cast<double>(shift_) - static_cast<double>(largest)) * inverse_temperature_);
    for (std::size_t s = 0; s < stretches; ++s) sums_[s] *= static_cast<Scalar>(factor);
    shift_ = largest;
    return factor;
  }

  static void check_number(Scalar largest) {
    if (std::isnan(largest) || largest == -no_logit)
      detail::invalid_distribution("the largest logit is ", largest);
  }

  NumberRow<S, Stride> logits_;
  double temperature_, inverse_temperature_;
  Scalar cut_;
  Index stretch_;
  // Known once the row was read: p = scale·exp((l − shift)/T), and the sums of exp over its stretches.
  mutable State state_ = State::unread;
  mutable Scalar shift_ = 0;
  mutable Scalar largest_ = unknown;
  mutable double scale_ = 1;
  mutable Token argmax_ = -1;
  mutable std::array<Scalar, max_stretches> sums_ = {};
  detail::LiveStretches live_;
};

}  // namespace specdec
