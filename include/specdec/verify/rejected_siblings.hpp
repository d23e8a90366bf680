// The rows that are taken away from the target row of a node, once some of its children have been rejected.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/rows/read/little_left.hpp"
#include "specdec/rows/scratch.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::detail {

/// The rows and coefficients of a node's rejected children, up to child `last`. Refers to its arguments.
template <class D>
class RejectedSiblings {
 public:
  RejectedSiblings(const D& drafted, const Scratch& coefficients, Index node, Index last)
      : drafted_(&drafted), b_(&coefficients), node_(node), last_(last) {}

  template <class Visit>
  void each(const Visit& visit) const {
    for (Index k = drafted_->first_child(node_); k >= 0 && k <= last_; k = drafted_->next_sibling(k)) {
      if ((*b_)[k] == all_of_it) visit(all_of_it, OneHotRow(drafted_->token(k)));
      else visit((*b_)[k], drafted_->draft(k));
    }
  }

 private:
  const D* drafted_;
  const Scratch* b_;
  Index node_, last_;
};

}  // namespace specdec::detail
