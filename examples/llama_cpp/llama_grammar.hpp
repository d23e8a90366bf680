// llama.cpp's grammars (GBNF) as processors of logits, for target and drafter alike.
//
//   LlamaGrammar grammar{target.weights(), "root ::= \"yes\" | \"no\""};
//   specdec::ProcessedModel p{target, chain, specdec::AfterPrompt{prompt_size, grammar}};
#pragma once

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <new>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "llama_weights.hpp"

/// How far a text is through a grammar, for specdec::Snapshots: llama.cpp cannot take a token back.
class LlamaGrammarState {
 public:
  /// Throws std::invalid_argument where llama.cpp can make no grammar of the text, or one that forbids nothing: some
  /// versions take what they cannot read for such a one.
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
    logits.tail(logits.size() - size).setConstant(never);  // a draft model may have some tokens more
  }

  // llama.cpp ends the program over a token that the grammar does not allow, and knows none outside its vocabulary.
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

  // Leaves a logit of −inf to the candidates that may not come next.
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

  LlamaWeights weights_;  // whose vocabulary the sampler looks at
  std::unique_ptr<llama_sampler, Free> sampler_;
  std::vector<llama_token_data> candidates_;
};

/// Forbids what a grammar of llama.cpp does not allow. Satisfies specdec::TextProcessor. The text that it is shown is the
/// grammar's from its first token on: specdec::AfterPrompt leaves the prompt out.
///
/// Throws std::invalid_argument on a grammar that llama.cpp cannot read, or that forbids nothing.
/// Cost: for each row a pass of llama.cpp's over its whole vocabulary; a clone of its grammar for each token.
class LlamaGrammar : public specdec::Snapshots<LlamaGrammarState> {
 public:
  LlamaGrammar(const LlamaWeights& weights, const std::string& gbnf, const std::string& root = "root")
      : Snapshots(LlamaGrammarState(weights, gbnf, root)) {}
};

static_assert(specdec::TextProcessor<LlamaGrammar>);
