// What became of a step's draft, as the drafter hears of it.
#pragma once

#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>

#include "generate/drafters.hpp"
#include "generate/last_draft.hpp"
#include "generate/trees.hpp"

namespace generate {

/// Drafts as another drafter does, and has its last draft and the verdict on it remembered.
class WatchedDrafter final : public Drafter {
 public:
  WatchedDrafter(std::unique_ptr<Drafter> drafter, LastDraft& last)
      : drafter_(std::move(drafter)), last_(last) {}

  void truncate(Index length) override { drafter_->truncate(length); }

  void observe(const TargetRows& rows, std::span<const Token> drafted, std::span<const Index> parents,
               const specdec::NodeVerdict& verdict) override {
    drafter_->observe(rows, drafted, parents, verdict);
    last_.set(drafted, {verdict.node, verdict.token});
  }

 private:
  specdec::Draft<Rows> propose(std::span<const Token> context, const specdec::DraftLimits& limits,
                               Chance& chance) override {
    return drafter_->draft(context, limits, chance);
  }

  std::unique_ptr<Drafter> drafter_;
  LastDraft& last_;
};

/// The same of a drafter of trees.
class WatchedTreeDrafter final : public TreeDrafter {
 public:
  WatchedTreeDrafter(std::unique_ptr<TreeDrafter> drafter, LastDraft& last)
      : drafter_(std::move(drafter)), last_(last) {}

  void truncate(Index length) override { drafter_->truncate(length); }

  void observe(const TargetRows& rows, std::span<const Token> drafted, std::span<const Index> parents,
               const specdec::NodeVerdict& stop) override {
    drafter_->observe(rows, drafted, parents, stop);
    last_.set(drafted, parents, stop);
  }

 private:
  specdec::Draft<Rows> propose(std::span<const Token> context, const specdec::DraftLimits& limits,
                               Chance& chance) override {
    return drafter_->draft(context, limits, chance);
  }

  std::unique_ptr<TreeDrafter> drafter_;
  LastDraft& last_;
};

}  // namespace generate
