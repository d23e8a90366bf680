// This library as an engine under check_engine.c, through its C interface: the rules that C has.
// SPDX-License-Identifier: MIT
#include <specdec/more/c/specdec.h>
#include <stdio.h>
#include <string.h>

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

int verify(const struct vector_case* c, uint64_t seed, struct vector_verdict* verdict) {
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
  size_t n = 0;
  while (n < sizeof rules / sizeof *rules && strcmp(rules[n].name, c->rule) != 0) ++n;
  if (n == sizeof rules / sizeof *rules) return VECTOR_NO_RULE;

  char error[256] = "";
  specdec_greedy_block* memory = NULL;
  specdec_status status = SPECDEC_OK;
  if (rules[n].rule == SPECDEC_GREEDY_BLOCK)
    status = specdec_greedy_block_create(&memory, error, sizeof error);
  specdec_philox rng = {.seed = seed};
  for (int s = 0; s < c->steps && status == SPECDEC_OK; ++s)
    status = judge(rules[n].rule, &c[s], memory, &rng, &verdict[s], error, sizeof error);
  specdec_greedy_block_destroy(memory);
  if (status == SPECDEC_OK) return VECTOR_OK;
  fprintf(stderr, "%s\n", error);
  return 100 + status;
}
