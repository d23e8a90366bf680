// The calls for counting instructions, one for each argument; see the script `instructions`.
//
//   specdec_instructions --compiler     prints the compiler's name, under which the counts are kept
//   specdec_instructions --list         prints the names of the calls
//   specdec_instructions block_dense    makes this call for 20 drafts, which are the same in every run
//   specdec_instructions --step block_dense
//                                       makes the call once in a process that it single-steps, and prints the number of
//                                       steps: slow, but it counts any instruction that the processor knows
//
// The function of a call is not inlined and has C linkage, so that callgrind can count inside this function only.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <iostream>
#include <random>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "input.hpp"
#include "rows.hpp"
#include "specdec/sample/steps/top_p.hpp"
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

/// The input of a call.
struct Block {
  Rows target, draft;
  std::span<const Token> tokens;
};

/// A tree of 64 tokens over the rows of a block.
struct Tree {
  using Row = specdec::VariantRow<specdec::DenseRow<float>, specdec::OneHotRow>;
  static constexpr Index size = 64;

  std::vector<const float*> target;
  std::vector<Row> draft;
  std::vector<Token> tokens;
  std::vector<Index> parents;
  Index vocab_size;

  explicit Tree(const Block& block) : vocab_size(block.target.cols()) {
    target.push_back(block.target.row(0).data());
  }

  /// Four chosen tokens after each token.
  static Tree of_chosen(const Block& block) {
    Tree tree(block);
    for (Index k = 0; k < size; ++k)
      tree.choose(static_cast<Token>(37 * k), k / 4 - 1, block.target.row(k % block.target.rows()).data());
    return tree;
  }

  /// A drawn token and seven chosen tokens after each drawn token.
  static Tree of_trunk_and_spares(const Block& block) {
    Tree tree(block);
    for (Index i = 0; i < size / 8; ++i) {
      const Index parent = i == 0 ? -1 : 8 * i - 8;
      const Token drawn = block.tokens[static_cast<std::size_t>(i)];
      const float* behind = block.target.row(i + 1).data();
      tree.add(
          drawn, parent, behind,
          Row(std::in_place_index<0>, specdec::DenseRow<float>(block.draft.row(i).data(), tree.vocab_size)));
      for (Token spare = 1; spare < 8; ++spare)
        tree.choose(static_cast<Token>((drawn + spare) % tree.vocab_size), parent, behind);
    }
    return tree;
  }

  Verdict judge(auto rule, auto& generator) const {
    const specdec::TreeVerdict verdict =
        rule(specdec::RowPointers<float>(target, vocab_size), specdec::RowSpan<Row>(draft, vocab_size),
             tokens, parents, generator);
    return {static_cast<Index>(verdict.path.size()), verdict.token};
  }

 private:
  void choose(Token token, Index parent, const float* behind) {
    add(token, parent, behind, Row(std::in_place_index<1>, specdec::OneHotRow(token)));
  }
  void add(Token token, Index parent, const float* behind, const Row& row) {
    tokens.push_back(token);
    parents.push_back(parent);
    target.push_back(behind);
    draft.push_back(row);
  }
};

/// A target whose rows are those of a block, whatever it is fed: what is counted is the loop.
struct FixedTarget {
  const Block& block;

  Index vocab_size() const { return block.target.cols(); }
  auto forward(std::span<const Token>, Index rows) { return block.target.topRows(rows); }
  void truncate(Index) {}
};

/// The same target for many texts.
struct FixedTargetForMany {
  const Block& block;
  std::vector<const float*> rows = {};

  Index vocab_size() const { return block.target.cols(); }
  auto forward(std::span<const specdec::BatchFeed> feeds) {
    rows.clear();
    for (const specdec::BatchFeed& feed : feeds)
      for (Index i = 0; i < feed.rows; ++i) rows.push_back(block.target.row(i).data());
    return specdec::RowPointers<float>(rows, vocab_size());
  }
  void keep(Index, Index) {}
  void release(Index) {}
};

/// A drafter of one draft.
struct FixedDrafter {
  const Block& block;

  auto draft(std::span<const Token>, Index gamma, auto&) {
    const Index n = std::min(gamma, block.draft.rows());
    using DraftRows = decltype(block.draft.topRows(n));
    return specdec::Draft<DraftRows>{
        block.tokens.first(static_cast<std::size_t>(n)), block.draft.topRows(n), {}};
  }
  void truncate(Index) {}
};

const specdec::Options long_text = {.max_new_tokens = 500, .gamma = 4};

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

SPECDEC_BENCH_NOINLINE void argmax_dense(const Block& block, std::mt19937_64&, Verdict& verdict) {
  verdict = {};
  for (Index i = 0; i < block.target.rows(); ++i)
    verdict = {i, specdec::distributions(block.target).row(i).argmax()};
}

SPECDEC_BENCH_NOINLINE void keyed_dense(const Block& block, std::mt19937_64&, Verdict& verdict) {
  static specdec::Keyed keyed(1);
  for (Index i = 0; i < block.target.rows(); ++i)
    verdict = {i, keyed.draw(specdec::distributions(block.target).row(i))};
}

SPECDEC_BENCH_NOINLINE void tree_chosen(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  const Tree tree = Tree::of_chosen(block);
  verdict = tree.judge(specdec::TraversalVerifier{}, generator);
}

SPECDEC_BENCH_NOINLINE void tree_spares(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  const Tree tree = Tree::of_trunk_and_spares(block);
  verdict = tree.judge(specdec::TrunkAndSpares<specdec::BlockVerifier>{}, generator);
}

SPECDEC_BENCH_NOINLINE void top_p_logits(const Block& block, std::mt19937_64&, Verdict& verdict) {
  const specdec::Logits rows(block.target);
  verdict = {};
  for (Index i = 0; i < rows.rows(); ++i)
    verdict.accepted += specdec::TopP{0.95}(rows.row(i)).possible(verdict.token);
}

SPECDEC_BENCH_NOINLINE void loop_one(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  specdec::SpecDec decoder{FixedTarget{block}, FixedDrafter{block}, specdec::BlockVerifier{}};
  const specdec::Result result = decoder.generate(std::vector<Token>{1, 2, 3}, long_text, generator);
  verdict = {result.stats.target_calls, result.tokens.back()};
}

SPECDEC_BENCH_NOINLINE void loop_batch(const Block& block, std::mt19937_64& generator, Verdict& verdict) {
  specdec::Batch batch{FixedTargetForMany{block}, FixedDrafter{block}, specdec::BlockVerifier{}};
  for (int k = 0; k < 8; ++k) batch.add(std::vector<Token>{1, 2, 3}, long_text, std::mt19937_64{generator()});
  while (!batch.empty())
    for (const specdec::Finished& done : batch.step())
      verdict = {batch.target_calls(), done.result.tokens.back()};
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
                          {"argmax_dense", 32000, false, argmax_dense},
                          {"keyed_dense", 32000, false, keyed_dense},
                          {"block_logits", 4000, true, block_logits},
                          {"top_p_logits", 4000, true, top_p_logits},
                          {"tree_chosen", 32000, false, tree_chosen},
                          {"tree_spares", 32000, false, tree_spares},
                          {"loop_one", 16, false, loop_one},
                          {"loop_batch", 16, false, loop_batch}};

constexpr Index drafts = 20;

/// Makes the call for the first `times` of 20 drafts of 8 tokens. The drafts are the same for every call and machine.
/// at_edge() runs before and after each call.
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
/// The instructions of one call, counted by single steps in a child process that stops before and after the call. Stopping
/// itself adds some dozens. Negative if processes may not be stepped here.
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
