// One way to write texts: a rule, a drafter and a draft length.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>

#include "generate/any_drafter.hpp"
#include "generate/auto_trees.hpp"
#include "generate/drafters.hpp"
#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/sampled.hpp"
#include "generate/tree_rules.hpp"
#include "generate/trees.hpp"

namespace generate {

/// A rule with a drafter of lines, or of trees if there is a tree. If gamma is automatic, a policy chooses trees up to the
/// size of this tree: their shape beforehand, or early: by their rows, as they grow.
struct Way {
  std::string title;
  const Rule* rule;
  const DrafterKind* drafter;
  Gamma gamma;
  std::optional<Tree> tree = {};

  /// The largest number of tokens that a step drafts.
  Index most() const { return tree ? tree->nodes : gamma.most; }
  /// Whether a policy chooses the shape of a tree beforehand.
  bool shaped() const { return tree && gamma.automatic && !gamma.early; }

  std::unique_ptr<Length> policy() const {
    return shaped() ? auto_trees_of(*tree->kind)->policy(*tree) : gamma.policy();
  }
};

inline specdec::Result speculate(Model& target, TreeDrafter& drafter, const TreeRule& rule, Length& length,
                                 const Job& job, Generator& generator, const OnStep& on_step) {
  specdec::SpecDec decoder{sampled(target, job.temperature), drafter, rule, length};
  return decoder.generate(job.prompt, job.options, generator, on_step);
}

/// The drafter of the way's tree. If it is shaped(), `length` must come from the way's policy(); it chooses the shapes.
inline std::unique_ptr<TreeDrafter> tree_drafter(const Way& way, Model& draft, const Length& length,
                                                 double temperature) {
  if (!way.shaped()) return way.tree->kind->make(draft, *way.tree, temperature);
  return auto_trees_of(*way.tree->kind)->make(draft, dynamic_cast<const Shaper&>(length), temperature);
}

/// Writes a text. The drafter keeps what it learnt from one text to the next.
using Writer = std::function<specdec::Result(const Job&, Generator&, const OnStep&)>;

/// Makes a writer. It stores each draft and its verdict in `last`, if given.
/// Pre: `length` comes from the way's policy(); pair, length and last outlive the writer.
/// Throws: std::invalid_argument if the pair has no such drafter.
inline Writer writer(const Way& way, Pair& pair, const DrafterSettings& settings, Length& length,
                     LastDraft* last = nullptr) {
  const DrafterSettings drafting{draft_temperature(*way.rule, settings.temperature), settings.own_layers};
  Model& target = *pair.target;
  if (way.tree) {
    auto drafter = tree_drafter(way, drafting_model(pair, way.drafter->option), length, drafting.temperature);
    if (last != nullptr) drafter = std::make_unique<WatchedDrafter<TreeDrafter>>(std::move(drafter), *last);
    return [&target, &length, rule = tree_rule(way.tree->kind->siblings, way.rule->option),
            drafter = std::shared_ptr<TreeDrafter>(std::move(drafter))](const Job& job, Generator& generator,
                                                                        const OnStep& on_step) {
      return speculate(target, *drafter, rule, length, job, generator, on_step);
    };
  }
  auto drafter = way.drafter->make(pair, drafting);
  if (last != nullptr) drafter = std::make_unique<WatchedDrafter<Drafter>>(std::move(drafter), *last);
  return [&target, &length, rule = way.rule, drafter = std::shared_ptr<Drafter>(std::move(drafter))](
             const Job& job, Generator& generator, const OnStep& on_step) {
    return rule->generate(target, *drafter, length, job, generator, on_step);
  };
}

}  // namespace generate
