// How many tokens to draft: what a policy has to offer, and the plain ones.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/entropy.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A rule for the draft length, the fourth argument of SpecDec:
///
///   next(most)       how many tokens to ask for in the next step, 0..most; `most` is Options::gamma, which may be
///                    `unlimited`, also where the budget or a context has room for fewer: the loop cuts what is asked
///                    for, StepRecord::asked tells to what. Asked once for a step, however often the step is tried until
///                    it succeeds; where a Batch has one length for all sequences, once for each Batch::step().
///   observe(step)    called after every step with its StepRecord. Must not throw.
///   keep_drafting(row, i)  optional: whether to draw the (i+1)-th token from the draft model's row; false ends the draft
///                    before it. Only for drafters that show their rows (ModelDrafter), and not under greedy block
///                    verification, whose modifications of what follows know one length for all drafts.
///
/// Where drafts are trees, a length is a number of nodes, and a policy has to say that it means these: by a member
/// `static constexpr bool counts_nodes = true`, and without keep_drafting. What learns P(τ > i) by position counts a line.
///
/// Any such rule leaves a lossless verifier lossless, for it knows the past and the rows only. A rule that
/// looks at a drawn token and drops it would not: what is kept would no longer be distributed as q says.
template <class P>
concept DraftLength = requires(P& policy, Index most, const StepRecord& step) {
  { policy.next(most) } -> detail::Count;
  policy.observe(step);
};

/// Whether a policy's lengths may be the number of nodes of a tree.
template <class P>
inline constexpr bool counts_nodes = [] {
  if constexpr (requires { P::counts_nodes; }) return static_cast<bool>(P::counts_nodes);
  else return false;
}();

/// Always Options::gamma: the default.
struct FixedLength {
  static constexpr bool counts_nodes = true;

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}
};

/// Two more after a draft that survived whole, one less after any other, never below one.
///
/// Source: the "heuristic" schedule of Hugging Face Transformers' assisted generation.
/// Throws: std::invalid_argument unless initial >= 1. Never asks for more than 1024.
class ScheduledLength {
 public:
  explicit ScheduledLength(Index initial = 5) : length_(std::min(initial, longest)) {
    if (initial < 1) detail::invalid_argument("initial = ", initial, " is below 1");
  }

  Index next(Index most) const { return std::min(length_, most); }

  /// A step that drafted nothing (the end of the budget, a drafter without a guess) says nothing.
  void observe(const StepRecord& step) {
    if (step.drafted == 0) return;
    length_ = step.accepted == step.drafted ? std::max(length_, std::min(step.drafted, longest)) + 2
                                            : std::max<Index>(1, length_ - 1);
    length_ = std::min(length_, longest);
  }

 private:
  static constexpr Index longest = 1024;  // a draft that never fails is not to overflow
  Index length_;
};

/// Drafts while the draft model is sure of itself: until its likeliest token has a probability below `least`.
///
/// Source: the static confidence threshold that DISCO (Mamou et al., arXiv:2405.04304) sets out from. It is
/// decided from the row before a token is drawn; to drop a drawn token for its small probability, as is
/// tempting, biases the output.
/// Throws: std::invalid_argument unless 0 <= least <= 1; InvalidDistribution on a row whose largest number is no
/// probability. Cost: an argmax of each row of the draft model.
class ConfidentLength {
 public:
  explicit ConfidentLength(double least = 0.4) : least_(least) {
    if (!(least >= 0 && least <= 1)) detail::invalid_argument("least = ", least, " is outside [0, 1]");
  }

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}

  template <class Row>
  bool keep_drafting(const Row& row, Index i) const {
    const detail::NamedRow checked(row, "draft", i);
    return checked.probability(checked.argmax()) >= least_;
  }

 private:
  double least_;
};

/// Drafts while the draft model has little to choose from: until a row's entropy is above `most` nats.
///
/// Source: AdaEDL (Agrawal et al., arXiv:2410.18351), which stops where its estimate of the acceptance, 1 − √(0.2
/// H), falls below a threshold λ: that is most = (1 − λ)²/0.2. Here λ is fixed.
/// Throws: std::invalid_argument unless most >= 0; InvalidDistribution on a row of which a number is NaN, infinite or
/// negative. Cost: a pass with logarithms over each row of the draft model.
class EntropyLength {
 public:
  explicit EntropyLength(double most = 2) : most_(most) {
    if (!(most >= 0)) detail::invalid_argument("most = ", most, " is negative");
  }

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}

  template <class Row>
  bool keep_drafting(const Row& row, Index i) const {
    return detail::NamedRow(row, "draft", i).named([&] { return finite_entropy(row) <= most_; });
  }

 private:
  // NaN is above no bound and below none, so it would end the draft without a word.
  template <class Row>
  static double finite_entropy(const Row& row) {
    const double nats = entropy(row);
    if (!std::isfinite(nats)) throw InvalidDistribution(detail::message("its entropy is ", nats));
    return nats;
  }

  double most_;
};

}  // namespace specdec
