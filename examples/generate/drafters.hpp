// What drafts: the draft model, or one of the drafters that need none.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "drafters/lookahead.hpp"
#include "generate/other_tokenizers.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"

namespace generate {

using Generator = std::mt19937_64;
using SampledModel = decltype(sampled(std::declval<Model&>(), 1.0));

/// A drafter of which no more is known, so that decoders are compiled once for all drafters. It is taken for steady (see
/// specdec::Drafter), which a chain is not: objection() keeps it from rules that ask for that.
class Drafter {
 protected:
  using Chance = specdec::RandomChance<Generator>;
  template <class D>
  using RowsOf =
      decltype(specdec::ask_drafter(std::declval<D&>(), {}, specdec::DraftLimits{}, std::declval<Chance&>())
                   .rows);
  using ModelRows = RowsOf<specdec::ModelDrafter<SampledModel>>;
  using OwnRows = specdec::VariantRows<specdec::OneHotRows, ModelRows>;
  using CommonRows = RowsOf<specdec::ModelDrafter<specdec::CommonTokens<SampledModel>>>;
  using TargetRows = decltype(std::declval<SampledModel&>().forward({}, Index{}));

 public:
  static constexpr bool drafts_trees = false;

  /// Either a drafter's only tokens, or the rows that they were drawn from, of either vocabulary.
  using Rows = specdec::VariantRows<OwnRows, CommonRows>;

  Drafter() = default;
  Drafter(const Drafter&) = delete;
  Drafter& operator=(const Drafter&) = delete;
  virtual ~Drafter() = default;

  template <specdec::RandomSource Source>
  specdec::Draft<Rows> draft(std::span<const Token> context, const specdec::DraftLimits& limits,
                             Source& chance) {
    return propose(context, limits, chance);
  }
  virtual void truncate(Index length) = 0;
  virtual void observe(const TargetRows& rows, std::span<const Token> drafted, std::span<const Index> parents,
                       const specdec::NodeVerdict& verdict) = 0;

 private:
  virtual specdec::Draft<Rows> propose(std::span<const Token> context, const specdec::DraftLimits& limits,
                                       Chance& chance) = 0;

  template <class D>
  friend class DrafterOf;
};

/// The drafter D as one.
template <class D>
class DrafterOf final : public Drafter {
 public:
  explicit DrafterOf(D drafter) : drafter_(std::move(drafter)) {}

  void truncate(Index length) override { drafter_.truncate(length); }

  void observe(const TargetRows& rows, std::span<const Token> drafted, std::span<const Index> parents,
               const specdec::NodeVerdict& verdict) override {
    if constexpr (requires { drafter_.observe(rows, drafted, parents, verdict); })
      drafter_.observe(rows, drafted, parents, verdict);
  }

 private:
  specdec::Draft<Rows> propose(std::span<const Token> context, const specdec::DraftLimits& limits,
                               Chance& chance) override {
    const auto draft = specdec::ask_drafter(drafter_, context, limits, chance);
    return {draft.tokens, rows(draft.rows)};
  }

  static Rows rows(const OwnRows& rows) { return Rows(std::in_place_index<0>, rows); }
  static Rows rows(const specdec::OneHotRows& one) { return rows(OwnRows(std::in_place_index<0>, one)); }
  static Rows rows(const ModelRows& drawn) { return rows(OwnRows(std::in_place_index<1>, drawn)); }
  static Rows rows(const CommonRows& drawn) { return Rows(std::in_place_index<1>, drawn); }

  D drafter_;
};

template <class D>
std::unique_ptr<Drafter> erased(D drafter) {
  return std::make_unique<DrafterOf<D>>(std::move(drafter));
}

/// What a drafter may want to know.
struct DrafterSettings {
  double temperature;
  std::optional<Index> exit_layer;
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

/// Drafts with a model that nobody else holds.
class OwningDrafter {
 public:
  static constexpr bool drafts_trees = false;

  OwningDrafter(std::shared_ptr<Model> model, double temperature)
      : model_(std::move(model)), drafter_(model_drafter(*model_, temperature)) {}

  template <specdec::RandomSource Source>
  auto draft(std::span<const Token> context, const specdec::DraftLimits& limits, Source& source) {
    return drafter_.draft(context, limits, source);
  }
  void truncate(Index length) { drafter_.truncate(length); }

 private:
  std::shared_ptr<Model> model_;
  specdec::ModelDrafter<SampledModel> drafter_;
};

inline constexpr std::array<DrafterKind, 11> drafters{{
    {"model", "draft model",
     [](Pair& pair, const DrafterSettings& s) { return erased(model_drafter(*pair.draft, s.temperature)); }},
    {"early-exit", "early exit",
     [](Pair& pair, const DrafterSettings& s) {
       if (!pair.early_exit) throw std::invalid_argument("--drafter early-exit needs transformers");
       return erased(OwningDrafter(pair.early_exit(s.exit_layer), s.temperature));
     }},
    {"prompt-lookup", "prompt lookup",
     [](Pair&, const DrafterSettings&) {
       return erased(specdec::PromptLookupDrafter{{.max_ngram = 3, .min_ngram = 1}});
     }},
    {"suffix", "suffix automaton",
     [](Pair&, const DrafterSettings&) { return erased(specdec::SuffixDrafter{}); }},
    {"lookahead", "lookahead",
     [](Pair&, const DrafterSettings&) { return erased(::drafters::LookaheadDrafter{}); }},
    {"chain", "suffix, then model",
     [](Pair& pair, const DrafterSettings& s) {
       // A short match is no better a guess than the model's.
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

/// Whether it drafts with Pair::other or Pair::bytes.
inline bool of_another_vocabulary(const DrafterKind& drafter) {
  return drafter.option == "intersection" || drafter.option == "retokenized" || drafter.option == "bytes";
}

inline const DrafterKind& drafter_named(std::string_view option) {
  return *std::ranges::find(drafters, option, &DrafterKind::option);
}

}  // namespace generate
