// Two transformers from llama2.c checkpoints.
#pragma once

#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>

#include "generate/pair.hpp"
#include "transformer/tokenizer.hpp"
#include "transformer/transformer.hpp"

namespace generate {

template <class Scalar>
using TransformerPair = Pair<transformer::Transformer<Scalar>>;

/// Throws: std::runtime_error on a bad file, std::invalid_argument on models of different vocabularies.
template <class Scalar>
TransformerPair<Scalar> transformer_pair(const std::string& model, const std::string& draft_model,
                                         const std::string& tokenizer_path) {
  using transformer::Tokenizer;
  transformer::Transformer<Scalar> target(model), draft(draft_model);
  if (target.vocab_size() != draft.vocab_size())
    throw std::invalid_argument("'" + model + "' has a vocabulary of " + std::to_string(target.vocab_size()) +
                                " tokens, '" + draft_model + "' one of " +
                                std::to_string(draft.vocab_size()));
  const auto tokenizer = std::make_shared<const Tokenizer>(tokenizer_path, target.vocab_size());
  std::ostringstream description;
  description << "Target " << model << ": " << target.shape() << "\nDraft  " << draft_model << ": "
              << draft.shape();
  return {.target = target,
          .draft = draft,
          .description = description.str(),
          .encode = [tokenizer](std::string_view text) { return tokenizer->encode(text); },
          .decode = [tokenizer](Token before,
                                Token token) { return std::string(tokenizer->decode(before, token)); },
          .stop_tokens = {Tokenizer::begin_of_text, Tokenizer::end_of_text}};
}

}  // namespace generate
