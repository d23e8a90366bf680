// The input of one verification, checked once: shapes, token ids, q > 0; every number that a decision reads.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/rows/dense.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/token_ids.hpp"

namespace specdec::detail {

/// Weights and ratios are kept below this, so that products with them stay finite even where q is subnormal.
inline constexpr double largest_weight = 1e300;

inline double bounded(double weight) { return std::min(weight, largest_weight); }

/// The rows of a matrix, each made when it is first asked for and kept: so what a row learns about itself (a
/// log-sum-exp, a cut) is learnt once per verification. No allocation for up to `few` rows.
template <DistributionMatrix M>
class KeptRows {
  using Row = RowOf<M>;

 public:
  explicit KeptRows(const M& matrix) : matrix_(matrix) {
    if (matrix_.rows() > few) more_.resize(static_cast<std::size_t>(matrix_.rows() - few));
  }
  KeptRows(const KeptRows&) = delete;
  KeptRows& operator=(const KeptRows&) = delete;
  ~KeptRows() {
    for (; made_ != 0; made_ &= made_ - 1) std::destroy_at(&few_[std::countr_zero(made_)].row);
  }

  const M& matrix() const { return matrix_; }

  const Row& operator[](Index i) const {
    if (i >= few) {
      std::optional<Row>& slot = more_[static_cast<std::size_t>(i - few)];
      return slot ? *slot : slot.emplace(matrix_.row(i));
    }
    Slot& slot = few_[i];
    if ((made_ >> i & 1) == 0) {
      std::construct_at(&slot.row, matrix_.row(i));
      made_ |= std::uint64_t{1} << i;
    }
    return slot.row;
  }

 private:
  static constexpr Index few = 33;

  union Slot {
    Slot() {}
    ~Slot() {}
    Row row;
  };

  M matrix_;
  mutable std::uint64_t made_ = 0;  // bit i: few_[i] holds a row
  mutable Slot few_[few];
  mutable std::vector<std::optional<Row>> more_;
};

/// Target rows, draft rows and tokens of one verify call.
template <SizedDistributionMatrix Target, DistributionMatrix Draft>
class DraftedBlock {
 public:
  DraftedBlock(const Target& target, const Draft& draft, TokenIds tokens)
      : target_(target), draft_(draft), tokens_(tokens) {
    check_shapes();
    check_tokens("tokens", tokens_, vocab_size());
  }

  /// Whether the probabilities of all tokens may be asked for without reading a row.
  static constexpr bool constant_time_probabilities =
      constant_time_probability<RowOf<Target>> && constant_time_probability<RowOf<Draft>>;

  Index gamma() const { return tokens_.size(); }
  Token token(Index i) const { return static_cast<Token>(tokens_[i]); }

  auto p(Index i) const { return NamedRow(target_[i], "target", i); }
  auto q(Index i) const { return NamedRow(draft_[i], "draft", i); }

  /// q_i(x_{i+1}), which is not 0.
  double drawn_probability(Index i) const {
    const double q_x = specdec::probability(q(i), token(i));
    if (q_x == 0) not_drawn(i);
    return q_x;
  }

  /// p_i(x_{i+1})/q_i(x_{i+1}), kept finite. A token that the target does not know has p = 0.
  double ratio(Index i) const { return bounded(specdec::probability(p(i), token(i)) / drawn_probability(i)); }

  /// p_i(x_{i+1}) and q_i(x_{i+1}) as the rows have them, unchecked: for statistics, which decide nothing.
  std::pair<double, double> unchecked_probabilities(Index i) const {
    return {specdec::probability(target_[i], token(i)), specdec::probability(draft_[i], token(i))};
  }

  // A drafted token cannot have been drawn from a row that gives it no probability. To accept it, or to
  // guess a q for it, would bias the output: it is an error, found before anything is decided where that
  // takes no pass over a row, and else where its q is needed.
  void check_drawn() const {
    for (Index i = 0; i < gamma(); ++i) {  // all look-ups of the ratios at once: their cache misses overlap
      specdec::prefetch(q(i), token(i));
      specdec::prefetch(p(i), token(i));
    }
    for (Index i = 0; i < gamma(); ++i)
      if (!q(i).possible(token(i))) drawn_probability(i);  // throws, and tells NaN from 0
  }

 private:
  // Ids that the drafter alone knows are judged like any other: the target gives them probability 0, so they
  // are rejected. To drop them from the draft instead would look at the outcome of a draw and bias the text.
  Index vocab_size() const {
    const Index known = target_.matrix().vocab_size();
    if constexpr (SizedDistributionMatrix<Draft>) return std::max<Index>(known, draft_.matrix().vocab_size());
    else return known;
  }

  void check_shapes() const {
    if (target_.matrix().vocab_size() < 1) invalid_argument("target has an empty vocabulary");
    if (draft_.matrix().rows() != gamma())
      invalid_argument("draft has ", draft_.matrix().rows(), " rows, expected gamma = ", gamma(),
                       ", one per token");
    if (target_.matrix().rows() != gamma() + 1)
      invalid_argument("target has ", target_.matrix().rows(), " rows, expected gamma + 1 = ", gamma() + 1);
  }

  [[noreturn]] void not_drawn(Index i) const {
    invalid_argument("tokens[", i, "] = ", token(i), " has probability 0 in draft row ", i,
                     ", so it was not drawn from it");
  }

  KeptRows<Target> target_;
  KeptRows<Draft> draft_;
  TokenIds tokens_;
};

/// Checks shapes and tokens; see DraftedBlock.
template <Probabilities Target, Probabilities Draft>
auto drafted_block(const Target& target, const Draft& draft, TokenIds tokens) {
  static_assert(SizedDistributionMatrix<decltype(distributions(target))>,
                "a target matrix needs vocab_size(): see SizedDistributionMatrix");
  return DraftedBlock(distributions(target), distributions(draft), tokens);
}

/// The race at position i of a block: against q_i for i < γ, against nothing for the bonus row γ.
template <class Chance, class Block>
std::optional<Token> race_at(Chance& chance, double w, const Block& block, Index i) {
  const auto p = block.p(i);
  return p.named([&] { return i == block.gamma() ? chance.race(w, p) : chance.race(w, p, block.q(i)); });
}

}  // namespace specdec::detail
