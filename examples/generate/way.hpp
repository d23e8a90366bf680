// One way to write texts: a rule, what drafts, and how much.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>

#include "generate/drafters.hpp"
#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/sampled.hpp"
#include "generate/tree_rules.hpp"
#include "generate/trees.hpp"
#include "generate/watched.hpp"

namespace generate {

/// A rule with a drafter of lines or, where there is a tree, with one of trees.
struct Way {
  std::string title;
  const Rule* rule;
  const DrafterKind* drafter;
  Gamma gamma;
  std::optional<Tree> tree = {};

  /// The most tokens that a step drafts.
  Index most() const { return tree ? tree->nodes : gamma.most; }
};

inline specdec::Result speculate(Model& target, TreeDrafter& drafter, const TreeRule& rule, const Job& job,
                                 Generator& generator, const OnStep& on_step) {
  specdec::SpecDec decoder{sampled(target, job.temperature), drafter, rule};
  return decoder.generate(job.prompt, job.options, generator, on_step);
}

/// Writes a text. What the drafter has learnt stays from one to the next.
using Writer = std::function<specdec::Result(const Job&, Generator&, const OnStep&)>;

/// Pair and length must outlive it, and so must `last`, where the last draft is to be remembered.
/// Throws: std::invalid_argument where the pair has no such drafter.
inline Writer writer(const Way& way, Pair& pair, const DrafterSettings& settings, Length& length,
                     LastDraft* last = nullptr) {
  const DrafterSettings drafting{draft_temperature(*way.rule, settings.temperature), settings.exit_layer};
  Model& target = *pair.target;
  if (way.tree) {
    auto drafter = way.tree->kind->make(*pair.draft, *way.tree, drafting.temperature);
    if (last != nullptr) drafter = std::make_unique<WatchedTreeDrafter>(std::move(drafter), *last);
    return [&target, rule = tree_rule(way.tree->kind->siblings, way.rule->option),
            drafter = std::shared_ptr<TreeDrafter>(std::move(drafter))](const Job& job, Generator& generator,
                                                                        const OnStep& on_step) {
      return speculate(target, *drafter, rule, job, generator, on_step);
    };
  }
  auto drafter = way.drafter->make(pair, drafting);
  if (last != nullptr) drafter = std::make_unique<WatchedDrafter>(std::move(drafter), *last);
  return [&target, &length, rule = way.rule, drafter = std::shared_ptr<Drafter>(std::move(drafter))](
             const Job& job, Generator& generator, const OnStep& on_step) {
    return rule->generate(target, *drafter, length, job, generator, on_step);
  };
}

}  // namespace generate
