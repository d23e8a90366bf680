// A drafter that lets an audit watch the text that the loop writes with it.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/executor.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/testing/text_audit.hpp"
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
/// themselves, as those of a stale cache are: rescore() (testing/rescore.hpp) does, and finds other mistakes sooner.
///
/// Tokens that a step wrote after the end of a text count, as the rule drew them from the target's rows, too.
/// A drafter passed as an lvalue is referred to and must outlive this one; an rvalue is moved in. The audit is referred to.
/// Throws: what the rows throw, unless it is InvalidDistribution. The step is then undone, but the audit has seen it.
/// Cost: a pass over the target's row of each token.
template <class D>
class AuditedText {
  static_assert(specdec::detail::can_draft_for_requests<D>());
  using Lifted = specdec::detail::Lift<D>;
  using Drafter = std::remove_reference_t<Lifted>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>;
  static constexpr bool steady = is_steady<Drafter>;

  AuditedText(D&& drafter, TextAudit& audit) : drafter_(std::forward<D>(drafter)), audit_(&audit) {}

  void serve_one() { specdec::detail::serve_one(drafter_); }
  void check_copies() const { specdec::detail::check_copies(drafter_); }

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    specdec::detail::draft_with(drafter_, requests, for_each);
  }

  decltype(auto) drafted(Index sequence) const { return std::as_const(drafter_).drafted(sequence); }
  void keep(Index sequence, Index length) { drafter_.keep(sequence, length); }
  void release(Index sequence) { drafter_.release(sequence); }
  template <class Rows>
  void observe(Index sequence, const Judged<Rows>& judged) {
    specdec::detail::tell_drafter(drafter_, sequence, judged);
    audit(judged);
  }

  using State = specdec::detail::StateOf<Drafter>;
  State take(Index sequence) { return specdec::detail::take_state(drafter_, sequence); }
  void put(Index sequence, State&& state) {
    specdec::detail::put_state(drafter_, sequence, std::move(state));
  }
  void fork(Index from, Index to) { specdec::detail::fork_state(drafter_, from, to); }

  /// The addresses of the drafter's models that other code may use, too.
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<Lifted>(drafter_); }

 private:
  template <class Rows>
  void audit(const Judged<Rows>& judged) {
    const auto rows = distributions(judged.rows);
    TokenTreeView(judged.tokens, judged.parents).path_to(judged.verdict.node - 1, path_);
    Index row = 0;  // the row after a token has the token's number + 1
    for (const Index k : path_) {
      audit_->add(rows.row(row), specdec::detail::at(judged.tokens, k));
      row = k + 1;
    }
    audit_->add(rows.row(row), judged.verdict.token);
  }

  Lifted drafter_;
  TextAudit* audit_;
  std::vector<Index> path_ = {};
};

template <class D>
AuditedText(D&&, TextAudit&) -> AuditedText<D>;

}  // namespace specdec::testing
