// The calls whose instructions are counted, one an argument; see the script `instructions`.
//
//   specdec_instructions --compiler     prints what the counts are filed under
//   specdec_instructions --list         prints the names of the calls
//   specdec_instructions block_dense    makes that call 20 times, on the same inputs every time
//   specdec_instructions --step block_dense
//                                       makes one in a process that it steps through, and prints the number of steps:
//                                       slow, but for any instruction that the processor knows
//
// Only the function of that name is of interest: it is not inlined and has C linkage, so that callgrind can be
// told to collect inside it and nowhere else.
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "input.hpp"
#include "rows.hpp"
#include "specdec/sample/top_p.hpp"
#include "specdec/specdec.hpp"

#if defined(__linux__)
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#endif

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

constexpr Index drafts = 20;

/// So many of the same 20 drafts of 8 tokens for every call and machine. Calls at_edge() before and after each.
template <class AtEdge>
void make(const Call& call, Index times, AtEdge&& at_edge) {
  constexpr Index gamma = 8;
  bench::Pool pool({call.vocab_size, bench::Order::shuffled, 70}, 4 * (gamma + 1));
  const bench::Input<bench::FloatRows> input(pool, {gamma, false, drafts});
  std::mt19937_64 generator(1);
  for (Index k = 0; k < times; ++k) {
    const Index first = k % 4 * (gamma + 1);
    const auto logits = [&](bench::Side side, Index count) {
      return Rows(pool.logits(side).row(first).data(), count, call.vocab_size);
    };
    const Block block = call.logits ? Block{logits(bench::Side::target, gamma + 1),
                                            logits(bench::Side::draft, gamma), input.tokens(k)}
                                    : Block{input.target(k), input.draft(k), input.tokens(k)};
    Verdict verdict;
    at_edge();
    call.function(block, generator, verdict);
    at_edge();
    std::cout << verdict.accepted << " " << verdict.token << "\n";
  }
}

#if defined(__linux__)
/// The instructions of one call, counted one by one in a process that stops at every edge. (Stopping itself takes some
/// dozens.) Negative where processes may not be stepped through.
long steps(const Call& call) {
  const pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    std::cout.setstate(std::ios::failbit);
    make(call, 1, [] { std::raise(SIGSTOP); });
    _exit(0);
  }
  long counted = 0;
  bool inside = false;
  for (int status = 0; waitpid(child, &status, 0) == child;) {
    if (WIFEXITED(status) || WIFSIGNALED(status))
      return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? counted : -1;
    if (WSTOPSIG(status) == SIGSTOP) inside = !inside;
    else ++counted;
    ptrace(inside ? PTRACE_SINGLESTEP : PTRACE_CONT, child, nullptr, nullptr);
  }
  return -1;
}
#else
long steps(const Call&) { return -1; }
#endif

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
  const std::string_view option = argc >= 2 ? argv[1] : "", name = argc == 3 ? argv[2] : option;
  if (option == "--compiler") return print_compiler(), 0;
  for (const Call& call : calls)
    if (option == "--list") std::cout << call.name << "\n";
    else if (call.name == name && option == "--step") return std::cout << steps(call) << "\n", 0;
    else if (call.name == name) return make(call, drafts, [] {}), 0;
  return option == "--list" ? 0 : 1;
}
