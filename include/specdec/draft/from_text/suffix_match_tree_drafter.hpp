// Drafts trees from the longest repetitions: what followed these words, in this text and in all texts before it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/from_text/learnt_suffixes.hpp"
#include "specdec/draft/from_text/likely_tree.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Proposes what followed the longest end of the context that something followed before, the most frequent first, then
/// what followed shorter ends, and so on behind its own proposals: those nodes that are most probably reached, by the
/// counts. The path of eldest children is what SuffixDrafter proposes.
///
///   SuffixMatchTreeDrafter drafter;      // one for all requests: what one wrote is drafted to the next
///   SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
///
/// That is what NgramTreeDrafter proposes with max_ngram = max_match, in memory that does not grow with it. It learns as
/// SuffixDrafter does: every context that is shown, once, and what learn() is given; truncate() forgets where the text
/// stood, not what it said.
///
/// Source: Oliaro et al., "SuffixDecoding", arXiv:2411.04975, whose trees grow by the product of the counts' shares; here
/// from a suffix automaton (Hu et al., arXiv:2411.10666), and with shorter matches beside the longest: see
/// NgramTreeDrafter. All tokens are chosen, so rows are one-hot: the rule for it is TrunkAndSpares<SampleMatchVerifier>,
/// or <ArgmaxVerifier> at temperature 0.
/// Pre: what is learnt are tokens of the target; the loop refuses a proposed one that the target does not know.
/// Random: none. Throws: std::invalid_argument unless 1 <= min_match <= max_match.
/// Cost: to learn, that of SuffixDrafter. For each node of the tree up to max_match steps, and a look at every continuation
/// of its matches, the longest first, down to the first whose share no longer counts: in large corpora those of a single
/// frequent token are many, which a larger min_match spares. No allocation in steady state but for what is learnt.
class SuffixMatchTreeDrafter : public detail::LearntSuffixes {
 public:
  struct Options {
    Index max_match = 32;  ///< tokens of context that are matched, at most
    Index min_match = 1;   ///< and at least
  };

  SuffixMatchTreeDrafter() : SuffixMatchTreeDrafter(Options{}) {}
  explicit SuffixMatchTreeDrafter(const Options& options)
      : LearntSuffixes(options.min_match, options.max_match) {}

  template <RandomSource Source>
  TreeDraft<OneHotRows> draft(std::span<const Token> context, const TreeLimits& limits, Source&) & {
    show(context);
    Counted counted(*this, places_);
    tree_.grow(counted, limits);
    return tree_.draft();
  }

 private:
  // A match is a state. A place is the longest match there.
  class Counted {
   public:
    Counted(const SuffixMatchTreeDrafter& learnt, std::vector<Match>& places)
        : learnt_(learnt), places_(places) {
      places_.assign(1, learnt.longest());
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
    Match at(Index place) const { return places_[static_cast<std::size_t>(place)]; }

    const SuffixMatchTreeDrafter& learnt_;
    std::vector<Match>& places_;
  };

  std::vector<Match> places_;
  detail::LikelyTree tree_;
};

}  // namespace specdec
