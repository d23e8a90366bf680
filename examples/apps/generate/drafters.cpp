// Makes drafters of lines and of trees.
// SPDX-License-Identifier: MIT
#include "generate/drafters.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <specdec/more/drafters.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <utility>

#include "drafters/lookahead.hpp"
#include "drafters/online.hpp"
#include "generate/any_drafter.hpp"
#include "generate/other_tokenizers.hpp"
#include "generate/pair.hpp"
#include "generate/retrieval.hpp"
#include "generate/sampled.hpp"
#include "generate/tree_shapes.hpp"
#include "generate/trees.hpp"

#ifndef SPECDEC_EXAMPLES
#define SPECDEC_EXAMPLES "examples"
#endif

namespace generate {

// ---- Of lines ---------------------------------------------------------------------------------------

namespace {

template <class D>
std::unique_ptr<Drafter> erased(D drafter) {
  return erased_as<Drafter>(std::move(drafter));
}

auto model_drafter(Model& model, double temperature) {
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

}  // namespace

constexpr std::array<DrafterKind, 17> drafters{{
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

// ---- Of trees ---------------------------------------------------------------------------------------

namespace {

template <class D>
std::unique_ptr<TreeDrafter> erased_tree(D drafter) {
  return erased_as<TreeDrafter>(std::move(drafter));
}

/// The model whose likeliest tokens a tree takes.
auto choosing_model(Model& model, double temperature) {
  return sampled(model, choosing_temperature(temperature));
}

std::unique_ptr<TreeDrafter> likeliest_drafter(Model& draft, const Tree& tree, double temperature) {
  return erased_tree(
      specdec::ModelDrafter{choosing_model(draft, temperature),
                            specdec::Tree{specdec::TreeShape(tree.shape), specdec::Likeliest{}}});
}

/// A drafter that learns from the text. It uses no draft model and no temperature.
template <class D>
std::unique_ptr<TreeDrafter> text_drafter(Model&, const Tree&, double) {
  return erased_tree(D{});
}

}  // namespace

constexpr std::array<TreeKind, 8> tree_kinds{{
    {"spares", "spares", Siblings::trunk, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       if (temperature == 0) return likeliest_drafter(draft, tree, 0);
       return erased_tree(specdec::ModelDrafter{sampled(draft, temperature),
                                                specdec::Spares{tree.depth, spares_of(tree.shape)}});
     }},
    {"without-replacement", "no repeats", Siblings::drawn, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       return erased_tree(specdec::ModelDrafter{
           sampled(draft, temperature),
           specdec::Tree{specdec::TreeShape(tree.shape), specdec::WithoutReplacement{}}});
     }},
    {"drawn-first", "drawn first", Siblings::drawn, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       return erased_tree(specdec::ModelDrafter{
           sampled(draft, temperature),
           specdec::Tree{specdec::TreeShape(tree.shape), specdec::DrawnThenLikeliest{}}});
     }},
    {"independent", "independent", Siblings::drawn, Size::widths,
     [](Model& draft, const Tree& tree, double temperature) {
       return erased_tree(
           specdec::ModelDrafter{sampled(draft, temperature),
                                 specdec::Tree{specdec::TreeShape(tree.shape), specdec::Independent{}}});
     }},
    {"likeliest", "likeliest", Siblings::chosen, Size::widths, likeliest_drafter},
    {"confident", "confident", Siblings::chosen, Size::nodes,
     [](Model& draft, const Tree& tree, double temperature) {
       const specdec::ConfidentTree wanted{.width = 8, .depth = tree.depth, .nodes = tree.nodes};
       return erased_tree(specdec::ModelDrafter{choosing_model(draft, temperature), wanted});
     }},
    {"drawn-confident", "drawn confident", Siblings::drawn, Size::nodes,
     [](Model& draft, const Tree& tree, double temperature) {
       const Index width = std::max<Index>(tree.nodes / std::max<Index>(tree.depth, 1), 1);
       return erased_tree(specdec::ModelDrafter{
           sampled(draft, temperature), specdec::DrawnConfidentTree{.width = width, .depth = tree.depth}});
     }},
    {"suffix", "suffix automaton", Siblings::chosen, Size::nodes,
     text_drafter<specdec::SuffixDrafter<specdec::Branching>>},
}};

}  // namespace generate
