// llama.cpp as a backend: a context of a GGUF model as a specdec::LogitsModel, for target and draft model
// alike.
//
//   LlamaModel target{LlamaWeights{"target.gguf"}}, draft{LlamaWeights{"draft.gguf"}};
//   check_same_vocabulary(target.weights(), draft.weights());
//   specdec::Chain chain{specdec::TopP{0.95}, specdec::Temperature{0.8}};
//   specdec::ProcessedModel p{target, chain}, q{draft, chain};
//   specdec::SpecDec decoder{p, specdec::ModelDrafter{q}, specdec::BlockVerifier{}};
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// What the C interface of llama.cpp has come to call things. Templates, so that a header is asked only for
// the names it has.
namespace llama_api {

/// Removes what the context holds from position `from` on; whether that could be done.
template <class Context>
bool remove_from(Context* context, llama_pos from) {
  if constexpr (requires { llama_memory_seq_rm(llama_get_memory(context), 0, from, -1); })
    return llama_memory_seq_rm(llama_get_memory(context), 0, from, -1);
  else if constexpr (requires { llama_kv_self_seq_rm(context, 0, from, -1); })
    return llama_kv_self_seq_rm(context, 0, from, -1);
  else return llama_kv_cache_seq_rm(context, 0, from, -1);
}

/// Whether the model has a state that no single token can be taken out of again.
template <class Model>
bool is_recurrent(const Model* model) {
  if constexpr (requires { llama_model_is_hybrid(model); })
    if (llama_model_is_hybrid(model)) return true;
  return llama_model_is_recurrent(model);
}

/// Has a cache for sliding windows keep what has left the window, as the rollback may move the window back.
template <class Params>
void keep_whole_windows(Params& params) {
  if constexpr (requires { params.swa_full; }) params.swa_full = true;
}

}  // namespace llama_api

/// The weights and the vocabulary of a GGUF file. Copies share them; the last one frees them.
class LlamaWeights {
 public:
  /// Throws std::runtime_error: no file that can be read; none that llama.cpp can load; a recurrent model,
  /// which cannot be rolled back.
  explicit LlamaWeights(const std::string& path, int gpu_layers = 0) : path_(path) {
    check_magic();
    static const Backend backend;
    llama_model_params params = llama_model_default_params();
    params.n_gpu_layers = gpu_layers;
    model_.reset(llama_model_load_from_file(path.c_str(), params), llama_model_free);
    if (!model_) throw std::runtime_error("'" + path + "' is no model that llama.cpp can load");
    if (llama_api::is_recurrent(model_.get()))
      throw std::runtime_error("'" + path + "' is a recurrent model: rejected tokens cannot be taken back");
  }

  const std::string& path() const { return path_; }
  llama_model* model() const { return model_.get(); }
  const llama_vocab* vocab() const { return llama_model_get_vocab(model()); }
  specdec::Index vocab_size() const { return llama_vocab_n_tokens(vocab()); }
  /// How long a context the model was trained for.
  specdec::Index trained_context() const { return llama_model_n_ctx_train(model()); }

  /// The tokens of a text, with those that the model wants around it.
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

  /// The text of a token; that of a control token is empty.
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

/// Throws std::runtime_error unless the draft model's tokens mean what the target's mean, by the rule of
/// llama.cpp's own speculative decoding: the same kind of tokenizer, first and last token of a text; sizes
/// that differ by no more than some padding; the same text for every token id that both have, but for the
/// first few, which go by different names.
///
/// The output would be that of the target even without all this. But a drafter that speaks of other tokens is
/// only ever right by chance, so such a pair is taken for a mistake.
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

/// A context over weights: one sequence with its KV cache. Satisfies specdec::LogitsModel.
///
/// It shares the weights, and can be moved but not copied. What forward() returns points into the context's
/// own memory, until the next call.
class LlamaModel {
 public:
  struct Options {
    specdec::Index context = 0;  ///< how many tokens it has to hold; 0: as many as the model was trained for
    specdec::Index batch = 512;  ///< how many llama.cpp is given at a time
    int threads = 1;
  };

  explicit LlamaModel(LlamaWeights weights) : LlamaModel(std::move(weights), Options{}) {}

  /// Throws std::runtime_error where llama.cpp can make no such context.
  LlamaModel(LlamaWeights weights, const Options& options) : weights_(std::move(weights)) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(options.context);
    params.n_batch = static_cast<std::uint32_t>(options.batch);
    params.n_ubatch = params.n_batch;
    params.n_threads = params.n_threads_batch = options.threads;
    llama_api::keep_whole_windows(params);
    context_.reset(llama_init_from_model(weights_.model(), params));
    if (!context_) throw std::runtime_error("llama.cpp has no context for '" + weights_.path() + "'");
  }

  const LlamaWeights& weights() const { return weights_; }
  specdec::Index vocab_size() const { return weights_.vocab_size(); }
  /// How many tokens the context holds at most.
  specdec::Index context_size() const { return llama_n_ctx(context_.get()); }

  /// Appends the tokens, and returns the logits after each of the last `rows` of them. A prompt that is
  /// longer than a batch is taken in piece by piece.
  ///
  /// Throws, with the context as it was: std::length_error where it would hold more than context_size()
  /// tokens; std::invalid_argument for more rows than tokens or than fit into one batch; std::runtime_error
  /// where llama.cpp fails.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    check(std::ssize(tokens), rows);
    const specdec::Index before = length_, batch_size = llama_n_batch(context_.get());
    try {
      while (std::ssize(tokens) > batch_size) {  // all rows come out of the last batch
        const auto count = static_cast<std::size_t>(std::min(batch_size, std::ssize(tokens) - rows));
        decode(tokens.first(count), 0);
        tokens = tokens.subspan(count);
      }
      decode(tokens, rows);
      take_rows(std::ssize(tokens), rows);
    } catch (...) {
      length_ = std::numeric_limits<specdec::Index>::max();  // llama.cpp may have kept a part
      truncate(before);
      throw;
    }
    return {pointers_, vocab_size()};
  }

  void truncate(specdec::Index length) {
    if (length >= length_) return;
    length_ = length;
    broken_ = !llama_api::remove_from(context_.get(), static_cast<llama_pos>(length));
  }

 private:
  struct Free {
    void operator()(llama_context* context) const { llama_free(context); }
  };

  void check(specdec::Index count, specdec::Index rows) const {
    const auto number = [](specdec::Index n) { return std::to_string(n); };
    if (broken_) throw std::runtime_error("'" + weights_.path() + "' could not be rolled back");
    if (count > context_size() - length_)
      throw std::length_error("the context of '" + weights_.path() + "' is full: it holds " +
                              number(length_) + " of " + number(context_size()) + " tokens, and " +
                              number(count) + " more are to follow");
    if (rows < 1 || rows > count || rows > llama_n_batch(context_.get()))
      throw std::invalid_argument(number(rows) + " rows of logits were asked for after " + number(count) +
                                  " tokens; a batch has " + number(llama_n_batch(context_.get())));
  }

  // Appends the tokens, with logits for the last `rows`.
  void decode(std::span<const specdec::Token> tokens, specdec::Index rows) {
    tokens_.assign(tokens.begin(), tokens.end());
    positions_.clear();
    wanted_.clear();
    for (specdec::Index i = 0; i < std::ssize(tokens); ++i) {
      positions_.push_back(static_cast<llama_pos>(length_ + i));
      wanted_.push_back(i >= std::ssize(tokens) - rows);
    }
    llama_batch batch = {};
    batch.n_tokens = static_cast<std::int32_t>(tokens.size());
    batch.token = tokens_.data();
    batch.pos = positions_.data();
    batch.logits = wanted_.data();
    if (const int status = llama_decode(context_.get(), batch); status != 0)
      throw std::runtime_error("llama.cpp could not decode " + std::to_string(tokens.size()) +
                               " tokens with '" + weights_.path() + "' (status " + std::to_string(status) +
                               ")");
    length_ += std::ssize(tokens);
  }

  void take_rows(specdec::Index count, specdec::Index rows) {
    pointers_.clear();
    for (specdec::Index i = count - rows; i < count; ++i) {
      pointers_.push_back(llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(i)));
      if (!pointers_.back()) throw std::runtime_error("llama.cpp has no logits of '" + weights_.path() + "'");
    }
  }

  LlamaWeights weights_;
  std::unique_ptr<llama_context, Free> context_;
  specdec::Index length_ = 0;  // how many tokens the context holds
  bool broken_ = false;
  // One batch, and where its logits are.
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<std::int8_t> wanted_;
  std::vector<const float*> pointers_;
};

static_assert(specdec::LogitsModel<LlamaModel>);
