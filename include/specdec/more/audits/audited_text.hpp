// A drafter that lets an audit watch the text that the loop writes with it.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/fallback_drafter.hpp"
#include "specdec/more/audits/text_audit.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing {

/// Wraps the drafter of a SpecDec or of a Batch, and adds each token that is written to a TextAudit, with the target's row that
/// judged it. The text is the text of the drafter alone.
///
///   testing::TextAudit audit;
///   SpecDec decoder{target, testing::AuditedText{drafter, audit}};
///   ...
///   std::cout << audit.report();
///
/// It holds the rule to the rows that the rule was given. It has no reference rows, and does not see rows that are wrong
/// themselves, as the rows of a stale cache are: rescore() (more/audits/rescore.hpp) does, and finds other mistakes sooner.
///
/// Tokens that a step wrote after the end of a text count, as the rule drew them from the target's rows, too.
/// A drafter passed as an lvalue is referred to and must outlive this one; an rvalue is moved in. The audit is referred to.
/// Throws: what the rows throw, unless it is InvalidDistribution. The step is then undone, but the audit has seen it.
/// Cost: a pass over the target's row of each token.
template <class D>
class AuditedText : public FallbackDrafter<D> {  // of one member: passes calls on
  using Base = FallbackDrafter<D>;

 public:
  AuditedText(D&& drafter, TextAudit& audit) : Base(std::forward<D>(drafter)), audit_(&audit) {}

  template <class Rows>
  void observe(Index sequence, const Judged<Rows>& judged) {
    Base::observe(sequence, judged);
    const auto rows = distributions(judged.rows);
    TokenTreeView(judged.tokens, judged.parents).path_to(judged.verdict.node - 1, path_);
    Index row = 0;  // the row after a token has the token's number + 1
    for (const Index k : path_) {
      audit_->add(rows.row(row), specdec::detail::at(judged.tokens, k));
      row = k + 1;
    }
    audit_->add(rows.row(row), judged.verdict.token);
  }

 private:
  TextAudit* audit_;
  std::vector<Index> path_ = {};
};

template <class D>
AuditedText(D&&, TextAudit&) -> AuditedText<D>;

}  // namespace specdec::testing
