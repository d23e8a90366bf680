// What the steps of a text show of its models: the expected acceptance, and what calls cost. An observer measures it.
// SPDX-License-Identifier: MIT
#pragma once

#include <iterator>
#include <ostream>
#include <utility>

#include "specdec/loop/observers.hpp"
#include "specdec/measure/print_stats.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/more/analysis/acceptance.hpp"
#include "specdec/more/lengths/cost_curve.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// What was measured, in one generation or in several.
struct Measures {
  /// The expected acceptance of token and block verification on these drafts. Empty (0 steps) if the rule in use did not
  /// read the probabilities of the whole draft, and reading them would cost a pass over a row.
  Acceptance acceptance;

  /// Seconds of proposals by their length, and of target calls by their number of tokens. Calls and proposals in which a
  /// model also read a prompt, or text that was written without it, are left out.
  CostCurve draft_cost, target_cost;

  /// Allocates memory for steps of up to gamma drafted tokens. Changes no value.
  void reserve(Index gamma) {
    acceptance.reserve(gamma);
    draft_cost.reserve(gamma);
    target_cost.reserve(gamma + 1);
  }

  /// Adds a step. `after_a_draft`: the step before drafted, too; else the draft model perhaps read text that was written without
  /// a draft. Allocates nothing after reserve().
  void add(const CommittedStep& committed, bool after_a_draft) {
    const StepRecord& step = committed.step;
    // Tokens after the end of the text were drafted in vain, and say nothing of the models.
    const bool ends = step.ending >= 0;
    const Index judged = ends ? step.ending + 1 : step.drafted;
    if (committed.told) acceptance.add(committed.ps, committed.qs, judged, ends ? judged : step.asked);
    if (step.fed != step.drafted + 1) return;
    if (step.asked > 0 && after_a_draft) draft_cost.add(step.drafted, detail::seconds(step.draft_time));
    target_cost.add(step.fed, detail::seconds(step.target_time));
  }

  /// Adds all that was measured in another generation.
  Measures& operator+=(const Measures& other) {
    acceptance += other.acceptance;
    draft_cost += other.draft_cost;
    target_cost += other.target_cost;
    return *this;
  }
};

/// Measures all texts of a decoder together. What they add to must outlive them.
///
///   Measures measures;
///   SpecDec decoder{target, drafter, BlockVerifier{}, FixedLength{}, Observers{StatsObserver{}, MeasuresObserver{measures}}};
class MeasuresObserver : public Observer {
 public:
  explicit MeasuresObserver(Measures& measures) : measures_(&measures) {}

  void reserve(Index tokens) { measures_->reserve(tokens); }
  void committed(const CommittedStep& committed) noexcept {
    measures_->add(committed, std::exchange(drafts_, committed.step.asked > 0));
  }
  void forked() noexcept { drafts_ = false; }  // the draft model may have to read the text for the twin

 private:
  Measures* measures_;
  bool drafts_ = false;  // whether the last step drafted
};

/// Prints the acceptance, if anything is known of it.
inline std::ostream& operator<<(std::ostream& out, const Measures& measures) {
  const Acceptance& acceptance = measures.acceptance;
  if (acceptance.drafted.empty()) return out;
  return detail::print_fixed(out, [&] {
    const Interval rate = acceptance.rate_interval();
    out << "acceptance rate    " << acceptance.rate().value << ", with 95 % confidence in " << rate.low
        << ".." << rate.high << "\n"
        << "expected accepted  " << acceptance.expected_token() << " a step under token verification, "
        << acceptance.expected_block() << " under block\n";
    detail::print_row(out, "position", detail::numbers_to(std::ssize(acceptance.drafted)));
    detail::print_row(out, "  expected, token", acceptance.token_survival());
    detail::print_row(out, "  expected, block", acceptance.block_survival());
  });
}

}  // namespace specdec
