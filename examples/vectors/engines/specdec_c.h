// This library as an engine under check_engine.c, through its C interface: the rules that C has.
// SPDX-License-Identifier: MIT
#include <specdec/more/c/specdec.h>
#include <stdio.h>
#include <string.h>

#define VECTOR_BATCHES  // it has verify_batch()

static specdec_rows rows_of(const float* const* rows, int count, int vocab_size) {
  const specdec_rows made = {.kind = SPECDEC_PROBABILITIES,
                             .scalar = SPECDEC_FLOAT,
                             .rows = count,
                             .vocab_size = vocab_size,
                             .pointers = (const void* const*)rows};
  return made;
}

static specdec_status judge(specdec_rule rule, const struct vector_case* c, specdec_greedy_block* memory,
                            specdec_philox* rng, struct vector_verdict* verdict, char* error, size_t size) {
  int size_of_draft = c->draft_vocab_size;
  for (int k = 0; k < c->gamma; ++k)
    if (c->chosen[k])
      size_of_draft = c->vocab_size;  // the draft model need not have a token that a lookup chose
  const specdec_rows target = rows_of(c->target, c->gamma + 1, c->vocab_size);
  const specdec_rows draft = rows_of(c->draft, c->gamma, size_of_draft);
  specdec_verdict judged;
  specdec_status status;
  if (c->parents != NULL)
    status = specdec_verify_tree(rule, &target, &draft, c->tokens, c->parents, c->gamma, rng, verdict->path,
                                 &judged, error, size);
  else if (memory != NULL)
    status =
        specdec_verify_greedy_block(memory, &target, &draft, c->tokens, c->gamma, rng, &judged, error, size);
  else status = specdec_verify(rule, &target, &draft, c->tokens, c->gamma, rng, &judged, error, size);
  if (status == SPECDEC_OK) {
    verdict->accepted = (int)judged.accepted;
    verdict->token = judged.token;
  }
  return status;
}

static int find_rule(const char* name, specdec_rule* rule) {
  static const struct {
    const char* name;
    specdec_rule rule;
  } rules[] = {{"token", SPECDEC_TOKEN},
               {"block", SPECDEC_BLOCK},
               {"any", SPECDEC_BLOCK},
               {"argmax", SPECDEC_ARGMAX},
               {"match", SPECDEC_SAMPLE_MATCH},
               {"greedy_block", SPECDEC_GREEDY_BLOCK},
               {"recursive_rejection", SPECDEC_RECURSIVE_REJECTION},
               {"traversal", SPECDEC_TRAVERSAL},
               {"k_seq", SPECDEC_K_SEQ}};
  for (size_t n = 0; n < sizeof rules / sizeof *rules; ++n) {
    if (strcmp(rules[n].name, name) != 0) continue;
    *rule = rules[n].rule;
    return 1;
  }
  return 0;
}

static int no_verdict(specdec_status status, const char* error) {
  fprintf(stderr, "%s\n", error);
  return 100 + status;
}

int verify(const struct vector_case* c, uint64_t seed, struct vector_verdict* verdict) {
  specdec_rule rule;
  if (!find_rule(c->rule, &rule)) return VECTOR_NO_RULE;
  char error[256] = "";
  specdec_greedy_block* memory = NULL;
  specdec_status status = SPECDEC_OK;
  if (rule == SPECDEC_GREEDY_BLOCK) status = specdec_greedy_block_create(&memory, error, sizeof error);
  specdec_philox rng = {.seed = seed};
  for (int s = 0; s < c->steps && status == SPECDEC_OK; ++s)
    status = judge(rule, &c[s], memory, &rng, &verdict[s], error, sizeof error);
  specdec_greedy_block_destroy(memory);
  return status == SPECDEC_OK ? VECTOR_OK : no_verdict(status, error);
}

// The requests of a call have lines over one vocabulary.
int verify_batch(int count, const struct vector_case* const* cases, const uint64_t* seeds,
                 struct vector_verdict* const* verdicts) {
  enum { REQUESTS = 16, ROWS = 64 };
  const float *target[ROWS], *draft[ROWS];
  int32_t tokens[ROWS];
  int64_t offsets[REQUESTS + 1] = {0};
  specdec_philox rngs[REQUESTS];
  specdec_verdict judged[REQUESTS];
  specdec_status statuses[REQUESTS];
  char errors[REQUESTS][256] = {{0}};
  specdec_rule rule;
  if (!find_rule(cases[0]->rule, &rule) || count > REQUESTS) return VECTOR_NO_RULE;
  for (int r = 0, n = 0; r < count; ++r) {
    const struct vector_case* c = cases[r];
    if (c->parents != NULL || c->steps > 1 || c->vocab_size != cases[0]->vocab_size ||
        n + r + c->gamma >= ROWS)
      return VECTOR_NO_RULE;
    for (int k = 0; k <= c->gamma; ++k) target[n + r + k] = c->target[k];
    for (int k = 0; k < c->gamma; ++k, ++n) {
      draft[n] = c->draft[k];
      tokens[n] = c->tokens[k];
    }
    offsets[r + 1] = n;
    rngs[r] = (specdec_philox){.seed = seeds[r]};
  }
  const int all = (int)offsets[count];
  const specdec_rows target_rows = rows_of(target, all + count, cases[0]->vocab_size);
  const specdec_rows draft_rows = rows_of(draft, all, cases[0]->vocab_size);
  const specdec_batch batch = {.drafts = count,
                               .offsets = offsets,
                               .tokens = tokens,
                               .rule = rule,
                               .target = &target_rows,
                               .draft = &draft_rows,
                               .rngs = rngs,
                               .verdicts = judged,
                               .statuses = statuses,
                               .errors = errors[0],
                               .error_size = sizeof errors[0]};
  const specdec_status status = specdec_verify_batch(&batch);
  for (int r = 0; r < count; ++r) {
    if (statuses[r] != SPECDEC_OK) return no_verdict(status, errors[r]);
    verdicts[r]->accepted = (int)judged[r].accepted;
    verdicts[r]->token = judged[r].token;
  }
  return VECTOR_OK;
}
