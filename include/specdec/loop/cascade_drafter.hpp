// A drafter that itself runs speculative decoding, with a smaller target and drafter.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/keyed.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/sequence.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/rows/kinds/stored_rows.hpp"
#include "specdec/rows/read/dead_end.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/draft_limit.hpp"
#include "specdec/verify/verdict.hpp"
#include "specdec/verify/verifier.hpp"

namespace specdec {

namespace detail {

/// A row of this size in which all tokens are equally likely.
class UniformRow {
 public:
  explicit UniformRow(Index vocab_size) : vocab_size_(vocab_size) {}
  Index vocab_size() const { return vocab_size_; }
  double probability(Token) const { return 1 / static_cast<double>(vocab_size_); }
  auto sampler() const {
    return [size = vocab_size_](double u) {
      return static_cast<Token>(std::min(static_cast<Index>(u * static_cast<double>(size)), size - 1));
    };
  }

 private:
  Index vocab_size_;
};

/// Chance for the inner loop. Where the model's row is a dead end, a token that nobody drafts has all its probability
/// (rows/read/dead_end.hpp). In place of an error, any token stands for it; the cascade ends its draft before this token, or
/// reports a uniform row for it.
template <class C>
class PastDeadEnds {
 public:
  explicit PastDeadEnds(C& chance) : chance_(&chance) {}

  bool coin(double h) { return chance_->coin(h); }
  template <Distribution R>
  Token draw(const R& row, Index place = 0) {
    return is_dead_end(row) ? chance_->draw(UniformRow(row.vocab_size()), place) : chance_->draw(row, place);
  }
  template <Distribution P, Distribution... Q>
  std::optional<Token> race(double w, const P& p, const Q&... q) {
    if (!is_dead_end(p)) return chance_->race(w, p, q...);
    return chance_->race(w, UniformRow(p.vocab_size()));
  }

 private:
  C* chance_;
};

/// Of a Keyed, which stays one.
template <class C>
  requires is_keyed<C>
class PastDeadEnds<C> : public Keyed {
 public:
  explicit PastDeadEnds(const C& keyed) : Keyed(keyed) {}

  template <Distribution R>
  Token draw(const R& row, Index place) const {
    return is_dead_end(row) ? Keyed::draw(UniformRow(row.vocab_size()), place) : Keyed::draw(row, place);
  }
  template <Distribution R>
  Token draw(const R& row) {
    return is_dead_end(row) ? Keyed::draw(UniformRow(row.vocab_size())) : Keyed::draw(row);
  }
};

/// Wraps the inner drafter, and records the target row of each emitted token: row i for emitted token i, counted from 0. In
/// place of a dead end it records a uniform row, if that is possible for rows of this type.
template <class D, class Rows>
struct RecordingDrafter {
  Lift<D> drafter;
  Rows* recorded;
  Index* dead_end;  // the number of the first dead end

  static constexpr bool steady = is_steady<std::remove_reference_t<Lift<D>>>;
  static constexpr bool drafts_trees = specdec::drafts_trees<std::remove_reference_t<Lift<D>>>;

  void serve_one() { detail::serve_one(drafter); }
  template <class Request>
  void draft(std::span<Request> requests) {
    drafter.draft(requests);
  }
  decltype(auto) drafted(Index sequence) const { return std::as_const(drafter).drafted(sequence); }
  void keep(Index sequence, Index length) { drafter.keep(sequence, length); }
  void release(Index sequence) { drafter.release(sequence); }
  std::vector<const void*> identities() const { return shared_identities<Lift<D>>(drafter); }

  template <class Target>
  void observe(Index sequence, const Judged<Target>& judged) {
    tell_drafter(drafter, sequence, judged);
    const auto rows = distributions(judged.rows);
    for (Index i = 0; i <= judged.verdict.node; ++i) {
      const auto row = rows.row(i);
      const bool ends = is_dead_end(row);
      if (ends) *dead_end = std::min(*dead_end, recorded->size());
      if (!ends || !recorded->add_uniform(row)) recorded->add(row);
    }
  }
};

}  // namespace detail

/// Drafts with a model that is itself sped up by a smaller drafter: an inner loop of speculative decoding, with the model as
/// its target.
///
///   CascadeDrafter drafter{middle, ModelDrafter{small}, BlockVerifier{}, 3};
///   SpecDec decoder{large, drafter, BlockVerifier{}};
///
/// The drafts have the distribution of the model's own text, with any inner drafter. They come with the model's rows. For
/// the outer loop a cascade differs from ModelDrafter{middle} only in speed.
///
/// A model, drafter or draft length that is passed as an lvalue must outlive the cascade (see SpecDec). The model is fed
/// token 0 in place of a context token that it does not know (see token_ids.hpp). If the model's context is bounded
/// (context_size), drafts end where it is full. A draft ends where no token has a positive probability in the model's row;
/// where its length is fixed (DraftLimits), the token is drawn from a uniform row.
/// Source: Chen et al., "Cascade Speculative Drafting for Even Faster LLM Inference", arXiv:2312.11462 (the vertical
/// cascade); Spector and Ré, "Accelerating LLM Inference with Staged Speculative Decoding", arXiv:2308.04623.
/// Pre: the inner rule draws from the model's rows (draws_from_target: not LenientVerifier, not ArgmaxVerifier). The inner
/// drafter and draft length are lossless in an ordinary loop.
/// Throws: std::invalid_argument on an empty context, and what the loop throws. An InvalidDistribution calls the model's
/// rows "cascade's target" and the inner drafter's rows "cascade's draft".
/// Random: what the inner loop draws.
/// Cost: the inner loop; a comparison of the context with the last one; tokens after the common prefix are fed again. The
/// rows of the emitted tokens are copied, unless the model promises stable rows.
template <class M, class D, class V = BlockVerifier, class Length = FixedLength>
class CascadeDrafter {
  // Assertions, not constraints: with deduced arguments, compilers would not say which constraint failed.
  static_assert(detail::fits_model<std::remove_reference_t<M>>());
  static_assert(detail::can_draft_for_requests<D>());
  static_assert(!specdec::drafts_trees<std::remove_reference_t<detail::Lift<D>>>,
                "the drafter of the cascade drafts trees, not lines");
  static_assert(detail::fits_verifier<V>());
  static_assert(!judges_trees<V>, "the verifier of the cascade judges trees, not lines");
  static_assert(draws_from_target<V>, "the cascade would report rows that its drafts are not drawn from");
  static_assert(detail::fits_draft_length<std::remove_reference_t<Length>>());

  using Output = std::remove_cvref_t<decltype(std::declval<std::remove_reference_t<M>&>().forward(
      std::span<const Token>{}, Index{1}))>;
  using Row = RowOf<decltype(distributions(std::declval<const Output&>()))>;
  using Rows = StoredRows<Row, has_stable_rows<std::remove_reference_t<M>>>;
  using Stored = typename Rows::Stored;
  using InnerDrafter = detail::RecordingDrafter<D, Rows>;
  using Shared = detail::Shared<M, InnerDrafter, V, Length>;
  using Sequence = specdec::Sequence<Shared>;

 public:
  static constexpr bool drafts_trees = false, steady = has_steady_rows<std::remove_reference_t<M>>;

  /// `gamma`: the most tokens that the inner drafter is asked for.
  /// Throws: std::invalid_argument if `gamma` is not valid as Options::gamma.
  CascadeDrafter(M&& model, D&& drafter, V verifier = {}, Index gamma = 4)
    requires std::default_initializable<Length>
      : CascadeDrafter(std::forward<M>(model), std::forward<D>(drafter), std::move(verifier), gamma,
                       Length{}) {}

  CascadeDrafter(M&& model, D&& drafter, V verifier, Index gamma, Length&& length)
      : inner_(std::make_unique<Inner>(std::forward<M>(model), detail::Lift<D>(std::forward<D>(drafter)),
                                       std::forward<Length>(length))),
        verifier_(std::move(verifier)),
        gamma_(gamma) {
    detail::check_gamma_option(gamma);
  }

  /// Copies what the cascade holds by value; the copy begins with empty contexts. A Batch makes a copy for each sequence.
  /// A model that is held by reference is shared. If the inner drafter or the draft length is held by reference, the cascade
  /// cannot be copied.
  CascadeDrafter(const CascadeDrafter& other)
    requires(std::copy_constructible<M> && std::copy_constructible<D> && std::copy_constructible<Length> &&
             !std::is_lvalue_reference_v<D> && !std::is_lvalue_reference_v<Length>)
      : inner_(
            std::make_unique<Inner>(copy_of<M>(other.inner().shared.target),
                                    copy_of<detail::Lift<D>>(other.inner().shared.driver.drafter().drafter),
                                    copy_of<Length>(other.inner().shared.length))),
        verifier_(other.verifier_),
        gamma_(other.gamma_) {}
  CascadeDrafter(CascadeDrafter&&) noexcept = default;
  CascadeDrafter& operator=(const CascadeDrafter&) = delete;
  CascadeDrafter& operator=(CascadeDrafter&&) noexcept = default;
  ~CascadeDrafter() = default;

  template <RandomSource Source>
  Draft<RowSpan<Stored>> draft(std::span<const Token> context, const DraftLimits& limits, Source& source) & {
    return draft(context, limits, source, detail::AlwaysKeepDrafting{});
  }
  template <RandomSource Source>
  Draft<RowSpan<Stored>> draft(std::span<const Token> context, Index gamma, Source& source) & {
    return draft(context, DraftLimits{.nodes = gamma}, source);
  }
  template <RandomSource Source, class KeepDrafting>
    requires requires(const KeepDrafting& asks, const Stored& row, Index i) { asks.more(row, i); }
  Draft<RowSpan<Stored>> draft(std::span<const Token> context, Index gamma, Source& source,
                               const KeepDrafting& keep_drafting) & {
    return draft(context, DraftLimits{.nodes = gamma}, source, keep_drafting);
  }

  /// Drafts, and asks keep_drafting about the row of each token, which may end the draft after that token (see OneTextDrafter).
  /// The tokens after the end are already drawn by then. Dropping them is lossless, since the rows that decided depend only on
  /// the tokens before them.
  template <RandomSource Source, class KeepDrafting>
    requires requires(const KeepDrafting& asks, const Stored& row, Index i) { asks.more(row, i); }
  Draft<RowSpan<Stored>> draft(std::span<const Token> context, const DraftLimits& limits, Source& source,
                               const KeepDrafting& keep_drafting) & {
    if (context.empty()) detail::invalid_argument("context is empty: there is nothing to continue");
    const Index vocab_size = inner().shared.target.vocab_size(), gamma = limits.length();
    inner_->rows.clear();
    inner_->dead_end = unlimited;
    if (gamma <= 0 || std::ssize(context) > context_size(inner_->shared.target))
      return {{}, inner_->rows.first(0, vocab_size)};
    Sequence& sequence = take_up(detail::tokens_in_vocabulary(context, vocab_size, replaced_), gamma);
    Index asked = 0;
    while (!sequence.done()) {
      step(sequence, source);
      for (; asked < std::ssize(sequence.tokens()); ++asked) {
        if (asked == inner_->dead_end && !limits.fixed) return drafted(sequence, asked);
        const Stored& row = inner_->rows[asked];
        if (!keep_drafting.more(row, asked)) return drafted(sequence, asked + 1);
      }
    }
    return drafted(sequence, asked);
  }

  /// The addresses of those models in the cascade that other code may use, too.
  std::vector<const void*> identities() const {
    auto found = detail::shared_identities<M>(inner().shared.target);
    detail::append(found, inner().shared.driver.drafter().identities());
    return found;
  }

  /// truncate(0) clears the inner contexts. Any other length does nothing: the next draft keeps the common prefix anyway.
  void truncate(Index length) {
    if (length <= 0 && inner_ && inner_->sequence) inner_->sequence->release();
  }

  /// Counts and times of the inner loop, over all drafts.
  /// Throws: std::logic_error if the cascade was moved away: into a decoder, say.
  Stats stats() const { return inner().sequence ? inner().sequence->stats() : Stats{}; }

 private:
  // On the heap, since a drafter may be moved and the inner sequence refers to these members.
  struct Inner {
    Inner(M&& m, detail::Lift<D>&& d, Length&& l)
        : shared(std::forward<M>(m), InnerDrafter{std::forward<detail::Lift<D>>(d), &rows, &dead_end},
                 std::forward<Length>(l)) {}
    Rows rows;                   // of the tokens of the draft
    Index dead_end = unlimited;  // the number of the first row that is a dead end
    Shared shared;
    std::optional<Sequence> sequence;
  };

  // Copies a value; passes a reference on.
  template <class T>
  static T&& copy_of(std::remove_reference_t<T>& held)
    requires std::is_lvalue_reference_v<T>
  {
    return held;
  }
  template <class T>
  static T copy_of(const T& held)
    requires(!std::is_lvalue_reference_v<T>)
  {
    return held;
  }

  Inner& inner() const {
    if (!inner_) detail::logic_error("the cascade was moved away: ask what it was moved into");
    return *inner_;
  }

  // The inner sequence, ready to continue the context by gamma tokens. The inner rule's memory is reset, since the outer
  // loop wrote the end of the context, even if its tokens equal the draft's.
  Sequence& take_up(std::span<const Token> context, Index gamma) {
    const Options options{.max_new_tokens = gamma, .gamma = gamma_};
    if (inner_->sequence) {
      inner_->sequence->forget();
      inner_->sequence->resume(context, options);
    } else {
      inner_->sequence.emplace(inner_->shared, verifier_, context, options, Filled{});
    }
    return *inner_->sequence;
  }

  // Steps the inner loop. An error about its rows must not look like an error about the outer loop's rows.
  template <class Source>
  static void step(Sequence& sequence, Source& source) {
    auto&& chance = as_chance(source);
    detail::PastDeadEnds<std::remove_cvref_t<decltype(chance)>> past(chance);
    detail::with_error([&] { sequence.step(past); },
                       [](const InvalidDistribution& error) { return error.of("cascade"); });
  }

  Draft<RowSpan<Stored>> drafted(const Sequence& sequence, Index count) const {
    return {sequence.tokens().first(static_cast<std::size_t>(count)),
            inner_->rows.first(count, inner_->shared.target.vocab_size())};
  }

  std::unique_ptr<Inner> inner_;
  V verifier_;
  Index gamma_;
  std::vector<Token> replaced_;
};

template <class M, class D, class V = BlockVerifier>
CascadeDrafter(M&&, D&&, V = {}, Index = 4) -> CascadeDrafter<M, D, V>;

template <class M, class D, class V, class L>
CascadeDrafter(M&&, D&&, V, Index, L&&) -> CascadeDrafter<M, D, V, L>;

}  // namespace specdec
