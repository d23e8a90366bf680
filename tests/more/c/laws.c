// A program in C99 that calls the rules: the first token that a step emits has the target's law, for each rule, for lines and
// trees; and errors are a status and a text. Laws are tested by chi-square at a false-alarm rate of 1e-6, with fixed seeds.
// SPDX-License-Identifier: MIT
#include <specdec/more/c/specdec.h>
#include <stdio.h>
#include <string.h>

#ifndef TRIALS
#define TRIALS 20000
#endif
enum { vocabulary = 4, gamma = 3, trials = TRIALS };

static const double target[gamma + 1][vocabulary] = {
    {0.1, 0.6, 0.2, 0.1}, {0.5, 0.1, 0.3, 0.1}, {0.2, 0.2, 0.1, 0.5}, {0.7, 0.1, 0.1, 0.1}};
// The first two rows are equal: in the tree the first two tokens are siblings, drawn from one row.
static const double draft[gamma][vocabulary] = {
    {0.4, 0.2, 0.3, 0.1}, {0.4, 0.2, 0.3, 0.1}, {0.1, 0.2, 0.6, 0.1}};
static const int32_t parents[gamma] = {-1, -1, 0};

static int failures = 0;

static void check(int right, const char* what) {
  if (right) return;
  ++failures;
  printf("wrong: %s\n", what);
}

static specdec_rows rows_of(int64_t rows, const void* data) {
  specdec_rows described = {0};
  described.kind = SPECDEC_PROBABILITIES;
  described.scalar = SPECDEC_DOUBLE;
  described.rows = rows;
  described.vocab_size = vocabulary;
  described.data = data;
  return described;
}

// A token drawn from a row, by a generator of this program's own.
static int32_t drawn_from(const double* row) {
  static uint64_t state = 1;
  double u;
  int32_t token = 0;
  state = state * 6364136223846793005u + 1442695040888963407u;
  u = (double)(state >> 11) / 9007199254740992.0;
  while (token + 1 < vocabulary && u >= row[token]) u -= row[token++];
  return token;
}

// The statistic of first tokens against row 0 of the target; it has three degrees of freedom.
static double chi_square(const int* counts) {
  double sum = 0;
  int x;
  for (x = 0; x < vocabulary; ++x) {
    const double expected = trials * target[0][x], off = counts[x] - expected;
    sum += off * off / expected;
  }
  return sum;
}

static void check_law(specdec_rule rule, specdec_greedy_block* memory, const specdec_rows* draft_rows,
                      const char* name) {
  const specdec_rows target_rows = rows_of(gamma + 1, target);
  specdec_philox rng = {1, 0, 0};
  int counts[vocabulary] = {0}, trial, k;
  rng.stream = (uint64_t)rule;
  for (trial = 0; trial < trials; ++trial) {
    int32_t tokens[gamma], path[gamma];
    specdec_verdict verdict = {0, 0};
    specdec_status status;
    char error[200];
    for (k = 0; k < gamma; ++k) tokens[k] = drawn_from(draft[k]);
    if (memory != NULL) {
      specdec_greedy_block_reset(memory);
      status = specdec_verify_greedy_block(memory, &target_rows, draft_rows, tokens, gamma, &rng, &verdict,
                                           error, sizeof error);
      path[0] = 0;
    } else if (rule >= SPECDEC_TRAVERSAL) {
      status = specdec_verify_tree(rule, &target_rows, draft_rows, tokens, parents, gamma, &rng, path,
                                   &verdict, error, sizeof error);
    } else {
      status =
          specdec_verify(rule, &target_rows, draft_rows, tokens, gamma, &rng, &verdict, error, sizeof error);
      path[0] = 0;
    }
    if (status != SPECDEC_OK) {
      check(0, error);
      return;
    }
    ++counts[verdict.accepted > 0 ? tokens[path[0]] : verdict.token];
  }
  check(chi_square(counts) < 30.66, name);
}

// A token drawn by the library has the law of its row, and a row that is no distribution is told.
static void check_draws(void) {
  const specdec_rows target_rows = rows_of(gamma + 1, target);
  const double wrong[1][vocabulary] = {{0.5, 0.2, 0.2, 0.2}};
  const specdec_rows wrong_rows = rows_of(1, wrong);
  specdec_philox rng = {2, 0, 0};
  int counts[vocabulary] = {0}, trial;
  char error[200];
  for (trial = 0; trial < trials; ++trial) {
    int32_t token = 0;
    if (specdec_draw(&target_rows, 0, &rng, &token, error, sizeof error) != SPECDEC_OK) {
      check(0, error);
      return;
    }
    ++counts[token];
  }
  check(chi_square(counts) < 30.66, "a drawn token has the law of its row");
  check(rng.offset == trials, "a draw takes one number");
  check(specdec_validate(&target_rows, 1e-3, error, sizeof error) == SPECDEC_OK, error);
  check(specdec_validate(&wrong_rows, 1e-3, error, sizeof error) == SPECDEC_INVALID_DISTRIBUTION,
        "a row that sums to 1.1 has a status");
  check(specdec_check_every(1) >= 0 && specdec_check_every(0) == 1 && specdec_check_every(-1) == 0,
        "how often rows are summed can be set and read");
}

static void check_audit(void) {
  const specdec_rows target_rows = rows_of(gamma, target), draft_rows = rows_of(gamma, draft);
  specdec_text_audit* audit = NULL;
  specdec_philox rng = {3, 0, 0};
  char text[1000];
  int trial;
  check(specdec_text_audit_create(&audit, 1e-6, 1, 0, text, sizeof text) == SPECDEC_OK, text);
  for (trial = 0; trial < 1000; ++trial) { /* the target writes, then the draft model */
    int32_t tokens[gamma];
    int64_t i;
    for (i = 0; i < gamma; ++i)
      check(specdec_draw(trial < 500 ? &target_rows : &draft_rows, i, &rng, &tokens[i], text, sizeof text) ==
                SPECDEC_OK,
            text);
    check(specdec_text_audit_add(audit, &target_rows, &draft_rows, tokens, text, sizeof text) == SPECDEC_OK,
          text);
    if (trial == 499) check(specdec_text_audit_evidence(audit) < 4, "a right text is not convicted");
  }
  check(specdec_text_audit_evidence(audit) > 4, "the draft model's text is convicted");
  check(specdec_text_audit_report(audit, text, sizeof text) == SPECDEC_OK, text);
  check(strncmp(text, "3000 tokens, ", 13) == 0, text);
  specdec_text_audit_destroy(audit);
}

static void check_errors(void) {
  const specdec_rows target_rows = rows_of(gamma + 1, target), draft_rows = rows_of(gamma, draft);
  const int32_t unknown[gamma] = {0, 4, 0};
  specdec_philox rng = {1, 5, 0};
  specdec_verdict verdict = {-1, -1};
  char error[200], cut[8];
  check(specdec_verify(SPECDEC_BLOCK, &target_rows, &draft_rows, unknown, gamma, &rng, &verdict, error,
                       sizeof error) == SPECDEC_INVALID_ARGUMENT,
        "an unknown token has a status");
  check(strcmp(error, "specdec: tokens[1] = 4 is outside the vocabulary 0..3") == 0, error);
  check(verdict.accepted == -1 && rng.offset == 5, "an error changes nothing");
  check(specdec_verify(99, &target_rows, &draft_rows, unknown, gamma, &rng, &verdict, cut, sizeof cut) ==
            SPECDEC_INVALID_ARGUMENT,
        "an unknown rule has a status");
  check(strcmp(cut, "specdec") == 0, "a text is cut to its buffer");
  check(specdec_verify(SPECDEC_BLOCK, NULL, NULL, NULL, 0, NULL, NULL, NULL, 0) == SPECDEC_INVALID_ARGUMENT,
        "null pointers have a status");
}

// Two trees in one call get the verdicts that they get alone; the second one's parents then make no tree.
static void check_trees_together(void) {
  static double both_targets[2 * (gamma + 1)][vocabulary], both_drafts[2 * gamma][vocabulary];
  specdec_rows target_rows = rows_of(2 * (gamma + 1), both_targets),
               draft_rows = rows_of(2 * gamma, both_drafts);
  const specdec_rows one_target = rows_of(gamma + 1, target), one_draft = rows_of(gamma, draft);
  const int32_t tokens[2 * gamma] = {1, 2, 0, 0, 3, 2};
  int32_t both_parents[2 * gamma], paths[2 * gamma], path[gamma];
  const int64_t offsets[3] = {0, gamma, 2 * gamma};
  specdec_philox rngs[2] = {{7, 0, 0}, {8, 0, 0}};
  specdec_verdict verdicts[2], verdict;
  specdec_status statuses[2];
  char errors[2 * 200];
  specdec_batch batch = {0};
  int i, k;
  batch.drafts = 2;
  batch.offsets = offsets;
  batch.tokens = tokens;
  batch.parents = both_parents;
  batch.rule = SPECDEC_TRAVERSAL;
  batch.target = &target_rows;
  batch.draft = &draft_rows;
  batch.rngs = rngs;
  batch.paths = paths;
  batch.verdicts = verdicts;
  batch.statuses = statuses;
  batch.errors = errors;
  batch.error_size = 200;
  for (i = 0; i < 2; ++i) {
    memcpy(both_targets[i * (gamma + 1)], target, sizeof target);
    memcpy(both_drafts[i * gamma], draft, sizeof draft);
    memcpy(both_parents + i * gamma, parents, sizeof parents);
  }
  check(specdec_verify_batch(&batch) == SPECDEC_OK, errors);
  for (i = 0; i < 2; ++i) {
    specdec_philox rng = {(uint64_t)(7 + i), 0, 0};
    check(specdec_verify_tree(SPECDEC_TRAVERSAL, &one_target, &one_draft, tokens + i * gamma, parents, gamma,
                              &rng, path, &verdict, NULL, 0) == SPECDEC_OK,
          "a tree alone is judged");
    check(verdict.accepted == verdicts[i].accepted && verdict.token == verdicts[i].token &&
              rng.offset == rngs[i].offset,
          "a tree among others gets the verdict that it gets alone");
    for (k = 0; k < verdict.accepted; ++k)
      check(path[k] == paths[offsets[i] + k], "a tree among others gets the path that it gets alone");
  }
  both_parents[gamma + 1] = 1;
  check(specdec_verify_batch(&batch) == SPECDEC_INVALID_ARGUMENT, "parents that make no tree have a status");
  check(statuses[0] == SPECDEC_OK && statuses[1] == SPECDEC_INVALID_ARGUMENT, "the other tree is judged");
  check(strncmp(errors + 200, "specdec: parents[1] = 1 is outside -1..0", 40) == 0, errors + 200);
}

int main(void) {
  const specdec_rows draft_rows = rows_of(gamma, draft);
  specdec_greedy_block* memory = NULL;
  check(specdec_c_version() == SPECDEC_C_VERSION, "version");
  check_law(SPECDEC_BLOCK, NULL, &draft_rows, "block");
  check_law(SPECDEC_TOKEN, NULL, &draft_rows, "token");
  check_law(SPECDEC_SAMPLE_MATCH, NULL, NULL, "sample-match");
  check_law(SPECDEC_TRAVERSAL, NULL, &draft_rows, "traversal");
  check_law(SPECDEC_RECURSIVE_REJECTION, NULL, &draft_rows, "recursive rejection");
  check_law(SPECDEC_K_SEQ, NULL, &draft_rows, "K-SEQ");
  check(specdec_greedy_block_create(&memory, NULL, 0) == SPECDEC_OK, "a memory is created");
  check_law(SPECDEC_GREEDY_BLOCK, memory, &draft_rows, "greedy block");
  specdec_greedy_block_destroy(memory);
  check_draws();
  check_audit();
  check_errors();
  check_trees_together();
  printf("%d failures\n", failures);
  return failures != 0;
}
