// Each mistake that a running text can show, as an engine.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "mistakes/drafters.hpp"
#include "mistakes/rows.hpp"
#include "mistakes/rules.hpp"
#include "mistakes/running_text.hpp"

namespace mistakes {

struct NamedEngine {
  std::string mistake;
  Engine engine;
};

Engine::Judge judged_by(auto rule) {
  return [rule](const Matrix& target, const Matrix& draft, const std::vector<Token>& tokens,
                std::mt19937_64& rng) mutable { return specdec::verify(rule, target, draft, tokens, rng); };
}

Engine with_rule(auto rule) { return {.judge = judged_by(rule)}; }
inline Engine with_drafter(const Mistake& drafting) {
  return {.judge = judged_by(specdec::TokenVerifier{}), .drafting = drafting};
}

// Rows with few tokens each, for a mistake of lists. The draft is drawn from rows that are cut, too.
inline Engine listing_engine(const RowAfter& target) {
  return {.judge = judged_by(SubtractsByIndex{}),
          .drafting = [](Row& row, Index, const Draw& draw) -> std::optional<Token> {
            row = cut(row);
            return draw(row);
          },
          .law = [target](const auto& text) { return cut(target(text)); }};
}

inline Engine cutting_engine(const RowAfter& target) {
  return {.judge = judged_by(CutNotNormalised{}),
          .law = [target](const auto& text) { return cut(target(text)); },
          .sees = [target](const auto& text, const auto& drafted,
                           Token) { return target(joined(text, drafted)); }};
}

// A target that likes to repeat its last three tokens, with a penalty on the last ten of `counted`.
inline Row penalised(Row row, const std::vector<Token>& text, std::span<const Token> counted) {
  for (const Token x :
       std::set<Token>(text.end() - std::min<std::ptrdiff_t>(std::ssize(text), 3), text.end()))
    row[x] *= 5;
  for (const Token x :
       std::set<Token>(counted.end() - std::min<std::ptrdiff_t>(std::ssize(counted), 10), counted.end()))
    row[x] *= 0.5;
  return row / row.sum();
}

inline Engine forgetting_engine(const RowAfter& target) {
  return {.judge = judged_by(specdec::TokenVerifier{}),
          .law = [target](const auto& text) { return penalised(target(text), text, text); },
          .sees =
              [target](const auto& text, const auto& drafted, Token) {
                const std::vector<Token> whole = joined(text, drafted);
                return penalised(target(whole), whole, text);
              }};
}

inline Engine stale_engine(const RowAfter& target) {
  return {.judge = judged_by(specdec::TokenVerifier{}),
          .sees = [target](auto text, const auto& drafted, Token rejected) {
            if (rejected >= 0) text.insert(text.end() - 1, rejected);
            return target(joined(text, drafted));
          }};
}

inline std::vector<NamedEngine> engines_with_mistakes(const TextModels& models) {
  Engine restarting = with_rule(specdec::TokenVerifier{});
  restarting.steps_until_preempted = 20;
  Engine accepting = with_rule(AcceptsImpossible{});
  accepting.drafting = cut_q;
  return {{"no mistake", with_rule(specdec::TokenVerifier{})},
          {"raw q beside a processed draw", with_drafter(raw_q)},
          {"a drawn token dropped for its probability", with_drafter(DropsUnlikely{models.p_min})},
          {"a sampler reseeded before each draft", with_drafter(Reseeded{})},
          {"q from the row of another request", with_drafter(NeighboursRow{})},
          {"noise shared by draft and replacement", with_rule(SharedNoise{})},
          {"one number for coin and replacement", with_rule(OneNumber{})},
          {"u is always 0", with_rule(UniformIsZero{})},
          {"the acceptance product is not capped", with_rule(UncappedProduct{})},
          {"p/(q + 1e-5)", with_rule(SmoothedRatio{})},
          {"the replacement from the next row", with_rule(NextRow{})},
          {"a residual without its last tile", with_rule(MissesLastTile{})},
          {"a miss is judged greedily", with_rule(GreedyAtMiss{})},
          {"branches with negative probabilities", with_rule(NegativeBranches{})},
          {"the bonus token from the draft's row", with_rule(BonusFromDraft{})},
          {"lists subtracted by index", listing_engine(models.target)},
          {"relaxed acceptance", with_rule(RelaxedAcceptance{})},
          {"a preempted rule forgets", with_rule(ForgetsAtPreemption{})},
          {"a preempted generator starts again", restarting},
          {"q = 0 is accepted", accepting},
          {"-1 padding is verified", with_drafter(padded_with_last)},
          {"rows cut, and not normalised", cutting_engine(models.target)},
          {"a rejected token stays in the cache", stale_engine(models.target)},
          {"penalties forget the draft", forgetting_engine(models.target)}};
}

}  // namespace mistakes
