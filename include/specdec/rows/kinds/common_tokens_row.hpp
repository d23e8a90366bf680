// A row over a draft vocabulary, as one over the target's, of the tokens that both have.
#pragma once

#include <optional>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/mapped.hpp"
#include "specdec/rows/kinds/part_of_row.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The distribution of a draft model's tokens given that the target has the token, too, by the target's ids. Where the model's
/// row has no mass on these, or there is no row, it is one-hot at a token that both have, the `otherwise` of the target.
/// The map, or a copy of it, must outlive the row.
///
/// Throws: InvalidDistribution where the mass of these tokens is no finite number.
/// Cost: one pass over the row. Look-ups and draws cost what MappedRow and PartOfRow say.
template <Distribution R>
class CommonTokensRow {
  using Common = PartOfRow<R, OnlyTokens>;
  using Mapped = MappedRow<Common>;
  using Segment = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, max_segment_size>;

 public:
  CommonTokensRow(const R& row, const TokenMap& map, Token otherwise)
      : CommonTokensRow(Common(row, {map.mapped()}), map, otherwise) {}
  CommonTokensRow(const R& row, TokenMap&& map, Token otherwise) = delete;

  /// No row.
  CommonTokensRow(const TokenMap& map, Token otherwise)
      : vocab_size_(map.vocab_size()), otherwise_(otherwise) {}
  CommonTokensRow(TokenMap&& map, Token otherwise) = delete;

  static constexpr bool constant_time_probability = specdec::constant_time_probability<R>;

  Index vocab_size() const { return vocab_size_; }

  double probability(Token x) const { return row_ ? row_->probability(x) : only(x); }
  bool possible(Token x) const { return row_ ? row_->possible(x) : x == otherwise_; }
  void prefetch(Token x) const {
    if (row_) row_->prefetch(x);
  }

  Segment segment(Index start, Index count) const {
    if (row_) return row_->segment(start, count);
    return Segment::NullaryExpr(count,
                                [this, start](Index i) { return only(static_cast<Token>(start + i)); });
  }

  double sum(Index start, Index count) const {
    if (row_) return row_->sum(start, count);
    return start <= otherwise_ && otherwise_ < start + count ? 1.0 : 0.0;
  }

  auto sampler() const {
    using Draw = decltype(row_->sampler());
    return [draw = row_ ? std::optional<Draw>(row_->sampler()) : std::nullopt,
            otherwise = otherwise_](double u) mutable { return draw ? (*draw)(u) : otherwise; };
  }

  /// This over a copy of the row that it is made of, which copy_of(row) makes.
  template <class CopyOf>
  auto copied(const CopyOf& copy_of) const {
    using Copied = CommonTokensRow<decltype(copy_of(row_->row().row()))>;
    Copied copied(vocab_size_, otherwise_);
    if (row_) copied.row_.emplace(row_->of_copy(row_->row().of_copy(copy_of(row_->row().row()))));
    return copied;
  }

 private:
  template <Distribution>
  friend class CommonTokensRow;

  CommonTokensRow(Index vocab_size, Token otherwise) : vocab_size_(vocab_size), otherwise_(otherwise) {}
  CommonTokensRow(const Common& common, const TokenMap& map, Token otherwise)
      : CommonTokensRow(map, otherwise) {
    if (common.mass() > 0) row_.emplace(common, map);
  }

  double only(Token x) const { return x == otherwise_ ? 1.0 : 0.0; }

  std::optional<Mapped> row_;
  Index vocab_size_;
  Token otherwise_;
};

/// Copied is the draft model's row, as that is copied.
template <class R>
class RowCopy<CommonTokensRow<R>> {
 public:
  using View = CommonTokensRow<typename RowCopy<R>::View>;

  View assign(const CommonTokensRow<R>& row) & {
    return row.copied([this](const R& inner) { return copy_.assign(inner); });
  }

 private:
  RowCopy<R> copy_;
};

}  // namespace specdec
