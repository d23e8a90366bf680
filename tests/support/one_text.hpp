// A drafter for requests as a drafter of one text, to call by hand and in drafters that hold one of several.
#pragma once

#include <exception>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

namespace support {

// Refers to a drafter's question, since a request holds its own by value.
template <class KeepDrafting>
struct Asked {
  KeepDrafting* asked = nullptr;
  bool operator()(const auto& row, specdec::Index i) const { return (*asked)(row, i); }
  bool another(const auto& row, specdec::Index i) const { return specdec::drafts_another(*asked, row, i); }
  auto tree() const
    requires requires { asked->tree(); }
  {
    return asked->tree();
  }
  decltype(auto) drawn_tree() const
    requires requires { asked->drawn_tree(); }
  {
    return asked->drawn_tree();
  }
};

template <class D>
class OneText {
  using Drafter = std::remove_reference_t<D>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Drafter>, steady = specdec::is_steady<Drafter>;

  explicit(false) OneText(D drafter) : drafter_(std::forward<D>(drafter)) {
    specdec::detail::serve_one(drafter_);
  }

  template <class Source, class KeepDrafting = const specdec::detail::AlwaysKeepDrafting>
  auto draft(std::span<const specdec::Token> context, const specdec::DraftLimits& limits, Source& source,
             KeepDrafting& keep_drafting = always) & {
    specdec::DraftRequest<Source, Asked<KeepDrafting>> request{0,       context,          limits,
                                                               &source, {&keep_drafting}, nullptr};
    drafter_.draft(std::span(&request, 1));
    if (request.error) std::rethrow_exception(request.error);
    return std::as_const(drafter_).drafted(0);
  }
  void truncate(specdec::Index length) { drafter_.keep(0, length); }
  void observe(const auto& rows, std::span<const specdec::Token> tokens,
               std::span<const specdec::Index> parents, const specdec::NodeVerdict& verdict) {
    specdec::detail::tell_drafter(
        drafter_, 0, specdec::Judged<std::remove_cvref_t<decltype(rows)>>{rows, tokens, parents, verdict});
  }
  std::vector<const void*> identities() const { return specdec::detail::shared_identities<D>(drafter_); }

 private:
  static constexpr specdec::detail::AlwaysKeepDrafting always{};
  D drafter_;
};

template <class D>
OneText(D&&) -> OneText<D>;

}  // namespace support
