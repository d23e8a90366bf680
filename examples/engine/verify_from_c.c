// One verification from C99. The library itself is compiled by c/implementation.cpp, two lines of C++.
// SPDX-License-Identifier: MIT
#include <specdec/more/c/specdec.h>
#include <stdio.h>

int main(void) {
  // gamma = 3 drafted tokens, a vocabulary of 4. Row i of `draft` is what tokens[i] was drawn from.
  const int32_t tokens[3] = {1, 0, 2};
  const float draft[3][4] = {
      {0.2f, 0.5f, 0.2f, 0.1f},
      {0.3f, 0.2f, 0.4f, 0.1f},
      {0.1f, 0.2f, 0.6f, 0.1f},
  };
  // Row i of `target` is the target's distribution after i drafted tokens, so there is one row more.
  const float target[4][4] = {
      {0.1f, 0.6f, 0.2f, 0.1f},
      {0.5f, 0.1f, 0.3f, 0.1f},
      {0.2f, 0.2f, 0.1f, 0.5f},
      {0.7f, 0.1f, 0.1f, 0.1f},
  };

  // Rows are described, not copied. What is not named is 0: rows that follow each other, numbers side by side.
  const specdec_rows target_rows = {
      .kind = SPECDEC_PROBABILITIES, .scalar = SPECDEC_FLOAT, .rows = 4, .vocab_size = 4, .data = target};
  const specdec_rows draft_rows = {
      .kind = SPECDEC_PROBABILITIES, .scalar = SPECDEC_FLOAT, .rows = 3, .vocab_size = 4, .data = draft};

  specdec_philox rng = {.seed = 42};  // the call adds to rng.offset how many numbers it takes
  specdec_verdict verdict;
  char error[256];
  const specdec_status status = specdec_verify(SPECDEC_BLOCK, &target_rows, &draft_rows, tokens, 3, &rng,
                                               &verdict, error, sizeof error);
  if (status != SPECDEC_OK) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  printf("%d of 3 accepted, then token %d\n", (int)verdict.accepted, (int)verdict.token);
  return 0;
}
