// Grammars of llama.cpp (GBNF) as logits processors, for target and draft model alike.
//
//   LlamaGrammar grammar{target.weights(), "root ::= \"yes\" | \"no\""};
//   specdec::ProcessedModel p{target, chain, specdec::AfterPrompt{prompt_size, grammar}};
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <specdec/more/samplers.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "llama_weights.hpp"

/// The state of a text in a grammar. It is for specdec::Snapshots, because llama.cpp cannot take a token back.
class LlamaGrammarState {
 public:
  /// Throws: std::invalid_argument if llama.cpp cannot read the grammar, or if the grammar forbids nothing. (Some versions
  /// take an unreadable grammar for one that forbids nothing.)
  LlamaGrammarState(LlamaWeights weights, const std::string& gbnf, const std::string& root)
      : weights_(std::move(weights)),
        sampler_(llama_sampler_init_grammar(weights_.vocab(), gbnf.c_str(), root.c_str())) {
    if (sampler_ == nullptr) throw std::invalid_argument("llama.cpp cannot read the grammar");
    Eigen::RowVectorXf logits = Eigen::RowVectorXf::Zero(weights_.vocab_size());
    apply(logits);
    if (logits.minCoeff() == 0)
      throw std::invalid_argument("llama.cpp cannot read the grammar, or it forbids nothing");
  }

  LlamaGrammarState(const LlamaGrammarState& other)
      : weights_(other.weights_), sampler_(llama_sampler_clone(other.sampler_.get())) {
    if (sampler_ == nullptr) throw std::bad_alloc();
  }
  LlamaGrammarState(LlamaGrammarState&&) noexcept = default;
  LlamaGrammarState& operator=(LlamaGrammarState other) noexcept {
    std::swap(weights_, other.weights_);
    std::swap(sampler_, other.sampler_);
    return *this;
  }

  template <class Logits>
  void apply(Logits&& logits) {
    constexpr float never = -std::numeric_limits<float>::infinity();
    const specdec::Index size = std::min<specdec::Index>(logits.size(), weights_.vocab_size());
    candidates_.resize(static_cast<std::size_t>(size));
    for (specdec::Index x = 0; x < size; ++x)
      candidates_[static_cast<std::size_t>(x)] = {static_cast<llama_token>(x), 0.0f, 0.0f};
    filter();
    for (const llama_token_data& each : candidates_)
      if (forbidden(each)) logits[each.id] = never;
    logits.tail(logits.size() - size).setConstant(never);  // a draft model may have a few more tokens
  }

  // A check of our own: llama.cpp ends the program on a token that the grammar forbids or that is not in the vocabulary.
  bool push(specdec::Token x) {
    if (x < 0 || x >= weights_.vocab_size()) return false;
    candidates_.assign(1, {x, 0.0f, 0.0f});
    filter();
    if (forbidden(candidates_.front())) return false;
    llama_sampler_accept(sampler_.get(), x);
    return true;
  }

 private:
  static bool forbidden(const llama_token_data& each) { return std::isinf(each.logit); }

  // Sets the logits of forbidden candidates to −inf.
  void filter() {
    llama_token_data_array all{};
    all.data = candidates_.data();
    all.size = candidates_.size();
    all.selected = -1;
    llama_sampler_apply(sampler_.get(), &all);
  }

  struct Free {
    void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
  };

  LlamaWeights weights_;  // the sampler uses their vocabulary
  std::unique_ptr<llama_sampler, Free> sampler_;
  std::vector<llama_token_data> candidates_;
};

/// Forbids tokens that a grammar of llama.cpp does not allow. Satisfies specdec::TextProcessor. The grammar begins at the
/// first token of the text; specdec::AfterPrompt leaves the prompt out.
/// Throws: std::invalid_argument on a grammar that llama.cpp cannot read, or that forbids nothing.
/// Cost: for each row a pass of llama.cpp over its whole vocabulary; for each token a clone of its grammar.
class LlamaGrammar : public specdec::Snapshots<LlamaGrammarState> {
 public:
  LlamaGrammar(const LlamaWeights& weights, const std::string& gbnf, const std::string& root = "root")
      : Snapshots(LlamaGrammarState(weights, gbnf, root)) {}
};

static_assert(specdec::TextProcessor<LlamaGrammar>);
