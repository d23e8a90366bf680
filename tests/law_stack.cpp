// How much stack the library takes: 144 KiB are enough for any rule and for a step of the loop, over rows with any steps. The
// stack of a thread is painted, and what is no longer of that colour was used. Compiled as a program would be, optimised.
// SPDX-License-Identifier: MIT
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_law_stack {

using namespace specdec;

namespace {

using support::RowMajor;

constexpr std::size_t documented = 144 * 1024;  // as README.md says
constexpr std::size_t page = 65536;             // a multiple of what any system calls a page

// Calls f() on a thread of its own, and returns how many bytes of that thread's stack were written. They include what the
// system puts there.
template <class F>
std::size_t stack_of(F f) {
  constexpr unsigned char paint = 0xA5;
  constexpr std::size_t size = 16 * page;
  std::vector<unsigned char> memory(size + page, paint);
  unsigned char* const stack =
      memory.data() + (page - reinterpret_cast<std::uintptr_t>(memory.data()) % page) % page;
  pthread_attr_t attributes;
  pthread_t thread;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstack(&attributes, stack, size) == 0);
  const auto run = [](void* call) -> void* {
    (*static_cast<F*>(call))();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, &attributes, run, &f) == 0);
  REQUIRE(pthread_join(thread, nullptr) == 0);
  pthread_attr_destroy(&attributes);
  // Stacks grow down.
  const auto* const first =
      std::find_if(stack, stack + size, [](unsigned char byte) { return byte != paint; });
  return static_cast<std::size_t>(stack + size - first);
}

// Logits such that top-p keeps some thousands of tokens of many: then the search for the cut takes its whole buffer. (So it
// looks for the cut of the row at temperature 1, and once more after it has read the row.)
template <class Scalar>
RowMajor<Scalar> random_logits(Index rows, std::mt19937_64& rng) {
  std::normal_distribution<float> normal(0, 3);
  RowMajor<Scalar> logits(rows, 40'000);
  for (Scalar& l : logits.reshaped()) l = static_cast<Scalar>(normal(rng));
  return logits;
}

const Chain chain{Temperature{0.8}, TopK{0}, TopP{0.95}, MinP{0.001}};

template <class Scalar>
struct Rows {
  RowMajor<Scalar> target, draft;
  std::vector<Token> tokens;
  std::vector<Index> parents;

  explicit Rows(Index gamma) {
    std::mt19937_64 rng{1};
    target = random_logits<Scalar>(gamma + 1, rng);
    draft = target.topRows(gamma) + Scalar{0.2f} * random_logits<Scalar>(gamma, rng);
    for (Index i = 0; i < gamma; ++i) {
      tokens.push_back(RandomChance{rng}.draw(ProcessedRows(draft, chain).row(i)));
      parents.push_back(i - 1);
    }
  }

  template <class V, class Source = std::mt19937_64>
  std::size_t of_line(V verifier, Source source = Source(2)) const {
    return stack_of([&] {
      return verifier(ProcessedRows(target, chain), ProcessedRows(draft, chain), tokens, source).token;
    });
  }
  template <class V>
  std::size_t of_tree(V verifier) const {
    std::mt19937_64 rng{2};
    return stack_of([&] {
      return verifier(ProcessedRows(target, chain), ProcessedRows(draft, chain), tokens, parents, rng).token;
    });
  }
};

// The logits are the same at every position.
struct FlatLogits {
  RowMajor<float> logits;

  explicit FlatLogits(std::uint64_t seed) {
    std::mt19937_64 rng{seed};
    logits = random_logits<float>(9, rng);
  }
  Index vocab_size() const { return logits.cols(); }
  auto forward(std::span<const Token>, Index rows) { return logits.topRows(rows); }
  void truncate(Index) {}
};

}  // namespace

TEST_CASE(
    "the documented stack is enough for every rule over processed rows, of doubles, which take the most") {
  const Rows<double> rows(8);
  CHECK(rows.of_line(BlockVerifier{}) <= documented);
  CHECK(rows.of_line(TokenVerifier{}) <= documented);
  CHECK(rows.of_line(GreedyBlockVerifier{}) <= documented);
  CHECK(rows.of_line(SampleMatchVerifier{}) <= documented);
  CHECK(rows.of_line(ArgmaxVerifier{}) <= documented);
  CHECK(rows.of_line(LenientVerifier{0.5}) <= documented);
  CHECK(rows.of_line(KeyedVerifier{}, Keyed(2)) <= documented);
  CHECK(rows.of_tree(TraversalVerifier{}) <= documented);
  CHECK(rows.of_tree(RecursiveRejectionVerifier{}) <= documented);
  CHECK(rows.of_tree(KSeqVerifier{}) <= documented);
  CHECK(rows.of_tree(TrunkAndSpares<BlockVerifier>{}) <= documented);
  CHECK(Rows<float>(8).of_line(BlockVerifier{}) <= rows.of_line(BlockVerifier{}));
}

TEST_CASE("the documented stack is enough for a step of the loop") {
  SpecDec decoder{ProcessedModel{FlatLogits(1), chain}, ModelDrafter{ProcessedModel{FlatLogits(1), chain}},
                  BlockVerifier{}};
  std::mt19937_64 rng{3};
  auto sequence = decoder.start(std::vector<Token>{0}, {.max_new_tokens = 40, .gamma = 8});
  CHECK(stack_of([&] {
          while (!sequence.done()) sequence.step(rng);
        }) <= documented);
}

TEST_CASE("a stack is measured to the depth that a call reaches") {
  const auto deep = [] {
    volatile unsigned char room[documented] = {};
    room[0] = room[1];
  };
  CHECK(stack_of([] {}) < 16 * 1024);
  CHECK(stack_of(deep) >= documented);
}

}  // namespace test_law_stack
