// The drafters that can be chosen: the draft model, and drafters that need no draft model.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "drafters/lookahead.hpp"
#include "drafters/online.hpp"
#include "generate/any_drafter.hpp"
#include "generate/other_tokenizers.hpp"
#include "generate/pair.hpp"
#include "generate/retrieval.hpp"
#include "generate/sampled.hpp"

namespace generate {

using ModelRows = RowsOf<specdec::ModelDrafter<SampledModel>>;

/// A type-erased drafter of lines. Its rows are one-hot or a draft model's, in the target's vocabulary or mapped to it.
using Drafter =
    AnyDrafter<false, specdec::OneHotRows, ModelRows, specdec::VariantRows<specdec::OneHotRows, ModelRows>,
               RowsOf<specdec::ModelDrafter<specdec::CommonTokens<SampledModel>>>>;

template <class D>
std::unique_ptr<Drafter> erased(D drafter) {
  return erased_as<Drafter>(std::move(drafter));
}

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

inline auto model_drafter(Model& model, double temperature) {
  return specdec::ModelDrafter{sampled(model, temperature)};
}

/// Drafts with a model that it owns.
class OwningDrafter {
 public:
  static constexpr bool drafts_trees = false;

  OwningDrafter(std::shared_ptr<Model> model, double temperature)
      : model_(std::move(model)), drafter_(model_drafter(*model_, temperature)) {}

  template <specdec::RandomSource Source, class... KeepDrafting>
  auto draft(std::span<const Token> context, const specdec::DraftLimits& limits, Source& source,
             KeepDrafting&... keep_drafting) {
    return drafter_.draft(context, limits, source, keep_drafting...);
  }
  void truncate(Index length) { drafter_.truncate(length); }

 private:
  std::shared_ptr<Model> model_;
  specdec::ModelDrafter<SampledModel> drafter_;
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

inline constexpr std::array<DrafterKind, 17> drafters{{
    {"model", "draft model",
     [](Pair& pair, const DrafterSettings& s) { return erased(model_drafter(*pair.draft, s.temperature)); }},
    {"speculator", "MLP speculator",
     [](Pair& pair, const DrafterSettings& s) {
       return erased(model_drafter(drafting_model(pair, "speculator"), s.temperature));
     }},
    {"eagle", "EAGLE layer",
     [](Pair& pair, const DrafterSettings& s) {
       return erased(model_drafter(drafting_model(pair, "eagle"), s.temperature));
     }},
    {"medusa", "Medusa heads",
     [](Pair& pair, const DrafterSettings& s) {
       return erased(model_drafter(drafting_model(pair, "medusa"), s.temperature));
     }},
    {"online", "learning draft model",
     [](Pair& pair, const DrafterSettings& s) {
       if (!pair.online) throw std::invalid_argument("--drafter online needs transformers");
       OnlineDraft online = pair.online(s.temperature);
       OwningDrafter drafter(online.model, s.temperature);
       return erased(::drafters::OnlineDrafter{std::move(drafter), std::move(online)});
     }},
    {"early-exit", "early exit",
     [](Pair& pair, const DrafterSettings& s) {
       if (!pair.early_exit) throw std::invalid_argument("--drafter early-exit needs transformers");
       return erased(OwningDrafter(pair.early_exit(s.own_layers), s.temperature));
     }},
    {"skip-layers", "skipped layers",
     [](Pair& pair, const DrafterSettings& s) {
       if (!pair.skip_layers) throw std::invalid_argument("--drafter skip-layers needs transformers");
       return erased(OwningDrafter(pair.skip_layers(s.own_layers), s.temperature));
     }},
    {"prompt-lookup", "prompt lookup",
     [](Pair&, const DrafterSettings&) {
       return erased(specdec::PromptLookupDrafter{{.max_ngram = 3, .min_ngram = 1}});
     }},
    {"suffix", "suffix automaton",
     [](Pair&, const DrafterSettings&) { return erased(specdec::SuffixDrafter{}); }},
    {"lookahead", "lookahead",
     [](Pair&, const DrafterSettings&) { return erased(::drafters::LookaheadDrafter{}); }},
    {"retrieval", "retrieval",
     [](Pair& pair, const DrafterSettings&) {
       return erased(RetrievalDrafter(store_of(pair, SPECDEC_EXAMPLES "/data/moby_dick.txt")));
     }},
    {"chain", "suffix, then model",
     [](Pair& pair, const DrafterSettings& s) {
       // A short match is no better than the model's own draft.
       return erased(specdec::FallbackDrafter{specdec::SuffixDrafter{{.min_match = 4, .min_share = 0.5}},
                                              model_drafter(*pair.draft, s.temperature)});
     }},
    {"cascade", "suffix for the model",
     [](Pair& pair, const DrafterSettings& s) {
       return erased(specdec::CascadeDrafter{sampled(*pair.draft, s.temperature),
                                             specdec::SuffixDrafter{{.min_match = 4, .min_share = 0.5}}});
     }},
    {"intersection", "other model, common",
     [](Pair& pair, const DrafterSettings& s) {
       return erased(intersection_drafter(pair, pair.other, s.temperature));
     }},
    {"retokenized", "other model, as text",
     [](Pair& pair, const DrafterSettings&) { return erased(text_drafter(pair, pair.other)); }},
    {"bytes", "bytes, as text",
     [](Pair& pair, const DrafterSettings&) { return erased(text_drafter(pair, pair.bytes)); }},
    {"none", "none", [](Pair&, const DrafterSettings&) { return erased(specdec::NoDrafter{}); }},
}};

/// Whether the drafter drafts with Pair::other or Pair::bytes.
inline bool of_another_vocabulary(const DrafterKind& drafter) {
  return drafter.option == "intersection" || drafter.option == "retokenized" || drafter.option == "bytes";
}

inline const DrafterKind& drafter_named(std::string_view option) {
  return *std::ranges::find(drafters, option, &DrafterKind::option);
}

}  // namespace generate
