// ProcessedRows and ProcessedModel: lazy rows, hooks, and the loop over them.
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/min_p.hpp>
#include <specdec/sample/processed_model.hpp>
#include <specdec/sample/processed_rows.hpp>
#include <specdec/sample/temperature.hpp>
#include <specdec/sample/top_k.hpp>
#include <specdec/sample/top_p.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

using Tokens = std::span<const Token>;
using Penalty = Eigen::Ref<Eigen::Matrix<double, 1, Eigen::Dynamic>>;

// Logits by the last two tokens.
template <class S = double>
class LogitsTable {
 public:
  using Rows = RowMajor<S>;

  LogitsTable(Index vocab_size, unsigned seed) : table_((vocab_size + 1) * (vocab_size + 1), vocab_size) {
    std::mt19937_64 rng{seed};
    std::normal_distribution<double> normal(0, 1.5);
    for (S& l : table_.reshaped()) l = static_cast<S>(normal(rng));
  }

  Index vocab_size() const { return table_.cols(); }

  const Rows& forward(Tokens tokens, Index rows) {
    if (throws_on_forward) throw std::runtime_error("out of memory");
    context.insert(context.end(), tokens.begin(), tokens.end());
    output_.resize(rows, vocab_size());
    for (Index i = 0; i < rows; ++i)
      output_.row(i) = row(Tokens(context).first(context.size() - static_cast<std::size_t>(rows - 1 - i)));
    if (extra_row) output_.conservativeResize(rows + 1, Eigen::NoChange);
    if (extra_column) output_.conservativeResize(Eigen::NoChange, vocab_size() + 1);
    return output_;
  }

  void truncate(Index length) {
    if (length < std::ssize(context)) context.resize(static_cast<std::size_t>(length));
  }

  auto row(Tokens tokens) const {
    Index state = 0;
    for (const Token x : tokens.last(std::min<std::size_t>(2, tokens.size())))
      state = state * (vocab_size() + 1) + x + 1;
    return table_.row(state);
  }

  std::vector<Token> context;
  bool throws_on_forward = false, extra_row = false, extra_column = false;

 private:
  Rows table_, output_;
};

// A token is not said twice in a row, and there is a price on those that have been said before.
struct Repetition {
  void operator()(Tokens context, Penalty logits) const {
    for (const Token x : context) logits[x] -= 0.25;
    logits[context.back()] = -infinity;
  }
};

struct Stable : LogitsTable<> {
  using LogitsTable::LogitsTable;
  static constexpr bool stable_rows = true;
};

// The law of the target alone, straight from its table.
template <class Steps, class Hook>
struct ProcessedTable {
  const LogitsTable<>& table;
  Steps steps;
  Hook hook;
  mutable std::vector<std::unique_ptr<RowMajor<double>>> rows = {};

  auto distribution(Tokens context) const {
    rows.push_back(std::make_unique<RowMajor<double>>(table.row(context)));
    if constexpr (!std::same_as<Hook, NoHook>) hook(context, rows.back()->row(0));
    return steps(LogitsRow(numbers(*rows.back()).row(0)));
  }
};

template <class V, class Steps, class Hook>
void check_law(const V& verifier, const Steps& steps, const Hook& hook, Index vocab_size, unsigned seed) {
  LogitsTable<> large(vocab_size, seed), small(vocab_size, seed + 1);
  for (const Index gamma : {1, 2}) {
    ModelDrafter drafter{ProcessedModel{small, steps, hook}};
    SpecDec decoder{ProcessedModel{large, steps, hook}, drafter, verifier};
    const std::vector<Token> prompt{1};
    const Options options{.max_new_tokens = 4, .gamma = gamma};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    const Law expected = target_law(ProcessedTable<Steps, Hook>{large, steps, hook}, prompt, options);
    CHECK(largest_difference(got.law, expected).size < 1e-12);
  }
}

}  // namespace

static_assert(Model<ProcessedModel<LogitsTable<>&, Chain<TopK>>>);
static_assert(Model<ProcessedModel<LogitsTable<float>, Chain<>,
                                   decltype([](Tokens, Eigen::Ref<Eigen::RowVectorXf>) {})>>);
static_assert(
    SizedDistributionMatrix<decltype(ProcessedRows(std::declval<const Eigen::MatrixXf&>(), TopK(3)))>);
static_assert(ArgmaxRow<ProcessedRow<float, 1, TopK>> && SummableRow<ProcessedRow<float, 1, TopK>> &&
              BlockRow<ProcessedRow<float, 1, TopK>>);

TEMPLATE_TEST_CASE("processed rows are what the chain makes of each row", "", AsRowMajor<float>,
                   AsColMajor<double>, AsStridedMap<float>, AsRowMajor<Eigen::half>) {
  using S = typename TestType::Scalar;
  std::mt19937_64 rng{1};
  std::normal_distribution<float> normal;
  RowMajor<S> m(3, 900);
  for (S& l : m.reshaped()) l = static_cast<S>(normal(rng));
  TestType layout;
  layout.hold(m);
  const auto& view = std::as_const(layout).view();
  const Chain chain{Temperature(0.8), TopK(40), TopP(0.9)};
  const ProcessedRows rows(view, chain);
  REQUIRE(rows.rows() == 3);
  REQUIRE(rows.vocab_size() == 900);
  for (Index i = 0; i < 3; ++i) {
    const auto row = rows.row(i);
    const auto expected = chain(LogitsRow(numbers(view).row(i)));
    CHECK(row.vocab_size() == 900);
    CHECK(row.argmax() == expected.argmax());
    for (Token x = 0; x < 900; ++x) {
      CHECK(row.probability(x) == expected.probability(x));
      CHECK(row.possible(x));
    }
    CHECK(row.sum(0, 900) == Approx(1).epsilon(1e-5));
    CHECK(row.sum(3, 500) == expected.sum(3, 500));
    CHECK((row.block(5, 300) == expected.block(5, 300)).all());
    auto sampler = row.sampler(), same = expected.sampler();
    for (int k = 0; k < 100; ++k) CHECK(sampler(k * 0.01) == same(k * 0.01));
    std::vector<S> copy(900);
    row.logits().copy_to(copy.data());
    for (const auto& original : {rows.row(i), row})  // before and after its chain has run
      CHECK(original.over(copy.data()).probability(7) == expected.probability(7));
  }
}

TEST_CASE("the chain of a row runs once, and only for a question that needs it") {
  int runs = 0;
  Eigen::RowVectorXf bad = Eigen::RowVectorXf::Constant(3, static_cast<float>(nan_value));
  const ProcessedRows unread(bad, Chain{TopK(1), TopP(0.5)});
  (void)unread.row(0);  // not an error before it is read
  Eigen::RowVectorXf logits(3);
  logits << 1, -std::numeric_limits<float>::infinity(), 2;
  struct Once {
    int* runs;
    LogitsRow<float> operator()(const LogitsRow<float>& row) const {
      ++*runs;
      return row;
    }
  };
  const ProcessedRows rows(logits, Once{&runs});
  const auto row = rows.row(0);
  CHECK(row.possible(0));
  CHECK(!row.possible(1));
  CHECK(row.argmax() == 2);
  CHECK(runs == 0);
  CHECK(row.probability(0) == Approx(1 / (1 + std::exp(1.0))));
  CHECK(row.sum(0, 3) == Approx(1));
  CHECK(row.sampler()(0.9) == 2);
  CHECK(runs == 1);
}

TEST_CASE("a processed model serves its rows in every way a model may") {
  LogitsTable<> table(5, 3);
  const Chain chain{TopK(3)};
  ProcessedModel referred{table, chain};
  const std::vector<Token> tokens{1, 2, 3};
  const auto rows = referred.forward(tokens, 2);
  CHECK(rows.rows() == 2);
  CHECK(table.context == tokens);
  referred.truncate(1);
  CHECK(table.context == std::vector<Token>{1});
  ProcessedModel owned{LogitsTable<>(5, 3), chain};
  CHECK(owned.forward(tokens, 1).row(0).probability(0) == rows.row(1).probability(0));

  // A model that returns its logits by value.
  struct ByValue {
    LogitsTable<> table{5, 3};
    Index vocab_size() const { return 5; }
    RowMajor<double> forward(Tokens t, Index n) { return table.forward(t, n); }
    void truncate(Index n) { table.truncate(n); }
  };
  ProcessedModel by_value{ByValue{}, chain};
  CHECK(by_value.forward(tokens, 1).row(0).probability(0) == rows.row(1).probability(0));

  std::mt19937_64 rng{1};
  const ProcessedModel bounded{support::BoundedModel(testing::TableModel<>::random(5, 1, rng), 7), chain};
  CHECK(context_size(bounded) == 7);
  CHECK(context_size(referred) == std::numeric_limits<Index>::max());

  struct Nothing {
    void operator()(Tokens, Penalty) const {}
  };
  static_assert(has_stable_rows<ProcessedModel<Stable&, Chain<TopK>>>);
  static_assert(!has_stable_rows<ProcessedModel<Stable&, Chain<TopK>, Nothing>>, "the copy is written over");
  static_assert(!has_stable_rows<ProcessedModel<LogitsTable<>&, Chain<TopK>>>);
}

TEST_CASE("a hook sees the tokens that its row follows") {
  LogitsTable<float> table(4, 5);
  std::vector<std::vector<Token>> seen;
  const auto hook = [&seen](Tokens context, Eigen::Ref<Eigen::RowVectorXf> logits) {
    seen.emplace_back(context.begin(), context.end());
    logits[context.back()] = 50;
  };
  ProcessedModel model{table, Chain{TopK(1)}, hook};
  const std::vector<Token> first{0, 1, 2}, second{3, 3};
  auto rows = model.forward(first, 2);
  CHECK(seen == std::vector<std::vector<Token>>{{0, 1}, {0, 1, 2}});
  CHECK(rows.row(0).probability(1) == 1);
  CHECK(rows.row(1).probability(2) == 1);
  model.truncate(2);
  seen.clear();
  model.forward(second, 1);
  CHECK(seen == std::vector<std::vector<Token>>{{0, 1, 3, 3}});
  model.truncate(10);
  model.truncate(0);
  seen.clear();
  model.forward(second, 2);
  CHECK(seen == std::vector<std::vector<Token>>{{3}, {3, 3}});
}

TEST_CASE("a row that the hook leaves without a token is an error when it is read") {
  LogitsTable<> table(4, 5);
  ProcessedModel model{table, Chain{TopP(0.9)},
                       [](Tokens, Penalty logits) { logits.setConstant(-infinity); }};
  const std::vector<Token> tokens{0, 1};
  const auto rows = model.forward(tokens, 1);
  CHECK_THROWS_AS(rows.row(0).probability(0), InvalidDistribution);
  CHECK_THROWS_AS(rows.row(0).argmax(), InvalidDistribution);
}

TEST_CASE("a throw leaves the context of a processed model as it was") {
  LogitsTable<> table(4, 5);
  bool refuse = false;
  std::size_t length = 0;
  ProcessedModel model{table, Chain{TopP(0.9)}, [&](Tokens context, Penalty) {
                         length = context.size();
                         if (refuse) throw std::runtime_error("no");
                       }};
  const std::vector<Token> tokens{0, 1};
  model.forward(tokens, 1);
  table.throws_on_forward = true;
  CHECK_THROWS_AS(model.forward(tokens, 1), std::runtime_error);
  table.throws_on_forward = false;
  CHECK(table.context.size() == 2);
  refuse = true;
  CHECK_THROWS_AS(model.forward(tokens, 1), std::runtime_error);
  refuse = false;
  CHECK(table.context.size() == 2);
  table.extra_row = true;
  CHECK_THROWS_AS(model.forward(tokens, 1), std::invalid_argument);
  table.extra_row = false;
  CHECK(table.context.size() == 2);
  model.forward(tokens, 1);
  CHECK(length == 4);
}

TEST_CASE("logits of another shape than asked for are refused") {
  LogitsTable<> table(4, 5);
  ProcessedModel model{table, Chain{TopP(0.9)}};
  const std::vector<Token> tokens{0, 1};
  table.extra_row = true;
  CHECK(
      message_of([&] { model.forward(tokens, 1); }) ==
      "specdec: the model returned logits of 2 rows over 4 tokens, expected 1 rows over its vocabulary of 4");
  table.extra_row = false;
  table.extra_column = true;
  CHECK(
      message_of([&] { model.forward(tokens, 2); }) ==
      "specdec: the model returned logits of 2 rows over 5 tokens, expected 2 rows over its vocabulary of 4");
}

TEMPLATE_TEST_CASE("processed models in the loop have the law of the processed target", "[law]",
                   TokenVerifier, BlockVerifier) {
  for (const unsigned seed : {10u, 20u, 30u}) {
    check_law(TestType{}, Chain{Temperature(0.8), TopK(2), TopP(0.9)}, NoHook{}, 3, seed);
    check_law(TestType{}, Chain{TopP(0.7), MinP(0.2), Temperature(1.4)}, NoHook{}, 3, seed);
    check_law(TestType{}, Chain{Temperature(0.7), TopP(0.8)}, Repetition{}, 3, seed);
    check_law(TestType{}, Chain{TopK(2), MinP(0.1)}, Repetition{}, 4, seed);
  }
}
