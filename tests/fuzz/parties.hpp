// The parts of the fuzzer's loop: drafters, policies and rules. All of them fail or lie when the bytes say so.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/lengths/batch_costs.hpp>
#include <specdec/more/lengths/confident_length.hpp>
#include <specdec/more/lengths/cost_optimal_length.hpp>
#include <specdec/more/lengths/scheduled_length.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "fuzz/bytes.hpp"
#include "fuzz/engine.hpp"
#include "fuzz/model.hpp"
#include "support/answers_drafter.hpp"
#include "support/one_text.hpp"
#include "support/rules.hpp"

namespace fuzz {

using SmallDrafter = specdec::ModelDrafter<Engine&>;
using Chain = support::OneText<specdec::FallbackDrafter<specdec::SuffixDrafter<>, SmallDrafter>>;
using Cascade =
    specdec::CascadeDrafter<Engine&, SmallDrafter, specdec::BlockVerifier, specdec::ConfidentLength>;
using RememberingCascade = specdec::CascadeDrafter<Engine&, SmallDrafter, specdec::GreedyBlockVerifier>;

// One of these drafters, or none. Its rows are copied, so that all drafters' rows have one type.
template <class... Drafters>
class OneOf {
 public:
  OneOf(Index which, Engine& middle, Engine& small, Faults& faults) : faults_(&faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        put<PromptLookupDrafter>();
        break;
      case 2:
        put<SuffixDrafter<>>(SuffixDrafter<>::Options{.max_match = 3});
        break;
      case 3:
        put<SuffixDrafter<>>();
        break;
      case 4:
        put<support::AnswersDrafter>();
        break;
      case 5:
        put<Chain>(FallbackDrafter{SuffixDrafter{}, SmallDrafter(small)});
        break;
      case 6:
        put<NoDrafter>();
        break;
      case 8:
        put<Cascade>(middle, SmallDrafter(small), BlockVerifier{}, 3, ConfidentLength{});
        break;
      case 9:
        put<RememberingCascade>(middle, SmallDrafter(small), GreedyBlockVerifier{}, 3);
        break;
      default:
        put<SmallDrafter>(small);
        break;
    }
  }

  auto draft(std::span<const Token> context, Index gamma, auto& chance) {
    return draft(context, gamma, chance, specdec::detail::AlwaysKeepDrafting{});
  }
  auto draft(std::span<const Token> context, Index gamma, auto& chance, const auto& keep_drafting) {
    faults_->may_fail();
    std::visit(
        [&](auto& drafter) {
          keep(specdec::detail::ask_drafter(drafter, context, specdec::DraftLimits{gamma}, chance,
                                            keep_drafting));
        },
        drafter_);
    faults_->may_fail();
    if (faults_->may_lie()) lie();
    return specdec::Draft<Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>>{tokens_, rows_};
  }

  void truncate(Index length) {
    std::visit([&](auto& drafter) { drafter.truncate(length); }, drafter_);
  }

  template <class Rows>
  void observe(const specdec::Judged<Rows>& judged) {
    faults_->may_fail();
    std::visit(
        [&](auto& drafter) {
          if constexpr (requires { drafter.observe(judged); }) drafter.observe(judged);
        },
        drafter_);
    faults_->may_fail();
  }

 private:
  template <class D, class... Arguments>
  void put(Arguments&&... arguments) {
    if constexpr ((std::same_as<D, Drafters> || ...))
      drafter_.template emplace<D>(std::forward<Arguments>(arguments)...);
  }

  template <class Proposed>
  void keep(const Proposed& draft) {
    const auto rows = specdec::distributions(draft.rows);
    tokens_.assign(draft.tokens.begin(), draft.tokens.end());
    rows_.resize(std::ssize(tokens_), vocabulary);
    for (Index i = 0; i < rows_.rows(); ++i)
      for (Token x = 0; x < vocabulary; ++x) rows_(i, x) = specdec::probability(rows.row(i), x);
  }

  void lie() {
    switch (faults_->bytes->up_to(3)) {
      case 0:
        tokens_.push_back(0);
        break;
      case 1:
        tokens_.assign(tokens_.size(), static_cast<Token>(faults_->bytes->size()));
        break;
      case 2:
        rows_.setConstant(faults_->bytes->number());
        break;
      default:
        tokens_.clear();
        break;
    }
  }

  Faults* faults_;
  std::variant<specdec::NoDrafter, Drafters...> drafter_;
  Tokens tokens_;
  Matrix rows_;
};

using AnyDrafter = OneOf<specdec::PromptLookupDrafter, specdec::SuffixDrafter<>, support::AnswersDrafter,
                         Chain, SmallDrafter, Cascade, RememberingCascade>;
// For keyed rules, under which nothing may verify by ratios.
using KeyedDrafter = OneOf<specdec::PromptLookupDrafter, specdec::SuffixDrafter<>, Chain, SmallDrafter>;

struct Cost {
  double operator()(Index tokens) const { return 4 + static_cast<double>(tokens); }
};
// One of the policies that work under every rule.
class AnyLength {
 public:
  AnyLength(Index which, Faults& faults) : faults_(&faults) {
    using namespace specdec;
    switch (which) {
      case 1:
        length_.emplace<ScheduledLength>(2);
        break;
      case 2:
        length_.emplace<CostOptimalLength<>>();
        break;
      case 3:
        length_.emplace<OfBatch>(specdec::BatchCosts(Cost{}, Cost{}));
        break;
      default:
        break;
    }
  }
  Index next(Index most) {
    faults_->may_fail();
    if (faults_->may_lie()) return faults_->bytes->size();
    return std::visit([&](auto& length) { return length.next(most); }, length_);
  }
  void observe(const specdec::StepRecord& step) {
    std::visit([&](auto& length) { length.observe(step); }, length_);
  }

 private:
  Faults* faults_;
  using OfBatch = specdec::CostOptimalLength<specdec::BatchCosts<Cost, Cost>>;
  std::variant<specdec::FixedLength, specdec::ScheduledLength, specdec::CostOptimalLength<>, OfBatch> length_;
};

// One of the policies that look at the rows of the draft.
class AnyLengthByRows {
 public:
  AnyLengthByRows(Index which, Faults& faults) : faults_(&faults) {
    if (which % 2 == 1) length_.emplace<specdec::EntropyLength>(0.25 * static_cast<double>(which));
  }
  Index next(Index most) const {
    faults_->may_fail();
    return most;
  }
  void observe(const specdec::StepRecord&) const {}
  template <class Row>
  double reading(const Row& row, Index i) const {
    faults_->may_fail();
    return length_.index() == 0 ? specdec::confidence_of(row, i) : specdec::EntropyLength::reading(row, i);
  }
  specdec::More more(const specdec::GrowingDraft& draft) const {
    faults_->may_fail();
    return std::visit([&](const auto& length) { return length.more(draft); }, length_);
  }

 private:
  Faults* faults_;
  std::variant<specdec::ConfidentLength, specdec::EntropyLength> length_;
};

using AnyRule = support::AnyOf<true, specdec::BlockVerifier, specdec::TokenVerifier,
                               specdec::GreedyBlockVerifier, specdec::SampleMatchVerifier>;

inline AnyRule rule_of(Index which) {
  switch (which) {
    case 1:
      return {specdec::TokenVerifier{}};
    case 2:
      return {specdec::GreedyBlockVerifier{}};
    case 3:
      return {specdec::SampleMatchVerifier{}};
    default:
      return {specdec::BlockVerifier{}};
  }
}

// A rule that does not remember, as policies that look at rows need it.
struct ForgetfulRule : AnyRule {
  Index min_draft_length() const = delete;
};

}  // namespace fuzz
