// Trees of drafts over small models whose every distribution is known, and the exact law of loops that verify them.
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

using specdec::testing::Law;
using specdec::testing::TableModel;

// How a token of a tree comes about.
enum class Sibling { independent, without_replacement, chosen };

// A tree of which the tokens are still to be drafted. Node k + 1 is token k's.
struct TreeForm {
  std::vector<Index> parents;
  std::vector<Sibling> kinds;  // of the tokens

  TreeForm(std::vector<Index> above, std::vector<Sibling> how)
      : parents(std::move(above)), kinds(std::move(how)) {}
  TreeForm(std::vector<Index> above, Sibling how) : parents(std::move(above)), kinds(parents.size(), how) {}

  Index size() const { return std::ssize(parents); }
  Index depth() const {
    std::vector<Index> depths;
    for (const Index parent : parents)
      depths.push_back(parent < 0 ? 1 : depths[static_cast<std::size_t>(parent)] + 1);
    return depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  }
};

// A drafted tree with all rows, as matrices.
struct DraftedTree {
  RowMajor<double> target, draft;
  std::vector<Token> tokens;
  std::vector<Index> parents;
};

namespace detail {

inline std::vector<Token> with(std::vector<Token> context, std::span<const Token> more) {
  context.insert(context.end(), more.begin(), more.end());
  return context;
}

// The tokens from the context to token k.
inline std::vector<Token> way(const DraftedTree& tree, Index k) {
  std::vector<Token> tokens;
  for (; k >= 0; k = tree.parents[static_cast<std::size_t>(k)])
    tokens.insert(tokens.begin(), tree.tokens[static_cast<std::size_t>(k)]);
  return tokens;
}

inline Eigen::RowVectorXd row_of(const auto& row) {
  Eigen::RowVectorXd out(row.vocab_size());
  for (Token x = 0; x < out.size(); ++x) out[x] = row.probability(x);
  return out;
}

// The row that the next sibling is drawn from, given the elder ones; one without mass where nothing can follow.
inline Eigen::RowVectorXd sibling_row(Eigen::RowVectorXd q, Sibling kind, std::span<const Token> elders) {
  if (kind == Sibling::independent)
    return elders.empty() || q.maxCoeff() < 1 ? q : Eigen::RowVectorXd(Eigen::RowVectorXd::Zero(q.size()));
  for (const Token x : elders) q[x] = 0;
  if (kind == Sibling::without_replacement) return q.sum() > 0 ? Eigen::RowVectorXd(q / q.sum()) : q;
  Index best = 0;  // the likeliest token that no elder sibling has
  while (std::find(elders.begin(), elders.end(), best) != elders.end()) ++best;
  for (Index x = best + 1; x < q.size(); ++x)
    if (q[x] > q[best] && std::find(elders.begin(), elders.end(), x) == elders.end()) best = x;
  Eigen::RowVectorXd row = Eigen::RowVectorXd::Zero(q.size());
  if (std::ssize(elders) < q.size()) row[best] = 1;
  return row;
}

}  // namespace detail

// Drafts a tree behind the context. Where a node can have no more children the form is cut there.
DraftedTree draft_tree(const auto& target, const auto& draft, const std::vector<Token>& context,
                       const TreeForm& form, auto& chance) {
  DraftedTree tree;
  std::vector<Index> numbers;  // of the form's tokens in the tree; −2 where one is left out
  std::vector<Eigen::RowVectorXd> rows;
  for (Index i = 0; i < form.size(); ++i) {
    const Index above = form.parents[static_cast<std::size_t>(i)];
    const Index parent = above < 0 ? -1 : numbers[static_cast<std::size_t>(above)];
    numbers.push_back(-2);
    if (parent == -2) continue;
    std::vector<Token> elders;
    for (std::size_t k = 0; k < tree.tokens.size(); ++k)
      if (tree.parents[k] == parent) elders.push_back(tree.tokens[k]);
    const auto q = detail::row_of(draft.distribution(detail::with(context, detail::way(tree, parent))));
    const auto row = detail::sibling_row(q, form.kinds[static_cast<std::size_t>(i)], elders);
    if (!(row.sum() > 0)) continue;
    numbers.back() = std::ssize(tree.tokens);
    tree.tokens.push_back(chance.draw(specdec::DenseRow<double>(row.data(), row.size())));
    tree.parents.push_back(parent);
    rows.push_back(row);
  }
  const Index size = std::ssize(tree.tokens);
  tree.draft.resize(size, draft.vocab_size());
  tree.target.resize(size + 1, target.vocab_size());
  for (Index k = 0; k < size; ++k) tree.draft.row(k) = rows[static_cast<std::size_t>(k)];
  for (Index k = -1; k < size; ++k)
    tree.target.row(k + 1) = detail::row_of(target.distribution(detail::with(context, detail::way(tree, k))));
  return tree;
}

// Drafts trees of one form with a model.
class FormDrafter {
 public:
  FormDrafter(TableModel<> model, TreeForm form) : model_(std::move(model)), form_(std::move(form)) {}

  specdec::TreeDraft<Eigen::Map<const RowMajor<double>>> draft(std::span<const Token> context,
                                                               const specdec::TreeLimits& limits,
                                                               auto& chance) {
    tree_ = draft_tree(model_, model_, {context.begin(), context.end()}, within(limits), chance);
    return {tree_.tokens, {tree_.draft.data(), tree_.draft.rows(), tree_.draft.cols()}, tree_.parents};
  }
  void truncate(Index) {}

 private:
  // The first tokens of the form, and none that lies too deep.
  TreeForm within(const specdec::TreeLimits& limits) const {
    TreeForm cut({}, std::vector<Sibling>{});
    std::vector<Index> numbers, depths;
    for (std::size_t k = 0; k < form_.parents.size(); ++k) {
      const Index above = form_.parents[k];
      depths.push_back(above < 0 ? 1 : depths[static_cast<std::size_t>(above)] + 1);
      numbers.push_back(-2);
      if (depths.back() > limits.depth || cut.size() >= limits.nodes) continue;
      numbers.back() = cut.size();
      cut.parents.push_back(above < 0 ? -1 : numbers[static_cast<std::size_t>(above)]);
      cut.kinds.push_back(form_.kinds[k]);
    }
    return cut;
  }

  TableModel<> model_;
  TreeForm form_;
  DraftedTree tree_;
};

// Any rule for trees, chosen when the program runs: the loop is then compiled once, not once a rule.
struct AnyTreeRule {
  std::variant<
      specdec::TraversalVerifier, specdec::RecursiveRejectionVerifier, specdec::KSeqVerifier,
      specdec::TrunkAndSpares<specdec::BlockVerifier>, specdec::TrunkAndSpares<specdec::GreedyBlockVerifier>,
      specdec::TrunkAndSpares<specdec::SampleMatchVerifier>, specdec::TrunkAndSpares<specdec::ArgmaxVerifier>>
      rule;

  specdec::Stop judge(const auto& drafted, auto& chance) {
    return std::visit([&](auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
  void commit() {
    std::visit([](auto& verifier) { specdec::detail::commit(verifier); }, rule);
  }
  Index min_draft_length() const {
    return std::visit([](const auto& verifier) { return specdec::min_draft_length(verifier); }, rule);
  }
  friend bool operator==(const AnyTreeRule&, const AnyTreeRule&) = default;
};

// What one verification of such a tree emits, with its probability, and how many tokens it accepts on average.
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
        specdec::verify_tree(rule, tree.target, tree.draft, tree.tokens, tree.parents, chance);
    std::vector<Token> tokens;
    for (const Index k : verdict.path) tokens.push_back(tree.tokens[static_cast<std::size_t>(k)]);
    tokens.push_back(verdict.token);
    const double p = chance.probability();
    out.accepted += p * static_cast<double>(verdict.path.size());
    out.emitted[tokens] += p;
  });
  return out;
}

// What a loop writes that drafts a tree of this form at every step, exactly, and the mean number of accepted tokens.
struct TreeLaw {
  Law law;
  double steps = 0, accepted = 0;
  double per_step() const { return accepted / steps; }
};

// The models know the last `order` tokens alone, so steps from contexts that end in these are one step. The rule may
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
      std::vector<Token> next = detail::with(context, tokens);
      next.resize(std::min(next.size(), full));
      open[{next.size(), next}] += before * p;
    }
  }
  return out;
}

}  // namespace support
