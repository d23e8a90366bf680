// Drafters of trees that know which text is being continued, and check at every call that they hold it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "soak/witness.hpp"

namespace soak {

// One of the library's drafters of trees. Its rows are copied, so that those of all have one type.
class AnyTreeDrafter {
 public:
  enum Kind : Index {
    independent,
    without_replacement,
    likeliest,
    by_paths,
    spares,
    confident,
    lookup,
    kinds
  };
  static constexpr const char* names[] = {"independent siblings",
                                          "siblings without replacement",
                                          "likeliest siblings",
                                          "siblings, path by path",
                                          "spares",
                                          "confident tree",
                                          "prompt lookup tree"};

  // Between steps, of which path by path a branch, and of spares the trunk, is there still.
  static bool model_keeps_text(Index which) { return which != by_paths && which != spares; }

  AnyTreeDrafter(Index which, Stage& stage, Model& small, Model&)
      : which_(which), stage_(&stage), small_(&small) {
    using namespace specdec;
    const TreeShape shape = TreeShape::of_widths({3, 2, 1});
    switch (which) {
      case independent:
        drafter_.emplace<ByModel<Independent>>(small, shape, Independent{});
        break;
      case without_replacement:
        drafter_.emplace<ByModel<WithoutReplacement>>(small, shape, WithoutReplacement{});
        break;
      case likeliest:
        drafter_.emplace<ByModel<Likeliest>>(small, shape, Likeliest{});
        break;
      case by_paths:
        drafter_.emplace<ByPaths>(PathByPath<Model&>(small), shape, WithoutReplacement{});
        break;
      case spares:
        drafter_.emplace<SparesDrafter<Model&>>(small, Index{4}, std::vector<Index>{2, 1}, Index{2});
        break;
      case confident:
        drafter_.emplace<ConfidentTreeDrafter<Model&>>(small,
                                                       ConfidentTree{.width = 2, .depth = 4, .nodes = 10});
        break;
      default:
        break;
    }
  }

  specdec::TreeDraft<Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>> draft(
      std::span<const Token> context, const specdec::TreeLimits& limits, auto& chance) {
    require(begins_with(context, stage_->author->text()) && context.size() == stage_->author->text().size(),
            "a draft for another text");
    require(limits.trunk <= limits.nodes && limits.trunk <= limits.depth, "no room for the trunk");
    stage_->call();
    stage_->drawn = false;
    std::visit([&](auto& drafter) { keep(drafter.draft(context, limits, chance)); }, drafter_);
    // Where there was no room for a token the model was not asked, and holds what it did.
    if (stage_->drawn && (which_ == independent || which_ == without_replacement || which_ == likeliest))
      check_model();
    stage_->call();
    return {stage_->draft, rows_, stage_->parents};
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  void observe(const auto& rows, std::span<const Token> tokens, std::span<const Index> parents,
               const specdec::Stop& stop) {
    require(specdec::distributions(rows).rows() == std::ssize(tokens) + 1, "rows of another tree");
    require(std::ranges::equal(tokens, stage_->draft) && std::ranges::equal(parents, stage_->parents),
            "another tree was judged");
    require(stop.node >= 0 && stop.node <= std::ssize(tokens), "stopped at no node");
    stage_->call();
  }

  void clear() {}  // none of them learns

 private:
  template <class Siblings>
  using ByModel = specdec::ModelTreeDrafter<Model&, Siblings>;
  using ByPaths = specdec::ModelTreeDrafter<specdec::PathByPath<Model&>, specdec::WithoutReplacement>;

  template <class Proposed>
  void keep(const Proposed& draft) {
    const auto rows = specdec::distributions(draft.rows);
    stage_->draft.assign(draft.tokens.begin(), draft.tokens.end());
    stage_->parents.assign(draft.parents.begin(), draft.parents.end());
    rows_.resize(std::ssize(stage_->draft), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = specdec::probability(rows.row(i), x);
  }

  // What the model holds behind the text is a part of the draft.
  void check_model() {
    const auto tree = small_->tree();
    numbers_.clear();
    Index k = -1;  // in the draft, which has the same order
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
  std::variant<specdec::PromptLookupTreeDrafter, ByModel<specdec::Independent>,
               ByModel<specdec::WithoutReplacement>, ByModel<specdec::Likeliest>, ByPaths,
               specdec::SparesDrafter<Model&>, specdec::ConfidentTreeDrafter<Model&>>
      drafter_;
  Matrix rows_;
  std::vector<Index> numbers_;  // in the draft, of what the model holds
};

// A number of nodes that changes its mind.
struct AnyNodes : AnyLength {
  using AnyLength::AnyLength;
  static constexpr bool counts_nodes = true;
};

}  // namespace soak
