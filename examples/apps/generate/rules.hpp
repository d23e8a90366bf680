// The verification rules that can be chosen, and how a text is written with one of them.
// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <random>
#include <span>
#include <specdec/more/analysis/measures.hpp>
#include <specdec/specdec.hpp>
#include <string_view>

#include "generate/drafters.hpp"
#include "generate/lengths.hpp"
#include "generate/pair.hpp"
#include "generate/sampled.hpp"

namespace generate {

using OnStep = std::function<void(std::span<const Token>)>;

/// One text to write.
struct Job {
  std::span<const Token> prompt;
  specdec::Options options;
  double temperature;
  specdec::Measures* measures = nullptr;  ///< where the measures of its drafts are added, if anywhere
};

/// What is observed of a text: what a Result shows, and the measures, if they are asked for.
inline auto observers_of(const Job& job, specdec::Measures& unwanted) {
  return specdec::Observers{specdec::StatsObserver{}, specdec::LogProbabilityObserver{},
                            specdec::MeasuresObserver{job.measures != nullptr ? *job.measures : unwanted}};
}

/// A rule of verification.
struct Rule {
  std::string_view option;  ///< its name for --verifier
  std::string_view title;
  bool uses_draft_probabilities;
  specdec::Result (*generate)(Model& target, Drafter&, Length&, const Job&, Generator&, const OnStep&);
};

template <class Verifier>
specdec::Result speculate(Model& target, Drafter& drafter, Length& length, const Job& job,
                          Generator& generator, const OnStep& on_step) {
  const auto generate = [&](auto& policy) {
    specdec::Measures unwanted;
    specdec::SpecDec decoder{sampled(target, job.temperature), drafter, Verifier{}, policy,
                             observers_of(job, unwanted)};
    return decoder.generate(job.prompt, job.options, generator, on_step);
  };
  if constexpr (specdec::remembers_sequence<Verifier>) {
    return generate(length);
  } else {
    ShownRows shown(length);
    return generate(shown);
  }
}

inline constexpr std::array<Rule, 5> rules{{
    {"token", "token", true, speculate<specdec::TokenVerifier>},
    {"block", "block", true, speculate<specdec::BlockVerifier>},
    {"greedy-block", "greedy block", true, speculate<specdec::GreedyBlockVerifier>},
    {"sample-match", "sample-match", false, speculate<specdec::SampleMatchVerifier>},
    {"argmax", "argmax", false, speculate<specdec::ArgmaxVerifier>},
}};

inline const Rule& rule_named(std::string_view option) {
  return *std::ranges::find(rules, option, &Rule::option);
}

/// The temperature to draft at. It is 0 for rules that do not read draft probabilities: they accept the draft model's
/// likeliest tokens most often.
inline double draft_temperature(const Rule& rule, double temperature) {
  return rule.uses_draft_probabilities ? temperature : 0;
}

/// The reason why the rule cannot judge this drafter's drafts; empty if it can.
inline std::string_view objection(const Rule& rule, const DrafterKind& drafter) {
  if (rule.option == "greedy-block" && drafter.option == "chain")
    return "greedy block verification needs drafts of one q for a position, which a chain with a model in it "
           "does not give";
  if (rule.option == "greedy-block" && (drafts_with_head(drafter.option) || drafter.option == "skip-layers"))
    return "greedy block verification needs a q that depends on the tokens alone; the q of heads and of "
           "skipped layers also depends on how many of them the target has taken in";
  if (rule.option == "greedy-block" && drafter.option == "online")
    return "greedy block verification needs drafts of one q for a position, which a draft model that learns "
           "does not give";
  return {};
}

/// The reason why the rule cannot judge drafts of such a length; empty if it can.
inline std::string_view objection(const Rule& rule, const Gamma& gamma) {
  if (rule.option == "greedy-block" && gamma.early)
    return "greedy block verification needs drafts whose length does not depend on what was drafted";
  return {};
}

}  // namespace generate
