// Cases whose drafts the runner draws itself, and cases of whole texts.
// SPDX-License-Identifier: MIT
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"

namespace vectors {

// Rows for all places of a draft. The draft is drawn from them, so every lossless rule emits the target's law.
inline std::vector<Case> any_cases() {
  const auto any = [](std::string name, std::string shows, std::vector<Weights> target,
                      std::vector<Weights> draft) {
    return Case{.id = "any/" + std::move(name),
                .shows = std::move(shows),
                .drafted = {std::move(target), std::move(draft), {}}};
  };
  return {
      any("two-ids",
          "Two ids, three drafted tokens: a rule that keeps too much or too little shows in the tokens.",
          {{1, 3}, {6, 2}, {3, 5}, {2, 2}}, {{3, 1}, {1, 1}, {1, 3}}),
      any("three-ids", "Three ids, two drafted tokens.", {{2, 1, 5}, {1, 6, 1}, {4, 2, 2}},
          {{4, 2, 2}, {2, 2, 4}}),
      any("p-equals-q",
          "Equal rows: everything is kept, and the last token comes from the target's last row.",
          {{4, 3, 1}, {1, 6, 1}, {0, 2, 6}}, {{4, 3, 1}, {1, 6, 1}}),
      any("disjoint", "Rows without a common id: nothing is kept.",
          {{0, 0, 5, 3}, {3, 5, 0, 0}, {2, 2, 2, 2}}, {{5, 3, 0, 0}, {0, 0, 4, 4}}),
      any("top-k", "Target and draft are cut to different ids.", {{5, 3, 0, 0}, {0, 0, 2, 6}, {4, 0, 4, 0}},
          {{0, 4, 4, 0}, {2, 0, 0, 6}}),
      any("one-hot-draft", "A draft that is certain, and wrong half of the time.",
          {{4, 2, 2}, {1, 4, 3}, {2, 2, 4}}, {{8, 0, 0}, {0, 8, 0}}),
      any("short-draft-vocabulary", "The draft's vocabulary has 2 ids, the target's 4.",
          {{1, 2, 3, 2}, {2, 1, 1, 4}, {4, 2, 1, 1}}, {{5, 3}, {1, 3}}),
      any("four-tokens", "A draft of four tokens.", {{5, 3}, {3, 5}, {7, 1}, {2, 6}, {4, 4}},
          {{3, 5}, {5, 3}, {4, 4}, {6, 2}}),
      any("gamma-0", "Nothing is drafted.", {{1, 2, 5}}, {}),
  };
}

// Whole texts, of three target calls or more.
inline std::vector<Case> text_cases() {
  const auto text = [](std::string name, std::string shows, Writing writing) {
    return Case{.id = "text/" + std::move(name), .shows = std::move(shows), .writing = std::move(writing)};
  };
  const Table coin{0, {{3, 1}}}, other_coin{0, {{1, 3}}}, last{1, {{3, 1}, {1, 3}}}, flat{0, {{1, 1}}};
  const Table three{1, {{1, 2, 1}, {2, 1, 1}, {1, 1, 2}}}, three_flat{0, {{2, 1, 1}}},
      three_other{1, {{2, 1, 1}, {1, 1, 2}, {1, 2, 1}}};
  const Table last_two{2, {{7, 1}, {1, 7}, {1, 7}, {7, 1}}};
  const Weights a{6, 1, 1}, b{1, 6, 1}, c{1, 1, 6}, d{2, 1, 1}, e{1, 2, 1}, f{1, 1, 2};
  const Table three_two{2, {a, b, c, c, a, b, b, c, a}}, three_two_other{2, {d, e, f, e, f, d, d, e, f}};
  const Table stopping{0, {{3, 4, 1}}}, stopping_draft{0, {{2, 2, 4}}},
      stopping_late{1, {{4, 3, 1}, {1, 4, 3}, {2, 2, 4}}};
  return {
      text("coin",
           "One row for every place, and one for the draft. Five tokens in drafts of one: three calls at "
           "least.",
           {coin, other_coin, {0}, 1, 5, {}}),
      text("last-token",
           "The target's row depends on the last token: the rows after an emitted token are its own.",
           {last, flat, {0}, 1, 5, {}}),
      text("last-token-drafts-of-two",
           "Drafts of two tokens, seven tokens: the row after a replacement is not that after the rejected "
           "token.",
           {last, flat, {1, 0}, 2, 7, {}}),
      text("both-depend",
           "Target and draft depend on the last token: each draft begins after the last emitted token.",
           {three, three_other, {2}, 1, 5, {}}),
      text(
          "equal-models",
          "Target and draft are equal: nothing is rejected, and each step ends with a token of the target's.",
          {three, three, {0}, 1, 5, {}}),
      text("stop-token", "A text ends with the first stop token, also where it is in the middle of a step.",
           {stopping, stopping_draft, {0}, 2, 5, {2}}),
      text("stop-token-of-the-last-token", "The stop token's probability depends on the last token.",
           {stopping_late, stopping_draft, {0}, 1, 5, {2}}),
      text("two-stop-tokens", "Two stop tokens, in drafts of two.",
           {stopping_late, three_flat, {0}, 2, 6, {1, 2}}),
      text("stop-token-in-the-prompt", "A stop token in the prompt ends nothing.",
           {stopping, stopping_draft, {2, 2}, 1, 5, {2}}),
      text("budget-of-one", "A budget of one token: a step may not emit more.",
           {three, three_flat, {1}, 3, 1, {}}),
      text("budget-within-a-step", "Drafts are longer than what is left of the budget.",
           {three, three_flat, {1}, 4, 4, {}}),
      text("no-draft", "Drafts of no tokens: plain decoding.", {three, three_flat, {1}, 0, 4, {}}),
      text("last-two-tokens",
           "The target's row depends on the last two tokens: a rejected one that stays in its cache is seen.",
           {last_two, flat, {0, 1}, 1, 5, {}}),
      text("last-two-tokens-drafts-of-two",
           "The same in drafts of two: all rejected tokens must leave the target's cache.",
           {last_two, flat, {1, 1}, 2, 6, {}}),
      text("both-depend-on-two-tokens",
           "Three ids, and both rows depend on the last two tokens: the target's cache must drop what was "
           "rejected, and rows after a replacement are read again.",
           {three_two, three_two_other, {2, 0}, 2, 4, {}}),
  };
}

}  // namespace vectors
