// Trees of drafted tokens: siblings of every kind, deep and wide. And random ones.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "lines.hpp"
#include "rows.hpp"

namespace vectors {

// A drafted token: which token it follows, itself, and the row that it was drawn from.
struct Node {
  Index parent;
  Token token;
  Weights row;
};

inline Case tree(std::string id, std::string shows, std::vector<Weights> target,
                 const std::vector<Node>& nodes) {
  Case out{.id = std::move(id), .shows = std::move(shows)};
  out.drafted.target = std::move(target);
  for (const Node& node : nodes) {
    out.drafted.tokens.push_back(node.token);
    out.drafted.draft.push_back(node.row);
    out.parents.push_back(node.parent);
  }
  return out;
}

// Siblings that were drawn independently of one another from one row.
inline std::vector<Case> independent_trees() {
  const Weights q{4, 2, 2}, r{2, 5, 1};
  return {
      tree("context-only", "A tree without tokens: one token is drawn from the only row.", {{1, 2, 5}}, {}),
      tree("line", "A tree without branches is a line.", {{2, 5, 1}, {1, 1, 6}, {4, 2, 2}},
           {{-1, 0, q}, {0, 1, q}}),
      tree("pair",
           "Two siblings, drawn independently from one row: the second is judged by what the first one's "
           "rejection leaves.",
           {{2, 3, 3}, {6, 1, 1}, {1, 6, 1}}, {{-1, 0, q}, {-1, 1, q}}),
      tree("duplicates",
           "Two siblings that are one token, as independent draws may be: the second has what the first "
           "leaves of it.",
           {{2, 3, 3}, {6, 1, 1}, {1, 6, 1}}, {{-1, 0, q}, {-1, 0, q}}),
      tree("triple", "Three siblings, drawn independently from one row.",
           {{1, 4, 3}, {6, 1, 1}, {1, 6, 1}, {1, 1, 6}}, {{-1, 0, r}, {-1, 1, r}, {-1, 0, r}}),
      tree("pair-p-equals-q",
           "Target and draft are equal: the elder sibling is kept, and the younger is never looked at.",
           {{4, 2, 2}, {1, 1, 6}, {6, 1, 1}}, {{-1, 1, q}, {-1, 0, q}}),
      tree("pair-disjoint", "No sibling is possible under the target: both are rejected.",
           {{0, 0, 3, 5}, {2, 2, 2, 2}, {2, 2, 2, 2}}, {{-1, 0, {4, 4, 0, 0}}, {-1, 1, {4, 4, 0, 0}}}),
      tree("pair-below-the-second",
           "The path goes through the second child: its own children are judged by the row after it.",
           {{1, 6, 1}, {2, 2, 4}, {5, 2, 1}, {1, 1, 6}},
           {{-1, 0, {5, 2, 1}}, {-1, 1, {5, 2, 1}}, {1, 0, {2, 4, 2}}}),
  };
}

// Siblings of which each was drawn without its elders, or chosen.
inline std::vector<Case> other_trees() {
  const Weights all{4, 2, 1, 1}, without_0{0, 2, 1, 1}, without_0_1{0, 0, 1, 1};
  return {
      tree("pair-without-replacement",
           "The second sibling was drawn without the first: its row has no weight there, and is normalised "
           "again.",
           {{3, 1, 2, 2}, {2, 2, 2, 2}, {1, 5, 1, 1}}, {{-1, 0, all}, {-1, 1, without_0}}),
      tree("triple-without-replacement", "Three siblings, each drawn without its elders.",
           {{2, 1, 1, 4}, {2, 2, 2, 2}, {1, 5, 1, 1}, {4, 2, 1, 1}},
           {{-1, 0, all}, {-1, 1, without_0}, {-1, 3, without_0_1}}),
      tree("chosen-pair", "Two chosen siblings, as of a top-k tree: each is kept with its probability.",
           {{3, 1, 4}, {1, 1, 6}, {2, 4, 2}}, {{-1, 2, chosen}, {-1, 0, chosen}}),
      tree("chosen-wide", "Five chosen siblings of eight ids.",
           {{1, 4, 2, 1, 3, 2, 2, 1},
            {1, 1, 1, 1, 1, 1, 1, 1},
            {8, 0, 0, 0, 0, 0, 0, 0},
            {0, 0, 0, 0, 4, 4, 0, 0},
            {1, 0, 0, 0, 0, 0, 0, 7},
            {0, 2, 2, 2, 2, 0, 0, 0}},
           {{-1, 1, chosen}, {-1, 4, chosen}, {-1, 2, chosen}, {-1, 6, chosen}, {-1, 0, chosen}}),
      tree("chosen-deep", "A tree of chosen tokens, three levels deep.",
           {{4, 3, 1}, {2, 4, 2}, {1, 3, 4}, {5, 1, 2}, {2, 2, 4}, {1, 6, 1}},
           {{-1, 0, chosen}, {-1, 1, chosen}, {0, 1, chosen}, {0, 2, chosen}, {2, 0, chosen}}),
      tree("drawn-then-chosen",
           "One sibling is drawn from the row without the likeliest id, and judged first; the likeliest is "
           "chosen, and judged after it.",
           {{4, 2, 1, 1}, {1, 1, 1, 5}, {2, 4, 1, 1}}, {{-1, 2, {0, 2, 4, 2}}, {-1, 0, chosen}}),
      tree("chosen-then-drawn", "A chosen sibling is judged first, then one that was drawn without it.",
           {{3, 2, 2, 1}, {2, 4, 1, 1}, {1, 1, 1, 5}}, {{-1, 0, chosen}, {-1, 1, {0, 4, 2, 2}}}),
      tree("dead-end",
           "The target rules out the first sibling, and its row is a dead end: nothing below it is read.",
           {{0, 5, 3}, {0, 0, 0}, {2, 2, 4}, {0, 0, 0}},
           {{-1, 0, {4, 2, 2}}, {-1, 1, {4, 2, 2}}, {0, 2, {2, 2, 4}}}),
      tree("one-hot-target",
           "The target is sure of the second sibling: the first is rejected, the second kept.",
           {{0, 8, 0}, {1, 2, 5}, {5, 2, 1}}, {{-1, 2, {2, 2, 4}}, {-1, 1, {4, 4, 0}}}),
      tree("65-ids", "Two siblings of 65 ids: the replacement lies in the last tile.",
           {sparse(65, {{3, 2}, {10, 5}, {63, 1}, {64, 8}}), sparse(65, {{0, 8}, {64, 8}}),
            sparse(65, {{0, 4}, {64, 12}})},
           {{-1, 3, sparse(65, {{3, 8}, {10, 8}})}, {-1, 10, sparse(65, {{10, 8}})}}),
      tree("4096-chosen", "Chosen siblings among many ids.",
           {sparse(4096, {{5, 4}, {1024, 2}, {4095, 2}}), sparse(4096, {{1, 1}, {2, 1}}),
            sparse(4096, {{4095, 1}})},
           {{-1, 5, chosen}, {-1, 1024, chosen}}),
      tree("deep", "A drawn line of three tokens, with a sibling beside the second.",
           {{4, 4}, {3, 1}, {1, 1}, {1, 3}, {2, 2}},
           {{-1, 0, {3, 1}}, {0, 1, {1, 1}}, {0, 1, {1, 1}}, {1, 0, {1, 1}}}),
  };
}

// A trunk that was drawn, and spares that were chosen beside its tokens.
inline std::vector<Case> spare_trees() {
  return {
      tree("one-spare",
           "A drawn token, and a chosen spare beside it: where the replacement is the spare, the rows after "
           "it are there.",
           {{2, 5, 1}, {4, 2, 2}, {1, 1, 6}}, {{-1, 0, {4, 2, 2}}, {-1, 1, chosen}}),
      tree("spares-of-two-tokens", "A trunk of two tokens with a spare at each.",
           {{2, 5, 1}, {4, 3, 1}, {1, 1, 6}, {2, 4, 2}, {5, 2, 1}},
           {{-1, 0, {4, 2, 2}}, {-1, 1, chosen}, {0, 2, {2, 2, 4}}, {0, 0, chosen}}),
      tree(
          "spare-with-a-trunk",
          "The spare has a drawn trunk of its own, which is judged as a new draft, with a weight of 1 again.",
          {{1, 6, 1}, {2, 2, 4}, {4, 3, 1}, {2, 2, 4}},
          {{-1, 0, {4, 2, 2}}, {-1, 1, chosen}, {1, 1, {2, 4, 2}}}),
      tree("spare-of-a-spare", "A spare below a spare.",
           {{1, 6, 1}, {2, 2, 4}, {4, 3, 1}, {1, 1, 6}, {3, 1, 4}},
           {{-1, 0, {4, 2, 2}}, {-1, 1, chosen}, {1, 1, {2, 4, 2}}, {1, 0, chosen}}),
      tree("two-spares", "Two spares beside one drawn token.",
           {{1, 3, 3, 1}, {4, 2, 1, 1}, {1, 1, 6, 0}, {0, 0, 4, 4}},
           {{-1, 0, {4, 2, 1, 1}}, {-1, 1, chosen}, {-1, 2, chosen}}),
      tree("spare-that-cannot-be-reached", "The drawn token is surely kept, so its spare is never used.",
           {{4, 2, 2}, {1, 1, 6}, {6, 1, 1}}, {{-1, 0, {4, 2, 2}}, {-1, 1, chosen}}),
      tree("dead-end", "The spare is ruled out by the target, and its row is a dead end.",
           {{1, 0, 7}, {3, 3, 2}, {0, 0, 0}}, {{-1, 0, {2, 2, 4}}, {-1, 1, chosen}}),
  };
}

// Random rows on a tree of given parents. Siblings share a row, as independent draws do.
inline Case random_tree(const std::string& rule, const std::string& name, const std::vector<Index>& parents,
                        Index vocab_size, std::int64_t sum, std::uint64_t seed) {
  const std::string id = rule + "/" + name,
                    shows = "Random rows of " + std::to_string(vocab_size) + " ids, on a tree of " +
                            std::to_string(parents.size()) +
                            " tokens whose siblings share a row: any mistake of the rule.";
  return first_exact(id, seed, parents.size() + 2, [&](Numbers& numbers) -> std::optional<Case> {
    std::vector<Weights> target, row_of_children(parents.size() + 1);
    std::vector<Node> nodes;
    for (std::size_t i = 0; i <= parents.size(); ++i) target.push_back(random_row(vocab_size, sum, numbers));
    for (const Index parent : parents) {
      Weights& row = row_of_children[static_cast<std::size_t>(parent + 1)];
      if (row.empty()) row = random_row(vocab_size, sum, numbers);
      if (std::find(row.begin(), row.end(), sum) != row.end())
        return std::nullopt;  // siblings would be equal
      nodes.push_back({parent, drawn_from(row, numbers), row});
    }
    return tree(id, shows, target, nodes);
  });
}

}  // namespace vectors
