// How many tokens to draft: what a draft length has to offer, and the simple draft lengths.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>

#include "specdec/draft/tree_candidates.hpp"
#include "specdec/error.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/entropy.hpp"
#include "specdec/rows/read/largest_probability.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A rule for the draft length, the fourth argument of SpecDec:
///
///   next(most)       how many tokens to ask for in the next step, 0..most. `most` is always Options::gamma, which may be
///                    `unlimited`. Where the budget or a context has room for fewer tokens, the loop cuts the number;
///                    StepRecord::asked is the number after the cut. Called once for a step, even if the step is tried
///                    several times; where all sequences of a Batch share one draft length, once for each Batch::step().
///   observe(step)    called after every step with its StepRecord. Must not throw.
///
/// A draft length may look at the draft model's rows, if the drafter shows them (ModelDrafter). It then offers one of the
/// following, or both. Not with greedy block verification, which needs the same length for all drafts:
///
///   draft_another(readings)  whether to draft another token after those drafted so far. Asked after a draw and before the
///                    next call of the draft model, so a draft that ends here has paid for no call in vain. readings[i] is
///                    what reading(row, i) returned for the row that token i was drawn from: a number that the draft length
///                    chooses, say the largest probability. observe() gets the readings in StepRecord::readings
///   keep_drafting(row, i)  whether to draw the (i+1)-th token from the row; false ends the draft before that token, when the
///                    draft model's call is already paid for
///
/// For trees, the length is a number of nodes. A draft length made for trees has a member
/// `static constexpr bool counts_nodes = true`; drafters of trees do not ask keep_drafting, and of these Spares alone asks
/// draft_another, about its trunk. A draft length that learns P(τ > i) by position is for lines.
/// Where the tokens of a tree are chosen by their probabilities (ConfidentTree), a draft length may rate them. It then
/// offers all three of the following, for any verifier:
///
///   acceptance(probability, rank)  P(a token is accepted, given that its parent is), in 0..1. `probability` is the token's
///                    in the draft model's row, before temperature, cuts and hooks if these are known; `rank` is the number
///                    of likelier tokens in the row. The product along a path is the value of its last token
///   draft_level(found)  whether to call the draft model for another level, by the values of the tokens found so far
///                    (TreeCandidates). Not asked before the first level
///   propose(found)   how many of the most valuable tokens to propose, 0..found.values.size()
///
/// A drafter asks by RatedTree. observe() finds the probabilities of all tokens whose parents were accepted in
/// StepRecord::tree.probabilities. Where tokens are drawn (Tree), the draft length may say how many are to be drawn. It then
/// offers draft_level(found), propose(found) and
///
///   drawn_acceptance(confidence, rank)  P(a drawn token is accepted, given that its parent is), in 0..1. `confidence` is the
///                    largest probability of the row that it will be drawn from, before temperature, cuts and hooks if these
///                    are known; `rank` is the number of its elder siblings
///
/// Not with greedy block verification. propose(found) is asked twice for a level. Before the draws, found.values has the tokens
/// of the tree and the children that may be drawn: of these, those among the best are drawn, and at least one. After the draws,
/// it has the tokens of the tree and, once more, those of them that may get children: those among the best may get some, if
/// draft_level(found) says yes. All drawn tokens are proposed. A drafter asks by RatedDraws.
///
/// Every such rule leaves a lossless verifier lossless, because the rule sees only past steps and rows. Do not drop a drawn
/// token because of its value: the tokens that stay would no longer be distributed as their rows say.
template <class P>
concept DraftLength = requires(P& policy, Index most, const StepRecord& step) {
  { policy.next(most) } -> detail::Count;
  policy.observe(step);
};

/// Whether a draft length rates the chosen tokens of trees: whether it has acceptance(), draft_level() and propose().
template <class P>
inline constexpr bool rates_tokens =
    requires(P& policy, double probability, Index rank, const TreeCandidates& found) {
      { policy.acceptance(probability, rank) } -> std::convertible_to<double>;
      { policy.draft_level(found) } -> std::convertible_to<bool>;
      { policy.propose(found) } -> detail::Count;
    };

/// Whether a draft length rates the drawn tokens of trees: whether it has drawn_acceptance(), draft_level() and propose().
template <class P>
inline constexpr bool rates_draws =
    requires(P& policy, double confidence, Index rank, const TreeCandidates& found) {
      { policy.drawn_acceptance(confidence, rank) } -> std::convertible_to<double>;
      { policy.draft_level(found) } -> std::convertible_to<bool>;
      { policy.propose(found) } -> detail::Count;
    };

namespace detail {

template <class P>
inline constexpr bool has_acceptance =
    requires(P& policy, double probability, Index rank) { policy.acceptance(probability, rank); };
template <class P>
inline constexpr bool has_drawn_acceptance =
    requires(P& policy, double confidence, Index rank) { policy.drawn_acceptance(confidence, rank); };
/// Whether P has a function that only a draft length for growing trees has.
template <class P>
inline constexpr bool grows_trees = requires(P& policy, const TreeCandidates& found) {
  policy.draft_level(found);
} || requires(P& policy, const TreeCandidates& found) { policy.propose(found); };

/// Compiles only if P is a DraftLength; the error names the missing function.
template <class P>
consteval bool fits_draft_length() {
  static_assert(
      requires(P& policy, Index most) {
        { policy.next(most) } -> Count;
      },
      "the draft length has no next(specdec::Index most) that returns a number of tokens, an integer: see "
      "specdec::DraftLength");
  static_assert(
      requires(P& policy, const StepRecord& step) { policy.observe(step); },
      "the draft length has no observe(const specdec::StepRecord& step): see specdec::DraftLength");
  static_assert(
      rates_tokens<P> || !(has_acceptance<P> || (grows_trees<P> && !has_drawn_acceptance<P>)),
      "the draft length rates the tokens of trees, and has not all of acceptance(double probability, "
      "specdec::Index rank), draft_level(const specdec::TreeCandidates& found) and propose(found), "
      "which return a number, a bool and an integer: see specdec::DraftLength");
  static_assert(
      rates_draws<P> || !has_drawn_acceptance<P>,
      "the draft length rates draws, and has not all of drawn_acceptance(double confidence, specdec::Index "
      "rank), draft_level(const specdec::TreeCandidates& found) and propose(found), which return a number, "
      "a bool and an integer: see specdec::DraftLength");
  return true;
}

}  // namespace detail

namespace detail {

/// Calls f with the row before temperature, cuts and hooks, where it is known, and else with the row itself. At temperature 0
/// the processed row is one-hot, and says nothing about the draft model's confidence. Errors name draft row i.
template <class Row, class F>
double read_unprocessed(const Row& row, Index i, const F& f) {
  return in_row("draft", i, [&] {
    if constexpr (requires { row.unprocessed(); }) return f(row.unprocessed());
    else return f(row);
  });
}

/// The largest probability of a row, before temperature, cuts and hooks.
template <class Row>
double largest_probability(const Row& row, Index i) {
  return read_unprocessed(row, i, [](const auto& raw) { return largest_probability(raw); });
}

}  // namespace detail

/// Whether a draft length may give the number of nodes of a tree.
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

/// Asks for two tokens more after a fully accepted draft, and for one less after any other draft; between 1 and 1024.
///
/// Source: the "heuristic" schedule of Hugging Face Transformers' assisted generation.
/// Throws: std::invalid_argument unless initial >= 1.
class ScheduledLength {
 public:
  explicit ScheduledLength(Index initial = 5) : length_(std::min(initial, longest)) {
    if (initial < 1) detail::invalid_argument("initial = ", initial, " is below 1");
  }

  Index next(Index most) const { return std::min(length_, most); }

  /// A step that drafted nothing (the budget ended, or the drafter had no guess) changes nothing.
  void observe(const StepRecord& step) {
    if (step.drafted == 0) return;
    length_ = step.accepted == step.drafted ? std::max(length_, std::min(step.drafted, longest)) + 2
                                            : std::max<Index>(1, length_ - 1);
    length_ = std::min(length_, longest);
  }

 private:
  static constexpr Index longest = 1024;  // no overflow if every draft is accepted
  Index length_;
};

/// Drafts while the draft model is confident: until its likeliest token has a probability below `least`. Looks at the row
/// before temperature and cuts, if it knows that, so it works at temperature 0, too.
///
/// Source: the static confidence threshold that DISCO (Mamou et al., arXiv:2405.04304) starts from. The row decides, before
/// a token is drawn from it. To drop a drawn token because its probability is small would bias the output.
/// Throws: std::invalid_argument unless 0 <= least <= 1; InvalidDistribution on a row if its largest number is no
/// probability.
/// Cost: an argmax of each row of the draft model; a pass over it if the row has no argmax.
class ConfidentLength {
 public:
  explicit ConfidentLength(double least = 0.4) : least_(least) {
    if (!(least >= 0 && least <= 1)) detail::invalid_argument("least = ", least, " is outside [0, 1]");
  }

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}

  template <class Row>
  bool keep_drafting(const Row& row, Index i) const {
    return detail::largest_probability(row, i) >= least_;
  }

 private:
  double least_;
};

/// Drafts while the draft model is confident: until a row's entropy is above `most` nats. Looks at the row before temperature
/// and cuts, if it knows that.
///
/// Source: AdaEDL (Agrawal et al., arXiv:2410.18351). AdaEDL stops where its estimate of the acceptance, 1 − √(0.2 H), falls
/// below a threshold λ: this is most = (1 − λ)²/0.2. Deviation: here λ is fixed.
/// Throws: std::invalid_argument unless most >= 0; InvalidDistribution on a row with a number that is NaN, infinite or
/// negative.
/// Cost: a pass with logarithms over each row of the draft model.
class EntropyLength {
 public:
  explicit EntropyLength(double most = 2) : most_(most) {
    if (!(most >= 0)) detail::invalid_argument("most = ", most, " is negative");
  }

  Index next(Index most) const { return most; }
  void observe(const StepRecord&) const {}

  template <class Row>
  bool keep_drafting(const Row& row, Index i) const {
    return detail::read_unprocessed(row, i, finite_entropy) <= most_;
  }

 private:
  // A NaN compares false with every bound. Without this check a NaN would end the draft, and hide the error.
  static constexpr auto finite_entropy = [](const auto& row) {
    const double nats = entropy(row);
    if (!std::isfinite(nats)) detail::invalid_distribution("its entropy is ", nats);
    return nats;
  };

  double most_;
};

}  // namespace specdec
