// Fingerprints: the laws that known mistakes give on telling cases. A runner that convicts an engine names the mistake by them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cases.hpp"
#include "laws.hpp"
#include "mistakes/rules.hpp"

namespace vectors {

using specdec::Verdict;

// The draft's row is taken for one-hot, as if the drafter had told no q: a token is kept with p(x).
struct TakesQForOne {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      if (chance.coin(drafted.p(i))) continue;
      const specdec::OneHotRow q(drafted.token(i));
      return {i, *chance.race(1.0, drafted.target(i), q)};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// q/p in place of p/q.
struct RatioUpsideDown {
  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i)
      if (!chance.coin(drafted.p(i) > 0 ? std::min(1.0, drafted.q(i) / drafted.p(i)) : 1.0))
        return {i, *drafted.race(chance, 1.0, i)};
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }
};

// Block verification whose coins are right. But the replacement is drawn from (p - q)+, not from (w p - q)+.
struct ForgetsWeight {
  Verdict judge(const auto& drafted, auto& chance) const {
    std::vector<double> w{1};
    for (Index i = 0; i < drafted.gamma(); ++i) w.push_back(std::min(1.0, w.back() * drafted.ratio(i)));
    for (Index i = drafted.gamma(); i > 0; --i)
      if (drafted.race(chance, w[static_cast<std::size_t>(i)], i))
        return {i, i == drafted.gamma() ? drafted.draw(chance, i) : *drafted.race(chance, 1.0, i)};
    return {0, *drafted.race(chance, 1.0, 0)};
  }
};

// Block verification from the first token on, which stops at the first coin that fails.
struct StopsAtFirstFailure {
  Verdict judge(const auto& drafted, auto& chance) const {
    double w = 1;
    std::optional<Token> next = *drafted.race(chance, 1.0, 0);
    Index kept = 0;
    while (kept < drafted.gamma()) {
      w = std::min(1.0, w * drafted.ratio(kept));
      const std::optional<Token> won = w > 0 ? drafted.race(chance, w, kept + 1) : std::nullopt;
      if (!won) break;
      next = won;
      ++kept;
    }
    return {kept, *next};
  }
};

struct Mistake {
  std::string name, is;
  std::function<Law(const Case&)> law;
  std::vector<std::string> cases;  // the ids of the cases whose laws are written
};

inline const std::vector<std::string> telling_cases{"token/by-hand",
                                                    "token/row-of-the-rejected-place",
                                                    "token/rows-of-three-places",
                                                    "token/top-k-zeros",
                                                    "token/draft-top-k",
                                                    "token/both-cut",
                                                    "token/kept-to-the-end",
                                                    "token/tiny-q",
                                                    "token/relaxed",
                                                    "token/small-ones",
                                                    "token/coin-and-draw",
                                                    "token/short-draft-vocabulary"};
inline const std::vector<std::string> tiled_cases{"token/65-ids", "token/129-ids", "token/1025-ids"};
inline const std::vector<std::string> telling_blocks{
    "block/weight-of-the-first",    "block/weight-is-capped", "block/weight-is-capped-twice",
    "block/weight-in-the-residual", "block/weights-of-three", "block/rows-of-three-places"};
inline const std::vector<std::string> telling_steps{
    "greedy_block/memory", "greedy_block/memory-of-two-tokens", "greedy_block/longer-memory"};

inline std::vector<Mistake> known_mistakes() {
  const auto line = [](const auto& rule) { return [rule](const Case& of) { return law_of_line(of, rule); }; };
  return {
      {"u is always 0", "A drafted token is kept whenever the target gives it any probability.",
       line(mistakes::UniformIsZero{}), telling_cases},
      {"p/(q + 1e-5)", "A small number is added to q, so that nothing is divided by 0.",
       line(mistakes::SmoothedRatio{}), telling_cases},
      {"the replacement from the next row", "The replacement of token i is drawn from target row i + 1.",
       line(mistakes::NextRow{}), telling_cases},
      {"the replacement from the target's row", "The replacement is drawn from p, not from (p - q)+.",
       line(mistakes::ReplacementFromTarget{}), telling_cases},
      {"q is taken for 1",
       "A drawn token is judged as if it had been chosen: kept with p(x), and never its own replacement.",
       line(TakesQForOne{}), telling_cases},
      {"the ratio upside down", "A token is kept with q/p in place of p/q.", line(RatioUpsideDown{}),
       telling_cases},
      {"a residual without its last tile",
       "The replacement is drawn tile by tile, and the last tile of 64 ids is left out.",
       line(mistakes::MissesLastTile{}), tiled_cases},
      {"a miss is judged greedily", "Half of the drafts are judged as at temperature 0.",
       line(mistakes::GreedyAtMiss{}), telling_cases},
      {"the bonus token from the draft's row",
       "After a draft that is kept whole, the next token is drawn from the draft's last row.",
       line(mistakes::BonusFromDraft{}), telling_cases},
      {"lists subtracted by index",
       "Rows are lists of possible ids, and are subtracted entry by entry, not id by id.",
       line(mistakes::SubtractsByIndex{}), telling_cases},
      {"rows cut, and not normalised",
       "The target's ids below half of the largest probability are cut off after it was normalised.",
       line(mistakes::CutNotNormalised{}), telling_cases},
      {"relaxed acceptance", "A drafted token is kept if its logit is within 1 of the largest.",
       line(mistakes::RelaxedAcceptance{}), telling_cases},
      {"noise shared by draft and replacement",
       "The replacement is drawn with the random number that the draft was drawn with.",
       line(mistakes::SharedNoise{}), telling_cases},
      {"one number for coin and replacement",
       "The replacement is drawn with the random number of the coin that failed.",
       line(mistakes::OneNumber{}), telling_cases},
      {"the acceptance product is not capped", "Block verification whose weight may be above 1.",
       line(mistakes::UncappedProduct{}), telling_blocks},
      {"the weight is forgotten in the residual",
       "Block verification that draws the replacement from (p - q)+, not from (w p - q)+.",
       line(ForgetsWeight{}), telling_blocks},
      {"a block that stops at the first failed coin",
       "Block verification that goes from the first token to the last.", line(StopsAtFirstFailure{}),
       telling_blocks},
      {"a preempted rule forgets", "Greedy block verification whose memory is lost between two steps.",
       [](const Case& of) { return law_of_steps(of, mistakes::ForgetsAtPreemption{}); }, telling_steps},
  };
}

// How far two laws are apart: the largest difference of a probability.
inline double distance(const Law& computed, const ExactLaw& right) {
  std::map<Outcome, double> left(computed.begin(), computed.end());
  for (const auto& [outcome, fraction] : right) left[outcome] -= fraction.value();
  double most = 0;
  for (const auto& [outcome, difference] : left) most = std::max(most, std::abs(difference));
  return most;
}

}  // namespace vectors
