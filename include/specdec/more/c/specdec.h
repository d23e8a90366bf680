// The rules of specdec for programs in C, and in languages that can call C. Plain C99.
// Experimental: may change in any version. See .github/CHANGELOG.md.
//
// One C++20 file of the program, or of a shared library, holds the code:
//
//   #define SPECDEC_C_IMPLEMENTATION
//   #include <specdec/more/c/specdec.hpp>
//
// It is compiled with the folders of the headers, here of an installed Eigen:
//
//   c++ -std=c++20 -O3 -Iinclude -I/usr/include/eigen3 -c implementation.cpp
//
// All other files include this header only. They are C or C++. The program is linked with the C++ standard library.
//
// Errors: a function returns SPECDEC_OK or the kind of the error. The text of the error goes to `error`, a buffer of
//   `error_size` bytes: it always ends with a 0, and is cut if the buffer is too small. It is empty if nothing failed. `error`
//   may be NULL. A call that fails changes nothing else: no verdict, no offset of a generator, no memory of a rule. No C++
//   exception leaves a function.
// Ownership: all memory belongs to the caller. A function reads what it is given during the call, and keeps no pointer.
//   The exceptions are specdec_greedy_block, specdec_text_audit, specdec_requests and specdec_paused, objects that are created and
//   destroyed by functions.
// Threads: there is no global state. Calls on distinct generators, outputs and objects may run at the
//   same time; they may read the same rows.
// Units: counts and strides count numbers, not bytes. Numbers are aligned as C aligns their type.
// Cost: that of the C++ rules. Each list that is used is checked by one pass over it. One branch more for each question to a row
//   if it holds logits and the draft is not one-hot, if target and draft are of two kinds or scalars, or if numbers lie apart.
//   In a rule that reads whole rows (trees, greedy block) a list beside another kind costs as much as a row of probabilities in
//   memory. No allocation for up to 64 tokens (greedy block allocates in its first calls).
// Example: examples/engine/verify_from_c.c
// SPDX-License-Identifier: MIT
#ifndef SPECDEC_C_SPECDEC_H
#define SPECDEC_C_SPECDEC_H

#include <stddef.h>
#include <stdint.h>

// NOLINTBEGIN: this is C

// The version of this interface: of its functions, its structures and its constants. A program that loads the library at run
// time compares it with specdec_c_version(). Version 3: specdec_verify_batch takes one structure. Draws, validation, flat calls,
// memories as bytes, and requests are new.
#define SPECDEC_C_VERSION 3

// What stands before each function. SPECDEC_C_SHARED says that the functions lie in a shared library: it is defined when the
// library is compiled, and on Windows better also in programs that call it (the CMake target and pkg-config define it).
#ifndef SPECDEC_C_API
#if !defined(SPECDEC_C_SHARED)
#define SPECDEC_C_API
#elif !defined(_WIN32)
#define SPECDEC_C_API __attribute__((visibility("default")))
#elif defined(SPECDEC_C_IMPLEMENTATION)
#define SPECDEC_C_API __declspec(dllexport)
#else
#define SPECDEC_C_API __declspec(dllimport)
#endif
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// What became of a call.
typedef int32_t specdec_status;
enum specdec_statuses {
  SPECDEC_OK = 0,
  SPECDEC_INVALID_ARGUMENT = 1,      ///< a null pointer, a wrong shape, an unknown id, a token with q = 0
  SPECDEC_INVALID_DISTRIBUTION = 2,  ///< a row with a number that cannot be there, or without mass
  SPECDEC_OUT_OF_MEMORY = 3,
  SPECDEC_UNEXPECTED_ERROR = 4,  ///< none is known; please report it
  SPECDEC_INVALID_CALL = 5       ///< a call out of place, whatever its arguments
};

/// The rules. All are lossless but argmax, which gives the tokens of greedy decoding.
typedef int32_t specdec_rule;
enum specdec_rules {
  // For lines: specdec_verify, specdec_verify_batch.
  SPECDEC_BLOCK = 0,         ///< block verification (Sun et al. 2025): accepts the most. The default
  SPECDEC_TOKEN = 1,         ///< token verification (Leviathan et al. 2022)
  SPECDEC_ARGMAX = 2,        ///< greedy decoding; needs no draft rows
  SPECDEC_SAMPLE_MATCH = 3,  ///< accepts what the target draws itself; needs no draft rows
  SPECDEC_GREEDY_BLOCK = 4,  ///< remembers its text: specdec_verify_greedy_block, specdec_verify_batch
  // For trees: specdec_verify_tree, specdec_verify_batch.
  SPECDEC_TRAVERSAL = 16,  ///< traversal verification (Weng et al. 2025): accepts the most
  SPECDEC_RECURSIVE_REJECTION = 17,
  SPECDEC_K_SEQ = 18  ///< for siblings that are independent draws from one row
};

/// The type of the numbers of rows.
typedef int32_t specdec_scalar;
enum specdec_scalars {
  SPECDEC_FLOAT = 0,
  SPECDEC_DOUBLE = 1,
  SPECDEC_HALF = 2,     ///< IEEE binary16, as the bits of a uint16_t
  SPECDEC_BFLOAT16 = 3  ///< the upper half of a float, as the bits of a uint16_t
};

/// What the numbers of rows mean.
typedef int32_t specdec_row_kind;
enum specdec_row_kinds {
  SPECDEC_PROBABILITIES = 0,
  SPECDEC_LOGITS = 1,         ///< p = softmax(logits / temperature), temperature > 0
  SPECDEC_GREEDY_LOGITS = 2,  ///< temperature 0: the largest logit has p = 1; among equals, the lowest id
  SPECDEC_LISTS = 3,          ///< each row lists some tokens and their probabilities; all others have p = 0
  SPECDEC_ONE_HOT = 4         ///< draft rows of a drafter without probabilities: each token has q = 1
};

/// A matrix of rows. Each row is a distribution over the tokens 0..vocab_size − 1. Set what the kind needs, and all else to 0:
///
///   specdec_rows target = {0};
///   target.kind = SPECDEC_LOGITS;
///   target.scalar = SPECDEC_FLOAT;
///   target.rows = gamma + 1;
///   target.vocab_size = 128256;
///   target.data = logits;
///   target.temperature = 0.8;
///
/// Numbers in memory (probabilities and logits): number x of row i is data[i * row_stride + x * element_stride]; or, with one
/// pointer for each row, pointers[i][x * element_stride]. Either `data` or `pointers` is NULL. The vocabularies of target and
/// draft may differ in size.
/// Lists: row i lists the entries k from offsets[i] to offsets[i + 1] − 1. Entry k is token ids[k] with probability data[k].
/// The ids of a row ascend, and its probabilities sum to 1 within 1e-3: renormalise them after a cut. The scalar is float or
/// double.
/// One-hot rows: nothing else is read.
typedef struct specdec_rows {
  specdec_row_kind kind;
  specdec_scalar scalar;
  int64_t rows;
  int64_t vocab_size;
  const void* data;
  const void* const* pointers;
  int64_t row_stride;         ///< 0: vocab_size * element_stride, so the rows follow each other
  int64_t element_stride;     ///< 0: 1
  double temperature;         ///< of SPECDEC_LOGITS
  const double* log_sum_exp;  ///< of SPECDEC_LOGITS: log Σ exp(logit / temperature) of each row, or NULL
  const int32_t* ids;         ///< of SPECDEC_LISTS
  const int64_t* offsets;     ///< of SPECDEC_LISTS: rows + 1 numbers
} specdec_rows;

/// A random generator, Philox4x32-10: its number n depends on seed, stream and n alone. Streams of one seed are independent.
/// Start with offset 0 and any seed. A call that succeeds adds to `offset` how many numbers it has taken. These three numbers
/// are all that must be kept to continue a text elsewhere. They give the numbers of the C++ class specdec::Philox.
typedef struct specdec_philox {
  uint64_t seed;
  uint64_t offset;
  uint64_t stream;
} specdec_philox;

/// The outcome of a verification: the text goes on with the accepted tokens, and then with `token`.
typedef struct specdec_verdict {
  int64_t
      accepted;  ///< how many drafted tokens survive: the first ones of a line, or those on the path in a tree
  int32_t token;  ///< the correction token, or the bonus token if a whole line was accepted
} specdec_verdict;

/// The memory of greedy block verification, of one text.
typedef struct specdec_greedy_block specdec_greedy_block;

/// The SPECDEC_C_VERSION that the library was compiled with.
SPECDEC_C_API int32_t specdec_c_version(void);

/// Judges a line of `gamma` drafted tokens by a rule for lines that remembers nothing.
///
///   target   gamma + 1 rows. Row i is the target's distribution after i drafted tokens
///   draft    gamma rows. Row i is the distribution that tokens[i] was drawn from. NULL will do for SPECDEC_ARGMAX and
///            SPECDEC_SAMPLE_MATCH
///   tokens   gamma ids; may be NULL if gamma = 0
///   rng      not used by SPECDEC_ARGMAX, for which it may be NULL
///
/// Errors: SPECDEC_INVALID_ARGUMENT before anything is judged: a null pointer, a wrong number of rows, an id that neither
/// vocabulary has, a token that its draft row cannot have given (q = 0; in a row of SPECDEC_GREEDY_LOGITS this is found where the
/// decision needs q). SPECDEC_INVALID_DISTRIBUTION if a number that the decision needs is no probability; the text names matrix and
/// row. Numbers that are not needed are not looked at.
SPECDEC_C_API specdec_status specdec_verify(specdec_rule rule, const specdec_rows* target,
                                            const specdec_rows* draft, const int32_t* tokens, int64_t gamma,
                                            specdec_philox* rng, specdec_verdict* verdict, char* error,
                                            size_t error_size);

/// Judges a tree of `gamma` drafted tokens by a rule for trees. tokens[k] follows tokens[parents[k]], or the context if
/// parents[k] = −1; a parent comes before its children.
///
///   target   gamma + 1 rows. Row 0 is the target's distribution after the context, row k + 1 after tokens[k]
///   draft    gamma rows. Row k is the distribution that tokens[k] was drawn from, given its elder siblings; one-hot if the
///            token was chosen
///   path     room for gamma numbers: the numbers of the accepted tokens, from the context outward. `verdict->accepted` says
///            how many there are. NULL if they are not wanted
///
/// Errors: see specdec_verify; and SPECDEC_INVALID_ARGUMENT on parents that make no tree.
SPECDEC_C_API specdec_status specdec_verify_tree(specdec_rule rule, const specdec_rows* target,
                                                 const specdec_rows* draft, const int32_t* tokens,
                                                 const int32_t* parents, int64_t gamma, specdec_philox* rng,
                                                 int32_t* path, specdec_verdict* verdict, char* error,
                                                 size_t error_size);

/// Many drafts of any lengths, one after the other: lines for rules for lines, trees for rules for trees. Set what is needed, and
/// all else to 0. Draft i has the tokens from tokens[offsets[i]] to tokens[offsets[i + 1] − 1]. Its rows are those of `draft` from
/// row offsets[i] on, and those of `target` from row offsets[i] + i on.
///
///   drafts     how many
///   offsets    drafts + 1 numbers, from 0 on, that do not descend; or `offsets32`, the same in 32 bits
///   tokens     offsets[drafts] ids; or `tokens64`, the same in 64 bits
///   parents    for rules for trees: one for each token, in the numbers of the token's own draft: the token
///              tokens[offsets[i] + k] follows tokens[offsets[i] + parents[offsets[i] + k]], or the context if its parent is
///              −1. NULL if no rule is for trees
///   rule       of all drafts; or `rules`, one for each draft
///   target     offsets[drafts] + drafts rows
///   draft      offsets[drafts] rows; NULL if no rule needs draft rows of tokens that were not `chosen`
///   target_temperatures, draft_temperatures
///              where the rows are logits: one for each draft, in place of the rows' own temperature. At 0 the rows are
///              SPECDEC_GREEDY_LOGITS. May be NULL
///   chosen     one for each draft: if it is not 0, the tokens were chosen, as if the draft's rows were one-hot, and these rows
///              are not read. May be NULL
///   memories   for SPECDEC_GREEDY_BLOCK: one memory for each draft, of its text. Those of other rules are not looked at
///   rngs       one generator for each draft
///   paths      for rules for trees: room for offsets[drafts] numbers. The path of draft i begins at paths[offsets[i]], in the
///              numbers of its own draft, and verdicts[i].accepted says how many there are; nothing else is written. NULL if
///              they are not wanted
///   verdicts   one for each draft
///   statuses   one for each draft
///   errors     room for drafts * error_size bytes: the text of draft i begins at errors + i * error_size. May be NULL
typedef struct specdec_batch {
  int64_t drafts;
  const int64_t* offsets;
  const int32_t* offsets32;
  const int32_t* tokens;
  const int64_t* tokens64;
  const int32_t* parents;
  specdec_rule rule;
  const specdec_rule* rules;
  const specdec_rows* target;
  const specdec_rows* draft;
  const double* target_temperatures;
  const double* draft_temperatures;
  const uint8_t* chosen;
  specdec_greedy_block* const* memories;
  specdec_philox* rngs;
  int32_t* paths;
  specdec_verdict* verdicts;
  specdec_status* statuses;
  char* errors;
  size_t error_size;
} specdec_batch;

/// Judges many drafts. Each gets the verdict that it gets alone.
///
/// Returns SPECDEC_OK if all drafts were judged, else the first status that is none.
/// Errors: an error in a draft is that draft's status alone, also if its parents make no tree or its temperature is none. If the
/// arguments as a whole do not fit, no draft is judged, and all of them get this error. If `drafts` is negative or more than the
/// target's rows, or if `statuses` is NULL, the text is written at the beginning of `errors`, so it then needs error_size bytes,
/// and no status is written.
SPECDEC_C_API specdec_status specdec_verify_batch(const specdec_batch* batch);

/// Judges many drafts whose rows are floats without gaps, for languages that cannot pass pointers inside structures. The arguments
/// are those of specdec_batch, but for these:
///
///   kind          SPECDEC_PROBABILITIES or SPECDEC_LOGITS, of all rows
///   target        offsets[drafts] + drafts rows of vocab_size floats each
///   draft         offsets[drafts] rows; NULL if all tokens were chosen, or no rule needs draft rows
///   temperatures  for logits: one for each draft, of its target rows and its draft rows. 0 is greedy decoding. NULL: 1 for all
///   rules         one for each draft
///   memories      pointers that the library has made. NULL if no rule is SPECDEC_GREEDY_BLOCK
///   parents       NULL if no rule is for trees
///
/// Errors: see specdec_verify_batch. If kind, drafts or temperatures do not fit, or if `offsets`, `rules` or `statuses` is NULL,
/// no status is written, and the text is at the beginning of `errors`.
SPECDEC_C_API specdec_status specdec_verify_flat(specdec_row_kind kind, const float* target,
                                                 const float* draft, int64_t vocab_size,
                                                 const double* temperatures, const specdec_rule* rules,
                                                 specdec_greedy_block* const* memories, const int32_t* tokens,
                                                 const int32_t* parents, const int64_t* offsets,
                                                 int64_t drafts, specdec_philox* rngs, int32_t* paths,
                                                 specdec_verdict* verdicts, specdec_status* statuses,
                                                 char* errors, size_t error_size);

/// Draws one token from row number `row`, and sets *token. It is the token that C++ draws with an equal Philox; `rng` goes on by
/// one number. To draft, draw from the very row that you then pass to the verification as its draft row. The verification must
/// not see the numbers of these draws again: take another stream or another seed.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, a row that does not exist, or one-hot rows. SPECDEC_INVALID_DISTRIBUTION
/// if a number that was read is no probability, or the row has no mass.
/// Cost: about half a pass over the row.
SPECDEC_C_API specdec_status specdec_draw(const specdec_rows* rows, int64_t row, specdec_philox* rng,
                                          int32_t* token, char* error, size_t error_size);

/// Draws one token from a row of vocab_size floats, for languages that cannot pass pointers inside structures. `kind` is
/// SPECDEC_PROBABILITIES or SPECDEC_LOGITS, `temperature` that of logits: 0 gives the likeliest token. See specdec_draw.
SPECDEC_C_API specdec_status specdec_draw_flat(specdec_row_kind kind, const float* row, int64_t vocab_size,
                                               double temperature, specdec_philox* rng, int32_t* token,
                                               char* error, size_t error_size);

/// Checks that every row holds finite, non-negative probabilities that sum to 1 within `tolerance` (1e-3 is usual; lists are
/// held to 1e-3 anyway). Rounding of halves and bfloat16 is allowed for. The verifications check only the numbers that they
/// use: call this for rows that you do not trust, or while an engine is new.
///
/// Errors: SPECDEC_INVALID_DISTRIBUTION if the check fails; the text names row and token. SPECDEC_INVALID_ARGUMENT on a null
/// pointer, one-hot rows, or a tolerance that is no number >= 0.
/// Cost: one pass over all rows.
SPECDEC_C_API specdec_status specdec_validate(const specdec_rows* rows, double tolerance, char* error,
                                              size_t error_size);

/// From now on, one verification in `verifications` sums one of its rows; 0: none does. Returns the number that was set before.
/// At first it is 0 if the library was compiled with NDEBUG, else 64. A negative number sets nothing.
///
/// So a row that was cut and not normalised is found now and then, in all that an engine passes. Target rows and draft rows take
/// turns. Each thread counts its verifications, and checks the first one. Logits always sum to 1. The verification then
/// has the status SPECDEC_INVALID_DISTRIBUTION, and the text names row and sum. A sum of 0, and NaN, are errors where they are read.
/// Pre: no other thread verifies.
SPECDEC_C_API int64_t specdec_check_every(int64_t verifications);

/// Creates the memory of greedy block verification for a new text, and sets *memory. The caller destroys it.
///
/// Errors: SPECDEC_OUT_OF_MEMORY.
SPECDEC_C_API specdec_status specdec_greedy_block_create(specdec_greedy_block** memory, char* error,
                                                         size_t error_size);

/// Frees the memory. NULL is allowed.
SPECDEC_C_API void specdec_greedy_block_destroy(specdec_greedy_block* memory);

/// Makes the memory that of a new text.
SPECDEC_C_API void specdec_greedy_block_reset(specdec_greedy_block* memory);

/// The least number of tokens that the next draft of the text may have.
SPECDEC_C_API int64_t specdec_greedy_block_min_draft_length(const specdec_greedy_block* memory);

/// How many bytes specdec_greedy_block_save writes for this memory: 0 for a new text, never more than 16 for each token of its
/// longest draft.
SPECDEC_C_API size_t specdec_greedy_block_saved_size(const specdec_greedy_block* memory);

/// Writes the memory as bytes, to copy it, to keep it or to send it to another machine: the bytes are the same on all of them.
/// `size` is specdec_greedy_block_saved_size(memory). `bytes` may be NULL if that is 0.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer or another size.
SPECDEC_C_API specdec_status specdec_greedy_block_save(const specdec_greedy_block* memory, void* bytes,
                                                       size_t size, char* error, size_t error_size);

/// Makes the memory what it was when the bytes were written.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, or on bytes that specdec_greedy_block_save cannot have written.
/// SPECDEC_OUT_OF_MEMORY. The memory then stays as it was.
SPECDEC_C_API specdec_status specdec_greedy_block_load(specdec_greedy_block* memory, const void* bytes,
                                                       size_t size, char* error, size_t error_size);

/// Judges a line by greedy block verification, and adds the verdict to the memory of the text. The next verification of the
/// text must be of the tokens that follow this verdict's token. q must depend on the text before it alone, and the length of a
/// draft must be fixed before its first token is drawn. For the arguments see specdec_verify.
///
/// Errors: see specdec_verify; and SPECDEC_INVALID_ARGUMENT on a draft that is too short. The memory then stays as it was.
SPECDEC_C_API specdec_status specdec_verify_greedy_block(specdec_greedy_block* memory,
                                                         const specdec_rows* target,
                                                         const specdec_rows* draft, const int32_t* tokens,
                                                         int64_t gamma, specdec_philox* rng,
                                                         specdec_verdict* verdict, char* error,
                                                         size_t error_size);

/// An audit of the texts that an engine writes: whether their tokens are drawn from the target's rows. It may be asked at any time,
/// and convicts a right engine with the stated probability at most. See examples/prove/prove.md, which tells the trap, too: what is
/// added must depend on the text before a token, never on the step that emitted it.
typedef struct specdec_text_audit specdec_text_audit;

/// Creates an audit, and sets *audit. The caller destroys it. `tolerance` is how much the natural logarithm of a probability may be
/// wrong: 1e-6 for the rows that were drawn from, 1e-3 for rows that were computed again. Audits that will be merged need
/// distinct streams.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, or a tolerance that is no finite number >= 0; SPECDEC_OUT_OF_MEMORY.
SPECDEC_C_API specdec_status specdec_text_audit_create(specdec_text_audit** audit, double tolerance,
                                                       uint64_t seed, uint64_t stream, char* error,
                                                       size_t error_size);

/// Frees the audit. NULL is allowed.
SPECDEC_C_API void specdec_text_audit_destroy(specdec_text_audit* audit);

/// Adds tokens, each with the target's row after the text before it.
///
///   target      a row for each token
///   references  NULL; or a row for each token, of the draft model after the same text: more mistakes are found, and sooner
///   tokens      as many ids as there are rows
///
/// Numbers that are no probabilities are counted, and their token is left out. A token outside the vocabulary has probability 0.
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, or where rows do not fit; SPECDEC_INVALID_DISTRIBUTION on a list of an
/// unfit form. The tokens before such a list were added.
/// Cost: a pass over each row. No allocation.
SPECDEC_C_API specdec_status specdec_text_audit_add(specdec_text_audit* audit, const specdec_rows* target,
                                                    const specdec_rows* references, const int32_t* tokens,
                                                    char* error, size_t error_size);

/// Adds a token by two numbers: its probabilities in the target's row and in the reference's. A null audit is left alone.
SPECDEC_C_API void specdec_text_audit_add_numbers(specdec_text_audit* audit, double p, double r);

/// Adds what another audit has seen, which must be other tokens.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, on audits of one seed and one stream, and on unequal tolerances.
SPECDEC_C_API specdec_status specdec_text_audit_merge(specdec_text_audit* audit,
                                                      const specdec_text_audit* other, char* error,
                                                      size_t error_size);

/// log10 of the largest evidence so far: if the texts are right it ever reaches k with probability 10^-k at most. 0 for NULL.
SPECDEC_C_API double specdec_text_audit_evidence(const specdec_text_audit* audit);

/// Writes in words what the texts look like, cut to `size` bytes with the 0 at the end.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer; SPECDEC_OUT_OF_MEMORY. `text` then tells the error.
SPECDEC_C_API specdec_status specdec_text_audit_report(const specdec_text_audit* audit, char* text,
                                                       size_t size);

// Requests: many texts in generation. Which tokens the target is to be fed, what a verdict makes of a text, when a text ends. The engine
// runs its models and judges the drafts, with specdec_verify_batch, specdec_verify_flat or a kernel of its own. Drafts are lines. A
// round:
//
//   the engine drafts some tokens for each of its requests
//   specdec_requests_propose   says what the target is to be fed, and gives the drafts as specdec_verify_batch takes them
//   the target is called, and the drafts are judged
//   specdec_requests_settle    takes the verdicts, and says which texts have ended
//
// Several calls of the target may be under way at a time, for different requests. Between them requests are added, forked, paused
// and cancelled. What a function hands out lives until the next call for the same requests that is not specdec_requests_text. A
// number is never used again. The code is one more line of the C++ file: #include <specdec/more/c/requests.hpp>
// Example: examples/engine/loops/requests.c

/// The texts of an engine that are being written.
typedef struct specdec_requests specdec_requests;

/// A text that was taken out, to go on later.
typedef struct specdec_paused specdec_paused;

/// Creates an object without texts, and sets *requests. The caller destroys it.
///
///   vocab_size     of the target
///   context_size   how many tokens a context of the target can hold; 0: any number
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer or a size that is none; SPECDEC_OUT_OF_MEMORY.
SPECDEC_C_API specdec_status specdec_requests_create(specdec_requests** requests, int64_t vocab_size,
                                                     int64_t context_size, char* error, size_t error_size);

/// Frees the object and its texts. NULL is allowed.
SPECDEC_C_API void specdec_requests_destroy(specdec_requests* requests);

/// How many texts are being written; 0 for NULL.
SPECDEC_C_API int64_t specdec_requests_size(const specdec_requests* requests);

/// Adds a text, and sets *number: the engine calls the text and its context in the target by it.
///
///   prompt, prompt_size      at least one token
///   cached                   how many tokens of the prompt the target's context of this number will hold: a shared prefix, say.
///                            The last token of the prompt is fed in any case
///   max_new_tokens           the text ends with so many new tokens
///   gamma                    the most tokens of a draft, up to 2^20: what a draft has more is left out
///   stop_tokens, their count the text ends with the first of these
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, an id outside the vocabulary, a number out of range; SPECDEC_OUT_OF_MEMORY.
SPECDEC_C_API specdec_status specdec_requests_add(specdec_requests* requests, const int32_t* prompt,
                                                  int64_t prompt_size, int64_t cached, int64_t max_new_tokens,
                                                  int64_t gamma, const int32_t* stop_tokens,
                                                  int64_t stop_token_count, int64_t* number, char* error,
                                                  size_t error_size);

/// Adds a text that begins as request `of` is now, with the same options, and sets *number: for several samples of a prompt.
/// `cached`: how many tokens of the text the engine will have copied for the new number. For independent texts, give each a
/// stream of random numbers of its own.
///
/// Errors: SPECDEC_INVALID_ARGUMENT if there is no request `of`, or on too large a `cached`; SPECDEC_OUT_OF_MEMORY.
SPECDEC_C_API specdec_status specdec_requests_fork(specdec_requests* requests, int64_t of, int64_t cached,
                                                   int64_t* number, char* error, size_t error_size);

/// A text as it is now.
typedef struct specdec_text {
  const int32_t* tokens;  ///< the prompt, then the new tokens
  int64_t size;
  int64_t new_tokens;  ///< how many of them are new
  int64_t kept;        ///< how many of them the target's context holds, or is to be cut to
} specdec_text;

/// Sets *text: what a draft is to follow, and what to show of it.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, or if there is no such request.
SPECDEC_C_API specdec_status specdec_requests_text(const specdec_requests* requests, int64_t number,
                                                   specdec_text* text, char* error, size_t error_size);

/// What the target is fed for one request.
typedef struct specdec_feed {
  int64_t request;
  int64_t from;           ///< cut the request's context to so many tokens
  const int32_t* tokens;  ///< then feed it these: the tokens of the text that are not cached, and the draft
  int64_t size;
  int64_t rows;  ///< rows are wanted after the last `rows` tokens: one more than drafted tokens
} specdec_feed;

/// What a call of the target is to do, request by request, and what was drafted for it. The arrays `tokens` and `offsets` are those
/// of specdec_verify_batch and specdec_verify_flat: the tokens of feed i are tokens[offsets[i]] to tokens[offsets[i + 1] − 1]. A draft
/// is cut to gamma, to the budget and to the context, and never for what its tokens are: a stop token is fed and judged as any other.
typedef struct specdec_proposal {
  int64_t size;  ///< the number of feeds
  const specdec_feed* feeds;
  const int64_t* requests;  ///< the feeds' requests, as specdec_requests_settle takes them
  const int32_t* tokens;
  const int64_t* offsets;  ///< size + 1 numbers
} specdec_proposal;

/// Takes a draft for each of some requests, and says what the target must be fed. Proposals that are out for other requests stay;
/// one that is out for the same request is taken back.
///
///   requests_drafted, count   the requests that take part
///   tokens, offsets           their drafts: the tokens of draft i are tokens[offsets[i]] to tokens[offsets[i + 1] − 1]. Both may be
///                             NULL: nothing is drafted
///
/// A draft that is cut short was drawn from the first of its rows: pass on to the verification only these. A request that ends before
/// a step, for its budget, its context or an error, has no feed: the next call of specdec_requests_settle tells of it, which may take
/// no verdict.
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, if there is no request of a number or a number occurs twice, on an id outside
/// the vocabulary, on offsets that fall; SPECDEC_OUT_OF_MEMORY. Every text is then as before.
SPECDEC_C_API specdec_status specdec_requests_propose(specdec_requests* requests,
                                                      const int64_t* requests_drafted, int64_t count,
                                                      const int32_t* tokens, const int64_t* offsets,
                                                      specdec_proposal* proposal, char* error,
                                                      size_t error_size);

/// Why a text has ended.
typedef int32_t specdec_stop_reason;
enum specdec_stop_reasons {
  SPECDEC_STOP_LENGTH = 0,   ///< max_new_tokens are written
  SPECDEC_STOP_CONTEXT = 1,  ///< the target's context is full: it holds all tokens but the last
  SPECDEC_STOP_TOKEN = 2,    ///< the last token is a stop token
  SPECDEC_STOP_ERROR = 3     ///< there was no memory to go on with it
};

/// A text that has ended. Of its context the target may keep, for other requests, all tokens but the last new one.
typedef struct specdec_finished {
  int64_t request;
  const int32_t* tokens;  ///< the new ones
  int64_t size;
  specdec_stop_reason reason;
  int64_t cached;  ///< how many tokens of the prompt the target was not fed
  int64_t target_calls;
  int64_t drafted;   ///< how many tokens were drafted for it
  int64_t accepted;  ///< and how many of these are in it
} specdec_finished;

/// Takes a verdict on each of some proposals, in any order, whichever call they came from. Each text goes on with the accepted
/// tokens and the verdict's token, up to one that ends it. Sets *finished and *finished_count: the texts that have ended, which are
/// no requests any more. specdec_requests_text tells of the others what is new, and what the target keeps.
///
///   settled, verdicts, count   the requests, and the verdicts on their drafts, as the proposals have them
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, if a request has no proposal that is out or occurs twice, on a verdict that
/// cannot be: more accepted than fed, an id outside the vocabulary, the very token that it rejects; SPECDEC_OUT_OF_MEMORY. Every
/// text is then as before, and the right verdicts can be settled.
SPECDEC_C_API specdec_status specdec_requests_settle(specdec_requests* requests, const int64_t* settled,
                                                     const specdec_verdict* verdicts, int64_t count,
                                                     const specdec_finished** finished,
                                                     int64_t* finished_count, char* error, size_t error_size);

/// Takes a text out, and sets *paused. A proposal that is out for it is taken back. Its context in the target may be given away. The
/// caller passes *paused to specdec_requests_resume or specdec_paused_destroy.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, or if there is no such request; SPECDEC_OUT_OF_MEMORY.
SPECDEC_C_API specdec_status specdec_requests_pause(specdec_requests* requests, int64_t number,
                                                    specdec_paused** paused, char* error, size_t error_size);

/// Goes on with a paused text under its own number, here or in other requests over the same vocabulary, and sets *paused to NULL.
/// `cached`: how many tokens of the text the target's context of this number holds.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, if the number is in use here, if the text is longer than the context or
/// `cached` than the text; SPECDEC_OUT_OF_MEMORY. The text is then still paused.
SPECDEC_C_API specdec_status specdec_requests_resume(specdec_requests* requests, specdec_paused** paused,
                                                     int64_t cached, char* error, size_t error_size);

/// Frees a paused text. NULL is allowed.
SPECDEC_C_API void specdec_paused_destroy(specdec_paused* paused);

/// Removes a text. A proposal that is out for it is taken back.
///
/// Errors: SPECDEC_INVALID_ARGUMENT on a null pointer, or if there is no such request.
SPECDEC_C_API specdec_status specdec_requests_cancel(specdec_requests* requests, int64_t number, char* error,
                                                     size_t error_size);

#ifdef __cplusplus
}
#endif

// NOLINTEND

#endif
