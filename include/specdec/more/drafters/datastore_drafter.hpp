// Drafts from a large text: retrieval.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/random.hpp"
#include "specdec/draft/draft.hpp"
#include "specdec/error.hpp"
#include "specdec/lists.hpp"
#include "specdec/more/drafters/counted_tree.hpp"
#include "specdec/more/drafters/datastore.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0 {

/// The options of a DatastoreDrafter.
struct DatastoreOptions {
  Index max_match = 16;  ///< the longest match, in tokens
  Index min_match = 2;   ///< the shortest match
  double min_share = 0;  ///< of a line: end where the best token has a smaller share of all that followed
};

/// Finds the longest end of the context, up to max_match tokens, that occurs in a datastore, and proposes the tokens that
/// followed it there most often (among equals the lowest id). The proposal ends where no match of min_match tokens is left,
/// or where the best token is less than min_share of all that followed.
///
///   Datastore store{bytes_of_the_mapped_file};
///   DatastoreDrafter line{store};
///   DatastoreDrafter tree{store, {.max_match = 16}, Branching{}};     // with TrunkAndSpares<SampleMatchVerifier>
///
/// With Branching it drafts a tree: the nodes that are most probable by the counts, as a SuffixDrafter does (see
/// detail::CountedTree). A SuffixDrafter learns while it drafts, in some 300 bytes a token; this drafter learns nothing, and
/// its store takes 8 bytes a token, which may stay in a file. A tree does not ask for min_share.
/// Source: He et al., "REST: Retrieval-Based Speculative Decoding", arXiv:2311.08252. Deviation: REST cuts a trie of the
/// retrieved continuations to its most frequent prefixes; here shorter matches lend the tree their continuations, too.
/// Pre: the datastore's lists outlive the drafter. Its tokens are tokens of the target; the loop refuses others.
/// Random: none. The proposal depends on the context alone, so its rows are one-hot.
/// Throws: InvalidArgument unless 1 <= min_match <= max_match < Datastore::sorted_depth and 0 <= min_share <= 1.
/// Cost: for each token a search for the longest match, of some binary searches, and two binary searches for each distinct token
/// that followed it. No allocation in steady state.
template <detail::CountedForm Form = detail::Linear>
class DatastoreDrafter {
 public:
  using Options = DatastoreOptions;

  explicit DatastoreDrafter(const Datastore& store) : DatastoreDrafter(store, Options{}) {}
  DatastoreDrafter(const Datastore& store, const Options& options, Form = {})
      : counted_(store, options), min_share_(detail::checked_share("datastore drafter", options.min_share)) {
    if (options.min_match < 1 || options.max_match < options.min_match ||
        options.max_match >= Datastore::sorted_depth)
      detail::invalid_argument("datastore drafter needs 1 <= min_match <= max_match < ",
                               Datastore::sorted_depth, ", not min_match = ", options.min_match,
                               ", max_match = ", options.max_match);
  }

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, const detail::CountedLimits<Form>& limits,
                          Source&) & {
    counted_.begin(context);
    if constexpr (std::same_as<Form, Branching>) return tree_.grow(counted_, limits);
    else return line_.grow(counted_, limits, min_share_);
  }

  void truncate(Index) {}

 private:
  // The store as counts of continuations. A place of the draft is the string of the last tokens before it.
  class StoredContinuations {
   public:
    StoredContinuations(const Datastore& store, const Options& options) : store_(store), options_(options) {}

    void begin(std::span<const Token> context) {
      strings_.clear();
      ends_.clear();
      matches_.clear();
      add_string(context);
    }

    // ---- What CountedLine and CountedTree ask: see detail::Continuations -----------------------------

    detail::LikeliestToken likeliest(Index place) const { return likeliest_of(longest(place)); }
    void follow(Index place, Token token) {
      longer_.assign(string(place).begin(), string(place).end());  // strings_ may move
      longer_.push_back(token);
      add_string(longer_);
    }
    template <class Visit>
    void each_match(Index place, const Visit& visit) {
      Index count = 0;
      for (Index m = longest(place).length; m >= options_.min_match; --m) {
        const auto places = store_.find(string(place).last(static_cast<std::size_t>(m)));
        if (places.count() == count) continue;  // the continuations of the longer match, no others
        count = places.count();
        matches_.push_back(places);
        if (!visit(std::ssize(matches_) - 1)) return;
      }
    }
    template <class Visit>
    void each_continuation(Index match, const Visit& visit) const {
      const Datastore::Places places = detail::at(matches_, match);
      const detail::LikeliestToken best = likeliest_of(places);
      if (best.count > 0) visit(best.token, best.count);
      store_.each_continuation(places, [&](Token x, Index count) {
        if (x != best.token) visit(x, count);
      });
    }
    bool has(Index match, Token token) const {
      return store_.longer(detail::at(matches_, match), token).count() > 0;
    }

   private:
    Datastore::Places longest(Index place) const {
      const Datastore::Places places = store_.longest_match(string(place), options_.max_match);
      return places.length < options_.min_match ? Datastore::Places{} : places;
    }

    detail::LikeliestToken likeliest_of(const Datastore::Places& places) const {
      detail::LikeliestToken best;
      store_.each_continuation(places, [&best](Token x, Index count) {
        best.followed += count;
        if (count > best.count) best.token = x, best.count = count;
      });
      return best;
    }

    // The string of a new place: the last tokens of the text before it.
    void add_string(std::span<const Token> text) {
      detail::append(strings_,
                     text.last(std::min(text.size(), static_cast<std::size_t>(options_.max_match))));
      ends_.push_back(strings_.size());
    }
    std::span<const Token> string(Index place) const {
      const auto p = static_cast<std::size_t>(place);
      const std::size_t first = p == 0 ? 0 : ends_[p - 1];
      return std::span(strings_).subspan(first, ends_[p] - first);
    }

    Datastore store_;
    Options options_;
    std::vector<Token> strings_, longer_;
    std::vector<std::size_t> ends_;
    std::vector<Datastore::Places> matches_;
  };

  StoredContinuations counted_;
  double min_share_;
  detail::CountedLine line_;
  detail::CountedTree<StoredContinuations> tree_;
};

DatastoreDrafter(const Datastore&) -> DatastoreDrafter<>;

}  // namespace specdec
