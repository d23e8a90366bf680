// Makes a drafter for requests of a drafter of one text.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/one_text_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// Whether G is a function of a text's number that returns a drafter of one text.
template <class G>
concept MakesDrafters =
    !OneTextDrafter<std::remove_cvref_t<G>> && requires(std::remove_reference_t<G>& make, Index sequence) {
      requires OneTextDrafter<std::remove_cvref_t<decltype(make(sequence))>>;
    };

// A copy of a const drafter may draft where the drafter itself may not.
template <class G>
struct LiftedFrom {
  using Type = std::conditional_t<OneTextDrafter<std::remove_reference_t<G>>, std::remove_reference_t<G>,
                                  std::remove_cvref_t<G>>;
};
template <MakesDrafters G>
struct LiftedFrom<G> {
  using Type = std::remove_cvref_t<std::invoke_result_t<std::remove_reference_t<G>&, Index>>;
};

}  // namespace detail

/// A Drafter that drafts for each text alone, by a drafter of one text: what SpecDec, Batch and drafters that hold others make.
///
/// G is a OneTextDrafter: each text gets a copy of it, which begins without a context. Where there is only one text
/// (serve_one()), the drafter itself serves it, and keeps what it has learnt from one text to the next; if it is const, a copy
/// does. Or G is a function of a text's number that returns the text's drafter, which may depend on the request's grammar:
///
///   FallbackDrafter{[&](Index sequence) { return ForcedTokens{grammar_of(sequence), vocab_size}; }, ModelDrafter{many_small}}
///
/// Copies must not share a model, because they would overwrite each other's context: check_copies().
/// Throws: InvalidArgument if the function returns a drafter that refers to a model, in a batch. All other errors, of
/// a drafter, of its copy constructor and of the function, belong to their request.
/// Random: the draws of the drafter, from the request's own source.
/// Cost: the drafter's, for each request; an executor runs them in parallel. One allocation for each new text.
template <class G>
class LiftedDrafter {
  static constexpr bool made = detail::MakesDrafters<G>;
  using One = typename detail::LiftedFrom<G>::Type;
  static_assert(detail::fits_one_text_drafter<One>());
  static constexpr bool copies = made || std::copy_constructible<One>;
  // Whether the drafter that was given never drafts itself.
  static constexpr bool only_gives = !std::same_as<One, std::remove_reference_t<G>>;
  static_assert(copies || !only_gives, "the drafter is const, and cannot be copied");

  using Chance = RandomChance<SplitMix64>;
  using Limits = std::conditional_t<detail::DraftsBy<One, DraftLimits, Chance>, const DraftLimits&, Index>;
  // The type that draft() declares: its body need not compile for this Chance.
  using Draft = std::remove_cvref_t<decltype(std::declval<One&>().draft(
      std::span<const Token>{}, std::declval<Limits>(), std::declval<Chance&>()))>;

  // A drafter, held as D, and what it has drafted.
  template <class D>
  struct Served {
    D drafter;
    detail::Uncopied<std::optional<Draft>> draft = {};
  };
  using Text = Served<One>;

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<One>, steady = is_steady<One>;

  explicit LiftedDrafter(G&& given) : given_{std::forward<G>(given)} {}

  /// The drafter itself serves the only text.
  void serve_one() { one_ = true; }

  /// Throws: InvalidArgument if copies of the drafter would share a model or a drafter.
  void check_copies() const {
    static_assert(copies, "the drafter cannot be copied, one for each text, and is no specdec::Drafter");
    if constexpr (!made) check_own(given_.drafter);
  }

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    for (Request& request : requests) {
      bool is_new = false;
      request.error = detail::error_of([&] { is_new = make(request.sequence); });
      if (is_new) check_made(request.sequence);
    }
    for_each(std::ssize(requests), [&](Index i) {
      Request& request = requests[static_cast<std::size_t>(i)];
      if (!request.error) request.error = detail::error_of([&] { draft_for(request); });
    });
  }

  const Draft& drafted(Index sequence) const {
    const Draft* draft = nullptr;
    serve(*this, sequence, [&](const auto& text) { draft = &*text.draft.value; });
    return *draft;
  }
  void keep(Index sequence, Index length) {
    serve(*this, sequence, [=](auto& text) { text.drafter.truncate(length); });
  }
  void release(Index sequence) {
    if (has_own()) texts_.erase(sequence);
    else keep(sequence, 0);
  }
  /// A text's drafter observes the steps before its first draft, too, where other drafters draft.
  template <class Rows>
  void observe(Index sequence, const Judged<Rows>& judged) {
    if constexpr (detail::ObservesOneText<One, Rows>)
      if (make(sequence)) check_made(sequence);
    serve(*this, sequence, [&](auto& text) { detail::tell_one_text(text.drafter, judged); });
  }

  /// A text's own drafter, with what it has learnt. It is not copied, and taking it allocates nothing.
  using State = typename std::unordered_map<Index, Text>::node_type;

  State take(Index sequence) {
    State state = texts_.extract(sequence);
    if (state) state.mapped().draft.value.reset();
    return state;
  }
  void put(Index sequence, State&& state) {
    if (!state) return;
    texts_.reserve(texts_.size() + 1);  // nothing throws from here on
    state.key() = sequence;
    texts_.insert(std::move(state));
  }
  /// A twin has a copy of its text's drafter, with what that has learnt. A function is asked for the twin's number in its turn.
  void fork(Index from, Index to)
    requires(!made && std::copy_constructible<One>)
  {
    if (const auto text = texts_.find(from); text != texts_.end()) texts_.try_emplace(to, text->second);
  }

  std::vector<const void*> identities() const {
    if constexpr (made) return {};
    else return detail::shared_identities<G>(given_.drafter);
  }

 private:
  // Whether texts have drafters of their own. Else the drafter that was given serves the only text.
  bool has_own() const { return copies && (only_gives || !one_); }

  static void check_own(const One& drafter) {
    if (!detail::shared_identities<One>(drafter).empty())
      detail::invalid_argument(
          "the drafter refers to a model or a drafter that each sequence's copy would use: hold it by value, "
          "or draft for all sequences together (a specdec::ModelDrafter around a specdec::BatchModel)");
  }

  // Gives a text a drafter. Returns whether it had none.
  bool make(Index sequence) {
    if (!has_own() || texts_.contains(sequence)) return false;
    if constexpr (made) texts_.try_emplace(sequence, Text{given_.drafter(sequence)});
    else if constexpr (copies)
      texts_.try_emplace(sequence, Text{given_.drafter}).first->second.drafter.truncate(0);
    return true;
  }
  // What a function makes is known only now.
  void check_made([[maybe_unused]] Index sequence) {
    if constexpr (made) {
      const auto text = texts_.find(sequence);
      const auto check = [&] { check_own(text->second.drafter); };
      if (!one_) detail::undo_on_error(check, [&] { texts_.erase(text); });
    }
  }

  // Calls f with the Served of the text, if it has one.
  template <class Self, class F>
  static void serve(Self& self, Index sequence, const F& f) {
    if (self.has_own()) {
      if (const auto text = self.texts_.find(sequence); text != self.texts_.end()) f(text->second);
    } else if constexpr (!only_gives) {
      f(self.given_);
    }
  }

  template <class Request>
  void draft_for(Request& request) {
    auto&& chance = as_chance(*request.source);
    serve(*this, request.sequence, [&](auto& text) {
      auto&& draft =
          detail::ask_drafter(text.drafter, request.context, request.limits, chance, request.keep_drafting);
      static_assert(std::same_as<Draft, std::remove_cvref_t<decltype(draft)>>,
                    "the drafter's proposal is of another type for another source of chance");
      text.draft.value.emplace(std::forward<decltype(draft)>(draft));
    });
  }

  Served<G> given_;
  bool one_ = false;
  std::unordered_map<Index, Text> texts_;
};

template <class G>
LiftedDrafter(G&&) -> LiftedDrafter<G>;

namespace detail {

/// What drafts for requests: D itself if it is a Drafter, else D lifted.
template <class D>
using Lift = std::conditional_t<Drafter<std::remove_reference_t<D>>, D, LiftedDrafter<D>>;

/// Compiles only if D is a Drafter, a OneTextDrafter, or a function that makes these; the error names the missing function.
template <class D>
consteval bool fits_drafter() {
  using Given = std::remove_cvref_t<D>;
  // What forgets texts by their numbers is meant for requests.
  constexpr bool releases = requires(Given& drafter, Index sequence) { drafter.release(sequence); };
  if constexpr (Drafter<Given> || MakesDrafters<D>) {
    return true;
  } else if constexpr (releases) {
    static_assert(
        requires(Given& drafter, std::span<DraftRequest<SplitMix64>> requests) { drafter.draft(requests); },
        "the drafter has no draft(std::span<Request> requests), a template on the class Request: see "
        "specdec::Drafter");
    static_assert(
        requires(const Given& drafter, Index sequence) {
          { drafter.drafted(sequence).tokens } -> std::convertible_to<std::span<const Token>>;
          { drafter.drafted(sequence).rows } -> Probabilities;
        },
        "the drafter has no drafted(specdec::Index sequence) const that returns a specdec::Draft: see "
        "specdec::Drafter");
    static_assert(
        requires(Given& drafter, Index sequence, Index length) { drafter.keep(sequence, length); },
        "the drafter has no keep(specdec::Index sequence, specdec::Index length), its rollback: see "
        "specdec::Drafter");
    return true;
  } else {
    return fits_one_text_drafter<Given>();
  }
}

}  // namespace detail
}  // namespace specdec
