// An engine with many requests in C99: each round drafts for all of them, calls the target once, judges, and tells the verdicts.
// One request is forked and one is paused. The same engine in other languages: requests.rs, requests.go. All write the same texts.
// SPDX-License-Identifier: MIT
#include <specdec/more/c/specdec.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { vocabulary = 4, gamma = 2, wanted = 8, most = 4 };

// The two models: row x is the distribution after token x.
static const float target_model[vocabulary][vocabulary] = {
    {0.1f, 0.6f, 0.2f, 0.1f}, {0.5f, 0.1f, 0.3f, 0.1f}, {0.2f, 0.2f, 0.1f, 0.5f}, {0.7f, 0.1f, 0.1f, 0.1f}};
static const float draft_model[vocabulary][vocabulary] = {
    {0.2f, 0.5f, 0.2f, 0.1f}, {0.3f, 0.2f, 0.4f, 0.1f}, {0.1f, 0.2f, 0.1f, 0.6f}, {0.4f, 0.2f, 0.2f, 0.2f}};

static char error[256];

static void check(specdec_status status) {
  if (status != SPECDEC_OK) exit((puts(error), 1));
}

// The random numbers of request r have streams of their own: 2r for its verifications, 2r + 1 for its drafts.
static specdec_philox verifying[most], drafting[most];

static int64_t add(specdec_requests* requests, int32_t first) {
  int64_t number;
  check(specdec_requests_add(requests, &first, 1, 0, wanted, gamma, NULL, 0, &number, error, sizeof error));
  return number;
}

// One round for some requests. Says which of them are still there.
static int64_t round_of(specdec_requests* requests, int64_t* live, int64_t count) {
  int32_t drafts[most * gamma];
  int64_t offsets[most + 1] = {0};
  for (int64_t i = 0; i < count; ++i) {
    specdec_text text;
    check(specdec_requests_text(requests, live[i], &text, error, sizeof error));
    int32_t last = text.tokens[text.size - 1];
    for (int64_t k = offsets[i]; k < offsets[i] + gamma; last = drafts[k++])
      check(specdec_draw_flat(SPECDEC_PROBABILITIES, draft_model[last], vocabulary, 0, &drafting[live[i]],
                              &drafts[k], error, sizeof error));
    offsets[i + 1] = offsets[i] + gamma;
  }
  specdec_proposal out;
  check(specdec_requests_propose(requests, live, count, drafts, offsets, &out, error, sizeof error));

  float p[most * (gamma + 1)][vocabulary], q[most * gamma][vocabulary];
  int64_t rows = 0, drafted = 0;
  specdec_rule rules[most];
  specdec_philox numbers[most];
  for (int64_t i = 0; i < out.size; ++i) {
    const specdec_feed* feed = &out.feeds[i];  // an engine cuts its cache to feed->from tokens here
    for (int64_t k = feed->size - feed->rows; k < feed->size; ++k) {
      memcpy(p[rows++], target_model[feed->tokens[k]], sizeof p[0]);
      if (k + 1 < feed->size) memcpy(q[drafted++], draft_model[feed->tokens[k]], sizeof q[0]);
    }
    rules[i] = SPECDEC_BLOCK;
    numbers[i] = verifying[feed->request];
  }
  specdec_verdict verdicts[most];
  specdec_status statuses[most];
  check(specdec_verify_flat(SPECDEC_PROBABILITIES, p[0], q[0], vocabulary, NULL, rules, NULL, out.tokens,
                            NULL, out.offsets, out.size, numbers, NULL, verdicts, statuses, NULL, 0));
  for (int64_t i = 0; i < out.size; ++i) verifying[out.requests[i]] = numbers[i];

  const specdec_finished* finished;
  int64_t ended;
  check(specdec_requests_settle(requests, out.requests, verdicts, out.size, &finished, &ended, error,
                                sizeof error));
  for (int64_t i = 0; i < ended; ++i) {
    printf("request %d:", (int)finished[i].request);
    for (int64_t k = 0; k < finished[i].size; ++k) printf(" %d", (int)finished[i].tokens[k]);
    printf(" in %d target calls\n", (int)finished[i].target_calls);
    int64_t left = 0;
    for (int64_t k = 0; k < count; ++k)
      if (live[k] != finished[i].request) live[left++] = live[k];
    count = left;
  }
  return count;
}

int main(void) {
  for (uint64_t r = 0; r < most; ++r) {
    verifying[r] = (specdec_philox){.seed = 42, .stream = 2 * r};
    drafting[r] = (specdec_philox){.seed = 42, .stream = 2 * r + 1};
  }
  specdec_requests* requests;
  specdec_paused* paused;
  check(specdec_requests_create(&requests, vocabulary, 0, error, sizeof error));
  int64_t live[most] = {add(requests, 0), add(requests, 1), add(requests, 2)}, count = 3;
  count = round_of(requests, live, count);
  check(specdec_requests_pause(requests, live[1], &paused, error, sizeof error));  // two texts go on
  live[1] = live[2];
  check(specdec_requests_fork(requests, live[0], 0, &live[2], error, sizeof error));  // and a third
  while (count > 0) count = round_of(requests, live, count);
  check(specdec_requests_resume(requests, &paused, 0, error, sizeof error));
  live[0] = 1;
  for (count = 1; count > 0;) count = round_of(requests, live, count);
  specdec_requests_destroy(requests);
  return 0;
}
