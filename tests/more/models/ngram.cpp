// NgramModel: values worked out by hand, an independent count of n-grams, and the model inside the loop.
// SPDX-License-Identifier: MIT
#include "specdec/more/models/ngram.hpp"

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "specdec/specdec.hpp"
#include "specdec/testing.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_more_models_ngram {

using specdec::Index;
using specdec::NgramModel;
using specdec::Token;
using support::message_of;
using Tokens = std::vector<Token>;

static_assert(specdec::Model<NgramModel>);
static_assert(specdec::OneTextDrafter<specdec::ModelDrafter<NgramModel&>>);
static_assert(std::copyable<NgramModel>);
static_assert(std::is_nothrow_move_constructible_v<NgramModel>);

namespace {

// The oracle: the Witten-Bell recursion as written, on maps.
class Oracle {
 public:
  Oracle(Tokens text, Index vocab_size) : vocab_size_(vocab_size) {
    for (std::size_t i = 0; i < text.size(); ++i)
      for (std::size_t k = 0; k <= i; ++k)
        ++counts_[Tokens(text.begin() + std::ptrdiff_t(i - k), text.begin() + std::ptrdiff_t(i))][text[i]];
  }

  double probability(Tokens context, Token x, Index order) const {
    if (order == 0) return 1.0 / double(vocab_size_);
    while (Index(context.size()) > order - 1) context.erase(context.begin());
    return interpolated(context, x);
  }

 private:
  double interpolated(const Tokens& h, Token x) const {
    const double shorter = h.empty() ? 1.0 / double(vocab_size_) : interpolated({h.begin() + 1, h.end()}, x);
    const auto found = counts_.find(h);
    if (found == counts_.end()) return shorter;
    double total = 0;
    for (const auto& [w, count] : found->second) total += count;
    const auto distinct = double(found->second.size());
    const auto seen = found->second.find(x);
    return ((seen == found->second.end() ? 0 : seen->second) + distinct * shorter) / (total + distinct);
  }

  Index vocab_size_;
  std::map<Tokens, std::map<Token, int>> counts_;
};

Tokens random_tokens(std::size_t size, Index vocab_size, std::mt19937_64& rng) {
  Tokens tokens(size);
  for (Token& x : tokens) x = static_cast<Token>(rng() % static_cast<std::uint64_t>(vocab_size));
  return tokens;
}

// All sequences of up to `length` tokens.
std::vector<Tokens> contexts(Index vocab_size, std::size_t length) {
  std::vector<Tokens> all{{}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size() == length) continue;
    for (Token x = 0; x < vocab_size; ++x) {
      Tokens longer = all[i];
      longer.push_back(x);
      all.push_back(std::move(longer));
    }
  }
  return all;
}

std::vector<double> row_of(const NgramModel& model, const Tokens& context) {
  const auto row = model.distribution(context);
  std::vector<double> values;
  for (Token x = 0; x < row.vocab_size(); ++x) values.push_back(row.probability(x));
  return values;
}

std::vector<double> row_of(const NgramModel::Rows& rows, Index i) {
  return {rows.data() + i * rows.cols(), rows.data() + (i + 1) * rows.cols()};
}

void require_close(const std::vector<double>& values, const std::vector<double>& expected) {
  REQUIRE(values.size() == expected.size());
  for (std::size_t x = 0; x < values.size(); ++x) CHECK(std::abs(values[x] - expected[x]) <= 1e-15);
}

}  // namespace

// The text is a b a a b c with a = 0, b = 1, c = 2 and a token 3 that does not occur: V = 4.
// Counts: a 3, b 2, c 1; after a: b 2, a 1; after b: a 1, c 1; after c nothing.
//         after ab: a 1, c 1; after ba: a 1; after aa: b 1.
TEST_CASE("NgramModel has the values of Witten and Bell, worked out by hand") {
  const Tokens text{0, 1, 0, 0, 1, 2};
  const auto model = [&](Index order) { return NgramModel::train(text, {.order = order, .vocab_size = 4}); };
  SECTION("order 1: (c(w) + 3/4)/(6 + 3)") {
    require_close(row_of(model(1), {}), {3.75 / 9, 2.75 / 9, 1.75 / 9, 0.75 / 9});
    require_close(row_of(model(1), {1, 2, 3}), {3.75 / 9, 2.75 / 9, 1.75 / 9, 0.75 / 9});
  }
  SECTION("order 2: after a (c(a w) + 2·P_1(w))/(3 + 2)") {
    require_close(row_of(model(2), {0}),
                  {(1 + 7.5 / 9) / 5, (2 + 5.5 / 9) / 5, (3.5 / 9) / 5, (1.5 / 9) / 5});
  }
  SECTION("order 2: after b (c(b w) + 2·P_1(w))/(2 + 2)") {
    require_close(row_of(model(2), {0, 1}),
                  {(1 + 7.5 / 9) / 4, (5.5 / 9) / 4, (1 + 3.5 / 9) / 4, (1.5 / 9) / 4});
  }
  SECTION("order 3: after b a (c(b a w) + 1·P_2(w | a))/(1 + 1)") {
    require_close(row_of(model(3), {1, 0}), {(1 + (1 + 7.5 / 9) / 5) / 2, ((2 + 5.5 / 9) / 5) / 2,
                                             ((3.5 / 9) / 5) / 2, ((1.5 / 9) / 5) / 2});
  }
  SECTION("nothing follows c, and a never followed c: the shorter context decides") {
    CHECK(row_of(model(3), {2}) == row_of(model(1), {}));
    CHECK(row_of(model(3), {2, 0}) == row_of(model(2), {0}));
    CHECK(row_of(model(3), {0, 3}) == row_of(model(1), {}));
  }
}

TEST_CASE("NgramModel agrees with a direct count of the n-grams in every context") {
  std::mt19937_64 rng{1};
  for (const Index vocab_size : {1, 2, 3, 5}) {
    if (support::sanitized && vocab_size > 3) break;
    for (const std::size_t size : {1u, 2u, 3u, 7u, 20u, 60u}) {
      const Tokens text = random_tokens(size, vocab_size, rng);
      const Oracle oracle(text, vocab_size);
      for (Index order = 1; order <= 5; order += support::every(4)) {
        const auto model = NgramModel::train(text, {.order = order, .vocab_size = vocab_size});
        double worst = 0, worst_sum = 0, smallest = 1;
        for (const Tokens& context : contexts(vocab_size, 5)) {
          const auto row = row_of(model, context);
          double sum = 0;
          for (Token x = 0; x < vocab_size; ++x) {
            const double p = row[static_cast<std::size_t>(x)];
            worst = std::max(worst, std::abs(p - oracle.probability(context, x, order)));
            sum += p;
            smallest = std::min(smallest, p);
          }
          worst_sum = std::max(worst_sum, std::abs(sum - 1));
        }
        INFO("V = " << vocab_size << ", " << size << " tokens, order " << order);
        CHECK(worst <= 1e-14);
        CHECK(worst_sum <= 1e-14);
        CHECK(smallest > 0);
      }
    }
  }
}

TEST_CASE("NgramModel: the rows over a large vocabulary sum to 1") {
  std::mt19937_64 rng{2};
  const Index vocab_size = 50000;
  auto model =
      NgramModel::train(random_tokens(20000, vocab_size, rng), {.order = 3, .vocab_size = vocab_size});
  const Tokens context = random_tokens(8, vocab_size, rng);
  const auto rows = model.forward(context, 8);
  for (Index i = 0; i < rows.rows(); ++i) CHECK(std::abs(rows.row(i).sum() - 1) <= 1e-12);
  specdec::validate(rows, "rows", 1e-12);
}

TEST_CASE("NgramModel: with_order is the model trained at that order") {
  std::mt19937_64 rng{3};
  const Tokens text = random_tokens(80, 3, rng);
  auto trained = NgramModel::train(text, {.order = 5, .vocab_size = 3});
  trained.forward(text, 1);
  for (Index order = 1; order <= 5; ++order) {
    auto lower = trained.with_order(order);
    const auto same = NgramModel::train(text, {.order = order, .vocab_size = 3});
    CHECK(lower.order() == order);
    CHECK(lower.vocab_size() == 3);
    for (const Tokens& context : contexts(3, 5)) REQUIRE(row_of(lower, context) == row_of(same, context));
    CHECK(row_of(lower.forward(Tokens{1}, 1), 0) == row_of(same, {1}));  // the context of the copy was empty
    CHECK(lower.with_order(5).order() == 5);                             // no counts were lost
  }
}

TEST_CASE("NgramModel: several rows in one call equal the rows one at a time") {
  std::mt19937_64 rng{4};
  const auto model = NgramModel::train(random_tokens(200, 4, rng), {.order = 4, .vocab_size = 4});
  const Tokens tokens = random_tokens(9, 4, rng);
  for (Index rows = 1; rows <= 9; ++rows) {
    auto at_once = model, in_turn = model;
    const auto many = at_once.forward(tokens, rows);
    REQUIRE(many.rows() == rows);
    REQUIRE(many.cols() == 4);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto one = in_turn.forward(std::span(tokens).subspan(i, 1), 1);
      const Index row = static_cast<Index>(i) - (9 - rows);
      const Tokens context(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      REQUIRE(row_of(one, 0) == row_of(model, context));
      if (row >= 0) REQUIRE(row_of(many, row) == row_of(one, 0));
    }
  }
}

TEST_CASE("NgramModel: truncated tokens are forgotten") {
  std::mt19937_64 rng{5};
  auto model = NgramModel::train(random_tokens(200, 3, rng), {.order = 4, .vocab_size = 3});
  const Tokens tokens{0, 1, 2, 1, 0};
  model.forward(tokens, 1);
  SECTION("fed the truncated tokens again, the model gives equal rows") {
    model.truncate(2);
    CHECK(row_of(model.forward(Tokens{2, 1, 0}, 3), 2) == row_of(model, tokens));
  }
  SECTION("fed other tokens, the model gives the rows of the new context") {
    model.truncate(2);
    CHECK(row_of(model.forward(Tokens{0}, 1), 0) == row_of(model, {0, 1, 0}));
  }
  SECTION("a length beyond the context changes nothing") {
    model.truncate(5);
    model.truncate(100);
    CHECK(row_of(model.forward(Tokens{1, 2}, 2), 0) == row_of(model, {0, 1, 2, 1, 0, 1}));
    CHECK(row_of(model.forward(Tokens{0}, 1), 0) == row_of(model, {1, 2, 0}));
  }
  SECTION("a length of 0 or less empties the context") {
    model.truncate(0);
    CHECK(row_of(model.forward(Tokens{2}, 1), 0) == row_of(model, {2}));
    model.truncate(-1);
    CHECK(row_of(model.forward(Tokens{1}, 1), 0) == row_of(model, {1}));
  }
}

TEST_CASE("NgramModel: copies share their counts and have separate contexts") {
  auto model = NgramModel::train(Tokens{0, 1, 1, 0, 1}, {.order = 3, .vocab_size = 2});
  model.forward(Tokens{0}, 1);
  auto copy = model;
  copy.forward(Tokens{1, 1}, 1);
  CHECK(row_of(copy.forward(Tokens{0}, 1), 0) == row_of(model, {0, 1, 1, 0}));
  CHECK(row_of(model.forward(Tokens{1}, 1), 0) == row_of(model, {0, 1}));
}

TEST_CASE("NgramModel: an empty text gives the uniform distribution") {
  auto model = NgramModel::train(Tokens{}, {.order = 3, .vocab_size = 4});
  for (const Tokens& context : contexts(4, 3)) CHECK(row_of(model, context) == std::vector<double>(4, 0.25));
  CHECK(row_of(model.forward(Tokens{3}, 1), 0) == std::vector<double>(4, 0.25));
}

TEST_CASE("NgramModel: degenerate sizes work") {
  SECTION("a vocabulary of one token") {
    const auto model = NgramModel::train(Tokens{0, 0, 0}, {.order = 3, .vocab_size = 1});
    for (const Tokens& context : contexts(1, 4)) CHECK(std::abs(row_of(model, context)[0] - 1) <= 1e-15);
  }
  SECTION("an order far beyond the length of the text") {
    const auto model = NgramModel::train(Tokens{0, 1, 0}, {.order = 1000000000, .vocab_size = 2});
    const Oracle oracle({0, 1, 0}, 2);
    for (const Tokens& context : contexts(2, 6))
      CHECK(std::abs(row_of(model, context)[0] - oracle.probability(context, 0, 1000)) <= 1e-15);
  }
}

TEST_CASE("NgramModel: the most probable token is the lowest id among equals") {
  CHECK(NgramModel::train(Tokens{2, 1, 1}, {.order = 1, .vocab_size = 3}).distribution({}).argmax() == 1);
  CHECK(NgramModel::train(Tokens{2, 1}, {.order = 1, .vocab_size = 3}).distribution({}).argmax() == 1);
  CHECK(NgramModel::train(Tokens{}, {.order = 1, .vocab_size = 3}).distribution({}).argmax() == 0);
}

TEST_CASE("NgramModel names a wrong argument, and then nothing has changed") {
  const Tokens text{0, 1, 2, 0};
  auto model = NgramModel::train(text, {.order = 3, .vocab_size = 3});
  SECTION("training") {
    CHECK(message_of([&] { NgramModel::train(text, {.order = 0, .vocab_size = 3}); }) ==
          "specdec: options.order = 0 is not positive");
    CHECK(message_of([&] { NgramModel::train(text, {.order = 2, .vocab_size = 0}); }) ==
          "specdec: options.vocab_size = 0 is not positive");
    CHECK(message_of([&] { NgramModel::train(text, {.order = 2, .vocab_size = Index{1} << 40}); }) ==
          "specdec: options.vocab_size = 1099511627776 is more than the 2147483648 that token ids can tell "
          "apart");
    CHECK(message_of([&] { NgramModel::train(text, {.order = 2, .vocab_size = 2}); }) ==
          "specdec: text[2] = 2 is outside the vocabulary 0..1");
    CHECK(message_of([&] {
            NgramModel::train(Tokens{0, -1}, {.order = 2, .vocab_size = 2});
          }) == "specdec: text[1] = -1 is outside the vocabulary 0..1");
  }
  SECTION("orders") {
    CHECK(message_of([&] { model.with_order(0); }) ==
          "specdec: order = 0 is outside 1..3, the order trained");
    CHECK(message_of([&] { model.with_order(4); }) ==
          "specdec: order = 4 is outside 1..3, the order trained");
  }
  SECTION("contexts") {
    CHECK(message_of([&] {
            model.distribution(Tokens{0, 3});
          }) == "specdec: context[1] = 3 is outside the vocabulary 0..2");
  }
  SECTION("forward") {
    model.forward(Tokens{0}, 1);
    CHECK(message_of([&] {
            model.forward(Tokens{0, 1}, 0);
          }) == "specdec: rows = 0 is outside 1..2, the number of tokens");
    CHECK(message_of([&] {
            model.forward(Tokens{0, 1}, 3);
          }) == "specdec: rows = 3 is outside 1..2, the number of tokens");
    CHECK(message_of([&] { model.forward(Tokens{}, 1); }) ==
          "specdec: rows = 1 is outside 1..0, the number of tokens");
    CHECK(message_of([&] {
            model.forward(Tokens{1, 3}, 1);
          }) == "specdec: tokens[1] = 3 is outside the vocabulary 0..2");
    CHECK(message_of([&] {
            model.forward(Tokens{-1, 1}, 1);
          }) == "specdec: tokens[0] = -1 is outside the vocabulary 0..2");
    CHECK(row_of(model.forward(Tokens{1}, 1), 0) == row_of(model, {0, 1}));
  }
}

namespace {

using AnyRule = support::AnyOf<true, specdec::TokenVerifier, specdec::BlockVerifier,
                               specdec::GreedyBlockVerifier, specdec::SampleMatchVerifier>;

}  // namespace

// Exact laws without sampling: a difference of 1e-12 would be a bug.
TEST_CASE("NgramModel drafts for a model of higher order without changing the law of the output") {
  namespace testing = specdec::testing;
  for (const AnyRule& rule :
       {AnyRule{specdec::TokenVerifier{}}, AnyRule{specdec::BlockVerifier{}},
        AnyRule{specdec::GreedyBlockVerifier{}}, AnyRule{specdec::SampleMatchVerifier{}}}) {
    std::mt19937_64 rng{6};
    for (const Index vocab_size : {2, 3})
      for (const Index gamma : {1, 2, 3}) {
        auto target =
            NgramModel::train(random_tokens(30, vocab_size, rng), {.order = 3, .vocab_size = vocab_size});
        specdec::SpecDec decoder{target, specdec::ModelDrafter{target.with_order(1)}, rule};
        const Tokens prompt{0};
        const specdec::Options options{.max_new_tokens = 4, .gamma = gamma};
        const auto found = testing::exact_generate(decoder, prompt, options);
        const auto worst =
            testing::largest_difference(found.law, testing::target_law(target, prompt, options));
        INFO("rule " << rule.rule.index() << ", V = " << vocab_size << ", gamma = " << gamma << ", output "
                     << testing::to_string(worst.tokens));
        CHECK(worst.size <= 1e-12);
        CHECK(found.accepted > 0);
      }
  }
}

TEST_CASE("NgramModel: its context is rolled back correctly during a whole generation") {
  namespace testing = specdec::testing;
  std::mt19937_64 rng{7};
  auto target = NgramModel::train(random_tokens(30, 2, rng), {.order = 4, .vocab_size = 2});
  specdec::SpecDec decoder{target, specdec::ModelDrafter{target.with_order(2)},
                           AnyRule{specdec::BlockVerifier{}}};
  const Tokens prompt{1, 0};
  const specdec::Options options{.max_new_tokens = 4, .gamma = 2};
  const auto found = testing::enumerate_generate(decoder, prompt, options);
  CHECK(testing::largest_difference(found.law, testing::target_law(target, prompt, options)).size <= 1e-12);
}

TEST_CASE("NgramModel: argmax verification writes what greedy decoding writes") {
  using Matrix = support::RowMajor<double>;
  std::mt19937_64 rng{8};
  const auto trained = NgramModel::train(random_tokens(500, 5, rng), {.order = 4, .vocab_size = 5});
  auto target = trained, draft = trained.with_order(2);
  support::AnyVerifier verifier{specdec::ArgmaxVerifier{}};
  Tokens text{0, 1}, greedy = text;
  while (greedy.size() < 62) greedy.push_back(trained.distribution(greedy).argmax());
  Index accepted = 0, fed = 0;  // tokens that both models have been fed
  while (text.size() < greedy.size()) {
    const auto news = std::span(std::as_const(text)).subspan(static_cast<std::size_t>(fed));
    Matrix q(4, 5);
    Tokens drafted;
    for (Index i = 0; i < 4; ++i) {
      const Matrix row = i == 0 ? draft.forward(news, 1) : draft.forward(std::span(drafted).last(1), 1);
      q.row(i) = row;
      drafted.push_back(specdec::distributions(row).row(0).argmax());
    }
    Tokens judged(news.begin(), news.end());
    judged.insert(judged.end(), drafted.begin(), drafted.end());
    const Matrix p = target.forward(judged, 5);
    const specdec::Verdict verdict = verifier(p, q, drafted, rng);
    accepted += verdict.accepted;
    text.insert(text.end(), drafted.begin(), drafted.begin() + verdict.accepted);
    text.push_back(verdict.token);
    // The draft model has not seen the last drafted token.
    fed = std::ssize(text) - 1 - (verdict.accepted == 4 ? 1 : 0);
    target.truncate(fed);
    draft.truncate(fed);
  }
  text.resize(greedy.size());
  CHECK(text == greedy);
  CHECK(accepted > 0);
}

TEST_CASE("a model that was moved from is still a valid model") {
  auto model = NgramModel::train(Tokens{0, 1, 0}, {.order = 2, .vocab_size = 2});
  model.forward(Tokens{0, 1}, 1);
  auto moved = std::move(model);
  CHECK(moved.forward(Tokens{0}, 1)(0, 1) == moved.distribution(Tokens{0, 1, 0}).probability(1));
  CHECK(model.vocab_size() == 2);  // NOLINT: use after move is intended
  CHECK(model.distribution(Tokens{0}).probability(1) == moved.distribution(Tokens{0}).probability(1));
  moved = std::move(model);
  CHECK(model.vocab_size() == 2);
  CHECK(moved.forward(Tokens{1}, 1)(0, 0) == moved.distribution(Tokens{1}).probability(0));
}

// A view of a temporary's row would not outlive it.
template <class R>
concept Viewed = requires(R&& row) { std::forward<R>(row).view(); };
static_assert(Viewed<const NgramModel::Row&> && !Viewed<NgramModel::Row>);

}  // namespace test_more_models_ngram
