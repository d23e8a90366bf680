// What a drafter has to offer: drafts for requests, of one text or of many.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <exception>
#include <span>
#include <utility>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/one_text_drafter.hpp"
#include "specdec/executor.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
/// One text's request for a draft.
template <RandomSource S, class KeepDrafting = detail::AlwaysKeepDrafting>
struct DraftRequest {
  Index sequence = 0;                   ///< the text's number
  std::span<const Token> context = {};  ///< what the draft is to follow
  DraftLimits limits = {};              ///< how large it may be
  S* source = nullptr;                  ///< the random numbers of this draft
  KeepDrafting keep_drafting = {};      ///< whether the draft goes on (see OneTextDrafter)
  std::exception_ptr error = nullptr;   ///< the drafter sets this where only this draft fails
};

/// A source of guesses for requests. SpecDec makes one request at a time, for sequence 0; a Batch one for each text in a step.
///
///   draft(requests)           drafts for each request. It sets the error of each request that fails alone. If it throws,
///                             all requests have failed, and the step can be tried again. It may put the requests in another
///                             order.
///   drafted(sequence)         the Draft that the last draft() made for the sequence, if the sequence was requested and had
///                             no error. A view that lives until the next draft() for this sequence; no other call may change
///                             it, nor a draft() for others: a batch may have several calls under way. A const function, which
///                             several threads may call at a time for different sequences
///   keep(sequence, length)    rollback: of the first `length` tokens those stay cached, drafted ones, too, that the next context
///                             has at their places; no later ones, even if equal tokens come again (Options::keys). Must not throw.
///   release(sequence)         forgets the sequence. Must not throw.
///
/// draft() is a template, `template <class Request> void draft(std::span<Request> requests)`, because the loop decides the types
/// of the random source and of keep_drafting. A request's random numbers come from its own source, in the order of its tokens, so
/// its draft does not depend on other requests. The rules of OneTextDrafter for rows and tokens of a draft hold here, too.
///
/// A drafter may also offer
///
///   drafts_trees              a static constant: whether its drafts may branch. Default: true
///   draft(requests, for_each) drafts with an Executor, for drafters that draft for each text alone
///   observe(sequence, judged) for drafters that learn from the target: called after every target call, text after text, with
///                             what the target made of the sequence's draft (Judged), and before any rollback
///   steady                    a static constant. It must be false in two cases: the length of a draft (in a tree, of
///                             its trunk) may depend on a row after one of its drawn tokens; or the next draft may
///                             give a position another row. Verifiers that remember their sequence
///                             (GreedyBlockVerifier) use the rows and length of a rejected draft. So they do not
///                             compile with an unsteady drafter, unless all rows are one-hot
///   identities()              for a drafter that is held by value and refers to another drafter or model, say by a
///                             pointer. Returns specdec::identities(other), a std::vector<const void*>; with several
///                             others, the identities of all. Without this function the library cannot notice when
///                             another decoder uses them in between
///   take(sequence), put(sequence, state), fork(from, to)
///                             for drafters that keep something for each text beside a model's cache, such as a drafter of
///                             one text that learns. take() forgets the sequence and returns what it kept, a State (a member
///                             type that can be moved). put() takes it in again, here or in another drafter of the type.
///                             fork() gives a new sequence a copy. take() must not throw. If put() throws, the state is as
///                             before. Without them a text that is paused or forked is read anew
///   fork_context(from, to, length)
///                             for drafters with a model that copies contexts, and drafters that hold such drafters: what the
///                             models of the new sequence `to` begin with. The texts of `from` and `to` have their first
///                             `length` tokens in common. Called before the first draft for `to`, after fork() and perhaps after
///                             more steps of `from`. After a throw all contexts are as before: `to` is then read anew
///   serve_one()               called by a decoder that never has more than one text at a time, before the first draft
///   check_copies()            called by a batch, before the first draft: throws InvalidArgument if copies of a drafter
///                             for single texts would share a model. A drafter that holds others passes both calls on
///
/// A drafter of one text is lifted (LiftedDrafter) wherever a Drafter is wanted.
template <class D>
concept Drafter =
    !requires { requires D::one_text; } &&  // over a model with one context: see detail::ForOneText
    requires(D& drafter, const D& constant, std::span<DraftRequest<SplitMix64>> requests, Index n) {
      drafter.draft(requests);
      { constant.drafted(n).tokens } -> std::convertible_to<std::span<const Token>>;
      { constant.drafted(n).rows } -> Probabilities;
      drafter.keep(n, n);
      drafter.release(n);
    };

/// Whether the drafts of a drafter, or of a drafter of one text, may branch.
template <class D>
inline constexpr bool drafts_trees = [] {
  if constexpr (requires { D::drafts_trees; }) return static_cast<bool>(D::drafts_trees);
  else return Drafter<D> || detail::DraftsBy<D, DraftLimits, RandomChance<SplitMix64>>;
}();

/// Whether a draft's length is fixed before its first token is drawn, and each row depends only on the tokens before it.
template <class D>
inline constexpr bool is_steady = !requires { requires !static_cast<bool>(D::steady); };

namespace detail {

/// Drafts, with the executor if the drafter takes it.
template <class D, class Request, class E>
void draft_with(D& drafter, std::span<Request> requests, E& for_each) {
  if constexpr (requires { drafter.draft(requests, for_each); }) drafter.draft(requests, for_each);
  else drafter.draft(requests);
}

/// Calls observe() if the drafter has it.
template <class D, class Rows>
void tell_drafter(D& drafter, Index sequence, const Judged<Rows>& judged) {
  if constexpr (requires { drafter.observe(sequence, judged); }) drafter.observe(sequence, judged);
  else
    static_assert(
        !requires { &D::observe; } && !requires { drafter.observe(judged); },
        "the drafter has an observe() that is never called: it is observe(sequence, judged), see "
        "specdec::Drafter");
}

struct NoState {};
template <class D>
auto take_state(D& drafter, Index sequence) {
  if constexpr (requires { drafter.take(sequence); }) return drafter.take(sequence);
  else return drafter.release(sequence), NoState{};
}
/// What a drafter keeps for a text, to travel with it.
template <class D>
using StateOf = decltype(take_state(std::declval<D&>(), Index{}));
template <class D>
void put_state(D& drafter, Index sequence, StateOf<D>&& state) {
  if constexpr (requires { drafter.put(sequence, std::move(state)); })
    drafter.put(sequence, std::move(state));
}
template <class D>
void fork_state(D& drafter, Index from, Index to) {
  if constexpr (requires { drafter.fork(from, to); }) drafter.fork(from, to);
}

/// A twin of a text begins with copies of contexts of the drafter's models, if the drafter can copy them.
template <class D>
void fork_draft_context(D& drafter, Index from, Index to, Index length) {
  if constexpr (requires { drafter.fork_context(from, to, length); }) drafter.fork_context(from, to, length);
}

template <class D>
void serve_one(D& drafter) {
  if constexpr (requires { drafter.serve_one(); }) drafter.serve_one();
}
template <class D>
void check_copies(const D& drafter) {
  if constexpr (requires { drafter.check_copies(); }) drafter.check_copies();
}

}  // namespace detail
}  // namespace specdec
