// Drafters of trees that know the text they continue, and check at every call that they hold it.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "soak/witness.hpp"
#include "support/any_tree_drafter.hpp"

namespace soak {

// One of the library's drafters of trees.
class AnyTreeDrafter {
  using Drafter = support::AnyTreeDrafter<Model>;

 public:
  using Kind = Drafter::Kind;
  static constexpr auto& names = Drafter::names;
  static constexpr Index kinds = Drafter::kinds;

  // Whether the model holds only the text between steps. Path by path it still holds a branch, and with spares the trunk.
  static bool model_keeps_text(Index which) { return which != Drafter::by_paths && which != Drafter::spares; }

  AnyTreeDrafter(Index which, Stage& stage, Model& small, Model&)
      : which_(which), stage_(&stage), small_(&small), drafter_(which, small) {}

  auto draft(std::span<const Token> context, const specdec::DraftLimits& limits, auto& chance) {
    require(begins_with(context, stage_->author->text()) && context.size() == stage_->author->text().size(),
            "a draft for another text");
    stage_->call();
    stage_->drawn = false;
    const support::ProposedTree& tree = drafter_.draft(context, limits, chance);
    stage_->draft = tree.tokens;
    stage_->parents = tree.parents;
    // Without room for a token the model was not asked, and its context is as before.
    if (stage_->drawn && which_ <= Drafter::likeliest) check_model();
    stage_->call();
    return tree.view();
  }

  void truncate(Index length) { drafter_.truncate(length); }

  void observe(const auto& judged) {
    const Index count = std::ssize(judged.tokens), node = judged.verdict.node;
    require(specdec::distributions(judged.rows).rows() == count + 1, "rows of another tree");
    const Stage::Fed fed = stage_->fed();
    require(std::ranges::equal(judged.tokens, fed.tokens) && std::ranges::equal(judged.parents, fed.parents),
            "another tree was judged");
    require(node >= 0 && node <= count, "stopped at no node");
    stage_->call();
  }

  void clear() { drafter_.clear(); }

 private:
  // The tokens that the model holds after the text are a part of the draft.
  void check_model() {
    const auto tree = small_->tree();
    numbers_.clear();
    Index k = -1;  // in the draft, which has that order, too
    for (const auto& [token, above] : tree) {
      const Index parent = above < 0 ? -1 : numbers_[static_cast<std::size_t>(above)];
      do require(++k < std::ssize(stage_->draft), "the model has drafted something else");
      while (stage_->draft[static_cast<std::size_t>(k)] != token ||
             stage_->parents[static_cast<std::size_t>(k)] != parent);
      numbers_.push_back(k);
    }
  }

  Index which_;
  Stage* stage_;
  const Model* small_;
  Drafter drafter_;
  std::vector<Index> numbers_;  // numbers in the draft of the tokens that the model holds
};

// A number of nodes that changes from step to step.
struct AnyNodes : AnyLength {
  using AnyLength::AnyLength;
  static constexpr bool counts_nodes = true;
};

}  // namespace soak
