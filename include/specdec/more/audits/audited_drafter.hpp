// A drafter with an audit, for use in the loop.
// SPDX-License-Identifier: MIT
#pragma once

#include <span>
#include <utility>

#include "specdec/draft/fallback_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/more/audits/draft_audit.hpp"
#include "specdec/more/audits/draft_audit_report.hpp"

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
class AuditedDrafter : public FallbackDrafter<D> {  // of one member: passes calls on
  using Base = FallbackDrafter<D>;

 public:
  explicit AuditedDrafter(D&& drafter, const AuditOptions& options = {})
      : Base(std::forward<D>(drafter)), audit_(options) {}

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    Base::draft(requests, for_each);
    for (Request& request : requests) {
      if (request.error) continue;
      request.error = specdec::detail::error_of([&] {
        const auto& draft = Base::drafted(request.sequence);
        audit_.add(draft.rows, draft.tokens);
      });
    }
  }

  DraftAuditReport report() const { return audit_.report(); }

 private:
  DraftAudit audit_;
};

template <class D>
AuditedDrafter(D&&) -> AuditedDrafter<D>;
template <class D>
AuditedDrafter(D&&, const AuditOptions&) -> AuditedDrafter<D>;

}  // namespace specdec::testing
