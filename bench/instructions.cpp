// The calls whose instructions are counted, one an argument; see the script `instructions`.
//
//   specdec_instructions --compiler     prints what the counts are filed under
//   specdec_instructions --list         prints the names of the calls
//   specdec_instructions block_dense    makes that call 20 times, on the same inputs every time
//
// Only the function of that name is of interest: it is not inlined and has C linkage, so that callgrind can be
// told to collect inside it and nowhere else.
#include <cstddef>
#include <iostream>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "input.hpp"
#include "rows.hpp"
#include "specdec/sample/top_p.hpp"
#include "specdec/specdec.hpp"

#if defined(_MSC_VER)
#define SPECDEC_BENCH_NOINLINE __declspec(noinline)
#else
#define SPECDEC_BENCH_NOINLINE __attribute__((noinline))
#endif

namespace {

using bench::Index;
using bench::Rows;
using specdec::Token;
using specdec::Verdict;

/// What a call works on.
struct Block {
  Rows target, draft;
  std::span<const Token> tokens;
};

}  // namespace

extern "C" {

SPECDEC_BENCH_NOINLINE void token_dense(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  verdict = specdec::TokenVerifier{}(block.target, block.draft, block.tokens, generator);
}

SPECDEC_BENCH_NOINLINE void block_dense(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  static specdec::BlockVerifier verifier;
  verdict = verifier(block.target, block.draft, block.tokens, generator);
}

SPECDEC_BENCH_NOINLINE void block_logits(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  static specdec::BlockVerifier verifier;
  verdict = verifier(specdec::Logits(block.target), specdec::Logits(block.draft), block.tokens, generator);
}

SPECDEC_BENCH_NOINLINE void top_p_logits(const Block& block, std::mt19937_64&, Verdict& verdict) {
  const specdec::Logits rows(block.target);
  verdict = {};
  for (Index i = 0; i < rows.rows(); ++i)
    verdict.accepted += specdec::TopP{0.95}(rows.row(i)).possible(verdict.token);
}

}  // extern "C"

namespace {

struct Call {
  std::string_view name;
  Index vocab_size;
  bool logits;
  void (*function)(const Block&, std::mt19937_64&, Verdict&);
};

constexpr Call calls[] = {{"token_dense", 32000, false, token_dense},
                          {"block_dense", 32000, false, block_dense},
                          {"block_logits", 4000, true, block_logits},
                          {"top_p_logits", 4000, true, top_p_logits}};

/// The same 20 drafts of 8 tokens for every call and machine.
void make(const Call& call) {
  constexpr Index gamma = 8, drafts = 20;
  bench::Pool pool({call.vocab_size, bench::Order::shuffled, 70}, 4 * (gamma + 1));
  const bench::Input<bench::FloatRows> input(pool, {gamma, false, drafts});
  std::mt19937_64 generator(1);
  for (Index k = 0; k < drafts; ++k) {
    const Index first = k % 4 * (gamma + 1);
    const auto logits = [&](bench::Side side, Index count) {
      return Rows(pool.logits(side).row(first).data(), count, call.vocab_size);
    };
    const Block block = call.logits ? Block{logits(bench::Side::target, gamma + 1),
                                            logits(bench::Side::draft, gamma), input.tokens(k)}
                                    : Block{input.target(k), input.draft(k), input.tokens(k)};
    Verdict verdict;
    call.function(block, generator, verdict);
    std::cout << verdict.accepted << " " << verdict.token << "\n";
  }
}

void print_compiler() {
#if defined(__clang__)
  std::cout << "Clang-" << __clang_major__ << "\n";
#elif defined(__GNUC__)
  std::cout << "GNU-" << __GNUC__ << "\n";
#else
  std::cout << "unknown\n";
#endif
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view argument = argc == 2 ? argv[1] : "";
  if (argument == "--compiler") return print_compiler(), 0;
  for (const Call& call : calls)
    if (argument == "--list") std::cout << call.name << "\n";
    else if (argument == call.name) return make(call), 0;
  return argument == "--list" ? 0 : 1;
}
