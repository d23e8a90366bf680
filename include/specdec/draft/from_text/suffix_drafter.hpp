// Drafts from the longest repetition: a suffix automaton of the text and of all texts before it.
#pragma once

#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/from_text/learnt_suffixes.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Finds the longest end of the context, of up to max_match tokens, that something followed before, in this
/// text or in one shown earlier, and proposes what followed it most often, the latest among equals; and so on
/// from there, token by token, always by the longest match, which its own proposals lengthen. Where nothing
/// of at least min_match tokens matches, or where the best token is not at least min_share of what followed
/// the match, the proposal ends.
///
/// That is what NgramTableDrafter proposes with max_ngram = max_match, in memory that does not grow with it.
///
///   SuffixDrafter drafter;               // one for all requests: what one wrote is drafted to the next
///   drafter.learn(document);             // what is going to be quoted
///   SpecDec decoder{target, drafter};
///
/// What was seen stays until clear(): truncate() forgets where the text stood, not what it said. Every
/// context that is shown is counted, once: one that begins with a context shown before is counted from there
/// on, so a prompt counts once however often it is used. What the last step of a generation wrote is shown to
/// no drafter, unless a later context has it.
///
/// Source: Hu et al., "SAM Decoding: Speculative Decoding via Suffix Automaton", arXiv:2411.10666, which
/// copies what followed an occurrence of the longest match; the continuation by frequency, from one store of
/// all outputs, after Oliaro et al., "SuffixDecoding", arXiv:2411.04975, whose suffix trees also draft trees
/// and limit a draft by the length of its match. The proposal depends on nothing but what was shown and
/// learnt, so q is one-hot.
/// Pre: what is learnt are tokens of the target; the loop refuses a proposed one that the target does not
/// know.
/// Random: none. Throws: std::invalid_argument unless 1 <= min_match <= max_match and 0 <= min_share <= 1.
/// Cost: a token that is learnt takes amortised O(1) steps to enter and up to max_match to count (as many as
/// it has matches of different frequency), a proposed one up to max_match. Counts are exact: a limit on the
/// match is what makes that affordable, for a text of n equal tokens has n matches at every token. Memory is
/// bounded by what was learnt, and by nothing else: two states and three edges a token, some 300 bytes,
/// whatever max_match.
class SuffixDrafter : public detail::LearntSuffixes {
 public:
  struct Options {
    Index max_match = 32;  ///< tokens of context that are matched, at most
    Index min_match = 1;   ///< and at least
    double min_share = 0;  ///< end where the best token is rarer than this among what followed
  };

  SuffixDrafter() : SuffixDrafter(Options{}) {}

  explicit SuffixDrafter(const Options& options)
      : LearntSuffixes(options.min_match, options.max_match), min_share_(options.min_share) {
    if (!(options.min_share >= 0 && options.min_share <= 1))
      detail::invalid_argument("suffix drafter needs 0 <= min_share <= 1, not min_share = ",
                               options.min_share);
  }

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    show(context);
    propose(gamma);
    return {tokens_, OneHotRows(tokens_)};
  }

 private:
  void propose(Index gamma) {
    tokens_.clear();
    Match match = longest();
    while (std::ssize(tokens_) < gamma) {
      match = followed(match);
      if (match.state == none) return;
      const auto& best = automaton().edge(automaton().state(match.state).best);
      if (is_rare(best)) return;
      tokens_.push_back(best.token);
      match = longer(match, best);
    }
  }

  bool is_rare(const detail::SuffixAutomaton::Edge& edge) const {
    const Index followed = automaton().state(edge.from).followed;
    return static_cast<double>(edge.count) < min_share_ * static_cast<double>(followed);
  }

  double min_share_;
  std::vector<Token> tokens_;
};

}  // namespace specdec
