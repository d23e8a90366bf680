// For compiling the examples over llama.cpp without an installed llama.cpp: the part of its C interface that they use, after
// its documentation (https://github.com/ggml-org/llama.cpp, include/llama.h, 2025). Only declarations, no definitions.
// Enumerators and members that the examples do not use are left out.
// SPDX-License-Identifier: MIT
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ggml-backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct llama_model;
struct llama_context;
struct llama_vocab;
struct llama_sampler;
typedef struct llama_memory_i* llama_memory_t;

typedef int32_t llama_pos;
typedef int32_t llama_token;
typedef int32_t llama_seq_id;
enum llama_vocab_type { LLAMA_VOCAB_TYPE_NONE = 0 };

struct llama_batch {
  int32_t n_tokens;
  llama_token* token;
  float* embd;
  llama_pos* pos;
  int32_t* n_seq_id;
  llama_seq_id** seq_id;
  int8_t* logits;
};
typedef struct llama_token_data {
  llama_token id;
  float logit;
  float p;
} llama_token_data;
typedef struct llama_token_data_array {
  llama_token_data* data;
  size_t size;
  int64_t selected;
  bool sorted;
} llama_token_data_array;
struct llama_model_params {
  int32_t n_gpu_layers;
};
struct llama_context_params {
  uint32_t n_ctx, n_batch, n_ubatch, n_seq_max;
  int32_t n_threads, n_threads_batch;
  bool swa_full, kv_unified;
};

void llama_backend_init(void);
void llama_backend_free(void);
void llama_log_set(ggml_log_callback log_callback, void* user_data);

struct llama_model_params llama_model_default_params(void);
struct llama_model* llama_model_load_from_file(const char* path_model, struct llama_model_params params);
void llama_model_free(struct llama_model* model);
const struct llama_vocab* llama_model_get_vocab(const struct llama_model* model);
int32_t llama_model_n_ctx_train(const struct llama_model* model);
bool llama_model_is_recurrent(const struct llama_model* model);
bool llama_model_is_hybrid(const struct llama_model* model);

struct llama_context_params llama_context_default_params(void);
struct llama_context* llama_init_from_model(struct llama_model* model, struct llama_context_params params);
void llama_free(struct llama_context* ctx);
uint32_t llama_n_ctx(const struct llama_context* ctx);
uint32_t llama_n_batch(const struct llama_context* ctx);
int32_t llama_decode(struct llama_context* ctx, struct llama_batch batch);
float* llama_get_logits_ith(struct llama_context* ctx, int32_t i);
llama_memory_t llama_get_memory(const struct llama_context* ctx);
bool llama_memory_seq_rm(llama_memory_t mem, llama_seq_id seq_id, llama_pos p0, llama_pos p1);
void llama_memory_seq_cp(llama_memory_t mem, llama_seq_id seq_id_src, llama_seq_id seq_id_dst, llama_pos p0,
                         llama_pos p1);
size_t llama_state_seq_get_size(struct llama_context* ctx, llama_seq_id seq_id);
size_t llama_state_seq_get_data(struct llama_context* ctx, uint8_t* dst, size_t size, llama_seq_id seq_id);
size_t llama_state_seq_set_data(struct llama_context* ctx, const uint8_t* src, size_t size, llama_seq_id dest_seq_id);

enum llama_vocab_type llama_vocab_type(const struct llama_vocab* vocab);
int32_t llama_vocab_n_tokens(const struct llama_vocab* vocab);
const char* llama_vocab_get_text(const struct llama_vocab* vocab, llama_token token);
bool llama_vocab_is_eog(const struct llama_vocab* vocab, llama_token token);
llama_token llama_vocab_bos(const struct llama_vocab* vocab);
llama_token llama_vocab_eos(const struct llama_vocab* vocab);
int32_t llama_tokenize(const struct llama_vocab* vocab, const char* text, int32_t text_len,
                       llama_token* tokens, int32_t n_tokens_max, bool add_special, bool parse_special);
int32_t llama_token_to_piece(const struct llama_vocab* vocab, llama_token token, char* buf, int32_t length,
                             int32_t lstrip, bool special);

struct llama_sampler* llama_sampler_init_grammar(const struct llama_vocab* vocab, const char* grammar_str,
                                                 const char* grammar_root);
void llama_sampler_apply(struct llama_sampler* smpl, llama_token_data_array* cur_p);
void llama_sampler_accept(struct llama_sampler* smpl, llama_token token);
struct llama_sampler* llama_sampler_clone(const struct llama_sampler* smpl);
void llama_sampler_free(struct llama_sampler* smpl);

#ifdef __cplusplus
}
#endif
