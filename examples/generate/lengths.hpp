// How many tokens to draft: a fixed number, the number that is measured to be the fastest, or as long as rows promise enough.
#pragma once

#include <memory>
#include <optional>
#include <span>
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
  /// Whether it reads the confidence of rows.
  virtual bool reads_rows() const = 0;
  /// Whether to draft another token after rows of these confidences.
  virtual bool goes_on(std::span<const double> confidences) const = 0;

  /// Whether it rates the tokens of trees, both chosen and drawn. If not, the other four are never called.
  virtual bool rates() const { return false; }
  virtual double acceptance(double, Index) const { return 0; }
  virtual double drawn_acceptance(double, Index) const { return 0; }
  virtual bool draft_level(const specdec::TreeCandidates&) const { return false; }
  virtual Index propose(const specdec::TreeCandidates&) const { return 0; }
};

template <specdec::DraftLength L>
class LengthOf final : public Length {
 public:
  Index next(Index most) override { return length_.next(most); }
  void observe(const specdec::StepRecord& step) override { length_.observe(step); }
  bool reads_rows() const override { return reads; }
  bool goes_on([[maybe_unused]] std::span<const double> confidences) const override {
    if constexpr (reads) return length_.draft_another(confidences);
    else return true;
  }
  bool rates() const override { return specdec::rates_tokens<L> && specdec::rates_draws<L>; }
  double acceptance(double probability, Index rank) const override {
    if constexpr (specdec::rates_tokens<L>) return length_.acceptance(probability, rank);
    else return Length::acceptance(probability, rank);
  }
  double drawn_acceptance(double confidence, Index rank) const override {
    if constexpr (specdec::rates_draws<L>) return length_.drawn_acceptance(confidence, rank);
    else return Length::drawn_acceptance(confidence, rank);
  }
  bool draft_level(const specdec::TreeCandidates& found) const override {
    if constexpr (specdec::rates_tokens<L>) return length_.draft_level(found);
    else return Length::draft_level(found);
  }
  Index propose(const specdec::TreeCandidates& found) const override {
    if constexpr (specdec::rates_tokens<L>) return length_.propose(found);
    else return Length::propose(found);
  }

 private:
  static constexpr bool reads = requires(const L& length) { length.draft_another({}); };

  L length_;
};

/// A policy that is shown the draft model's rows, for rules that allow it.
class ShownRows {
 public:
  explicit ShownRows(Length& length) : length_(length) {}

  Index next(Index most) { return length_.next(most); }
  void observe(const specdec::StepRecord& step) { length_.observe(step); }
  double reading(const auto& row, Index i) const {
    return length_.reads_rows() ? specdec::EarlyStoppingLength<>::reading(row, i) : 0;
  }
  bool draft_another(std::span<const double> confidences) const { return length_.goes_on(confidences); }

 private:
  Length& length_;
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
