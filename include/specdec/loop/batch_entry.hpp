// A sequence of a batch, with all that is its own.
#pragma once

#include <algorithm>
#include <concepts>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "specdec/chance/any_generator.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/chance/rewindable_generator.hpp"
#include "specdec/draft/batch_drafter.hpp"
#include "specdec/draft/batch_tree_drafter.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/length/goes_on.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/sequence.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/model/batch_model.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec::detail {

/// Numbers that belong to places are the same ones again wherever they are asked for.
class RewindableKeyed : public Keyed {
 public:
  explicit RewindableKeyed(const Keyed& keyed) : Keyed(keyed) {}
  void rewind() {}
  void mark() {}
};

/// What a sequence under this rule is given to draw by, and what it makes of that.
template <class V>
struct EntrySource {
  using Given = std::conditional_t<draws_keyed<V>, Keyed, AnyGenerator>;
  using Kept = std::conditional_t<draws_keyed<V>, RewindableKeyed, RewindableGenerator>;
};

/// A drafter that drafts for many sequences at once.
template <class D>
concept DraftsTogether = BatchDrafter<D> || BatchTreeDrafter<D>;

/// The drafter of a sequence whose drafts are made together with others': hands out what was made, a line or a tree.
template <class D, bool is_steady_drafter>
class PreparedDrafter {
  using Most = std::conditional_t<requires(const D& draft) { draft.parents; }, TreeLimits, Index>;

 public:
  static constexpr bool steady = is_steady_drafter;

  /// What the next draft() returns: a draft, or an error.
  void prepare(const D& draft) {
    draft_.emplace(draft);
    error_ = nullptr;  // of a step that failed before it was told
  }
  void prepare(std::exception_ptr error) { error_ = std::move(error); }

  D draft(std::span<const Token>, const Most&, const auto&) {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return *draft_;
  }
  void truncate(Index length) { length_ = length; }

  /// How much of the context the drafter of all sequences has to keep, as said last.
  Index length() const { return length_; }

 private:
  std::optional<D> draft_;
  std::exception_ptr error_;
  Index length_ = 0;
};

/// A draft length that all sequences of a batch go by. It is asked once for a step, and told of what each of them did when
/// all are through, so that they may be judged side by side.
template <class Policy>
class SharedLength {
 public:
  static constexpr bool counts_nodes = specdec::counts_nodes<Policy>;

  explicit SharedLength(Policy& policy) : policy_(&policy) {}

  void wants(Index length) { wanted_ = length; }
  Index next(Index most) const { return std::min(wanted_, most); }

  void observe(const StepRecord& step) { step_ = step; }
  /// Passes on what was observed. Its views live until the sequence's next step.
  void tell() {
    if (step_) policy_->observe(*step_);
    step_.reset();
  }

  template <class Row>
  bool goes_on(const Row& row, Index i) const
    requires requires(Policy& policy) { policy.goes_on(row, i); }
  {
    return policy_->goes_on(row, i);
  }

 private:
  Policy* policy_;
  Index wanted_ = 0;
  std::optional<StepRecord> step_;
};

/// The draft that a drafter of many makes for one sequence.
template <class D>
using DraftedBy = std::remove_cvref_t<decltype(std::declval<D&>().drafted(Index{}))>;

template <class D>
struct EntryDrafter {
  using Type = D;
};
template <DraftsTogether D>
struct EntryDrafter<D> {
  using Type = PreparedDrafter<DraftedBy<D>, is_steady<D>>;
};

/// Told of a sequence's tokens as they come; false ends it.
using OnStep = std::function<bool(std::span<const Token>)>;

template <class F>
OnStep on_step_of(F&& f) {
  if constexpr (std::same_as<std::invoke_result_t<F&, std::span<const Token>>, bool>) {
    return std::forward<F>(f);
  } else {
    return [f = std::forward<F>(f)](std::span<const Token> emitted) mutable { return f(emitted), true; };
  }
}

/// A sequence, with what it drafts with, its source of chance and its callback. What it does in a step touches nothing of
/// others; what fails is noted, and thrown by nobody.
template <class D, class V, class L>
class BatchEntry {
  using Shared = detail::Shared<ExternalTarget, D, L>;

 public:
  using Sequence = specdec::Sequence<Shared, V>;
  using Source = typename EntrySource<V>::Kept;

  /// Of the prompt the first `prefill` tokens are fed apart, before the first step.
  BatchEntry(Index number, const ExternalTarget& target, D drafter, const V& verifier, L length,
             TokenIds prompt, const Options& options, Index prefill, typename EntrySource<V>::Given source,
             OnStep on_step)
      : number_(number),
        most_(options.gamma),
        source_(std::move(source)),
        on_step_(std::move(on_step)),
        shared_(ExternalTarget(target), std::move(drafter), std::move(length)),
        sequence_(shared_, verifier, prompt, options, Filled{prefill}),
        prefill_(prefill) {}
  BatchEntry(const BatchEntry&) = delete;
  BatchEntry& operator=(const BatchEntry&) = delete;

  Index number() const { return number_; }
  /// Tokens of a draft, at most.
  Index most() const { return most_; }
  Source& source() { return source_; }
  /// Why the sequence cannot go on, if it cannot.
  const std::exception_ptr& error() const { return error_; }
  Sequence& sequence() { return sequence_; }
  const Sequence& sequence() const { return sequence_; }
  D& drafter() { return shared_.drafter; }
  L& length() { return shared_.length; }
  bool over() const { return error_ || sequence_.done(); }

  /// How many tokens of the prompt are still to be fed before the first step.
  Index unfilled() const { return prefill_ - filled_; }
  void feed_prompt(Index count) {
    const auto tokens =
        sequence_.context().subspan(static_cast<std::size_t>(filled_), static_cast<std::size_t>(count));
    is_fed({.tokens = tokens, .from = filled_, .rows = 0});
  }

  /// What a draft length for all sequences wants of each.
  void wants(Index length) {
    shared_.length.wants(length);
    limits_.reset();
  }

  /// How many tokens the next step feeds at most. The limits of its draft are asked for once, even if it has to wait for
  /// room or to be tried again, so that the draft length is the one that the sequence would have alone.
  Index most_fed() {
    source_.rewind();  // the last step may have failed
    if (!limits_) error_ = error_of([&] { limits_ = sequence_.draft_limits(); });
    return std::ssize(sequence_.context()) - sequence_.kept() + limits().nodes;
  }
  TreeLimits limits() const { return limits_.value_or(TreeLimits{.nodes = 0, .depth = 0}); }

  void propose() {
    error_ = error_of([&] { is_fed(sequence_.propose(source_)); });
  }
  const BatchFeed& feed() const { return feed_; }

  /// By its rows of a call.
  template <class Rows>
  void accept(const Rows& rows) {
    judged_ = true;
    if (feed_.rows == 0) {
      filled_ += std::ssize(feed_.tokens);
      emitted_ = {};
    } else {
      error_ = error_of([&] { emitted_ = sequence_.accept(rows, source_); });
      limits_.reset();
    }
  }

  /// Whether accept() has been called with the rows of the last feed.
  bool judged() const { return judged_; }

  /// What the target keeps of what it was fed.
  template <class M>
  void keep_in(M& target) const {
    if constexpr (takes_trees<M>)
      if (!feed_.parents.empty()) return target.keep(number_, sequence_.kept_path());
    if (feed_.rows > 0) target.keep(number_, sequence_.kept());
  }

  /// Tells of what the last step emitted, which nothing undoes any more.
  void tell() {
    source_.mark();
    if (emitted_.empty() || !on_step_) return;
    error_ = error_of([&] {
      if (!on_step_(emitted_)) sequence_.stop();
    });
  }

 private:
  void is_fed(const Feed& feed) {
    feed_ = {feed, number_};
    judged_ = false;
  }

  Index number_, most_;
  Source source_;
  OnStep on_step_;
  std::exception_ptr error_;
  Shared shared_;
  Sequence sequence_;
  Index prefill_, filled_ = 0;
  std::optional<TreeLimits> limits_;
  BatchFeed feed_;
  bool judged_ = false;
  std::span<const Token> emitted_;
};

}  // namespace specdec::detail
