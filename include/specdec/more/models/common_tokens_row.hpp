// A draft model's row over the tokens that it shares with the target.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <variant>

#include "specdec/more/rows/mapped.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/part_of_row.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The draft model's distribution restricted to the tokens that the target has, too, and read with the target's ids.
/// common_tokens() and no_common_tokens() make it.
///
/// Cost: for look-ups and draws see MappedRow and PartOfRow.
template <Distribution R>
using CommonTokensRow = MappedRow<VariantRow<PartOfRow<R, OnlyTokens>, OneHotRow>>;

/// The one-hot row of draft token `otherwise`. The map, or a copy of it, must outlive the row.
///
/// Pre: the target has this token, too.
template <Distribution R>
CommonTokensRow<R> no_common_tokens(const TokenMap& map, Token otherwise) {
  return {{std::in_place_index<1>, OneHotRow(otherwise)}, map};
}
template <Distribution R>
CommonTokensRow<R> no_common_tokens(TokenMap&& map, Token otherwise) = delete;

/// The row restricted to the tokens that the target has, too. If they have no mass, the one-hot row of draft token
/// `otherwise`. The map, or a copy of it, must outlive the row.
///
/// Throws: InvalidDistribution if the mass of these tokens is no finite number.
/// Cost: one pass over the row.
template <Distribution R>
CommonTokensRow<R> common_tokens(const R& row, const TokenMap& map, Token otherwise) {
  const PartOfRow<R, OnlyTokens> common(row, {map.mapped()});
  if (!(common.mass() > 0)) return no_common_tokens<R>(map, otherwise);
  return {{std::in_place_index<0>, common}, map};
}
template <Distribution R>
CommonTokensRow<R> common_tokens(const R& row, TokenMap&& map, Token otherwise) = delete;

/// Copies the draft model's row with the RowCopy of that row's type.
template <class R>
class RowCopy<CommonTokensRow<R>> {
  using Copied = typename RowCopy<R>::View;
  using Either = VariantRow<PartOfRow<Copied, OnlyTokens>, OneHotRow>;

 public:
  using View = CommonTokensRow<Copied>;

  View assign(const CommonTokensRow<R>& row) & {
    const auto& held = row.row().held();
    if (const auto* const common = std::get_if<0>(&held))
      return row.of_copy(Either(std::in_place_index<0>, common->of_copy(copy_.assign(common->row()))));
    return row.of_copy(Either(std::in_place_index<1>, std::get<1>(held)));
  }

 private:
  RowCopy<R> copy_;
};

}  // namespace specdec
