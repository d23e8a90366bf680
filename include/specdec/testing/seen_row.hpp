// What a check of a model has fed and seen.
// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "specdec/eigen.hpp"
#include "specdec/lists.hpp"
#include "specdec/token_tree.hpp"
#include "specdec/types.hpp"

namespace specdec::inline v0_2_0::testing::detail {

/// One row that the model returned, and the call that it came from.
struct SeenRow {
  std::vector<Token> context;  ///< all tokens on the way to the row's token
  std::vector<Token> uncut;    ///< these, if no token had been cut away since the context was empty
  std::vector<Token> line;     ///< these, if the tree's tokens followed each other as a line
  std::vector<Token> feed;     ///< the tokens of the feed
  bool branches;               ///< whether the feed had parents
  bool kept_path;              ///< whether tokens of the context were kept as the path of a tree
  Index cached, open;          ///< how many tokens the context and the open tree held before the call
  Index place, together;       ///< the number of the row's token in the feed; the number of feeds of the call
  Eigen::RowVectorXd row;

  bool is_cut() const { return uncut != context; }
  /// How much sets the row apart from rows of calls over new tokens.
  int circumstances() const { return is_cut() + kept_path + branches + (open > 0); }
  /// All that sets the row apart from rows of calls over one token, as suspicions. `cut_back` names the model's rollback.
  std::string suspicions(const std::string& cut_back) const {
    std::string out;
    const auto suspect = [&](bool suspicious, const std::string& mistake) {
      if (suspicious) out += (out.empty() ? "" : "; or ") + mistake;
    };
    suspect(branches, "the tree's other branches shine through");
    suspect(open > 0, "the tree did not grow as its numbers say");
    suspect(
        is_cut(),
        "the cache is not as it was before the tokens that were cut off: stale entries or wrong positions");
    suspect(kept_path,
            "the cache does not hold the path that was kept of a tree: other tokens or wrong positions");
    suspect(out.empty(), "rows of a call with several tokens differ from those of single tokens");
    suspect(circumstances() == 0, cut_back + " with a longer length changes the context");
    return out;
  }
};

/// A sequence of the check, and what its context should hold.
struct CheckedSequence {
  Index number = 0;
  std::vector<Token> context = {}, uncut = {};
  Index longest = 0;  // the most tokens that context and open tree have had since they were last empty
  bool kept_path = false;
  TokenTree tree = {};  // the open tree

  Index size() const { return std::ssize(context); }
  Index open() const { return tree.size(); }
  void keep(Index length) {
    tree.clear();
    if (length >= size()) return;
    specdec::detail::resize(context, length);
    if (length > 0) return;
    uncut.clear();
    longest = 0;
    kept_path = false;
  }
  /// The numbers of the tokens on the way to token `end` of the open tree, itself included.
  std::vector<Index> way_to(Index end) const {
    std::vector<Index> way;
    tree.view().path_to(end, way);
    return way;
  }
  /// Makes tokens of the tree part of the context, and forgets the others.
  void append(const std::vector<Index>& path) {
    for (const Index k : path)
      for (std::vector<Token>* const list : {&context, &uncut}) list->push_back(tree.token(k));
    tree.clear();
  }
};

/// The largest difference of two numbers of the rows. Equal infinite numbers do not differ; NaN differs from all.
inline double difference_of_rows(const Eigen::RowVectorXd& a, const Eigen::RowVectorXd& b) {
  double largest = 0;
  for (Index x = 0; x < a.size(); ++x) {
    if (a[x] == b[x]) continue;
    const double difference = std::abs(a[x] - b[x]);
    if (!(difference <= largest)) largest = difference;
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace specdec::testing::detail
