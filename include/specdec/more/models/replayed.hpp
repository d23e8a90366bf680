// Rollback for models that cannot cut their context back: recurrent and hybrid models.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/fed_texts.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/models/kept_states.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

template <class M, class Snapshot>
concept RecurrentForOne =
    requires(M& model, std::span<const Token> tokens, Index n, Snapshot& snapshot, const Snapshot& saved) {
      model.forward(tokens, n);
      model.save(snapshot);
      model.restore(saved);
    };
template <class M, class Snapshot>
concept RecurrentForMany = requires(M& model, std::span<const BatchFeed> feeds, Index sequence,
                                    Snapshot& snapshot, const Snapshot& saved) {
  model.forward(feeds);
  model.save(sequence, snapshot);
  model.restore(sequence, saved);
  model.release(sequence);
};

}  // namespace detail

/// A language model that keeps its context in a state of fixed size. No token can be taken out of the state again:
///
///   vocab_size()            number of tokens in the vocabulary
///   forward(tokens, rows)   takes `tokens` in and returns rows as Model::forward() does. They live until the next
///                           call of forward(). After a throw the state may be anything.
///   Snapshot                a type that holds a state. A new Snapshot may hold any state.
///   save(snapshot)          copies the present state into `snapshot`. The state does not change, not even in a throw.
///                           Should use the memory that `snapshot` already has, so that steady state allocates nothing.
///   restore(snapshot)       makes the saved state the present one. After a throw the state may be anything.
///
/// A model for many texts has a state for each sequence. It has these functions instead:
///
///   forward(feeds)                see BatchModel. After a throw the states of the sequences in the call may be anything.
///   save(sequence, snapshot)      an unknown number begins with an empty context, here and in forward()
///   restore(sequence, snapshot)
///   release(sequence)             forgets the sequence and its state. Must not throw.
template <class M>
concept RecurrentModel = std::default_initializable<typename M::Snapshot> && requires(const M& constant) {
  { constant.vocab_size() } -> detail::Count;
} && (detail::RecurrentForOne<M, typename M::Snapshot> || detail::RecurrentForMany<M, typename M::Snapshot>);

/// Settings of Replayed.
struct ReplayedOptions {
  /// How many states are kept at once, besides the state of the empty context; at least 1. One is enough for a target. For a
  /// draft model with γ calls a step, 2γ − 3 states or more mean that no token is fed twice. The default is enough up to γ = 5.
  Index snapshots = 8;
  /// How many tokens without a wanted row one call may feed before the tokens with wanted rows. If there are more, they get
  /// a call of their own, and the state after it is kept. Let a step emit b tokens, and let a further call cost as much as r
  /// tokens in a call: then √(2br) costs least. The default is for r of about 40.
  Index carried = 16;
};

/// Makes a RecurrentModel a Model, and one for many texts a BatchModel. truncate() or keep() only notes the new length. The
/// next forward() restores a saved state, and feeds the rest of the context again together with its own tokens.
///
///   Replayed target{model};
///   Replayed draft{model, {.snapshots = 4}};
///   ProcessedModel target{Replayed{engine}, Chain{Temperature{0.8}}};    // if the model returns logits
///
/// Returns the model's own rows, which live as long as the model says. The state is saved before every call of the model. Many
/// tokens without wanted rows are fed first, in a call of their own. So after a rejection only the accepted tokens of the draft
/// are fed again, and the prompt is fed once. If the context is cut back by more than the latest calls fed, the tokens after the
/// next older saved state are fed again; in the worst case the whole context. A wrapper: see model/feeds.hpp.
/// Throws: also InvalidArgument on options out of range.
/// Cost: a call that wants rows takes one or two calls of the model, with up to ReplayedOptions::carried more tokens of each
/// text; a save() of each text before each call, and a restore() after a text was cut back.
/// Memory: for each text the states of all snapshots that it ever needed, and the tokens of the context.
/// Example: examples/write/no_way_back.cpp.
template <class M>
class Replayed : public detail::WrapsModel<Replayed<M>, M, false> {
  using Base = detail::WrapsModel<Replayed, M, false>;
  friend typename Base::Functions;
  using Bare = std::remove_reference_t<M>;
  static_assert(RecurrentModel<Bare>);
  using Snapshot = typename Bare::Snapshot;

  static constexpr Index unknown = -1;

  struct Text : detail::FedText {
    template <class Save>
    Text(Index snapshots, const Save& save) : states(snapshots, save) {}

    detail::KeptStates<Snapshot> states;
    Index cached = unknown;  // how many tokens the model's state has taken in

    // The model is not told: the next call restores a state.
    void truncate(Index length) {
      length = detail::FedText::truncate(length).length;
      if (cached > length) cached = unknown;
      states.forget_beyond(length);
    }
  };

 public:
  explicit Replayed(M&& model, const ReplayedOptions& options = {})
      : Base(std::forward<M>(model)), options_(checked(options)) {
    // Saves the empty state now: later somebody else may have used the model.
    if constexpr (Base::one_text) texts_.begin(0, [this](Index only) { return begin_text(only); });
  }

  /// This does not know tokens that the model was fed directly.
  static constexpr bool keeps_context = true;
  static constexpr bool forks = std::copy_constructible<Snapshot>;

 private:
  Text begin_text(Index sequence) { return Text(options_.snapshots, saving(sequence)); }

  decltype(auto) rows_after(std::span<const BatchFeed> feeds, std::span<const BatchFeed>) {
    for (const BatchFeed& feed : feeds) restore_if_unknown(feed.sequence);
    if (begin_call_ahead(feeds)) run();
    begin_call(feeds);
    return run();
  }

  // The model keeps its states of both by their numbers: the twin begins with what is saved of the other's state now.
  void fork_text(Index from, Index to) {
    if (Text* const text = texts_.find(from); text != nullptr && text->cached != unknown)
      text->states.keep(text->cached, saving(from));
    const auto twin_of = [](Text twin) {
      twin.cached = unknown;
      return twin;
    };
    texts_.fork(from, to, this->inner(), twin_of);
  }

  static const ReplayedOptions& checked(const ReplayedOptions& options) {
    if (options.snapshots < 1) detail::invalid_argument("snapshots = ", options.snapshots, " is less than 1");
    if (options.carried < 0) detail::invalid_argument("carried = ", options.carried, " is negative");
    return options;
  }

  void save([[maybe_unused]] Index sequence, Snapshot& snapshot) {
    if constexpr (!Base::one_text) this->inner().model().save(sequence, snapshot);
    else this->inner().model().save(snapshot);
  }
  void restore([[maybe_unused]] Index sequence, const Snapshot& snapshot) {
    if constexpr (!Base::one_text) this->inner().model().restore(sequence, snapshot);
    else this->inner().model().restore(snapshot);
  }
  auto saving(Index sequence) {
    return [this, sequence](Snapshot& snapshot) { save(sequence, snapshot); };
  }

  void restore_if_unknown(Index sequence) {
    Text& text = texts_.at(sequence);
    if (text.cached != unknown) return;
    restore(sequence, text.states.latest());
    text.cached = text.states.latest_length();
  }

  // Prepares a call for the tokens before the wanted rows. False if there are too few of them for a call of their own.
  bool begin_call_ahead(std::span<const BatchFeed> feeds) {
    call_.clear();
    for (const BatchFeed& feed : feeds) {
      const Text& text = texts_.at(feed.sequence);
      const Index unwanted = text.length() - feed.rows - text.cached;
      if (feed.rows > 0 && unwanted > options_.carried) add(feed.sequence, text, unwanted, 0);
    }
    return !call_.empty();
  }

  // Prepares a call for the remaining tokens, with all wanted rows.
  void begin_call(std::span<const BatchFeed> feeds) {
    call_.clear();
    for (const BatchFeed& feed : feeds) {
      const Text& text = texts_.at(feed.sequence);
      add(feed.sequence, text, text.length() - text.cached, feed.rows);
    }
  }

  void add(Index sequence, const Text& text, Index count, Index rows) {
    const auto tokens = detail::part(text.tokens(), text.cached, count);
    call_.push_back({{.tokens = tokens, .from = text.cached, .rows = rows}, sequence});
  }

  decltype(auto) run() {
    for (const BatchFeed& feed : call_) {
      Text& text = texts_.at(feed.sequence);
      text.states.keep(text.cached, saving(feed.sequence));
    }
    for (const BatchFeed& feed : call_) texts_.at(feed.sequence).cached = unknown;
    decltype(auto) output = this->inner().forward(detail::view_of(call_));
    for (const BatchFeed& feed : call_) texts_.at(feed.sequence).cached = feed.from + std::ssize(feed.tokens);
    return output;
  }

  ReplayedOptions options_;
  detail::FedTexts<Text> texts_;
  std::vector<BatchFeed> call_;
};

template <class M>
Replayed(M&&) -> Replayed<M>;
template <class M>
Replayed(M&&, ReplayedOptions) -> Replayed<M>;

}  // namespace specdec
