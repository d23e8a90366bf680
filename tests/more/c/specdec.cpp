// The C interface gives the verdicts of C++, for rows of every kind, and its errors as a status and a text.
// SPDX-License-Identifier: MIT
#define SPECDEC_C_IMPLEMENTATION
#include "specdec/more/c/specdec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <random>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"

namespace test_more_c_specdec {

using namespace specdec;
using support::RowMajor;

namespace {

using specdec::detail::RowOfC;
static_assert(DistributionMatrix<specdec::detail::RowsOfC> && has_vocab_size<specdec::detail::RowsOfC>);
static_assert(ArgmaxRow<RowOfC> && SummableRow<RowOfC> && SegmentedRow<RowOfC> && !ListedRow<RowOfC>);
static_assert(sizeof(specdec_rows) == 88 && sizeof(specdec_verdict) == 16 && sizeof(specdec_batch) == 160,
              "the version of the interface");

constexpr Index gamma = 5, vocabulary = 1500;  // of several stretches of a row
const std::vector<Token> line{-1, 0, 1, 2, 3}, tree{-1, -1, 0, 0, 2};

RowMajor<double> random_rows(Index rows, std::mt19937_64& rng) {
  RowMajor<double> matrix(rows, vocabulary);
  for (Index i = 0; i < matrix.size(); ++i) matrix.data()[i] = std::exp(3 * uniform01(rng));
  for (Index i = 0; i < rows; ++i) matrix.row(i) /= matrix.row(i).sum();
  return matrix;
}

specdec_rows described(specdec_row_kind kind, specdec_scalar scalar, Index rows, const void* data) {
  specdec_rows c = {};
  c.kind = kind;
  c.scalar = scalar;
  c.rows = rows;
  c.vocab_size = vocabulary;
  c.data = data;
  return c;
}

// Rows over 3 tokens, as lists of doubles.
specdec_rows lists(Index rows, const std::int64_t* offsets, const std::int32_t* ids, const double* data) {
  specdec_rows c = described(SPECDEC_LISTS, SPECDEC_DOUBLE, rows, data);
  c.vocab_size = 3;
  c.ids = ids;
  c.offsets = offsets;
  return c;
}

// What a call in C gave, or should have given.
struct Outcome {
  specdec_status status = -1;
  Verdict verdict;
  std::vector<Index> path;
  std::uint64_t offset = 0;
  std::string error;
};

Outcome in_c(specdec_rule rule, const specdec_rows* target, const specdec_rows* draft,
             const std::vector<Token>& tokens, std::uint64_t seed,
             const std::vector<Token>* parents = nullptr) {
  specdec_philox rng{seed, 7, 3};
  specdec_verdict verdict{-7, -7};
  std::array<std::int32_t, gamma> path{};
  std::array<char, 400> error{'?'};
  Outcome out;
  out.status = parents != nullptr ? specdec_verify_tree(rule, target, draft, tokens.data(), parents->data(),
                                                        std::ssize(tokens), &rng, path.data(), &verdict,
                                                        error.data(), error.size())
                                  : specdec_verify(rule, target, draft, tokens.data(), std::ssize(tokens),
                                                   &rng, &verdict, error.data(), error.size());
  out.verdict = {verdict.accepted, verdict.token};
  if (parents != nullptr && out.status == SPECDEC_OK)
    out.path.assign(path.begin(), path.begin() + verdict.accepted);
  out.offset = rng.offset;
  out.error = error.data();
  return out;
}

// What the call in C++ gives.
Outcome in_cpp(auto rule, const auto& target, const auto& draft, const std::vector<Token>& tokens,
               std::uint64_t seed) {
  Philox rng(seed, 7, 3);
  const Verdict verdict = rule(target, draft, tokens, rng);
  return {SPECDEC_OK, verdict, {}, rng.offset(), {}};
}
Outcome in_cpp(auto rule, const auto& target, const auto& draft, const std::vector<Token>& tokens,
               std::uint64_t seed, const std::vector<Token>& parents) {
  Philox rng(seed, 7, 3);
  const TreeVerdict verdict = rule(target, draft, tokens, parents, rng);
  return {SPECDEC_OK, {std::ssize(verdict.path), verdict.token}, verdict.path, rng.offset(), {}};
}

void check_same(const Outcome& c, const Outcome& cpp) {
  INFO(c.error);
  CHECK(c.status == cpp.status);
  CHECK(c.error == cpp.error);
  CHECK(c.verdict == cpp.verdict);
  CHECK(c.path == cpp.path);
  CHECK(c.offset == cpp.offset);
}

// A row of any kind in C++: the probabilities and the draws of the row that it holds. The rules are compiled once for
// all kinds.
class CppRow {
 public:
  template <class Row>
  explicit CppRow(const Row& row)
      : size_(row.vocab_size()),
        probability_([row](Token x) { return static_cast<double>(row.probability(x)); }),
        sampler_([row] { return std::function<Token(double)>(row.sampler()); }) {}

  Index vocab_size() const { return size_; }
  double probability(Token x) const { return probability_(x); }
  std::function<Token(double)> sampler() const { return sampler_(); }

 private:
  Index size_;
  std::function<double(Token)> probability_;
  std::function<std::function<Token(double)>()> sampler_;
};

std::vector<CppRow> rows_of(const auto& matrix) {
  const auto from = distributions(matrix);
  std::vector<CppRow> rows;
  for (Index i = 0; i < from.rows(); ++i) rows.emplace_back(from.row(i));
  return rows;
}

std::vector<Token> drawn_from(const std::vector<CppRow>& rows, std::mt19937_64& rng) {
  RandomChance chance{rng};
  std::vector<Token> tokens;
  for (const CppRow& row : rows) tokens.push_back(chance.draw(row));
  return tokens;
}

// A rule for lines and one for trees, on rows in C++ and their descriptions in C.
void check_rows(const std::vector<CppRow>& target, const std::vector<CppRow>& draft,
                const specdec_rows& c_target, const specdec_rows& c_draft) {
  const RowSpan p(target, vocabulary), q(draft, vocabulary);
  std::mt19937_64 rng(1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Token> tokens = drawn_from(draft, rng);
    check_same(in_c(SPECDEC_BLOCK, &c_target, &c_draft, tokens, seed),
               in_cpp(BlockVerifier{}, p, q, tokens, seed));
    check_same(in_c(SPECDEC_TRAVERSAL, &c_target, &c_draft, tokens, seed, &tree),
               in_cpp(TraversalVerifier{}, p, q, tokens, seed, tree));
  }
}
void check_kind(const auto& target, const auto& draft, const specdec_rows& c_target,
                const specdec_rows& c_draft) {
  check_rows(rows_of(target), rows_of(draft), c_target, c_draft);
}

// A rule for lines and one for trees, on the rows of C++ as they are.
void check_as_they_are(const auto& target, const auto& draft, const specdec_rows& c_target,
                       const specdec_rows& c_draft) {
  const std::vector<CppRow> drawn = rows_of(draft);
  std::mt19937_64 rng(1);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<Token> tokens = drawn_from(drawn, rng);
    check_same(in_c(SPECDEC_BLOCK, &c_target, &c_draft, tokens, seed),
               in_cpp(BlockVerifier{}, target, draft, tokens, seed));
    check_same(in_c(SPECDEC_TRAVERSAL, &c_target, &c_draft, tokens, seed, &tree),
               in_cpp(TraversalVerifier{}, target, draft, tokens, seed, tree));
  }
}

struct Pair {
  explicit Pair(std::uint64_t seed = 2) {
    std::mt19937_64 rng(seed);
    target = random_rows(gamma + 1, rng);
    // Half of the target's mass, so that drafts are accepted often.
    draft = (target.topRows(gamma) + random_rows(gamma, rng)) / 2;
  }
  RowMajor<double> target, draft;
};

template <class S>
void check_scalar(specdec_scalar scalar) {
  const Pair pair;
  const RowMajor<S> target = pair.target.cast<S>(), draft = pair.draft.cast<S>();
  check_kind(target, draft, described(SPECDEC_PROBABILITIES, scalar, gamma + 1, target.data()),
             described(SPECDEC_PROBABILITIES, scalar, gamma, draft.data()));

  const RowMajor<S> target_logits = pair.target.array().log().template cast<S>(),
                    draft_logits = pair.draft.array().log().template cast<S>();
  specdec_rows c_target = described(SPECDEC_LOGITS, scalar, gamma + 1, target_logits.data()),
               c_draft = described(SPECDEC_LOGITS, scalar, gamma, draft_logits.data());
  c_target.temperature = c_draft.temperature = 0.75;
  check_kind(Logits{target_logits, {.temperature = 0.75}}, Logits{draft_logits, {.temperature = 0.75}},
             c_target, c_draft);
}

// Numbers 2 apart, rows 5 further apart than they need be: by strides, and by pointers.
template <class S>
void check_strides(specdec_scalar scalar) {
  const Pair pair;
  const Index row_stride = 2 * vocabulary + 5;
  std::vector<S> memory(static_cast<std::size_t>((2 * gamma + 1) * row_stride));
  using Strided = Eigen::Map<RowMajor<S>, 0, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
  const Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic> strides(row_stride, 2);
  S* const draft_data = memory.data() + (gamma + 1) * row_stride;
  Strided target(memory.data(), gamma + 1, vocabulary, strides),
      draft(draft_data, gamma, vocabulary, strides);
  target = pair.target.cast<S>();
  draft = pair.draft.cast<S>();
  specdec_rows c_target = described(SPECDEC_PROBABILITIES, scalar, gamma + 1, target.data()),
               c_draft = described(SPECDEC_PROBABILITIES, scalar, gamma, draft.data());
  c_target.row_stride = c_draft.row_stride = row_stride;
  c_target.element_stride = c_draft.element_stride = 2;
  check_kind(target, draft, c_target, c_draft);

  std::vector<const void*> pointers;
  for (Index i = 0; i <= 2 * gamma; ++i) pointers.push_back(memory.data() + i * row_stride);
  c_target.data = c_draft.data = nullptr;
  c_target.pointers = pointers.data();
  c_draft.pointers = pointers.data() + gamma + 1;
  check_kind(target, draft, c_target, c_draft);
}

// Rows of a hundred tokens of the vocabulary.
template <class S>
struct Lists {
  Lists(Index rows, std::uint64_t seed) {
    std::mt19937_64 rng(seed);
    for (Index i = 0; i < rows; ++i) {
      for (Token x = static_cast<Token>(i); x < vocabulary; x += 15) {
        ids.push_back(x);
        p.push_back(static_cast<S>(0.2 + uniform01(rng)));
      }
      offsets.push_back(std::ssize(ids));
      S sum = 0;
      for (auto k = static_cast<std::size_t>(offsets.end()[-2]); k < p.size(); ++k) sum += p[k];
      for (auto k = static_cast<std::size_t>(offsets.end()[-2]); k < p.size(); ++k) p[k] /= sum;
    }
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const auto first = static_cast<std::size_t>(offsets[i]), end = static_cast<std::size_t>(offsets[i + 1]);
      rows_of_cpp.emplace_back(std::span<const Token>(ids).subspan(first, end - first),
                               std::span<const S>(p).subspan(first, end - first), vocabulary);
    }
  }
  specdec_rows described(specdec_scalar scalar) const {
    specdec_rows c = test_more_c_specdec::described(SPECDEC_LISTS, scalar, std::ssize(rows_of_cpp), p.data());
    c.ids = ids.data();
    c.offsets = offsets.data();
    return c;
  }
  std::vector<Token> ids;
  std::vector<S> p;
  std::vector<std::int64_t> offsets{0};
  std::vector<SparseRow<S>> rows_of_cpp;
};

template <class S>
void check_lists(specdec_scalar scalar) {
  const Lists<S> target(gamma + 1, 1), draft(gamma, 2);
  const RowSpan p{target.rows_of_cpp, vocabulary}, q{draft.rows_of_cpp, vocabulary};
  check_kind(p, q, target.described(scalar), draft.described(scalar));
  check_as_they_are(p, q, target.described(scalar), draft.described(scalar));
}

}  // namespace

TEST_CASE("rows of every scalar get the verdicts of C++, as probabilities and as logits") {
  check_scalar<float>(SPECDEC_FLOAT);
  check_scalar<double>(SPECDEC_DOUBLE);
  check_scalar<Eigen::half>(SPECDEC_HALF);
  check_scalar<Eigen::bfloat16>(SPECDEC_BFLOAT16);
}

TEST_CASE("rows by strides and by pointers get the verdicts of C++") {
  check_strides<float>(SPECDEC_FLOAT);
  check_strides<double>(SPECDEC_DOUBLE);
  check_strides<Eigen::half>(SPECDEC_HALF);
}

TEST_CASE("lists get the verdicts of C++") {
  check_lists<float>(SPECDEC_FLOAT);
  check_lists<double>(SPECDEC_DOUBLE);
}

TEST_CASE("rows of two kinds get the verdicts of C++") {
  const Pair pair;
  const RowMajor<float> floats = pair.target.cast<float>(), draft_floats = pair.draft.cast<float>(),
                        logits = pair.draft.array().log().cast<float>();
  const specdec_rows c_floats = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, floats.data()),
                     c_doubles = described(SPECDEC_PROBABILITIES, SPECDEC_DOUBLE, gamma, pair.draft.data());
  specdec_rows c_logits = described(SPECDEC_LOGITS, SPECDEC_FLOAT, gamma, logits.data());
  c_logits.temperature = 1;
  check_kind(floats, pair.draft, c_floats, c_doubles);
  check_kind(floats, Logits{logits, {.temperature = 1}}, c_floats, c_logits);
  check_kind(pair.target, draft_floats,
             described(SPECDEC_PROBABILITIES, SPECDEC_DOUBLE, gamma + 1, pair.target.data()),
             described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma, draft_floats.data()));
  const Lists<float> target(gamma + 1, 1);
  const Lists<double> draft(gamma, 2);
  check_kind(RowSpan{target.rows_of_cpp, vocabulary}, RowSpan{draft.rows_of_cpp, vocabulary},
             target.described(SPECDEC_FLOAT), draft.described(SPECDEC_DOUBLE));
  check_kind(floats, RowSpan{draft.rows_of_cpp, vocabulary}, c_floats, draft.described(SPECDEC_DOUBLE));
}

TEST_CASE("logits of known log-sum-exp, greedy logits and one-hot rows get the verdicts of C++") {
  const Pair pair;
  const RowMajor<float> target = pair.target.array().log().cast<float>(),
                        draft = pair.draft.array().log().cast<float>();
  std::vector<double> sums;
  for (const RowMajor<float>* rows : {&target, &draft})
    for (Index i = 0; i < rows->rows(); ++i)
      sums.push_back(std::log(rows->row(i).cast<double>().array().exp().sum()));
  const std::span<const double> target_sums(sums.data(), gamma + 1),
      draft_sums(sums.data() + gamma + 1, gamma);
  specdec_rows c_target = described(SPECDEC_LOGITS, SPECDEC_FLOAT, gamma + 1, target.data()),
               c_draft = described(SPECDEC_LOGITS, SPECDEC_FLOAT, gamma, draft.data());
  c_target.temperature = c_draft.temperature = 1;
  c_target.log_sum_exp = target_sums.data();
  c_draft.log_sum_exp = draft_sums.data();
  const Logits p_logits{target, {.log_sum_exp = target_sums}}, q_logits{draft, {.log_sum_exp = draft_sums}};
  check_kind(p_logits, q_logits, c_target, c_draft);
  check_as_they_are(p_logits, q_logits, c_target, c_draft);

  c_target = described(SPECDEC_GREEDY_LOGITS, SPECDEC_FLOAT, gamma + 1, target.data());
  check_kind(Logits{target, {.temperature = 0}}, q_logits, c_target, c_draft);

  specdec_rows one_hot = {};
  one_hot.kind = SPECDEC_ONE_HOT;
  const RowMajor<float> p = pair.target.cast<float>();
  const Lists<float> listed(gamma + 1, 1);
  const std::vector<Token> tokens{1, 2, 3, 4, 5};
  const auto check_chosen = [&](const auto& rows, const specdec_rows& c_rows) {
    for (std::uint64_t seed = 0; seed < 100; ++seed) {
      check_same(in_c(SPECDEC_TOKEN, &c_rows, &one_hot, tokens, seed),
                 in_cpp(TokenVerifier{}, rows, OneHotRows(tokens), tokens, seed));
      check_same(in_c(SPECDEC_TRAVERSAL, &c_rows, &one_hot, tokens, seed, &tree),
                 in_cpp(TraversalVerifier{}, rows, OneHotRows(tokens), tokens, seed, tree));
    }
  };
  check_chosen(p, described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, p.data()));
  check_chosen(pair.target, described(SPECDEC_PROBABILITIES, SPECDEC_DOUBLE, gamma + 1, pair.target.data()));
  check_chosen(RowSpan{listed.rows_of_cpp, vocabulary}, listed.described(SPECDEC_FLOAT));
  c_target = described(SPECDEC_LOGITS, SPECDEC_FLOAT, gamma + 1, target.data());
  c_target.temperature = 0.75;
  check_chosen(Logits{target, {.temperature = 0.75}}, c_target);

  // Of equal chosen siblings the second can never be accepted.
  const RowMajor<Eigen::half> halves = pair.target.cast<Eigen::half>();
  const std::vector<Token> equal(gamma, 1), siblings(gamma, -1);
  for (const specdec_rows& c_rows : {described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, p.data()),
                                     described(SPECDEC_PROBABILITIES, SPECDEC_HALF, gamma + 1, halves.data()),
                                     listed.described(SPECDEC_FLOAT), c_target})
    CHECK(in_c(SPECDEC_TRAVERSAL, &c_rows, &one_hot, equal, 1, &siblings).status == SPECDEC_INVALID_ARGUMENT);
}

namespace {

// Float probabilities in C++ and in C; siblings of the tree have equal rows, as K-SEQ wants them.
struct Floats {
  explicit Floats(std::uint64_t seed = 2) {
    const Pair pair(seed);
    target = pair.target.cast<float>();
    draft = pair.draft.cast<float>();
    draft.row(1) = draft.row(0);
    draft.row(3) = draft.row(2);
    c_target = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, target.data());
    c_draft = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma, draft.data());
    std::mt19937_64 rng(seed);
    tokens = drawn_from(rows_of(draft), rng);
  }
  Floats(const Floats&) = delete;
  RowMajor<float> target, draft;
  specdec_rows c_target, c_draft;
  std::vector<Token> tokens;
};

}  // namespace

TEST_CASE("every rule gives the verdicts of C++") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Floats f(seed);
    const auto line_of = [&](specdec_rule number, const auto& rule) {
      check_same(in_c(number, &f.c_target, &f.c_draft, f.tokens, seed),
                 in_cpp(rule, f.target, f.draft, f.tokens, seed));
    };
    const auto tree_of = [&](specdec_rule number, const auto& rule) {
      for (const std::vector<Token>* parents : {&tree, &line})
        check_same(in_c(number, &f.c_target, &f.c_draft, f.tokens, seed, parents),
                   in_cpp(rule, f.target, f.draft, f.tokens, seed, *parents));
    };
    line_of(SPECDEC_BLOCK, BlockVerifier{});
    line_of(SPECDEC_TOKEN, TokenVerifier{});
    line_of(SPECDEC_ARGMAX, ArgmaxVerifier{});
    line_of(SPECDEC_SAMPLE_MATCH, SampleMatchVerifier{});
    tree_of(SPECDEC_TRAVERSAL, TraversalVerifier{});
    tree_of(SPECDEC_RECURSIVE_REJECTION, RecursiveRejectionVerifier{});
    tree_of(SPECDEC_K_SEQ, KSeqVerifier{});
  }
}

TEST_CASE("rules that need no draft rows do without them, and argmax without a generator") {
  const Floats f;
  Philox rng(9, 7, 3);
  CHECK(in_c(SPECDEC_SAMPLE_MATCH, &f.c_target, nullptr, f.tokens, 9).verdict ==
        SampleMatchVerifier{}(f.target, f.tokens, rng));
  specdec_verdict verdict = {};
  CHECK(specdec_verify(SPECDEC_ARGMAX, &f.c_target, nullptr, f.tokens.data(), gamma, nullptr, &verdict,
                       nullptr, 0) == SPECDEC_OK);
  CHECK(Verdict{verdict.accepted, verdict.token} == ArgmaxVerifier{}(f.target, f.tokens));
}

TEST_CASE("greedy block verification remembers, forgets and keeps its memory after an error, as in C++") {
  specdec_greedy_block* memory = nullptr;
  REQUIRE(specdec_greedy_block_create(&memory, nullptr, 0) == SPECDEC_OK);
  GreedyBlockVerifier rule;
  Philox rng(4);
  specdec_philox c_rng{4, 0, 0};
  std::array<char, 200> error{};
  const auto judge = [&](const Floats& f, Index length, specdec_verdict& verdict) {
    return specdec_verify_greedy_block(memory, &f.c_target, &f.c_draft, f.tokens.data(), length, &c_rng,
                                       &verdict, error.data(), error.size());
  };
  Index remembered = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Floats f(seed);
    specdec_verdict verdict = {};
    REQUIRE(judge(f, gamma, verdict) == SPECDEC_OK);
    CHECK(Verdict{verdict.accepted, verdict.token} == rule(f.target, f.draft, f.tokens, rng));
    CHECK(c_rng.offset == rng.offset());
    CHECK(specdec_greedy_block_min_draft_length(memory) == rule.min_draft_length());
    remembered += rule.min_draft_length();
    CHECK(judge(f, 1, verdict) == SPECDEC_INVALID_ARGUMENT);  // these rows are for another length
    CHECK(specdec_greedy_block_min_draft_length(memory) == rule.min_draft_length());
  }
  CHECK(remembered > 0);
  const Floats f(1);
  Floats first(1);
  for (std::uint64_t seed = 2; specdec_greedy_block_min_draft_length(memory) == 0; ++seed) {
    specdec_verdict verdict = {};
    REQUIRE(judge(Floats(seed), gamma, verdict) == SPECDEC_OK);
  }
  first.c_target.rows = 1;
  first.c_draft.rows = 0;
  specdec_verdict verdict = {};
  CHECK(judge(first, 0, verdict) == SPECDEC_INVALID_ARGUMENT);
  CHECK_THAT(error.data(), Catch::Contains("draft at least that many"));
  specdec_greedy_block_reset(memory);
  CHECK(specdec_greedy_block_min_draft_length(memory) == 0);
  CHECK(judge(first, 0, verdict) == SPECDEC_OK);
  specdec_greedy_block_destroy(memory);
  specdec_greedy_block_destroy(nullptr);
  specdec_greedy_block_reset(nullptr);
  CHECK(specdec_greedy_block_min_draft_length(nullptr) == 0);
}

TEST_CASE("a memory of greedy block verification goes on from its bytes as if it had not stopped") {
  const auto created = [] {
    specdec_greedy_block* memory = nullptr;
    REQUIRE(specdec_greedy_block_create(&memory, nullptr, 0) == SPECDEC_OK);
    return memory;
  };
  specdec_greedy_block *stays = created(), *moves = created();
  std::array<char, 200> error{};
  std::size_t most = 0;
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    const Floats f(seed);
    const auto judged = [&](specdec_greedy_block* memory) {
      specdec_philox rng{seed, 0, 0};
      specdec_verdict verdict{};
      REQUIRE(specdec_verify_greedy_block(memory, &f.c_target, &f.c_draft, f.tokens.data(), gamma, &rng,
                                          &verdict, error.data(), error.size()) == SPECDEC_OK);
      return Verdict{verdict.accepted, verdict.token};
    };
    CHECK(judged(moves) == judged(stays));
    const std::size_t size = specdec_greedy_block_saved_size(moves);
    most = std::max(most, size);
    CHECK(size <= 16 * gamma);
    std::vector<unsigned char> bytes(size + 1, 0xAB);
    REQUIRE(specdec_greedy_block_save(moves, bytes.data(), size, error.data(), error.size()) == SPECDEC_OK);
    CHECK(bytes.back() == 0xAB);
    specdec_greedy_block_destroy(moves);
    moves = created();
    REQUIRE(specdec_greedy_block_load(moves, bytes.data(), size, error.data(), error.size()) == SPECDEC_OK);
    CHECK(moves->rule == stays->rule);
  }
  CHECK(most >= 32);  // several modifications at a time
  specdec_greedy_block_destroy(stays);
  specdec_greedy_block_destroy(moves);
}

TEST_CASE("the bytes of a memory are the same on all machines, and other bytes are refused") {
  specdec_greedy_block memory;
  std::array<char, 200> error{};
  const auto load = [&](const void* bytes, std::size_t size) {
    return specdec_greedy_block_load(&memory, bytes, size, error.data(), error.size());
  };
  // The ratio 0.75 is 0x3FE8000000000000.
  const std::array<unsigned char, 16> bytes{0, 0, 0, 0, 0, 0, 0xE8, 0x3F, 2, 1, 0, 0, 0, 0, 0, 0};
  CHECK(load(bytes.data(), bytes.size()) == SPECDEC_OK);
  CHECK(memory.rule.modifications() == std::vector<GreedyBlockVerifier::Modification>{{0.75, 258}});
  std::array<unsigned char, 16> written{};
  CHECK(specdec_greedy_block_save(&memory, written.data(), 16, error.data(), error.size()) == SPECDEC_OK);
  CHECK(written == bytes);

  const auto refused = [&](const char* word, specdec_status status) {
    CHECK(status == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(std::string(error.data()), Catch::Contains(word));
    CHECK(memory.rule.min_draft_length() == 258);
  };
  refused("size = 15 is no multiple of 16", load(bytes.data(), 15));
  refused("bytes is NULL", load(nullptr, 16));
  const auto spoilt = [&](std::size_t k, unsigned char byte) {
    auto wrong = bytes;
    wrong[k] = byte;
    return wrong;
  };
  refused("modifications[0] has the ratio 1.75 ", load(spoilt(6, 0xFC).data(), 16));  // 0x3FFC is 1.75
  refused("modifications[0] has the ratio -0.75 ", load(spoilt(7, 0xBF).data(), 16));
  refused("modifications[0] has the ratio 0.75 for -", load(spoilt(15, 0x80).data(), 16));
  auto none_left = bytes;
  none_left[8] = none_left[9] = 0;
  refused("modifications[0] has the ratio 0.75 for 0 tokens", load(none_left.data(), 16));
  refused("modifications[0] has the ratio 0.75 for 4611686018427388162 tokens",
          load(spoilt(15, 0x40).data(), 16));
  std::array<unsigned char, 32> descending{};
  std::copy(bytes.begin(), bytes.end(), std::copy(bytes.begin(), bytes.end(), descending.begin()));
  descending[24] = 1;
  refused("modifications[1] is for 257 tokens, the one before it for 258", load(descending.data(), 32));
  refused("size = 15, expected 16",
          specdec_greedy_block_save(&memory, written.data(), 15, error.data(), error.size()));
  refused("bytes is NULL", specdec_greedy_block_save(&memory, nullptr, 16, error.data(), error.size()));
  refused("memory is NULL", specdec_greedy_block_save(nullptr, nullptr, 0, error.data(), error.size()));
  refused("memory is NULL", specdec_greedy_block_load(nullptr, nullptr, 0, error.data(), error.size()));
  CHECK(load(nullptr, 0) == SPECDEC_OK);
  CHECK(memory.rule.min_draft_length() == 0);
  CHECK(specdec_greedy_block_saved_size(&memory) == 0);
  CHECK(specdec_greedy_block_saved_size(nullptr) == 0);
  CHECK(specdec_greedy_block_save(&memory, nullptr, 0, error.data(), error.size()) == SPECDEC_OK);
}

namespace {

// A draw in C from row i, and what it changes.
struct Draw {
  specdec_status status = -1;
  std::int32_t token = -7;
  std::uint64_t offset = 0;
  std::string error;
};
Draw drawn_in_c(const specdec_rows* rows, std::int64_t i, std::uint64_t seed) {
  Draw out;
  specdec_philox rng{seed, 7, 3};
  std::array<char, 200> error{'?'};
  out.status = specdec_draw(rows, i, &rng, &out.token, error.data(), error.size());
  out.offset = rng.offset;
  out.error = error.data();
  return out;
}

// Every row gives in C the tokens that it gives in C++.
void check_draws(const specdec_rows& c_rows, const auto& rows) {
  const auto all = distributions(rows);
  for (Index i = 0; i < c_rows.rows; ++i)
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const Draw c = drawn_in_c(&c_rows, i, seed);
      Philox rng(seed, 7, 3);
      const Token expected = RandomChance(rng).draw(all.row(i));
      CHECK(c.status == SPECDEC_OK);
      CHECK(c.error.empty());
      CHECK(c.token == expected);
      CHECK(c.offset == rng.offset());
    }
}

// An audit in C, which is destroyed at the end.
struct AuditInC {
  specdec_text_audit* held = nullptr;
  std::array<char, 2000> text{'?'};

  explicit AuditInC(std::uint64_t stream = 0) {
    REQUIRE(specdec_text_audit_create(&held, 1e-3, 5, stream, text.data(), text.size()) == SPECDEC_OK);
  }
  AuditInC(const AuditInC&) = delete;
  AuditInC& operator=(const AuditInC&) = delete;
  ~AuditInC() { specdec_text_audit_destroy(held); }

  specdec_status add(const specdec_rows* target, const specdec_rows* references, const std::int32_t* tokens) {
    return specdec_text_audit_add(held, target, references, tokens, text.data(), text.size());
  }
  std::string report() {
    CHECK(specdec_text_audit_report(held, text.data(), text.size()) == SPECDEC_OK);
    return text.data();
  }
};

specdec_status validated(const specdec_rows& rows, std::string& text, double tolerance = 1e-3) {
  std::array<char, 200> error{'?'};
  const specdec_status status = specdec_validate(&rows, tolerance, error.data(), error.size());
  text = error.data();
  return status;
}

}  // namespace

TEST_CASE("an audit in C is the audit of C++") {
  const Pair pair;
  const RowMajor<float> references = pair.draft.cast<float>();
  const specdec_rows target = described(SPECDEC_PROBABILITIES, SPECDEC_DOUBLE, gamma, pair.target.data());
  const specdec_rows beside = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma, references.data());
  const RowMajor<double> rows = pair.target.topRows(gamma);
  AuditInC c, other(1);
  testing::TextAudit expected({.tolerance = 1e-3, .seed = 5});
  Philox rng(1);
  std::vector<Token> tokens(gamma);
  for (int n = 0; n < 20; ++n) {  // the reference writes
    for (Index i = 0; i < gamma; ++i)
      tokens[static_cast<std::size_t>(i)] = RandomChance(rng).draw(distributions(references).row(i));
    CHECK(c.add(&target, &beside, tokens.data()) == SPECDEC_OK);
    for (Index i = 0; i < gamma; ++i)
      expected.add(distributions(rows).row(i), tokens[static_cast<std::size_t>(i)],
                   distributions(references).row(i));
    CHECK(specdec_text_audit_evidence(c.held) == expected.largest_evidence());
  }
  CHECK(other.add(&target, nullptr, tokens.data()) == SPECDEC_OK);
  specdec_text_audit_add_numbers(other.held, 0.1, 0.9);
  CHECK(specdec_text_audit_merge(c.held, other.held, c.text.data(), c.text.size()) == SPECDEC_OK);
  CHECK_THAT(c.report(), Catch::Contains("106 tokens, evidence 10^"));

  const auto refused = [&](const std::string& words, specdec_status status) {
    CHECK(status == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(c.text.data(), Catch::Contains(words));
  };
  refused("target is NULL", c.add(nullptr, nullptr, tokens.data()));
  refused("tokens is NULL", c.add(&target, nullptr, nullptr));
  specdec_rows fewer = beside;
  fewer.rows = 2;
  refused("references has 2 rows, expected 5", c.add(&target, &fewer, tokens.data()));
  refused("one seed and one stream", specdec_text_audit_merge(c.held, c.held, c.text.data(), c.text.size()));
  refused("other is NULL", specdec_text_audit_merge(c.held, nullptr, c.text.data(), c.text.size()));
  specdec_text_audit* none = nullptr;
  refused("tolerance = -1", specdec_text_audit_create(&none, -1, 0, 0, c.text.data(), c.text.size()));
  CHECK(none == nullptr);
  CHECK(specdec_text_audit_evidence(nullptr) == 0);
  specdec_text_audit_add_numbers(nullptr, 0.5, 0.5);
  CHECK(specdec_text_audit_report(nullptr, nullptr, 0) == SPECDEC_INVALID_ARGUMENT);
}

TEST_CASE("draws in C are the draws of C++") {
  const Pair pair;
  const RowMajor<float> floats = pair.target.cast<float>();
  const RowMajor<Eigen::half> halves = pair.target.cast<Eigen::half>();
  check_draws(described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, floats.data()), floats);
  check_draws(described(SPECDEC_PROBABILITIES, SPECDEC_DOUBLE, gamma + 1, pair.target.data()), pair.target);
  check_draws(described(SPECDEC_PROBABILITIES, SPECDEC_HALF, gamma + 1, halves.data()), halves);
  const RowMajor<float> logits = floats.array().log();
  specdec_rows c_logits = described(SPECDEC_LOGITS, SPECDEC_FLOAT, gamma + 1, logits.data());
  c_logits.temperature = 0.7;
  check_draws(c_logits, Logits{logits, {.temperature = 0.7}});
  c_logits.kind = SPECDEC_GREEDY_LOGITS;
  check_draws(c_logits, Logits{logits, {.temperature = 0}});
  const Lists<float> listed(gamma + 1, 1);
  check_draws(listed.described(SPECDEC_FLOAT), RowSpan{listed.rows_of_cpp, vocabulary});
}

TEST_CASE("a draw in C that fails names the row, and takes no number") {
  RowMajor<float> rows = Pair().target.cast<float>();
  rows.row(2).setConstant(std::nanf(""));
  rows.row(3).setZero();
  const specdec_rows c_rows = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, rows.data());
  const auto fails = [&](const char* word, specdec_status status, const Draw& draw) {
    CHECK(draw.status == status);
    CHECK_THAT(draw.error, Catch::Contains(word));
    CHECK(draw.token == -7);
    CHECK(draw.offset == 7);
  };
  fails("rows row 2: ", SPECDEC_INVALID_DISTRIBUTION, drawn_in_c(&c_rows, 2, 1));
  fails("rows row 3: ", SPECDEC_INVALID_DISTRIBUTION, drawn_in_c(&c_rows, 3, 1));
  for (const std::int64_t none : {std::int64_t{-1}, std::int64_t{gamma + 1}, INT64_MAX, INT64_MIN})
    fails(" is outside 0..5", SPECDEC_INVALID_ARGUMENT, drawn_in_c(&c_rows, none, 1));
  fails("rows is NULL", SPECDEC_INVALID_ARGUMENT, drawn_in_c(nullptr, 0, 1));
  specdec_rows one_hot = {};
  one_hot.kind = SPECDEC_ONE_HOT;
  fails("rows.kind = 4 is for a draft", SPECDEC_INVALID_ARGUMENT, drawn_in_c(&one_hot, 0, 1));
  const std::array<std::int64_t, 2> offsets{0, 2};
  const std::array<std::int32_t, 2> ids{2, 1};
  const std::array<double, 2> halves{0.5, 0.5};
  const specdec_rows unsorted = lists(1, offsets.data(), ids.data(), halves.data());
  fails("rows row 0: ", SPECDEC_INVALID_DISTRIBUTION, drawn_in_c(&unsorted, 0, 1));
  specdec_philox rng{1, 0, 0};
  std::int32_t token = 0;
  CHECK(specdec_draw(&c_rows, 0, nullptr, &token, nullptr, 0) == SPECDEC_INVALID_ARGUMENT);
  CHECK(specdec_draw(&c_rows, 0, &rng, nullptr, nullptr, 0) == SPECDEC_INVALID_ARGUMENT);
}

TEST_CASE("rows are checked in C as in C++") {
  const Pair pair;
  RowMajor<float> floats = pair.target.cast<float>();
  RowMajor<Eigen::bfloat16> shorts = pair.target.cast<Eigen::bfloat16>();
  std::string text;
  specdec_rows rows = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 1, floats.data());
  CHECK(validated(rows, text) == SPECDEC_OK);
  CHECK(text.empty());
  CHECK(validated(described(SPECDEC_PROBABILITIES, SPECDEC_BFLOAT16, gamma + 1, shorts.data()), text, 0) ==
        SPECDEC_OK);  // what rounding explains
  CHECK(validated(Lists<double>(2, 1).described(SPECDEC_DOUBLE), text) == SPECDEC_OK);
  const auto fails_as_in_cpp = [&](double tolerance) {
    CHECK(validated(rows, text, tolerance) == SPECDEC_INVALID_DISTRIBUTION);
    CHECK_THROWS_WITH(validate(floats, "rows", tolerance), Catch::Equals(text));
  };
  floats.row(4) *= 1.01F;
  fails_as_in_cpp(1e-3);
  CHECK(validated(rows, text, 0.02) == SPECDEC_OK);
  floats(2, 1000) = -1;
  fails_as_in_cpp(0.02);
  floats(2, 1000) = std::nanf("");
  fails_as_in_cpp(0.02);

  const RowMajor<float> unlike = RowMajor<float>::Constant(1, vocabulary, std::nanf(""));
  specdec_rows logits = described(SPECDEC_LOGITS, SPECDEC_FLOAT, 1, unlike.data());
  logits.temperature = 1;
  CHECK(validated(logits, text) == SPECDEC_INVALID_DISTRIBUTION);
  for (const double tolerance : {-1.0, std::nan("")}) {
    CHECK(validated(rows, text, tolerance) == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(text, Catch::Contains("tolerance = "));
  }
  rows.kind = SPECDEC_ONE_HOT;
  CHECK(validated(rows, text) == SPECDEC_INVALID_ARGUMENT);
  CHECK(specdec_validate(nullptr, 1e-3, nullptr, 0) == SPECDEC_INVALID_ARGUMENT);
}

TEST_CASE("one row in so many verifications is summed in C, too, unless it holds logits") {
  const std::vector<float> cut(vocabulary, 0.25F / vocabulary);
  const std::vector<Eigen::half> halves(cut.begin(), cut.end());
  const specdec_rows floats = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, 1, cut.data());
  specdec_rows logits = floats;
  logits.kind = SPECDEC_LOGITS;
  logits.temperature = 1;
  const auto error = [](const specdec_rows& target) {
    return in_c(SPECDEC_SAMPLE_MATCH, &target, nullptr, {}, 1).error;
  };
  CHECK(specdec_check_every(-1) == 0);
  CHECK(error(floats).empty());
  CHECK(specdec_check_every(2) == 0);
  CHECK(specdec_check_every(-1) == 2);
  CHECK_THAT(error(floats), Catch::Contains("target row 0: the probabilities sum to 0.24999"));
  CHECK(error(floats).empty());  // the second of two
  CHECK(error(floats).empty());  // the turn of the draft's rows, which this rule does not read
  CHECK(error(floats).empty());
  CHECK_THAT(error(described(SPECDEC_PROBABILITIES, SPECDEC_HALF, 1, halves.data())),
             Catch::Contains("target row 0: the probabilities sum to 0.2"));
  CHECK(specdec_check_every(1) == 2);
  CHECK(error(logits).empty());
  const std::array<std::int32_t, 4> ids{0, 1, 0, 1};
  const std::array<std::int64_t, 3> offsets{0, 2, 4};
  const std::array<double, 4> numbers{1, 0, 0.5, 0.25}, draft_numbers{0, 1};
  const specdec_rows listed = lists(2, offsets.data(), ids.data(), numbers.data()),
                     draft = lists(1, offsets.data(), ids.data(), draft_numbers.data());
  CHECK(specdec_check_every(0) == 1);
  CHECK(in_c(SPECDEC_TOKEN, &listed, &draft, {1}, 1).error.empty());  // refused: the second list is not read
  CHECK(specdec_check_every(1) == 0);
  std::string all;
  for (int turn = 0; turn < 4; ++turn) all += in_c(SPECDEC_TOKEN, &listed, &draft, {1}, 1).error;
  CHECK_THAT(all, Catch::Contains("target row 1: the probabilities of a list of 2 tokens sum to 0.75"));
  CHECK(specdec_check_every(0) == 1);
}

TEST_CASE("rows of halves may sum to as much more than 1 as rounding explains, and rows of floats may not") {
  // All tokens but the last have p = 15.6 / 2^24, which a half rounds up by a fortieth. The last one has the rest.
  constexpr Index many = 1000000;
  std::vector<Eigen::half> halves(many, Eigen::half(15.6F / (1 << 24)));
  halves.back() = Eigen::half(0.0702F);
  const std::vector<float> floats(halves.begin(), halves.end());
  const auto drawn = [](specdec_scalar scalar, const void* data, std::uint64_t seed) {
    specdec_rows c_target = described(SPECDEC_PROBABILITIES, scalar, 1, data);
    c_target.vocab_size = many;
    return in_c(SPECDEC_SAMPLE_MATCH, &c_target, nullptr, {}, seed);
  };
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Philox rng(seed, 7, 3);
    const Eigen::Map<const RowMajor<Eigen::half>> target(halves.data(), 1, many);
    CHECK(drawn(SPECDEC_HALF, halves.data(), seed).verdict ==
          SampleMatchVerifier{}(target, std::vector<Token>{}, rng));
    refused += drawn(SPECDEC_FLOAT, floats.data(), seed).status == SPECDEC_INVALID_DISTRIBUTION ? 1 : 0;
  }
  CHECK(refused > 0);
}

namespace {

// Three drafts of 2, 0 and 3 tokens in the rows of one matrix each.
struct Batch {
  explicit Batch(std::uint64_t seed = 3) {
    const Pair pair(seed);
    target.resize(gamma + 3, vocabulary);
    target << pair.target.cast<float>(), pair.target.topRows(2).cast<float>();
    draft = pair.draft.cast<float>();
    draft.row(1) = draft.row(0);  // the rows of siblings, as K-SEQ wants them
    draft.row(3) = draft.row(2);
    std::mt19937_64 rng(seed);
    tokens = drawn_from(rows_of(draft), rng);
    c_target = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma + 3, target.data());
    c_draft = described(SPECDEC_PROBABILITIES, SPECDEC_FLOAT, gamma, draft.data());
  }
  Batch(const Batch&) = delete;

  // Trees, if there are parents.
  specdec_status judge(specdec_rule rule, std::vector<specdec_greedy_block*>* memories = nullptr,
                       const std::vector<Token>* parents = nullptr) {
    const specdec_batch batch = in_c(rule, memories, parents);
    return specdec_verify_batch(&batch);
  }
  specdec_batch in_c(specdec_rule rule, std::vector<specdec_greedy_block*>* memories = nullptr,
                     const std::vector<Token>* parents = nullptr) {
    specdec_batch batch = {};
    batch.drafts = 3;
    batch.offsets = offsets.data();
    batch.tokens = tokens.data();
    batch.parents = parents == nullptr ? nullptr : parents->data();
    batch.rule = rule;
    batch.target = &c_target;
    batch.draft = &c_draft;
    batch.memories = memories == nullptr ? nullptr : memories->data();
    batch.rngs = rngs.data();
    batch.paths = paths.data();
    batch.verdicts = verdicts.data();
    batch.statuses = statuses.data();
    batch.errors = errors.data();
    batch.error_size = error_size;
    return batch;
  }
  std::string error(std::size_t i) const { return errors.data() + i * error_size; }

  // The outcome on draft i alone, in C++. `parents`: nothing for lines, else the parents of all trees.
  auto alone(std::size_t i, auto&& rule, Philox& rng, const auto&... parents) const {
    const Index first = offsets[i], length = offsets[i + 1] - first;
    const RowMajor<float> p = target.middleRows(first + static_cast<Index>(i), length + 1),
                          q = draft.middleRows(first, length);
    const auto part = [&](const std::vector<Token>& all) {
      return std::vector<Token>(all.begin() + first, all.begin() + first + length);
    };
    return rule(p, q, part(tokens), part(parents)..., rng);
  }
  void check_alone(std::size_t i, auto&& rule) const {
    Philox rng(i);
    CHECK(Verdict{verdicts[i].accepted, verdicts[i].token} == alone(i, rule, rng));
    check_rest(i, rng);
  }
  // Returns how many tokens of the tree were accepted.
  Index check_alone(std::size_t i, auto&& rule, const std::vector<Token>& parents) const {
    Philox rng(i);
    const TreeVerdict verdict = alone(i, rule, rng, parents);
    const auto path = paths.begin() + offsets[i];
    CHECK(TreeVerdict{{path, path + verdicts[i].accepted}, verdicts[i].token} == verdict);
    for (auto k = offsets[i] + verdicts[i].accepted; k < offsets[i + 1]; ++k)
      CHECK(paths[static_cast<std::size_t>(k)] == -7);
    check_rest(i, rng);
    return std::ssize(verdict.path);
  }
  void check_rest(std::size_t i, const Philox& rng) const {
    CHECK(statuses[i] == SPECDEC_OK);
    CHECK(rngs[i].offset == rng.offset());
    CHECK(error(i).empty());
  }

  static constexpr std::size_t error_size = 100;
  RowMajor<float> target, draft;
  std::vector<Token> tokens;
  std::vector<std::int64_t> offsets{0, 2, 2, 5};
  specdec_rows c_target, c_draft;
  std::array<specdec_philox, 3> rngs{{{0, 0, 0}, {1, 0, 0}, {2, 0, 0}}};
  std::array<std::int32_t, gamma> paths{-7, -7, -7, -7, -7};
  std::array<specdec_verdict, 3> verdicts{};
  std::array<specdec_status, 3> statuses{-1, -1, -1};
  std::array<char, 3 * error_size> errors{};
};

}  // namespace

TEST_CASE("drafts judged together in C get the verdicts that each gets alone") {
  Batch batch;
  CHECK(batch.judge(SPECDEC_BLOCK) == SPECDEC_OK);
  for (const std::size_t i : {0U, 1U, 2U}) batch.check_alone(i, BlockVerifier{});

  Batch remembered;
  std::vector<specdec_greedy_block*> memories(3);
  for (auto& memory : memories) REQUIRE(specdec_greedy_block_create(&memory, nullptr, 0) == SPECDEC_OK);
  CHECK(remembered.judge(SPECDEC_GREEDY_BLOCK, &memories) == SPECDEC_OK);
  for (const std::size_t i : {0U, 1U, 2U}) {
    GreedyBlockVerifier rule;
    remembered.check_alone(i, rule);
    CHECK(specdec_greedy_block_min_draft_length(memories[i]) == rule.min_draft_length());
    specdec_greedy_block_destroy(memories[i]);
  }
}

TEST_CASE("trees judged together in C get the verdicts that each gets alone, and paths in their places") {
  const std::vector<Token> siblings{-1, -1, -1, -1, 0}, lines{-1, 0, -1, 0, 1};
  const auto accepted = [&](specdec_rule number, const auto& rule, const std::vector<Token>& parents) {
    Index tokens = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      Batch batch(seed);
      if (parents == siblings && seed % 2 == 1) batch.offsets = {0, 1, 2, 5};
      CHECK(batch.judge(number, nullptr, &parents) == SPECDEC_OK);
      for (const std::size_t i : {0U, 1U, 2U}) tokens += batch.check_alone(i, rule, parents);
    }
    return tokens;
  };
  for (const auto& parents : {siblings, lines}) {
    CHECK(accepted(SPECDEC_TRAVERSAL, TraversalVerifier{}, parents) > 20);
    CHECK(accepted(SPECDEC_RECURSIVE_REJECTION, RecursiveRejectionVerifier{}, parents) > 20);
    CHECK(accepted(SPECDEC_K_SEQ, KSeqVerifier{}, parents) > 20);
  }

  Batch with, without;
  CHECK(with.judge(SPECDEC_TRAVERSAL, nullptr, &siblings) == SPECDEC_OK);
  specdec_batch no_paths = without.in_c(SPECDEC_TRAVERSAL, nullptr, &siblings);
  no_paths.paths = nullptr;
  no_paths.errors = nullptr;
  CHECK(specdec_verify_batch(&no_paths) == SPECDEC_OK);
  for (const std::size_t i : {0U, 1U, 2U}) {
    CHECK(without.verdicts[i].accepted == with.verdicts[i].accepted);
    CHECK(without.verdicts[i].token == with.verdicts[i].token);
  }

  Batch empty;  // trees without tokens need no parents, tokens or paths
  empty.offsets = {0, 0, 0, 0};
  empty.c_target.rows = 3;
  empty.c_draft.rows = 0;
  specdec_batch no_tokens = empty.in_c(SPECDEC_TRAVERSAL);
  no_tokens.tokens = nullptr;
  no_tokens.paths = nullptr;
  CHECK(specdec_verify_batch(&no_tokens) == SPECDEC_OK);
  for (const std::size_t i : {0U, 1U, 2U}) CHECK(empty.verdicts[i].accepted == 0);
}

TEST_CASE("an error in one tree of a batch in C is that tree's alone, and writes no path") {
  const std::vector<Token> parents{-1, -1, -1, 0, 0};
  const auto fails = [&](const std::string& word, specdec_status status, const auto& spoil) {
    Batch batch;
    std::vector<Token> spoilt = parents;
    spoil(batch, spoilt);
    CHECK(batch.judge(SPECDEC_RECURSIVE_REJECTION, nullptr, &spoilt) == status);
    CHECK(batch.statuses == std::array<specdec_status, 3>{SPECDEC_OK, SPECDEC_OK, status});
    CHECK_THAT(batch.error(2), Catch::Contains(word));
    CHECK(batch.rngs[2].offset == 0);
    CHECK(batch.verdicts[2].token == 0);
    for (const std::size_t k : {2U, 3U, 4U}) CHECK(batch.paths[k] == -7);
    for (const std::size_t i : {0U, 1U}) batch.check_alone(i, RecursiveRejectionVerifier{}, parents);
  };
  const auto parent = [&](std::size_t k, Token number) {
    return [=](Batch&, std::vector<Token>& all) { all[k] = number; };
  };
  fails("parents[0] = 0 is outside -1..-1", SPECDEC_INVALID_ARGUMENT, parent(2, 0));
  fails("parents[1] = 1 is outside -1..0", SPECDEC_INVALID_ARGUMENT, parent(3, 1));
  fails("parents[2] = -2 is outside -1..1", SPECDEC_INVALID_ARGUMENT, parent(4, -2));
  fails("parents[2] = 2147483647 is outside", SPECDEC_INVALID_ARGUMENT, parent(4, INT32_MAX));
  fails("has probability 0 in draft row 1", SPECDEC_INVALID_ARGUMENT,
        [](Batch& batch, auto&) { batch.draft(3, batch.tokens[3]) = 0; });
  fails("target row 0: ", SPECDEC_INVALID_DISTRIBUTION,
        [](Batch& batch, auto&) { batch.target.row(4).setConstant(std::nanf("")); });
}

TEST_CASE("an error in one draft of a batch is that draft's alone; one of the whole batch is everybody's") {
  Batch batch;
  batch.draft(1, batch.tokens[1]) = 0;
  CHECK(batch.judge(SPECDEC_TOKEN) == SPECDEC_INVALID_ARGUMENT);
  CHECK(batch.statuses == std::array<specdec_status, 3>{SPECDEC_INVALID_ARGUMENT, SPECDEC_OK, SPECDEC_OK});
  CHECK_THAT(batch.error(0), Catch::Contains("has probability 0 in draft row 1"));
  CHECK(batch.rngs[0].offset == 0);
  batch.check_alone(2, TokenVerifier{});

  const auto all_fail = [](Batch& wrong, const std::string& word, specdec_rule rule = SPECDEC_BLOCK) {
    const auto before = wrong.verdicts;
    CHECK(wrong.judge(rule) == SPECDEC_INVALID_ARGUMENT);
    for (const std::size_t i : {0U, 1U, 2U}) {
      CHECK(wrong.statuses[i] == SPECDEC_INVALID_ARGUMENT);
      CHECK_THAT(wrong.error(i), Catch::Contains(word));
      CHECK(wrong.verdicts[i].token == before[i].token);
      CHECK(wrong.rngs[i].offset == 0);
    }
  };
  Batch descending, from_one, rows, draft_rows, greedy, no_rule;
  descending.offsets = {0, 2, 1, 5};
  all_fail(descending, "offsets[2] = 1, after 2");
  from_one.offsets = {1, 2, 2, 5};
  all_fail(from_one, "offsets[0] = 1");
  rows.c_target.rows = 7;
  all_fail(rows, "target has 7 rows, expected 8");
  draft_rows.c_draft.rows = 6;
  all_fail(draft_rows, "draft has 6 rows, expected 5");
  all_fail(greedy, "memories is NULL", SPECDEC_GREEDY_BLOCK);
  all_fail(no_rule, "rule = 99 is no rule for lines", 99);

  const std::vector<Token> parents{-1, -1, -1, 0, 0};
  Batch no_parents, parents_of_lines, trees;
  all_fail(no_parents, "parents is NULL", SPECDEC_RECURSIVE_REJECTION);
  CHECK(parents_of_lines.judge(SPECDEC_BLOCK, nullptr, &parents) == SPECDEC_INVALID_ARGUMENT);
  CHECK(parents_of_lines.error(2) == "specdec: parents is not NULL, and rule = 0 is no rule for trees");
  trees.offsets = {0, 3, 2, 5};
  CHECK(trees.judge(SPECDEC_K_SEQ, nullptr, &parents) == SPECDEC_INVALID_ARGUMENT);
  CHECK(trees.error(0) == "specdec: offsets[2] = 2, after 3");

  Batch none;
  const std::int64_t zero = 0;
  none.c_target.rows = none.c_draft.rows = 0;
  char untouched = 'x';
  specdec_batch nothing = {};
  nothing.offsets = &zero;
  nothing.target = &none.c_target;
  nothing.draft = &none.c_draft;
  nothing.errors = &untouched;
  nothing.error_size = 100;
  CHECK(specdec_verify_batch(&nothing) == SPECDEC_OK);
  CHECK(untouched == 'x');
  CHECK(specdec_verify_batch(nullptr) == SPECDEC_INVALID_ARGUMENT);
  std::array<char, 100> error;
  const auto refused = [&](std::int64_t drafts, specdec_status* statuses) {
    error.fill('x');
    specdec_batch wrong = nothing;
    wrong.drafts = drafts;
    wrong.statuses = statuses;
    wrong.errors = error.data();
    CHECK(specdec_verify_batch(&wrong) == SPECDEC_INVALID_ARGUMENT);
    wrong.errors = nullptr;
    CHECK(specdec_verify_batch(&wrong) == SPECDEC_INVALID_ARGUMENT);
    return std::string(error.data());
  };
  CHECK(refused(-1, nullptr) == "specdec: drafts = -1 is negative");
  CHECK(refused(1, nullptr) == "specdec: statuses is NULL");
  none.c_target.rows = 2;
  CHECK_THAT(refused(std::int64_t{1} << 40, none.statuses.data()),
             Catch::Contains("target has 2 rows, expected one at least for each"));
}

TEST_CASE("ids of 64 bits and offsets of 32 give the verdicts of the others") {
  Batch batch;
  const std::vector<std::int64_t> wide(batch.tokens.begin(), batch.tokens.end());
  const std::vector<std::int32_t> narrow(batch.offsets.begin(), batch.offsets.end());
  specdec_batch c = batch.in_c(SPECDEC_BLOCK);
  c.tokens = nullptr;
  c.tokens64 = wide.data();
  c.offsets = nullptr;
  c.offsets32 = narrow.data();
  CHECK(specdec_verify_batch(&c) == SPECDEC_OK);
  for (const std::size_t i : {0U, 1U, 2U}) batch.check_alone(i, BlockVerifier{});

  std::vector<std::int64_t> cut = wide;  // an id that would be a right one if it were cut to 32 bits
  cut[3] += std::int64_t{1} << 32;
  c.tokens64 = cut.data();
  CHECK(specdec_verify_batch(&c) == SPECDEC_INVALID_ARGUMENT);
  CHECK(batch.statuses == std::array<specdec_status, 3>{SPECDEC_OK, SPECDEC_OK, SPECDEC_INVALID_ARGUMENT});
  CHECK_THAT(batch.error(2), Catch::Contains("tokens[1] = " + std::to_string(cut[3]) + " is outside"));

  const auto refused = [&](const char* word, auto&& change) {
    specdec_batch wrong = batch.in_c(SPECDEC_BLOCK);
    change(wrong);
    CHECK(specdec_verify_batch(&wrong) == SPECDEC_INVALID_ARGUMENT);
    for (const std::size_t i : {0U, 1U, 2U}) CHECK_THAT(batch.error(i), Catch::Contains(word));
  };
  refused("tokens and tokens64 are both set", [&](auto& wrong) { wrong.tokens64 = wide.data(); });
  refused("offsets and offsets32 are both set", [&](auto& wrong) { wrong.offsets32 = narrow.data(); });
  refused("offsets is NULL", [](auto& wrong) { wrong.offsets = nullptr; });
  refused("tokens is NULL", [](auto& wrong) { wrong.tokens = nullptr; });
  const std::vector<std::int32_t> descending{0, 2, 1, 5};
  refused("offsets[2] = 1, after 2", [&](auto& wrong) {
    wrong.offsets = nullptr;
    wrong.offsets32 = descending.data();
  });
}

namespace {

// Logits whose drafts have temperatures of their own.
struct LogitsBatch : Batch {
  explicit LogitsBatch(std::uint64_t seed) : Batch(seed) {
    target = target.array().log().eval();
    draft = draft.array().log().eval();
    c_target.kind = c_draft.kind = SPECDEC_LOGITS;
  }
  // The verdict on draft i alone in C++, at its temperatures; the tokens of draft `chosen` were chosen.
  Verdict expected(std::size_t i, auto&& rule, Philox& rng, bool chosen) const {
    const Index first = offsets[i], length = offsets[i + 1] - first;
    const RowMajor<float> p = target.middleRows(first + static_cast<Index>(i), length + 1),
                          q = draft.middleRows(first, length);
    const std::vector<Token> own(tokens.begin() + first, tokens.begin() + first + length);
    const Logits p_rows{p, {.temperature = target_temperatures[i]}};
    if (chosen) return rule(p_rows, OneHotRows(own), own, rng);
    return rule(p_rows, Logits{q, {.temperature = draft_temperatures[i]}}, own, rng);
  }
  void check(std::size_t i, auto&& rule, bool chosen) const {
    Philox rng(i);
    CHECK(Verdict{verdicts[i].accepted, verdicts[i].token} == expected(i, rule, rng, chosen));
    check_rest(i, rng);
  }
  std::array<double, 3> target_temperatures{0.6, 0, 1.3}, draft_temperatures{1.5, 1, 0.8};
};

}  // namespace

TEST_CASE("each draft of a batch has its own rule, temperatures and kind of draft") {
  const std::array<specdec_rule, 3> rules{SPECDEC_TOKEN, SPECDEC_SAMPLE_MATCH, SPECDEC_GREEDY_BLOCK};
  specdec_greedy_block* memory = nullptr;
  REQUIRE(specdec_greedy_block_create(&memory, nullptr, 0) == SPECDEC_OK);
  std::vector<specdec_greedy_block*> memories{nullptr, nullptr, memory};
  for (std::uint64_t seed = 0; seed < 20; ++seed)
    for (const bool first_chosen : {false, true}) {
      LogitsBatch batch(seed);
      const std::array<std::uint8_t, 3> chosen{first_chosen, 0, 0};
      specdec_batch c = batch.in_c(99, &memories);
      c.rules = rules.data();
      c.chosen = chosen.data();
      c.target_temperatures = batch.target_temperatures.data();
      c.draft_temperatures = batch.draft_temperatures.data();
      if (first_chosen) batch.draft.topRows(2).setConstant(std::nanf(""));  // not read
      specdec_greedy_block_reset(memory);
      CHECK(specdec_verify_batch(&c) == SPECDEC_OK);
      batch.check(0, TokenVerifier{}, first_chosen);
      batch.check(1, SampleMatchVerifier{}, false);
      GreedyBlockVerifier rule;
      batch.check(2, rule, false);
      CHECK(memory->rule == rule);
    }
  specdec_greedy_block_destroy(memory);
}

TEST_CASE("a batch whose tokens were all chosen needs no draft rows") {
  const std::array<specdec_rule, 3> rules{SPECDEC_TOKEN, SPECDEC_SAMPLE_MATCH, SPECDEC_BLOCK};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    LogitsBatch batch(seed);
    std::array<std::uint8_t, 3> chosen{1, 0, 1};  // the second rule does not look at draft rows
    specdec_batch c = batch.in_c(99);
    c.rules = rules.data();
    c.chosen = chosen.data();
    c.draft = nullptr;
    c.target_temperatures = batch.target_temperatures.data();
    CHECK(specdec_verify_batch(&c) == SPECDEC_OK);
    batch.check(0, TokenVerifier{}, true);
    batch.check(1, SampleMatchVerifier{}, true);
    batch.check(2, BlockVerifier{}, true);

    chosen[2] = 0;
    CHECK(specdec_verify_batch(&c) == SPECDEC_INVALID_ARGUMENT);
    CHECK(std::string(c.errors).find("draft is NULL") != std::string::npos);
  }
}

TEST_CASE("lines and trees may stand in one batch") {
  const std::vector<Token> parents{-7, -7, -1, -1, 0};  // those of lines are not read
  const std::array<specdec_rule, 3> rules{SPECDEC_BLOCK, SPECDEC_ARGMAX, SPECDEC_TRAVERSAL};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Batch batch(seed);
    specdec_batch c = batch.in_c(99, nullptr, &parents);
    c.rules = rules.data();
    CHECK(specdec_verify_batch(&c) == SPECDEC_OK);
    batch.check_alone(0, BlockVerifier{});
    batch.check_alone(1, ArgmaxVerifier{});
    batch.check_alone(2, TraversalVerifier{}, parents);
    CHECK(batch.paths[0] == -7);
  }
}

TEST_CASE(
    "a wrong temperature is its draft's error; rules and temperatures that do not fit are everybody's") {
  for (const double wrong : {-1.0, std::nan(""), std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity()})
    for (const bool of_target : {true, false}) {
      LogitsBatch batch(1);
      (of_target ? batch.target_temperatures : batch.draft_temperatures)[1] = wrong;
      specdec_batch c = batch.in_c(SPECDEC_BLOCK);
      c.target_temperatures = batch.target_temperatures.data();
      c.draft_temperatures = batch.draft_temperatures.data();
      CHECK(specdec_verify_batch(&c) == SPECDEC_INVALID_ARGUMENT);
      CHECK_THAT(batch.error(1),
                 Catch::Contains(of_target ? "target_temperatures[1] = " : "draft_temperatures[1] = "));
      for (const std::size_t i : {0U, 2U}) batch.check(i, BlockVerifier{}, false);
    }
  const std::vector<Token> parents{-1, -1, -1, -1, 0};
  const auto refused = [&](const char* word, std::array<specdec_rule, 3> rules, auto&& change) {
    INFO(word);
    Batch batch;
    specdec_batch c = batch.in_c(0, nullptr, &parents);
    c.rules = rules.data();
    change(c);
    CHECK(specdec_verify_batch(&c) == SPECDEC_INVALID_ARGUMENT);
    for (const std::size_t i : {0U, 1U, 2U}) {
      CHECK(batch.statuses[i] == SPECDEC_INVALID_ARGUMENT);
      CHECK_THAT(batch.error(i), Catch::Contains(word));
      CHECK(batch.rngs[i].offset == 0);
    }
  };
  const auto as_it_is = [](auto&) {};
  refused("rules[1] = 5 is no rule", {0, 5, 0}, as_it_is);
  refused("rules[2] = -1 is no rule", {0, 0, -1}, as_it_is);
  refused("rules[0] = 19 is no rule", {19, 0, 0}, as_it_is);
  refused("memories is NULL", {0, SPECDEC_GREEDY_BLOCK, 0}, as_it_is);
  const std::array<specdec_greedy_block*, 3> no_memories{};
  refused("memories[1] is NULL", {0, SPECDEC_GREEDY_BLOCK, 0},
          [&](auto& c) { c.memories = no_memories.data(); });
  refused("parents is NULL", {0, 0, SPECDEC_K_SEQ}, [](auto& c) { c.parents = nullptr; });
  const std::array<double, 3> ones{1, 1, 1};
  refused("target_temperatures is not NULL, and target.kind = 0 is not SPECDEC_LOGITS", {0, 0, 0},
          [&](auto& c) { c.target_temperatures = ones.data(); });
  refused("draft_temperatures is not NULL, and draft.kind = 0 is not SPECDEC_LOGITS", {0, 0, 0},
          [&](auto& c) { c.draft_temperatures = ones.data(); });
  refused("draft is NULL", {SPECDEC_ARGMAX, SPECDEC_BLOCK, SPECDEC_ARGMAX},
          [](auto& c) { c.draft = nullptr; });
}

namespace {

// The flat call on a batch.
specdec_status judge_flat(Batch& batch, specdec_row_kind kind, const std::array<specdec_rule, 3>& rules,
                          const double* temperatures, const std::vector<Token>* parents = nullptr,
                          specdec_greedy_block* const* memories = nullptr, bool with_draft = true) {
  return specdec_verify_flat(kind, batch.target.data(), with_draft ? batch.draft.data() : nullptr, vocabulary,
                             temperatures, rules.data(), memories, batch.tokens.data(),
                             parents == nullptr ? nullptr : parents->data(), batch.offsets.data(), 3,
                             batch.rngs.data(), batch.paths.data(), batch.verdicts.data(),
                             batch.statuses.data(), batch.errors.data(), Batch::error_size);
}

}  // namespace

TEST_CASE("flat calls give the verdicts of C++") {
  const std::vector<Token> parents{-1, 0, -1, -1, 0};
  specdec_greedy_block* memory = nullptr;
  REQUIRE(specdec_greedy_block_create(&memory, nullptr, 0) == SPECDEC_OK);
  const std::array<specdec_greedy_block*, 3> memories{memory, nullptr, nullptr};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Batch batch(seed);
    specdec_greedy_block_reset(memory);
    CHECK(judge_flat(batch, SPECDEC_PROBABILITIES, {SPECDEC_GREEDY_BLOCK, SPECDEC_BLOCK, SPECDEC_K_SEQ},
                     nullptr, &parents, memories.data()) == SPECDEC_OK);
    GreedyBlockVerifier rule;
    batch.check_alone(0, rule);
    CHECK(memory->rule == rule);
    batch.check_alone(1, BlockVerifier{});
    batch.check_alone(2, KSeqVerifier{}, parents);

    LogitsBatch logits(seed);
    logits.draft_temperatures = logits.target_temperatures;
    logits.draft_temperatures[1] = 1;  // a draft without tokens: not read
    CHECK(judge_flat(logits, SPECDEC_LOGITS, {SPECDEC_TOKEN, SPECDEC_BLOCK, SPECDEC_BLOCK},
                     logits.target_temperatures.data()) == SPECDEC_OK);
    logits.check(0, TokenVerifier{}, false);
    logits.check(1, BlockVerifier{}, false);
    logits.check(2, BlockVerifier{}, false);

    LogitsBatch chosen(seed);
    chosen.target_temperatures = {1, 1, 1};
    CHECK(judge_flat(chosen, SPECDEC_LOGITS, {SPECDEC_TOKEN, SPECDEC_ARGMAX, SPECDEC_BLOCK}, nullptr, nullptr,
                     nullptr, false) == SPECDEC_OK);
    chosen.check(0, TokenVerifier{}, true);
    chosen.check(1, ArgmaxVerifier{}, true);
    chosen.check(2, BlockVerifier{}, true);
  }
  specdec_greedy_block_destroy(memory);
}

TEST_CASE("a flat call that fails names what does not fit, and changes nothing") {
  const std::array<specdec_rule, 3> rules{};
  const std::array<double, 3> ones{1, 1, 1};
  const auto counted_wrong = [&](const char* word, auto&& call) {
    INFO(word);
    Batch batch;
    CHECK(call(batch) == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(batch.error(0), Catch::Contains(word));
    for (const std::size_t i : {0U, 1U, 2U}) {
      CHECK(batch.statuses[i] == -1);
      CHECK(batch.rngs[i].offset == 0);
    }
  };
  for (const specdec_row_kind kind : {-1, +SPECDEC_GREEDY_LOGITS, +SPECDEC_LISTS, +SPECDEC_ONE_HOT})
    counted_wrong("is neither SPECDEC_PROBABILITIES nor SPECDEC_LOGITS",
                  [&](Batch& batch) { return judge_flat(batch, kind, rules, nullptr); });
  counted_wrong("temperatures is not NULL, and kind = 0",
                [&](Batch& batch) { return judge_flat(batch, SPECDEC_PROBABILITIES, rules, ones.data()); });
  const auto counts = [&](std::int64_t drafts, const std::int64_t* offsets, const specdec_rule* given,
                          bool with_statuses = true) {
    return [=](Batch& batch) {
      return specdec_verify_flat(
          SPECDEC_PROBABILITIES, batch.target.data(), batch.draft.data(), vocabulary, nullptr, given, nullptr,
          batch.tokens.data(), nullptr, offsets, drafts, batch.rngs.data(), nullptr, batch.verdicts.data(),
          with_statuses ? batch.statuses.data() : nullptr, batch.errors.data(), Batch::error_size);
    };
  };
  const std::array<std::int64_t, 4> offsets{0, 2, 2, 5};
  for (const std::int64_t drafts : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 31})
    counted_wrong("drafts = ", counts(drafts, offsets.data(), rules.data()));
  counted_wrong("offsets is NULL", counts(3, nullptr, rules.data()));
  counted_wrong("rules is NULL", counts(3, offsets.data(), nullptr));
  counted_wrong("statuses is NULL", counts(3, offsets.data(), rules.data(), false));
  for (const std::int64_t last : {std::int64_t{-1}, INT64_MIN, INT64_MAX, std::int64_t{1} << 31}) {
    const std::array<std::int64_t, 4> wrong{0, 2, 2, last};
    counted_wrong("offsets[3] = ", counts(3, wrong.data(), rules.data()));
  }
  Batch batch;
  const std::array<std::int64_t, 4> beyond{0, 9, 2, 5};
  CHECK(counts(3, beyond.data(), rules.data())(batch) == SPECDEC_INVALID_ARGUMENT);
  CHECK_THAT(batch.error(2), Catch::Contains("offsets[2] = 2, after 9"));
  batch.target.row(4).setConstant(std::nanf(""));
  CHECK(judge_flat(batch, SPECDEC_PROBABILITIES, rules, nullptr) == SPECDEC_INVALID_DISTRIBUTION);
  CHECK(batch.statuses ==
        std::array<specdec_status, 3>{SPECDEC_OK, SPECDEC_OK, SPECDEC_INVALID_DISTRIBUTION});
  CHECK_THAT(batch.error(2), Catch::Contains("target row 0: "));
  char untouched = 'x';
  const std::int64_t zero = 0;
  CHECK(specdec_verify_flat(SPECDEC_PROBABILITIES, batch.target.data(), nullptr, vocabulary, nullptr, nullptr,
                            nullptr, nullptr, nullptr, &zero, 0, nullptr, nullptr, nullptr, nullptr,
                            &untouched, 100) == SPECDEC_OK);
  CHECK(untouched == 'x');
}

TEST_CASE("flat draws are the draws of C++") {
  const RowMajor<float> logits = Pair().target.array().log().cast<float>(), p = Pair().target.cast<float>();
  const auto draw = [](specdec_row_kind kind, const float* row, double temperature, std::uint64_t seed) {
    Draw out;
    specdec_philox rng{seed, 7, 3};
    std::array<char, 200> error{};
    out.status =
        specdec_draw_flat(kind, row, vocabulary, temperature, &rng, &out.token, error.data(), error.size());
    out.offset = rng.offset;
    out.error = error.data();
    return out;
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    for (const double temperature : {0.0, 0.5, 1.0}) {
      Philox rng(seed, 7, 3);
      const Draw c = draw(SPECDEC_LOGITS, logits.data(), temperature, seed);
      CHECK(c.status == SPECDEC_OK);
      CHECK(c.token ==
            RandomChance(rng).draw(distributions(Logits{logits, {.temperature = temperature}}).row(0)));
      CHECK(c.offset == rng.offset());
    }
    Philox rng(seed, 7, 3);
    CHECK(draw(SPECDEC_PROBABILITIES, p.data(), 0, seed).token ==
          RandomChance(rng).draw(distributions(p).row(0)));
  }
  const auto fails = [](const char* word, const Draw& c) {
    CHECK(c.status == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(c.error, Catch::Contains(word));
    CHECK(c.token == -7);
    CHECK(c.offset == 7);
  };
  fails("kind = 3 is neither", draw(SPECDEC_LISTS, p.data(), 1, 1));
  fails("temperature = -1", draw(SPECDEC_LOGITS, p.data(), -1, 1));
  fails("data is NULL", draw(SPECDEC_LOGITS, nullptr, 1, 1));
}

TEST_CASE("the status of a batch is that of its first draft that failed") {
  Batch batch;
  batch.draft(1, batch.tokens[1]) = 0;             // draft 0: a token that cannot have been drawn
  batch.target.row(4).setConstant(std::nanf(""));  // draft 2: no number is a probability
  CHECK(batch.judge(SPECDEC_TOKEN) == SPECDEC_INVALID_ARGUMENT);
  CHECK(batch.statuses[0] == SPECDEC_INVALID_ARGUMENT);
  CHECK(batch.statuses[2] == SPECDEC_INVALID_DISTRIBUTION);
}

TEST_CASE("counts that contradict each other are found before anything is read") {
  const Floats f;
  const auto refused = [&](std::int64_t many, const char* word, auto&& call) {
    INFO(many);
    specdec_philox rng = {1, 7, 0};
    specdec_verdict verdict{-7, -7};
    std::array<char, 200> error{};
    CHECK(call(many, rng, verdict, error.data(), error.size()) == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(std::string(error.data()), Catch::Contains(word));
    CHECK(verdict.token == -7);
    CHECK(rng.offset == 7);
  };
  const std::vector<std::int32_t> parents{-1, 0, 1, 2, 3};
  for (const std::int64_t many :
       {std::int64_t{4}, std::int64_t{6}, std::int64_t{1} << 28, (std::int64_t{1} << 31) - 1,
        std::int64_t{1} << 31, INT64_MAX, std::int64_t{-1}}) {
    refused(many, many >= 0 && many < (std::int64_t{1} << 31) ? "target has 6 rows" : "gamma = ",
            [&](std::int64_t tokens, auto& rng, auto& verdict, char* error, std::size_t size) {
              return specdec_verify(SPECDEC_BLOCK, &f.c_target, &f.c_draft, f.tokens.data(), tokens, &rng,
                                    &verdict, error, size);
            });
    refused(many, many >= 0 && many < (std::int64_t{1} << 31) ? "target has 6 rows" : "gamma = ",
            [&](std::int64_t tokens, auto& rng, auto& verdict, char* error, std::size_t size) {
              return specdec_verify_tree(SPECDEC_TRAVERSAL, &f.c_target, &f.c_draft, f.tokens.data(),
                                         parents.data(), tokens, &rng, nullptr, &verdict, error, size);
            });
  }
  for (const std::int64_t rows : {std::int64_t{7}, std::int64_t{1} << 31, std::int64_t{1} << 58}) {
    specdec_rows target = f.c_target, draft = f.c_draft;
    target.rows = rows;
    refused(rows, "expected gamma + 1 = 6",
            [&](auto, auto& rng, auto& verdict, char* error, std::size_t size) {
              return specdec_verify(SPECDEC_BLOCK, &target, &f.c_draft, f.tokens.data(), gamma, &rng,
                                    &verdict, error, size);
            });
    draft.rows = rows;
    for (const specdec_rule rule : {SPECDEC_BLOCK, SPECDEC_SAMPLE_MATCH})  // the latter needs no draft rows
      refused(rows, "expected gamma = 5", [&](auto, auto& rng, auto& verdict, char* error, std::size_t size) {
        return specdec_verify(rule, &f.c_target, &draft, f.tokens.data(), gamma, &rng, &verdict, error, size);
      });
  }
  Batch batch;
  for (const std::array<std::int64_t, 2> middle : {std::array<std::int64_t, 2>{INT64_MAX, -2},
                                                   {INT64_MAX, INT64_MIN},
                                                   {(INT64_MAX / 4) * 3, -(INT64_MAX / 2)}}) {
    batch.offsets = {0, middle[0], middle[1], 5};
    CHECK(batch.judge(SPECDEC_BLOCK) == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(batch.error(0), Catch::Contains("offsets[2] = " + std::to_string(middle[1]) + ", after "));
  }
}

TEST_CASE("a drafted token with a probability above 1 is refused") {
  for (const bool in_target : {true, false}) {
    Floats f;
    (in_target ? f.target : f.draft)(0, f.tokens[0]) = 2;
    const Outcome out = in_c(SPECDEC_TOKEN, &f.c_target, &f.c_draft, f.tokens, 1);
    CHECK(out.status == SPECDEC_INVALID_DISTRIBUTION);
    CHECK_THAT(out.error, Catch::Contains(" is 2"));
  }
}

TEST_CASE("a token that cannot have been drawn is found before the rule draws, as in C++") {
  Floats f;
  f.target.row(0).setConstant(1.0f / static_cast<float>(f.target.cols() - 1));
  f.target(0, f.tokens[0]) = 0;  // refused
  f.draft(1, f.tokens[1]) = 0;   // behind it
  const auto message = "tokens[1] = " + std::to_string(f.tokens[1]);
  for (const specdec_rule rule : {SPECDEC_TOKEN, SPECDEC_BLOCK}) {
    const Outcome out = in_c(rule, &f.c_target, &f.c_draft, f.tokens, 1);
    CHECK(out.status == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(out.error, Catch::Contains(message));
    CHECK(out.offset == 7);
  }
}

TEST_CASE("a list that does not sum to 1 is refused") {
  const std::array<std::int32_t, 2> ids{0, 1};
  const std::array<std::int64_t, 2> offsets{0, 2};
  for (const double mass : {0.5, 0.98, 0.9995, 1.0, 2.0}) {
    INFO(mass);
    const std::array<double, 2> numbers{0.75 * mass, 0.25 * mass};
    const specdec_rows target = lists(1, offsets.data(), ids.data(), numbers.data());
    specdec_philox rng = {1, 0, 0};
    specdec_verdict verdict{};
    std::array<char, 200> error{};
    const bool right = std::abs(mass - 1) < 1e-3;
    CHECK(specdec_verify(SPECDEC_SAMPLE_MATCH, &target, nullptr, nullptr, 0, &rng, &verdict, error.data(),
                         error.size()) == (right ? SPECDEC_OK : SPECDEC_INVALID_DISTRIBUTION));
    if (!right) CHECK_THAT(std::string(error.data()), Catch::Contains("of a list of 2 tokens sum to "));
  }
}

TEST_CASE("a list with a wrong id or number is refused in the words of C++, short or long") {
  const auto with = [](auto numbers, std::size_t k, auto number) {
    numbers[k] = number;
    return numbers;
  };
  for (const std::size_t size : {std::size_t{3}, std::size_t{1200}}) {
    INFO(size);
    std::vector<std::int32_t> ids;
    for (std::size_t k = 0; k < size; ++k) ids.push_back(static_cast<std::int32_t>(k));
    const std::vector<double> numbers(size, 1.0 / static_cast<double>(size));
    const std::vector<std::int64_t> offsets{0, static_cast<std::int64_t>(size)};
    const auto told = [&](const std::vector<std::int32_t>& some_ids,
                          const std::vector<double>& some_numbers) {
      specdec_rows target = described(SPECDEC_LISTS, SPECDEC_DOUBLE, 1, some_numbers.data());
      target.ids = some_ids.data();
      target.offsets = offsets.data();
      return in_c(SPECDEC_SAMPLE_MATCH, &target, nullptr, {}, 1).error;
    };
    CHECK(told(ids, numbers).empty());
    CHECK_THAT(told(with(ids, 1, 0), numbers),
               Catch::Contains("do not ascend: ids[1] = 0, after ids[0] = 0"));
    CHECK_THAT(told(with(ids, 0, -1), numbers), Catch::Contains("id -1 is outside the vocabulary 0..1499"));
    CHECK_THAT(told(with(ids, size - 1, 1500), numbers),
               Catch::Contains("id 1500 is outside the vocabulary"));
    std::vector<double> negative = with(numbers, 1, -numbers[1]);
    negative[0] += 2 * numbers[1];  // so that the sum stays 1
    CHECK_THAT(told(ids, negative), Catch::Contains("the probability of token 1 is -"));
    CHECK_THAT(told(ids, with(numbers, 2, std::nan(""))),
               Catch::Contains("the probability of token 2 is nan"));
    CHECK_THAT(told(ids, with(numbers, 0, numbers[0] + 0.002)), Catch::Contains(" tokens sum to 1.002"));
  }
}

TEST_CASE("what C gets wrong is named, and changes nothing") {
  struct Case {
    const char* word;
    std::function<void(specdec_rows& target, specdec_rows& draft)> spoil;
  };
  const std::vector<const void*> no_pointers(gamma + 1, nullptr);
  const std::vector<std::int64_t> descending{0, 3, 2, 4, 4, 4, 4}, to_nowhere{0, 1, 2, 3, 4, 5, 6};
  const std::vector<Case> cases{
      {"target.kind = 9 is no kind of rows", [](auto& t, auto&) { t.kind = 9; }},
      {"target.kind = 4 is for a draft", [](auto& t, auto&) { t.kind = SPECDEC_ONE_HOT; }},
      {"draft.kind = -1", [](auto&, auto& d) { d.kind = -1; }},
      {"target.scalar = 4", [](auto& t, auto&) { t.scalar = 4; }},
      {"target.rows = -1", [](auto& t, auto&) { t.rows = -1; }},
      {"target has 5 rows, expected gamma + 1 = 6", [](auto& t, auto&) { t.rows = 5; }},
      {"draft has 4 rows, expected gamma = 5", [](auto&, auto& d) { d.rows = 4; }},
      {"target.vocab_size = 0", [](auto& t, auto&) { t.vocab_size = 0; }},
      {"target.vocab_size = 2147483648", [](auto& t, auto&) { t.vocab_size = std::int64_t{1} << 31; }},
      {"target.data is NULL", [](auto& t, auto&) { t.data = nullptr; }},
      {"both set", [&](auto& t, auto&) { t.pointers = no_pointers.data(); }},
      {"draft.pointers[0] is NULL",
       [&](auto&, auto& d) {
         d.data = nullptr;
         d.pointers = no_pointers.data();
       }},
      {"target.row_stride = -1", [](auto& t, auto&) { t.row_stride = -1; }},
      {"target.element_stride = -1", [](auto& t, auto&) { t.element_stride = -1; }},
      {"target.element_stride = 9223372036854775807", [](auto& t, auto&) { t.element_stride = INT64_MAX; }},
      {"target.row_stride = 9223372036854775807", [](auto& t, auto&) { t.row_stride = INT64_MAX; }},
      {"target.temperature = 0", [](auto& t, auto&) { t.kind = SPECDEC_LOGITS; }},
      {"draft.temperature = inf",
       [](auto&, auto& d) {
         d.kind = SPECDEC_LOGITS;
         d.temperature = std::numeric_limits<double>::infinity();
       }},
      {"draft.temperature = nan",
       [](auto&, auto& d) {
         d.kind = SPECDEC_LOGITS;
         d.temperature = std::nan("");
       }},
      {"lists hold float or double",
       [](auto& t, auto&) {
         t.kind = SPECDEC_LISTS;
         t.scalar = SPECDEC_HALF;
       }},
      {"target.offsets is NULL", [](auto& t, auto&) { t.kind = SPECDEC_LISTS; }},
      {"target.offsets[2] = 2, after 3",
       [&](auto& t, auto&) {
         t.kind = SPECDEC_LISTS;
         t.offsets = descending.data();
       }},
      {"target.ids is NULL",
       [&](auto& t, auto&) {
         t.kind = SPECDEC_LISTS;
         t.offsets = to_nowhere.data();
       }},
  };
  const Floats f;
  for (const Case& each : cases) {
    INFO(each.word);
    specdec_rows target = f.c_target, draft = f.c_draft;
    each.spoil(target, draft);
    const Outcome out = in_c(SPECDEC_BLOCK, &target, &draft, f.tokens, 1);
    CHECK(out.status == SPECDEC_INVALID_ARGUMENT);
    CHECK_THAT(out.error, Catch::Contains(each.word));
    CHECK(out.verdict == Verdict{-7, -7});
    CHECK(out.offset == 7);
  }
}

TEST_CASE("arguments that are no rows are named") {
  const Floats f;
  const auto fails = [](const Outcome& out, const char* word,
                        specdec_status status = SPECDEC_INVALID_ARGUMENT) {
    CHECK(out.status == status);
    CHECK_THAT(out.error, Catch::Contains(word));
  };
  fails(in_c(SPECDEC_BLOCK, nullptr, &f.c_draft, f.tokens, 1), "target is NULL");
  fails(in_c(SPECDEC_BLOCK, &f.c_target, nullptr, f.tokens, 1), "draft is NULL");
  fails(in_c(SPECDEC_GREEDY_BLOCK, &f.c_target, &f.c_draft, f.tokens, 1), "specdec_verify_greedy_block");
  fails(in_c(SPECDEC_TRAVERSAL, &f.c_target, &f.c_draft, f.tokens, 1), "rule = 16 is no rule for lines");
  fails(in_c(SPECDEC_BLOCK, &f.c_target, &f.c_draft, f.tokens, 1, &tree), "rule = 0 is no rule for trees");
  const std::vector<Token> unknown{0, 0, 0, 0, vocabulary}, no_tree{0, -1, -1, -1, -1};
  fails(in_c(SPECDEC_BLOCK, &f.c_target, &f.c_draft, unknown, 1), "tokens[4] = 1500 is outside");
  fails(in_c(SPECDEC_K_SEQ, &f.c_target, &f.c_draft, f.tokens, 1, &no_tree), "parents[0] = 0 is outside");

  specdec_philox rng = {};
  specdec_verdict verdict = {};
  std::array<char, 60> error{};
  const auto call = [&](const Token* tokens, Index length, specdec_philox* source, specdec_verdict* out) {
    return Outcome{specdec_verify(SPECDEC_BLOCK, &f.c_target, &f.c_draft, tokens, length, source, out,
                                  error.data(), error.size()),
                   {},
                   {},
                   0,
                   error.data()};
  };
  fails(call(nullptr, gamma, &rng, &verdict), "tokens is NULL");
  fails(call(f.tokens.data(), -1, &rng, &verdict), "gamma = -1");
  fails(call(f.tokens.data(), gamma, nullptr, &verdict), "rng is NULL");
  fails(call(f.tokens.data(), gamma, &rng, nullptr), "verdict is NULL");
  CHECK(specdec_greedy_block_create(nullptr, nullptr, 0) == SPECDEC_INVALID_ARGUMENT);
}

TEST_CASE("bad numbers are told by matrix and row; a list that does not ascend is one of them") {
  Floats f;
  f.target.row(0).setConstant(std::nanf(""));
  const Outcome nan = in_c(SPECDEC_BLOCK, &f.c_target, &f.c_draft, f.tokens, 1);
  CHECK(nan.status == SPECDEC_INVALID_DISTRIBUTION);
  CHECK_THAT(nan.error, Catch::Contains("target row 0"));
  CHECK(nan.offset == 7);

  const Lists<float> target(gamma + 1, 1);
  Lists<float> draft(gamma, 2);
  std::mt19937_64 rng(1);
  const std::vector<Token> tokens = drawn_from(rows_of(RowSpan{draft.rows_of_cpp, vocabulary}), rng);
  const specdec_rows c_target = target.described(SPECDEC_FLOAT);
  std::swap(draft.ids[1], draft.ids[2]);
  specdec_rows c_draft = draft.described(SPECDEC_FLOAT);
  const Outcome swapped = in_c(SPECDEC_BLOCK, &c_target, &c_draft, tokens, 1);
  CHECK(swapped.status == SPECDEC_INVALID_DISTRIBUTION);
  CHECK_THAT(swapped.error, Catch::Contains("draft row 0: the ids of a sparse row do not ascend"));
  draft.offsets.assign(gamma + 1, 0);
  const Outcome empty = in_c(SPECDEC_BLOCK, &c_target, &c_draft, tokens, 1);
  CHECK(empty.status == SPECDEC_INVALID_ARGUMENT);
  CHECK_THAT(empty.error, Catch::Contains("has probability 0 in draft row 0"));
}

TEST_CASE("a list without mass is a dead end, which fails where it is drawn from") {
  // After token 0, which is drafted, nothing is allowed.
  const std::array<std::int32_t, 2> ids{0, 1};
  const std::array<std::int64_t, 3> offsets{0, 2, 2};
  const std::array<double, 2> numbers{0.75, 0.25};
  const specdec_rows target = lists(2, offsets.data(), ids.data(), numbers.data());
  specdec_rows draft = lists(1, offsets.data(), ids.data(), numbers.data());
  const std::vector<Token> accepted{0};
  const Outcome fails = in_c(SPECDEC_BLOCK, &target, &draft, accepted, 1);
  CHECK(fails.status == SPECDEC_INVALID_DISTRIBUTION);
  CHECK_THAT(fails.error, Catch::Contains("target row 1: the probabilities sum to 0"));
  const std::array<double, 2> others{0.25, 0.75};
  draft.data = others.data();  // accepted surely; and with token 1, rejected with probability 2/3
  Index failed = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed)
    if (in_c(SPECDEC_BLOCK, &target, &draft, std::vector<Token>{1}, seed).status != SPECDEC_OK) ++failed;
  CHECK(failed > 5);
  CHECK(failed < 40);
}

TEST_CASE("a list that is longer than its vocabulary is refused before it is read") {
  const std::array<std::int32_t, 1> ids{0};
  const std::array<std::int64_t, 2> offsets{0, std::int64_t{1} << 60};
  const std::array<double, 1> numbers{1};
  const specdec_rows target = lists(1, offsets.data(), ids.data(), numbers.data());
  const Outcome found = in_c(SPECDEC_SAMPLE_MATCH, &target, nullptr, {}, 1);
  CHECK(found.status == SPECDEC_INVALID_ARGUMENT);
  CHECK_THAT(found.error, Catch::Contains("a list of more tokens than .vocab_size = 3"));
}

TEST_CASE("buffers for errors that are larger than memory do not overflow") {
  std::array<char, 200> text{};
  text.fill('x');
  const specdec::detail::ErrorText huge{text.data(), std::numeric_limits<std::size_t>::max()};
  huge.set("abc");
  CHECK(std::string(text.data()) == "abc");

  Floats f;
  std::array<specdec_status, 2> statuses{};
  specdec_batch batch = {};
  batch.drafts = 2;
  batch.target = &f.c_target;
  batch.statuses = statuses.data();
  batch.errors = text.data();
  batch.error_size = std::numeric_limits<std::size_t>::max() / 2 + 1;
  CHECK(specdec_verify_batch(&batch) == SPECDEC_INVALID_ARGUMENT);
  CHECK_THAT(std::string(text.data()), Catch::Contains("for each of 2 drafts is more than fits into memory"));
}

TEST_CASE("an error of any kind is a status and a text, which the buffer cuts") {
  std::array<char, 8> text{};
  const specdec::detail::ErrorText error{text.data(), text.size()};
  using specdec::detail::status_of;
  CHECK(status_of(error, [] { throw std::bad_alloc(); }) == SPECDEC_OUT_OF_MEMORY);
  CHECK(status_of(error, [] { detail::invalid_argument("n = ", -1); }) == SPECDEC_INVALID_ARGUMENT);
  CHECK(status_of(error, [] { detail::invalid_distribution("nan"); }) == SPECDEC_INVALID_DISTRIBUTION);
  CHECK(status_of(error, [] { detail::invalid_call("not now"); }) == SPECDEC_INVALID_CALL);
  CHECK(status_of(error, [] { detail::external_failure("no disk"); }) == SPECDEC_UNEXPECTED_ERROR);
  CHECK(std::string(text.data()) == "specdec");
  CHECK(status_of(error, [] { throw std::runtime_error("abc"); }) == SPECDEC_UNEXPECTED_ERROR);
  CHECK(std::string(text.data()) == "abc");
  CHECK(status_of(error, [] { throw 7; }) == SPECDEC_UNEXPECTED_ERROR);
  CHECK(status_of(error, [] {}) == SPECDEC_OK);
  CHECK(std::string(text.data()).empty());
  text[0] = 'x';
  CHECK(status_of({text.data(), 0}, [] { throw 7; }) == SPECDEC_UNEXPECTED_ERROR);
  CHECK(text[0] == 'x');
  CHECK(specdec_c_version() == SPECDEC_C_VERSION);
}

}  // namespace test_more_c_specdec
