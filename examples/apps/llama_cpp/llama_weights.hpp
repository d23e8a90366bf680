// A GGUF file on llama.cpp: its weights and its vocabulary.
// SPDX-License-Identifier: MIT
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "llama_api.hpp"

/// The weights and the vocabulary of a GGUF file. Copies share them; the last one frees them.
class LlamaWeights {
 public:
  /// Throws: std::runtime_error if the file cannot be read or llama.cpp cannot load it.
  explicit LlamaWeights(const std::string& path, int gpu_layers = 0) : path_(path) {
    check_magic();
    static const Backend backend;
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = gpu_layers;
    model_.reset(llama_model_load_from_file(path.c_str(), params), llama_model_free);
    if (!model_) throw std::runtime_error("'" + path + "' is no model that llama.cpp can load");
  }

  const std::string& path() const { return path_; }
  llama_model* model() const { return model_.get(); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model()); }
  specdec::Index vocab_size() const { return llama_vocab_n_tokens(vocab()); }
  /// Whether the model has a recurrent state, so that rejected tokens cannot be rolled back one by one.
  bool is_recurrent() const { return llama_api::is_recurrent(model()); }
  /// The context size that the model was trained for.
  specdec::Index trained_context() const { return llama_model_n_ctx_train(model()); }

  /// The tokens of a text, with the special tokens that the model wants around it.
  std::vector<specdec::Token> tokenize(const std::string& text) const {
    constexpr bool add_special = true, parse_special = true;
    std::vector<specdec::Token> tokens(text.size() + 2);
    const auto call = [&] {
      return llama_tokenize(vocab(), text.data(), static_cast<std::int32_t>(text.size()), tokens.data(),
                            static_cast<std::int32_t>(tokens.size()), add_special, parse_special);
    };
    std::int32_t count = call();
    if (count < 0) {
      tokens.resize(static_cast<std::size_t>(-count));
      count = call();
    }
    tokens.resize(static_cast<std::size_t>(std::max(count, 0)));
    return tokens;
  }

  /// The text of a token; empty for a control token.
  std::string text(specdec::Token token) const {
    std::string text(16, '\0');
    const auto call = [&] {
      return llama_token_to_piece(vocab(), token, text.data(), static_cast<std::int32_t>(text.size()), 0,
                                  false);
    };
    std::int32_t size = call();
    if (size < 0) {
      text.resize(static_cast<std::size_t>(-size));
      size = call();
    }
    text.resize(static_cast<std::size_t>(std::max(size, 0)));
    return text;
  }

  /// The tokens that end a text.
  std::vector<specdec::Token> end_tokens() const {
    std::vector<specdec::Token> tokens;
    for (specdec::Token x = 0; x < vocab_size(); ++x)
      if (llama_vocab_is_eog(vocab(), x)) tokens.push_back(x);
    return tokens;
  }

 private:
  struct Backend {
    Backend() {
      ggml_backend_load_all();
      llama_backend_init();
    }
    ~Backend() { llama_backend_free(); }
  };

  void check_magic() const {
    char magic[4] = {};
    if (!std::ifstream(path_, std::ios::binary).read(magic, sizeof(magic)))
      throw std::runtime_error("cannot read '" + path_ + "'");
    if (std::string_view(magic, sizeof(magic)) != "GGUF")
      throw std::runtime_error("'" + path_ + "' is no GGUF file");
  }

  std::string path_;
  std::shared_ptr<llama_model> model_;
};

/// Returns the weights. For contexts that roll back token by token.
/// Throws: std::runtime_error on a recurrent model.
inline LlamaWeights not_recurrent(LlamaWeights weights) {
  if (weights.is_recurrent())
    throw std::runtime_error("'" + weights.path() +
                             "' is a recurrent model: rejected tokens cannot be taken back");
  return weights;
}

/// Checks that target and draft model have equal vocabularies, by the rule of llama.cpp's own speculative decoding: equal
/// tokenizer type, equal first and last token of a text; sizes that differ only by some padding; and equal texts of all
/// common token ids but the first few, whose names differ.
///
/// The output would be right without this check. But drafts with other tokens are accepted only by chance, so such a pair
/// is surely a mistake.
/// Throws: std::runtime_error if the check fails.
inline void check_same_vocabulary(const LlamaWeights& target, const LlamaWeights& draft) {
  constexpr specdec::Index most_padding = 128;
  constexpr specdec::Token first_compared = 5;
  const llama_vocab *p = target.vocab(), *q = draft.vocab();
  const auto differ = [&](const std::string& what) {
    throw std::runtime_error("'" + draft.path() + "' cannot draft for '" + target.path() + "': " + what);
  };
  const auto differ_in = [&](const char* what, auto of_target, auto of_draft) {
    if (of_target != of_draft)
      differ(std::string(what) + std::to_string(of_draft) + ", not " + std::to_string(of_target));
  };
  differ_in("its tokenizer is of kind ", static_cast<int>(llama_vocab_type(p)),
            static_cast<int>(llama_vocab_type(q)));
  differ_in("its texts begin with token ", llama_vocab_bos(p), llama_vocab_bos(q));
  differ_in("its texts end with token ", llama_vocab_eos(p), llama_vocab_eos(q));
  const auto [fewer, more] = std::minmax({target.vocab_size(), draft.vocab_size()});
  if (more - fewer > most_padding)
    differ_in("its vocabulary has size ", target.vocab_size(), draft.vocab_size());
  for (specdec::Token x = first_compared; x < fewer; ++x) {
    const char *in_target = llama_vocab_get_text(p, x), *in_draft = llama_vocab_get_text(q, x);
    if (std::strcmp(in_target, in_draft) != 0)
      differ("its token " + std::to_string(x) + " is '" + in_draft + "', not '" + in_target + "'");
  }
}
