// What the loop is made of where drafts are trees: a target that takes them, drafters, policies and rules, which fail or
// lie where the bytes say so.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/parties.hpp"
#include "support/trees.hpp"

namespace fuzz {

// Takes trees by itself, or path by path. Its rows are copied, so that those of both have one type.
class TreeTarget {
 public:
  TreeTarget(Model& model, bool by_paths) : model_(&model) {
    if (by_paths) paths_.emplace(model);
  }

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return model_->context_size(); }

  const Matrix& forward(std::span<const Token> tokens, Index rows) {
    return paths_ ? copy(paths_->forward(tokens, rows)) : copy(model_->forward(tokens, rows));
  }
  const Matrix& forward(std::span<const Token> tokens, std::span<const Index> parents, Index rows) {
    return paths_ ? copy(paths_->forward(tokens, parents, rows))
                  : copy(model_->forward(tokens, parents, rows));
  }
  void keep(std::span<const Index> path) {
    if (paths_) paths_->keep(path);
    else model_->keep(path);
  }
  void truncate(Index length) {
    if (paths_) paths_->truncate(length);
    else model_->truncate(length);
  }

  // Path by path the last tokens that were kept are taken in by the next call.
  bool holds(std::span<const Token> text) const {
    if (!paths_) return model_->holds(text);
    return model_->holds(text.first(std::min(text.size(), model_->context().size())));
  }

 private:
  template <class Output>
  const Matrix& copy(const Output& output) {
    const auto rows = specdec::distributions(output);
    rows_.resize(rows.rows(), rows.vocab_size());
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < rows_.cols(); ++x) rows_(i, x) = rows.row(i).probability(x);
    return rows_;
  }

  Model* model_;
  std::optional<specdec::PathByPath<Model&>> paths_;
  Matrix rows_;
};

// One of all drafters of trees. Its rows are copied, so that those of all have one type.
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
    cheapest,
    kinds
  };

  AnyTreeDrafter(Index which, Model& small, const specdec::CostOptimalTree& trees, Faults& faults)
      : faults_(&faults) {
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
        drafter_.emplace<ByModel<Likeliest>>(small, TreeShape{-1, 0, 0, -1, 1, 2, 4}, Likeliest{});
        break;
      case by_paths:
        drafter_.emplace<ByPaths>(PathByPath<Model&>(small), shape, WithoutReplacement{});
        break;
      case spares:
        drafter_.emplace<SparesDrafter<Model&>>(small, Index{4}, std::vector<Index>{2, 1}, Index{2});
        break;
      case confident:
        drafter_.emplace<ConfidentTreeDrafter<Model&>>(small,
                                                       ConfidentTree{.width = 2, .depth = 4, .nodes = 7});
        break;
      case cheapest:
        drafter_.emplace<Cheapest>(small, std::cref(trees), WithoutReplacement{});
        break;
      default:
        drafter_.emplace<PromptLookupTreeDrafter>();
        break;
    }
  }

  specdec::TreeDraft<Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>> draft(
      std::span<const Token> context, const specdec::TreeLimits& limits, auto& chance) {
    require(limits.nodes >= 0 && limits.depth >= 0);
    require(limits.trunk <= limits.nodes && limits.trunk <= limits.depth);
    faults_->may_fail();
    std::visit([&](auto& drafter) { keep(drafter.draft(context, limits, chance)); }, drafter_);
    faults_->may_fail();
    if (faults_->may_lie()) lie();
    return {tokens_, rows_, parents_};
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  template <class Rows>
  void observe(const Rows& rows, std::span<const Token> tokens, std::span<const Index> parents,
               const specdec::Stop& stop) {
    require(specdec::distributions(rows).rows() == std::ssize(tokens) + 1);
    require(parents.size() == tokens.size() && stop.node >= 0 && stop.node <= std::ssize(tokens));
    faults_->may_fail();
  }

 private:
  template <class Siblings>
  using ByModel = specdec::ModelTreeDrafter<Model&, Siblings>;
  using ByPaths = specdec::ModelTreeDrafter<specdec::PathByPath<Model&>, specdec::WithoutReplacement>;
  using Cheapest = specdec::ModelTreeDrafter<Model&, specdec::WithoutReplacement,
                                             std::reference_wrapper<const specdec::CostOptimalTree>>;

  template <class Proposed>
  void keep(const Proposed& draft) {
    const auto rows = specdec::distributions(draft.rows);
    tokens_.assign(draft.tokens.begin(), draft.tokens.end());
    parents_.assign(draft.parents.begin(), draft.parents.end());
    rows_.resize(std::ssize(tokens_), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = specdec::probability(rows.row(i), x);
  }

  void lie() {
    switch (faults_->bytes->up_to(6)) {
      case 0:
        tokens_.push_back(0);
        break;
      case 1:
        tokens_.assign(tokens_.size(), static_cast<Token>(faults_->bytes->size()));
        break;
      case 2:
        rows_.setConstant(faults_->bytes->number());
        break;
      case 3:
        tokens_.clear();
        break;
      case 4:
        if (!parents_.empty())
          parents_[static_cast<std::size_t>(faults_->bytes->up_to(std::ssize(parents_) - 1))] =
              faults_->bytes->size();
        break;
      case 5:
        grow_a_line();
        break;
      default:
        parents_.clear();
        break;
    }
  }

  // Longer than anything asked for.
  void grow_a_line() {
    for (Index k = std::ssize(parents_); k < 60; ++k) {
      tokens_.push_back(0);
      parents_.push_back(k - 1);
    }
    rows_ = Matrix::Constant(60, vocabulary, 1.0 / vocabulary);
  }

  Faults* faults_;
  std::variant<specdec::PromptLookupTreeDrafter, ByModel<specdec::Independent>,
               ByModel<specdec::WithoutReplacement>, ByModel<specdec::Likeliest>, ByPaths,
               specdec::SparesDrafter<Model&>, specdec::ConfidentTreeDrafter<Model&>, Cheapest>
      drafter_;
  Tokens tokens_;
  std::vector<Index> parents_;
  Matrix rows_;
};

// A number of nodes: all, the cheapest tree's, or few.
class AnyNodes {
 public:
  enum Kind : Index { all, cheapest, few, kinds };
  static constexpr bool counts_nodes = true;

  AnyNodes(Index which, specdec::CostOptimalTree& trees, Faults& faults)
      : which_(which), trees_(&trees), faults_(&faults) {}

  Index next(Index most) {
    faults_->may_fail();
    if (faults_->may_lie()) return faults_->bytes->size();
    return which_ == cheapest ? trees_->next(most) : which_ == few ? std::min<Index>(most, 3) : most;
  }

  // With times that do not depend on the machine.
  void observe(specdec::StepRecord step) {
    step.draft_time = std::chrono::microseconds(2 * step.depth());
    step.target_time = std::chrono::microseconds(20 + step.fed);
    trees_->observe(step);
  }

 private:
  Index which_;
  specdec::CostOptimalTree* trees_;
  Faults* faults_;
};

enum TreeRule : Index { traversal, recursive, block, sample_match, greedy_block, argmax, k_seq, tree_rules };

inline support::AnyTreeRule tree_rule_of(Index which) {
  using namespace specdec;
  switch (which) {
    case recursive:
      return {RecursiveRejectionVerifier{}};
    case block:
      return {TrunkAndSpares<BlockVerifier>{}};
    case sample_match:
      return {TrunkAndSpares<SampleMatchVerifier>{}};
    case greedy_block:
      return {TrunkAndSpares<GreedyBlockVerifier>{}};
    case argmax:
      return {TrunkAndSpares<ArgmaxVerifier>{}};
    case k_seq:
      return {KSeqVerifier{}};
    default:
      return {TraversalVerifier{}};
  }
}

}  // namespace fuzz
