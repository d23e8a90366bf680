// The parts of the loop for trees: drafters, policies and rules, which fail or lie when the bytes say so.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <specdec/more/lengths/early_stopping_length.hpp>
#include <specdec/specdec.hpp>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/model.hpp"
#include "fuzz/parties.hpp"
#include "support/any_tree_drafter.hpp"
#include "support/trees.hpp"

namespace fuzz {

// Any of the drafters of trees.
class AnyTreeDrafter {
  using Drafter = support::AnyTreeDrafter<Engine>;

 public:
  using Kind = Drafter::Kind;

  AnyTreeDrafter(Index which, Engine& small, Faults& faults)
      : faults_(&faults),
        most_(which == Kind::suffixes ? most_suffixes : specdec::unlimited),
        drafter_(which, small) {}

  auto draft(std::span<const Token> context, specdec::DraftLimits limits, auto& chance) {
    require(limits.nodes >= 0 && limits.depth >= 0);
    limits.nodes = std::min(limits.nodes, most_);
    faults_->may_fail();
    support::ProposedTree& tree = drafter_.draft(context, limits, chance);
    faults_->may_fail();
    if (faults_->may_lie()) lie(tree);
    return tree.view();
  }

  void truncate(Index length) { drafter_.truncate(length); }

  template <class Rows>
  void observe(const specdec::Judged<Rows>& judged) {
    const Index count = std::ssize(judged.tokens), node = judged.verdict.node;
    require(specdec::distributions(judged.rows).rows() == count + 1);
    require(std::ssize(judged.parents) == count && node >= 0 && node <= count);
    faults_->may_fail();
  }

 private:
  void lie(support::ProposedTree& tree) {
    auto& [tokens, rows, parents] = tree;
    switch (faults_->bytes->up_to(6)) {
      case 0:
        tokens.push_back(0);
        break;
      case 1:
        tokens.assign(tokens.size(), static_cast<Token>(faults_->bytes->size()));
        break;
      case 2:
        rows.setConstant(faults_->bytes->number());
        break;
      case 3:
        tokens.clear();
        break;
      case 4:
        if (!parents.empty())
          parents[static_cast<std::size_t>(faults_->bytes->up_to(std::ssize(parents) - 1))] =
              faults_->bytes->size();
        break;
      case 5:
        grow_a_line(tree);
        break;
      default:
        parents.clear();
        break;
    }
  }

  // Longer than any draft that is asked for.
  static void grow_a_line(support::ProposedTree& tree) {
    for (Index k = std::ssize(tree.parents); k < 60; ++k) {
      tree.tokens.push_back(0);
      tree.parents.push_back(k - 1);
    }
    tree.rows = Matrix::Constant(60, vocabulary, 1.0 / vocabulary);
  }

  // A text of eight tokens that repeats itself has a million continuations, and judging them takes a minute.
  static constexpr Index most_suffixes = 1000;

  Faults* faults_;
  Index most_;  // nodes
  Drafter drafter_;
};

// A number of nodes: all, as many as a length that learns costs asks for, or few.
class AnyNodes {
 public:
  enum Kind : Index { all, early, few, kinds };
  static constexpr bool counts_nodes = true;

  AnyNodes(Index which, Faults& faults) : which_(which), faults_(&faults) {}

  Index next(Index most) {
    faults_->may_fail();
    if (faults_->may_lie()) return faults_->bytes->size();
    return which_ == early ? early_.next(most) : which_ == few ? std::min<Index>(most, 3) : most;
  }

  // Uses times that do not depend on the machine.
  void observe(specdec::StepRecord step) {
    step.draft_time = std::chrono::microseconds(2 * step.depth());
    step.target_time = std::chrono::microseconds(20 + step.fed);
    step.verify_time = {};
    early_.observe(step);
  }

 private:
  Index which_;
  specdec::EarlyStoppingLength<> early_;
  Faults* faults_;
};

enum TreeRule : Index { traversal, recursive, block, sample_match, argmax, k_seq, tree_rules };

inline support::AnyTreeRule tree_rule_of(Index which) {
  using namespace specdec;
  switch (which) {
    case recursive:
      return {RecursiveRejectionVerifier{}};
    case block:
      return {TrunkAndSpares<BlockVerifier>{}};
    case sample_match:
      return {TrunkAndSpares<SampleMatchVerifier>{}};
    case argmax:
      return {TrunkAndSpares<ArgmaxVerifier>{}};
    case k_seq:
      return {KSeqVerifier{}};
    default:
      return {TraversalVerifier{}};
  }
}

}  // namespace fuzz
