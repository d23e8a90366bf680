// Calls llama.cpp functions by the names that the installed version has. They are templates, so that only names that exist
// are used.
// SPDX-License-Identifier: MIT
#pragma once

#include <llama.h>

namespace llama_api {

/// Removes the tokens from position `from` on from a sequence, or from all sequences if `sequence` is −1. Returns whether
/// llama.cpp could.
template <class Context>
bool remove(Context* context, llama_seq_id sequence, llama_pos from) {
  if constexpr (requires { llama_memory_seq_rm(llama_get_memory(context), sequence, from, -1); })
    return llama_memory_seq_rm(llama_get_memory(context), sequence, from, -1);
  else if constexpr (requires { llama_kv_self_seq_rm(context, sequence, from, -1); })
    return llama_kv_self_seq_rm(context, sequence, from, -1);
  else return llama_kv_cache_seq_rm(context, sequence, from, -1);
}

/// Adds the tokens of `owner` at positions [from, to) to the sequence `other`.
template <class Context>
void share(Context* context, llama_seq_id owner, llama_seq_id other, llama_pos from, llama_pos to) {
  if constexpr (requires { llama_memory_seq_cp(llama_get_memory(context), owner, other, from, to); })
    llama_memory_seq_cp(llama_get_memory(context), owner, other, from, to);
  else if constexpr (requires { llama_kv_self_seq_cp(context, owner, other, from, to); })
    llama_kv_self_seq_cp(context, owner, other, from, to);
  else llama_kv_cache_seq_cp(context, owner, other, from, to);
}

/// Asks llama.cpp to move the cells of its cache together before the next call. Only versions that store the tokens of a
/// call side by side need this; returns whether the version does.
template <class Context>
bool close_gaps(Context* context) {
  if constexpr (requires { llama_get_memory(context); }) return false;
  else if constexpr (requires { llama_kv_self_defrag(context); }) llama_kv_self_defrag(context);
  else llama_kv_cache_defrag(context);
  return true;
}

/// Whether the model has a recurrent state, which cannot be rolled back token by token.
template <class Model>
bool is_recurrent(const Model* model) {
  if constexpr (requires { llama_model_is_hybrid(model); })
    if (llama_model_is_hybrid(model)) return true;
  return llama_model_is_recurrent(model);
}

/// Makes a sliding-window cache keep tokens that left the window, because a rollback may move the window back.
template <class Params>
void keep_whole_windows(Params& params) {
  if constexpr (requires { params.swa_full; }) params.swa_full = true;
}

/// Puts all sequences into one cache. Only then several sequences can share one copy of a token.
template <class Params>
void share_one_cache(Params& params) {
  if constexpr (requires { params.kv_unified; }) params.kv_unified = true;
}

}  // namespace llama_api
