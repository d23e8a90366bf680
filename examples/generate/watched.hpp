// What became of a step's draft, as the drafter hears of it.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>

#include "generate/drafters.hpp"
#include "generate/trees.hpp"

namespace generate {

/// The last draft and the verdict on it. Of a tree it is the way that was accepted, and on from there that of the
/// eldest children.
struct LastDraft {
  Tokens drafted;
  specdec::Verdict verdict;
};

/// Drafts as another drafter does, and has its last draft and the verdict on it remembered.
class WatchedDrafter final : public Drafter {
 public:
  WatchedDrafter(std::unique_ptr<Drafter> drafter, LastDraft& last)
      : drafter_(std::move(drafter)), last_(last) {}

  void truncate(Index length) override { drafter_->truncate(length); }

  void observe(const TargetRows& rows, std::span<const Token> drafted,
               const specdec::Verdict& verdict) override {
    drafter_->observe(rows, drafted, verdict);
    last_.drafted.assign(drafted.begin(), drafted.end());
    last_.verdict = verdict;
  }

 private:
  specdec::Draft<Rows> propose(std::span<const Token> context, Index gamma, Chance& chance) override {
    return drafter_->draft(context, gamma, chance);
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
               const specdec::Stop& stop) override {
    drafter_->observe(rows, drafted, parents, stop);
    last_.drafted.clear();
    for (Index k = stop.node - 1; k >= 0; k = parents[static_cast<std::size_t>(k)])
      last_.drafted.push_back(drafted[static_cast<std::size_t>(k)]);
    std::ranges::reverse(last_.drafted);
    last_.verdict = {std::ssize(last_.drafted), stop.token};
    Index eldest = stop.node - 1;
    for (auto child = std::ranges::find(parents, eldest); child != parents.end();
         child = std::ranges::find(parents, eldest)) {
      eldest = child - parents.begin();
      last_.drafted.push_back(drafted[static_cast<std::size_t>(eldest)]);
    }
  }

 private:
  specdec::TreeDraft<Rows> propose(std::span<const Token> context, const specdec::TreeLimits& limits,
                                   Chance& chance) override {
    return drafter_->draft(context, limits, chance);
  }

  std::unique_ptr<TreeDrafter> drafter_;
  LastDraft& last_;
};

}  // namespace generate
