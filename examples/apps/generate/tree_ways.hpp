// The trees that a table compares with lines.
// SPDX-License-Identifier: MIT
#pragma once

#include <specdec/more/analysis/sequoia_shape.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/comparison.hpp"
#include "generate/pair.hpp"
#include "generate/rules.hpp"
#include "generate/tree_rules.hpp"
#include "generate/trees.hpp"
#include "generate/way.hpp"

namespace generate {

/// The probability that the k-th child of a node is accepted, measured in one round of texts with other seeds.
inline std::vector<double> measured_acceptance_by_rank(Pair& pair, const Rule& rule,
                                                       const DrafterKind& drafter, const TreeKind& kind,
                                                       Texts texts) {
  texts.seed += 1000000;
  texts.rounds = 1;
  const Way wide{"", &rule, &drafter, {false, 0}, tree_of(kind, Widths{6, 6})};
  const specdec::Stats stats = run_ways(pair, {wide}, texts).front().stats();
  std::vector<double> chances;  // relative to all visited nodes, so that they sum to at most 1
  for (const Index accepted : stats.accepted_by_rank)
    chances.push_back(static_cast<double>(accepted) / static_cast<double>(stats.offered_by_rank.front()));
  return chances;
}

/// The rows of the table: the target alone; lines of up to `most` tokens; after each line the trees of its depth (with up to
/// 16 tokens at 4 levels); at the end automatic lines, and trees by the rows. Trees that do not go with the rule are left out.
class TreeWays {
 public:
  TreeWays(Pair& pair, const Rule& rule, const DrafterKind& drafter, const Texts& texts)
      : rule_(rule),
        drafter_(drafter),
        draws_(draft_temperature(rule, texts.temperature) > 0),
        full_(tree_kind_named(draws_ ? "without-replacement" : "likeliest")) {
    if (fits(full_)) by_rank_ = measured_acceptance_by_rank(pair, rule, drafter, full_, texts);
  }

  std::vector<Way> up_to(Index most) && {
    for (Index depth = 1; depth <= most; ++depth) {
      ways_.push_back({"linear", &rule_, &drafter_, {false, depth}});
      if (depth > 1) add_trees(depth);
    }
    add_auto(most);
    return std::move(ways_);
  }

 private:
  static constexpr Index nodes = 16;

  bool fits(const TreeKind& kind) const { return objection(kind.siblings, rule_.option, draws_).empty(); }

  void add_trees(Index depth) {
    const TreeKind& spares = tree_kind_named("spares");
    for (const Widths& widths : {Widths{2, 1}, {2, 2, 2, 2}, {4, 2, 2, 2}, {8, 4, 2, 2}})
      add(spares, widths, depth);
    for (const TreeKind* kind : {&full_, &tree_kind_named("drawn-first")})
      for (const Widths& widths : {Widths{2, 1}, {2, 2, 1, 1}, {4, 1, 1, 1}}) add(*kind, widths, depth);
    add(tree_kind_named("independent"), {4, 1, 1, 1}, depth);
    for (const char* confident : {"confident", "drawn-confident"}) {
      const TreeKind& kind = tree_kind_named(confident);
      add(std::string(kind.title), tree_of(kind, nodes, depth));
    }
    if (!by_rank_.empty())
      add("sequoia",
          tree_of(full_, specdec::TreeShape(specdec::sequoia_shape(by_rank_, nodes, depth).parents)));
  }

  void add_auto(Index most) {
    ways_.push_back({"auto", &rule_, &drafter_, {true, most}});
    const TreeKind& kind = draws_ ? full_ : tree_kind_named("confident");
    if (fits(kind))
      ways_.push_back({"early " + std::string(kind.title),
                       &rule_,
                       &drafter_,
                       {true, most, true},
                       largest_tree(kind, most)});
  }

  // Levels without a given width have one child.
  void add(const TreeKind& kind, Widths widths, Index depth) {
    widths.resize(static_cast<std::size_t>(depth), 1);
    add(std::string(kind.title) + ' ' + text_of(widths), tree_of(kind, widths));
  }
  void add(const std::string& title, Tree tree) {
    if (fits(*tree.kind)) ways_.push_back({title, &rule_, &drafter_, {false, 0}, std::move(tree)});
  }

  const Rule& rule_;
  const DrafterKind& drafter_;
  bool draws_;
  const TreeKind& full_;
  std::vector<double> by_rank_;
  std::vector<Way> ways_{target_alone()};
};

}  // namespace generate
