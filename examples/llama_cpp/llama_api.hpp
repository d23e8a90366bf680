// What the C interface of llama.cpp has come to call things. Templates, so that a header is asked only for the names
// it has.
#pragma once

#include <llama.h>

namespace llama_api {

/// Has a sequence forget what it holds from position `from` on, or every sequence, where that is −1; whether that could
/// be done.
template <class Context>
bool remove(Context* context, llama_seq_id sequence, llama_pos from) {
  if constexpr (requires { llama_memory_seq_rm(llama_get_memory(context), sequence, from, -1); })
    return llama_memory_seq_rm(llama_get_memory(context), sequence, from, -1);
  else if constexpr (requires { llama_kv_self_seq_rm(context, sequence, from, -1); })
    return llama_kv_self_seq_rm(context, sequence, from, -1);
  else return llama_kv_cache_seq_rm(context, sequence, from, -1);
}

/// Has the sequence `other` hold, too, what `owner` holds from position `from` up to, and without, `to`.
template <class Context>
void share(Context* context, llama_seq_id owner, llama_seq_id other, llama_pos from, llama_pos to) {
  if constexpr (requires { llama_memory_seq_cp(llama_get_memory(context), owner, other, from, to); })
    llama_memory_seq_cp(llama_get_memory(context), owner, other, from, to);
  else if constexpr (requires { llama_kv_self_seq_cp(context, owner, other, from, to); })
    llama_kv_self_seq_cp(context, owner, other, from, to);
  else llama_kv_cache_seq_cp(context, owner, other, from, to);
}

/// Has what is held move together before the next call, where llama.cpp takes a call's tokens in side by side only;
/// whether it is such a one.
template <class Context>
bool close_gaps(Context* context) {
  if constexpr (requires { llama_get_memory(context); }) return false;
  else if constexpr (requires { llama_kv_self_defrag(context); }) llama_kv_self_defrag(context);
  else llama_kv_cache_defrag(context);
  return true;
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

/// Has all sequences lie in one cache, as only then a token is held once for several of them.
template <class Params>
void share_one_cache(Params& params) {
  if constexpr (requires { params.kv_unified; }) params.kv_unified = true;
}

}  // namespace llama_api
