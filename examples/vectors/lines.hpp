// Lines whose rows were chosen by hand: each shows a mistake that engines make. Several rules judge them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "rows.hpp"

namespace vectors {

// Rows in which some token is surely kept or surely rejected.
inline std::vector<Case> certain_lines() {
  return {
      {"gamma-0", "Nothing was drafted: one token is drawn from the only row.", {{{1, 0, 3, 4}}, {}, {}}},
      {"gamma-0-one-hot",
       "Nothing was drafted, and one token has the probability 1: logits of minus infinity beside it.",
       {{{0, 0, 8, 0}}, {}, {}}},
      {"one-id",
       "A vocabulary of one id: everything is kept, and nothing may be divided by 0.",
       {{{1}, {1}, {1}}, {{1}, {1}}, {0, 0}}},
      {"p-equals-q",
       "Target and draft have equal rows, so both tokens are kept: no residual is left to draw from. The row "
       "after the draft is far from the draft's rows.",
       {{{4, 3, 1}, {1, 6, 1}, {0, 0, 8}}, {{4, 3, 1}, {1, 6, 1}}, {0, 1}}},
      {"p-equals-q-flat",
       "Equal rows without any difference between ids, with different sums.",
       {{{1, 1, 1, 1}, {2, 2, 2, 2}, {1, 2, 4, 1}}, {{2, 2, 2, 2}, {1, 1, 1, 1}}, {3, 0}}},
      {"kept-to-the-end",
       "Each drafted token is likelier under the target, so all are kept, and the last token comes from the "
       "target's last row, not from the draft's.",
       {{{6, 1, 1}, {1, 6, 1}, {1, 1, 6}}, {{2, 3, 3}, {3, 2, 3}}, {0, 1}}},
      {"disjoint",
       "Target and draft share no id: the first token is rejected, and its replacement has the target's law.",
       {{{0, 0, 3, 5}, {1, 1, 3, 3}, {2, 2, 2, 2}}, {{5, 3, 0, 0}, {2, 2, 2, 2}}, {1, 2}}},
      {"one-hot-rows",
       "One-hot rows: the first token is kept, the second is rejected, and its replacement is the target's "
       "only id.",
       {{{0, 8, 0}, {8, 0, 0}, {0, 0, 8}}, {{0, 8, 0}, {0, 0, 8}}, {1, 2}}},
      {"ruled-out",
       "The target rules out the drafted token, a logit of minus infinity: it is rejected.",
       {{{5, 0, 2, 1}, {2, 2, 2, 2}, {1, 3, 3, 1}}, {{2, 4, 1, 1}, {2, 2, 2, 2}}, {1, 3}}},
      {"dead-end",
       "The target rules out the first token, and no token at all may come after it: the rows of zeros "
       "decide nothing.",
       {{{4, 0, 4}, {0, 0, 0}, {0, 0, 0}}, {{2, 4, 2}, {2, 4, 2}}, {1, 0}}},
      {"dead-end-after-one",
       "The second token is ruled out, and its row is a dead end: a text never gets there.",
       {{{4, 4, 0}, {7, 1, 0}, {0, 0, 0}}, {{2, 6, 0}, {2, 2, 4}}, {1, 2}}},
      {"chosen-certain",
       "A chosen token that the target is sure of is kept: no other has any probability.",
       {{{0, 0, 4, 0}, {1, 2, 0, 1}}, {chosen}, {2}}},
  };
}

// Rows that tell one place of the draft from another, or one row from another.
inline std::vector<Case> telling_lines() {
  return {
      {"by-hand",
       "p(x) = 1/4 and q(x) = 3/4: the drafted token is kept once in three times; else it is replaced by the "
       "other id.",
       {{{1, 3}, {2, 2}}, {{3, 1}}, {0}}},
      {"row-of-the-rejected-place",
       "The row that rejects token i must also give its replacement. Here row i + 1 has other ids.",
       {{{1, 7, 0, 0}, {0, 0, 4, 4}}, {{7, 1, 0, 0}}, {0}}},
      {"rows-of-three-places",
       "Each of four target rows has its main weight on another id, so a row that is one place off is seen "
       "at each place.",
       {{{2, 5, 1, 0}, {0, 2, 5, 1}, {1, 0, 2, 5}, {5, 1, 0, 2}},
        {{4, 2, 1, 1}, {1, 4, 2, 1}, {1, 1, 4, 2}},
        {0, 1, 2}}},
      {"top-k-zeros",
       "The target keeps two ids of each row (top-k), the draft has all: replacements must stay within the "
       "two.",
       {{{5, 3, 0, 0}, {0, 4, 0, 4}, {1, 0, 7, 0}}, {{2, 4, 1, 1}, {2, 1, 1, 4}}, {1, 3}}},
      {"draft-top-k",
       "The draft keeps two ids (top-k), the target has all: the ids that only the target has are found in "
       "replacements.",
       {{{3, 2, 2, 1}, {1, 2, 1, 4}, {2, 2, 2, 2}}, {{0, 4, 4, 0}, {4, 0, 0, 4}}, {2, 0}}},
      {"both-cut",
       "Both rows are cut, to different ids: a list that is subtracted entry by entry, not id by id, is "
       "wrong.",
       {{{4, 0, 3, 1, 0, 0}, {0, 2, 0, 2, 0, 4}}, {{0, 2, 4, 0, 1, 1}}, {2}}},
      {"chosen",
       "The tokens were chosen, not drawn (n-grams, top-k trees): q is one-hot, a token is kept with p(x), "
       "and the replacement is never x.",
       {{{2, 1, 5}, {4, 2, 2}, {1, 6, 1}}, {chosen, chosen}, {2, 0}}},
      {"chosen-then-drawn",
       "The first token was chosen, the second drawn: each has its own kind of row.",
       {{{2, 1, 5}, {2, 2, 4}, {1, 6, 1}}, {chosen, {4, 2, 2}}, {1, 0}}},
      {"padded-ids",
       "Ids 5 to 7 pad the vocabulary to a round number, and have no probability: they never come out.",
       {{{3, 1, 2, 1, 1, 0, 0, 0}, {1, 4, 1, 1, 1, 0, 0, 0}}, {{1, 4, 1, 1, 1, 0, 0, 0}}, {1}}},
      {"short-draft-vocabulary",
       "The draft's vocabulary has 3 ids, the target's 5: beyond the draft's rows q is 0, and these ids are "
       "found in replacements.",
       {{{1, 2, 1, 2, 2}, {2, 1, 1, 3, 1}, {1, 1, 1, 1, 4}}, {{4, 2, 2}, {2, 4, 2}}, {0, 1}}},
      {"draft-vocabulary-of-one",
       "The draft's vocabulary has one id.",
       {{{1, 1, 2}, {2, 1, 1}, {0, 4, 4}}, {{1}, {1}}, {0, 0}}},
      {"first-id",
       "Only id 0 can replace the drafted token.",
       {{{6, 2, 0, 0}, {2, 2, 2, 2}}, {{2, 4, 1, 1}}, {1}}},
      {"last-id",
       "Only the last id can replace the drafted token.",
       {{{0, 0, 2, 6}, {2, 2, 2, 2}}, {{1, 1, 4, 2}}, {2}}},
      {"peaked",
       "A target that is nearly certain, and a flat draft.",
       {{{1, (1 << 20) - 2, 1}, {1, 2, 1}}, {{1, 2, 1}}, {0}}},
      {"tiny",
       "A drafted token that the target gives 2^-20: it is nearly always rejected.",
       {{{(1 << 20) - 1, 1}, {1, 1}}, {{1, 1}}, {1}}},
      {"tiny-q",
       "p(x) = 2^-17 and q(x) = 2^-16: kept half of the time. A small number that is added to q is seen "
       "here.",
       {{{1, (1 << 17) - 1}, {1, 3}}, {{1, (1 << 16) - 1}}, {0}}},
      {"small-residual",
       "Half of the time the token is rejected, and its residual has the mass 2^-8: only one id can replace "
       "it. A residual that is too small is not to be replaced by the target's row.",
       {{{1, 128, 127}, {1, 1, 2}}, {{2, 128, 126}}, {0}}},
      {"smaller-residual",
       "Half of the time the token is rejected, and its residual has the mass 2^-14: only one id can replace "
       "it.",
       {{{1, 1 << 13, (1 << 13) - 1}, {1, 1, 2}}, {{2, 1 << 13, (1 << 13) - 2}}, {0}}},
      {"relaxed",
       "The drafted token is one of the target's likeliest, and still must be rejected half of the time.",
       {{{3, 3, 2}, {3, 2, 3}, {4, 2, 2}}, {{6, 1, 1}, {1, 1, 6}}, {0, 2}}},
      {"small-ones",
       "The target has one large and many small probabilities: a row that is cut and not normalised, or only "
       "read where it is large, is seen.",
       {{{8, 3, 2, 2, 1}, {8, 4, 2, 1, 1}}, {{4, 8, 2, 1, 1}}, {1}}},
      {"coin-and-draw",
       "The replacement has three ids: it needs a number of its own, not that of the coin nor that of the "
       "draft.",
       {{{4, 1, 6, 5}, {4, 4, 4, 4}}, {{2, 8, 4, 2}}, {1}}},
  };
}

// Wide rows: kernels read them tile by tile.
inline std::vector<Case> wide_lines() {
  return {
      {"64-ids",
       "One full tile of 64 ids, with its edges in use.",
       {{sparse(64, {{0, 4}, {31, 2}, {32, 2}, {63, 8}}), sparse(64, {{0, 8}, {63, 8}})},
        {sparse(64, {{0, 8}, {31, 4}, {63, 4}})},
        {0}}},
      {"65-ids",
       "One id more than a tile of 64: most of the replacement lies in the last tile.",
       {{sparse(65, {{3, 2}, {10, 6}, {64, 8}}), sparse(65, {{0, 8}, {64, 8}})},
        {sparse(65, {{3, 8}, {10, 4}, {63, 4}})},
        {3}}},
      {"129-ids",
       "Three tiles of 64, of which the last has one id.",
       {{sparse(129, {{5, 2}, {63, 1}, {64, 3}, {127, 2}, {128, 8}}), sparse(129, {{127, 8}, {128, 8}}),
         sparse(129, {{0, 1}, {64, 1}, {128, 2}})},
        {sparse(129, {{5, 8}, {64, 2}, {100, 6}}), sparse(129, {{127, 4}, {128, 12}})},
        {5, 128}}},
      {"1025-ids",
       "One id more than 1024: the replacement lies in the last tile alone.",
       {{sparse(1025, {{17, 4}, {1023, 4}, {1024, 8}}), sparse(1025, {{1023, 1}, {1024, 7}})},
        {sparse(1025, {{17, 8}, {1023, 8}})},
        {17}}},
      {"4096-ids",
       "Many ids, few of them possible: two tokens, and ids at the edges of blocks of 1024.",
       {{sparse(4096, {{7, 2}, {1023, 1}, {1024, 1}, {4095, 4}}),
         sparse(4096, {{7, 4}, {2047, 2}, {2048, 1}, {3000, 1}}), sparse(4096, {{0, 4}, {4095, 4}})},
        {sparse(4096, {{7, 4}, {1023, 2}, {3071, 2}}), sparse(4096, {{7, 2}, {2048, 4}, {3000, 2}})},
        {7, 2048}}},
      {"4096-chosen",
       "A chosen token among many ids.",
       {{sparse(4096, {{64, 3}, {2000, 4}, {4095, 1}}), sparse(4096, {{1, 1}, {4095, 1}})},
        {chosen},
        {2000}}},
  };
}

// The lines with these names, or all of them if none is named, as cases of a rule.
inline std::vector<Case> for_rule(const std::string& rule, const std::vector<Case>& lines,
                                  std::set<std::string> names = {}) {
  std::vector<Case> out;
  const bool all = names.empty();
  for (Case of : lines) {
    if (!all && names.erase(of.id) == 0) continue;
    of.id = rule + "/" + of.id;
    out.push_back(std::move(of));
  }
  if (!names.empty()) throw std::runtime_error("no line has the name " + *names.begin());
  return out;
}

inline void append(std::vector<Case>& to, std::vector<Case> more) {
  for (Case& of : more) to.push_back(std::move(of));
}

inline std::vector<Case> all_lines() {
  std::vector<Case> out = certain_lines();
  append(out, telling_lines());
  append(out, wide_lines());
  return out;
}

}  // namespace vectors
