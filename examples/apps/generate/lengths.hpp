// How many tokens to draft: a fixed number, the number that is measured to be the fastest, or as long as rows promise enough.
// SPDX-License-Identifier: MIT
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <string>

#include "generate/pair.hpp"

namespace generate {

/// A type-erased draft-length policy.
/// Pre: a policy that is used for trees was made for trees. (counts_nodes is true here for any policy.)
class Length {
 public:
  static constexpr bool counts_nodes = true;

  Length() = default;
  Length(const Length&) = delete;
  Length& operator=(const Length&) = delete;
  virtual ~Length() = default;

  virtual Index next(Index most) = 0;
  virtual void observe(const specdec::StepRecord& step) = 0;
  /// Whether it reads rows, and rates the tokens of trees. If not, the other two are never called.
  virtual bool rates() const { return false; }
  virtual specdec::More how_far(const specdec::GrowingDraft&) const { return {}; }
  virtual double rating(const specdec::CandidateToken&) const { return 0; }
};

template <specdec::DraftLength L>
class LengthOf final : public Length {
 public:
  Index next(Index most) override { return length_.next(most); }
  void observe(const specdec::StepRecord& step) override { length_.observe(step); }
  bool rates() const override { return reads; }
  specdec::More how_far(const specdec::GrowingDraft& draft) const override {
    if constexpr (reads) return length_.more(draft);
    else return Length::how_far(draft);
  }
  double rating(const specdec::CandidateToken& candidate) const override {
    if constexpr (reads) return length_.acceptance(candidate);
    else return Length::rating(candidate);
  }

 private:
  static constexpr bool reads = specdec::rates_tokens<L>;

  L length_;
};

/// A policy that is shown the draft model's rows, for rules that allow it.
class ShownRows {
 public:
  static constexpr bool counts_nodes = true;

  explicit ShownRows(Length& length) : length_(&length) {}

  Index next(Index most) { return length_->next(most); }
  void observe(const specdec::StepRecord& step) { length_->observe(step); }
  double reading(const auto& row, Index i) const {
    return length_->rates() ? specdec::confidence_of(row, i) : 0;
  }
  bool rates() const { return length_->rates(); }
  specdec::More more(const specdec::GrowingDraft& draft) const { return length_->how_far(draft); }
  double acceptance(const specdec::CandidateToken& candidate) const { return length_->rating(candidate); }

 private:
  Length* length_;
};

/// The value of --gamma: a number, or "auto" or "early" with the largest number that it may choose.
struct Gamma {
  bool automatic = false;
  Index most = 3;
  bool early = false;  ///< if it is automatic: drafts end early, and trees grow, by their rows

  std::unique_ptr<Length> policy() const {
    if (automatic && early) return std::make_unique<LengthOf<specdec::EarlyStoppingLength<>>>();
    if (automatic) return std::make_unique<LengthOf<specdec::CostOptimalLength<>>>();
    return std::make_unique<LengthOf<specdec::FixedLength>>();
  }
};

}  // namespace generate
