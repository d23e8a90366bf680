// examples/llama_cpp/llama_model.hpp, against llama.cpp's interface as it was called over time: of each there is a fake
// that notes what it is asked.
#include "llama_cpp/llama_model.hpp"

#include <string>

#include "support/catch.hpp"

namespace test_examples_llama_model {

namespace {

std::string asked;

bool note(const char* function, int sequence, llama_pos from, llama_pos to) {
  asked = std::string(function) + " " + std::to_string(sequence) + " " + std::to_string(from) + " " +
          std::to_string(to);
  return from != 13;  // what the fakes cannot do
}

namespace today {
struct Context {};
struct Memory {};
Memory* llama_get_memory(Context*) {
  static Memory memory;
  return &memory;
}
bool llama_memory_seq_rm(Memory*, int sequence, llama_pos from, llama_pos to) {
  return note("llama_memory_seq_rm", sequence, from, to);
}
// Still there, but out of favour.
[[maybe_unused]] bool llama_kv_self_seq_rm(Context*, int sequence, llama_pos from, llama_pos to) {
  return note("llama_kv_self_seq_rm", sequence, from, to);
}

struct Model {
  bool recurrent, hybrid;
};
bool llama_model_is_recurrent(const Model* model) { return model->recurrent; }
bool llama_model_is_hybrid(const Model* model) { return model->hybrid; }

struct Params {
  bool swa_full = false;
};
}  // namespace today

namespace before {
struct Context {};
bool llama_kv_self_seq_rm(Context*, int sequence, llama_pos from, llama_pos to) {
  return note("llama_kv_self_seq_rm", sequence, from, to);
}
}  // namespace before

namespace long_ago {
struct Context {};
bool llama_kv_cache_seq_rm(Context*, int sequence, llama_pos from, llama_pos to) {
  return note("llama_kv_cache_seq_rm", sequence, from, to);
}

struct Model {
  bool recurrent;
};
bool llama_model_is_recurrent(const Model* model) { return model->recurrent; }

struct Params {};
}  // namespace long_ago

}  // namespace

TEST_CASE("remove_from takes everything from a position on out of the cache, whatever that is called") {
  today::Context now;
  CHECK(llama_api::remove_from(&now, 7));
  CHECK(asked == "llama_memory_seq_rm 0 7 -1");
  CHECK_FALSE(llama_api::remove_from(&now, 13));
  before::Context then;
  CHECK(llama_api::remove_from(&then, 7));
  CHECK(asked == "llama_kv_self_seq_rm 0 7 -1");
  CHECK_FALSE(llama_api::remove_from(&then, 13));
  long_ago::Context old;
  CHECK(llama_api::remove_from(&old, 7));
  CHECK(asked == "llama_kv_cache_seq_rm 0 7 -1");
  CHECK_FALSE(llama_api::remove_from(&old, 13));
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

TEST_CASE("keep_whole_windows asks for it where it can be asked for") {
  today::Params params;
  llama_api::keep_whole_windows(params);
  CHECK(params.swa_full);
  long_ago::Params none;
  llama_api::keep_whole_windows(none);
}

}  // namespace test_examples_llama_model
