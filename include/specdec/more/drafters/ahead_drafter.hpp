// Drafts the next draft while the target verifies the last one.
// Source: speculative speculative decoding, arXiv:2603.03251; PEARL, arXiv:2408.11850.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/philox.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/executor.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

/// A row that all tokens below 2^30 share.
struct RowOfBits {
  Index vocab_size() const { return Index{1} << 30; }
  double probability(Token) const { return 0x1p-30; }
  auto sampler() const {
    return [](double u) { return static_cast<Token>(u * 0x1p30); };
  }
};

}  // namespace detail

/// The random numbers of drafts made in advance, unless others are given: each draft of a step has a stream of its own.
/// numbers(seed, draft, position) returns a source of chance by value, or by reference one that serves all.
struct AheadNumbers {
  Philox operator()(std::uint64_t seed, Index outcome, Index) const {
    return Philox{seed, 0, static_cast<std::uint64_t>(outcome)};
  }
};

/// While the target's call is out, draft_ahead() drafts for the likeliest outcomes of the verification: k accepted tokens, then a
/// token Y. If the text goes on so, its next draft is there (a hit); else it is made then (a miss).
///
///   Batch batch{engine, AheadDrafter{ModelDrafter{many_small}, 4}};
///   const auto feeds = batch.propose();
///   // start the engine's call, on other cores or a device
///   batch.draft_ahead();
///   batch.accept(rows);                          // the rows of the call
///
/// `outcomes`: for how many outcomes of a text. For k below the draft's length Y is among the likeliest tokens of the draft's row
/// without the drafted one; at its end, of the row after the draft. Each next Y counts half as much, and k by how often the places of
/// the text's drafts were accepted so far.
///
/// The drafter inside drafts lines. It is a Drafter, or a drafter of one text that can be copied. It knows the drafts of text n by the
/// numbers n · (outcomes + 1) and following ones, which limits n, and functions of a text's number are asked for these. A model inside has a context for
/// each. A draft in advance has the limits of the draft before it, and asks no keep_drafting. It is no hit where these are too large.
/// The text has the law that it has without this: its rows are those that its tokens were drawn from, by numbers that decide nothing
/// else. For a seed it is another text, which depends on when draft_ahead() is called, not on other texts.
/// Throws: InvalidArgument if outcomes is below 1, or copies of a drafter of one text would share a model; what the drafter throws. An
/// error about a draft in advance is its text's error if it is a hit.
/// Random: two draws for a seed; without a hit, then the draws of the drafter. A keyed source needs `numbers` that give it at its position:
/// AheadDrafter{drafter, 4, [=](std::uint64_t, Index, Index position) { ... }}.
/// Cost: two drafts of the drafter in draft_ahead(), for all texts and outcomes together. Each draft's context is copied and compared.
/// Example: examples/write/draft_ahead.cpp; where it gains: examples/write/drafters.md
template <class D, class Numbers = AheadNumbers>
class AheadDrafter {
  static_assert(detail::fits_drafter<D>());
  using Inner = std::remove_reference_t<detail::Lift<D>>;
  static_assert(!specdec::drafts_trees<Inner>,
                "the drafter drafts trees, and drafts in advance are lines (a drafter of lines says "
                "drafts_trees = false)");
  using Given = std::invoke_result_t<Numbers&, std::uint64_t, Index, Index>;
  using Source = std::remove_reference_t<Given>;

  // A draft, made or in the making.
  struct Slot {
    std::vector<Token> context = {};
    bool ahead = false;                  // it was made in advance, and the text has not gone back since
    Index length = 0;                    // how long it might have been
    Index valid = unlimited;             // how many tokens of the text the drafter may keep
    std::exception_ptr error = nullptr;  // of a draft in advance
  };
  struct Text {
    std::vector<Slot> places;
    std::size_t current = 0;    // the slot of the text's draft
    bool wants = false;         // the draft is being judged, and nothing was drafted for after it
    bool looked_after = false;  // the row after the draft is known
    Index size = 0;             // of the context
    DraftLimits limits = {};
    std::uint64_t seed = 0;
    std::vector<double> reached = {}, accepted = {};  // how often each place of a draft was

    Slot& slot() { return places[current]; }
    std::size_t other() const { return current == 0 ? 1 : 0; }
  };
  struct Outcome {
    Index accepted;
    Token token;
    double weight;
  };

 public:
  static constexpr bool drafts_trees = false, steady = is_steady<Inner>;

  AheadDrafter(D&& drafter, Index outcomes, Numbers numbers = {})
      : inner_(std::forward<D>(drafter)), numbers_(std::move(numbers)), slots_(outcomes + 1) {
    if (outcomes < 1) detail::invalid_argument("outcomes = ", outcomes, " is below 1");
  }

  void serve_one() const { check_copies(); }
  void check_copies() const { detail::check_copies(inner_); }

  template <class Request, Executor E = InOrder>
  void draft(std::span<Request> requests, E&& for_each = {}) & {
    std::size_t missed = 0;
    for (Request& request : requests) {
      request.error = detail::error_of([&] { begin(request); });
      if (!request.error && !finds(request)) std::swap(requests[missed++], request);
    }
    const auto misses = requests.first(missed);
    for (Request& request : misses)
      request.sequence = go_on(request.sequence, text_of(request.sequence).current, request.context);
    const auto rename = [&] {
      for (Request& request : misses) request.sequence /= slots_;
    };
    detail::undo_on_error([&] { detail::draft_with(inner_, misses, for_each); }, rename);
    rename();
    for (const Request& request : requests)
      if (!request.error) text_of(request.sequence).wants = request.limits.length() > 0;
  }

  /// Drafts for outcomes of all drafts that are being judged. Call it between propose() and accept(), through the Sequence or
  /// the Batch. The target may run on other threads meanwhile.
  template <Executor E = InOrder>
  void draft_ahead(E&& for_each = {}) {
    requests_.clear();
    for (auto& [sequence, text] : texts_)
      if (text.wants) look_after(sequence, text);
    draft_all(true, for_each);
    for (const auto& request : requests_)
      texts_.find(request.sequence / slots_)->second.looked_after = !request.error;
    requests_.clear();
    for (auto& each : texts_)  // an error about a row of a text's draft is told where that is judged
      if (each.second.wants) detail::error_of([&] { look_ahead(each.first, each.second); });
    draft_all(false, for_each);
    for (const auto& request : requests_) {
      Slot& slot = slot_of(request.sequence);
      slot.ahead = true;
      slot.length = request.limits.length();
      slot.error = request.error;
    }
    for (auto& [sequence, text] : texts_) text.wants = false;
  }

  auto drafted(Index sequence) const {
    return std::as_const(inner_).drafted(number_of(sequence, texts_.find(sequence)->second.current));
  }

  /// What a draft in advance has cached stays until the next draft: it may be a hit.
  void keep(Index sequence, Index length) {
    const auto found = texts_.find(sequence);
    if (found == texts_.end()) return;
    Text& text = found->second;
    text.wants = false;
    for (std::size_t s = 0; s < text.places.size(); ++s) {
      Slot& slot = text.places[s];
      slot.ahead = slot.ahead && length >= text.size;
      if (slot.ahead) slot.valid = std::min(slot.valid, length);
      else inner_.keep(number_of(sequence, s), length);
    }
  }
  void release(Index sequence) {
    for (std::size_t s = 0; texts_.contains(sequence) && s < static_cast<std::size_t>(slots_); ++s)
      inner_.release(number_of(sequence, s));
    texts_.erase(sequence);
  }

  template <class Rows>
  void observe(Index sequence, const Judged<Rows>& judged) {
    Text& text = text_of(sequence);
    const Index gamma = std::ssize(judged.tokens);
    if (std::ssize(text.reached) < gamma) {
      detail::resize(text.reached, gamma);
      detail::resize(text.accepted, gamma);
    }
    for (Index i = 0; i < std::min(judged.verdict.node + 1, gamma); ++i) {
      ++detail::at(text.reached, i);
      if (i < judged.verdict.node) ++detail::at(text.accepted, i);
    }
    detail::tell_drafter(inner_, number_of(sequence, text.current), judged);
  }

  /// How many drafts were there when they were asked for, and how many were asked for.
  Index hits() const { return hits_; }
  Index drafts() const { return drafts_; }

  std::vector<const void*> identities() const { return detail::shared_identities<detail::Lift<D>>(inner_); }

 private:
  Index number_of(Index sequence, std::size_t slot) const {
    return sequence * slots_ + static_cast<Index>(slot);
  }
  Text& text_of(Index sequence) {
    Text& text = texts_[sequence];
    text.places.resize(static_cast<std::size_t>(slots_));
    return text;
  }
  std::span<const Token> tokens_of(Index sequence, const Text& text) const {
    return inner_.drafted(number_of(sequence, text.current)).tokens;
  }
  Slot& slot_of(Index number) {
    return detail::at(texts_.find(number / slots_)->second.places, number % slots_);
  }

  template <class Request>
  void begin(const Request& request) {
    if (const Index most = std::numeric_limits<Index>::max() / slots_ - 1; request.sequence > most)
      detail::invalid_argument("sequence ", request.sequence, ": an AheadDrafter of ", slots_ - 1,
                               " outcomes takes numbers up to ", most);
    Text& text = text_of(request.sequence);
    text.wants = false;
    text.size = std::ssize(request.context);
    text.limits = request.limits;
    if constexpr (std::same_as<Numbers, AheadNumbers>) {
      auto&& chance = as_chance(*request.source);
      static_assert(!is_keyed<decltype(chance)>,
                    "drafts in advance need keyed numbers at their places: see the third argument of "
                    "specdec::AheadDrafter");
      text.seed = 0;
      for (int half = 0; half < 2; ++half)
        text.seed = text.seed << 30 | static_cast<std::uint64_t>(chance.draw(detail::RowOfBits{}));
    }
  }

  // Whether the draft was made in advance. Whether it is taken must not depend on its tokens.
  template <class Request>
  bool finds(Request& request) {
    Text& text = text_of(request.sequence);
    const Index length = request.limits.length();
    const auto hits = [&](const Slot& slot) {  // equal tokens do not tell that what is cached is text
      return slot.ahead && slot.valid >= text.size - 1 &&
             (request.limits.fixed ? slot.length == length : slot.length <= length) &&
             std::ranges::equal(slot.context, request.context);
    };
    const auto found = std::ranges::find_if(text.places, hits);
    for (Slot& slot : text.places) slot.ahead = slot.ahead && &slot == std::to_address(found);
    ++drafts_;
    if (found == text.places.end()) return false;
    ++hits_;
    text.current = static_cast<std::size_t>(found - text.places.begin());
    found->valid = unlimited;  // what it has cached is text
    request.error = std::exchange(found->error, nullptr);
    if (request.error) found->ahead = false;
    return true;
  }

  // The slot is for a draft after this context from here on. Returns the drafter's number for it.
  Index go_on(Index sequence, std::size_t s, std::span<const Token> context) {
    Slot& slot = text_of(sequence).places[s];
    const Index common = detail::common_length(slot.context, context);
    const Index valid = common < std::ssize(slot.context) ? common : unlimited;
    inner_.keep(number_of(sequence, s), std::min(std::exchange(slot.valid, unlimited), valid));
    slot.context.assign(context.begin(), context.end());
    return number_of(sequence, s);
  }

  // Asks for a draft after the first `accepted` drafted tokens and perhaps another token.
  void ask(Index sequence, Text& text, std::size_t s, const Outcome& outcome, Index length) {
    context_ = text.slot().context;
    detail::append(context_, detail::first(tokens_of(sequence, text), outcome.accepted));
    if (outcome.token >= 0) context_.push_back(outcome.token);
    DraftLimits limits = text.limits;
    limits.nodes = limits.depth = length;
    limits.stops_from -= std::ssize(context_) - text.size;
    const Index number = go_on(sequence, s, detail::view_of(context_));
    requests_.push_back(
        {.sequence = number, .context = detail::view_of(text.places[s].context), .limits = limits});
  }

  // Asks for the row after the draft.
  void look_after(Index sequence, Text& text) {
    const std::span<const Token> drafted = tokens_of(sequence, text);
    const Index gamma = std::ssize(drafted);
    text.looked_after = false;
    for (Index k = 0; k < gamma; ++k)
      if (text.limits.ends_at(detail::at(drafted, k), k)) return;
    ask(sequence, text, text.other(), {gamma, -1, 0}, 1);
  }

  void look_ahead(Index sequence, Text& text) {
    const auto draft = drafted(sequence);
    const Index gamma = std::ssize(draft.tokens);
    guesses_.clear();
    double reached = 1;
    for (Index k = 0; k < gamma; ++k) {
      const double accepted = rate(text, k);
      guess(text, draft.rows.row(k), k, detail::at(draft.tokens, k), reached * (1 - accepted));
      if (text.limits.ends_at(detail::at(draft.tokens, k), k)) break;  // what follows it is in vain
      reached *= accepted;
    }
    if (text.looked_after)
      if (const auto more = inner_.drafted(number_of(sequence, text.other())); !more.tokens.empty())
        guess(text, more.rows.row(0), gamma, -1, reached);
    std::size_t s = 0;
    for (std::size_t i = 0; i < guesses_.size() && s < text.places.size(); ++i, ++s) {
      if (s == text.current && ++s == text.places.size()) break;
      ask(sequence, text, s, guesses_[i], text.limits.length());
    }
  }
  // The likeliest tokens of a row, without the one that was drafted.
  void guess(const Text& text, const auto& row, Index k, Token drafted, double weight) {
    for (const TopToken& top : top_.of(row, slots_)) {
      if (top.token == drafted || text.limits.ends_at(top.token, k)) continue;
      const auto place = std::ranges::upper_bound(guesses_, weight, std::greater{}, &Outcome::weight);
      guesses_.insert(place, {k, top.token, weight});
      weight /= 2;
    }
  }
  // How often place k of a draft is accepted. Before it is known: 7 of 10.
  static double rate(const Text& text, Index k) {
    if (k >= std::ssize(text.reached)) return 0.7;
    return (detail::at(text.accepted, k) + 1.4) / (detail::at(text.reached, k) + 2);
  }

  // Makes the drafts that were asked for, each with the random numbers of its slot, or for the row after a draft.
  template <class E>
  void draft_all(bool after, E& for_each) {
    sources_.clear();
    sources_.reserve(requests_.size());
    for (auto& request : requests_) {
      const std::uint64_t seed = texts_.find(request.sequence / slots_)->second.seed;
      const Index outcome = after ? 0 : request.sequence % slots_ + 1, position = std::ssize(request.context);
      if constexpr (std::is_lvalue_reference_v<Given>) request.source = &numbers_(seed, outcome, position);
      else request.source = &sources_.emplace_back(numbers_(seed, outcome, position));
    }
    detail::draft_with(inner_, std::span(requests_), for_each);
  }

  detail::Lift<D> inner_;
  Numbers numbers_;
  Index slots_;  // of a text
  Index hits_ = 0, drafts_ = 0;
  std::unordered_map<Index, Text> texts_;
  TopTokens top_;
  std::vector<Outcome> guesses_;  // the likeliest first
  std::vector<Token> context_;
  std::vector<DraftRequest<Source>> requests_;
  std::vector<Source> sources_;
};

template <class D>
AheadDrafter(D&&, Index) -> AheadDrafter<D>;
template <class D, class Numbers>
AheadDrafter(D&&, Index, Numbers) -> AheadDrafter<D, Numbers>;

}  // namespace specdec
