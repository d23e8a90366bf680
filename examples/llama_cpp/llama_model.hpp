// llama.cpp as a backend: a context of a GGUF model as a specdec::LogitsModel, for target and draft model
// alike, whose calls may branch.
//
//   LlamaModel target{LlamaWeights{"target.gguf"}}, draft{LlamaWeights{"draft.gguf"}};
//   check_same_vocabulary(target.weights(), draft.weights());
//   specdec::Chain chain{specdec::TopP{0.95}, specdec::Temperature{0.8}};
//   specdec::ProcessedModel p{target, chain}, q{draft, chain};
//   specdec::SpecDec decoder{p, specdec::ModelDrafter{q}, specdec::BlockVerifier{}};
//
//   LlamaModel wide{LlamaWeights{"target.gguf"}, {.sequences = 16}};  // takes trees with up to 16 leaves
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llama_api.hpp"
#include "llama_tree.hpp"

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

/// A context over weights, with its KV cache. Satisfies specdec::LogitsTreeModel, hence specdec::LogitsModel.
///
/// It shares the weights, and can be moved but not copied. What forward() returns points into the context's
/// own memory, until the next call.
///
/// All sequences hold the context, always, so that a tree has to enter and leave its own tokens alone. No data is
/// copied for that.
class LlamaModel {
 public:
  struct Options {
    specdec::Index context = 0;  ///< how many tokens it has to hold; 0: as many as the model was trained for
    specdec::Index batch = 512;  ///< how many llama.cpp is given at a time
    int threads = 1;
    specdec::Index sequences = 1;  ///< how many leaves a tree of tokens may have
  };

  explicit LlamaModel(LlamaWeights weights) : LlamaModel(std::move(weights), Options{}) {}

  /// Throws std::runtime_error where llama.cpp can make no such context; std::invalid_argument without a sequence.
  LlamaModel(LlamaWeights weights, const Options& options)
      : weights_(std::move(weights)), tree_(options.sequences) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = static_cast<std::uint32_t>(options.context);
    params.n_batch = static_cast<std::uint32_t>(options.batch);
    params.n_ubatch = params.n_batch;
    params.n_seq_max = static_cast<std::uint32_t>(options.sequences);
    params.n_threads = params.n_threads_batch = options.threads;
    llama_api::keep_whole_windows(params);
    llama_api::share_one_cache(params);
    context_.reset(llama_init_from_model(weights_.model(), params));
    if (!context_) throw std::runtime_error("llama.cpp has no context for '" + weights_.path() + "'");
    for (specdec::Index sequence = 0; sequence < options.sequences; ++sequence)
      all_sequences_.push_back(static_cast<llama_seq_id>(sequence));
  }

  const LlamaWeights& weights() const { return weights_; }
  specdec::Index vocab_size() const { return weights_.vocab_size(); }
  /// How many tokens the context holds at most, with all those of an open tree.
  specdec::Index context_size() const { return llama_n_ctx(context_.get()); }

  /// Appends the tokens, and returns the logits after each of the last `rows` of them. A prompt that is
  /// longer than a batch is taken in piece by piece.
  ///
  /// Throws, with the context as it was: std::length_error where it would hold more than context_size()
  /// tokens; std::invalid_argument for more rows than tokens or than fit into one batch; std::logic_error while a tree is
  /// open; std::runtime_error where llama.cpp fails.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens, specdec::Index rows) {
    check(std::ssize(tokens), rows);
    if (!tree_.empty())
      throw std::logic_error("a tree is open in '" + weights_.path() + "': keep() or truncate() closes it");
    begin_call(tokens);
    for (specdec::Index i = 0; i < std::ssize(tokens); ++i) add_place(length_ + i, all_sequences_);
    try {
      decode_all(rows);
    } catch (...) {
      remove(-1, length_);  // llama.cpp may have kept a part
      throw;
    }
    length_ += std::ssize(tokens);
    return {pointers_, vocab_size()};
  }

  /// Adds the tokens to the tree that is open behind the context: see specdec::TreeModel. Every token takes a place in
  /// the context until keep() or truncate().
  ///
  /// Throws, with context and tree as they were: as forward(tokens, rows), std::invalid_argument unless there is a
  /// parent for each token, −1 or the number of one before it, and std::length_error where the tree would have more
  /// leaves than Options::sequences.
  specdec::RowPointers<float> forward(std::span<const specdec::Token> tokens,
                                      std::span<const specdec::Index> parents, specdec::Index rows) {
    check(std::ssize(tokens), rows);
    if (parents.size() != tokens.size())
      throw std::invalid_argument(std::to_string(parents.size()) + " parents for " +
                                  std::to_string(tokens.size()) + " tokens");
    begin_call(tokens);
    const specdec::Index first = tree_.size();
    tree_.grow(parents, [&](specdec::Index owner, specdec::Index other, specdec::Index depth) {
      share(owner, other, depth);
    });
    try {
      for (specdec::Index token = first; token < tree_.size(); ++token)
        add_place(length_ + tree_.depth(token) - 1, tree_.holders(token));
      decode_all(rows);
    } catch (...) {
      tree_.shrink();
      for (const llama_seq_id sequence : all_sequences_)
        remove(sequence, length_ + tree_.depth(tree_.end(sequence)));
      throw;
    }
    return {pointers_, vocab_size()};
  }

  /// Makes the tokens with these numbers part of the context, and forgets the rest of the tree.
  /// Throws std::invalid_argument unless they are a way from the context outward.
  void keep(std::span<const specdec::Index> path) {
    tree_.check_path(path);
    if (path.empty()) return truncate(length_);
    const specdec::Index kept = tree_.holder(path.back());
    for (const llama_seq_id sequence : all_sequences_)
      if (sequence != kept && tree_.end(sequence) >= 0) remove(sequence, length_);
    remove(static_cast<llama_seq_id>(kept), length_ + std::ssize(path));
    for (const llama_seq_id sequence : all_sequences_)
      if (sequence != kept) share(kept, sequence, std::ssize(path));
    length_ += std::ssize(path);
    tree_.clear();
  }

  void truncate(specdec::Index length) {
    if (tree_.empty() && length >= length_) return;
    length_ = std::min(length, length_);
    tree_.clear();
    broken_ = false;  // if it was, all that was left behind goes now
    remove(-1, length_);
  }

 private:
  struct Free {
    void operator()(llama_context* context) const { llama_free(context); }
  };

  void check(specdec::Index count, specdec::Index rows) const {
    const auto number = [](specdec::Index n) { return std::to_string(n); };
    if (broken_) throw std::runtime_error("'" + weights_.path() + "' could not be rolled back");
    if (const specdec::Index held = length_ + tree_.size(); count > context_size() - held)
      throw std::length_error("the context of '" + weights_.path() + "' is full: it holds " + number(held) +
                              " of " + number(context_size()) + " tokens, and " + number(count) +
                              " more are to follow");
    if (rows < 1 || rows > count || rows > llama_n_batch(context_.get()))
      throw std::invalid_argument(number(rows) + " rows of logits were asked for after " + number(count) +
                                  " tokens; a batch has " + number(llama_n_batch(context_.get())));
  }

  // Of every sequence where it is −1.
  void remove(llama_seq_id sequence, specdec::Index from) {
    if (!llama_api::remove(context_.get(), sequence, static_cast<llama_pos>(from))) broken_ = true;
  }

  // Of what the owner holds of the tree, the first `depth` tokens.
  void share(specdec::Index owner, specdec::Index other, specdec::Index depth) {
    llama_api::share(context_.get(), static_cast<llama_seq_id>(owner), static_cast<llama_seq_id>(other),
                     static_cast<llama_pos>(length_), static_cast<llama_pos>(length_ + depth));
  }

  void begin_call(std::span<const specdec::Token> tokens) {
    tokens_.assign(tokens.begin(), tokens.end());
    positions_.clear();
    holder_counts_.clear();
    holders_.clear();
    for (auto* list : {&positions_, &holder_counts_}) list->reserve(tokens.size());
    holders_.reserve(tokens.size());
    wanted_.assign(tokens.size(), 0);
  }

  // Where the next token of the call stands, and which sequences hold it.
  void add_place(specdec::Index position, std::span<llama_seq_id> holders) {
    positions_.push_back(static_cast<llama_pos>(position));
    holder_counts_.push_back(static_cast<std::int32_t>(holders.size()));
    holders_.push_back(holders.data());
  }

  // The tokens of the call, batch by batch. All rows come out of the last one.
  void decode_all(specdec::Index rows) {
    const specdec::Index batch_size = llama_n_batch(context_.get());
    std::fill(wanted_.end() - rows, wanted_.end(), std::int8_t{1});
    specdec::Index first = 0, left = std::ssize(tokens_);
    while (left > batch_size) {
      const specdec::Index count = std::min(batch_size, left - rows);
      decode(first, count);
      first += count;
      left -= count;
    }
    decode(first, left);
    take_rows(left, rows);
  }

  void decode(specdec::Index first, specdec::Index count) {
    llama_batch batch = {};
    batch.n_tokens = static_cast<std::int32_t>(count);
    batch.token = tokens_.data() + first;
    batch.pos = positions_.data() + first;
    batch.n_seq_id = holder_counts_.data() + first;
    batch.seq_id = holders_.data() + first;
    batch.logits = wanted_.data() + first;
    constexpr int no_room = 1;  // llama.cpp's word for it
    int status = llama_decode(context_.get(), batch);
    // There is room, but it may be in pieces. A turn moves only some of what is held, but something, until it is in one.
    for (specdec::Index turn = 0; status == no_room && turn < context_size(); ++turn) {
      if (!llama_api::close_gaps(context_.get())) break;
      status = llama_decode(context_.get(), batch);
    }
    if (status != 0)
      throw std::runtime_error("llama.cpp could not decode " + std::to_string(count) + " tokens with '" +
                               weights_.path() + "' (status " + std::to_string(status) + ")");
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
  LlamaTree tree_;             // what is open behind it
  bool broken_ = false;
  std::vector<llama_seq_id> all_sequences_;
  // The tokens of one call, and where the logits of its last batch are.
  std::vector<llama_token> tokens_;
  std::vector<llama_pos> positions_;
  std::vector<std::int32_t> holder_counts_;
  std::vector<llama_seq_id*> holders_;
  std::vector<std::int8_t> wanted_;
  std::vector<const float*> pointers_;
};

static_assert(specdec::LogitsTreeModel<LlamaModel>);
