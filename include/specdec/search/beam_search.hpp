// Beam search, in fewer calls of the target.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/error.hpp"
#include "specdec/loop/options.hpp"
#include "specdec/model/model.hpp"
#include "specdec/search/searched_texts.hpp"
#include "specdec/search/searching_model.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"

namespace specdec {

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
  Index target_calls = 0;  ///< plain beam search makes a call for each level
  Index draft_calls = 0;
  Index drafted = 0;  ///< tokens that the draft model proposed
};

namespace detail {

/// In place of a draft model: plain beam search.
struct NoDraftModel {};

}  // namespace detail

/// Beam search over a target, with a draft model that searches ahead. The result is the result of plain beam search over the
/// target, text for text, whatever the draft model proposes: the next level's best texts follow from the target's rows after
/// the present ones, and a proposed text only brings a row into the call before it is needed.
///
///   BeamSearch search{target, small};
///   BeamResult found = search.generate(prompt, {.max_new_tokens = 64, .width = 4});
///
/// In each level every text is continued by each of its tokens; of all continuations and stopped texts the `width` most
/// probable are kept. Among equals the continuation of the earlier text comes first, then the lower id. From each text at
/// most its `width` likeliest tokens are considered. The search ends when all texts have stopped.
///
/// In each step the draft model searches gamma levels ahead, from the present texts on, with `draft_width` texts in each. The
/// target takes the present texts and all proposed ones in one call, as a tree. Then its own search goes on while it knows
/// the rows after its texts. A step adds 1 to gamma + 1 levels.
///
/// Models take trees (model/trees.hpp); PathByPath makes any model take them. They hold and share their models as a SpecDec
/// does: an lvalue is referred to, an rvalue is moved in.
/// Source: the step "top_w(p) within top_u(q)" named as future work by the course slides of Leviathan et al.'s method; the
/// union of the texts as a tree: Miao et al., "SpecInfer", arXiv:2305.09781.
/// Random: none.
/// Pre: a row of the target depends only on the tokens before it, not on the other tokens of a call. (Kernels that round in
/// another order may swap texts whose probabilities differ in the last bits.)
/// Cost: the first call takes the prompt, too. Otherwise a call takes at most width + gamma · draft_width new tokens; each time
/// that some 256 of them are given up, the tokens that the texts do not share are fed again. A pass over each row. All texts
/// that were looked at are kept until the end.
/// Example: examples/beam_search.cpp
template <class Target, class Draft = detail::NoDraftModel>
class BeamSearch {
  static constexpr bool drafts = !std::same_as<std::remove_cvref_t<Draft>, detail::NoDraftModel>;
  static_assert(
      takes_trees<std::remove_reference_t<Target>>,
      "beam search asks the target about many texts at once, as a tree: wrap it in specdec::PathByPath, or "
      "see specdec/model/trees.hpp");
  static_assert(!drafts || takes_trees<std::remove_reference_t<Draft>>,
                "beam search asks the draft model about many texts at once, as a tree: wrap it in "
                "specdec::PathByPath, or see specdec/model/trees.hpp");

 public:
  explicit BeamSearch(Target&& target)
    requires(!drafts)
      : target_(std::forward<Target>(target)) {}
  BeamSearch(Target&& target, Draft&& draft)
    requires drafts
      : target_(std::forward<Target>(target)), draft_(std::forward<Draft>(draft)) {}

  /// The most probable continuations of the prompt that beam search finds.
  /// Throws: std::invalid_argument on an empty prompt, on ids outside the target's vocabulary, and unless
  /// max_new_tokens >= 0, 1 <= width, draft_width <= 1024 and 0 <= gamma <= 1024; what the models throw. InvalidDistribution
  /// names the call's row of the target or draft; std::logic_error if a model was used elsewhere during the search, or is both
  /// target and draft model. After a throw both contexts are empty, and the search can be used again.
  BeamResult generate(TokenIds prompt, const BeamOptions& options) {
    const std::vector<Token> tokens = checked(prompt, options);
    Search search{options, detail::SearchedTexts(tokens.back()), {{}}, {}};
    target_.begin(tokens, "target", options.width, target_.vocab_size());
    if constexpr (drafts) draft_.begin(tokens, "draft", options.draft_width, target_.vocab_size());
    const auto run = [&] {
      while (search.found.stop_reason == StopReason::length && search.found.levels < options.max_new_tokens)
        step(search);
    };
    detail::undo_on_error(run, [this] { end(); });
    end();
    return search.result();
  }

 private:
  static constexpr Index most = 1024;

  // The state of one search.
  struct Search {
    const BeamOptions& options;
    detail::SearchedTexts texts;
    std::vector<detail::SearchedBeam> beams;
    BeamResult found;
    std::vector<detail::SearchedBeam> ahead = {};
    std::vector<Index> asked = {}, level = {};
    detail::BestContinuations best = {};

    template <class M>
    void next_level(std::vector<detail::SearchedBeam>& from, Index width, const M& model) {
      best.replace(
          from, width, texts, [&](Index node) { return model.likeliest(node); },
          [this](Token x) { return options.stop_tokens.contains(x); });
    }

    BeamResult result() {
      for (const detail::SearchedBeam& beam : beams)
        found.beams.push_back({texts.text(beam.node), beam.log_probability, beam.stopped});
      return std::move(found);
    }
  };

  std::vector<Token> checked(TokenIds prompt, const BeamOptions& options) const {
    if (prompt.empty()) detail::invalid_argument("prompt is empty: there is nothing to continue");
    detail::check_tokens("prompt", prompt, target_.vocab_size());
    check_option("max_new_tokens", options.max_new_tokens, 0, std::numeric_limits<Index>::max());
    check_option("width", options.width, 1, most);
    check_option("draft_width", options.draft_width, 1, most);
    check_option("gamma", options.gamma, 0, most);
    std::vector<Token> tokens;
    for (Index i = 0; i < prompt.size(); ++i) tokens.push_back(static_cast<Token>(prompt[i]));
    return tokens;
  }
  static void check_option(const char* name, Index value, Index least, Index largest) {
    if (value < least || value > largest)
      detail::invalid_argument(name, " = ", value, " is outside ", least, "..", largest);
  }

  void end() {
    target_.end();
    if constexpr (drafts) draft_.end();
  }

  // The nodes after which a search goes on.
  static void unfinished(const std::vector<detail::SearchedBeam>& beams, std::vector<Index>& nodes) {
    nodes.clear();
    for (const detail::SearchedBeam& beam : beams)
      if (!beam.stopped) nodes.push_back(beam.node);
  }

  void step(Search& search) {
    unfinished(search.beams, search.asked);
    if (!target_.has_room(search.texts, search.asked)) {
      search.found.stop_reason = StopReason::context;
      return;
    }
    if constexpr (drafts) look_ahead(search);
    search.found.target_calls += target_.ask(search.texts, search.asked);
    do {
      for (const detail::SearchedBeam& beam : search.beams)
        if (!beam.stopped) target_.check_node(beam.node);
      search.next_level(search.beams, search.options.width, target_);
      ++search.found.levels;
      unfinished(search.beams, search.level);
      if (search.level.empty()) search.found.stop_reason = StopReason::stop_token;
    } while (goes_on(search));
    if (!search.level.empty()) share(search);
  }

  bool goes_on(const Search& search) const {
    return !search.level.empty() && search.found.levels < search.options.max_new_tokens &&
           std::all_of(search.level.begin(), search.level.end(),
                       [this](Index node) { return target_.knows(node); });
  }

  // Adds the texts that the draft model finds to what the target is asked.
  void look_ahead(Search& search) {
    search.ahead = search.beams;
    const Index levels =
        std::min(search.options.gamma, search.options.max_new_tokens - search.found.levels - 1);
    for (Index level = 0; level < levels; ++level) {
      unfinished(search.ahead, search.level);
      if (search.level.empty() || !draft_.has_room(search.texts, search.level)) return;
      search.found.draft_calls += draft_.ask(search.texts, search.level);
      search.next_level(search.ahead, search.options.draft_width, draft_);
      const std::size_t before = search.asked.size();
      for (const detail::SearchedBeam& beam : search.ahead)
        if (!beam.stopped && target_.can_reach(search.texts, beam.node, level + 1))
          search.asked.push_back(beam.node);
      if (!target_.has_room(search.texts, search.asked)) {
        search.asked.resize(before);
        return;
      }
      search.found.drafted += std::ssize(search.asked) - static_cast<Index>(before);
    }
  }

  // Tells the models which tokens all texts share.
  void share(const Search& search) {
    Index node = search.level.front();
    for (const Index other : search.level) node = search.texts.common(node, other);
    target_.share(search.texts, node);
    if constexpr (drafts) draft_.share(search.texts, node);
  }

  struct NoDraft {};
  detail::SearchingModel<Target> target_;
  [[no_unique_address]] std::conditional_t<drafts, detail::SearchingModel<Draft>, NoDraft> draft_;
};

template <class Target>
BeamSearch(Target&&) -> BeamSearch<Target>;
template <class Target, class Draft>
BeamSearch(Target&&, Draft&&) -> BeamSearch<Target, Draft>;

}  // namespace specdec
