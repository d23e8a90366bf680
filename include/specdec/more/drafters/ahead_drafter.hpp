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
#include "specdec/more/drafters/past_dead_ends.hpp"
#include "specdec/parents.hpp"
#include "specdec/rows/distribution.hpp"
#include "specdec/rows/read/top_tokens.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The random numbers of drafts made in advance, unless others are given: each draft of a step has a stream of its own.
/// numbers(seed, draft, position) returns a source of chance by value, or by reference one that serves all.
struct AheadNumbers {
  Philox operator()(std::uint64_t seed, Index outcome, Index) const {
    return Philox{seed, 0, static_cast<std::uint64_t>(outcome)};
  }
};

/// While the target's call is out, draft_ahead() drafts for the likeliest outcomes of the verification: a node of the draft where the
/// accepted path ends, then a token Y. If the text goes on so, its next draft is there (a hit); else it is made then (a miss).
///
///   Batch batch{engine, AheadDrafter{ModelDrafter{many_small}, 4}};
///   const auto feeds = batch.propose();
///   // start the engine's call, on other cores or a device
///   batch.draft_ahead();
///   batch.accept(rows);                          // the rows of the call
///
/// `outcomes`: for how many outcomes of a text. Y is among the likeliest tokens of the rows of the node's children, without these
/// children; after the first path (of eldest children), of a draft of its next token. Nothing is guessed after other leaves, nor where
/// all children were chosen. Each next Y counts half as much, and a node by how often tokens of its numbers were accepted in the text.
///
/// The drafter inside, of lines or of trees, is a Drafter, or a drafter of one text that can be copied. It knows the drafts of text n
/// by the numbers n · (outcomes + 1) and following ones, which limits n, and functions of a text's number are asked for these. A model
/// inside has a context for each. A draft in advance has the limits of the draft before it (a tree, the depth that is then left), and
/// asks no keep_drafting: a draft length that reads rows finds no readings of a hit. It is no hit where these are too large, or of a
/// tree too small. A head on the target's hidden states (HeadModel, EagleModel) would look for those of another text: put none
/// inside. A fork begins with a copy of what the drafter inside can copy.
/// The text has the law that it has without this: its rows are those that its tokens were drawn from, by numbers that decide nothing
/// else. For a seed it is another text, which depends on when draft_ahead() is called, not on other texts.
/// Throws: InvalidArgument if outcomes is below 1, or copies of a drafter of one text would share a model; what the drafter throws. An
/// error about a draft in advance is its text's error if it is a hit.
/// Random: two draws for a seed; without a hit, then the draws of the drafter. A keyed source needs `numbers` that give it at its position:
/// AheadDrafter{drafter, 4, [=](std::uint64_t, Index, Index position) { ... }}.
/// Cost: two drafts of the drafter in draft_ahead(), for all texts and outcomes together, and a pass over each row of the text's
/// drafts. Each draft's context is copied and compared.
/// Example: examples/write/draft_ahead.cpp; where it gains: examples/write/drafters.md
template <class D, class Numbers = AheadNumbers>
class AheadDrafter {
  static_assert(detail::fits_drafter<D>());
  using Inner = std::remove_reference_t<detail::Lift<D>>;
  using Given = std::invoke_result_t<Numbers&, std::uint64_t, Index, Index>;
  using Source = std::remove_reference_t<Given>;

  // A draft, made or in the making.
  struct Slot {
    std::vector<Token> context = {};
    bool ahead = false;                  // it was made in advance, and the text has not gone back since
    DraftLimits limits = {};             // how large it might have been
    Index valid = unlimited;             // how many tokens of the text the drafter may keep
    std::exception_ptr error = nullptr;  // of a draft in advance
  };
  // How often a drafted token of some number was judged, and accepted. Before it is known: 7 of 10.
  struct Counts {
    double reached = 0, accepted = 0;
    double rate() const { return (accepted + 1.4) / (reached + 2); }
  };
  // A node of a draft: 0 is the context, k + 1 stands after token k.
  struct Node {
    double weight = 1;  // how probably the accepted path ends here
    Index depth = 0, children = 0;
  };
  struct Text {
    std::vector<Slot> places;
    std::size_t current = 0;  // the slot of the text's draft
    bool wants = false;       // the draft is being judged, and nothing was drafted for after it
    Index leaf = -1;          // the end of the first path, if the row after it is known
    Index size = 0;           // of the context
    DraftLimits limits = {};
    std::uint64_t seed = 0;
    std::vector<Counts> counts = {};
    std::vector<Node> nodes = {};  // of the draft

    Slot& slot() { return places[current]; }
    std::size_t other() const { return current == 0 ? 1 : 0; }
  };
  struct Outcome {
    Index node;
    Token token;
    double weight;
  };

 public:
  static constexpr bool drafts_trees = specdec::drafts_trees<Inner>, steady = is_steady<Inner>;

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
      if (request.error) text_of(request.sequence / slots_).leaf = -1;
    requests_.clear();
    for (auto& each : texts_)  // an error about a row of a text's draft is told where that is judged
      if (each.second.wants) detail::error_of([&] { look_ahead(each.first, each.second); });
    draft_all(false, for_each);
    for (const auto& request : requests_) {
      Slot& slot = detail::at(text_of(request.sequence / slots_).places, request.sequence % slots_);
      slot.ahead = true;
      slot.limits = request.limits;
      slot.error = request.error;
    }
    for (auto& [sequence, text] : texts_) text.wants = false;
  }

  decltype(auto) drafted(Index sequence) const {
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
    std::vector<Counts>& counts = text_of(sequence).counts;
    const TokenTreeView draft{judged.tokens, judged.parents};
    if (std::ssize(counts) < draft.size()) detail::resize(counts, draft.size());
    for (Index end = judged.verdict.node - 1, child = -1;; child = std::exchange(end, draft.parent(end))) {
      for (Index k = draft.next_child(end, end); k >= 0; k = k == child ? -1 : draft.next_child(end, k)) {
        ++detail::at(counts, k).reached;
        if (k == child) ++detail::at(counts, k).accepted;
      }
      if (end < 0) break;
    }
    detail::tell_drafter(inner_, current_of(sequence), judged);
  }

  void fork(Index from, Index to) {
    Slot &slot = text_of(from).slot(), &twin = text_of(to).slot();
    twin.context = slot.context;
    twin.valid = slot.valid;  // what it has cached beyond is no text
    detail::fork_state(inner_, current_of(from), current_of(to));
  }
  void fork_context(Index from, Index to, Index length) {
    detail::fork_draft_context(inner_, current_of(from), current_of(to),
                               std::min(length, text_of(from).slot().valid));
  }

  /// How many drafts were there when they were asked for, and how many were asked for.
  Index hits() const { return hits_; }
  Index drafts() const { return drafts_; }

  std::vector<const void*> identities() const { return detail::shared_identities<detail::Lift<D>>(inner_); }

 private:
  Index number_of(Index sequence, std::size_t slot) const {
    return sequence * slots_ + static_cast<Index>(slot);
  }
  Index current_of(Index sequence) { return number_of(sequence, text_of(sequence).current); }
  Text& text_of(Index sequence) {
    if (const Index most = std::numeric_limits<Index>::max() / slots_ - 1; sequence > most)
      detail::invalid_argument("sequence ", sequence, ": an AheadDrafter of ", slots_ - 1,
                               " outcomes takes numbers up to ", most);
    Text& text = texts_[sequence];
    text.places.resize(static_cast<std::size_t>(slots_));
    return text;
  }
  TokenTreeView tree_of(Index sequence) const {
    const auto& draft = drafted(sequence);
    return {draft.tokens, detail::parents_of(draft)};
  }

  template <class Request>
  void begin(const Request& request) {
    Text& text = text_of(request.sequence);
    text.wants = false;
    text.size = std::ssize(request.context);
    text.limits = request.limits;
    if constexpr (std::same_as<Numbers, AheadNumbers>) {
      auto&& chance = as_chance(*request.source);
      static_assert(!is_keyed<decltype(chance)>,
                    "drafts in advance need keyed numbers at their places: see the third argument of "
                    "specdec::AheadDrafter");
      const detail::UniformRow thirty_bits(Index{1} << 30);
      text.seed = 0;
      for (int half = 0; half < 2; ++half)
        text.seed = text.seed << 30 | static_cast<std::uint64_t>(chance.draw(thirty_bits));
    }
  }

  // Whether the draft was made in advance. Whether it is taken must not depend on its tokens.
  template <class Request>
  bool finds(Request& request) {
    Text& text = text_of(request.sequence);
    const DraftLimits& limits = request.limits;
    const auto hits = [&](const Slot& slot) {  // equal tokens do not tell that what is cached is text
      const Index length = slot.limits.length();
      const bool fits = drafts_trees ? slot.limits.depth == limits.depth && slot.limits.nodes <= limits.nodes
                        : limits.fixed ? length == limits.length()
                                       : length <= limits.length();
      return slot.ahead && slot.valid >= text.size - 1 && fits &&
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

  // Asks for a draft after a node of the text's draft and a token, or for the row after a node.
  void ask(Index sequence, Text& text, std::size_t s, const Outcome& outcome) {
    const TokenTreeView draft = tree_of(sequence);
    context_ = text.slot().context;
    detail::each_back(draft, outcome.node - 1, [&](Index k) { context_.push_back(draft.token(k)); });
    std::reverse(context_.begin() + text.size, context_.end());
    if (outcome.token >= 0) context_.push_back(outcome.token);
    const Index grown = std::ssize(context_) - text.size;
    DraftLimits limits = text.limits;
    limits.stops_from -= grown;
    if (outcome.token < 0) limits.nodes = slots_ - 1, limits.depth = 1;
    else limits.depth = depth_after(limits, grown);
    const Index number = go_on(sequence, s, detail::view_of(context_));
    requests_.push_back(
        {.sequence = number, .context = detail::view_of(text.places[s].context), .limits = limits});
  }

  // How deep a tree may be when the text has grown by so many tokens.
  static Index depth_after(const DraftLimits& limits, Index grown) {
    return drafts_trees && limits.depth != unlimited ? limits.depth - grown : limits.depth;
  }

  // Weighs the nodes of a text's draft, and asks for the row after the first path. What follows a stop token is in vain.
  void look_after(Index sequence, Text& text) {
    const TokenTreeView draft = tree_of(sequence);
    text.nodes.assign(1, {});
    for (Index k = 0; k < draft.size(); ++k) {
      Node& above = detail::at(text.nodes, draft.parent(k) + 1);
      const double accepted =
          above.weight * (k < std::ssize(text.counts) ? detail::at(text.counts, k) : Counts()).rate();
      above.weight -= accepted;
      ++above.children;
      const bool ends = text.limits.ends_at(draft.token(k), above.depth);
      text.nodes.push_back({ends ? 0 : accepted, above.depth + 1});
    }
    Index leaf = -1;
    while (draft.next_child(leaf, leaf) >= 0) leaf = draft.next_child(leaf, leaf);
    text.leaf = detail::at(text.nodes, leaf + 1).weight > 0 ? leaf + 1 : -1;
    if (text.leaf >= 0) ask(sequence, text, text.other(), {text.leaf, -1, 0});
  }

  void look_ahead(Index sequence, Text& text) {
    guesses_.clear();
    const TokenTreeView tree = tree_of(sequence);
    const auto& draft = drafted(sequence);
    const auto& rows = distributions(draft.rows);
    for (Index k = 0; k < tree.size(); ++k) guess(text, tree, tree.parent(k) + 1, rows.row(k));
    if (text.leaf >= 0) {
      const auto& after = inner_.drafted(number_of(sequence, text.other()));
      const auto& rows_after = distributions(after.rows);
      for (Index k = 0; k < std::ssize(after.tokens); ++k) guess(text, tree, text.leaf, rows_after.row(k));
    }
    std::size_t s = 0;
    for (std::size_t i = 0; i < guesses_.size() && s < text.places.size(); ++i, ++s) {
      if (s == text.current && ++s == text.places.size()) break;
      ask(sequence, text, s, guesses_[i]);
    }
  }
  // The likeliest tokens of a row after node n, without its children.
  void guess(Text& text, TokenTreeView draft, Index n, const auto& row) {
    Node& node = detail::at(text.nodes, n);
    if (!(node.weight > 0) || depth_after(text.limits, node.depth + 1) < 1) return;
    for (const TopToken& top : top_.of(row, slots_ - 1 + node.children)) {
      const auto is_guessed = [&](const Outcome& one) { return one.node == n && one.token == top.token; };
      if (draft.child(n - 1, top.token) >= 0 || text.limits.ends_at(top.token, node.depth) ||
          std::ranges::any_of(guesses_, is_guessed))
        continue;
      const auto place = std::ranges::upper_bound(guesses_, node.weight, std::greater{}, &Outcome::weight);
      guesses_.insert(place, {n, top.token, node.weight});
      node.weight /= 2;
    }
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
