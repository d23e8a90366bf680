// Nothing is allocated after warm-up: counted by this program's own operator new.
#include <cstdlib>
#include <new>
#include <random>
#include <specdec/specdec.hpp>
#include <vector>

#include "catch.hpp"
#include "support.hpp"

namespace {
std::size_t allocations = 0;
}

// Not to be inlined: GCC would take malloc and free for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

using namespace specdec;

TEMPLATE_TEST_CASE("a verify call allocates nothing once its draft length has been seen", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  std::mt19937_64 rng{1};
  const Index gamma = 6, size = 3000;
  support::RowMajor<float> target(gamma + 1, size), draft(gamma, size);
  for (float& p : target.reshaped()) p = static_cast<float>(uniform01(rng));
  for (float& p : draft.reshaped()) p = static_cast<float>(uniform01(rng));
  for (Index i = 0; i <= gamma; ++i) target.row(i) /= target.row(i).sum();
  for (Index i = 0; i < gamma; ++i) draft.row(i) /= draft.row(i).sum();
  std::vector<Token> tokens(static_cast<std::size_t>(gamma));
  RandomChance chance{rng};
  TestType verifier;
  std::size_t before = 0;
  for (int n = 0; n < 600; ++n) {
    if (n == 300) before = allocations;
    for (Index i = 0; i < gamma; ++i)
      tokens[static_cast<std::size_t>(i)] = chance.draw(distributions(draft).row(i));
    verifier(target, draft, tokens, rng);
  }
  CHECK(allocations == before);
}

TEMPLATE_TEST_CASE("a step allocates nothing but room for a longer text", "", BlockVerifier,
                   GreedyBlockVerifier) {
  std::mt19937_64 rng{2};
  std::vector<Token> text(5000);
  for (Token& x : text) x = static_cast<Token>(uniform01(rng) * uniform01(rng) * 20);
  const NgramModel target = NgramModel::train(text, {.order = 3, .vocab_size = 20});
  SpecDec decoder{NgramModel(target), ModelDrafter{target.with_order(2)}, TestType{}};
  auto sequence = decoder.start(std::vector<Token>{0}, {.max_new_tokens = 4000, .gamma = 5});
  std::size_t growth = 0, steps = 0;
  while (!sequence.done()) {
    const std::size_t before = allocations;
    sequence.step(rng);
    if (sequence.tokens().size() > 500) growth += allocations - before;
    ++steps;
  }
  CHECK(steps > 500);
  CHECK(growth < 20);  // the contexts double their room a few times
}
