// Several drafters as one type, so that loops and batches around them are compiled once.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <map>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>

#include "support/any_tree_drafter.hpp"
#include "support/layouts.hpp"

namespace support {

// One of these drafters, chosen at run time. They are all for one text, or all for many texts. Its drafts are copies.
template <class... Drafters>
class OneOfDrafters {
  static constexpr bool for_many = (specdec::Drafter<Drafters> || ...);
  using View = ProposedTree::View;

 public:
  template <class D>
    requires(std::same_as<D, Drafters> || ...)
  explicit(false) OneOfDrafters(D drafter) : drafter_(std::move(drafter)) {}

  // For one text.
  View draft(std::span<const Token> context, const specdec::DraftLimits& limits, auto& chance,
             auto&... keep_drafting)
    requires(!for_many)
  {
    return std::visit(
        [&](auto& drafter) {
          return copied(0, specdec::detail::ask_drafter(drafter, context, limits, chance, keep_drafting...));
        },
        drafter_);
  }
  void truncate(Index length)
    requires(!for_many)
  {
    std::visit([=](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  // For many texts.
  template <class Request>
    requires for_many
  void draft(std::span<Request> requests) {
    const auto ask = [&](auto& drafter) {
      drafter.draft(requests);
      for (const Request& request : requests)
        if (!request.error) copied(request.sequence, drafter.drafted(request.sequence));
    };
    std::visit(ask, drafter_);
  }
  View drafted(Index sequence) const
    requires for_many
  {
    return copies_.at(sequence).view();
  }
  void keep(Index sequence, Index length)
    requires for_many
  {
    std::visit([=](auto& drafter) { drafter.keep(sequence, length); }, drafter_);
  }
  void release(Index sequence)
    requires for_many
  {
    std::visit([=](auto& drafter) { drafter.release(sequence); }, drafter_);
  }

 private:
  View copied(Index sequence, const auto& draft) {
    ProposedTree& copy = copies_[sequence];
    copy.assign(draft);
    return copy.view();
  }

  std::variant<Drafters...> drafter_;
  std::map<Index, ProposedTree> copies_;
};

}  // namespace support
