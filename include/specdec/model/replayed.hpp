// Models whose context cannot be cut back: recurrent and hybrid ones.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/feeds.hpp"
#include "specdec/model/kept_states.hpp"
#include "specdec/model/model.hpp"
#include "specdec/types.hpp"

namespace specdec {

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

/// A language model that remembers its context in a state of fixed size, which no token can be taken out of again:
///
///   vocab_size()            number of tokens
///   forward(tokens, rows)   takes `tokens` in, and returns what Model returns, that lives until the next
///                           call of forward(). After a throw the state may be any.
///   Snapshot                a type whose values hold a state. A new one holds any.
///   save(snapshot)          makes `snapshot` hold the present state, which stays as it is, also after a throw. In memory
///                           that `snapshot` has already, if it can: then nothing is allocated in steady state.
///   restore(snapshot)       makes the state the one that was saved, from whatever it is. After a throw it may be any.
///
/// One for many texts has a state for each, and in place of the last functions
///
///   forward(feeds)                as BatchModel has it. After a throw the states of the sequences in the call may be any.
///   save(sequence, snapshot)      a number that it has not met begins with an empty context, as in forward()
///   restore(sequence, snapshot)
///   release(sequence)             forgets the sequence and its state. Must not throw.
template <class M>
concept RecurrentModel = std::default_initializable<typename M::Snapshot> && requires(const M& constant) {
  { constant.vocab_size() } -> detail::Count;
} && (detail::RecurrentForOne<M, typename M::Snapshot> || detail::RecurrentForMany<M, typename M::Snapshot>);

/// How Replayed goes about it.
struct ReplayedOptions {
  /// How many states are kept at once, beside that of the empty context; at least 1. Of a target one is enough. For a
  /// draft model of γ calls nothing is fed again where it is 2γ − 3 or more: the default will do up to γ = 5.
  Index snapshots = 8;
  /// How many tokens a call takes in, at most, in front of those whose rows are wanted; if there are more, they get a
  /// call of their own, after which the state is kept. With b tokens emitted a step, and calls that cost what r more
  /// tokens in them cost, √(2br) costs least: the default is for r of about 40.
  Index carried = 16;
};

/// Makes a Model of a RecurrentModel, or a BatchModel of one for many texts: truncate(), or keep(), only notes how much is
/// kept, and the next forward() goes back to a state that was kept before, and takes in what follows it of the context
/// together with its own tokens.
///
///   Replayed target{model};
///   Replayed draft{model, {.snapshots = 4}};
///   ProcessedModel target{Replayed{engine}, Chain{Temperature{0.8}}};    // where the calls return logits
///
/// Returns what the model returns, as long-lived. The state is kept before every call of the model, and tokens whose
/// rows nobody asked for are taken in before the others where they are many: so what is rejected of a draft costs the
/// tokens of the draft that were accepted once more, and the prompt is taken in once. Not so where the context is cut
/// back by more than the latest calls took in: then what follows the next older state is taken in again, if need be all.
/// A wrapper: see model/feeds.hpp. Throws: also std::invalid_argument on options out of range.
/// Cost: for a call that wants rows a call of the model, with up to ReplayedOptions::carried tokens more of each text, or
/// two of them; a save() of each text before each, and a restore() after it was cut back. Memory: of each text a state for
/// each snapshot that was ever needed, and the tokens of the context.
/// Example: examples/no_way_back.cpp.
template <class M>
class Replayed : public detail::WrapsModel<Replayed<M>, M, false> {
  using Base = detail::WrapsModel<Replayed, M, false>;
  friend Base;
  using Base::for_many;
  using Bare = std::remove_reference_t<M>;
  static_assert(RecurrentModel<Bare>,
                "the model is no specdec::RecurrentModel: it has vocab_size(), forward(tokens, rows), a type "
                "Snapshot, save(snapshot) and restore(snapshot); one for many texts forward(feeds), a type "
                "Snapshot, save(sequence, snapshot), restore(sequence, snapshot) and release(sequence)");
  using Snapshot = typename Bare::Snapshot;

  static constexpr Index unknown = -1;

  struct Text {
    template <class Save>
    Text(Index snapshots, const Save& save) : states(snapshots, save) {}

    detail::KeptStates<Snapshot> states;
    std::vector<Token> tokens;  // the context
    Index cached = unknown;     // how many of its tokens make the model's state, if these do

    Index size() const { return std::ssize(tokens); }
  };

 public:
  explicit Replayed(M&& model, const ReplayedOptions& options = {})
      : Base(std::forward<M>(model)), options_(checked(options)) {
    // Later somebody else may have used the model.
    if constexpr (!for_many) text_of(0);
  }

  /// What the model alone was fed with is not known here.
  static constexpr bool keeps_context = true;

 private:
  decltype(auto) forward_feeds(std::span<const BatchFeed> feeds) {
    for (std::size_t k = 0; k < feeds.size(); ++k) {
      const Text* const text = texts_.find(feeds[k].sequence);
      const detail::FeedCheck<for_many> check{feeds[k], k};
      check.from(text == nullptr ? 0 : text->size());
      check.rows();
    }
    try {
      for (const BatchFeed& feed : feeds) enter(feed);
      if (begin_call_ahead(feeds)) run();
      begin_call(feeds);
      return run();
    } catch (...) {
      for (const BatchFeed& feed : feeds) keep_length(feed.sequence, feed.from);
      throw;
    }
  }

  void keep_length(Index sequence, Index length) {
    Text* const text = texts_.find(sequence);
    if (text == nullptr) return;
    length = std::clamp<Index>(length, 0, text->size());
    if (text->cached > length) text->cached = unknown;
    text->tokens.resize(static_cast<std::size_t>(length));
    text->states.forget_beyond(length);
  }

  void forget(Index sequence) {
    this->inner().release(sequence);
    texts_.erase(sequence);
  }

  static const ReplayedOptions& checked(const ReplayedOptions& options) {
    if (options.snapshots < 1) detail::invalid_argument("snapshots = ", options.snapshots, " is less than 1");
    if (options.carried < 0) detail::invalid_argument("carried = ", options.carried, " is negative");
    return options;
  }

  void save([[maybe_unused]] Index sequence, Snapshot& snapshot) {
    if constexpr (for_many) this->inner().model().save(sequence, snapshot);
    else this->inner().model().save(snapshot);
  }
  void restore([[maybe_unused]] Index sequence, const Snapshot& snapshot) {
    if constexpr (for_many) this->inner().model().restore(sequence, snapshot);
    else this->inner().model().restore(snapshot);
  }
  auto saving(Index sequence) {
    return [this, sequence](Snapshot& snapshot) { save(sequence, snapshot); };
  }

  Text& text_of(Index sequence) { return texts_.make(sequence, options_.snapshots, saving(sequence)); }

  void enter(const BatchFeed& feed) {
    Text& text = text_of(feed.sequence);
    text.tokens.insert(text.tokens.end(), feed.tokens.begin(), feed.tokens.end());
    if (text.cached != unknown) return;
    restore(feed.sequence, text.states.latest());
    text.cached = text.states.latest_length();
  }

  // A call of what comes before the rows that are wanted, where that is much. False where it is not.
  bool begin_call_ahead(std::span<const BatchFeed> feeds) {
    call_.clear();
    for (const BatchFeed& feed : feeds) {
      const Text& text = texts_.at(feed.sequence);
      const Index unwanted = text.size() - feed.rows - text.cached;
      if (feed.rows > 0 && unwanted > options_.carried) add(feed.sequence, text, unwanted, 0);
    }
    return !call_.empty();
  }

  // A call of the rest, with all rows.
  void begin_call(std::span<const BatchFeed> feeds) {
    call_.clear();
    for (const BatchFeed& feed : feeds) {
      const Text& text = texts_.at(feed.sequence);
      add(feed.sequence, text, text.size() - text.cached, feed.rows);
    }
  }

  void add(Index sequence, const Text& text, Index count, Index rows) {
    const auto tokens = std::span<const Token>(text.tokens)
                            .subspan(static_cast<std::size_t>(text.cached), static_cast<std::size_t>(count));
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
  detail::PerSequence<Text, for_many> texts_;
  std::vector<BatchFeed> call_;
};

template <class M>
Replayed(M&&) -> Replayed<M>;
template <class M>
Replayed(M&&, ReplayedOptions) -> Replayed<M>;

}  // namespace specdec
