// Trees of drafts over small models with known distributions, and the exact law of loops that verify them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/layouts.hpp"

namespace support {

using specdec::testing::FormDrafter;
using specdec::testing::Law;
using specdec::testing::Sibling;
using specdec::testing::TableModel;
using specdec::testing::TreeForm;

inline Index depth_of(const TreeForm& form) {
  std::vector<Index> depths;
  return specdec::TokenTreeView(form.parents).depths(depths);
}

// A drafted tree with the target's rows.
struct DraftedTree {
  RowMajor<double> target, draft;
  std::vector<Token> tokens;
  std::vector<Index> parents;
};

// Drafts a tree after the context.
DraftedTree draft_tree(const auto& target, const auto& draft, const std::vector<Token>& context,
                       const TreeForm& form, auto& chance) {
  FormDrafter drafter(draft, form);
  const auto drafted = drafter.draft(context, {}, chance);
  DraftedTree tree{{},
                   drafted.rows,
                   {drafted.tokens.begin(), drafted.tokens.end()},
                   {drafted.parents.begin(), drafted.parents.end()}};
  const Index size = std::ssize(tree.tokens);
  tree.target.resize(size + 1, target.vocab_size());
  for (Index k = -1; k < size; ++k) {
    std::vector<Token> way;
    for (Index at = k; at >= 0; at = tree.parents[static_cast<std::size_t>(at)])
      way.insert(way.begin(), tree.tokens[static_cast<std::size_t>(at)]);
    std::vector<Token> all = context;
    all.insert(all.end(), way.begin(), way.end());
    const auto row = target.distribution(all);
    for (Token x = 0; x < row.vocab_size(); ++x) tree.target(k + 1, x) = row.probability(x);
  }
  return tree;
}

// Any rule for trees, chosen at run time, so that the loop is compiled once.
struct AnyTreeRule {
  std::variant<specdec::TraversalVerifier, specdec::RecursiveRejectionVerifier, specdec::KSeqVerifier,
               specdec::TrunkAndSpares<specdec::BlockVerifier>,
               specdec::TrunkAndSpares<specdec::SampleMatchVerifier>,
               specdec::TrunkAndSpares<specdec::ArgmaxVerifier>>
      rule;

  specdec::NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
  friend bool operator==(const AnyTreeRule&, const AnyTreeRule&) = default;
};

// What one verification of a tree emits, with its probability, and the mean number of accepted tokens.
struct TreeStep {
  std::map<std::vector<Token>, double> emitted;
  double accepted = 0;
};

template <class Rule>
TreeStep tree_step(const auto& target, const auto& draft, const std::vector<Token>& context,
                   const TreeForm& form, const Rule& rule) {
  TreeStep out;
  specdec::testing::enumerate([&](specdec::testing::Enumerator& chance) {
    const DraftedTree tree = draft_tree(target, draft, context, form, chance);
    const specdec::TreeVerdict verdict =
        specdec::verify(rule, tree.target, tree.draft, tree.tokens, tree.parents, chance);
    std::vector<Token> tokens;
    for (const Index k : verdict.path) tokens.push_back(tree.tokens[static_cast<std::size_t>(k)]);
    tokens.push_back(verdict.token);
    const double p = chance.probability();
    out.accepted += p * static_cast<double>(verdict.path.size());
    out.emitted[tokens] += p;
  });
  return out;
}

// The exact law of a loop that drafts a tree of one form at every step, and the mean number of accepted tokens.
struct TreeLaw {
  Law law;
  double steps = 0, accepted = 0;
  double per_step() const { return accepted / steps; }
};

// The models depend on the last `order` tokens only, so steps from contexts with equal ends are merged. The rule may
// remember nothing.
template <class Rule>
TreeLaw tree_law(const auto& target, const auto& draft, std::size_t order, const std::vector<Token>& prompt,
                 const TreeForm& form, const Rule& rule, std::size_t max_new_tokens) {
  std::map<std::vector<Token>, TreeStep> known;
  const auto step_behind = [&](const std::vector<Token>& context) -> const TreeStep& {
    const std::size_t used = std::min(order, context.size());
    const std::vector<Token> end(context.end() - static_cast<std::ptrdiff_t>(used), context.end());
    const auto found = known.find(end);
    return found != known.end() ? found->second : known[end] = tree_step(target, draft, context, form, rule);
  };
  TreeLaw out;
  const std::size_t full = prompt.size() + max_new_tokens;
  std::map<std::pair<std::size_t, std::vector<Token>>, double> open{{{prompt.size(), prompt}, 1.0}};
  for (; !open.empty(); open.erase(open.begin())) {
    const auto [key, before] = *open.begin();
    const std::vector<Token>& context = key.second;
    if (context.size() == full) {
      out.law[{context.begin() + static_cast<std::ptrdiff_t>(prompt.size()), context.end()}] += before;
      continue;
    }
    const TreeStep& step = step_behind(context);
    out.steps += before;
    out.accepted += before * step.accepted;
    for (const auto& [tokens, p] : step.emitted) {
      std::vector<Token> next = context;
      next.insert(next.end(), tokens.begin(), tokens.end());
      next.resize(std::min(next.size(), full));
      open[{next.size(), next}] += before * p;
    }
  }
  return out;
}

}  // namespace support
