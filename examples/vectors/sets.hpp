// All cases, rule by rule.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "lines.hpp"
#include "rows.hpp"
#include "steps.hpp"
#include "texts.hpp"
#include "trees.hpp"

namespace vectors {

struct Size {
  Index vocab_size, gamma;
  std::int64_t sum;
};

// Random lines of these sizes.
inline std::vector<Case> random_lines(const std::string& rule, const std::vector<Size>& sizes) {
  std::vector<Case> out;
  std::uint64_t seed = 1;
  for (const auto& [vocab_size, gamma, sum] : sizes)
    out.push_back(random_case(
        rule + "/random-" + std::to_string(vocab_size) + "-ids-" + std::to_string(gamma) + "-tokens",
        vocab_size, gamma, sum, seed++));
  return out;
}

inline std::vector<Case> token_cases() {
  std::vector<Case> out = for_rule("token", all_lines());
  append(out,
         random_lines(
             "token",
             {{2, 1, 16}, {5, 1, 32}, {3, 2, 16}, {5, 2, 16}, {4, 3, 8}, {5, 3, 8}, {2, 4, 8}, {4, 4, 8}}));
  return out;
}

inline std::vector<Case> block_cases() {
  std::vector<Case> out = for_rule("block", all_lines(),
                                   {"gamma-0",
                                    "one-id",
                                    "p-equals-q",
                                    "kept-to-the-end",
                                    "disjoint",
                                    "ruled-out",
                                    "dead-end",
                                    "dead-end-after-one",
                                    "by-hand",
                                    "row-of-the-rejected-place",
                                    "rows-of-three-places",
                                    "top-k-zeros",
                                    "draft-top-k",
                                    "chosen",
                                    "chosen-then-drawn",
                                    "short-draft-vocabulary",
                                    "tiny",
                                    "small-residual",
                                    "smaller-residual",
                                    "relaxed",
                                    "65-ids",
                                    "129-ids",
                                    "4096-ids"});
  append(out, block_lines());
  append(out, random_lines("block", {{3, 1, 16}, {2, 2, 16}, {3, 2, 8}, {5, 2, 8}, {3, 3, 8}, {2, 4, 8}}));
  return out;
}

inline std::vector<Case> argmax_cases() {
  std::vector<Case> out = for_rule("argmax", all_lines(), {"p-equals-q-flat", "dead-end", "padded-ids"});
  append(out, argmax_lines());
  return out;
}

inline std::vector<Case> match_cases() {
  std::vector<Case> out =
      for_rule("match", all_lines(),
               {"gamma-0", "one-hot-rows", "dead-end", "rows-of-three-places", "top-k-zeros", "chosen",
                "short-draft-vocabulary", "padded-ids", "129-ids"});
  append(out, match_lines());
  append(out, random_lines("match", {{3, 2, 8}, {4, 4, 8}}));
  return out;
}

// Trees that traversal verification and recursive rejection judge alike.
inline std::vector<Case> tree_cases(const std::string& rule) {
  std::vector<Case> out = for_rule(rule, independent_trees());
  append(out, for_rule(rule, other_trees()));
  const auto random = [&](const std::string& name, const std::vector<Index>& parents, Index vocab_size,
                          std::int64_t sum, std::uint64_t seed) {
    out.push_back(random_tree(rule, "random-" + name, parents, vocab_size, sum, seed));
  };
  random("pair", {-1, -1}, 4, 16, 1);
  random("triple", {-1, -1, -1}, 4, 8, 2);
  random("two-below-one", {-1, 0, 0}, 3, 8, 3);
  random("pairs-of-pairs", {-1, -1, 0, 0, 1}, 3, 8, 4);
  return out;
}

inline std::vector<Case> k_seq_cases() {
  std::vector<Case> out =
      for_rule("k_seq", independent_trees(), {"context-only", "line", "pair-p-equals-q", "pair-disjoint"});
  const auto random = [&](const std::string& name, const std::vector<Index>& parents, Index vocab_size,
                          std::int64_t sum, std::uint64_t seed) {
    out.push_back(random_tree("k_seq", "random-" + name, parents, vocab_size, sum, seed));
  };
  random("pair", {-1, -1}, 4, 16, 1);
  random("triple", {-1, -1, -1}, 4, 16, 2);
  random("pair-below-one", {-1, 0, 0}, 3, 8, 3);
  random("two-levels", {-1, -1, 0, 0}, 3, 8, 4);
  return out;
}

inline std::vector<Case> trunk_and_spares_cases() {
  std::vector<Case> out =
      for_rule("trunk_and_spares", independent_trees(), {"context-only", "line", "pair-below-the-second"});
  append(out, for_rule("trunk_and_spares", spare_trees()));
  return out;
}

inline std::vector<Case> all_cases() {
  std::vector<Case> out = token_cases();
  for (std::vector<Case> more : {block_cases(), greedy_block_cases(), argmax_cases(), match_cases(),
                                 keyed_cases(), tree_cases("recursive_rejection"), tree_cases("traversal"),
                                 k_seq_cases(), trunk_and_spares_cases(), any_cases(), text_cases()})
    append(out, std::move(more));
  return out;
}

}  // namespace vectors
