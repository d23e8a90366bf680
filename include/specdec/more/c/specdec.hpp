// What the functions of specdec.h do. This header defines them where SPECDEC_C_IMPLEMENTATION is defined before it, in one
// file of a program:
//
//   #define SPECDEC_C_IMPLEMENTATION
//   #include <specdec/more/c/specdec.hpp>
//
// Elsewhere it only declares them.
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/c/specdec.h"

#ifdef SPECDEC_C_IMPLEMENTATION

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/philox.hpp"
#include "specdec/error.hpp"
#include "specdec/more/audits/text_audit.hpp"
#include "specdec/more/c/rows.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/validate.hpp"
#include "specdec/token_ids.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/block.hpp"
#include "specdec/verify/drafted.hpp"
#include "specdec/verify/k_seq.hpp"
#include "specdec/verify/rules/argmax.hpp"
#include "specdec/verify/rules/greedy_block.hpp"
#include "specdec/verify/rules/recursive_rejection.hpp"
#include "specdec/verify/rules/sample_match.hpp"
#include "specdec/verify/rules/token.hpp"
#include "specdec/verify/rules/traversal.hpp"
#include "specdec/verify/verify_batch.hpp"

struct specdec_greedy_block {  // NOLINT: a name in C
  specdec::GreedyBlockVerifier rule;
};

struct specdec_text_audit {  // NOLINT: a name in C
  specdec::testing::TextAudit audit;
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
  DraftOfC(const specdec_rows* target_rows, const specdec_rows* draft_rows, TokenIds ids, bool needs_draft,
           std::optional<Index> drafts = {})
      : tokens(ids),
        target(target_of(target_rows, ids.size() + drafts.value_or(1), drafts ? "" : "gamma + 1 = ")),
        draft(draft_of(draft_rows, tokens, needs_draft, drafts ? "" : "gamma = ")) {}

  template <class Id>
  static TokenIds ids_of(const char* name, const Id* ids, Index count) {
    if (count < 0 || count > std::numeric_limits<int32_t>::max())
      invalid_argument("gamma = ", count, " is outside 0..", std::numeric_limits<int32_t>::max());
    if (count > 0) check_not_null(ids, name);
    return std::span<const Id>(ids, static_cast<std::size_t>(count));
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
      draft.prefetch(k, as_token(tokens[k]));
      target.prefetch(row_of(k), as_token(tokens[k]));
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

/// A token from row i.
inline int32_t draw_token(const RowsOfC& rows, Index i, specdec_philox& rng) {
  if (i < 0 || i >= rows.rows()) invalid_argument("row = ", i, " is outside 0..", rows.rows() - 1);
  return with_generator(rng, [&](Philox& source) {
    return in_row("rows", i, [&] { return RandomChance(source).draw(rows.row(i)); });
  });
}

/// Each row is checked in the type that it has, which knows how its numbers are rounded.
inline void validate_rows(const RowsOfC& rows, double tolerance) {
  if (!(tolerance >= 0)) invalid_argument("tolerance = ", tolerance, " is no number >= 0");
  for (Index i = 0; i < rows.rows(); ++i)
    in_row("rows", i, [&] {
      const RowOfC row = rows.row(i);
      std::visit([&](const auto& held) { validate_row(held, rows.vocab_size(), tolerance); }, row.held());
    });
}

/// The memory of greedy block verification as bytes: for each modification the bits of its ratio, and the number of tokens
/// that it is still for, each as 8 bytes, the lowest first.
struct SavedMemory {
  static constexpr std::size_t size_of_one = 16;

  static std::size_t size(const GreedyBlockVerifier& rule) {
    return rule.modifications().size() * size_of_one;
  }

  static void write(const GreedyBlockVerifier& rule, unsigned char* bytes) {
    for (const GreedyBlockVerifier::Modification& m : rule.modifications()) {
      bytes = write_number(std::bit_cast<std::uint64_t>(m.ratio), bytes);
      bytes = write_number(static_cast<std::uint64_t>(m.left), bytes);
    }
  }

  static GreedyBlockVerifier read(const unsigned char* bytes, std::size_t size) {
    if (size % size_of_one != 0) invalid_argument("size = ", size, " is no multiple of ", size_of_one);
    std::vector<GreedyBlockVerifier::Modification> live;
    for (std::size_t k = 0; k < size; k += size_of_one)
      live.push_back({std::bit_cast<double>(read_number(bytes + k)),
                      static_cast<Index>(read_number(bytes + k + size_of_one / 2))});
    return GreedyBlockVerifier(std::move(live));
  }

 private:
  static unsigned char* write_number(std::uint64_t number, unsigned char* bytes) {
    for (int k = 0; k < 8; ++k) *bytes++ = static_cast<unsigned char>(number >> (8 * k) & 0xFF);
    return bytes;
  }
  static std::uint64_t read_number(const unsigned char* bytes) {
    std::uint64_t number = 0;
    for (int k = 0; k < 8; ++k) number |= std::uint64_t{bytes[k]} << (8 * k);
    return number;
  }
};

/// Whether a rule is for trees.
inline bool is_for_trees(specdec_rule number) {
  return number == SPECDEC_TRAVERSAL || number == SPECDEC_RECURSIVE_REJECTION || number == SPECDEC_K_SEQ;
}

/// The drafts of a batch, one by one.
struct BatchOfC {
  const specdec_batch& in;

  Index offset(Index i) const { return in.offsets != nullptr ? in.offsets[i] : Index{in.offsets32[i]}; }
  Index gamma(Index i) const { return offset(i + 1) - offset(i); }
  specdec_rule rule(Index i) const { return in.rules != nullptr ? in.rules[i] : in.rule; }
  /// Whether the rule of any draft is of a kind.
  bool any(bool (*is_so)(specdec_rule)) const {
    if (in.rules == nullptr) return is_so(in.rule);
    return std::any_of(in.rules, in.rules + in.drafts, is_so);
  }

  void check_sizes() const {
    check_offsets();
    if (in.drafts > 0) check_not_null(in.rngs, "rngs");
    if (in.drafts > 0) check_not_null(in.verdicts, "verdicts");
    if (in.rules == nullptr) check_rule();
    else check_rules();
    if (any(is_for_trees)) {
      if (offset(in.drafts) > 0) check_not_null(in.parents, "parents");
    } else if (in.parents != nullptr && in.rules == nullptr) {
      invalid_argument("parents is not NULL, and rule = ", in.rule, " is no rule for trees");
    }
    check_memories();
    check_temperatures("target", in.target, in.target_temperatures);
    check_temperatures("draft", in.draft, in.draft_temperatures);
  }

  TokenIds tokens() const {
    const Index count = offset(in.drafts);
    if (in.tokens64 == nullptr) return DraftOfC::ids_of("tokens", in.tokens, count);
    if (in.tokens != nullptr) invalid_argument("tokens and tokens64 are both set: one of them is NULL");
    return DraftOfC::ids_of("tokens64", in.tokens64, count);
  }

  /// All drafts in one.
  DraftOfC all() const {
    return DraftOfC(described(in.target, in.target_temperatures).get(),
                    described(in.draft, in.draft_temperatures).get(), tokens(), reads_draft(), in.drafts);
  }

  /// Judges draft i.
  specdec_verdict judge(Index i, const DraftOfC& all) const {
    const Index first = offset(i);
    const DraftOfC given = at_temperatures(i, all.part(i, first, gamma(i)));
    if (!is_for_trees(rule(i)))
      return judge_line(rule(i), rule(i) == SPECDEC_GREEDY_BLOCK ? in.memories[i] : nullptr, given,
                        in.rngs[i]);
    const TokenIds links =
        gamma(i) > 0 ? DraftOfC::ids_of("parents", in.parents + first, gamma(i)) : TokenIds();
    return judge_tree(rule(i), given, links, in.rngs[i], in.paths == nullptr ? nullptr : in.paths + first);
  }

  bool is_chosen(Index i) const { return in.chosen != nullptr && in.chosen[i] != 0; }
  /// Whether the draft's rows of any draft are read.
  bool reads_draft() const {
    if (in.chosen == nullptr) return any(looks_at_draft);
    for (Index i = 0; i < in.drafts; ++i)
      if (looks_at_draft(rule(i)) && !is_chosen(i)) return true;
    return false;
  }

 private:
  // Rows whose temperature is told draft by draft.
  struct Described {
    const specdec_rows* get() const { return is_null ? nullptr : &rows; }
    specdec_rows rows;
    bool is_null;
  };
  static Described described(const specdec_rows* rows, const double* temperatures) {
    if (rows == nullptr) return {{}, true};
    Described out{*rows, false};
    if (temperatures != nullptr) out.rows.temperature = 1;
    return out;
  }
  DraftOfC at_temperatures(Index i, DraftOfC given) const {
    if (in.target_temperatures != nullptr)
      given.target = given.target.at_temperature(in.target_temperatures[i], i);
    if (is_chosen(i)) given.draft = RowsOfC(given.tokens);
    else if (in.draft_temperatures != nullptr && in.draft != nullptr)
      given.draft = given.draft.at_temperature(in.draft_temperatures[i], i);
    return given;
  }

  void check_offsets() const {
    if (in.offsets != nullptr && in.offsets32 != nullptr)
      invalid_argument("offsets and offsets32 are both set: one of them is NULL");
    if (in.offsets32 == nullptr) check_not_null(in.offsets, "offsets");
    if (offset(0) != 0) invalid_argument("offsets[0] = ", offset(0), ", expected 0");
    for (Index i = 0; i < in.drafts; ++i)  // compared, because a difference might overflow
      if (offset(i + 1) < offset(i))
        invalid_argument("offsets[", i + 1, "] = ", offset(i + 1), ", after ", offset(i));
  }
  void check_rule() const {
    if (!is_for_trees(in.rule) && in.rule != SPECDEC_GREEDY_BLOCK)
      with_rule_for_lines(in.rule, [](const auto&) {});
  }
  void check_rules() const {
    for (Index i = 0; i < in.drafts; ++i)
      if (!is_for_trees(in.rules[i]) && (in.rules[i] < SPECDEC_BLOCK || in.rules[i] > SPECDEC_GREEDY_BLOCK))
        invalid_argument("rules[", i, "] = ", in.rules[i], " is no rule");
  }
  void check_memories() const {
    for (Index i = 0; i < in.drafts; ++i) {
      if (rule(i) != SPECDEC_GREEDY_BLOCK) continue;
      check_not_null(in.memories, "memories");
      if (in.memories[i] == nullptr) invalid_argument("memories[", i, "] is NULL");
    }
  }
  static void check_temperatures(const char* name, const specdec_rows* rows, const double* temperatures) {
    if (rows == nullptr || temperatures == nullptr) return;
    if (rows->kind != SPECDEC_LOGITS && rows->kind != SPECDEC_GREEDY_LOGITS)
      invalid_argument(name, "_temperatures is not NULL, and ", name, ".kind = ", rows->kind,
                       " is not SPECDEC_LOGITS");
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

/// Judges the drafts one by one.
inline specdec_status judge_batch(const specdec_batch& in) {
  const specdec_status counted = status_of({in.errors, in.drafts == 0 ? 0 : in.error_size}, [&] {
    check_draft_count(in.drafts, in.statuses, in.target);
    check_error_size(in.drafts, in.errors, in.error_size);
  });
  if (counted != SPECDEC_OK) return counted;  // there need not be a status for each draft
  const BatchOfC batch{in};
  const ErrorText texts{in.drafts > 0 ? in.errors : nullptr, in.error_size};
  specdec_status* const statuses = in.statuses;
  specdec_status first = SPECDEC_OK;
  const specdec_status fits = status_of(texts, [&] {
    batch.check_sizes();
    const DraftOfC all = batch.all();
    for (Index i = 0; i < in.drafts; ++i) {
      statuses[i] = status_of(texts.of(i), [&] { in.verdicts[i] = batch.judge(i, all); });
      if (first == SPECDEC_OK) first = statuses[i];
    }
  });
  if (fits == SPECDEC_OK) return first;
  for (Index i = 0; i < in.drafts; ++i) {
    statuses[i] = fits;
    if (i > 0 && in.errors != nullptr) texts.of(i).set(in.errors);
  }
  return fits;
}

/// Rows of floats without gaps.
inline specdec_rows flat_rows(specdec_row_kind kind, const float* numbers, Index rows, int64_t vocab_size) {
  specdec_rows flat = {};
  flat.kind = kind;
  flat.scalar = SPECDEC_FLOAT;
  flat.rows = rows;
  flat.vocab_size = vocab_size;
  flat.data = numbers;
  flat.temperature = 1;
  return flat;
}
inline void check_flat_kind(specdec_row_kind kind) {
  if (kind != SPECDEC_PROBABILITIES && kind != SPECDEC_LOGITS)
    invalid_argument("kind = ", kind, " is neither SPECDEC_PROBABILITIES nor SPECDEC_LOGITS");
}
/// The number of tokens of all drafts of a flat call. `drafts` and `offsets` say how long all other arrays are.
inline Index flat_tokens(int64_t drafts, const int64_t* offsets) {
  constexpr Index most = std::numeric_limits<int32_t>::max();
  if (drafts < 0 || drafts > most) invalid_argument("drafts = ", drafts, " is outside 0..", most);
  check_not_null(offsets, "offsets");
  if (offsets[drafts] < 0 || offsets[drafts] > most)
    invalid_argument("offsets[", drafts, "] = ", offsets[drafts], " is outside 0..", most);
  return offsets[drafts];
}

inline void check_references(const RowsOfC& target, const RowsOfC& references) {
  if (references.rows() != target.rows())
    invalid_argument("references has ", references.rows(), " rows, expected ", target.rows());
}

/// Adds each token with its row; `references` may be null.
inline void add_to_audit(testing::TextAudit& audit, const RowsOfC& target, const RowsOfC* references,
                         const int32_t* tokens) {
  for (Index i = 0; i < target.rows(); ++i)
    in_row("target", i, [&] {
      const RowOfC row = target.row(i);
      if (references == nullptr) audit.add(row, tokens[i]);
      else audit.add(row, tokens[i], references->row(i));
    });
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
    const DraftOfC given(target, draft, DraftOfC::ids_of("tokens", tokens, gamma), looks_at_draft(rule));
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
    const DraftOfC given(target, draft, DraftOfC::ids_of("tokens", tokens, gamma), looks_at_draft(rule));
    *verdict = judge_tree(rule, given, DraftOfC::ids_of("parents", parents, gamma), *rng, path);
  });
}

specdec_status specdec_verify_batch(const specdec_batch* batch) {
  return batch == nullptr ? SPECDEC_INVALID_ARGUMENT : specdec::detail::judge_batch(*batch);
}

specdec_status specdec_verify_flat(specdec_row_kind kind, const float* target, const float* draft,
                                   int64_t vocab_size, const double* temperatures, const specdec_rule* rules,
                                   specdec_greedy_block* const* memories, const int32_t* tokens,
                                   const int32_t* parents, const int64_t* offsets, int64_t drafts,
                                   specdec_philox* rngs, int32_t* paths, specdec_verdict* verdicts,
                                   specdec_status* statuses, char* errors, size_t error_size) {
  using namespace specdec::detail;
  specdec::Index count = 0;
  const specdec_status counted = status_of({errors, drafts == 0 ? 0 : error_size}, [&] {
    check_flat_kind(kind);
    count = flat_tokens(drafts, offsets);
    if (drafts > 0) check_not_null(rules, "rules");
    if (temperatures != nullptr && kind != SPECDEC_LOGITS)
      invalid_argument("temperatures is not NULL, and kind = ", kind, " is not SPECDEC_LOGITS");
  });
  if (counted != SPECDEC_OK) return counted;
  const specdec_rows p = flat_rows(kind, target, count + drafts, vocab_size);
  const specdec_rows q =
      flat_rows(draft == nullptr ? SPECDEC_ONE_HOT : kind, draft, draft == nullptr ? 0 : count, vocab_size);
  specdec_batch batch = {};
  batch.drafts = drafts;
  batch.offsets = offsets;
  batch.tokens = tokens;
  batch.parents = parents;
  batch.rules = rules;
  batch.target = &p;
  batch.draft = &q;
  batch.target_temperatures = temperatures;
  batch.draft_temperatures = draft == nullptr ? nullptr : temperatures;
  batch.memories = memories;
  batch.rngs = rngs;
  batch.paths = paths;
  batch.verdicts = verdicts;
  batch.statuses = statuses;
  batch.errors = errors;
  batch.error_size = error_size;
  return judge_batch(batch);
}

specdec_status specdec_draw(const specdec_rows* rows, int64_t row, specdec_philox* rng, int32_t* token,
                            char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(rows, "rows");
    check_not_null(rng, "rng");
    check_not_null(token, "token");
    *token = draw_token(RowsOfC("rows", *rows), row, *rng);
  });
}

specdec_status specdec_draw_flat(specdec_row_kind kind, const float* row, int64_t vocab_size,
                                 double temperature, specdec_philox* rng, int32_t* token, char* error,
                                 size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_flat_kind(kind);
    check_not_null(rng, "rng");
    check_not_null(token, "token");
    specdec_rows flat = flat_rows(kind, row, 1, vocab_size);
    flat.temperature = temperature;
    if (kind == SPECDEC_LOGITS && temperature == 0) flat.kind = SPECDEC_GREEDY_LOGITS;
    *token = draw_token(RowsOfC("rows", flat), 0, *rng);
  });
}

specdec_status specdec_validate(const specdec_rows* rows, double tolerance, char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(rows, "rows");
    validate_rows(RowsOfC("rows", *rows), tolerance);
  });
}

int64_t specdec_check_every(int64_t verifications) {
  return verifications < 0 ? specdec::detail::verifications_per_check : specdec::check_every(verifications);
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

size_t specdec_greedy_block_saved_size(const specdec_greedy_block* memory) {
  return memory == nullptr ? 0 : specdec::detail::SavedMemory::size(memory->rule);
}

specdec_status specdec_greedy_block_save(const specdec_greedy_block* memory, void* bytes, size_t size,
                                         char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(memory, "memory");
    if (size != SavedMemory::size(memory->rule))
      invalid_argument("size = ", size, ", expected ", SavedMemory::size(memory->rule));
    if (size > 0) check_not_null(bytes, "bytes");
    SavedMemory::write(memory->rule, static_cast<unsigned char*>(bytes));
  });
}

specdec_status specdec_greedy_block_load(specdec_greedy_block* memory, const void* bytes, size_t size,
                                         char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(memory, "memory");
    if (size > 0) check_not_null(bytes, "bytes");
    memory->rule = SavedMemory::read(static_cast<const unsigned char*>(bytes), size);
  });
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
    const DraftOfC given(target, draft, DraftOfC::ids_of("tokens", tokens, gamma), true);
    *verdict = judge_line(SPECDEC_GREEDY_BLOCK, memory, given, *rng);
  });
}

specdec_status specdec_text_audit_create(specdec_text_audit** audit, double tolerance, uint64_t seed,
                                         uint64_t stream, char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(audit, "audit");
    *audit = new specdec_text_audit{
        specdec::testing::TextAudit({.tolerance = tolerance, .seed = seed, .stream = stream})};
  });
}

void specdec_text_audit_destroy(specdec_text_audit* audit) { delete audit; }

specdec_status specdec_text_audit_add(specdec_text_audit* audit, const specdec_rows* target,
                                      const specdec_rows* references, const int32_t* tokens, char* error,
                                      size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(audit, "audit");
    check_not_null(target, "target");
    const RowsOfC p("target", *target);
    if (p.rows() > 0) check_not_null(tokens, "tokens");
    if (references == nullptr) return add_to_audit(audit->audit, p, nullptr, tokens);
    const RowsOfC r("references", *references);
    check_references(p, r);
    add_to_audit(audit->audit, p, &r, tokens);
  });
}

void specdec_text_audit_add_numbers(specdec_text_audit* audit, double p, double r) {
  if (audit != nullptr) audit->audit.add(p, r);
}

specdec_status specdec_text_audit_merge(specdec_text_audit* audit, const specdec_text_audit* other,
                                        char* error, size_t error_size) {
  using namespace specdec::detail;
  return status_of({error, error_size}, [&] {
    check_not_null(audit, "audit");
    check_not_null(other, "other");
    audit->audit.merge(other->audit);
  });
}

double specdec_text_audit_evidence(const specdec_text_audit* audit) {
  return audit == nullptr ? 0 : audit->audit.largest_evidence();
}

specdec_status specdec_text_audit_report(const specdec_text_audit* audit, char* text, size_t size) {
  using namespace specdec::detail;
  return status_of({text, size}, [&] {
    check_not_null(audit, "audit");
    std::ostringstream words;
    words << audit->audit.report();
    ErrorText{text, size}.set(words.str().c_str());
  });
}

}  // extern "C"

// NOLINTEND

#endif
