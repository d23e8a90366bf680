// What the functions of specdec.h do. This header defines them where SPECDEC_C_IMPLEMENTATION is defined before it, in one
// file of a program:
//
//   #define SPECDEC_C_IMPLEMENTATION
//   #include <specdec/c/specdec.hpp>
//
// Elsewhere it only declares them.
#pragma once

#include "specdec/c/specdec.h"

#ifdef SPECDEC_C_IMPLEMENTATION

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "specdec/c/rows.hpp"
#include "specdec/chance/philox.hpp"
#include "specdec/error.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/argmax.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/greedy_block.hpp"
#include "specdec/verify/k_seq.hpp"
#include "specdec/verify/recursive_rejection.hpp"
#include "specdec/verify/sample_match.hpp"
#include "specdec/verify/token.hpp"
#include "specdec/verify/traversal.hpp"
#include "specdec/verify/verifier.hpp"
#include "specdec/verify/verify_batch.hpp"

struct specdec_greedy_block {  // NOLINT: a name in C
  specdec::GreedyBlockVerifier rule;
};

namespace specdec::inline v0_2_0::detail {

static_assert(sizeof(Index) == sizeof(int64_t), "the counts of the C interface have 64 bits");

/// A caller's buffer for the text of an error.
struct ErrorText {
  char* text;
  std::size_t size;

  void set(const char* message) const {
    constexpr std::size_t most = std::numeric_limits<int>::max();  // snprintf counts in ints
    if (text != nullptr && size > 0) std::snprintf(text, std::min(size, most), "%s", message);
  }
  /// The buffer of draft i of many.
  ErrorText of(Index i) const {
    return {text == nullptr ? nullptr : text + static_cast<std::size_t>(i) * size, size};
  }
};

/// Calls f(), and makes a status and a text of what it throws.
template <class F>
specdec_status status_of(const ErrorText& error, F&& f) noexcept {
  error.set("");
#ifndef __cpp_exceptions
  f();
  return SPECDEC_OK;
#else
  const auto failed = [&](specdec_status status, const char* message) {
    error.set(message);
    return status;
  };
  try {
    f();
    return SPECDEC_OK;
  } catch (const InvalidDistribution& bad) {
    return failed(SPECDEC_INVALID_DISTRIBUTION, bad.what());
  } catch (const InvalidArgument& bad) {
    return failed(SPECDEC_INVALID_ARGUMENT, bad.what());
  } catch (const InvalidCall& bad) {
    return failed(SPECDEC_INVALID_CALL, bad.what());
  } catch (const std::bad_alloc&) {
    return failed(SPECDEC_OUT_OF_MEMORY, "specdec: out of memory");
  } catch (const std::exception& unexpected) {
    return failed(SPECDEC_UNEXPECTED_ERROR, unexpected.what());
  } catch (...) {
    return failed(SPECDEC_UNEXPECTED_ERROR, "specdec: an error of unknown type");
  }
#endif
}

inline void check_not_null(const void* pointer, const char* name) {
  if (pointer == nullptr) invalid_argument(name, " is NULL");
}

/// What a rule is given. C can pass what C++ cannot: null pointers, and counts that contradict each other. They are found
/// here, before anything is read or allocated.
struct DraftOfC {
  /// `drafts`: how many drafts lie in the rows, each with a target row more than it has tokens.
  DraftOfC(const specdec_rows* target_rows, const specdec_rows* draft_rows, const int32_t* ids, Index gamma,
           bool needs_draft, std::optional<Index> drafts = {})
      : tokens(ids_of("tokens", ids, gamma)),
        target(target_of(target_rows, gamma + drafts.value_or(1), drafts ? "" : "gamma + 1 = ")),
        draft(draft_of(draft_rows, tokens, needs_draft, drafts ? "" : "gamma = ")) {}

  static TokenIds ids_of(const char* name, const int32_t* ids, Index count) {
    if (count < 0 || count > std::numeric_limits<int32_t>::max())
      invalid_argument("gamma = ", count, " is outside 0..", std::numeric_limits<int32_t>::max());
    if (count > 0) check_not_null(ids, name);
    return std::span<const Token>(ids, static_cast<std::size_t>(count));
  }
  static RowsOfC target_of(const specdec_rows* rows, Index expected, const char* formula) {
    check_not_null(rows, "target");
    check_row_count("target", rows->rows, expected, formula);
    return RowsOfC("target", *rows);
  }
  static RowsOfC draft_of(const specdec_rows* rows, TokenIds tokens, bool needed, const char* formula) {
    if (needed) check_not_null(rows, "draft");
    if (rows == nullptr || rows->kind == SPECDEC_ONE_HOT) return RowsOfC(tokens);
    check_row_count("draft", rows->rows, tokens.size(), formula);
    return RowsOfC("draft", *rows);
  }
  static void check_row_count(const char* name, Index rows, Index expected, const char* formula) {
    // A negative number is an error of the description: see RowsOfC.
    if (rows >= 0 && rows != expected)
      invalid_argument(name, " has ", rows, " rows, expected ", formula, expected);
  }

  /// Draft i of many: `gamma` tokens from token `first` on. Each draft before it has a target row more than it has tokens.
  DraftOfC part(Index i, Index first, Index gamma) const {
    DraftOfC some = *this;
    some.tokens = tokens.segment(first, gamma);
    some.target = target.part(first + i, gamma + 1);
    some.draft = draft.part(first, gamma);
    return some;
  }

  /// The look-ups that a rule begins with. Asked for together, their cache misses overlap. Row row_of(k) judges token k.
  template <class RowNumber>
  void prefetch(const RowNumber& row_of) const {
    for (Index k = 0; k < tokens.size(); ++k) {
      draft.prefetch(k, static_cast<Token>(tokens[k]));
      target.prefetch(row_of(k), static_cast<Token>(tokens[k]));
    }
  }

  TokenIds tokens;
  RowsOfC target, draft;
};

/// Calls f(rule) for a rule for lines that remembers nothing.
template <class F>
auto with_rule_for_lines(specdec_rule number, F&& f) {
  switch (number) {
    case SPECDEC_BLOCK:
      return f(BlockVerifier{});
    case SPECDEC_TOKEN:
      return f(TokenVerifier{});
    case SPECDEC_ARGMAX:
      return f(ArgmaxVerifier{});
    case SPECDEC_SAMPLE_MATCH:
      return f(SampleMatchVerifier{});
    case SPECDEC_GREEDY_BLOCK:
      invalid_argument("rule = ", number, " remembers its text: call specdec_verify_greedy_block");
    default:
      invalid_argument("rule = ", number, " is no rule for lines");
  }
}

/// Calls f(rule) for a rule for trees.
template <class F>
auto with_rule_for_trees(specdec_rule number, F&& f) {
  switch (number) {
    case SPECDEC_TRAVERSAL:
      return f(TraversalVerifier{});
    case SPECDEC_RECURSIVE_REJECTION:
      return f(RecursiveRejectionVerifier{});
    case SPECDEC_K_SEQ:
      return f(KSeqVerifier{});
    default:
      invalid_argument("rule = ", number, " is no rule for trees");
  }
}

/// Whether a rule looks at the draft's rows.
inline bool looks_at_draft(specdec_rule number) {
  return number != SPECDEC_ARGMAX && number != SPECDEC_SAMPLE_MATCH;
}

/// Calls f(generator). The caller's generator goes on only if f succeeds.
template <class F>
auto with_generator(specdec_philox& rng, F&& f) {
  Philox source(rng.seed, rng.offset, rng.stream);
  const auto result = f(source);
  rng.offset = source.offset();
  return result;
}

/// Judges a line: by the memory's rule if there is a memory, else by the rule of this number.
inline specdec_verdict judge_line(specdec_rule number, specdec_greedy_block* memory, const DraftOfC& given,
                                  specdec_philox& rng) {
  given.prefetch([](Index k) { return k; });
  const auto by = [&](auto&& rule) {
    return with_generator(
        rng, [&](Philox& source) { return verify(rule, given.target, given.draft, given.tokens, source); });
  };
  const Verdict verdict = memory != nullptr ? by(memory->rule) : with_rule_for_lines(number, by);
  return {verdict.accepted, verdict.token};
}

/// Judges a tree, and writes the path to `path`, if there is one.
inline specdec_verdict judge_tree(specdec_rule number, const DraftOfC& given, TokenIds parents,
                                  specdec_philox& rng, int32_t* path) {
  const Drafted drafted(given.target, given.draft, given.tokens, parents);
  given.prefetch([&](Index k) { return drafted.parent(k) + 1; });
  const NodeVerdict stop = with_rule_for_trees(number, [&](auto&& rule) {
    return with_generator(rng, [&](Philox& source) { return verify_at_node(rule, drafted, source); });
  });
  const Index accepted = drafted.depth(stop.node);
  if (path != nullptr) {
    Index at = accepted;
    each_back(drafted, stop.node - 1, [&](Index k) { path[--at] = static_cast<int32_t>(k); });
  }
  return {accepted, stop.token};
}

/// Whether a rule is for trees.
inline bool is_for_trees(specdec_rule number) {
  return number == SPECDEC_TRAVERSAL || number == SPECDEC_RECURSIVE_REJECTION || number == SPECDEC_K_SEQ;
}

/// The arguments of specdec_verify_batch of which each draft has one, or a part.
struct BatchOfC {
  specdec_rule rule;
  specdec_greedy_block* const* memories;
  const int32_t* parents;
  const int64_t* offsets;
  int64_t drafts;
  specdec_philox* rngs;
  int32_t* paths;
  specdec_verdict* verdicts;

  void check_sizes() const {
    check_not_null(offsets, "offsets");
    if (offsets[0] != 0) invalid_argument("offsets[0] = ", offsets[0], ", expected 0");
    for (Index i = 0; i < drafts; ++i)  // compared, because a difference might overflow
      if (offsets[i + 1] < offsets[i])
        invalid_argument("offsets[", i + 1, "] = ", offsets[i + 1], ", after ", offsets[i]);
    if (drafts > 0) check_not_null(rngs, "rngs");
    if (drafts > 0) check_not_null(verdicts, "verdicts");
    if (is_for_trees(rule)) {
      if (offsets[drafts] > 0) check_not_null(parents, "parents");
      return;
    }
    if (rule == SPECDEC_GREEDY_BLOCK) check_memories();
    else with_rule_for_lines(rule, [](const auto&) {});
    if (parents != nullptr)
      invalid_argument("parents is not NULL, and rule = ", rule, " is no rule for trees");
  }

  Index gamma(Index i) const { return offsets[i + 1] - offsets[i]; }
  /// Judges draft i, whose tokens and rows are given.
  specdec_verdict judge(Index i, const DraftOfC& given) const {
    if (!is_for_trees(rule))
      return judge_line(rule, rule == SPECDEC_GREEDY_BLOCK ? memories[i] : nullptr, given, rngs[i]);
    const Index first = offsets[i];
    const TokenIds links = gamma(i) > 0 ? DraftOfC::ids_of("parents", parents + first, gamma(i)) : TokenIds();
    return judge_tree(rule, given, links, rngs[i], paths == nullptr ? nullptr : paths + first);
  }

 private:
  void check_memories() const {
    if (drafts > 0) check_not_null(memories, "memories");
    for (Index i = 0; i < drafts; ++i)
      if (memories[i] == nullptr) invalid_argument("memories[", i, "] is NULL");
  }
};

/// What must hold before each draft of a batch can be told a status.
inline void check_draft_count(int64_t drafts, const specdec_status* statuses, const specdec_rows* target) {
  if (drafts < 0) invalid_argument("drafts = ", drafts, " is negative");
  if (drafts > 0) check_not_null(statuses, "statuses");
  if (target != nullptr && drafts > target->rows)
    invalid_argument("target has ", target->rows, " rows, expected one at least for each of ", drafts,
                     " drafts");
}
inline void check_error_size(int64_t drafts, const char* errors, std::size_t size) {
  constexpr auto most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  if (errors != nullptr && drafts > 0 && size > most / static_cast<std::size_t>(drafts))
    invalid_argument("error_size = ", size, " for each of ", drafts, " drafts is more than fits into memory");
}

/// All drafts of a batch in one.
inline DraftOfC all_of(const BatchOfC& batch, const specdec_rows* target, const specdec_rows* draft,
                       const int32_t* tokens) {
  batch.check_sizes();
  return DraftOfC(target, draft, tokens, batch.offsets[batch.drafts], looks_at_draft(batch.rule),
                  batch.drafts);
}

}  // namespace specdec::detail

// NOLINTBEGIN: names and types of C; one file of a program defines these functions

extern "C" {

int32_t specdec_c_version(void) { return SPECDEC_C_VERSION; }

specdec_status specdec_verify(specdec_rule rule, const specdec_rows* target, const specdec_rows* draft,
                              const int32_t* tokens, int64_t gamma, specdec_philox* rng,
                              specdec_verdict* verdict, char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    specdec_philox unused = {};
    if (rule == SPECDEC_ARGMAX && rng == nullptr) rng = &unused;
    check_not_null(rng, "rng");
    check_not_null(verdict, "verdict");
    const DraftOfC given(target, draft, tokens, gamma, looks_at_draft(rule));
    *verdict = judge_line(rule, nullptr, given, *rng);
  });
}

specdec_status specdec_verify_tree(specdec_rule rule, const specdec_rows* target, const specdec_rows* draft,
                                   const int32_t* tokens, const int32_t* parents, int64_t gamma,
                                   specdec_philox* rng, int32_t* path, specdec_verdict* verdict, char* error,
                                   size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(rng, "rng");
    check_not_null(verdict, "verdict");
    const DraftOfC given(target, draft, tokens, gamma, looks_at_draft(rule));
    *verdict = judge_tree(rule, given, DraftOfC::ids_of("parents", parents, gamma), *rng, path);
  });
}

specdec_status specdec_verify_batch(specdec_rule rule, specdec_greedy_block* const* memories,
                                    const specdec_rows* target, const specdec_rows* draft,
                                    const int32_t* tokens, const int32_t* parents, const int64_t* offsets,
                                    int64_t drafts, specdec_philox* rngs, int32_t* paths,
                                    specdec_verdict* verdicts, specdec_status* statuses, char* errors,
                                    size_t error_size) {
  using namespace specdec::detail;
  const specdec_status counted = status_of({errors, drafts == 0 ? 0 : error_size}, [&] {
    check_draft_count(drafts, statuses, target);
    check_error_size(drafts, errors, error_size);
  });
  if (counted != SPECDEC_OK) return counted;  // there need not be a status for each draft
  const BatchOfC batch{rule, memories, parents, offsets, drafts, rngs, paths, verdicts};
  const ErrorText texts{drafts > 0 ? errors : nullptr, error_size};
  specdec_status first = SPECDEC_OK;
  const specdec_status fits = status_of(texts, [&] {
    const DraftOfC all = all_of(batch, target, draft, tokens);
    for (specdec::Index i = 0; i < drafts; ++i) {
      statuses[i] = status_of(texts.of(i),
                              [&] { verdicts[i] = batch.judge(i, all.part(i, offsets[i], batch.gamma(i))); });
      if (first == SPECDEC_OK) first = statuses[i];
    }
  });
  if (fits == SPECDEC_OK) return first;
  for (specdec::Index i = 0; i < drafts; ++i) {
    statuses[i] = fits;
    if (i > 0 && errors != nullptr) texts.of(i).set(errors);
  }
  return fits;
}

specdec_status specdec_greedy_block_create(specdec_greedy_block** memory, char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(memory, "memory");
    *memory = new specdec_greedy_block;
  });
}

void specdec_greedy_block_destroy(specdec_greedy_block* memory) { delete memory; }

void specdec_greedy_block_reset(specdec_greedy_block* memory) {
  if (memory != nullptr) memory->rule = {};
}

int64_t specdec_greedy_block_min_draft_length(const specdec_greedy_block* memory) {
  return memory == nullptr ? 0 : memory->rule.min_draft_length();
}

specdec_status specdec_verify_greedy_block(specdec_greedy_block* memory, const specdec_rows* target,
                                           const specdec_rows* draft, const int32_t* tokens, int64_t gamma,
                                           specdec_philox* rng, specdec_verdict* verdict, char* error,
                                           size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(memory, "memory");
    check_not_null(rng, "rng");
    check_not_null(verdict, "verdict");
    const DraftOfC given(target, draft, tokens, gamma, true);
    *verdict = judge_line(SPECDEC_GREEDY_BLOCK, memory, given, *rng);
  });
}

}  // extern "C"

// NOLINTEND

#endif
