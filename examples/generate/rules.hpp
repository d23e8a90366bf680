// The ways to continue a text: the target alone, and with a draft under each of the rules.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string_view>

#include "generate/pair.hpp"

namespace generate {

using OnStep = std::function<void(std::span<const Token>)>;
using Generator = std::mt19937_64;

/// One text to write.
struct Job {
  std::span<const Token> prompt;
  specdec::Options options;
  double temperature;
};

/// One way to write it.
template <class M>
struct Rule {
  std::string_view option;  ///< its name for --verifier, if it can be chosen
  std::string_view title;
  specdec::Result (*generate)(Pair<M>&, const Job&, Generator&, const OnStep&);
};

/// The distribution that is sampled: of the target and of the draft model alike.
template <class M>
auto sampled(M& model, double temperature) {
  return specdec::ProcessedModel{model, specdec::Chain{specdec::Temperature{temperature}}};
}

template <class M>
specdec::Result target_alone(Pair<M>& pair, const Job& job, Generator& generator, const OnStep& on_step) {
  return specdec::autoregressive(sampled(pair.target, job.temperature), job.prompt, job.options, generator,
                                 on_step);
}

template <class Verifier, class M>
specdec::Result with_draft_model(Pair<M>& pair, const Job& job, Generator& generator, const OnStep& on_step) {
  // These look at no probability of the draft, and do best with its most probable tokens.
  constexpr bool greedy_draft =
      std::same_as<Verifier, specdec::SampleMatchVerifier> || std::same_as<Verifier, specdec::ArgmaxVerifier>;
  specdec::ModelDrafter drafter{sampled(pair.draft, greedy_draft ? 0 : job.temperature)};
  specdec::SpecDec decoder{sampled(pair.target, job.temperature), drafter, Verifier{}};
  return decoder.generate(job.prompt, job.options, generator, on_step);
}

template <class M>
specdec::Result with_prompt_lookup(Pair<M>& pair, const Job& job, Generator& generator,
                                   const OnStep& on_step) {
  specdec::PromptLookupDrafter lookup{{.max_ngram = 3, .min_ngram = 1}};
  specdec::SpecDec decoder{sampled(pair.target, job.temperature), lookup, specdec::BlockVerifier{}};
  return decoder.generate(job.prompt, job.options, generator, on_step);
}

template <class M>
inline constexpr std::array<Rule<M>, 7> rules{{
    {"", "autoregressive", target_alone<M>},
    {"token", "token", with_draft_model<specdec::TokenVerifier, M>},
    {"block", "block", with_draft_model<specdec::BlockVerifier, M>},
    {"greedy-block", "greedy block", with_draft_model<specdec::GreedyBlockVerifier, M>},
    {"sample-match", "sample-match", with_draft_model<specdec::SampleMatchVerifier, M>},
    {"argmax", "argmax", with_draft_model<specdec::ArgmaxVerifier, M>},
    {"", "prompt lookup + block", with_prompt_lookup<M>},
}};

template <class M>
const Rule<M>& rule_named(std::string_view option) {
  return *std::ranges::find(rules<M>, option, &Rule<M>::option);
}

}  // namespace generate
