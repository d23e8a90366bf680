// One way to write texts: a rule, a drafter and a draft length.
// SPDX-License-Identifier: MIT
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>

#include "generate/any_drafter.hpp"
#include "generate/drafters.hpp"
#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/sampled.hpp"
#include "generate/tree_rules.hpp"
#include "generate/trees.hpp"

namespace generate {

/// A rule with a drafter of lines, or of trees if there is a tree. If gamma is automatic, trees grow by their rows, up to the
/// size of this tree.
struct Way {
  std::string title;
  const Rule* rule;
  const DrafterKind* drafter;
  Gamma gamma;
  std::optional<Tree> tree = {};

  /// The largest number of tokens that a step drafts.
  Index most() const { return tree ? tree->nodes : gamma.most; }
  std::unique_ptr<Length> policy() const { return gamma.policy(); }
};

inline specdec::Result speculate(Model& target, TreeDrafter& drafter, const TreeRule& rule, Length& length,
                                 const Job& job, Generator& generator, const OnStep& on_step) {
  specdec::Measures unwanted;
  specdec::SpecDec decoder{sampled(target, job.temperature), drafter, rule, length,
                           observers_of(job, unwanted)};
  return decoder.generate(job.prompt, job.options, generator, on_step);
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
    auto drafter =
        way.tree->kind->make(drafting_model(pair, way.drafter->option), *way.tree, drafting.temperature);
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
