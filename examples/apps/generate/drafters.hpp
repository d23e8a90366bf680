// The drafters that can be chosen: the draft model, and drafters that need no draft model. Drafters and transformers are compiled
// apart from the rest of the program, at the same time.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

#include "generate/any_drafter.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"

namespace generate {

using ModelRows = RowsOf<specdec::ModelDrafter<SampledModel>>;

/// A type-erased drafter of lines. Its rows are one-hot or a draft model's, in the target's vocabulary or mapped to it.
using Drafter =
    AnyDrafter<false, specdec::OneHotRows, ModelRows, specdec::VariantRows<specdec::OneHotRows, ModelRows>,
               RowsOf<specdec::ModelDrafter<specdec::CommonTokens<SampledModel>>>>;

/// Settings for making a drafter.
struct DrafterSettings {
  double temperature;
  OwnLayers own_layers;
};

/// A drafter that can be chosen.
struct DrafterKind {
  std::string_view option;  ///< its name for --drafter
  std::string_view title;
  std::unique_ptr<Drafter> (*make)(Pair&, const DrafterSettings&);
};

/// Whether the drafter of this name drafts with a head on the target's hidden states.
inline bool drafts_with_head(std::string_view drafter) {
  return drafter == "speculator" || drafter == "eagle" || drafter == "medusa";
}

/// The model that a drafter drafts with: a head of the pair, or its draft model.
/// Throws: std::invalid_argument if the pair has no such head.
inline Model& drafting_model(Pair& pair, std::string_view drafter) {
  if (!drafts_with_head(drafter)) return *pair.draft;
  if (!pair.heads.contains(drafter))
    throw std::invalid_argument("--drafter " + std::string(drafter) + " needs transformers");
  return *pair.heads.at(drafter);
}

extern const std::array<DrafterKind, 17> drafters;

/// Whether the drafter drafts with Pair::other or Pair::bytes.
inline bool of_another_vocabulary(const DrafterKind& drafter) {
  return drafter.option == "intersection" || drafter.option == "retokenized" || drafter.option == "bytes";
}

inline const DrafterKind& drafter_named(std::string_view option) {
  return *std::ranges::find(drafters, option, &DrafterKind::option);
}

}  // namespace generate
