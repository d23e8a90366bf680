// An engine loop in C99: draw a draft, call the target once, verify, go on. The same loop in other languages: loop.py, loop.rs,
// loop.go. All four write the same text.
// SPDX-License-Identifier: MIT
#include <specdec/more/c/specdec.h>
#include <stdio.h>
#include <string.h>

enum { vocabulary = 4, gamma = 3, wanted = 20 };

// The two models: row x is the distribution after token x.
static const float target_model[vocabulary][vocabulary] = {
    {0.1f, 0.6f, 0.2f, 0.1f}, {0.5f, 0.1f, 0.3f, 0.1f}, {0.2f, 0.2f, 0.1f, 0.5f}, {0.7f, 0.1f, 0.1f, 0.1f}};
static const float draft_model[vocabulary][vocabulary] = {
    {0.2f, 0.5f, 0.2f, 0.1f}, {0.3f, 0.2f, 0.4f, 0.1f}, {0.1f, 0.2f, 0.1f, 0.6f}, {0.4f, 0.2f, 0.2f, 0.2f}};

static specdec_rows rows_of(int64_t rows, const float* data) {
  const specdec_rows described = {
      .scalar = SPECDEC_FLOAT, .rows = rows, .vocab_size = vocabulary, .data = data};
  return described;
}

int main(void) {
  // Drafts and verifications take their random numbers from different streams.
  specdec_philox verifying = {.seed = 42, .stream = 0}, drafting = {.seed = 42, .stream = 1};
  int32_t text[wanted + gamma + 1] = {0};
  int length = 1, calls = 0;
  char error[256];
  while (length <= wanted) {
    int32_t tokens[gamma];
    float q[gamma][vocabulary], p[gamma + 1][vocabulary];
    memcpy(p[0], target_model[text[length - 1]], sizeof p[0]);  // an engine's calls stand here
    for (int i = 0; i < gamma; ++i) {
      memcpy(q[i], draft_model[i == 0 ? text[length - 1] : tokens[i - 1]], sizeof q[i]);
      const specdec_rows row = rows_of(1, q[i]);
      if (specdec_draw(&row, 0, &drafting, &tokens[i], error, sizeof error) != SPECDEC_OK)
        return puts(error), 1;
      memcpy(p[i + 1], target_model[tokens[i]], sizeof p[i + 1]);
    }
    specdec_verdict verdict;
    const specdec_rows target = rows_of(gamma + 1, p[0]), draft = rows_of(gamma, q[0]);
    if (specdec_verify(SPECDEC_BLOCK, &target, &draft, tokens, gamma, &verifying, &verdict, error,
                       sizeof error) != SPECDEC_OK)
      return puts(error), 1;
    for (int i = 0; i < verdict.accepted; ++i) text[length++] = tokens[i];
    text[length++] = verdict.token;  // both caches then keep all tokens but this one
    ++calls;
  }
  for (int i = 1; i <= wanted; ++i) printf("%d ", (int)text[i]);
  printf("in %d target calls\n", calls);
  return 0;
}
