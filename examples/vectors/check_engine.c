// Holds the verification of an engine to the exact laws of vectors.json. C99, one file: copy it and vectors.json into your tree.
//
//   cc -std=c99 -O2 -DENGINE='"my_engine.h"' check_engine.c -lm -o check_engine && ./check_engine
//
// my_engine.h defines verify(), which is declared below, and perhaps VECTOR_BATCHES and verify_batch(). An engine in files of its own
// (in C or C++) defines VECTOR_TYPES_ONLY, includes this file for the declarations, and is linked with it. Options: see `usage`. Exit
// status: 0 all cases are acquitted, 1 some case is convicted, 2 the usage, the file or the engine (in some case) is broken.
// SPDX-License-Identifier: MIT
#ifndef VECTOR_TYPES
#define VECTOR_TYPES
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

// What is to be judged. A rule with a memory has cases of two steps, judged one after the other: they are to_judge[0] and
// to_judge[1], both with steps = 2, and their verdicts are verdict[0] and verdict[1].
struct vector_case {
  const char *id, *rule;  // the rule: "token", "block", ...; see "rules" in vectors.json
  int vocab_size;         // V
  int draft_vocab_size;   // how many of the V numbers of a draft row the draft model has; the others are 0
  int gamma;              // the number of drafted tokens
  const float* const*
      target;                 // gamma + 1 rows of V probabilities. In a tree row k + 1 stands after tokens[k]
  const float* const* draft;  // gamma rows of V probabilities; one-hot if the token was chosen, not drawn
  const int* tokens;          // gamma tokens
  const int*
      parents;  // of a tree: tokens[k] follows tokens[parents[k]], or the context if that is -1. Else NULL
  const unsigned char* chosen;  // gamma flags: tokens[k] was chosen, not drawn
  uint64_t seed, position;      // of the rule "keyed"
  int steps;
};
struct vector_verdict {
  int accepted;  // the number of accepted tokens: the first ones of a line, or all of the path in a tree
  int token;     // the token after them
  int*
      path;  // of a tree: room for gamma numbers, the indices of the accepted tokens, from the context outward
};
// What verify() returns. Any other number: the engine is broken in this case.
enum vector_status { VECTOR_OK = 0, VECTOR_NO_RULE = 1 };

// The engine's. Verdicts of different seeds must be independent.
int verify(const struct vector_case* to_judge, uint64_t seed, struct vector_verdict* verdict);
// Also the engine's, if VECTOR_BATCHES is defined (in its header, or for the compiler): judges `count` requests in one call. cases[r],
// seeds[r] and verdicts[r] are what verify() gets for request r.
int verify_batch(int count, const struct vector_case* const* cases, const uint64_t* seeds,
                 struct vector_verdict* const* verdicts);
// Ours: a random number in [0, 1). An engine that takes all its numbers here needs no seed, and can be judged in the mode "exact".
double vector_uniform(void);

#ifdef __cplusplus
}
#endif
#endif
#ifndef VECTOR_TYPES_ONLY
#ifdef ENGINE
#include ENGINE
#endif
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: check_engine [--vectors FILE] [--mode sampled|batched|exact] [--rule NAME] [--case ID]\n"
    "                    [--samples N] [--false-alarms A] [--seed S]\n"
    "  sampled  draws verdicts, and bets on them against the law: an e-process for each case (the default)\n"
    "  batched  the same with several cases in one call of verify_batch(): --case is then a batch\n"
    "  exact    finds the thresholds of each number of vector_uniform(), and compares the whole law, to "
    "1e-6;\n"
    "           then judges by samples, too\n";

static const char *vectors = "vectors.json", *mode = "sampled", *only_rule = NULL, *only_case = NULL;
static double false_alarms = 1e-4;
static int samples = 10000;
static uint64_t seed_of_run = 1;

// Ends the program: the file, the usage or the engine is broken.
static void broken(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fflush(stdout);
  _Exit(2);  // without a look for leaks: a sanitizer would change the status
}

static void* grown(void* memory, int count, size_t size) {
  memory = realloc(memory, (size_t)count * size + 1);
  if (memory == NULL) broken("out of memory\n");
  return memory;
}

// ---- The file. Members of a case may be left out, but have the order of vectors.json.

static struct {
  char* at;
  int line;
} file;

static void expected(const char* what) { broken("%s:%d: expected %s\n", vectors, file.line, what); }

static char peek(void) {
  for (; *file.at == ' ' || *file.at == '\n' || *file.at == '\r' || *file.at == '\t'; ++file.at)
    file.line += *file.at == '\n';
  return *file.at;
}

static void take(char c) {
  const char what[] = {'\'', c, '\'', 0};
  if (peek() != c) expected(what);
  ++file.at;
}

// for (int k = 0; more(&k, '[', ']');) reads entry number k, counted from 1.
static int more(int* k, char open, char close) {
  if (*k == 0) take(open);
  if (peek() != close) {
    if ((*k)++ > 0) take(',');
    return 1;
  }
  ++file.at;
  return 0;
}

static char* read_string(void) {
  take('"');
  char *begin = file.at, *to = begin;
  for (; *file.at != '"'; *to++ = *file.at++) {
    if ((unsigned char)*file.at < ' ') expected("the end of a text");
    if (*file.at == '\\' && file.at[1] != 'u') ++file.at;  // \u stays as it is: it is only shown
  }
  ++file.at;
  *to = 0;
  return begin;
}

static char* read_name(void) {
  char* name = read_string();
  take(':');
  return name;
}

static double read_number(void) {
  char* end = file.at;
  const double x = strchr("-0123456789", peek()) == NULL ? 0 : strtod(file.at, &end);
  if (end == file.at || *file.at == 0) expected("a number");
  file.at = end;
  return x;
}

static int read_integer(int low, int high, const char* what) {
  const double x = read_number();
  if (x != floor(x) || x < low || x > high) expected(what);
  return (int)x;
}

static int take_null(void) {
  const int is_null = peek() == 'n' && strncmp(file.at, "null", 4) == 0;
  file.at += is_null ? 4 : 0;
  return is_null;
}

static void skip_value(void) {
  const char c = peek();
  if (c == '"') read_string();
  else if (c == '{' || c == '[')
    for (int k = 0; more(&k, c, c == '{' ? '}' : ']'); skip_value()) c == '{' ? read_name() : NULL;
  else if (!take_null()) read_number();
}

static int* read_integers(int* count, int low, int high, const char* what) {
  int* list = grown(NULL, 1, sizeof *list);  // no null pointer, even if it is empty
  *count = 0;
  for (int k = 0; more(&k, '[', ']'); *count = k) {
    if ((k & (k - 1)) == 0) list = grown(list, 2 * k, sizeof *list);
    list[k - 1] = read_integer(low, high, what);
  }
  return list;
}

// A row of `size` weights, as `room` probabilities; NULL if the token was chosen.
static float* read_row(int size, int room) {
  int *ids = NULL, *weights = NULL, id_count = 0, count = -1, power = 0;
  if (take_null()) return NULL;
  if (peek() == '[') weights = read_integers(&count, 0, 1 << 20, "a weight from 0 to 2^20");
  else
    for (int k = 0; more(&k, '{', '}');) {
      if (strcmp(read_name(), "ids") == 0)
        ids = read_integers(&id_count, 0, size - 1, "an id of the vocabulary");
      else weights = read_integers(&count, 0, 1 << 20, "a weight from 0 to 2^20");
    }
  if (count != (ids == NULL ? size : id_count)) expected("a row with a weight for each token");
  double sum = 0;
  for (int k = 0; k < count; ++k) sum += weights[k];
  if (sum > 1 << 20 || (sum > 0 && frexp(sum, &power) != 0.5))
    expected("a row whose sum is a power of two <= 2^20");
  float* row = grown(NULL, room, sizeof *row);
  for (int x = 0; x < room; ++x) row[x] = 0;
  for (int k = 0; sum > 0 && k < count; ++k) row[ids == NULL ? k : ids[k]] = (float)(weights[k] / sum);
  free(ids);
  free(weights);
  return row;
}

static float** read_rows(int* count, int size, int room) {
  float** rows = NULL;
  *count = 0;
  for (int k = 0; more(&k, '[', ']'); *count = k) {
    rows = grown(rows, k, sizeof *rows);
    rows[k - 1] = read_row(size, room);
  }
  return rows;
}

// ---- Laws. An outcome is a list of numbers: accepted, token. In a tree: the length of the path, the path, token. Of two steps: 2,
// accepted, token, twice. Of the rule "any": a text.

struct outcome {
  int size, *values;
  double probability;
};
struct law {
  int count;
  struct outcome* list;
};

static void push(struct outcome* o, int x) {
  o->values = grown(o->values, o->size + 1, sizeof *o->values);
  o->values[o->size++] = x;
}

static void read_outcome(struct outcome* o, int depth) {
  for (int k = 0; more(&k, '[', ']');) {
    const int place = o->size;
    if (peek() != '[' || depth > 0) {
      push(o, read_integer(0, INT_MAX, "a number of an outcome"));
      continue;
    }
    push(o, 0);
    read_outcome(o, 1);
    o->values[place] = o->size - place - 1;
  }
}

// 0.d1 d2 d3 ... of a number that may be too long for a double.
static double leading_digits(const char* digits, size_t count) {
  char text[48] = "0.";
  strncat(text, digits, count < 40 ? count : 40);
  return strtod(text, NULL);
}

static double read_probability(void) {
  if (peek() != '"') return read_number();
  const char *text = read_string(), *digits = "0123456789";
  const size_t above = strspn(text, digits),
               below = text[above] == '/' ? strspn(text + above + 1, digits) : 0;
  if (above == 0 || below == 0 || text[above + 1 + below] != 0) expected("a probability such as \"3/16\"");
  return leading_digits(text, above) / leading_digits(text + above + 1, below) *
         pow(10, (double)above - (double)below);
}

static int by_values(const void* a, const void* b) {
  const struct outcome *x = a, *y = b;
  return x->size != y->size ? x->size - y->size : memcmp(x->values, y->values, (size_t)x->size * sizeof(int));
}

static struct law read_law(void) {
  struct law law = {0, NULL};
  double sum = 0;
  for (int k = 0; more(&k, '[', ']'); law.count = k) {
    struct outcome o = {0, NULL, 0};
    take('[');
    read_outcome(&o, 0);
    take(',');
    sum += o.probability = read_probability();
    take(']');
    if ((k & (k - 1)) == 0) law.list = grown(law.list, 2 * k, sizeof o);
    law.list[k - 1] = o;
  }
  if (fabs(sum - 1) > 1e-6) expected("a law that sums to 1");
  qsort(law.list, (size_t)law.count, sizeof *law.list, by_values);
  return law;
}

// The number of an outcome in a law; -1 if it has probability 0.
static int number_of(const struct law* law, const struct outcome* o) {
  const struct outcome* found = bsearch(o, law->list, (size_t)law->count, sizeof *o, by_values);
  return found == NULL ? -1 : (int)(found - law->list);
}

// ---- Cases.

enum { VIEWS = 3, PRIORS = 3 };
struct trial {
  struct vector_case given[2];  // one for each step
  struct vector_verdict verdicts[2];
  const char *shows, *batch;  // the batch that it is in, or NULL
  int any, samples, convicted;
  int not_had, broken;  // the engine's latest answer was none
  struct law law;
  struct outcome latest;
  int *class_of[VIEWS], *counts[VIEWS];  // of each outcome: what is bet on
  double *mass[VIEWS], log_wealth[VIEWS][PRIORS];
};
static struct trial* trials;
static struct batch {
  const char* id;
  int count;
  struct trial* members;
}* batches;
static struct {
  const char *is, *id;
  struct law law;
}* mistakes;
static int trial_count, batch_count, member_count, mistake_count;
static int bet_count;  // on how many cases it is bet: they share the false alarms

static int read_member(struct vector_case* c, const char* name, int counts[4]) {
  if (c->vocab_size == 0) expected("\"vocab_size\" before the rows");
  if (strcmp(name, "target") == 0)
    c->target = (const float* const*)read_rows(&counts[0], c->vocab_size, c->vocab_size);
  else if (strcmp(name, "draft") == 0)
    c->draft = (const float* const*)read_rows(&counts[1], c->draft_vocab_size, c->vocab_size);
  else if (strcmp(name, "tokens") == 0)
    c->tokens = read_integers(&counts[2], 0, c->vocab_size - 1, "a token of the vocabulary");
  else if (strcmp(name, "parents") == 0) c->parents = read_integers(&counts[3], -1, INT_MAX, "a parent");
  else return 0;
  return 1;
}

// Checks what was read of a step, and gives each chosen token its one-hot row.
static void complete(struct vector_case* c, const int counts[4], int any) {
  const int gamma = c->gamma = counts[0] - 1;
  if (gamma < 0 || counts[1] != gamma || (!any && counts[2] != gamma) ||
      (c->parents != NULL && counts[3] != gamma))
    expected("gamma + 1 target rows, and gamma draft rows, tokens and parents");
  float** draft = (float**)c->draft;
  unsigned char* chosen = grown(NULL, gamma, 1);
  for (int k = 0; k < gamma; ++k) {
    if (c->parents != NULL && c->parents[k] >= k) expected("parents that come before their children");
    chosen[k] = draft[k] == NULL;
    if (!chosen[k]) continue;
    draft[k] = grown(NULL, c->vocab_size, sizeof(float));
    for (int x = 0; x < c->vocab_size; ++x) draft[k][x] = x == c->tokens[k];
  }
  c->chosen = chosen;
}

static void read_steps(struct trial* t) {
  const struct vector_case common = t->given[0];
  for (int k = 0; more(&k, '[', ']');) {
    if (k > 2) expected("two steps");
    int counts[4] = {0};
    t->given[k - 1] = common;
    for (int m = 0; more(&m, '{', '}');)
      if (!read_member(&t->given[k - 1], read_name(), counts)) skip_value();
    complete(&t->given[k - 1], counts, 0);
    t->given[0].steps = k;
  }
  t->given[1].steps = t->given[0].steps;
}

static int value_in_view(const struct trial* t, int view, int k) {
  const struct outcome* o = &t->law.list[k];
  return view == 0 ? k : view == 1 ? o->values[t->given->steps > 1] : o->values[o->size - 1];
}

// Room for what changes while a case is judged. Bets are on an outcome as a whole, on its first number (accepted), and on its last (the
// token).
static void prepare(struct trial* t) {
  struct vector_case* c = t->given;
  if (t->any) c->tokens = grown(NULL, c->gamma, sizeof(int));
  for (int s = 0; s < c->steps; ++s) t->verdicts[s].path = grown(NULL, c[s].gamma, sizeof(int));
  t->latest.values = grown(NULL, c[0].gamma + c[1].gamma + 8, sizeof(int));
  for (int v = 0; v < VIEWS; ++v) {
    t->class_of[v] = grown(NULL, t->law.count, sizeof(int));
    t->counts[v] = grown(NULL, t->law.count, sizeof(int));
    t->mass[v] = grown(NULL, t->law.count, sizeof(double));
    for (int k = 0, c; k < t->law.count; ++k) {
      t->counts[v][k] = 0;
      t->mass[v][k] = 0;
      for (c = v == 0 ? k : 0; value_in_view(t, v, c) != value_in_view(t, v, k);) ++c;
      t->class_of[v][k] = c;  // the first outcome of the class
      t->mass[v][c] += t->law.list[k].probability;
    }
  }
}

static void check_law(const struct trial* t) {
  const struct vector_case* c = t->given;
  for (int k = 0; k < t->law.count; ++k) {
    const struct outcome* o = &t->law.list[k];
    if (t->any ? o->size != c->gamma + 1 : o->size < 2) expected("outcomes as the rule has them");
    for (int i = 0; t->any && i < o->size; ++i)
      if (o->values[i] >= c->vocab_size) expected("outcomes with tokens of the vocabulary");
  }
}

static uint64_t read_seed(void) {
  peek();
  const uint64_t seed = strtoull(file.at, NULL, 10);
  read_number();
  return seed;
}

static void read_case(void) {
  struct trial t = {.given[0].steps = 1, .given[0].rule = ""};
  struct vector_case* c = t.given;
  int counts[4] = {0};
  for (int k = 0; more(&k, '{', '}');) {
    const char* name = read_name();
    if (strcmp(name, "id") == 0) c->id = read_string();
    else if (strcmp(name, "rule") == 0) c->rule = read_string();
    else if (strcmp(name, "shows") == 0) t.shows = read_string();
    else if (strcmp(c->rule, "text") == 0) skip_value();  // for engines that write: see check_engine.py
    else if (strcmp(name, "vocab_size") == 0)
      c->vocab_size = c->draft_vocab_size = read_integer(1, 1 << 20, "a size of a vocabulary");
    else if (strcmp(name, "draft_vocab_size") == 0)
      c->draft_vocab_size = read_integer(1, c->vocab_size, "a size up to vocab_size");
    else if (strcmp(name, "seed") == 0) c->seed = read_seed();
    else if (strcmp(name, "position") == 0) c->position = read_seed();
    else if (strcmp(name, "steps") == 0) read_steps(&t);
    else if (strcmp(name, "law") == 0) t.law = read_law();
    else if (!read_member(c, name, counts)) skip_value();
  }
  if (strcmp(c->rule, "text") == 0) return;
  t.any = strcmp(c->rule, "any") == 0;
  if (c->steps == 1) complete(c, counts, t.any);
  if (c->id == NULL || t.shows == NULL || t.law.count == 0) expected("a case with id, shows and law");
  check_law(&t);
  prepare(&t);
  trials = grown(trials, trial_count + 1, sizeof t);
  trials[trial_count++] = t;
}

static void read_batch(void) {
  struct batch b = {0};
  for (int k = 0; more(&k, '{', '}');) {
    const char* name = read_name();
    if (strcmp(name, "id") == 0) b.id = read_string();
    else if (strcmp(name, "cases") != 0) skip_value();
    else
      for (int n = 0, m; more(&n, '[', ']'); prepare(&b.members[b.count++])) {
        const char* id = read_string();
        for (m = 0; m < trial_count && strcmp(trials[m].given->id, id) != 0;) ++m;
        if (m == trial_count) expected("a case that stands before the batches");
        b.members = grown(b.members, n, sizeof *b.members);
        b.members[b.count] = trials[m];
      }
  }
  if (b.id == NULL || b.count == 0) expected("a batch with id and cases");
  for (int n = 0; n < b.count; ++n) b.members[n].batch = b.id;
  member_count += b.count;
  batches = grown(batches, batch_count + 1, sizeof b);
  batches[batch_count++] = b;
}

static void read_mistake(void) {
  const char* is = "";
  for (int k = 0; more(&k, '{', '}');) {
    const char* name = read_name();
    if (strcmp(name, "is") == 0) is = read_string();
    else if (strcmp(name, "laws") != 0) skip_value();
    else
      for (int m = 0; more(&m, '{', '}'); ++mistake_count) {
        mistakes = grown(mistakes, mistake_count + 1, sizeof *mistakes);
        mistakes[mistake_count].id = read_name();
        mistakes[mistake_count].law = read_law();
        mistakes[mistake_count].is = is;
      }
  }
}

static void read_file(void) {
  FILE* in = fopen(vectors, "rb");
  if (in == NULL) broken("%s: cannot be opened\n", vectors);
  char* text = NULL;
  size_t size = 0, got = 1;
  for (; got > 0; size += got) {
    text = grown(text, (int)size + (1 << 20) + 1, 1);
    got = fread(text + size, 1, 1 << 20, in);
  }
  fclose(in);
  text[size] = 0;
  file.at = text;
  file.line = 1;
  int is_ours = 0;
  for (int k = 0; more(&k, '{', '}');) {
    const char* name = read_name();
    if (strcmp(name, "format") == 0) is_ours = strcmp(read_string(), "specdec-vectors") == 0;
    else if (strcmp(name, "version") == 0) read_integer(1, 1, "version 1");
    else if (!is_ours) expected("\"format\": \"specdec-vectors\" first");
    else if (strcmp(name, "cases") == 0)
      for (int n = 0; more(&n, '[', ']');) read_case();
    else if (strcmp(name, "batches") == 0)
      for (int n = 0; more(&n, '[', ']');) read_batch();
    else if (strcmp(name, "mistakes") == 0)
      for (int n = 0; more(&n, '[', ']');) read_mistake();
    else skip_value();
  }
  if (peek() != 0) expected("the end of the file");
}

// ---- Random numbers. In the mode "exact" they are given.

enum { DEPTH = 64, MOST_TAKEN = 100000000 };
static uint64_t state;  // of SplitMix64
static struct {
  int on, taken;  // how many the engine took in this call
  const char* id;
  double numbers[DEPTH];
} fixed;
static const double largest = 1 - 1.0 / (1 << 24);  // so that it is below 1 as a float, too

static uint64_t random_bits(void) {
  uint64_t x = state += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

double vector_uniform(void) {
  const int k = fixed.taken++;
  if (k == MOST_TAKEN)
    broken("the engine is broken: case %s: it took %d numbers, and has no verdict\n", fixed.id, k);
  if (fixed.on && k < DEPTH) return fixed.numbers[k];
  return fmin(ldexp((double)(random_bits() >> 11), -53), largest);
}

static int draw(const float* row, int size) {
  double u = vector_uniform();
  int x = 0;
  while (x + 1 < size && (u -= (double)row[x]) >= 0) ++x;  // rows sum to exactly 1
  return x;
}

// ---- The engine's verdicts.

// Ends a case in which the engine is broken.
static void break_off(struct trial* t, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fflush(stdout);
  fprintf(stderr, "the engine is broken: case %s: ", t->given->id);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  t->broken = 1;
}

static int is_over(const struct trial* t) { return t->not_had || t->broken; }

static void take_verdict(struct trial* t) {
  int *to = t->latest.values, size = 0;
  for (int s = 0; s < t->given->steps; ++s) {
    const struct vector_case* c = &t->given[s];
    const struct vector_verdict* v = &t->verdicts[s];
    if (v->accepted < 0 || v->accepted > c->gamma) {
      break_off(t, "%d tokens accepted of %d\n", v->accepted, c->gamma);
      return;
    }
    if (v->token < 0 || v->token >= c->vocab_size) {
      break_off(t, "token %d of a vocabulary of %d\n", v->token, c->vocab_size);
      return;
    }
    if (c->steps > 1) to[size++] = 2;
    if (!t->any) to[size++] = v->accepted;
    for (int i = 0; t->any && i < v->accepted; ++i) to[size++] = c->tokens[i];
    for (int i = 0, last = -1; c->parents != NULL && i < v->accepted; ++i) {
      const int k = v->path[i];
      if (k < 0 || k >= c->gamma || c->parents[k] != last) {
        break_off(t, "path[%d] = %d does not follow %d\n", i, k, last);
        return;
      }
      to[size++] = last = k;
    }
    to[size++] = v->token;
  }
  t->latest.size = size;
}

// What the engine leaves out is no outcome.
static void clear_verdicts(struct trial* t) {
  for (int s = 0; s < t->given->steps; ++s) {
    t->verdicts[s].accepted = t->verdicts[s].token = -1;
    for (int i = 0; i < t->given[s].gamma; ++i) t->verdicts[s].path[i] = -1;
  }
  fixed.taken = 0;
  fixed.id = t->batch == NULL ? t->given->id : t->batch;
}

static void take_answer(struct trial* t, const char* function, int status) {
  t->not_had = status == VECTOR_NO_RULE;
  if (status == VECTOR_OK) take_verdict(t);
  else if (!t->not_had) break_off(t, "%s returned %d\n", function, status);
}

static void call_engine(struct trial* t) {
  clear_verdicts(t);
  take_answer(t, "verify", verify(t->given, fixed.on ? 0 : random_bits(), t->verdicts));
}

// Tokens of the rule "any" are drawn from the draft rows. Its outcome is the text: the target fills up what was not emitted.
static void draw_draft(struct trial* t) {
  const struct vector_case* c = t->given;
  for (int i = 0; t->any && i < c->gamma; ++i) ((int*)c->tokens)[i] = draw(c->draft[i], c->vocab_size);
}

static void fill_up(struct trial* t) {
  const struct vector_case* c = t->given;
  for (struct outcome* o = &t->latest; t->any && !is_over(t) && o->size <= c->gamma; ++o->size)
    o->values[o->size] = draw(c->target[o->size], c->vocab_size);
}

static void sample(struct trial* t) {
  draw_draft(t);
  call_engine(t);
  fill_up(t);
}

static void describe(const struct trial* t, const struct outcome* o) {
  for (int i = 0; t->any && i < o->size; ++i) printf(i == 0 ? "the text %d" : " %d", o->values[i]);
  for (int i = 0; !t->any && i < o->size; ++i) {
    if (t->given->steps > 1) printf(++i > 1 ? ", then " : "");
    const int accepted = o->values[i];
    printf("%d accepted", accepted);
    for (int k = 0; t->given->parents != NULL && k < accepted; ++k)
      printf(k == 0 ? ": %d" : ", %d", o->values[++i]);
    printf(", then token %d", o->values[++i]);
  }
}

static void convict(struct trial* t, const struct outcome* o) {
  printf(t->batch == NULL ? "CONVICTED " : "CONVICTED %s, ", t->batch);
  printf("%s (%s)\n  ", t->given->id, t->shows);
  describe(t, o);
  t->convicted = 1;
}

// ---- Mode "sampled". If the law is right, the wealth of a bet ever reaches 1/a with probability a at most (Ville), and so does the
// mean of several. The bet: the next outcome is of class c with probability (n_c + A mass_c)/(n + A), where n_c of n were of it.

static void bet(struct trial* t, int k) {
  static const double prior[PRIORS] = {4, 32, 256};
  for (int v = 0; v < VIEWS; ++v) {
    const int c = t->class_of[v][k];
    const double seen = t->counts[v][c]++ / t->mass[v][c];
    for (int a = 0; a < PRIORS; ++a) t->log_wealth[v][a] += log((seen + prior[a]) / (t->samples + prior[a]));
  }
  ++t->samples;
}

static double mean_wealth(const struct trial* t) {
  double sum = 0;
  for (int v = 0; v < VIEWS; ++v)
    for (int a = 0; a < PRIORS; ++a) sum += exp(t->log_wealth[v][a]);
  return sum / (VIEWS * PRIORS);
}

static void judge_latest(struct trial* t) {
  const int k = number_of(&t->law, &t->latest);
  if (k < 0) {
    convict(t, &t->latest);
    printf(" has probability 0, and came in sample %d\n", t->samples + 1);
    return;
  }
  bet(t, k);
  if (mean_wealth(t) < bet_count / false_alarms) return;
  int worst = 0;
  double most = -1;
  for (int j = 0; j < t->law.count; ++j) {
    const double wanted = t->samples * t->law.list[j].probability,
                 z = fabs(t->counts[0][j] - wanted) / sqrt(wanted);
    if (z > most) worst = j, most = z;
  }
  convict(t, &t->law.list[worst]);
  printf(" came %d times in %d samples, expected %.1f\n", t->counts[0][worst], t->samples,
         t->samples * t->law.list[worst].probability);
}

static void judge_by_samples(struct trial* t) {
  while (t->samples < samples && !t->convicted) {
    sample(t);
    if (is_over(t)) return;
    judge_latest(t);
  }
}

// ---- Mode "batched". Each case of a batch is held to its own law. One that is convicted stays in the batch, as a neighbour.

#ifndef VECTOR_BATCHES
static const int has_batches = 0;
int verify_batch(int count, const struct vector_case* const* cases, const uint64_t* seeds,
                 struct vector_verdict* const* verdicts) {
  (void)count, (void)cases, (void)seeds, (void)verdicts;
  return VECTOR_NO_RULE;
}
#else
static const int has_batches = 1;
#endif

static int judge_batch_once(const struct batch* b, const struct vector_case** cases, uint64_t* seeds,
                            struct vector_verdict** verdicts) {
  for (int r = 0; r < b->count; ++r) {
    struct trial* t = &b->members[r];
    draw_draft(t);
    clear_verdicts(t);
    cases[r] = t->given;
    seeds[r] = random_bits();
    verdicts[r] = t->verdicts;
  }
  const int status = verify_batch(b->count, cases, seeds, verdicts);
  int over = 0, left = 0;
  for (int r = 0; r < b->count; ++r) {
    struct trial* t = &b->members[r];
    take_answer(t, "verify_batch", status);
    fill_up(t);
    over += is_over(t);
  }
  for (int r = 0; r < b->count && over == 0; ++r) {
    struct trial* t = &b->members[r];
    if (!t->convicted) judge_latest(t);
    left += !t->convicted && t->samples < samples;
  }
  return left > 0;
}

static void judge_batch(const struct batch* b) {
  const struct vector_case** cases = grown(NULL, b->count, sizeof *cases);
  struct vector_verdict** verdicts = grown(NULL, b->count, sizeof *verdicts);
  uint64_t* seeds = grown(NULL, b->count, sizeof *seeds);
  while (judge_batch_once(b, cases, seeds, verdicts)) continue;
  free(cases);
  free(verdicts);
  free(seeds);
}

// Which known mistakes give the engine's law, as far as 4000 new verdicts tell: by X^2, rare outcomes together.
static void name_mistakes(struct trial* t) {
  const int N = 4000;
  for (int m = 0; m < mistake_count; ++m) {
    if (strcmp(mistakes[m].id, t->given->id) != 0) continue;
    const struct law* law = &mistakes[m].law;
    int* seen = grown(NULL, law->count + 1, sizeof *seen);
    for (int k = 0; k <= law->count; ++k) seen[k] = 0;
    for (int n = 0, k; n < N; ++n) {
      sample(t);
      if (is_over(t)) {
        free(seen);
        return;
      }
      k = number_of(law, &t->latest);
      ++seen[k < 0 ? law->count : k];
    }
    double x2 = 0, rest = 0.5, rest_seen = seen[law->count], classes = 1;
    for (int k = 0; k < law->count; ++k) {
      const double wanted = N * law->list[k].probability;
      if (wanted < 5) rest += wanted, rest_seen += seen[k];
      else x2 += (seen[k] - wanted) * (seen[k] - wanted) / wanted, ++classes;
    }
    x2 += (rest_seen - rest) * (rest_seen - rest) / rest;
    if (x2 < classes + 5 * sqrt(2 * classes) + 10)
      printf("  the law of a known mistake: %s\n", mistakes[m].is);
    free(seen);
  }
}

// ---- Mode "exact". The engine is a function of the numbers that it takes. The thresholds of each number, given the numbers before it,
// are found by bisection, depth first; of each outcome there is one interval, or as many as a grid of 32 points shows. Random numbers,
// `samples` of them in all, look for intervals between its points; if they find one, a grid of 1024 points is tried.

static struct {
  double low[DEPTH], high[DEPTH], *found;
  double impossible[DEPTH];  // numbers that give an outcome of probability 0
  int impossible_taken;      // how many they are; -1: none were found
  double impossible_mass;    // with what probability such numbers come; 0: at single points, 0 above all
  int by_samples;            // how many cases were judged so alone
  int grid, has_missed;      // the grid missed an interval, or a threshold is none
  int most_taken;            // 0: the engine took no number in any call
  long runs;
  const char* trouble;
} exact;

static int is_possible(const struct trial* t) {
  if (!t->any) return number_of(&t->law, &t->latest) >= 0;
  for (int i = 0; i < t->latest.size; ++i)
    if (!(t->given->target[i][t->latest.values[i]] > 0)) return 0;
  return 1;
}

static void keep_impossible(void) {
  memcpy(exact.impossible, fixed.numbers, sizeof exact.impossible);
  exact.impossible_taken = fixed.taken;
}

static void run_fixed(struct trial* t) {
  if (exact.trouble != NULL) return;
  fixed.on = 1;
  call_engine(t);
  fixed.on = 0;
  if (fixed.taken > exact.most_taken) exact.most_taken = fixed.taken;
  if (is_over(t)) exact.trouble = "the engine has no verdict";
  else if (fixed.taken > DEPTH) exact.trouble = "the engine takes more than 64 numbers";
  else if (++exact.runs > 300000) exact.trouble = "there are too many thresholds";
  else if (exact.impossible_taken < 0 && !is_possible(t)) keep_impossible();
}

static void convict_of_impossible(struct trial* t) {
  memcpy(fixed.numbers, exact.impossible, sizeof exact.impossible);
  exact.trouble = NULL;
  run_fixed(t);
  if (is_over(t)) return;
  convict(t, &t->latest);
  printf(" has probability 0, and comes with the numbers");
  for (int k = 0; k < exact.impossible_taken; ++k) printf(" %.8g", exact.impossible[k]);
  if (exact.impossible_mass > 0) printf(": probability %.3g in all\n", exact.impossible_mass);
  else printf(", at this point or in a short interval (a float is 0 once in 2^24 draws)\n");
}

// What becomes of the first numbers: a hash of the outcomes of a few ways to go on.
static uint64_t fate(struct trial* t, int depth, double x) {
  uint64_t hash = 0;
  fixed.numbers[depth] = x;
  for (int way = 0; way < 6; ++way) {
    for (int k = depth + 1; k < DEPTH; ++k)
      fixed.numbers[k] = way == 0 ? 0 : way == 1 ? largest : fmod(0.618034 * way + 0.754878 * k, 1);
    run_fixed(t);
    hash = (hash ^ (uint64_t)fixed.taken) * 0x9E3779B97F4A7C15u;
    for (int i = 0; i < t->latest.size; ++i)
      hash = (hash ^ (hash >> 29) ^ (uint64_t)t->latest.values[i]) * 0xBF58476D1CE4E5B9u;
  }
  return hash;
}

// All numbers are known to lie in a box. The outcome must be one and the same in all of it.
static void add_box(struct trial* t, int depth, double weight) {
  const struct outcome o = t->latest;
  if (!is_possible(t)) {
    if (exact.impossible_mass == 0) keep_impossible();
    exact.impossible_mass += weight;
  }
  for (int k = 0; k < t->law.count; ++k) {
    const struct outcome* in = &t->law.list[k];
    double p = t->any || in->size == o.size ? weight : 0;
    for (int i = 0; i < in->size && p > 0; ++i)
      p *= i < o.size ? in->values[i] == o.values[i] : (double)t->given->target[i][in->values[i]];
    exact.found[k] += p;
  }
  int first[DEPTH + 8];
  memcpy(first, o.values, (size_t)(o.size < DEPTH ? o.size : DEPTH) * sizeof *first);
  const long runs = exact.runs;  // these are not counted
  for (int n = 0; n < 8 + weight * samples && exact.trouble == NULL; ++n, exact.runs = runs) {
    for (int k = 0; k < depth; ++k)
      fixed.numbers[k] = exact.low[k] + (exact.high[k] - exact.low[k]) * vector_uniform();
    run_fixed(t);
    if (exact.trouble == NULL &&
        (t->latest.size != o.size ||
         memcmp(t->latest.values, first, (size_t)(o.size < DEPTH ? o.size : DEPTH) * sizeof *first) != 0)) {
      exact.trouble = "a threshold depends on the size of another number, or an interval is too short";
      exact.has_missed = 1;
    }
  }
}

static void explore(struct trial* t, int depth, double weight) {
  run_fixed(t);
  if (exact.trouble != NULL) return;
  if (fixed.taken <= depth) {
    add_box(t, depth, weight);
    return;
  }
  double begin = 0, same = 0;  // the present interval begins at `begin`, and reaches to `same` at least
  uint64_t now = fate(t, depth, 0);
  for (int g = 1; g <= exact.grid + 1 && exact.trouble == NULL;) {
    double high = g < exact.grid ? (double)g / exact.grid : g == exact.grid ? largest : 1;
    if (g <= exact.grid && fate(t, depth, high) == now) {
      same = high;
      ++g;
      continue;
    }
    while (g <= exact.grid && high - same > 1e-12) {
      const double middle = (same + high) / 2;
      if (fate(t, depth, middle) == now) same = middle;
      else high = middle;
    }
    exact.low[depth] = begin;
    exact.high[depth] = high;
    for (int k = 0; k <= depth; ++k) fixed.numbers[k] = (exact.low[k] + exact.high[k]) / 2;
    if (high - begin > 1e-11)
      explore(t, depth + 1, weight * (high - begin));  // else a point, which fate() has seen
    for (int k = 0; k < depth; ++k) fixed.numbers[k] = (exact.low[k] + exact.high[k]) / 2;
    begin = same = high;
    if (g <= exact.grid) now = fate(t, depth, begin);
    else ++g;
  }
}

static void explore_drafts(struct trial* t, int i, double weight) {
  const struct vector_case* c = t->given;
  if (!t->any || i == c->gamma) explore(t, 0, weight);
  else
    for (int x = 0; x < c->vocab_size; ++x) {
      ((int*)c->tokens)[i] = x;
      if (c->draft[i][x] > 0) explore_drafts(t, i + 1, weight * (double)c->draft[i][x]);
    }
}

static void find_law(struct trial* t, int grid) {
  exact.grid = grid;
  exact.has_missed = 0;
  exact.trouble = NULL;
  exact.runs = 0;
  exact.impossible_taken = -1;
  exact.impossible_mass = 0;
  exact.most_taken = 0;
  exact.found = grown(exact.found, t->law.count, sizeof(double));
  for (int k = 0; k < t->law.count; ++k) exact.found[k] = 0;
  explore_drafts(t, 0, 1);
}

static void judge_exactly(struct trial* t) {
  find_law(t, 32);
  if (exact.has_missed) find_law(t, 1024);
  if (is_over(t)) return;
  if (exact.trouble == NULL && exact.most_taken == 0 && t->law.count > 1)
    exact.trouble = "the engine takes no number";
  int worst = 0;
  double most = 0;
  for (int k = 0; k < t->law.count; ++k) {
    const double off = fabs(exact.found[k] - t->law.list[k].probability);
    if (off > most) worst = k, most = off;
  }
  if (exact.impossible_mass > 1e-6 && exact.most_taken > 0) convict_of_impossible(t);
  else if (exact.trouble == NULL && most > 1e-6) {
    convict(t, &t->law.list[worst]);
    printf(" has probability %.7f, but %.7f is right\n", exact.found[worst], t->law.list[worst].probability);
  } else {
    if (exact.trouble != NULL) {
      printf("%s is judged by samples alone: %s\n", t->given->id, exact.trouble);
      ++exact.by_samples;
    }
    judge_by_samples(t);
  }
  if (!t->convicted && !is_over(t) && exact.impossible_taken >= 0) convict_of_impossible(t);
}

// ---- The program.

static void read_options(int count, char** words) {
  for (int i = 1; i < count; i += 2) {
    const char *word = words[i], *value = i + 1 < count ? words[i + 1] : "";
    char* end = "";
    if (strcmp(word, "--vectors") == 0) vectors = value;
    else if (strcmp(word, "--mode") == 0) mode = value;
    else if (strcmp(word, "--rule") == 0) only_rule = value;
    else if (strcmp(word, "--case") == 0) only_case = value;
    else if (strcmp(word, "--samples") == 0) samples = (int)strtol(value, &end, 10);
    else if (strcmp(word, "--false-alarms") == 0) false_alarms = strtod(value, &end);
    else if (strcmp(word, "--seed") == 0) seed_of_run = strtoull(value, &end, 10);
    else broken("%s is no option\n%s", word, usage);
    if (*value == 0 || *end != 0) broken("%s: bad value '%s'\n%s", word, value, usage);
  }
  if (strcmp(mode, "sampled") != 0 && strcmp(mode, "batched") != 0 && strcmp(mode, "exact") != 0)
    broken("--mode: bad value '%s'\n%s", mode, usage);
  if (strcmp(mode, "batched") == 0 && !has_batches)
    broken("--mode batched: define VECTOR_BATCHES and verify_batch()\n");
  if (samples < 1 || !(false_alarms > 0 && false_alarms < 1))
    broken("--samples or --false-alarms is out of range\n%s", usage);
}

int main(int count, char** words) {
  read_options(count, words);
  read_file();
  int judged = 0, convicted = 0, not_had = 0, is_broken = 0;
  const int exactly = strcmp(mode, "exact") == 0, batched = strcmp(mode, "batched") == 0;
  bet_count = batched ? member_count : trial_count;
  for (int n = 0; n < (batched ? batch_count : trial_count); ++n) {
    struct trial* t = batched ? batches[n].members : &trials[n];
    const struct trial* end = t + (batched ? batches[n].count : 1);
    if (only_rule != NULL && strcmp(t->given->rule, only_rule) != 0) continue;
    if (only_case != NULL && strcmp(batched ? t->batch : t->given->id, only_case) != 0) continue;
    state = seed_of_run * 0xD1342543DE82EF95u + (uint64_t)n * 0x9FB21C651E98DF25u;
    if (batched) judge_batch(&batches[n]);
    else if (exactly) judge_exactly(t);
    else judge_by_samples(t);
    for (; t < end; ++t) {
      judged += !t->not_had;
      not_had += t->not_had;
      convicted += t->convicted;
      if (t->convicted && !batched) name_mistakes(t);
      is_broken += t->broken;
    }
  }
  if (judged == 0) broken("no case was judged: the engine has no such rule, or the file has no such case\n");
  fflush(stdout);
  FILE* out = convicted + is_broken > 0 ? stderr : stdout;
  if (convicted > 0) fprintf(out, "convicted: %d of %d cases", convicted, judged);
  if (is_broken > 0)
    fprintf(out, convicted > 0 ? ", broken: %d" : "broken: %d of %d cases", is_broken, judged);
  if (convicted + is_broken == 0) fprintf(out, "acquitted: %d cases", judged);
  if (exactly)
    fprintf(out,
            ", by their laws to 1e-6 (%d by samples alone) and by up to %d samples each; an interval "
            "shorter than %.2g may be missed",
            exact.by_samples, samples, fmin(10.0 / samples, 1.0 / 32));
  else
    fprintf(out, ", up to %d samples each; a right engine is convicted with probability %g at most", samples,
            false_alarms);
  fprintf(out, not_had > 0 ? "; not judged, as the engine has no such rule: %d\n" : "\n", not_had);
  return convicted > 0 ? 1 : is_broken > 0 ? 2 : 0;
}
#endif
