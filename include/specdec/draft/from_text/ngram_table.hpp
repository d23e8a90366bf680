// Drafts from counts: what followed these words most often, in this text, in earlier ones, in a corpus.
#pragma once

#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/from_text/learnt_ngrams.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Proposes, token by token, what most often followed the longest n-gram that is known, the latest among
/// equals, and follows its own proposals. An n-gram is known if something followed it at least min_count
/// times; where no n-gram of min_ngram to max_ngram tokens is, the proposal ends.
///
///   NgramTableDrafter drafter{{.max_ngram = 4}};
///   drafter.learn(corpus);               // a static table, and with .online = false it stays one
///   SpecDec decoder{target, drafter};    // else it learns every text that is written
///
/// What was counted stays until clear(): truncate() forgets where the text stood, not what it said. Online,
/// every context that is shown is counted, once: one that begins with a context shown before is counted from
/// there on, so a prompt counts once however often it is used, and a dialogue is not counted anew with every
/// turn. What the last step of a generation wrote is shown to no drafter, unless a later context has it.
///
/// Beside a ModelDrafter of an NgramModel of the same text: that one draws from a smoothed distribution and
/// reports it, of which more is accepted where the target is far from certain; but it is trained once, and
/// every drafted token costs it a row of V numbers. The table suits targets of low temperature, text that
/// repeats itself, large vocabularies, and cases where there is nothing to train on.
///
/// Source: the multi-level N-gram module of Ou et al., "Lossless Acceleration of Large Language Model via
/// Adaptive N-gram Parallel Decoding", arXiv:2404.08698; successors by their counts, and a corpus beside the
/// text, as in llama.cpp's examples/lookup (there three caches with thresholds of their own, here one table).
/// The proposal depends on nothing but what was shown and learnt, so q is one-hot.
/// Pre: what is learnt are tokens of the target; the loop refuses a proposed one that the target does not
/// know.
/// Random: none. Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram <= 512 and min_count >= 1.
/// Cost: max_ngram + 1 look-ups for a token that is learnt or proposed, O(max_ngram²) a call; the first call
/// of another text hashes all of it. Memory is bounded by what was learnt, and by nothing else: at most
/// max_ngram + 1 n-grams a token, of about 60 bytes each, and online a hash for each call. For longer matches there
/// is SuffixDrafter, whose memory does not grow with them.
class NgramTableDrafter : public detail::LearntNgrams {
 public:
  NgramTableDrafter() : NgramTableDrafter(Options{}) {}
  explicit NgramTableDrafter(const Options& options) : LearntNgrams(options) {}

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    show(context);
    tokens_.clear();
    if (gamma > 0) propose(context, gamma);
    return {tokens_, OneHotRows(tokens_)};
  }

 private:
  void propose(std::span<const Token> context, Index gamma) {
    stand_behind(context);
    while (std::ssize(tokens_) < gamma) {
      const Index next = best();
      if (next == none) return;
      tokens_.push_back(trie().token(next));
      go_on(tokens_.back());
    }
  }

  // What most often followed the longest n-gram known; none where none is.
  Index best() const {
    for (Index n = std::ssize(ends()) - 1; n >= options().min_ngram; --n) {
      const Index node = ends()[static_cast<std::size_t>(n)];
      if (node != none && proposes(trie().best(node))) return trie().best(node);
    }
    return none;
  }

  std::vector<Token> tokens_;
};

}  // namespace specdec
