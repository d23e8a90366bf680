// What the functions of specdec.h do. They are defined where SPECDEC_C_IMPLEMENTATION is defined before this header:
//
//   #define SPECDEC_C_IMPLEMENTATION  // in one file of a program
//   #include <specdec/more/c/specdec.hpp>
//
// Experimental: may change in any version. See .github/CHANGELOG.md.
// SPDX-License-Identifier: MIT
#pragma once

#include "specdec/more/c/specdec.h"

#ifdef SPECDEC_C_IMPLEMENTATION

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>

#include "specdec/chance/chance.hpp"
#include "specdec/chance/philox.hpp"
#include "specdec/error.hpp"
#include "specdec/more/audits/text_audit.hpp"
#include "specdec/more/c/batch.hpp"
#include "specdec/more/c/greedy_block.hpp"
#include "specdec/more/c/judge.hpp"
#include "specdec/more/c/rows.hpp"
#include "specdec/more/c/status.hpp"
#include "specdec/rows/named_row.hpp"
#include "specdec/rows/read/validate.hpp"
#include "specdec/types.hpp"
#include "specdec/verify/verifier.hpp"

struct specdec_text_audit {  // NOLINT: a name in C
  specdec::testing::TextAudit audit;
};

namespace specdec::inline v0_2_0::detail {

static_assert(sizeof(Index) == sizeof(int64_t), "the counts of the C interface have 64 bits");

/// A token from row i.
inline int32_t draw_token(const RowsOfC& rows, Index i, specdec_philox& rng) {
  if (i < 0 || i >= rows.rows()) invalid_argument("row = ", i, " is outside 0..", rows.rows() - 1);
  return with_generator(rng, [&](Philox& source) {
    return in_row("rows", i, [&] { return RandomChance(source).draw(rows.row(i)); });
  });
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
    const RowsOfC given("rows", *rows);
    if (!(tolerance >= 0)) invalid_argument("tolerance = ", tolerance, " is no number >= 0");
    for (specdec::Index i = 0; i < given.rows(); ++i)
      in_row("rows", i, [&] {
        given.row(i).ask([&](const auto& held) { validate_row(held, given.vocab_size(), tolerance); });
      });
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
    std::optional<RowsOfC> r;
    if (references != nullptr) r.emplace("references", *references);
    if (r && r->rows() != p.rows())
      invalid_argument("references has ", r->rows(), " rows, expected ", p.rows());
    for (specdec::Index i = 0; i < p.rows(); ++i)
      in_row("target", i, [&] {
        const RowOfC row = p.row(i);
        if (r) audit->audit.add(row, tokens[i], r->row(i));
        else audit->audit.add(row, tokens[i]);
      });
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
