// A drafted tree: who follows whom, and what the rejection of siblings leaves of a row.
//
// Node 0 is the context, node k + 1 is after token k. A token is a child of the node it follows. Siblings are judged in order.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>

#include "specdec/parents.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/read/little_left.hpp"
#include "specdec/rows/read/rough_residual.hpp"
#include "specdec/rows/row_cache.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/drafted.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A tree: token k follows token parents[k], or the context if parents[k] = −1.
/// Throws: InvalidArgument if the number of parents is wrong, or if a parent is not before its child.
/// Cost: O(tokens); no allocation for up to 64 tokens.
class TreeLinks {
 public:
  static constexpr bool linear = false;

  TreeLinks(TokenIds parents, Index tokens)
      : parents_(compared(parents, tokens)), first_child_(tokens + 1), next_sibling_(tokens) {
    for (Index k = 0; k < tokens; ++k) check_parent(k, parents_[k]);
    link_children(*this, tokens, first_child_.data(), next_sibling_.data(), [](Index) { return true; });
  }

  Index gamma() const { return parents_.size(); }
  Index judged_by(Index i) const { return parent(i) + 1; }
  Index depth(Index i) const {
    Index depth = 0;
    each_back(*this, i - 1, [&](Index) { ++depth; });
    return depth;
  }
  Index parent(Index k) const { return as_type<Index>(parents_[k]); }
  Index first_child(Index node) const { return first_child_[node]; }
  Index next_sibling(Index k) const { return next_sibling_[k]; }

 private:
  // Before there is memory for all tokens: what is wrong may be their number.
  static TokenIds compared(TokenIds parents, Index tokens) {
    check_parent_count(parents.size(), tokens);
    return parents;
  }

  TokenIds parents_;
  ScratchOf<Index> first_child_, next_sibling_;
};

/// The draft rows that each(take) takes away, for SumOfRows.
template <class D, class Each>
struct TakenRows {
  const D* drafted;
  Each each_taken;

  template <class Visit>
  void each(const Visit& visit) const {
    each_taken([&](double b, Index k) {
      if (b == all_of_it) visit(b, OneHotRow(drafted->token(k)));
      else visit(b, drafted->draft(k));
    });
  }
};

}  // namespace detail

template <Probabilities Target, Probabilities Draft, class... Use>
Drafted(const Target&, const Draft&, TokenIds, TokenIds, Use...)
    -> Drafted<DistributionsOf<Target>, DistributionsOf<Draft>, detail::TreeLinks>;

/// The row (p − Σ b·q)+ of target row i and several draft rows. each(take) calls take(b, k) for draft row k with coefficient b,
/// or take(all_of_it, k) if token k and nothing else is taken away. A given mass may be off by rounding; else it is summed.
/// The draft must outlive the row.
template <class Target, class Draft, class Links, class Each, std::same_as<double>... Mass>
auto residual(const Drafted<Target, Draft, Links>& drafted, Index i, const Each& each, Mass... mass) {
  using Taken = detail::TakenRows<Drafted<Target, Draft, Links>, Each>;
  return detail::RoughResidualRow(1.0, drafted.target(i), 1.0, detail::SumOfRows(Taken{&drafted, each}),
                                  mass...);
}
template <class Target, class Draft, class Links>
void residual(const Drafted<Target, Draft, Links>&&, Index, const auto&...) = delete;

}  // namespace specdec
