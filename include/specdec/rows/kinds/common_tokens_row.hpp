// A row over a draft vocabulary, as one over the target's, of the tokens that both have.
#pragma once

#include <utility>
#include <variant>

#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/mapped.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/kinds/part_of_row.hpp"
#include "specdec/rows/kinds/row_copy.hpp"
#include "specdec/rows/kinds/variant_rows.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The distribution of a draft model's tokens given that the target has the token, too, by the target's ids: what
/// common_tokens() and no_common_tokens() make. Look-ups and draws cost what MappedRow and PartOfRow say.
template <Distribution R>
using CommonTokensRow = MappedRow<VariantRow<PartOfRow<R, OnlyTokens>, OneHotRow>>;

/// One-hot at draft token `otherwise`, which the target has, too. The map, or a copy of it, must outlive the row.
template <Distribution R>
CommonTokensRow<R> no_common_tokens(const TokenMap& map, Token otherwise) {
  return {{std::in_place_index<1>, OneHotRow(otherwise)}, map};
}
template <Distribution R>
CommonTokensRow<R> no_common_tokens(TokenMap&& map, Token otherwise) = delete;

/// Of a row: one-hot at `otherwise` where it has no mass on tokens that the target has, too. The map, or a copy of it, must
/// outlive the row. Throws: InvalidDistribution where the mass of these tokens is no finite number. Cost: one pass over the row.
template <Distribution R>
CommonTokensRow<R> common_tokens(const R& row, const TokenMap& map, Token otherwise) {
  const PartOfRow<R, OnlyTokens> common(row, {map.mapped()});
  if (!(common.mass() > 0)) return no_common_tokens<R>(map, otherwise);
  return {{std::in_place_index<0>, common}, map};
}
template <Distribution R>
CommonTokensRow<R> common_tokens(const R& row, TokenMap&& map, Token otherwise) = delete;

/// Copied is the draft model's row, as that is copied.
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
