// The beam search after one prompt, which is asked what its models are to read, and told the rows.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/model/feed.hpp"
#include "specdec/model/model.hpp"
#include "specdec/more/search/searched_context.hpp"
#include "specdec/more/search/searched_texts.hpp"
#include "specdec/rows/kinds/dense.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

struct BeamOptions {
  Index max_new_tokens = 128;   ///< the token budget of each text
  Index width = 4;              ///< how many texts are kept
  Index draft_width = 8;        ///< how many texts the draft model keeps
  Index gamma = 4;              ///< how many tokens ahead the draft model searches; 0 is plain beam search
  StopTokens stop_tokens = {};  ///< a text ends with the first of these, which is part of it
};

/// One of the texts that a beam search has found.
struct Beam {
  std::vector<Token> tokens;   ///< after the prompt
  double log_probability = 0;  ///< of these tokens, in nats
  bool stopped = false;        ///< whether the last token is a stop token
};

/// What a beam search has found.
struct BeamResult {
  std::vector<Beam> beams;  ///< the most probable first
  /// stop_token: all texts have stopped. context: a model's context has no room for the next tokens.
  StopReason stop_reason = StopReason::length;
  Index levels = 0;        ///< by how many tokens the longest texts have grown
  Index target_calls = 0;  ///< plain beam search takes part in a call for each level
  Index draft_calls = 0;
  Index drafted = 0;  ///< tokens that the draft model proposed
};

/// The beam search after one prompt. It calls no model, and knows nothing of other searches: BeamSearch drives one, BeamBatch
/// many. An engine that runs its models itself drives it by hand:
///
///   Beams beams{prompt, {.width = 4}, {.vocabulary = 32000, .context = 4096}};
///   while (!beams.done()) {
///     const Feed feed = beams.propose();
///     // if beams.opens(): cut the context to feed.from tokens, which closes its tree
///     // feed it feed.tokens, a part of a tree with feed.parents; take the rows of the last feed.rows
///     beams.accept(rows);
///     // unless beams.kept_path() is empty: keep this path of the tree, which closes it
///   }
///
/// All texts of a search are one tree of tokens in one context, which stays open from call to call (see model/trees.hpp).
///
/// With a draft model, before propose():
///
///   for (Feed feed = beams.propose_draft(); !feed.tokens.empty(); feed = beams.propose_draft())
///     // the draft model reads the feed as the target does (draft_opens())
///     beams.accept_draft(draft_rows);
///
/// and draft_kept_path() after accept(). The look-ahead may be left out, or be cut short: the next call of the target then knows
/// less, and the texts are the same, unless the context is full: then a look-ahead may go on where plain search stops.
///
/// In each level every text is continued by each of its tokens; of all continuations and stopped texts the `width` most
/// probable are kept. Among equals the continuation of the earlier text comes first, then the lower id. From each text at
/// most its `width` likeliest tokens are considered. The search ends when all texts have stopped.
///
/// In each step the draft model searches gamma levels ahead, from the present texts on, with `draft_width` texts in each. The
/// target takes the present texts and all proposed ones in one call, as a tree. Then its own search goes on while it knows
/// the rows after its texts. A step adds 1 to gamma + 1 levels.
///
/// If a call fails, or if accept() or accept_draft() throws, propose again: the search is as before the proposal, and its open
/// tree is fed anew.
/// Source: the step "top_w(p) within top_u(q)" named as future work by the course slides of Leviathan et al.'s method; the
/// union of the texts as a tree: Miao et al., "SpecInfer", arXiv:2305.09781.
/// Random: none.
/// Cost: the first call takes the prompt, too. Otherwise a call takes at most width + gamma · draft_width new tokens; after the
/// first call, each time that some 256 of them are given up, and near the end of the context, the tokens that the texts do not
/// share are fed again. A pass over each row. All texts that were looked at are kept until the end.
class Beams {
 public:
  /// `target` and `draft` tell the sizes of the models. The target's context holds the first `cached` tokens of the prompt; the
  /// last token is fed in any case, for its row.
  /// Throws: InvalidArgument on an empty prompt, on ids outside the target's vocabulary, and unless max_new_tokens >= 0,
  /// 1 <= width, draft_width <= 1024, 0 <= gamma <= 1024 and 0 <= cached <= prompt.size().
  Beams(TokenIds prompt, BeamOptions options, const ExternalTarget& target,
        const std::optional<ExternalTarget>& draft = {}, Index cached = 0)
      : options_(std::move(options)),
        texts_(checked(prompt, options_, target.vocabulary, cached)),
        target_({.name = "target",
                 .sizes = target,
                 .likeliest = options_.width,
                 .ids = target.vocabulary,
                 .new_tokens = options_.width + (draft ? drafted_at_most() : 0)},
                std::min(cached, std::ssize(texts_.prompt()))) {
    if (draft)
      draft_.emplace(detail::SearchedModel{.name = "draft",
                                           .sizes = *draft,
                                           .likeliest = options_.draft_width,
                                           .ids = target.vocabulary,
                                           .new_tokens = options_.width + drafted_at_most()},
                     0);
    now_.beams.push_back({});
    begin_step(now_);
  }

  /// Whether the search is over: by its budget, because all texts have stopped, or because a context is full.
  bool done() const {
    return now_.stop_reason != StopReason::length || now_.levels >= options_.max_new_tokens;
  }

  /// What the target is to read next. A proposal that is out is taken back. The views live until the next call of this object.
  /// Throws: InvalidCall when done(); std::bad_alloc.
  Feed propose() {
    if (done()) detail::invalid_call("the beam search is done: there is nothing to propose");
    withdraw();
    looks_ahead();
    return target_.feed(texts_, now_.asked);
  }
  /// Whether the last proposal begins a tree after the first Feed::from tokens of the context. Otherwise its tree goes on.
  bool opens() const { return target_.opens(); }

  /// Goes on with the rows of the proposal.
  /// Shapes: one matrix of probabilities, with Feed::rows rows.
  /// Throws: InvalidCall without a proposal; InvalidArgument on rows of another shape; InvalidDistribution on a row
  /// that cannot be read, or of which a text that is kept has no continuation. The search is then as before the proposal.
  template <class Rows>
  void accept(const Rows& rows) {
    const auto take = [&] {
      target_.take(distributions(rows));
      grow();
      target_.settle(texts_, shared());
      begin_step(next_);
      if (draft_) draft_->settle(texts_, shared());
    };
    detail::undo_on_error(take, [this] { target_.withdraw(); });
    target_.taken();
    ++counts_.target_calls;
    std::swap(now_, next_);
  }
  /// The numbers of the tokens, in the target's tree, that the target is to keep after accept(). Empty: the tree stays open.
  std::span<const Index> kept_path() const& { return target_.kept_path(); }
  std::span<const Index> kept_path() const&& = delete;

  /// What the draft model is to read next. Without tokens: in this step it is asked no more. Proposals that are out are taken
  /// back.
  /// Throws: std::bad_alloc.
  Feed propose_draft() {
    withdraw();
    if (done() || !looks_ahead()) return {};
    return draft_->feed(texts_, level_);
  }
  bool draft_opens() const { return draft_ && draft_->opens(); }
  /// See accept(). A text of the draft model may have no continuation.
  template <class Rows>
  void accept_draft(const Rows& rows) {
    if (!draft_) detail::invalid_call("the beam search has no draft model");
    detail::undo_on_error([&] { draft_->take(distributions(rows)); }, [this] { draft_->withdraw(); });
    draft_->taken();
    ++counts_.draft_calls;
  }
  /// What the draft model is to keep after accept().
  std::span<const Index> draft_kept_path() const& {
    return draft_ ? draft_->kept_path() : std::span<const Index>();
  }
  std::span<const Index> draft_kept_path() const&& = delete;

  /// What the search has found so far.
  BeamResult result() const {
    BeamResult found = counts_;
    found.stop_reason = now_.stop_reason;
    found.levels = now_.levels;
    for (const detail::SearchedBeam& beam : now_.beams)
      found.beams.push_back({texts_.text(beam.node), beam.log_probability, beam.stopped});
    return found;
  }

 private:
  // Where the search is. Nodes are numbered as in texts_.
  struct State {
    std::vector<detail::SearchedBeam> beams,
        ahead;                      // of the target; of the draft model, `levels_ahead` levels further
    std::vector<Index> asked = {};  // what the target is asked: its own texts, and proposed ones
    Index levels = 0, levels_ahead = 0;
    StopReason stop_reason = StopReason::length;
  };

  static std::vector<Token> checked(TokenIds prompt, const BeamOptions& options, Index vocab_size,
                                    Index cached) {
    constexpr Index most = 1024;
    if (prompt.empty()) detail::invalid_argument("prompt is empty: there is nothing to continue");
    detail::check_tokens("prompt", prompt, vocab_size);
    check_range("max_new_tokens", options.max_new_tokens, 0, std::numeric_limits<Index>::max());
    check_range("width", options.width, 1, most);
    check_range("draft_width", options.draft_width, 1, most);
    check_range("gamma", options.gamma, 0, most);
    check_range("cached", cached, 0, prompt.size());
    std::vector<Token> tokens;
    for (Index i = 0; i < prompt.size(); ++i) tokens.push_back(static_cast<Token>(prompt[i]));
    return tokens;
  }
  static void check_range(const char* name, Index value, Index least, Index largest) {
    if (value < least || value > largest)
      detail::invalid_argument(name, " = ", value, " is outside ", least, "..", largest);
  }

  Index drafted_at_most() const { return options_.gamma * options_.draft_width; }

  // The nodes after which a search goes on.
  static void unfinished(const std::vector<detail::SearchedBeam>& beams, std::vector<Index>& nodes) {
    nodes.clear();
    for (const detail::SearchedBeam& beam : beams)
      if (!beam.stopped) nodes.push_back(beam.node);
  }

  void next_level(std::vector<detail::SearchedBeam>& beams, Index width,
                  const detail::SearchedContext& context) {
    detail::replace_by_best(
        beams, width, texts_, [&](Index node) { return context.likeliest(node); },
        [this](Token x) { return options_.stop_tokens.contains(x); });
  }

  // Sets next_ to where the search is after all levels of which the target's rows are known.
  void grow() {
    next_.beams = now_.beams;
    next_.levels = now_.levels;
    next_.stop_reason = StopReason::length;
    do {
      for (const detail::SearchedBeam& beam : next_.beams)
        if (!beam.stopped) target_.check_node(beam.node);
      next_level(next_.beams, options_.width, target_);
      ++next_.levels;
      unfinished(next_.beams, next_.asked);
    } while (!next_.asked.empty() && next_.levels < options_.max_new_tokens && target_.knows(next_.asked));
  }

  // The last node that all texts of next_ share that go on; −1 if none does.
  Index shared() const {
    if (next_.asked.empty()) return -1;
    Index node = next_.asked.front();
    for (const Index other : next_.asked) node = texts_.common(node, other);
    return node;
  }

  // The target is asked about its own texts, until the draft model has proposed others.
  void begin_step(State& state) {
    unfinished(state.beams, state.asked);
    state.ahead = state.beams;
    state.levels_ahead = 0;
    if (state.asked.empty()) state.stop_reason = StopReason::stop_token;
    else if (state.levels < options_.max_new_tokens && !target_.fits(texts_, state.asked))
      state.stop_reason = StopReason::context;
  }

  void withdraw() {
    target_.withdraw();
    if (draft_) draft_->withdraw();
  }

  // Looks ahead as far as the draft model's rows are known. Returns whether it is to be asked for more, about level_.
  bool looks_ahead() {
    const Index levels =
        draft_ ? std::min(options_.gamma, options_.max_new_tokens - now_.levels - 1) : Index{0};
    while (now_.levels_ahead < levels) {
      unfinished(now_.ahead, level_);
      if (level_.empty() || !draft_->fits(texts_, level_)) return false;
      if (!draft_->knows(level_)) return true;
      if (!extend()) now_.levels_ahead = levels;
    }
    return false;
  }

  // Adds a level of the draft model's texts to what the target is asked. False if the target has no room for it.
  bool extend() {
    next_.ahead = now_.ahead;
    next_.asked = now_.asked;
    next_level(next_.ahead, options_.draft_width, *draft_);
    for (const detail::SearchedBeam& beam : next_.ahead)
      if (!beam.stopped && target_.can_reach(texts_, beam.node, now_.levels_ahead + 1))
        next_.asked.push_back(beam.node);
    if (!target_.fits(texts_, next_.asked)) return false;
    counts_.drafted += std::ssize(next_.asked) - std::ssize(now_.asked);
    now_.ahead.swap(next_.ahead);
    now_.asked.swap(next_.asked);
    ++now_.levels_ahead;
    return true;
  }

  BeamOptions options_;
  detail::SearchedTexts texts_;
  detail::SearchedContext target_;
  std::optional<detail::SearchedContext> draft_;
  State now_, next_;          // next_ takes the place of now_ if nothing throws
  std::vector<Index> level_;  // what the draft model is asked
  BeamResult counts_;         // of calls and drafted tokens
};

}  // namespace specdec
