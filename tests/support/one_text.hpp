// A drafter for requests as a drafter of one text, to call by hand and in drafters that hold one of several.
// SPDX-License-Identifier: MIT
#pragma once

#include <exception>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

template <class D>
class OneText {
  using Drafter = std::remove_reference_t<D>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>, steady = specdec::is_steady<Drafter>;

  explicit(false) OneText(D drafter) : drafter_(std::forward<D>(drafter)) {
    specdec::detail::serve_one(drafter_);
  }

  template <class Source, class KeepDrafting = specdec::detail::AlwaysKeepDrafting>
  auto draft(std::span<const specdec::Token> context, const specdec::DraftLimits& limits, Source& source,
             const KeepDrafting& keep_drafting = {}) & {
    specdec::DraftRequest<Source, KeepDrafting> request{0, context, limits, &source, keep_drafting, nullptr};
    drafter_.draft(std::span(&request, 1));
    if (request.error) std::rethrow_exception(request.error);
    return std::as_const(drafter_).drafted(0);
  }
  void truncate(specdec::Index length) { drafter_.keep(0, length); }
  template <class Rows>
  void observe(const specdec::Judged<Rows>& judged) {
    specdec::detail::tell_drafter(drafter_, 0, judged);
  }
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<D>(drafter_); }

 private:
  D drafter_;
};

template <class D>
OneText(D&&) -> OneText<D>;

}  // namespace support
