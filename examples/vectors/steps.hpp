// Cases of single rules: block verification's weights, greedy block verification's memory, ties of an argmax, keyed draws.
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <specdec/specdec.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "laws.hpp"
#include "lines.hpp"
#include "rows.hpp"

namespace vectors {

inline std::vector<Case> block_lines() {
  return {
      {"block/weight-of-the-first",
       "The first token has p < q, the second p > q: the second one makes up for the first, and a rule that "
       "stops at the first failed coin keeps too little.",
       {{{2, 6}, {6, 2}, {1, 3}}, {{4, 4}, {2, 6}}, {0, 0}}},
      {"block/weight-is-capped",
       "The first token has p > q, the second p < q: the weight is capped at 1 after the first.",
       {{{6, 2}, {2, 6}, {1, 3}}, {{2, 6}, {4, 4}}, {0, 0}}},
      {"block/weight-is-capped-twice",
       "Two tokens with p > q, then one with p < q: the surplus of the first two is lost.",
       {{{6, 2}, {6, 2}, {2, 6}, {1, 3}}, {{4, 4}, {4, 4}, {6, 2}}, {0, 0, 0}}},
      {"block/weight-in-the-residual",
       "After a kept token with p < q the residual is (w p - q)+, not (p - q)+.",
       {{{3, 2, 3}, {1, 4, 3}, {2, 2, 4}}, {{4, 2, 2}, {5, 3, 0}}, {0, 0}}},
      {"block/weights-of-three",
       "Three tokens below, above and below q: one coin a place, not a product of coins.",
       {{{2, 6}, {6, 2}, {3, 5}, {4, 4}}, {{4, 4}, {4, 4}, {4, 4}}, {0, 0, 0}}},
  };
}

inline Case random_steps(const std::string& name, Index vocab_size, Index first_gamma, Index second_gamma,
                         std::int64_t sum, std::uint64_t seed) {
  const std::string id = "greedy_block/" + name;
  return first_exact(id, seed, 8, [&](Numbers& numbers) -> std::optional<Case> {
    const Drafted first = random_line(vocab_size, first_gamma, sum, numbers);
    return Case{.id = id,
                .shows = "Two steps over random rows: any mistake of the rule or of its memory.",
                .steps = {first, random_line(vocab_size, second_gamma, sum, numbers)}};
  });
}

inline std::vector<Case> greedy_block_cases() {
  std::vector<Case> out = for_rule("greedy_block", all_lines(),
                                   {"gamma-0", "p-equals-q", "dead-end", "by-hand", "chosen", "65-ids"});
  const auto two = [&](std::string name, std::string shows, Drafted one, Drafted other) {
    out.push_back({.id = "greedy_block/" + std::move(name),
                   .shows = std::move(shows),
                   .steps = {std::move(one), std::move(other)}});
  };
  const Drafted two_tokens{{{2, 6}, {6, 2}, {4, 4}}, {{4, 4}, {4, 4}}, {0, 0}};
  const Drafted over_one{{{6, 2}, {2, 6}, {4, 4}}, {{4, 4}, {4, 4}}, {0, 1}};
  const Drafted three_tokens{{{1, 3}, {2, 2}, {3, 1}, {2, 2}}, {{2, 2}, {2, 2}, {2, 2}}, {0, 0, 0}};
  const Drafted certain{{{6, 2}, {2, 6}}, {{6, 2}}, {0}};
  const Drafted single{{{3, 1}, {1, 3}}, {{2, 2}}, {1}};
  const Drafted of_three{{{1, 2, 1}, {2, 1, 1}, {1, 1, 2}}, {{2, 1, 1}, {1, 1, 2}}, {0, 2}};
  const Drafted of_three_too{{{1, 1, 2}, {1, 2, 1}, {2, 1, 1}}, {{1, 2, 1}, {2, 1, 1}}, {1, 0}};
  two("memory",
      "The first step may stop with a token left to modify: the second step's first target row is then "
      "another one. A rule that forgets between steps is seen here.",
      two_tokens, single);
  two("memory-of-two-tokens", "The second draft is as long as the first.", two_tokens, over_one);
  two("weight-above-one",
      "The product of p/q is not capped at 1: the second token may make up for the first, and the other way "
      "round.",
      over_one, two_tokens);
  two("longer-memory", "A first draft of three tokens: up to two later tokens are modified.", three_tokens,
      two_tokens);
  two("nothing-to-remember", "A draft of one token leaves no modification.", single, two_tokens);
  two("kept-whole", "A kept draft leaves no modification.", certain, single);
  two("three-ids", "Three ids, two tokens in each step.", of_three, of_three_too);
  out.push_back(random_steps("random-2-ids", 2, 2, 2, 8, 1));
  out.push_back(random_steps("random-3-ids", 3, 2, 1, 4, 2));
  out.push_back(random_steps("random-3-tokens", 2, 3, 2, 4, 3));
  return out;
}

inline std::vector<Case> match_lines() {
  return {
      {"match/p-equals-q",
       "Equal rows: a drafted token is still kept with p(x) only, as the target draws its own.",
       {{{4, 3, 1}, {1, 6, 1}, {0, 0, 8}}, {{4, 3, 1}, {1, 6, 1}}, {0, 1}}},
      {"match/unlikely-draft",
       "p(x) is above q(x), and the token is kept with p(x) all the same.",
       {{{5, 2, 1}, {2, 2, 4}}, {{1, 3, 4}}, {0}}},
  };
}

inline std::vector<Case> argmax_lines() {
  return {
      {"argmax/gamma-0", "Nothing was drafted: the argmax of the only row.", {{{1, 0, 3, 4}}, {}, {}}},
      {"argmax/chosen",
       "Chosen tokens, of which the second is not the argmax.",
       {{{2, 1, 5}, {2, 4, 2}, {1, 6, 1}}, {chosen, chosen}, {2, 0}}},
      {"argmax/first-of-equals",
       "Among equal maxima the lowest id wins: the drafted token is as likely, and still rejected.",
       {{{2, 3, 3}, {1, 3, 4}}, {{2, 3, 3}}, {2}}},
      {"argmax/first-of-equals-is-kept",
       "Among equal maxima the lowest id wins, and it was drafted.",
       {{{2, 3, 3}, {3, 2, 3}}, {{2, 3, 3}}, {1}}},
      {"argmax/all-equal", "All ids are equal: id 0.", {{{1, 1, 1, 1}, {1, 1, 1, 1}}, {{1, 1, 1, 1}}, {0}}},
      {"argmax/all-kept",
       "All three drafted tokens are the argmax.",
       {{{1, 6, 1}, {5, 2, 1}, {1, 2, 5}, {1, 4, 3}}, {{2, 2, 4}, {2, 2, 4}, {2, 2, 4}}, {1, 0, 2}}},
      {"argmax/stops-at-the-second",
       "The second token is not the argmax, though likely; the third would be.",
       {{{1, 6, 1}, {4, 3, 1}, {1, 2, 5}, {1, 4, 3}}, {{2, 2, 4}, {2, 4, 2}, {2, 2, 4}}, {1, 1, 2}}},
      {"argmax/ties-across-tiles",
       "Equal maxima at the last id of one tile and the first of the next: kernels that merge tiles must "
       "keep the lower id.",
       {{sparse(129, {{63, 8}, {64, 8}}), sparse(129, {{64, 8}, {128, 8}}),
         sparse(129, {{0, 2}, {127, 7}, {128, 7}})},
        {chosen, chosen},
        {63, 64}}},
      {"argmax/last-id",
       "The argmax is the last id of 65.",
       {{sparse(65, {{0, 7}, {64, 9}}), sparse(65, {{63, 1}, {64, 1}})}, {chosen}, {64}}},
  };
}

// The draft guesses the first `right` tokens of the seed, and then a token that is not drawn.
inline Case keyed_case(const std::string& name, const std::string& shows, std::uint64_t seed, Index position,
                       const std::vector<Weights>& target, Index right) {
  Case out{.id = "keyed/" + name, .shows = shows, .seed = seed, .position = position};
  out.drafted.target = target;
  const Rows rows(out.drafted, out.vocab_size(), out.vocab_size());
  const auto distributions = specdec::distributions(rows.target);
  const specdec::Keyed keyed(seed, position);
  for (Index i = 0; i + 1 < std::ssize(target); ++i) {
    const Token drawn = keyed.draw(distributions.row(i), i);
    out.drafted.tokens.push_back(i < right ? drawn : static_cast<Token>((drawn + 1) % out.vocab_size()));
    out.drafted.draft.push_back(chosen);
  }
  return out;
}

inline std::vector<Case> keyed_cases() {
  const Weights flat(16, 1), few{0, 1, 0, 2, 4, 0, 0, 1, 0, 0, 4, 0, 0, 3, 0, 1}, wide(256, 1);
  const Weights listed = sparse(4096, {{0, 3}, {1023, 1}, {2048, 8}, {4095, 4}});
  return {
      keyed_case("gamma-0", "One draw from a flat row at the start of a text.", 1, 0, {flat}, 0),
      keyed_case("position-5", "The seed and the row of keyed/gamma-0, five tokens further.", 1, 5, {flat},
                 0),
      keyed_case("seed-0", "The seed 0.", 0, 3, {flat}, 0),
      keyed_case("large-seed", "A seed of 52 bits.", (std::uint64_t{1} << 52) - 1, 1000, {flat}, 0),
      keyed_case("all-guessed",
                 "The draft has the draws of this seed: all three are kept, and a fourth is drawn.", 7, 10,
                 {few, flat, few, flat}, 3),
      keyed_case("second-is-wrong", "The first token is what this seed draws, the second is not.", 7, 10,
                 {few, flat, few, flat}, 1),
      keyed_case("wide", "A flat row of 256 ids.", 11, 2, {wide, wide}, 1),
      keyed_case("sparse", "Four possible ids of 4096.", 12, 2, {listed, listed, listed}, 2),
  };
}

}  // namespace vectors
