// A type-erased drafter: only the row types of its drafts are known.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>

#include "generate/last_draft.hpp"
#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"

namespace generate {

using Generator = std::mt19937_64;
using SampledModel = decltype(sampled(std::declval<Model&>(), 1.0));

using SampledRow = specdec::RowOf<decltype(specdec::distributions(
    std::declval<SampledModel&>().forward(std::span<const Token>(), Index{})))>;

/// What a drafter asks a draft length.
using Asks = specdec::detail::KeepDrafting<const ShownRows, false>;

/// A drafter of lines or trees, for one text. Its rows have one of the types in Kinds, so that decoders are compiled once for
/// all drafters. It counts as steady (see specdec::Drafter). The drafters "chain", "online", "skip-layers" and those with heads
/// are not; objection() keeps them from rules that need it.
template <bool trees, class... Kinds>
class AnyDrafter {
 public:
  static constexpr bool drafts_trees = trees;
  using Chance = specdec::RandomChance<Generator>;
  using Request = specdec::DraftRequest<Chance, Asks>;
  using TargetRows = std::remove_cvref_t<decltype(std::declval<SampledModel&>().forward({}, Index{}))>;
  using Judged = specdec::Judged<TargetRows>;
  using Rows = specdec::VariantRows<Kinds...>;

  AnyDrafter() = default;
  AnyDrafter(const AnyDrafter&) = delete;
  AnyDrafter& operator=(const AnyDrafter&) = delete;
  virtual ~AnyDrafter() = default;

  template <class R>
  void draft(std::span<R> requests) {
    for (R& request : requests) {
      // A decoder of trees is compiled for all rules, and greedy block shows no length the rows of drawn tokens. Here the
      // options were checked.
      const ShownRows shown(*request.keep_drafting.length);
      Request own{request.sequence,
                  request.context,
                  request.limits,
                  request.source,
                  {&shown, request.keep_drafting.readings}};
      propose(own);
      request.error = own.error;
    }
  }
  virtual void propose(Request& request) = 0;
  virtual specdec::Draft<Rows> drafted(Index sequence) const = 0;
  virtual void keep(Index sequence, Index length) = 0;
  virtual void release(Index sequence) = 0;
  virtual void observe(Index sequence, const Judged& judged) = 0;
};

/// D if it drafts for requests, else a drafter for requests of the drafter of one text.
template <class D>
using Lifted = std::conditional_t<specdec::Drafter<D>, D, specdec::LiftedDrafter<D>>;

/// The drafter D as an AnyDrafter.
template <class Any, class D>
class DrafterOf final : public Any {
 public:
  explicit DrafterOf(D drafter) : drafter_(std::move(drafter)) {
    if constexpr (requires { drafter_.serve_one(); }) drafter_.serve_one();
  }

  void propose(typename Any::Request& request) override { drafter_.draft(std::span(&request, 1)); }
  specdec::Draft<typename Any::Rows> drafted(Index sequence) const override {
    const auto& draft = drafter_.drafted(sequence);
    return {draft.tokens, as<typename Any::Rows>(draft.rows), draft.parents};
  }
  void keep(Index sequence, Index length) override { drafter_.keep(sequence, length); }
  void release(Index sequence) override { drafter_.release(sequence); }
  void observe(Index sequence, const typename Any::Judged& judged) override {
    if constexpr (requires { drafter_.observe(sequence, judged); }) drafter_.observe(sequence, judged);
  }

 private:
  template <class Rows>
  static Rows as(const auto& rows) {
    return as(rows, static_cast<const Rows*>(nullptr));
  }
  template <class R, class... Kinds>
  static specdec::VariantRows<Kinds...> as(const R& rows, const specdec::VariantRows<Kinds...>*) {
    constexpr bool of_kind[] = {std::same_as<R, Kinds>...};
    constexpr std::ptrdiff_t kind = std::ranges::find(of_kind, true) - std::begin(of_kind);
    return specdec::VariantRows<Kinds...>(std::in_place_index<static_cast<std::size_t>(kind)>, rows);
  }

  Lifted<D> drafter_;
};

template <class Any, class D>
std::unique_ptr<Any> erased_as(D drafter) {
  return std::make_unique<DrafterOf<Any, D>>(std::move(drafter));
}

/// Wraps a drafter, and stores its last draft and the verdict on that draft.
template <class Any>
class WatchedDrafter final : public Any {
 public:
  WatchedDrafter(std::unique_ptr<Any> drafter, LastDraft& last) : drafter_(std::move(drafter)), last_(last) {}

  void propose(typename Any::Request& request) override { drafter_->propose(request); }
  specdec::Draft<typename Any::Rows> drafted(Index sequence) const override {
    return drafter_->drafted(sequence);
  }
  void keep(Index sequence, Index length) override { drafter_->keep(sequence, length); }
  void release(Index sequence) override { drafter_->release(sequence); }
  void observe(Index sequence, const typename Any::Judged& judged) override {
    drafter_->observe(sequence, judged);
    if (Any::drafts_trees) last_.set(judged.tokens, judged.parents, judged.verdict);
    else last_.set(judged.tokens, {judged.verdict.node, judged.verdict.token});
  }

 private:
  std::unique_ptr<Any> drafter_;
  LastDraft& last_;
};

/// The row type of a drafter's drafts.
template <class D>
using RowsOf = decltype(std::declval<const Lifted<D>&>().drafted(Index{}).rows);

}  // namespace generate
