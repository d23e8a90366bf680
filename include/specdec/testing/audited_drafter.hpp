// A drafter under audit, in the loop.
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

/// A drafter, of lines or of trees, and an audit of everything it drafts: a debug aid that costs a pass over every
/// draft row and nothing where it is not asked for.
///
///   testing::AuditedDrafter audited{drafter};
///   SpecDec decoder{target, audited};
///   ...
///   std::cout << audited.report();
///
/// A drafter passed as an lvalue is referred to and must outlive this; an rvalue is moved in. What goes in
/// and what comes out is passed on as it is, and the audit's randomness is its own: the text is that of the
/// drafter alone. DraftAudit tells guarantees and costs. A throw of the drafter leaves the audit as it
/// was; drafts of steps that fail later are counted all the same, for they were drawn.
template <class D>
class AuditedDrafter {
  using Drafter = std::remove_reference_t<D>;
  static_assert(specdec::Drafter<Drafter>, "what is audited is no specdec::Drafter");

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>;
  static constexpr bool steady = is_steady<Drafter>;

  explicit AuditedDrafter(D&& drafter, const AuditOptions& options = {})
      : drafter_(std::forward<D>(drafter)), audit_(options) {}

  /// With keep_drafting, where the drafter takes it.
  template <RandomSource Source, class... KeepDrafting>
    requires specdec::detail::Drafts<Drafter, Source, KeepDrafting...>
  auto draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
             KeepDrafting&&... keep_drafting) & {
    auto draft = ask_drafter(drafter_, context, limits, source, keep_drafting...);
    audit_.add(draft.rows, draft.tokens);
    return draft;
  }

  void truncate(Index length) { drafter_.truncate(length); }

  /// What others may use, too, of the drafter that is audited.
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<D>(drafter_); }

  /// Where the drafter has it.
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
