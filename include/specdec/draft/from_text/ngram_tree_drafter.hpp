// Drafts trees from counts: what followed these words, the most frequent first.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/from_text/learnt_ngrams.hpp"
#include "specdec/draft/from_text/likely_tree.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Proposes what followed the longest n-gram that is known, the most frequent first, then what followed shorter ones,
/// and so on behind its own proposals: those nodes that are most probably reached, by the counts. The path of eldest
/// children is what NgramTableDrafter proposes of the same options.
///
///   NgramTreeDrafter drafter{{.max_ngram = 4}};
///   SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
///
/// It learns from every context that it is shown, once, and from what learn() is given; truncate() forgets
/// where the text stood, not what it said.
///
/// What followed an n-gram T times, and a token c of these, has that token next with a probability of (2c − 1)/2T; the
/// rest is for tokens that followed shorter n-grams, shared out among these alone. The probability of a node is the
/// product along its path. limits.trunk nodes are given to the path of eldest children first; an eldest child comes before
/// its siblings.
///
/// Source: the n-grams of Ou et al., arXiv:2404.08698; several continuations as a tree by their frequency after Oliaro et
/// al., "SuffixDecoding", arXiv:2411.04975; probabilities by prediction by partial matching (Howard and Vitter, 1993,
/// method D). All tokens are chosen, so rows are one-hot: the rule for it is TrunkAndSpares<SampleMatchVerifier>, or
/// <ArgmaxVerifier> at temperature 0.
/// Pre: what is learnt are tokens of the target; the loop refuses a proposed one that the target does not know.
/// Random: none. Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram <= 512 and min_count >= 1.
/// Cost: to learn, that of NgramTableDrafter. For each node of the tree max_ngram look-ups, and a look at every
/// continuation of its n-grams, the longest first, down to the first whose share no longer counts: in large corpora those
/// of a single frequent token are many, which a larger min_ngram spares. No allocation in steady state but for what is
/// learnt.
class NgramTreeDrafter : public detail::LearntNgrams {
 public:
  NgramTreeDrafter() : NgramTreeDrafter(Options{}) {}
  explicit NgramTreeDrafter(const Options& options) : LearntNgrams(options) {}

  template <RandomSource Source>
  TreeDraft<OneHotRows> draft(std::span<const Token> context, const TreeLimits& limits, Source&) & {
    show(context);
    stand_behind(context);
    Counted counted(*this, places_);
    tree_.grow(counted, limits);
    return tree_.draft();
  }

 private:
  // A match is an n-gram. A place is the n-grams that end there, by their length.
  class Counted {
   public:
    Counted(const NgramTreeDrafter& learnt, std::vector<Index>& places) : learnt_(learnt), places_(places) {
      places_.assign(learnt.ends().begin(), learnt.ends().end());
      places_.resize(length(), none);
    }

    void follow(Index place, Token token) {
      const std::size_t from = static_cast<std::size_t>(place) * length();
      places_.push_back(detail::NgramTrie::root);
      for (std::size_t n = 1; n < length(); ++n)
        places_.push_back(learnt_.child(places_[from + n - 1], token));
    }
    template <class Visit>
    void each_match(Index place, const Visit& visit) const {
      const std::size_t from = static_cast<std::size_t>(place) * length();
      for (Index n = learnt_.options().max_ngram; n >= learnt_.options().min_ngram; --n) {
        const Index ngram = places_[from + static_cast<std::size_t>(n)];
        if (ngram != none && learnt_.proposes(learnt_.trie().best(ngram)) && !visit(ngram)) return;
      }
    }
    template <class Visit>
    void each_continuation(Index ngram, const Visit& visit) const {
      const detail::NgramTrie& trie = learnt_.trie();
      trie.each_child(ngram, [&](Index next) {
        if (learnt_.proposes(next)) visit(trie.token(next), trie.occurrences(next));
      });
    }
    bool has(Index ngram, Token token) const { return learnt_.proposes(learnt_.child(ngram, token)); }

   private:
    std::size_t length() const { return static_cast<std::size_t>(learnt_.options().max_ngram) + 1; }

    const NgramTreeDrafter& learnt_;
    std::vector<Index>& places_;
  };

  std::vector<Index> places_;
  detail::LikelyTree tree_;
};

}  // namespace specdec
