// Token verification (Leviathan et al. 2022) as an engine may have it: floats, cumulative sums, no library. A number defined as
// MISTAKE makes one of five mistakes.
// SPDX-License-Identifier: MIT
#include <stdlib.h>
#include <string.h>

#define VECTOR_BATCHES  // it has verify_batch()

#define NEXT_ROW 1        // the replacement of token i is drawn from target row i + 1
#define SMOOTHED_RATIO 2  // p/(q + 1e-5), so that nothing is divided by 0
#define ONE_NUMBER 3      // the replacement is drawn by the number that the coin was tossed with
#define HOLE 4            // the coin accepts in [0.51, 0.52), too: a grid of 32 points misses it
#define FIRST_LENGTH \
  5  // in a batch, the bonus token is drawn from the row where the first request's draft ends
#ifndef MISTAKE
#define MISTAKE 0
#endif

// A token with probability weights[x] / sum of the weights, by the number u in [0, 1).
static int draw_by(float u, const float* weights, int size) {
  float sum = 0, below = 0;
  for (int x = 0; x < size; ++x) sum += weights[x];
  int last = 0;  // where rounding leaves u above all sums
  for (int x = 0; x < size; ++x) {
    if (!(weights[x] > 0)) continue;
    last = x;
    below += weights[x];
    if (u * sum < below) break;
  }
  return last;
}

// last_row: of the target, for the token after a draft that is all accepted.
static int judge(const struct vector_case* c, int last_row, struct vector_verdict* verdict) {
  if (strcmp(c->rule, "token") != 0 && strcmp(c->rule, "any") != 0) return VECTOR_NO_RULE;
  for (int i = 0; i < c->gamma; ++i) {
    const float p = c->target[i][c->tokens[i]], q = c->draft[i][c->tokens[i]];
    float u = (float)vector_uniform();
    if (u * (MISTAKE == SMOOTHED_RATIO ? q + 1e-5F : q) < p) continue;
    if (MISTAKE == HOLE && p > 0 && u >= 0.51F && u < 0.52F) continue;
    float* residual = malloc((size_t)c->vocab_size * sizeof *residual);
    if (residual == NULL) return -1;
    const float* row = c->target[MISTAKE == NEXT_ROW ? i + 1 : i];
    for (int x = 0; x < c->vocab_size; ++x)
      residual[x] = row[x] > c->draft[i][x] ? row[x] - c->draft[i][x] : 0;
    if (MISTAKE != ONE_NUMBER) u = (float)vector_uniform();
    verdict->accepted = i;
    verdict->token = draw_by(u, residual, c->vocab_size);
    free(residual);
    return VECTOR_OK;
  }
  verdict->accepted = c->gamma;
  verdict->token = draw_by((float)vector_uniform(), c->target[last_row], c->vocab_size);
  return VECTOR_OK;
}

int verify(const struct vector_case* c, uint64_t seed, struct vector_verdict* verdict) {
  (void)seed;  // vector_uniform() has its own
  return judge(c, c->gamma, verdict);
}

int verify_batch(int count, const struct vector_case* const* cases, const uint64_t* seeds,
                 struct vector_verdict* const* verdicts) {
  (void)seeds;
  int status = VECTOR_OK;
  for (int r = 0; r < count && status == VECTOR_OK; ++r) {
    const int gamma = cases[r]->gamma, first = cases[0]->gamma;
    status = judge(cases[r], MISTAKE == FIRST_LENGTH && first < gamma ? first : gamma, verdicts[r]);
  }
  return status;
}
