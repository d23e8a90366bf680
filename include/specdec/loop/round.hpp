// A round, for one text or for many: request, draft, offer, feed, weigh, learn, commit, roll back.
// Source: SPECDEC, Algorithm 3 of Sun et al., arXiv:2403.10444, for each text.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/length/draft_length.hpp"
#include "specdec/draft/lifted_drafter.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/loop/step.hpp"
#include "specdec/measure/step_record.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/uncopied.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verify_line.hpp"

namespace specdec::inline v0_2_0::detail {

/// A text in generation, and what a round knows of it, beside its source of chance and its draft length.
template <class Step>
struct Seat : Step {
  using Step::Step;

  Index number = 0;                              ///< what models and drafters know the text by
  DraftLimits asked = {.nodes = 0, .depth = 0};  ///< how large the next draft may be
  Feed next_feed = {};                           ///< what the target must be fed
  std::exception_ptr error = nullptr;            ///< what failed in this step, for this text
  std::span<const Token> last_emitted = {};      ///< the tokens of the last step
  Uncopied<int> in_flight = {};  ///< 1: next_feed is with the target; 2: and its rows have been judged
  bool in_parts = false;         ///< whether the target is fed the text in parts, before the next draft

  /// The most tokens of a draft.
  Index most() const { return this->options().gamma; }
  /// The tokens that next_feed follows.
  std::span<const Token> fed_after() const { return first(this->context(), next_feed.from); }
  /// How many tokens the target has not read, without the last one, which is fed with the next draft.
  Index unread() const { return std::ssize(this->context()) - 1 - this->kept(); }
  /// Takes the rows after a part's tokens, if they were wanted.
  template <class Rows>
  void tell_part(const Rows& rows) {
    if (const Index count = distributions(rows).rows(); count != next_feed.rows)
      invalid_argument("target has ", count, " rows, expected ", next_feed.rows,
                       ", one per token of the Feed");
    if (next_feed.rows > 0) this->tell_prompt(rows, this->kept());
  }
  /// The target has taken in a part.
  void part_is_fed() {
    Step::target_holds(this->kept() + std::ssize(next_feed.tokens));
    if (unread() == 0) target_holds(std::min(this->kept(), this->ruled_out()));
  }
  /// The next turn: this text, then `text`. Throws: as resume(), and InvalidArgument for a number that is no Token.
  void add_turn(TokenIds text, const Options& options) {
    const std::span<const Token> before = this->context();
    std::vector<Token> context(before.begin(), before.end());
    for (Index i = 0; i < text.size(); ++i) {
      context.push_back(static_cast<Token>(text[i]));
      if (context.back() != text[i]) invalid_argument("text[", i, "] = ", text[i], " is no token");
    }
    Options all = options;
    all.keys = this->options().keys;
    append(all.keys, options.keys);
    this->resume(TokenIds(context), std::move(all));
    in_parts = false;  // nothing throws from here on
  }
  /// Throws: see Sequence::change.
  void change(Options options) {
    if (this->done()) invalid_call("sequence ", number, " has ended: it goes on by add_turn()");
    Step::change(std::move(options));
  }
  /// Throws unless the text can have a twin, with other options or its own.
  void check_fork(bool other_options) const {
    if (this->shares_memory(other_options))
      invalid_call("sequence ", number,
                   " has begun under a rule that remembers it, so its forks would not be independent "
                   "samples: fork it before its first step, or use specdec::BlockVerifier");
  }
  /// This copy of a text goes on as its twin.
  void become_twin(Index twin, std::optional<Options> options) {
    number = twin;
    error = nullptr;
    last_emitted = {};
    Step::become_twin(std::move(options));
  }
  /// What has been generated of a text that is given up.
  Result cancelled() const {
    Result out = this->result();
    if (!this->done()) out.stop_reason = StopReason::callback;
    return out;
  }
  /// The target's context holds the first `length` tokens of the text, and no part is on its way.
  void target_holds(Index length) {
    in_parts = false;
    Step::target_holds(length);
  }
  void withdraw() {
    in_flight.value = 0;
    last_emitted = {};
    if (this->offers()) Step::withdraw();
    else Step::take_change();  // of a copy: the offer was not copied
  }
};

/// Takes texts through their steps. It holds the drafter, and calls neither the target nor any text's owner. These are, in
/// turn, the parts of a round; the owner chooses the seats.
///
///   request_of(seat, policy, source)   asks for a draft within seat.asked. A text that is to be fed a part of its prompt has none
///   draft(requests, for_each)          drafts for the requests, and offers each draft to its text
///                                      the owner calls the target with seat.next_feed, of one text or of many (Call)
///   weigh(seat, rows, source)          judges an offered draft, or notes a part; may run for several texts at a time; or take()
///   settle(seat, rows, policy)         tells drafter and draft length, commits, rolls back; text after text
///   keep_in(target, seat)              after all are settled
///
/// At any time withdraw(seat) takes back what was not settled. An error of one text goes into its seat.
template <class DraftSource, class V, class Policy, class O>
class Round {
 public:
  using Lifted = Lift<DraftSource>;
  using Drafter = std::remove_reference_t<Lifted>;
  using KeepDrafting = detail::KeepDrafting<Policy, remembers_sequence<V>>;
  using Draft = decltype(std::declval<const Drafter&>().drafted(Index{}));
  using Step = specdec::Step<V, Draft, drafts_trees<Drafter>, O>;
  using Seat = detail::Seat<Step>;
  /// Drafters may put requests in another order, so each knows its seat.
  template <class Source>
  struct Request : DraftRequest<Source, KeepDrafting> {
    Seat* seat = nullptr;
  };

  static_assert(suits<Drafter, std::remove_cvref_t<Draft>, V>());

  explicit Round(DraftSource&& drafter) : drafter_(std::forward<DraftSource>(drafter)) {}

  Drafter& drafter() { return drafter_; }
  const Drafter& drafter() const { return drafter_; }

  /// A request for the text's next draft, within seat.asked.
  template <class Source>
  static Request<Source> request_of(Seat& seat, Policy& policy, Source& source) {
    Request<Source> request;
    request.seat = &seat;
    request.sequence = seat.number;
    request.context = seat.context();
    request.limits = seat.asked;
    request.source = &source;
    stand_at(source, std::ssize(request.context));
    request.keep_drafting = {&policy, &seat.new_readings()};
    return request;
  }

  /// Drafts for all requests, and offers the drafts.
  /// Throws: what a drafter throws that fails for all requests. Nothing is offered then.
  template <class Request, class E>
  void draft(std::span<Request> requests, E& for_each) {
    const auto start = Clock::now();
    undo_on_error([&] { draft_with(drafter_, requests, for_each); },
                  [&] {
                    for (const Request& request : requests) keep_text(*request.seat);
                  });
    const std::chrono::nanoseconds time = Clock::now() - start;
    const Drafts all = drafts_of(requests);
    for (Request& request : requests) offer(*request.seat, request, time, all);
  }

  /// Judges the text's draft, or notes a part of its prompt, by its rows of the target call.
  template <class Rows, class Source>
  static void weigh(Seat& seat, const Rows& rows, Source& source) {
    seat.error = error_of([&] {
      if (!seat.offers()) return seat.tell_part(rows);
      auto&& chance = as_chance(source);
      seat.weigh(rows, chance);
    });
    seat.in_flight.value = 2;
  }

  /// In place of weigh(): takes a verdict that was made elsewhere. A part has none.
  static void take(Seat& seat, const NodeVerdict& stop) {
    seat.error = error_of([&] {
      if (seat.offers()) seat.take(stop);
    });
    seat.in_flight.value = 2;
  }

  /// After weigh(): what was learnt of these rows goes to the drafter and the draft length, the tokens into the text.
  template <class Rows>
  void settle(Seat& seat, const Rows& rows, Policy& policy) {
    const bool is_part = !seat.offers();
    if (!seat.error && !is_part)
      seat.error = error_of([&] { tell_drafter(drafter_, seat.number, seat.judged(rows)); });
    if (seat.error) return withdraw(seat);
    seat.in_flight.value = 0;  // nothing throws from here on
    seat.last_emitted = {};
    if (is_part) return seat.part_is_fed();
    seat.last_emitted = seat.commit();
    policy.observe(seat.last());
    drafter_.keep(seat.number, seat.kept());
  }

  /// Takes back an offer that was not settled.
  void withdraw(Seat& seat) {
    const bool offers = seat.offers();
    seat.withdraw();
    if (offers) keep_text(seat);
  }
  /// After a step: the model keeps what is text.
  template <class Model>
  static void keep_in(Model& model, const Seat& seat) {
    if constexpr (drafts_trees<Drafter>)
      if (!seat.error && !seat.next_feed.parents.empty()) return model.keep(seat.number, seat.kept_path());
    model.keep(seat.number, seat.kept());
  }

 private:
  // The drafter keeps of its cache what is text.
  void keep_text(const Seat& seat) { drafter_.keep(seat.number, std::ssize(seat.context())); }

  // How many drafts were made together, and their tokens. None for a single request, which bears the whole time.
  struct Drafts {
    Index count = 0, tokens = 0;
  };
  template <class Request>
  Drafts drafts_of(std::span<Request> requests) const {
    Drafts all;
    if (requests.size() < 2) return all;
    for (const Request& request : requests) {
      if (request.error) continue;
      ++all.count;
      all.tokens += std::ssize(drafted(request.sequence).tokens);
    }
    return all;
  }

  // All texts wait until all drafts are made, together or one after another. A text's part of this time is by the tokens of its
  // draft, and the mean of all parts is the time. So a length that weighs its time against that of the target call weighs what a
  // token costs all texts, and a text that goes on alone is told more than the time of one call.
  template <class Request>
  void offer(Seat& seat, Request& request, std::chrono::nanoseconds time, const Drafts& all) {
    seat.error = std::move(request.error);
    if (seat.error) return keep_text(seat);
    seat.error = error_of([&] {
      Draft draft = drafted(seat.number);
      if (all.tokens > 0) time = time * all.count * std::ssize(draft.tokens) / all.tokens;
      seat.next_feed = seat.offer(std::forward<Draft>(draft), time);
    });
    if (seat.error) keep_text(seat);
  }

  Draft drafted(Index sequence) const { return std::as_const(drafter_).drafted(sequence); }

  Lifted drafter_;
};

}  // namespace specdec::detail
