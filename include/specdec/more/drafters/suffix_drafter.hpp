// Drafts from the longest repetition: a suffix automaton of the text and of all texts before it.
// SPDX-License-Identifier: MIT
#pragma once

#include <concepts>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/drafters/counted_tree.hpp"
#include "specdec/more/drafters/learnt_suffixes.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {
namespace detail {

struct SuffixOptions {
  Index max_match = 32;  ///< the longest match, in tokens
  Index min_match = 1;   ///< the shortest match
  double min_share = 0;  ///< of a line: end where the best token has a smaller share of all that followed
};

}  // namespace detail

/// Finds the longest match: the longest end of the context, up to max_match tokens, that occurred before in this text or in
/// an earlier one, with a token after it. It proposes the token that followed the match most often (among equals the
/// latest). From there it goes on token by token; each proposed token lengthens the match. The proposal ends where no match
/// has min_match tokens, or where the best token is less than min_share of all that followed the match.
///
///   SuffixDrafter drafter;               // one for all requests: it learns from each request for the next
///   drafter.learn(document);             // a text that will be quoted
///   SpecDec decoder{target, drafter};
///
/// With Branching it drafts a tree. The children of a node are tokens that followed the longest match, the most frequent
/// first, and then tokens that followed shorter matches. The tree has the nodes that are most probable by the counts (see
/// detail::CountedTree). Its path of eldest children is the line above. All tokens are chosen, none is drawn, so verify with
/// TrunkAndSpares<SampleMatchVerifier>, or <ArgmaxVerifier> at temperature 0. A verifier for lines does not compile. A tree does
/// not ask for min_share.
///
///   SuffixDrafter drafter{{.max_match = 32}, Branching{}};
///   SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
///
/// The drafter remembers all texts until clear(); truncate() forgets only the position in the current text. Each context is
/// counted once: if it begins with a context shown before, only the rest is counted. So a prompt counts once, however often
/// it is used. The tokens of a generation's last step are counted only if a later context contains them.
///
/// Compared with a ModelDrafter of an NgramModel of the same text: the n-gram model draws from a smoothed distribution and
/// reports it, so more is accepted where the target is far from certain. But it is trained once, and each drafted token
/// costs a row of V numbers. Counts suit low temperatures, text that repeats itself, large vocabularies, and cases with
/// nothing to train on.
/// Source: Hu et al., "SAM Decoding: Speculative Decoding via Suffix Automaton", arXiv:2411.10666, which copies the tokens
/// after an occurrence of the longest match. The choice by frequency, from one store of all outputs, comes from Oliaro et
/// al., "SuffixDecoding", arXiv:2411.04975; their suffix trees limit a draft by the length of its match, and their draft
/// trees grow by the product of the counts' shares. Deviation: here trees use shorter matches beside the longest one.
/// Pre: learnt tokens are tokens of the target; the loop refuses a proposed token that the target does not know.
/// Random: none. The proposal depends only on texts shown and learnt, so its rows are one-hot.
/// Throws: InvalidArgument unless 1 <= min_match <= max_match and 0 <= min_share <= 1.
/// Cost: a learnt token takes amortised O(1) steps to enter, and up to max_match to count (one for each of its matches of
/// different frequency). A proposed token takes up to max_match. Counts are exact. Only max_match makes this affordable: a
/// text of n equal tokens has n matches at every token. A node of a tree also reads every continuation of its matches, the
/// longest match first, until a match's share is too small. In large corpora one frequent token has many
/// continuations; a larger min_match avoids them. No allocation in steady state but for what is learnt.
/// Memory: two states and three edges for each learnt token, some 300 bytes, whatever max_match is. Unbounded: see clear().
template <detail::CountedForm Form = detail::Linear>
class SuffixDrafter : public detail::LearntSuffixes {
 public:
  using Options = detail::SuffixOptions;

  SuffixDrafter() : SuffixDrafter(Options{}) {}

  explicit SuffixDrafter(const Options& options, Form = {})
      : LearntSuffixes(options.min_match, options.max_match),
        min_share_(detail::checked_share("suffix drafter", options.min_share)) {}

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, const detail::CountedLimits<Form>& limits,
                          Source&) & {
    show(context);
    LearntContinuations counted(*this, places_);
    if constexpr (std::same_as<Form, Branching>) return tree_.grow(counted, limits);
    else return line_.grow(counted, limits, min_share_);
  }

 private:
  // A match is a state. A place is the longest match there.
  class LearntContinuations {
   public:
    LearntContinuations(const SuffixDrafter& learnt, std::vector<Match>& places)
        : learnt_(learnt), places_(places) {
      places_.assign(1, learnt.longest());
    }

    detail::LikeliestToken likeliest(Index place) const {
      const Match match = learnt_.followed(at(place));
      if (match.state == none) return {};
      const auto& state = learnt_.automaton().state(match.state);
      const auto& best = learnt_.automaton().edge(state.best);
      return {best.token, best.count, state.followed};
    }

    void follow(Index place, Token token) {
      Match match = at(place);
      while (!has(match.state, token)) match = learnt_.shorter(match);
      const auto& automaton = learnt_.automaton();
      places_.push_back(learnt_.longer(match, automaton.edge(automaton.find(match.state, token))));
    }
    template <class Visit>
    void each_match(Index place, const Visit& visit) const {
      for (Match match = learnt_.followed(at(place)); match.state != none;
           match = learnt_.followed(learnt_.shorter(match)))
        if (!visit(match.state)) return;
    }
    template <class Visit>
    void each_continuation(Index state, const Visit& visit) const {
      const auto& automaton = learnt_.automaton();
      const Index best = automaton.state(state).best;
      visit(automaton.edge(best).token, automaton.edge(best).count);
      for (Index i = automaton.state(state).first; i != none; i = automaton.edge(i).next)
        if (i != best && automaton.edge(i).count > 0) visit(automaton.edge(i).token, automaton.edge(i).count);
    }
    bool has(Index state, Token token) const {
      const Index edge = learnt_.automaton().find(state, token);
      return edge != none && learnt_.automaton().edge(edge).count > 0;
    }

   private:
    Match at(Index place) const { return detail::at(places_, place); }

    const SuffixDrafter& learnt_;
    std::vector<Match>& places_;
  };

  double min_share_;
  std::vector<Match> places_;
  detail::CountedLine line_;
  detail::CountedTree<LearntContinuations> tree_;
};

}  // namespace specdec
