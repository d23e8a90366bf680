// examples/apps/llama_cpp/llama_api.hpp with the interface of three versions of llama.cpp. Each has a fake that records its
// calls.
// SPDX-License-Identifier: MIT
#include "llama_cpp/llama_api.hpp"

#include <string>

#include "support/catch.hpp"

namespace test_examples_llama_api {

namespace {

std::string asked;

void note(const char* function, auto... numbers) {
  asked = function;
  ((asked += ' ' + std::to_string(numbers)), ...);
}

bool note_removal(const char* function, int sequence, llama_pos from, llama_pos to) {
  note(function, sequence, from, to);
  return from != 13;  // the fakes fail at 13
}

namespace today {
struct Context {};
struct Memory {};
Memory* llama_get_memory(Context*) {
  static Memory memory;
  return &memory;
}
bool llama_memory_seq_rm(Memory*, int sequence, llama_pos from, llama_pos to) {
  return note_removal("llama_memory_seq_rm", sequence, from, to);
}
void llama_memory_seq_cp(Memory*, int owner, int other, llama_pos from, llama_pos to) {
  note("llama_memory_seq_cp", owner, other, from, to);
}
// Deprecated, but still there.
[[maybe_unused]] bool llama_kv_self_seq_rm(Context*, int sequence, llama_pos from, llama_pos to) {
  return note_removal("llama_kv_self_seq_rm", sequence, from, to);
}
[[maybe_unused]] void llama_kv_self_seq_cp(Context*, int owner, int other, llama_pos from, llama_pos to) {
  note("llama_kv_self_seq_cp", owner, other, from, to);
}
[[maybe_unused]] void llama_kv_self_defrag(Context*) { note("llama_kv_self_defrag"); }

struct Model {
  bool recurrent, hybrid;
};
bool llama_model_is_recurrent(const Model* model) { return model->recurrent; }
bool llama_model_is_hybrid(const Model* model) { return model->hybrid; }

struct Params {
  bool swa_full = false, kv_unified = false;
};
}  // namespace today

namespace before {
struct Context {};
bool llama_kv_self_seq_rm(Context*, int sequence, llama_pos from, llama_pos to) {
  return note_removal("llama_kv_self_seq_rm", sequence, from, to);
}
void llama_kv_self_seq_cp(Context*, int owner, int other, llama_pos from, llama_pos to) {
  note("llama_kv_self_seq_cp", owner, other, from, to);
}
void llama_kv_self_defrag(Context*) { note("llama_kv_self_defrag"); }
}  // namespace before

namespace long_ago {
struct Context {};
bool llama_kv_cache_seq_rm(Context*, int sequence, llama_pos from, llama_pos to) {
  return note_removal("llama_kv_cache_seq_rm", sequence, from, to);
}
void llama_kv_cache_seq_cp(Context*, int owner, int other, llama_pos from, llama_pos to) {
  note("llama_kv_cache_seq_cp", owner, other, from, to);
}
void llama_kv_cache_defrag(Context*) { note("llama_kv_cache_defrag"); }

struct Model {
  bool recurrent;
};
bool llama_model_is_recurrent(const Model* model) { return model->recurrent; }

struct Params {};
}  // namespace long_ago

}  // namespace

TEST_CASE("remove takes everything from a position on out of the cache, whatever that is called") {
  today::Context now;
  CHECK(llama_api::remove(&now, 3, 7));
  CHECK(asked == "llama_memory_seq_rm 3 7 -1");
  CHECK_FALSE(llama_api::remove(&now, -1, 13));
  CHECK(asked == "llama_memory_seq_rm -1 13 -1");
  before::Context then;
  CHECK(llama_api::remove(&then, 3, 7));
  CHECK(asked == "llama_kv_self_seq_rm 3 7 -1");
  CHECK_FALSE(llama_api::remove(&then, -1, 13));
  long_ago::Context old;
  CHECK(llama_api::remove(&old, 3, 7));
  CHECK(asked == "llama_kv_cache_seq_rm 3 7 -1");
  CHECK_FALSE(llama_api::remove(&old, -1, 13));
}

TEST_CASE("share has another sequence hold a stretch of positions, whatever that is called") {
  today::Context now;
  llama_api::share(&now, 3, 1, 7, 9);
  CHECK(asked == "llama_memory_seq_cp 3 1 7 9");
  before::Context then;
  llama_api::share(&then, 3, 1, 7, 9);
  CHECK(asked == "llama_kv_self_seq_cp 3 1 7 9");
  long_ago::Context old;
  llama_api::share(&old, 3, 1, 7, 9);
  CHECK(asked == "llama_kv_cache_seq_cp 3 1 7 9");
}

TEST_CASE("close_gaps: of today's llama.cpp nothing is asked, as it needs no room in one piece") {
  asked = "nothing";
  today::Context now;
  CHECK_FALSE(llama_api::close_gaps(&now));
  CHECK(asked == "nothing");
  before::Context then;
  CHECK(llama_api::close_gaps(&then));
  CHECK(asked == "llama_kv_self_defrag");
  long_ago::Context old;
  CHECK(llama_api::close_gaps(&old));
  CHECK(asked == "llama_kv_cache_defrag");
}

TEST_CASE("is_recurrent: hybrid models too, where there are such") {
  for (const bool recurrent : {false, true}) {
    for (const bool hybrid : {false, true}) {
      const today::Model model{recurrent, hybrid};
      CHECK(llama_api::is_recurrent(&model) == (recurrent || hybrid));
    }
    const long_ago::Model model{recurrent};
    CHECK(llama_api::is_recurrent(&model) == recurrent);
  }
}

TEST_CASE("whole windows and one cache are asked for where they can be asked for") {
  today::Params params;
  llama_api::keep_whole_windows(params);
  CHECK(params.swa_full);
  CHECK_FALSE(params.kv_unified);
  llama_api::share_one_cache(params);
  CHECK(params.kv_unified);
  long_ago::Params none;
  llama_api::keep_whole_windows(none);
  llama_api::share_one_cache(none);
}

}  // namespace test_examples_llama_api
