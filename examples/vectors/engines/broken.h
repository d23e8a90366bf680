// A broken engine: it counts the tokens of the vocabulary from 1.
// SPDX-License-Identifier: MIT
int verify(const struct vector_case* c, uint64_t seed, struct vector_verdict* verdict) {
  (void)seed;
  verdict->accepted = 0;
  verdict->token = c->vocab_size;
  return VECTOR_OK;
}
