// A running text that is written with a mistake: after how many of its tokens does a TextAudit convict it?
// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <specdec/more/audits/text_audit.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "mistakes/drafters.hpp"
#include "mistakes/rows.hpp"
#include "mistakes/rules.hpp"

namespace mistakes {

// A model's row after a text.
using RowAfter = std::function<Row(const std::vector<Token>& text)>;

// The models of a running text. If a text may be no longer than `longest`, another one begins after it.
struct TextModels {
  RowAfter target, draft;
  Index vocab_size;
  std::vector<Token> opening;
  Index longest = std::numeric_limits<Index>::max();
  double p_min = 0.01;  // of the drafter that drops tokens below it
};

// An engine, with a mistake in its rule, its drafter, or in the target's rows that it sees.
struct Engine {
  using Judge = std::function<Verdict(const Matrix& target, const Matrix& draft,
                                      const std::vector<Token>& tokens, std::mt19937_64& rng)>;
  // The target's row after the text and `drafted` tokens of the draft. `rejected` is the last rejected token, or -1.
  using Sees =
      std::function<Row(const std::vector<Token>& text, const std::vector<Token>& drafted, Token rejected)>;

  Judge judge;
  Mistake drafting = honest;
  RowAfter law = {};                // what it should draw from, if that is not the target's row
  Sees sees = {};                   // where it sees other rows
  Index steps_until_preempted = 0;  // then its generator starts from its seed again; 0: never
};

inline std::vector<Token> joined(std::vector<Token> text, const std::vector<Token>& drafted) {
  text.insert(text.end(), drafted.begin(), drafted.end());
  return text;
}

// The texts that an engine writes, one after the other.
class RunningText {
 public:
  RunningText(const TextModels& models, Engine engine) : models_(models), engine_(std::move(engine)) {}

  // After how many tokens they are convicted by 10^4; 0 if they are not, within `limit`.
  Index tokens_until_conviction(Index limit) {
    specdec::testing::TextAudit audit;
    while (audit.tokens() < limit) {
      if (std::ssize(text_) >= models_.longest) text_ = models_.opening, rejected_ = -1;
      for (const Token x : step()) {
        // A text ends at a length that was settled before. What a step writes beyond it is no part of the text.
        if (std::ssize(text_) >= models_.longest) break;
        audit.add(law(text_), x, models_.draft(text_));
        text_.push_back(x);
        if (audit.convicts(1e-4)) return audit.tokens();
      }
    }
    return 0;
  }

 private:
  std::vector<Token> step() {
    constexpr Index gamma = 4;
    if (engine_.steps_until_preempted > 0 && ++steps_ % engine_.steps_until_preempted == 0)
      rng_ = std::mt19937_64(seed);
    specdec::RandomChance chance(rng_);
    Matrix target(gamma + 1, models_.vocab_size), draft(gamma, models_.vocab_size);
    std::vector<Token> tokens, whole = text_;
    while (std::ssize(tokens) < gamma) {
      Row row = models_.draft(whole);
      const std::optional<Token> x = engine_.drafting(row, std::ssize(tokens), draw_by(chance));
      if (!x) break;
      draft.row(std::ssize(tokens)) = row;
      tokens.push_back(*x);
      whole.push_back(*x);
    }
    const Index drafted = std::ssize(tokens);
    const Verdict verdict = judge(target.topRows(drafted + 1), draft.topRows(drafted), tokens);
    rejected_ = verdict.accepted < drafted ? tokens[static_cast<std::size_t>(verdict.accepted)] : -1;
    tokens.resize(static_cast<std::size_t>(verdict.accepted));
    tokens.push_back(verdict.token);
    return tokens;
  }

  Verdict judge(Eigen::Ref<Matrix> target, const Eigen::Ref<const Matrix>& draft,
                const std::vector<Token>& tokens) {
    // The longest text first: a model that keeps the rows of its context then reads the draft in one call.
    for (Index i = target.rows(); i-- > 0;)
      target.row(i) = row_seen({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i)});
    return engine_.judge(target, draft, tokens, rng_);
  }

  Row law(const std::vector<Token>& text) const {
    return engine_.law ? engine_.law(text) : models_.target(text);
  }
  Row row_seen(const std::vector<Token>& drafted) const {
    if (engine_.sees) return engine_.sees(text_, drafted, rejected_);
    return law(joined(text_, drafted));
  }

  static constexpr std::uint64_t seed = 11;

  TextModels models_;
  Engine engine_;
  std::mt19937_64 rng_{seed};
  std::vector<Token> text_ = models_.opening;
  Token rejected_ = -1;
  Index steps_ = 0;
};

}  // namespace mistakes
