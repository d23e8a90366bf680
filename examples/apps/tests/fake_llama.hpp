// A small fake of llama.cpp for the declarations in llama_declarations: a cache of cells that belong to sequences, the
// rules of today's llama.cpp for a batch, and logits that differ for any two texts.
// SPDX-License-Identifier: MIT
#pragma once

#include <ggml-backend.h>
#include <llama.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace fake_llama {

inline constexpr int vocab_size = 5, trained_context = 40;
using Logits = std::array<float, vocab_size>;

/// A text and the logits after it.
class Text {
 public:
  void add(llama_token token) {
    hash_ = (hash_ + static_cast<std::uint32_t>(token) + 1) * 2654435761U % 16777213U;
  }
  Logits logits() const {
    Logits logits;
    for (int x = 0; x < vocab_size; ++x)
      logits[static_cast<std::size_t>(x)] =
          static_cast<float>((hash_ * static_cast<std::uint64_t>(x + 2)) % 16777213U);
    return logits;
  }

 private:
  std::uint64_t hash_ = 1;
};

struct Cell {
  llama_pos position;
  llama_token token;
  std::vector<llama_seq_id> sequences;
  bool operator==(const Cell&) const = default;
  /// Written out, because libc++ 16 has no <=> for vectors.
  bool operator<(const Cell& other) const {
    return std::tie(position, token, sequences) < std::tie(other.position, other.token, other.sequences);
  }
};

/// The state that tests read and set. A new context resets it.
struct State {
  int calls = 0;                 // calls of all contexts
  int outputs = 0;               // the number of tokens with wanted logits in the last call
  int calls_until_failure = -1;  // −1: no call fails; a failing call has stored a part of its tokens
  bool removes = true;
  bool loads = true;
};
inline State state;

/// Whether loaded models are recurrent. Their contexts forget all tokens of a sequence, or none.
inline bool recurrent = false;

/// All contexts, the oldest first.
inline std::vector<llama_context*> contexts;

/// The number of samplers, and whether one got a token that its grammar forbids. (In llama.cpp this ends the program.)
inline int samplers = 0;
inline bool aborted = false;

}  // namespace fake_llama

struct llama_model {};
struct llama_context {
  llama_context_params params;
  std::vector<fake_llama::Cell> cells;
  std::vector<fake_llama::Logits> logits;

  bool holds(const fake_llama::Cell& cell, llama_seq_id sequence) const {
    return std::ranges::count(cell.sequences, sequence) > 0;
  }

  llama_pos end(llama_seq_id sequence) const {
    llama_pos end = 0;
    for (const fake_llama::Cell& cell : cells)
      if (holds(cell, sequence)) end = std::max(end, cell.position + 1);
    return end;
  }

  // The tokens of a sequence before a position, in order. Each position must be there exactly once.
  std::vector<llama_token> text(llama_seq_id sequence, llama_pos position) const {
    std::vector<llama_token> text(static_cast<std::size_t>(position), -1);
    for (const fake_llama::Cell& cell : cells)
      if (holds(cell, sequence) && cell.position < position)
        text[static_cast<std::size_t>(cell.position)] = cell.token;
    return text;
  }

  // Whether a token may stand here: its sequences hold equal texts up to this position, without gaps and without later
  // tokens.
  bool fits(llama_pos position, std::span<const llama_seq_id> sequences) const {
    return !sequences.empty() && std::ranges::all_of(sequences, [&](llama_seq_id s) {
      return s >= 0 && s < static_cast<llama_seq_id>(params.n_seq_max) && end(s) == position &&
             text(s, position) == text(sequences.front(), position);
    });
  }

  int decode(const llama_batch& batch) {
    const auto count = static_cast<std::size_t>(batch.n_tokens);
    if (count == 0 || count > params.n_batch) return -1;
    if (cells.size() + count > params.n_ctx) return 1;
    ++fake_llama::state.calls;
    fake_llama::state.outputs = static_cast<int>(std::count(batch.logits, batch.logits + count, 1));
    const bool fails = fake_llama::state.calls_until_failure-- == 0;
    logits.assign(count, {});
    for (std::size_t i = 0; i < count; ++i) {
      if (fails && i >= count / 2) return -2;
      const std::span sequences(batch.seq_id[i], static_cast<std::size_t>(batch.n_seq_id[i]));
      if (!fits(batch.pos[i], sequences)) return -1;
      if (batch.token[i] < 0 || batch.token[i] >= fake_llama::vocab_size) return -1;
      cells.push_back({batch.pos[i], batch.token[i], {sequences.begin(), sequences.end()}});
      fake_llama::Text text;
      for (const llama_token token : this->text(sequences.front(), batch.pos[i] + 1)) text.add(token);
      if (batch.logits[i]) logits[i] = text.logits();
    }
    return 0;
  }

  void remove(llama_seq_id sequence, llama_pos from) {
    for (fake_llama::Cell& cell : cells)
      if (cell.position >= from)
        std::erase_if(cell.sequences, [&](llama_seq_id s) { return sequence < 0 || s == sequence; });
    std::erase_if(cells, [](const fake_llama::Cell& cell) { return cell.sequences.empty(); });
  }

  void share(llama_seq_id owner, llama_seq_id other, llama_pos from, llama_pos to) {
    for (fake_llama::Cell& cell : cells)
      if (holds(cell, owner) && !holds(cell, other) && cell.position >= from && cell.position < to)
        cell.sequences.push_back(other);
  }
};

// A grammar of one text: a digit for each token, or * for any token, and then the last token again and again.
struct llama_sampler {
  std::string text;
  std::size_t at = 0;

  bool allows(llama_token token) const {
    if (token < 0 || token >= fake_llama::vocab_size) throw std::out_of_range("no such token");
    if (at == text.size()) return token == fake_llama::vocab_size - 1;
    return text[at] == '*' || text[at] - '0' == token;
  }
};

// Inline, because several tests include them.
extern "C" {

inline void ggml_backend_load_all() {}
inline void llama_backend_init() {}
inline void llama_backend_free() {}

inline llama_model_params llama_model_default_params() { return {}; }
inline llama_model* llama_model_load_from_file(const char*, llama_model_params) { return new llama_model; }
inline void llama_model_free(llama_model* model) { delete model; }
inline bool llama_model_is_recurrent(const llama_model*) { return fake_llama::recurrent; }
inline bool llama_model_is_hybrid(const llama_model*) { return false; }
inline const llama_vocab* llama_model_get_vocab(const llama_model*) { return nullptr; }
inline int32_t llama_model_n_ctx_train(const llama_model*) { return fake_llama::trained_context; }
inline int32_t llama_vocab_n_tokens(const llama_vocab*) { return fake_llama::vocab_size; }

inline llama_context_params llama_context_default_params() { return {}; }
inline llama_context* llama_init_from_model(llama_model*, llama_context_params params) {
  fake_llama::state = {};
  if (!params.kv_unified) return nullptr;
  if (params.n_ctx == 0) params.n_ctx = fake_llama::trained_context;
  fake_llama::contexts.push_back(new llama_context{params, {}, {}});
  return fake_llama::contexts.back();
}
inline void llama_free(llama_context* context) {
  std::erase(fake_llama::contexts, context);
  delete context;
}
inline uint32_t llama_n_ctx(const llama_context* context) { return context->params.n_ctx; }
inline uint32_t llama_n_batch(const llama_context* context) { return context->params.n_batch; }
inline int32_t llama_decode(llama_context* context, llama_batch batch) { return context->decode(batch); }
inline float* llama_get_logits_ith(llama_context* context, int32_t i) {
  return context->logits[static_cast<std::size_t>(i)].data();
}
inline llama_memory_t llama_get_memory(const llama_context* context) {
  return reinterpret_cast<llama_memory_t>(const_cast<llama_context*>(context));
}
inline bool llama_memory_seq_rm(llama_memory_t memory, llama_seq_id sequence, llama_pos from, llama_pos) {
  llama_context& context = *reinterpret_cast<llama_context*>(memory);
  const bool partial = from > 0 && from < context.end(std::max(sequence, 0));
  if (!fake_llama::state.removes || (fake_llama::recurrent && partial)) return false;
  context.remove(sequence, from);
  return true;
}
inline void llama_memory_seq_cp(llama_memory_t memory, llama_seq_id owner, llama_seq_id other, llama_pos from,
                                llama_pos to) {
  reinterpret_cast<llama_context*>(memory)->share(owner, other, from, to);
}
// The state of a sequence is its tokens, one after another.
inline size_t llama_state_seq_get_size(llama_context* context, llama_seq_id sequence) {
  return sizeof(llama_token) * static_cast<size_t>(context->end(sequence));
}
inline size_t llama_state_seq_get_data(llama_context* context, uint8_t* data, size_t size,
                                       llama_seq_id sequence) {
  const std::vector<llama_token> text = context->text(sequence, context->end(sequence));
  if (size < text.size() * sizeof(llama_token)) return 0;
  std::memcpy(data, text.data(), text.size() * sizeof(llama_token));
  return text.size() * sizeof(llama_token);
}
inline size_t llama_state_seq_set_data(llama_context* context, const uint8_t* data, size_t size,
                                       llama_seq_id sequence) {
  if (!fake_llama::state.loads || context->end(sequence) > 0) return 0;
  for (size_t i = 0; i < size / sizeof(llama_token); ++i) {
    llama_token token;
    std::memcpy(&token, data + i * sizeof(llama_token), sizeof(llama_token));
    context->cells.push_back({static_cast<llama_pos>(i), token, {sequence}});
  }
  return size;
}

inline llama_sampler* llama_sampler_init_grammar(const llama_vocab*, const char* text, const char*) {
  if (*text == '\0') return nullptr;
  ++fake_llama::samplers;
  return new llama_sampler{text};
}
inline llama_sampler* llama_sampler_clone(const llama_sampler* sampler) {
  ++fake_llama::samplers;
  return new llama_sampler(*sampler);
}
inline void llama_sampler_free(llama_sampler* sampler) {
  --fake_llama::samplers;
  delete sampler;
}
inline void llama_sampler_apply(llama_sampler* sampler, llama_token_data_array* all) {
  for (llama_token_data& each : std::span(all->data, all->size))
    if (!sampler->allows(each.id)) each.logit = -std::numeric_limits<float>::infinity();
}
inline void llama_sampler_accept(llama_sampler* sampler, llama_token token) {
  if (!sampler->allows(token)) fake_llama::aborted = true;
  else if (sampler->at < sampler->text.size()) ++sampler->at;
}

}  // extern "C"
