// One of the drafters, chosen at run time: so the loop is compiled once.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <utility>

#include "web/engine/models.hpp"

namespace web {

/// The page sends the number of a kind.
enum class DrafterKind { model, suffix };

/// A drafter of one text (a specdec::OneTextDrafter).
class ChosenDrafter {
  using Model = specdec::ModelDrafter<SampledModel>;
  using Suffix = specdec::SuffixDrafter<>;
  using ModelRows = decltype(std::declval<Model&>()
                                 .draft(std::span<const specdec::Token>(), specdec::DraftLimits(),
                                        std::declval<specdec::RandomChance<specdec::SplitMix64>&>())
                                 .rows);
  using Rows = specdec::VariantRows<specdec::OneHotRows, ModelRows>;

 public:
  static constexpr bool drafts_trees = false;

  ChosenDrafter(DrafterKind kind, Transformer& draft, double temperature)
      : kind_(kind), model_(generate::sampled(draft, temperature)) {}

  template <specdec::RandomSource Source>
  specdec::Draft<Rows> draft(std::span<const specdec::Token> context, const specdec::DraftLimits& limits,
                             Source& source) {
    if (kind_ == DrafterKind::suffix) {
      const auto draft = suffix_.draft(context, limits.length(), source);
      return {draft.tokens, Rows(std::in_place_index<0>, draft.rows)};
    }
    const auto draft = model_.draft(context, limits, source);
    return {draft.tokens, Rows(std::in_place_index<1>, draft.rows)};
  }
  void truncate(specdec::Index length) {
    model_.truncate(length);
    suffix_.truncate(length);
  }

 private:
  DrafterKind kind_;
  Model model_;
  Suffix suffix_;
};

}  // namespace web
