// A drafter with an audit, for use in the loop.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/testing/draft_audit.hpp"
#include "specdec/testing/draft_audit_report.hpp"

namespace specdec::inline v0_2_0::testing {

/// A debug aid: wraps a drafter of lines or of trees, for one text or for many, and audits all its drafts (see DraftAudit). The
/// text is the text of the drafter alone.
///
///   testing::AuditedDrafter audited{drafter};
///   SpecDec decoder{target, audited};
///   ...
///   std::cout << audited.report();
///
/// A drafter passed as an lvalue is referred to and must outlive the AuditedDrafter; an rvalue is moved in. If the drafter
/// throws, the audit is unchanged. Drafts of steps that fail later count, since they were drawn.
/// Random: the audit has its own generator.
/// Cost: a pass over every draft row.
template <class D>
class AuditedDrafter {
  static_assert(specdec::detail::can_draft_for_requests<D>());
  using Lifted = specdec::detail::Lift<D>;
  using Drafter = std::remove_reference_t<Lifted>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>;
  static constexpr bool steady = is_steady<Drafter>;

  explicit AuditedDrafter(D&& drafter, const AuditOptions& options = {})
      : drafter_(std::forward<D>(drafter)), audit_(options) {}

  void serve_one() { specdec::detail::serve_one(drafter_); }
  void check_copies() const { specdec::detail::check_copies(drafter_); }

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    specdec::detail::draft_with(drafter_, requests, for_each);
    for (Request& request : requests)
      if (!request.error) request.error = specdec::detail::error_of([&] { audit(request.sequence); });
  }

  decltype(auto) drafted(Index sequence) const { return std::as_const(drafter_).drafted(sequence); }
  void keep(Index sequence, Index length) { drafter_.keep(sequence, length); }
  void release(Index sequence) { drafter_.release(sequence); }
  template <class Rows>
  void observe(Index sequence, const Judged<Rows>& judged) {
    specdec::detail::tell_drafter(drafter_, sequence, judged);
  }

  using State = specdec::detail::StateOf<Drafter>;
  State take(Index sequence) { return specdec::detail::take_state(drafter_, sequence); }
  void put(Index sequence, State&& state) {
    specdec::detail::put_state(drafter_, sequence, std::move(state));
  }
  void fork(Index from, Index to) { specdec::detail::fork_state(drafter_, from, to); }

  /// The addresses of the drafter's models that other code may use, too.
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<Lifted>(drafter_); }

  DraftAuditReport report() const { return audit_.report(); }

 private:
  void audit(Index sequence) {
    const auto& draft = drafted(sequence);
    audit_.add(draft.rows, draft.tokens);
  }

  Lifted drafter_;
  DraftAudit audit_;
};

template <class D>
AuditedDrafter(D&&) -> AuditedDrafter<D>;
template <class D>
AuditedDrafter(D&&, const AuditOptions&) -> AuditedDrafter<D>;

}  // namespace specdec::testing
