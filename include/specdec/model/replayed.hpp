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
#include "specdec/model/model.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// A language model that remembers its context in a state of fixed size, which no token can be taken out of again:
///
///   vocab_size()            number of tokens
///   forward(tokens, rows)   takes `tokens` in, and returns what Model returns, that lives until the next
///                           call of forward(). After a throw the state may be any.
///   Snapshot                a type whose values hold a state. A new one holds any.
///   save(snapshot)          makes `snapshot` hold the present state, which stays as it is, also after a throw. In memory
///                           that `snapshot` has already, if it can: then nothing is allocated in steady state.
///   restore(snapshot)       makes the state the one that was saved, from whatever it is. After a throw it may be any.
template <class M>
concept RecurrentModel = std::default_initializable<typename M::Snapshot> &&
                         requires(M& model, const M& constant, std::span<const Token> tokens, Index n,
                                  typename M::Snapshot& snapshot, const typename M::Snapshot& saved) {
                           { constant.vocab_size() } -> detail::Count;
                           model.forward(tokens, n);
                           model.save(snapshot);
                           model.restore(saved);
                         };

/// How Replayed goes about it.
struct ReplayedOptions {
  /// How many states are kept at once, beside that of the empty context; at least 1. Of a target one is enough. For a
  /// draft model of γ calls nothing is fed again where it is 2γ − 3 or more: the default will do up to γ = 5.
  Index snapshots = 8;
  /// How many tokens a call takes in, at most, in front of those whose rows are wanted; if there are more, they get a
  /// call of their own, behind which the state is kept. With b tokens emitted a step, and calls that cost what r more
  /// tokens in them cost, √(2br) costs least: the default is for r of about 40.
  Index carried = 16;
};

namespace detail {

/// States of a model by the length of its context, of which that of the empty one is there forever. The rest is for the
/// latest half the latest there were, and for the other half such that gaps are the wider the older they are: then
/// the way back from any of them costs little, and from a recent one nothing.
template <class Snapshot>
class KeptStates {
 public:
  /// For so many states beside that of the empty context, which `save` writes into a snapshot.
  template <class Save>
  KeptStates(Index most, const Save& save) : most_(static_cast<std::size_t>(most)) {
    add(0, save);
  }

  /// Keeps the present state, of a context of that length, none being kept of a longer one.
  template <class Save>
  void keep(Index length, const Save& save) {
    if (marks_[used_ - 1].length == length) return;
    if (used_ > most_) drop(length);
    add(length, save);
  }

  void forget_behind(Index length) {
    while (marks_[used_ - 1].length > length) --used_;
  }

  Index latest_length() const { return marks_[used_ - 1].length; }
  const Snapshot& latest() const { return states_[marks_[used_ - 1].slot]; }

 private:
  struct Mark {
    Index length;
    std::size_t slot;
  };

  template <class Save>
  void add(Index length, const Save& save) {
    if (used_ == states_.size()) {
      marks_.reserve(used_ + 1);
      states_.emplace_back();
      marks_.push_back({0, used_});
    }
    save(states_[marks_[used_].slot]);
    marks_[used_++].length = length;
  }

  // Before one of length `now` is added: the older one without which a way back gets longer by the least part of itself.
  void drop(Index now) {
    const auto longer_by = [&](std::size_t i) {
      const Index next = i + 1 < used_ ? marks_[i + 1].length : now, previous = marks_[i - 1].length;
      return static_cast<double>(next - previous) / static_cast<double>(now - previous);
    };
    const std::size_t latest = (most_ + 1) / 2 - 1;  // which stay
    std::size_t least = 1;
    for (std::size_t i = 2; i < used_ - latest; ++i)
      if (longer_by(i) < longer_by(least)) least = i;
    const auto dropped = marks_.begin() + static_cast<std::ptrdiff_t>(least);
    std::rotate(dropped, dropped + 1, marks_.begin() + static_cast<std::ptrdiff_t>(used_));
    --used_;
  }

  std::size_t most_, used_ = 0;
  std::vector<Snapshot> states_;
  std::vector<Mark>
      marks_;  // one for each state: those in use, the shortest context first, and then the rest
};

}  // namespace detail

/// Makes a Model of a RecurrentModel: truncate() only notes how much is kept, and the next forward() goes back to a
/// state that was kept before, and takes in what follows it of the context together with its own tokens.
///
///   Replayed target{model};
///   Replayed draft{model, {.snapshots = 4}};
///   ProcessedModel target{Replayed{engine}, Chain{Temperature{0.8}}};    // where the calls return logits
///
/// Returns what the model returns, as long-lived. The state is kept before every call of the model, and tokens whose
/// rows nobody asked for are taken in before the others where they are many: so what is rejected of a draft costs the
/// tokens of the draft that were accepted once more, and the prompt is taken in once. Not so where the context is cut
/// back by more than the latest calls took in: then what follows the next older state is taken in again, if need be all.
/// A model passed as an lvalue is referred to and must outlive this; an rvalue is moved in. Give it with an empty
/// context. Those who refer to one model take turns: whoever takes over says truncate(0) first.
/// Throws: std::invalid_argument on options out of range, and on rows outside 1..tokens.size(); what the model throws. After
/// a throw of forward() the context is as before.
/// Cost: for a call that wants rows a call of the model, with up to ReplayedOptions::carried tokens more, or two of them;
/// a save() before each, and a restore() after a truncate(). Memory: a state for each snapshot that was ever needed, and
/// the tokens of the context. No allocation in steady state.
/// Example: examples/no_way_back.cpp.
template <class M>
class Replayed {
  using Bare = std::remove_reference_t<M>;
  static_assert(RecurrentModel<Bare>,
                "the model is no specdec::RecurrentModel: it has vocab_size(), forward(tokens, rows), a type "
                "Snapshot, save(snapshot) and restore(snapshot)");

 public:
  explicit Replayed(M&& model, const ReplayedOptions& options = {})
      : model_(std::forward<M>(model)),
        carried_(checked(options).carried),
        snapshots_(options.snapshots, saving()) {}

  Index vocab_size() const { return model_.vocab_size(); }
  Index context_size() const { return specdec::context_size(model_); }

  /// What the model alone was fed with is not known here.
  static constexpr bool keeps_context = true;

  /// The model, where others may refer to it, too.
  const void* identity() const
    requires detail::MayBeShared<M>
  {
    return detail::identity(model_);
  }

  decltype(auto) forward(std::span<const Token> tokens, Index rows) & {
    if (rows < 1 || rows > std::ssize(tokens))
      detail::invalid_argument("rows = ", rows, " is outside 1..", tokens.size(), ", the number of tokens");
    const Index length = std::ssize(text_);
    text_.insert(text_.end(), tokens.begin(), tokens.end());
    try {
      if (taken_in_ == unknown) go_back();
      const Index unwanted = std::ssize(text_) - rows - taken_in_;
      if (unwanted > carried_) run(unwanted, 1);
      return run(std::ssize(text_) - taken_in_, rows);
    } catch (...) {
      truncate(length);
      throw;
    }
  }

  void truncate(Index length) {
    length = std::clamp<Index>(length, 0, std::ssize(text_));
    if (taken_in_ > length) taken_in_ = unknown;
    text_.resize(static_cast<std::size_t>(length));
    snapshots_.forget_behind(length);
  }

 private:
  static constexpr Index unknown = -1;

  static const ReplayedOptions& checked(const ReplayedOptions& options) {
    if (options.snapshots < 1) detail::invalid_argument("snapshots = ", options.snapshots, " is less than 1");
    if (options.carried < 0) detail::invalid_argument("carried = ", options.carried, " is negative");
    return options;
  }

  auto saving() {
    return [this](typename Bare::Snapshot& snapshot) { model_.save(snapshot); };
  }

  void go_back() {
    model_.restore(snapshots_.latest());
    taken_in_ = snapshots_.latest_length();
  }

  // The next of the tokens, in one call.
  decltype(auto) run(Index count, Index rows) {
    snapshots_.keep(taken_in_, saving());
    const Index first = std::exchange(taken_in_, unknown);
    decltype(auto) output =
        model_.forward(std::span<const Token>(text_).subspan(static_cast<std::size_t>(first),
                                                             static_cast<std::size_t>(count)),
                       rows);
    taken_in_ = first + count;
    return output;
  }

  M model_;
  Index carried_;
  detail::KeptStates<typename Bare::Snapshot> snapshots_;
  std::vector<Token> text_;   // the context
  Index taken_in_ = unknown;  // how many of its tokens make the model's state, if these do
};

template <class M>
Replayed(M&&) -> Replayed<M>;
template <class M>
Replayed(M&&, ReplayedOptions) -> Replayed<M>;

}  // namespace specdec
