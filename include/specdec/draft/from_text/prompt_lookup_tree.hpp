// Drafts trees without a model: what followed each time that these words occurred.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/random.hpp"
#include "specdec/draft/from_text/ngram_ends.hpp"
#include "specdec/draft/tree_draft.hpp"
#include "specdec/error.hpp"
#include "specdec/rows/kinds/one_hot.hpp"
#include "specdec/types.hpp"

namespace specdec {

/// Prompt lookup with several continuations: finds the latest earlier occurrences of the context's last min_ngram tokens,
/// takes those of the longest match (of up to max_ngram tokens, of equals the later one first), and proposes what
/// followed them as one tree. Paths share what they begin with and grow by a token each in turn, so that few nodes are
/// shared out evenly.
///
/// Source: as PromptLookupDrafter (Saxena, 2023), of one occurrence. All tokens are chosen, so rows are one-hot: the rule
/// for it is TrunkAndSpares<SampleMatchVerifier>, or <ArgmaxVerifier> at temperature 0. Random: none.
/// Throws: std::invalid_argument unless 1 <= min_ngram <= max_ngram <= 512 and paths and occurrences are in 1..1024.
/// Cost: every context token is indexed once; a proposal compares up to `occurrences` places with the context's end.
/// Memory: at most 40 bytes for each token. No allocation in steady state but for longer contexts.
class PromptLookupTreeDrafter {
 public:
  struct Options {
    Index max_ngram = 4;
    Index min_ngram = 1;
    Index paths = 4;         ///< how many continuations are proposed
    Index occurrences = 64;  ///< of how many of the latest occurrences
  };

  PromptLookupTreeDrafter() : PromptLookupTreeDrafter(Options{}) {}

  explicit PromptLookupTreeDrafter(const Options& options)
      : options_(checked(options)), latest_(options.min_ngram, options.min_ngram) {}

  template <RandomSource Source>
  TreeDraft<OneHotRows> draft(std::span<const Token> context, const TreeLimits& limits, Source&) & {
    index(context);
    find(context);
    tokens_.clear();
    parents_.clear();
    for (Index depth = 0; depth < limits.depth; ++depth)
      if (!grow(context, depth, limits.nodes)) break;
    return {tokens_, OneHotRows(tokens_), parents_};
  }

  void truncate(Index length) {
    if (length >= std::ssize(previous_) - 1) return;
    latest_.clear();
    previous_.assign(1, 0);
  }

 private:
  static constexpr Index most = 1024;

  static const Options& checked(const Options& options) {
    detail::NgramEnds::check(options.min_ngram, options.max_ngram);
    if (options.paths < 1 || options.paths > most)
      detail::invalid_argument("paths = ", options.paths, " is outside 1..", most);
    if (options.occurrences < 1 || options.occurrences > most)
      detail::invalid_argument("occurrences = ", options.occurrences, " is outside 1..", most);
    return options;
  }

  // What follows context[end - 1]; so much in front of it is in front of the context's end, too.
  struct Path {
    Index end, match;
    Index node = -1;  // the last one of the tree that it goes through
  };

  // Enters every n-gram that ends before some token of the context, so that a continuation exists.
  void index(std::span<const Token> context) {
    truncate(std::ssize(context) - 1);  // of a shorter one, of which nobody has told
    if (latest_.make_room(context.size())) previous_.assign(1, 0);
    for (Index end = std::ssize(previous_); end < std::ssize(context); ++end) {
      previous_.push_back(0);
      if (end < options_.min_ngram) continue;
      Index& latest = latest_.latest(context, end, options_.min_ngram);
      previous_.back() = latest;
      latest = end;
    }
  }

  // The occurrences to be followed, the best one first.
  void find(std::span<const Token> context) {
    paths_.clear();
    const Index size = std::ssize(context);
    if (size < options_.min_ngram) return;
    Index end = latest_.latest(context, size, options_.min_ngram);
    for (Index n = 0; n < options_.occurrences && end > 0;
         ++n, end = previous_[static_cast<std::size_t>(end)])
      paths_.push_back({end, match(context, end)});
    std::stable_sort(paths_.begin(), paths_.end(),
                     [](const Path& a, const Path& b) { return a.match > b.match; });
    paths_.resize(std::min(paths_.size(), static_cast<std::size_t>(options_.paths)));
  }

  Index match(std::span<const Token> context, Index end) const {
    const Index longest = std::min(options_.max_ngram, end);
    Index length = 0;
    while (length < longest && context[static_cast<std::size_t>(end - 1 - length)] ==
                                   context[context.size() - static_cast<std::size_t>(1 + length)])
      ++length;
    return length;
  }

  // Each path by one token, as far as there is room. False where none goes on.
  bool grow(std::span<const Token> context, Index depth, Index nodes) {
    bool any = false;
    for (Path& path : paths_) {
      if (path.end + depth >= std::ssize(context)) continue;
      const Index node = child(path.node, context[static_cast<std::size_t>(path.end + depth)], nodes);
      if (node < 0) {
        path.end = std::ssize(context);  // it ends here
        continue;
      }
      path.node = node;
      any = true;
    }
    return any;
  }

  // The child that holds the token, a new one if there is none; −1 where there is no room for it.
  Index child(Index parent, Token token, Index nodes) {
    const Index size = std::ssize(tokens_);
    for (Index k = parent + 1; k < size; ++k)
      if (parents_[static_cast<std::size_t>(k)] == parent && tokens_[static_cast<std::size_t>(k)] == token)
        return k;
    if (size >= nodes) return -1;
    tokens_.push_back(token);
    parents_.push_back(parent);
    return size;
  }

  Options options_;
  detail::NgramEnds latest_;        // those of min_ngram tokens
  std::vector<Index> previous_{0};  // [end]: where the occurrence before that one ends; 0: there is none
  std::vector<Path> paths_;
  std::vector<Token> tokens_;
  std::vector<Index> parents_;
};

}  // namespace specdec
