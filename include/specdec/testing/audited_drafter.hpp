// A drafter with an audit, for use in the loop.
#pragma once

#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/testing/draft_audit.hpp"
#include "specdec/testing/draft_audit_report.hpp"
#include "specdec/verify/verdict.hpp"

namespace specdec::testing {

/// A debug aid: wraps a drafter of lines or of trees, and audits all its drafts (see DraftAudit). The text is the text of
/// the drafter alone.
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
  using Drafter = std::remove_reference_t<D>;
  static_assert(specdec::detail::fits_drafter<Drafter>());

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>;
  static constexpr bool steady = is_steady<Drafter>;

  explicit AuditedDrafter(D&& drafter, const AuditOptions& options = {})
      : drafter_(std::forward<D>(drafter)), audit_(options) {}

  /// Takes keep_drafting if the drafter does.
  template <RandomSource Source, class... KeepDrafting>
    requires specdec::detail::Drafts<Drafter, Source, KeepDrafting...>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
             KeepDrafting&&... keep_drafting) & {
    auto draft = ask_drafter(drafter_, context, limits, source, keep_drafting...);
    audit_.add(draft.rows, draft.tokens);
    return draft;
  }

  void truncate(Index length) { drafter_.truncate(length); }

  /// The addresses of the drafter's models that other code may use, too.
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<D>(drafter_); }

  template <class Rows>
    requires requires(Drafter& drafter, const Rows& target_rows, std::span<const Token> tokens,
                      std::span<const Index> parents,
                      const NodeVerdict& verdict) { drafter.observe(target_rows, tokens, parents, verdict); }
  void observe(const Rows& target_rows, std::span<const Token> tokens, std::span<const Index> parents,
               const NodeVerdict& verdict) {
    drafter_.observe(target_rows, tokens, parents, verdict);
  }

  DraftAuditReport report() const { return audit_.report(); }

 private:
  D drafter_;
  DraftAudit audit_;
};

template <class D>
AuditedDrafter(D&&) -> AuditedDrafter<D>;
template <class D>
AuditedDrafter(D&&, const AuditOptions&) -> AuditedDrafter<D>;

}  // namespace specdec::testing
