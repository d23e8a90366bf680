// Concepts. For each concept there is an archetype with the required members and no others; running it shows that
// these members are enough. (tests/compile/ holds what must not compile.)
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits/audited_drafter.hpp>
#include <specdec/more/drafters/cascade_drafter.hpp>
#include <specdec/more/drafters/prompt_lookup.hpp>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/catch.hpp"

namespace law_concepts {

using namespace specdec;

namespace {

// ---- Archetypes: only the members that the concept names, no default constructor, no assignment ----

struct Sampler {
  Token operator()(double u) { return u < 0.25 ? 0 : 1; }
};

struct Row {
  explicit Row(int) {}
  Row& operator=(const Row&) = delete;
  Row(const Row&) = default;
  int vocab_size() const { return 2; }
  float probability(Token x) const { return x == 0 ? 0.25f : 0.75f; }
  Sampler sampler() const { return {}; }
  Token argmax() const { return 1; }
};

struct UnsizedRows {
  explicit UnsizedRows(int rows) : rows_(rows) {}
  UnsizedRows& operator=(const UnsizedRows&) = delete;
  UnsizedRows(const UnsizedRows&) = default;
  int rows() const { return rows_; }
  Row row(Index) const { return Row(0); }

 private:
  int rows_;
};

struct Rows : UnsizedRows {
  using UnsizedRows::UnsizedRows;
  int vocab_size() const { return 2; }
};

// Its rows are not an Eigen matrix, and forward() is not const.
struct LeastModel {
  LeastModel() = default;
  LeastModel(LeastModel&&) = default;  // a model may be movable only
  int vocab_size() const { return 2; }
  Rows forward(std::span<const Token> tokens, Index rows) {
    length += static_cast<Index>(tokens.size());
    return Rows(static_cast<int>(rows));
  }
  void truncate(Index n) { length = std::min(length, n); }
  Index length = 0;
};

struct LeastTreeModel : LeastModel {
  using LeastModel::forward;
  Rows forward(std::span<const Token>, std::span<const Index>, Index rows) {
    return Rows(static_cast<int>(rows));
  }
  void keep(std::span<const Index> path) { length += std::ssize(path); }
};

struct LeastDraft {
  std::vector<Token> tokens;  // anything that converts to a span
  UnsizedRows rows;
};

struct LeastDrafter {
  LeastDraft draft(std::span<const Token>, Index gamma, auto&) {
    if (gamma == 0) return {{}, UnsizedRows(0)};
    return {{1}, UnsizedRows(1)};
  }
  void truncate(Index) {}
};

struct LeastChance {
  bool coin(double h) { return h > 0.5; }
  Token draw(const auto& row, Index /*place*/ = 0) { return row.argmax(); }
  std::optional<Token> race(double, const auto& p, const auto&) { return p.argmax(); }
  std::optional<Token> race(double, const auto& p) { return p.argmax(); }
};

struct LeastVerifier {
  Verdict judge(const auto&, auto&) { return {0, 1}; }
};

static_assert(Distribution<Row>);
static_assert(DistributionMatrix<UnsizedRows> && !has_vocab_size<UnsizedRows>);
static_assert(DistributionMatrix<Rows> && has_vocab_size<Rows>);
static_assert(Probabilities<Rows> && !NumberMatrix<Rows>);
static_assert(Model<LeastModel> && !std::copy_constructible<LeastModel> && !has_stable_rows<LeastModel>);
static_assert(takes_trees<LeastTreeModel> && !takes_trees<LeastModel>);
static_assert(OneTextDrafter<LeastDrafter> && OneTextDrafter<LeastDrafter, LeastChance>);
static_assert(Chance<LeastChance> && RandomSource<LeastChance>);
static_assert(Verifier<LeastVerifier>);

// ---- What the library itself offers ----

static_assert(Verifier<TokenVerifier> && Verifier<BlockVerifier> && Verifier<GreedyBlockVerifier>);
static_assert(Verifier<ArgmaxVerifier> && Verifier<SampleMatchVerifier> && Verifier<LenientVerifier>);
static_assert(std::default_initializable<BlockVerifier> && std::default_initializable<GreedyBlockVerifier>);
static_assert(Verifier<BlockVerifier, Drafted<Rows, UnsizedRows>, LeastChance>);
static_assert(Verifier<BlockVerifier, Drafted<Rows, OneHotRows>, testing::Enumerator>);
static_assert(Chance<RandomChance<std::mt19937>> && Chance<testing::Enumerator>);
static_assert(Model<testing::TableModel<float>> && Model<testing::TableModel<double>>);
static_assert(takes_trees<testing::TableModel<float>> && takes_trees<PathByPath<LeastModel>>);
static_assert(OneTextDrafter<NoDrafter> && OneTextDrafter<PromptLookupDrafter>);
static_assert(OneTextDrafter<ModelDrafter<testing::TableModel<float>>>);
static_assert(Distribution<OneHotRow> && Distribution<DenseRow<float>> &&
              Distribution<DenseRow<double, Eigen::Dynamic>>);
static_assert(Distribution<ResidualRow<DenseRow<float>, OneHotRow>>);
static_assert(Distribution<LogitsRow<float>> && ArgmaxRow<LogitsRow<double>> &&
              SegmentedRow<LogitsRow<float>>);
static_assert(Distribution<SampledRow<SparseRow<float>>> && ListedRow<SampledRow<SparseRow<float>>>);
static_assert(Distribution<ResidualRow<SparseRow<double>, LogitsRow<float>>>);
static_assert(DistributionMatrix<Logits<NumbersOf<Eigen::MatrixXf>>> &&
              has_vocab_size<Logits<NumbersOf<Eigen::MatrixXf>>> &&
              DistributionMatrix<Logits<RowPointers<float>>> && has_vocab_size<Logits<RowPointers<float>>>);
static_assert(DistributionMatrix<SampledRows<Logits<RowPointers<float>>>> &&
              has_vocab_size<SampledRows<Logits<RowPointers<float>>>> &&
              !has_vocab_size<SampledRows<OneHotRows>>);
static_assert(Verifier<GreedyBlockVerifier, SampledRows<Logits<RowPointers<Eigen::half>>>,
                       RowSpan<SparseRow<float, std::int64_t>>>);

// ---- Which Eigen expressions count as probabilities ----

using RowMajorF = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
static_assert(NumberMatrix<Eigen::MatrixXd> && NumberMatrix<RowMajorF>);
static_assert(NumberMatrix<Eigen::Matrix3f> && NumberMatrix<Eigen::ArrayXXf>);
static_assert(NumberMatrix<Eigen::RowVectorXf>);
static_assert(NumberMatrix<Eigen::Matrix<Eigen::half, 2, 3>> && NumberMatrix<RowPointers<Eigen::bfloat16>>);
static_assert(NumberMatrix<Eigen::Map<const RowMajorF, 0, Eigen::OuterStride<>>>);
static_assert(NumberMatrix<Eigen::Ref<const Eigen::MatrixXd>>);
static_assert(NumberMatrix<decltype(std::declval<Eigen::MatrixXd&>().topRows(1))>);
static_assert(NumberMatrix<decltype(std::declval<const Eigen::MatrixXd&>().transpose())>);
static_assert(!NumberMatrix<decltype(std::declval<Eigen::MatrixXd&>() + std::declval<Eigen::MatrixXd&>())>);
static_assert(!NumberMatrix<decltype(2.0 * std::declval<Eigen::MatrixXd&>())>);
static_assert(!NumberMatrix<decltype(std::declval<Eigen::MatrixXf&>().cast<double>())>);
static_assert(!NumberMatrix<Eigen::MatrixXi> && !NumberMatrix<Eigen::MatrixXcd>);
static_assert(!Probabilities<std::vector<double>> && !Probabilities<double> && !Probabilities<Row>);

// ---- Types that do not fit a concept ----

struct ModelWithoutTruncate {
  Index vocab_size() const;
  Eigen::MatrixXd forward(std::span<const Token>, Index);
};
struct ModelOfExpressions : ModelWithoutTruncate {
  decltype(Eigen::MatrixXd() + Eigen::MatrixXd()) forward(std::span<const Token>, Index);
  void truncate(Index);
};
struct RowWithWrongSampler : Row {
  struct WrongSampler {
    int* operator()(double) const;
  };
  WrongSampler sampler() const;
};
struct RowWithoutSampler : Row {
  int sampler() const;
};
static_assert(!Model<ModelWithoutTruncate> && !Model<ModelOfExpressions> && !Model<int>);
static_assert(!OneTextDrafter<LeastModel> && !OneTextDrafter<int>);
static_assert(!Distribution<RowWithWrongSampler> && !Distribution<RowWithoutSampler>);
static_assert(!RandomSource<std::vector<int>> && !RandomSource<int> && !Chance<std::mt19937>);
static_assert(!Verifier<Row> && !Verifier<int>);

}  // namespace

TEST_CASE("verifiers take rows that are not an Eigen matrix") {
  const std::vector<Token> tokens{1, 0};
  std::mt19937_64 rng(1);
  // p = q: all rules except argmax and sample-and-match accept both tokens.
  CHECK(TokenVerifier{}(Rows(3), UnsizedRows(2), tokens, rng).accepted == 2);
  CHECK(BlockVerifier{}(Rows(3), UnsizedRows(2), tokens, rng).accepted == 2);
  GreedyBlockVerifier greedy_block;
  CHECK(greedy_block(Rows(3), Rows(2), tokens, rng).accepted == 2);
  CHECK(LenientVerifier{0.5}(Rows(3), UnsizedRows(2), tokens, rng).accepted == 2);
  CHECK(ArgmaxVerifier{}(Rows(3), UnsizedRows(2), tokens, rng) == Verdict{1, 1});
  CHECK(SampleMatchVerifier{}(Rows(3), tokens, rng).accepted <= 2);
}

#ifndef SPECDEC_TEST_SOME
TEST_CASE("verifiers mix kinds of rows") {
  const std::vector<Token> tokens{1};
  std::mt19937_64 rng(1);
  const Eigen::MatrixXf dense = Eigen::RowVector2f(0.25f, 0.75f).replicate(2, 1);
  CHECK(BlockVerifier{}(dense, Rows(1), tokens, rng).accepted == 1);
  CHECK(BlockVerifier{}(Rows(2), dense.topRows(1), tokens, rng).accepted == 1);
  CHECK(TokenVerifier{}(dense, UnsizedRows(1), tokens, rng).accepted == 1);
  const Verdict v = BlockVerifier{}(Rows(2), OneHotRows(tokens), tokens, rng);
  CHECK((v.accepted == 1 || v.token == 0));
}
#endif

TEST_CASE("verifiers need no more of a source of chance than its concept asks for") {
  const std::vector<Token> tokens{1};
  LeastChance chance;
  CHECK(BlockVerifier{}(Rows(2), Rows(1), tokens, chance) == Verdict{1, 1});
  CHECK(TokenVerifier{}(Rows(2), Rows(1), tokens, chance) == Verdict{1, 1});
}

TEST_CASE("the loop needs no more of models, drafters and verifiers than their concepts ask for") {
  const std::vector<Token> prompt{0, 1};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  std::mt19937_64 rng(1);

  SECTION("every part offers only what its concept asks for") {
    LeastModel target;
    SpecDec decoder{target, LeastDrafter{}, LeastVerifier{}};
    CHECK(decoder.generate(prompt, options, rng).tokens == std::vector<Token>(20, 1));
  }
  SECTION("a move-only model, moved in") {
    SpecDec decoder{LeastModel{}, ModelDrafter{LeastModel{}}, BlockVerifier{}};
    const Result r = decoder.generate(prompt, options, rng);
    CHECK(r.tokens.size() == 20);
    CHECK(r.stats.target_calls == 5);  // three tokens drafted per step, p = q: every draft is accepted
  }
  SECTION("a drafter with only the required members works with the library's verifiers") {
    LeastModel target;
    LeastDrafter drafter;
    SpecDec decoder{target, drafter, TokenVerifier{}};
    const Result r = decoder.generate(prompt, options, rng);
    CHECK(r.tokens.size() == 20);
    CHECK(r.stats.accepted == r.stats.drafted);  // p = q
  }
}

namespace {

// One Markov source that hands out its rows in several ways. All of them must write the same text.
class Source {
 public:
  Index vocab_size() const { return 3; }
  void truncate(Index length) {
    if (length < std::ssize(context_)) context_.resize(static_cast<std::size_t>(length));
  }

 protected:
  void take(std::span<const Token> tokens) { context_.insert(context_.end(), tokens.begin(), tokens.end()); }

  Eigen::RowVector3d after(Index length) const {
    Eigen::RowVector3d p(0.5, 0.25, 0.125);
    p[context_[static_cast<std::size_t>(length - 1)]] += 0.125;
    return p;
  }

  Index length() const { return std::ssize(context_); }

  Eigen::MatrixXd last(Index rows) const {
    Eigen::MatrixXd out(rows, 3);
    for (Index i = 0; i < rows; ++i) out.row(i) = after(length() - rows + 1 + i);
    return out;
  }

 private:
  std::vector<Token> context_;
};

struct ByValue : Source {
  Eigen::MatrixXd forward(std::span<const Token> tokens, Index rows) {
    take(tokens);
    return last(rows);
  }
};

struct ByReference : Source {
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    take(tokens);
    return held = last(rows);
  }
  Eigen::MatrixXd held;
};

// Like an engine with its own buffer and padded rows: each call overwrites the rows of the last one and poisons the
// unused part.
struct ByMap : Source {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<const Matrix, 0, Eigen::OuterStride<>> forward(std::span<const Token> tokens, Index rows) {
    take(tokens);
    buffer.assign(static_cast<std::size_t>(rows * 8), std::numeric_limits<double>::quiet_NaN());
    Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(buffer.data(), rows, 3, Eigen::OuterStride<>(8)) = last(rows);
    return {buffer.data(), rows, 3, Eigen::OuterStride<>(8)};
  }
  std::vector<double> buffer;
};

// Its rows stay valid until their positions are truncated away, and the type says so.
struct Stable : Source {
  static constexpr bool stable_rows = true;

  struct View {
    Index rows() const { return count; }
    Index vocab_size() const { return 3; }
    DenseRow<double> row(Index i) const { return {(first + i)->data(), 3}; }
    std::deque<Eigen::RowVector3d>::const_iterator first;
    Index count;
  };

  View forward(std::span<const Token> tokens, Index rows) {
    take(tokens);
    while (std::ssize(held) < length()) held.push_back(after(std::ssize(held) + 1));
    return {held.cend() - rows, rows};
  }
  void truncate(Index length) {
    Source::truncate(length);
    if (length < std::ssize(held)) held.resize(static_cast<std::size_t>(length));
  }
  std::deque<Eigen::RowVector3d> held;
};

static_assert(Model<ByValue> && Model<ByReference> && Model<ByMap> && Model<Stable>);
static_assert(has_stable_rows<Stable> && !has_stable_rows<ByMap>);

template <class Target, class Small>
std::vector<Token> text() {
  const std::vector<Token> prompt{2, 0};
  std::mt19937_64 rng(5);
  SpecDec decoder{Target{}, ModelDrafter{Small{}}, BlockVerifier{}};
  const Options options{.max_new_tokens = 40, .gamma = 3};
  return decoder.generate(prompt, options, rng).tokens;
}

}  // namespace

TEST_CASE("a model may hand out its rows by value, by reference, as a map, or for longer than one call") {
  const auto expected = text<ByValue, ByValue>();
#ifndef SPECDEC_TEST_SOME
  CHECK(text<ByReference, ByMap>() == expected);
#endif
  CHECK(text<ByMap, Stable>() == expected);
#ifndef SPECDEC_TEST_SOME
  CHECK(text<Stable, ByReference>() == expected);
#endif
}

namespace {

// The probabilities of all tokens at each node of a tree that follows a prompt of two tokens.
template <class M>
std::vector<double> of_tree() {
  PathByPath model{M{}};
  const std::vector<Token> prompt{2, 0}, tokens{1, 2, 0, 1, 2};
  const std::vector<Index> parents{-1, -1, 0, 1, 0};
  model.forward(prompt, 1);
  const auto rows = model.forward(tokens, parents, 5);
  std::vector<double> all;
  for (Index i = 0; i < 5; ++i)
    for (Token x = 0; x < 3; ++x) all.push_back(distributions(rows).row(i).probability(x));
  return all;
}

}  // namespace

TEST_CASE(
    "a model for lines wrapped for trees may hand out its rows by value, by reference, as a map, or for "
    "longer") {
  std::vector<double> expected;
  for (const Token last : {1, 2, 0, 1, 2})
    for (Token x = 0; x < 3; ++x)
      expected.push_back((x == 0 ? 0.5 : x == 1 ? 0.25 : 0.125) + (x == last) / 8.0);
#ifndef SPECDEC_TEST_SOME
  CHECK(of_tree<ByValue>() == expected);
  CHECK(of_tree<ByReference>() == expected);
#endif
  CHECK(of_tree<ByMap>() == expected);
  CHECK(of_tree<Stable>() == expected);
}

namespace {

// Three values, none of them 0: the worst range that a generator may have.
struct OddGenerator {
  using result_type = unsigned;
  static constexpr result_type min() { return 5; }
  static constexpr result_type max() { return 7; }
  result_type operator()() { return 5 + static_cast<result_type>(engine() % 3); }
  std::mt19937 engine{3};
};

// How many of 3000 drafts of one token are accepted. Two thirds should be.
template <class Generator>
int accepted_of_3000() {
  static_assert(RandomSource<Generator>);
  const Eigen::Matrix2d target = Eigen::RowVector2d(0.5, 0.5).replicate(2, 1);
  const Eigen::RowVector2d draft(0.25, 0.75);
  const std::vector<Token> tokens{1};
  Generator rng;
  TokenVerifier verifier;
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) accepted += static_cast<int>(verifier(target, draft, tokens, rng).accepted);
  return accepted;
}

}  // namespace

namespace {

// Drafters that may end a draft depending on a row.
struct Unsteady {
  static constexpr bool steady = false;
  Draft<RowSpan<DenseRow<double>>> draft(std::span<const Token>, Index, auto&) { return {{}, {{}, 2}}; }
  void truncate(Index) {}
};
struct UnsteadyTogether {
  static constexpr bool steady = false;
  void draft(auto) {}
  Draft<RowSpan<DenseRow<double>>> drafted(Index) const { return {{}, {{}, 2}}; }
  void keep(Index, Index) {}
  void release(Index) {}
};
static_assert(OneTextDrafter<Unsteady> && Drafter<UnsteadyTogether>);

}  // namespace

TEST_CASE("every wrapper of a drafter that is not steady is known to be not steady") {
  using Model = testing::TableModel<>;
  CHECK(is_steady<ModelDrafter<Model>>);
  CHECK(is_steady<ModelDrafter<CommonTokens<Model>>>);
  CHECK(!is_steady<Unsteady>);
  CHECK(is_steady<testing::AuditedDrafter<ModelDrafter<Model>>>);
  CHECK(!is_steady<testing::AuditedDrafter<Unsteady&>>);
  CHECK(is_steady<FallbackDrafter<ModelDrafter<Model>>>);
  CHECK(!is_steady<FallbackDrafter<Unsteady&>>);
  CHECK(!is_steady<
        FallbackDrafter<ModelDrafter<Model>, ModelDrafter<Model>>>);  // another drafter may draft a position
  CHECK(is_steady<CascadeDrafter<Model, Unsteady>>);                  // its drafts are never cut
  CHECK(!is_steady<UnsteadyTogether>);
  CHECK(is_steady<ModelDrafter<ModelPerSequence<Model>>>);
}

TEST_CASE("which rules remember their sequence") {
  CHECK(remembers_sequence<GreedyBlockVerifier>);
  CHECK(!remembers_sequence<BlockVerifier>);
  CHECK(!remembers_sequence<TrunkAndSpares<BlockVerifier>>);
}

TEST_CASE("any uniform random bit generator will do") {
  // 200 are almost 8 standard deviations.
#ifndef SPECDEC_TEST_SOME
  CHECK(std::abs(accepted_of_3000<std::mt19937>() - 2000) < 200);
#endif
  CHECK(std::abs(accepted_of_3000<std::mt19937_64>() - 2000) < 200);
#ifndef SPECDEC_TEST_SOME
  CHECK(std::abs(accepted_of_3000<std::minstd_rand>() - 2000) < 200);
  CHECK(std::abs(accepted_of_3000<std::ranlux24_base>() - 2000) < 200);
#endif
  CHECK(std::abs(accepted_of_3000<OddGenerator>() - 2000) < 200);
}

}  // namespace law_concepts
