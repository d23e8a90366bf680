// Drafts from the longest repetition: a suffix automaton of the text and of all texts before it.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/drafter.hpp"
#include "specdec/draft/from_text/counted_tree.hpp"
#include "specdec/draft/from_text/learnt_suffixes.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// The form of a SuffixDrafter that drafts a tree. Without it the draft is a line.
struct Branching {};

namespace detail {

struct Linear {};

template <class Form>
struct SuffixOptions {
  Index max_match = 32;  ///< tokens of context that are matched, at most
  Index min_match = 1;   ///< and at least
};

template <>
struct SuffixOptions<Linear> {
  Index max_match = 32;  ///< tokens of context that are matched, at most
  Index min_match = 1;   ///< and at least
  double min_share = 0;  ///< end where the best token is rarer than this among what followed
};

}  // namespace detail

/// Finds the longest end of the context, of up to max_match tokens, that something followed before, in this
/// text or in one shown earlier, and proposes what followed it most often, the latest among equals; and so on
/// from there, token by token, always by the longest match, which its own proposals lengthen. Where nothing
/// of at least min_match tokens matches, or where the best token is not at least min_share of what followed
/// the match, the proposal ends.
///
///   SuffixDrafter drafter;               // one for all requests: what one wrote is drafted to the next
///   drafter.learn(document);             // what is going to be quoted
///   SpecDec decoder{target, drafter};
///
/// With Branching it drafts a tree: after each token what followed the longest match, the most frequent first, and what
/// followed shorter matches, as far as there is room for the nodes that are most probably reached, by the counts (see
/// detail::CountedTree). The path of eldest children is the line. All tokens are chosen, so the rule for it is
/// TrunkAndSpares<SampleMatchVerifier>, or <ArgmaxVerifier> at temperature 0; a rule for lines does not compile with it.
///
///   SuffixDrafter drafter{{.max_match = 32}, Branching{}};
///   SpecDec decoder{target, drafter, TrunkAndSpares<SampleMatchVerifier>{}};
///
/// What was seen stays until clear(): truncate() forgets where the text stood, not what it said. Every
/// context that is shown is counted, once: one that begins with a context shown before is counted from there
/// on, so a prompt counts once however often it is used. What the last step of a generation wrote is shown to
/// no drafter, unless a later context has it.
///
/// Beside a ModelDrafter of an NgramModel of the same text: that one draws from a smoothed distribution and reports it,
/// of which more is accepted where the target is far from certain; but it is trained once, and every drafted token costs
/// it a row of V numbers. Counts suit targets of low temperature, text that repeats itself, large vocabularies, and cases
/// where there is nothing to train on.
///
/// Source: Hu et al., "SAM Decoding: Speculative Decoding via Suffix Automaton", arXiv:2411.10666, which
/// copies what followed an occurrence of the longest match; the continuation by frequency, from one store of
/// all outputs, after Oliaro et al., "SuffixDecoding", arXiv:2411.04975, whose suffix trees limit a draft by the length of
/// its match, and whose draft trees grow by the product of the counts' shares; here shorter matches stand beside the
/// longest. The proposal depends on nothing but what was shown and learnt, so q is one-hot.
/// Pre: what is learnt are tokens of the target; the loop refuses a proposed one that the target does not
/// know.
/// Random: none. Throws: std::invalid_argument unless 1 <= min_match <= max_match and 0 <= min_share <= 1.
/// Cost: a token that is learnt takes amortised O(1) steps to enter and up to max_match to count (as many as
/// it has matches of different frequency), a proposed one up to max_match. Counts are exact: a limit on the
/// match is what makes that affordable, for a text of n equal tokens has n matches at every token. A node of a tree also
/// takes a look at every continuation of its matches, the longest first, down to the first whose share no longer counts:
/// in large corpora a single frequent token has many, which a larger min_match spares. No allocation in steady state but
/// for what is learnt. Memory is bounded by what was learnt, and by nothing else: two states and three edges a token, some
/// 300 bytes, whatever max_match.
template <class Form = detail::Linear>
class SuffixDrafter : public detail::LearntSuffixes {
  static constexpr bool branches = std::same_as<Form, Branching>;
  static_assert(branches || std::same_as<Form, detail::Linear>,
                "a SuffixDrafter drafts a line, as SuffixDrafter<>, or a tree, as SuffixDrafter<Branching>");

 public:
  using Options = detail::SuffixOptions<Form>;

  SuffixDrafter() : SuffixDrafter(Options{}) {}

  explicit SuffixDrafter(const Options& options, Form = {})
      : LearntSuffixes(options.min_match, options.max_match), proposal_(options) {}

  template <RandomSource Source>
    requires(!branches)
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) & {
    show(context);
    return proposal_.of(*this, gamma);
  }

  template <RandomSource Source>
    requires branches
  Draft<OneHotRows> draft(std::span<const Token> context, const DraftLimits& limits, Source&) & {
    show(context);
    return proposal_.of(*this, limits);
  }

 private:
  // What most often followed, and so on from there.
  class Line {
   public:
    explicit Line(const Options& options) : min_share_(options.min_share) {
      if (!(min_share_ >= 0 && min_share_ <= 1))
        detail::invalid_argument("suffix drafter needs 0 <= min_share <= 1, not min_share = ", min_share_);
    }

    Draft<OneHotRows> of(const SuffixDrafter& learnt, Index gamma) {
      tokens_.clear();
      Match match = learnt.longest();
      while (std::ssize(tokens_) < gamma) {
        match = learnt.followed(match);
        if (match.state == none) break;
        const auto& state = learnt.automaton().state(match.state);
        const auto& best = learnt.automaton().edge(state.best);
        if (is_rare(best.count, state.followed)) break;
        tokens_.push_back(best.token);
        match = learnt.longer(match, best);
      }
      return {tokens_, OneHotRows(tokens_)};
    }

   private:
    bool is_rare(Index count, Index followed) const {
      return static_cast<double>(count) < min_share_ * static_cast<double>(followed);
    }

    double min_share_;
    std::vector<Token> tokens_;
  };

  // All that followed, of which a CountedTree takes the most probable.
  class Tree {
   public:
    explicit Tree(const Options&) {}

    Draft<OneHotRows> of(const SuffixDrafter& learnt, const DraftLimits& limits) {
      Counted counted(learnt, places_);
      tree_.grow(counted, limits);
      return tree_.draft();
    }

   private:
    // A match is a state. A place is the longest match there.
    class Counted {
     public:
      Counted(const SuffixDrafter& learnt, std::vector<Match>& places) : learnt_(learnt), places_(places) {
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
          if (i != best && automaton.edge(i).count > 0)
            visit(automaton.edge(i).token, automaton.edge(i).count);
      }
      bool has(Index state, Token token) const {
        const Index edge = learnt_.automaton().find(state, token);
        return edge != none && learnt_.automaton().edge(edge).count > 0;
      }

     private:
      Match at(Index place) const { return places_[static_cast<std::size_t>(place)]; }

      const SuffixDrafter& learnt_;
      std::vector<Match>& places_;
    };

    std::vector<Match> places_;
    detail::CountedTree tree_;
  };

  std::conditional_t<branches, Tree, Line> proposal_;
};

}  // namespace specdec
