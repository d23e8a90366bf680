// Draft lengths on recorded drafts of the shipped pair: how near do they come to one that knows which tokens will survive?
//
// At each place of a text that the target wrote, a draft of 16 tokens is recorded, with how far each token survives. Then
// every draft length is run over these drafts, with costs that are given and not measured. So all see equal drafts, and no
// noise.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/lengths.hpp>
#include <specdec/specdec.hpp>
#include <string>
#include <vector>

#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;
using Transformer = transformer::Transformer<float>;

constexpr Index longest = 16, tokens_of_a_text = 100;

// A recorded draft: the largest probability of each row, and P(τ > i) under block verification.
struct Recorded {
  std::array<double, longest> confidence, survival;
  double coin;  // decides how many tokens survive
};
using Text = std::vector<Recorded>;  // a draft at each place

Recorded record(auto& target, auto& draft, Token last, auto& rng) {
  specdec::RandomChance chance{rng};
  Recorded out{};
  Tokens tokens{last};
  std::array<double, longest> q{};
  for (std::size_t i = 0; i < longest; ++i) {
    const auto row = draft.forward(std::span(tokens).last(1), 1).row(0);
    out.confidence[i] = specdec::confidence_of(row, static_cast<Index>(i));
    tokens.push_back(chance.draw(row));
    q[i] = row.probability(tokens.back());
  }
  const auto rows = target.forward(tokens, longest + 1);
  double before = 1;
  for (std::size_t i = 0; i < longest; ++i) {
    const double p = rows.row(static_cast<Index>(i)).probability(tokens[i + 1]);
    out.survival[i] = before = specdec::BlockVerifier{}.survival(before, p, q[i]);
  }
  out.coin = specdec::uniform01(rng);
  return out;
}

// Lets the target write after a prompt, and records a draft at each place.
Text record_text(Transformer& large, Transformer& small, const Tokens& prompt, double temperature,
                 auto& rng) {
  const specdec::Temperature chain{temperature};
  specdec::ProcessedModel target{large, chain}, draft{small, chain};
  target.truncate(0);
  draft.truncate(0);
  const auto before = std::span(prompt).first(prompt.size() - 1);
  target.forward(before, 1);
  draft.forward(before, 1);
  Text text;
  Token last = prompt.back();
  for (Index length = std::ssize(prompt); std::ssize(text) < tokens_of_a_text; ++length) {
    text.push_back(record(target, draft, last, rng));
    target.truncate(length - 1);
    draft.truncate(length);
    specdec::RandomChance chance{rng};
    last = chance.draw(target.forward(std::span(&last, 1), 1).row(0));
  }
  return text;
}

// In target calls over one token.
struct Costs {
  double drafted_token, fed_token;
};

std::chrono::nanoseconds time(double calls) { return std::chrono::nanoseconds(std::llround(1e6 * calls)); }

// Draws a draft of the length that the policy wants; returns that length.
Index drafted(auto& policy, const Recorded& draft) {
  const Index most = policy.next(longest);
  if constexpr (requires { policy.more({}); }) {
    for (std::size_t i = 1; i < static_cast<std::size_t>(most); ++i)
      if (!policy.more({.readings = std::span(draft.confidence).first(i)}).level)
        return static_cast<Index>(i);
  }
  return most;
}

// The tokens per target call's time of a policy over all texts.
double speed(auto policy, const std::vector<Text>& texts, const Costs& costs) {
  double emitted = 0, spent = 0;
  for (const Text& text : texts)
    for (std::size_t at = 0; at < text.size();) {
      const Recorded& draft = text[at];
      if constexpr (requires { policy.survive; })
        policy.survive = std::ranges::count_if(draft.survival, [&](double w) { return w > draft.coin; });
      const auto length = static_cast<std::size_t>(drafted(policy, draft));
      const auto survival = std::span(draft.survival).first(length);
      const auto accepted = std::ranges::count_if(survival, [&](double w) { return w > draft.coin; });
      const auto tokens = static_cast<double>(length);
      const double draft_time = tokens * costs.drafted_token, target_time = 1 + tokens * costs.fed_token;
      policy.observe({.asked = std::ssize(survival),
                      .drafted = std::ssize(survival),
                      .accepted = accepted,
                      .fed = std::ssize(survival) + 1,
                      .survival = survival,
                      .readings = std::span(draft.confidence).first(length),
                      .draft_time = time(draft_time),
                      .target_time = time(target_time)});
      emitted += static_cast<double>(accepted) + 1;
      spent += draft_time + target_time;
      at += static_cast<std::size_t>(accepted) + 1;
    }
  return emitted / spent;
}

struct Fixed {
  Index length;
  Index next(Index) const { return length; }
  void observe(const specdec::StepRecord&) const {}
};
// Drafts just the tokens that will survive.
struct Oracle {
  Index survive = 0;
  Index next(Index) const { return survive; }
  void observe(const specdec::StepRecord&) const {}
};

int main() {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer target(weights + "target.bin"), draft(weights + "draft.bin");
  const transformer::Tokenizer tokenizer(weights + "tokenizer.bin", target.vocab_size());
  std::vector<Tokens> prompts;
  std::ifstream lines(SPECDEC_EXAMPLES "/data/prompts.txt");
  for (std::string line; prompts.size() < 10 && std::getline(lines, line);)
    prompts.push_back(tokenizer.encode(line));

  std::cout << std::fixed << " T   drafted, fed token  best gamma  speed-up    auto   early  oracle\n";
  for (const double temperature : {0.0, 0.8}) {
    std::vector<Text> texts;
    std::mt19937_64 rng{1};
    for (const Tokens& prompt : prompts)
      texts.push_back(record_text(target, draft, prompt, temperature, rng));
    for (const Costs& costs : {Costs{0.03, 0.01}, Costs{0.08, 0.12}, Costs{0.01, 0.1}, Costs{0.2, 0.02}}) {
      Index gamma = 0;
      double best = 0;
      for (Index length = 0; length <= longest; ++length)
        if (const double found = speed(Fixed{length}, texts, costs); found > best)
          best = found, gamma = length;
      std::cout << std::setprecision(1) << std::setw(4) << temperature << std::setprecision(2)
                << std::setw(10) << costs.drafted_token << std::setw(11) << costs.fed_token << std::setw(12)
                << gamma << std::setw(10) << best << std::setprecision(3) << std::setw(8)
                << speed(specdec::CostOptimalLength<>{}, texts, costs) / best << std::setw(8)
                << speed(specdec::EarlyStoppingLength<>{}, texts, costs) / best << std::setw(8)
                << speed(Oracle{}, texts, costs) / best << "\n";
    }
  }
}
