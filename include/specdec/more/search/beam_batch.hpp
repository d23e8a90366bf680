// Beam search after many prompts: one target call per step.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/model/call.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/model/over_feeds.hpp"
#include "specdec/model/turn.hpp"
#include "specdec/more/search/beams.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// A beam search that is over.
struct FoundBeams {
  Index sequence = 0;                  ///< its number
  BeamResult result = {};              ///< what was found, up to the error if there was one
  std::exception_ptr error = nullptr;  ///< the error that ended it, if one did
};

namespace detail {

/// In place of a draft model: plain beam search.
struct NoDraftModel {};

}  // namespace detail

/// Searches after many prompts together: each step is one target call, and before it at most gamma calls of the draft model.
/// Searches come and go between steps. Each finds what BeamSearch::generate finds, if the models' rows do not depend on the
/// other tokens in a call.
///
///   BeamBatch searches{target, small};
///   searches.add(0, prompt, {.width = 4});
///   while (!searches.empty())
///     for (const FoundBeams& found : searches.step()) use(found.sequence, found.result);
///
/// You number the searches; the models know their contexts by these numbers. A target may serve a Batch, too, as long as no
/// number is in use twice (a Batch numbers its own texts from 0 on, unless a Request says the number). Then both have their
/// tokens read in one call:
///
///   const auto texts = batch.propose(), beams = searches.propose();
///   // rows = target.forward(the feeds of both)
///   batch.accept(the first rows); searches.accept(the others);
///
/// target, draft   models for many texts that take trees (model/trees.hpp; PathByPath makes any model take them). An lvalue is
///                 referred to and must outlive this; an rvalue is moved in. A model for one text serves one search at a time
///
/// With an ExternalTarget the engine reads the feeds: see Beams, which search(number) returns. It forgets the context of a
/// search that is over.
///
/// Can be moved, and cannot be copied. All calls come from one thread.
/// Example: examples/write/beams_and_texts.cpp
template <class TargetModel, class DraftModel = detail::NoDraftModel>
class BeamBatch {
  using Target = std::remove_reference_t<TargetModel>;
  static constexpr bool drafts = !std::same_as<std::remove_cvref_t<DraftModel>, detail::NoDraftModel>;
  static constexpr bool called_here = !std::same_as<std::remove_const_t<Target>, ExternalTarget>;
  static_assert(!detail::ConstModel<Target> && !detail::ConstModel<std::remove_reference_t<DraftModel>>,
                "a model is const, and its calls change its context");
  template <class Model>
  static constexpr bool reads_texts = takes_trees<Model> || detail::ConstModel<Model>;
  static_assert(
      (reads_texts<Target> || !called_here) && (reads_texts<std::remove_reference_t<DraftModel>> || !drafts),
      "beam search asks its models about many texts at once, as a tree: wrap them in specdec::PathByPath, or "
      "see specdec/model/trees.hpp");

 public:
  /// Throws: InvalidCall if target and draft model are one model.
  explicit BeamBatch(TargetModel&& target, DraftModel&& draft = DraftModel{})
      : target_(std::forward<TargetModel>(target)), draft_(std::forward<DraftModel>(draft)) {
    if constexpr (drafts) check_two_models();
  }
  /// What was moved away holds no search and no model, and is only destroyed.
  BeamBatch(BeamBatch&&) noexcept = default;
  BeamBatch& operator=(BeamBatch&&) = delete;  // the models would not forget the searches before
  /// The models forget the remaining searches.
  ~BeamBatch() {
    for (const auto& search : searches_) forget(search->number);
  }

  /// Adds a search, which takes part from the next step on. The target's context of this number holds the first `cached` tokens
  /// of the prompt: copied from another text's, for example.
  /// Throws: InvalidArgument if there is a search of that number, if the target keeps contexts of its own and cannot know
  /// what is cached, and where Beams does; InvalidCall if a model for one text serves another search.
  void add(Index number, TokenIds prompt, const BeamOptions& options, Index cached = 0) {
    if (place_of(number) != searches_.end())
      detail::invalid_argument("there is a search ", number, " already");
    if constexpr (!serves_many)
      if (!searches_.empty()) detail::invalid_call("a model for one text serves one beam search at a time");
    if (cached > 0 && !can_adopt<Target>)
      detail::invalid_argument("cached = ", cached,
                               ", but the target keeps contexts of its own: it does not know tokens that "
                               "the model inside was fed directly");
    std::optional<ExternalTarget> draft;
    if constexpr (drafts) draft = detail::described(draft_.model());
    searches_.push_back(std::make_unique<Search>(
        Search{number, Beams(prompt, options, detail::described(target_.model()), draft, cached)}));
    if constexpr (knows_its_context<Target> && can_adopt<Target>)
      detail::undo_on_error([&] { adopt(number, prompt, cached); }, [&] { searches_.pop_back(); });
  }

  Index size() const { return std::ssize(searches_); }
  bool empty() const { return searches_.empty(); }
  /// The search of that number.
  /// Throws: InvalidArgument if there is none.
  const Beams& search(Index number) const& { return find(number)->beams; }
  const Beams& search(Index number) const&& = delete;

  /// Removes a search, and returns what it has found so far. If its proposal is out, its rows are still expected.
  /// Throws: InvalidArgument if there is none.
  BeamResult cancel(Index number) {
    const Search* const search = find(number);
    BeamResult result = search->beams.result();
    std::replace_if(
        asked_.begin(), asked_.end(), [=](const Search* each) { return each == search; }, nullptr);
    forget(number);
    searches_.erase(place_of(number));
    return result;
  }

  /// Takes a step of all searches. Returns those that are over. Bad rows, of the target or the draft model, end only their own
  /// search. The view lives until the next step.
  /// Throws: what the models throw; the step can then be tried again. std::bad_alloc.
  std::span<const FoundBeams> step() & {
    static_assert(called_here, "an ExternalTarget is called by the caller: propose() and accept()");
    propose();
    if (call_.empty()) return collect();
    decltype(auto) output = target_.forward(call_.feeds());
    return accept(output);
  }

  /// The first half of a step: looks ahead, and returns what the target is to read, a feed for each search. If the list is
  /// empty, call accept() with no rows: it returns the searches that are over. The view lives until the next call. A proposal
  /// that is out is taken back.
  /// Throws: what the draft model throws; std::bad_alloc.
  std::span<const BatchFeed> propose() & {
    asked_.clear();
    look_ahead();
    ask([](Beams& beams) { return beams.done() ? Feed{} : beams.propose(); });
    if constexpr (called_here) open(target_, [](const Beams& beams) { return beams.opens(); });
    return call_.feeds();
  }

  /// The second half. Returns what step() returns. A search that was cancelled in between is left out; its rows are counted.
  /// Shapes: `rows` is one matrix with the rows that the feeds want, feed after feed.
  /// Throws: InvalidArgument if it has another number of rows, or there is no proposal for them. The proposal is then still
  /// out. std::bad_alloc.
  template <class Rows>
  std::span<const FoundBeams> accept(const Rows& rows) & {
    tell("target", rows, [](Beams& beams, const auto& own) { beams.accept(own); });
    for (const Search* search : asked_) {
      if (search == nullptr || search->error) continue;
      if constexpr (called_here) keep(target_, search->number, search->beams.kept_path());
      if constexpr (drafts) keep(draft_, search->number, search->beams.draft_kept_path());
    }
    call_.clear();
    asked_.clear();
    return collect();
  }

 private:
  struct Search {
    Index number;
    Beams beams;
    std::exception_ptr error = nullptr;
  };
  using TargetFeeds = detail::OverFeeds<TargetModel>;
  using DraftFeeds = detail::OverFeeds<DraftModel>;
  static constexpr bool serves_many =
      (!TargetFeeds::one_text || !called_here) && (!DraftFeeds::one_text || !drafts);

  void check_two_models() const {
    const auto of_target = detail::shared_identities<TargetModel>(target_.model());
    const auto of_draft = detail::shared_identities<DraftModel>(draft_.model());
    if (std::ranges::find_first_of(of_target, of_draft) != of_target.end())
      detail::invalid_call("target and draft model of a beam search are one model: give each its own");
  }

  auto place_of(Index number) const {
    return std::find_if(searches_.begin(), searches_.end(),
                        [=](const auto& search) { return search->number == number; });
  }
  Search* find(Index number) const {
    const auto place = place_of(number);
    if (place == searches_.end()) detail::invalid_argument("there is no search ", number);
    return place->get();
  }

  // Tells the target, which remembers its contexts, what somebody else has read.
  void adopt(Index number, TokenIds prompt, Index cached) {
    if (cached == 0) return;
    std::vector<Token> tokens;
    for (Index i = 0; i < cached; ++i) tokens.push_back(static_cast<Token>(prompt[i]));
    target_.adopt(number, detail::view_of(tokens));
  }

  void look_ahead() {
    if constexpr (drafts)
      while (ask([](Beams& beams) { return beams.propose_draft(); })) {
        open(draft_, [](const Beams& beams) { return beams.draft_opens(); });
        decltype(auto) output = draft_.forward(call_.feeds());
        tell("draft", output, [](Beams& beams, const auto& own) { beams.accept_draft(own); });
      }
  }

  // Sets call_ to the feeds that the searches want, and asked_ to these searches. Whether there are any.
  template <class FeedOf>
  bool ask(const FeedOf& feed_of) {
    asked_.clear();
    call_.clear();
    for (const auto& search : searches_) {
      if (search->error) continue;
      const Feed feed = feed_of(search->beams);
      if (feed.tokens.empty()) continue;
      call_.add(feed, search->number);
      asked_.push_back(search.get());
    }
    return !call_.empty();
  }

  // Trees begin anew where the models' contexts end.
  template <class Model, class Opens>
  void open(Model& model, const Opens& opens) {
    for (std::size_t k = 0; k < asked_.size(); ++k)
      if (opens(asked_[k]->beams)) model.keep(asked_[k]->number, call_.feeds()[k].from);
  }
  template <class Model>
  static void keep(Model& model, Index number, std::span<const Index> path) {
    if (!path.empty()) model.keep(number, path);
  }

  // Gives each search its rows of the call.
  template <class Rows, class Take>
  void tell(const char* model, const Rows& all, const Take& take) {
    const auto rows = distributions(all);
    call_.check_rows(model, rows);
    for (Index k = 0; k < std::ssize(asked_); ++k)
      if (Search* const search = detail::at(asked_, k))
        search->error = detail::error_of([&] { take(search->beams, call_.rows_of(rows, k)); });
  }

  // Searches that are over leave: all of them, or none if there is no memory for their results.
  std::span<const FoundBeams> collect() {
    const auto over = [](const auto& search) { return search->error != nullptr || search->beams.done(); };
    found_.clear();
    for (const auto& search : searches_)
      if (over(search)) found_.push_back({search->number, search->beams.result(), search->error});
    std::erase_if(searches_, [&](const auto& search) {
      if (over(search)) forget(search->number);
      return over(search);
    });
    return detail::view_of(found_);
  }

  void forget(Index number) {
    if constexpr (called_here) target_.release(number);
    if constexpr (drafts) draft_.release(number);
  }

  TargetFeeds target_;
  DraftFeeds draft_;
  std::vector<std::unique_ptr<Search>> searches_;
  std::vector<Search*> asked_;  // of the call; null for one that has left since
  detail::Call call_;
  std::vector<FoundBeams> found_;  // by the last step
};

template <class Target>
BeamBatch(Target&&) -> BeamBatch<Target>;
template <class Target, class Draft>
BeamBatch(Target&&, Draft&&) -> BeamBatch<Target, Draft>;

}  // namespace specdec
