// Any of the drafters of trees, over small models of one type.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <variant>
#include <vector>

#include "support/layouts.hpp"

namespace support {

// A drafted tree that owns its rows.
struct ProposedTree {
  std::vector<Token> tokens;
  RowMajor<double> rows;
  std::vector<Index> parents;

  using View = specdec::Draft<Eigen::Ref<const RowMajor<double>, 0, Eigen::OuterStride<>>>;
  View view() const { return {tokens, rows, parents}; }
  // All rows get the size of the widest one. A one-hot row ends with its token.
  void assign(const auto& draft) {
    const auto from = specdec::distributions(draft.rows);
    Index width = 0;
    for (Index i = 0; i < from.rows(); ++i) width = std::max<Index>(width, from.row(i).vocab_size());
    assign(draft, width);
  }
  template <class Draft>
  void assign(const Draft& draft, Index vocab_size) {
    const auto from = specdec::distributions(draft.rows);
    tokens.assign(draft.tokens.begin(), draft.tokens.end());
    parents.assign(draft.parents.begin(), draft.parents.end());
    rows.resize(from.rows(), vocab_size);
    for (Index i = 0; i < from.rows(); ++i)
      for (Token x = 0; x < vocab_size; ++x) rows(i, x) = specdec::probability(from.row(i), x);
  }
};

template <class Model>
class AnyTreeDrafter {
 public:
  enum Kind : Index {
    independent,
    without_replacement,
    likeliest,
    by_paths,
    spares,
    confident,
    suffixes,
    kinds
  };
  static constexpr const char* names[] = {"independent siblings",
                                          "siblings without replacement",
                                          "likeliest siblings",
                                          "siblings, path by path",
                                          "spares",
                                          "confident tree",
                                          "suffixes"};

  AnyTreeDrafter(Index which, Model& small) : vocab_size_(small.vocab_size()) {
    using namespace specdec;
    const TreeShape shape = TreeShape::of_widths({3, 2, 1});
    switch (which) {
      case independent:
        drafter_.template emplace<ByModel<Independent>>(small, Tree{shape, Independent{}});
        break;
      case without_replacement:
        drafter_.template emplace<ByModel<WithoutReplacement>>(small, Tree{shape, WithoutReplacement{}});
        break;
      case likeliest:
        drafter_.template emplace<ByModel<Likeliest>>(small,
                                                      Tree{TreeShape{-1, 0, 0, -1, 1, 2, 4}, Likeliest{}});
        break;
      case by_paths:
        drafter_.template emplace<ByPaths>(PathByPath<Model&>(small), Tree{shape, WithoutReplacement{}});
        break;
      case spares:
        drafter_.template emplace<ModelDrafter<Model&, Spares>>(small, Spares{4, {2, 1}, 2});
        break;
      case confident:
        drafter_.template emplace<ModelDrafter<Model&, ConfidentTree>>(
            small, ConfidentTree{.width = 2, .depth = 4, .nodes = 7});
        break;
      default:
        break;
    }
  }

  // Returns the drafter's proposal as a copy, so that all proposals have one type.
  ProposedTree& draft(std::span<const Token> context, const specdec::DraftLimits& limits, auto& chance) {
    std::visit([&](auto& drafter) { proposed_.assign(drafter.draft(context, limits, chance), vocab_size_); },
               drafter_);
    return proposed_;
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  // Forgets, if the drafter learns.
  void clear() {
    std::visit(
        [](auto& drafter) {
          if constexpr (requires { drafter.clear(); }) drafter.clear();
        },
        drafter_);
  }

 private:
  template <class Siblings>
  using ByModel = specdec::ModelDrafter<Model&, specdec::Tree<Siblings>>;
  using ByPaths =
      specdec::ModelDrafter<specdec::PathByPath<Model&>, specdec::Tree<specdec::WithoutReplacement>>;

  Index vocab_size_;
  std::variant<specdec::SuffixDrafter<specdec::Branching>, ByModel<specdec::Independent>,
               ByModel<specdec::WithoutReplacement>, ByModel<specdec::Likeliest>, ByPaths,
               specdec::ModelDrafter<Model&, specdec::Spares>,
               specdec::ModelDrafter<Model&, specdec::ConfidentTree>>
      drafter_;
  ProposedTree proposed_;
};

}  // namespace support
