// A stored text as a draft: its law, where it ends, what it proposes, and what it refuses.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <functional>
#include <random>
#include <span>
#include <specdec/more/drafters/stored_text.hpp>
#include <specdec/more/rows/fetched.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_drafters_stored_text {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Tokens = std::vector<Token>;
using Matrix = TableModel<>::Rows;

// A text that was written by another model, perhaps after another prompt, with the rows that it was drawn from.
struct Stored {
  Tokens tokens;
  Matrix rows;
  std::vector<double> probabilities;

  Stored(const TableModel<>& model, Tokens context, Index size, auto& chance)
      : rows(size, model.vocab_size()) {
    for (Index i = 0; i < size; ++i) {
      const auto row = model.distribution(context);
      for (Token x = 0; x < row.vocab_size(); ++x) rows(i, x) = row.probability(x);
      const Token x = chance.draw(row);
      tokens.push_back(x);
      context.push_back(x);
      probabilities.push_back(row.probability(x));
    }
  }
  auto fetched() const {
    return FetchedRows(tokens, probabilities, rows.cols(),
                       [this](Index i) { return DenseRow<double>(rows.row(i).data(), rows.cols()); });
  }
};

// Goes on with the stored tokens after the text has gone another way.
class GoesOn {
 public:
  static constexpr bool steady = false;
  GoesOn(const Stored& stored, Index prompt) : stored_(stored), prompt_(prompt) {}
  Draft<RowRange<DistributionsOf<Matrix>>> draft(std::span<const Token> context, Index gamma, auto&) & {
    const Index from = std::min(std::ssize(context) - prompt_, std::ssize(stored_.tokens));
    const Index count = std::min(gamma, std::ssize(stored_.tokens) - from);
    return {
        std::span(stored_.tokens).subspan(static_cast<std::size_t>(from), static_cast<std::size_t>(count)),
        RowRange(distributions(stored_.rows), from, count)};
  }
  void truncate(Index) {}

 private:
  const Stored& stored_;
  Index prompt_;
};

const auto dense = [](const Stored& stored, Index) { return StoredText{stored.tokens, stored.rows}; };
const auto on_demand = [](const Stored& stored, Index) {
  return StoredText{stored.tokens, stored.fetched()};
};
const auto then_a_model = [](const Stored& stored, Index prompt) {
  std::mt19937_64 rng{9};
  return FallbackDrafter{dense(stored, prompt),
                         ModelDrafter{TableModel<>::random(stored.rows.cols(), 1, rng)}};
};
const auto goes_on = [](const Stored& stored, Index prompt) { return GoesOn{stored, prompt}; };

// The largest difference between the law of a text that begins as a stored one, which is drawn anew in every branch, and the
// target's.
double deviation(const auto& make, const auto& rule, Index vocab_size, Index gamma, int seed) {
  std::mt19937_64 rng(static_cast<std::uint64_t>(seed));
  const auto target = TableModel<>::random(vocab_size, 2, rng),
             before = TableModel<>::random(vocab_size, 2, rng);
  const Tokens prompt{0, 1};
  const Options options{.max_new_tokens = 4, .gamma = gamma};
  Law law;
  enumerate([&](Enumerator& chance) {
    const Stored stored(before, {1}, 3, chance);
    SpecDec decoder{TableModel<>(target), make(stored, 2), rule};
    const Result result = decoder.generate(prompt, options, chance);
    law[result.tokens] += chance.probability();
  });
  return largest_difference(law, target_law(target, prompt, options)).size;
}

double worst_deviation(const auto& make, const auto& rule, Index gamma) {
  double worst = 0;
  for (const Index vocab_size : {2, 3})
    for (int seed = 0; seed < 20; seed += every(5))
      worst = std::max(worst, deviation(make, rule, vocab_size, gamma, seed));
  return worst;
}

}  // namespace

TEST_CASE("a text that begins as a stored one has the target's law", "[law]") {
  for (const Index gamma : {Index{2}, unlimited}) {
    CHECK(worst_deviation(dense, BlockVerifier{}, gamma) < 1e-12);
    CHECK(worst_deviation(on_demand, BlockVerifier{}, gamma) < 1e-12);
    CHECK(worst_deviation(dense, TokenVerifier{}, gamma) < 1e-12);
    CHECK(worst_deviation(then_a_model, BlockVerifier{}, gamma == unlimited ? 4 : gamma) < 1e-12);
    CHECK(worst_deviation(dense, SampleMatchVerifier{}, gamma) < 1e-12);
  }
}

TEST_CASE("what was stored after the first other token must not be proposed", "[law]") {
  CHECK(worst_deviation(goes_on, BlockVerifier{}, unlimited) > 1e-2);
}

TEST_CASE("a text that was ended inside a stored one goes on without it", "[law]") {
  const auto deviation = [](int seed) {
    std::mt19937_64 rng(static_cast<std::uint64_t>(seed));
    const auto target = TableModel<>::random(2, 2, rng), before = TableModel<>::random(2, 2, rng);
    const Tokens prompt{0, 1};
    Law law;
    enumerate([&](Enumerator& chance) {
      const Stored stored(before, {1}, 3, chance);
      SpecDec decoder{TableModel<>(target), dense(stored, 2), BlockVerifier{}};
      auto sequence = decoder.start(prompt, {.max_new_tokens = 4, .gamma = unlimited, .stop_tokens = {1}});
      while (!sequence.done()) sequence.step(chance);
      Tokens text(sequence.context().begin(), sequence.context().end());
      sequence.resume(text, {.max_new_tokens = 6 - std::ssize(text), .gamma = unlimited});
      while (!sequence.done()) sequence.step(chance);
      text.assign(sequence.context().begin() + 2, sequence.context().end());
      law[text] += chance.probability();
    });
    return largest_difference(law, target_law(target, prompt, {.max_new_tokens = 4})).size;
  };
  for (int seed = 0; seed < 8; seed += every(4)) CHECK(deviation(seed) < 1e-12);
}

namespace {

Tokens proposed(auto& drafter, const Tokens& context, Index gamma) {
  SplitMix64 unused{0};
  const auto draft = drafter.draft(context, gamma, unused);
  CHECK(draft.rows.rows() == std::ssize(draft.tokens));
  return {draft.tokens.begin(), draft.tokens.end()};
}

}  // namespace

TEST_CASE("the rest of a stored text is proposed as long as the text goes so") {
  const Matrix rows = Matrix::Constant(4, 5, 0.2);
  StoredText drafter{Tokens{3, 1, 4, 1}, rows};
  CHECK(proposed(drafter, {0, 0}, unlimited) == Tokens{3, 1, 4, 1});
  CHECK(proposed(drafter, {0, 0}, 3) == Tokens{3, 1, 4});
  CHECK(proposed(drafter, {0, 0, 3, 1}, 9) == Tokens{4, 1});
  CHECK(proposed(drafter, {0, 0, 3, 2}, 9).empty());
  CHECK(proposed(drafter, {0, 0, 3, 2, 4}, 9).empty());
  CHECK(proposed(drafter, {0, 0, 3, 1, 4, 1}, 9).empty());
  CHECK(proposed(drafter, {0, 0, 3, 1, 4, 1, 0}, 9).empty());
  CHECK(proposed(drafter, {0, 0}, 0).empty());
  CHECK(proposed(drafter, {0, 0}, -1).empty());
}

TEST_CASE("tokens that were judged are not proposed again, but in another text") {
  const Matrix rows = Matrix::Constant(4, 5, 0.2);
  StoredText drafter{Tokens{3, 1, 4, 1}, rows};
  CHECK(proposed(drafter, {0, 0}, 3) == Tokens{3, 1, 4});
  CHECK(proposed(drafter, {0, 0}, 3) == Tokens{3, 1, 4});  // the step was tried again
  drafter.observe(0);
  CHECK(proposed(drafter, {0, 0, 3, 1}, 9).empty());
  CHECK(proposed(drafter, {0, 0}, 9).empty());
  CHECK(proposed(drafter, {0, 0, 3, 1, 4}, 9) == Tokens{1});
  drafter.truncate(0);  // a pause
  CHECK(proposed(drafter, {0, 0, 3}, 9).empty());
  drafter.truncate(0);  // another text after the same prompt
  CHECK(proposed(drafter, {0, 0}, 9) == Tokens{3, 1, 4, 1});
  CHECK(proposed(drafter, {7, 7, 7}, 9) == Tokens{3, 1, 4, 1});  // after another one
}

TEST_CASE("the row of a draft that was begun earlier is that of its token") {
  Matrix rows(2, 2);
  rows << 0.25, 0.75, 0.5, 0.5;
  StoredText drafter{Tokens{1, 0}, std::as_const(rows)};
  SplitMix64 unused{0};
  CHECK(drafter.draft(Tokens{0}, 5, unused).rows.row(0).probability(1) == 0.75);
  const auto draft = drafter.draft(Tokens{0, 1}, 5, unused);
  REQUIRE(std::ssize(draft.tokens) == 1);
  CHECK(draft.rows.row(0).probability(1) == 0.5);
}

TEST_CASE("a stored text under its own weights is kept whole, in one call, and no row of it is fetched") {
  std::mt19937_64 rng{5};
  const auto model = TableModel<>::random(3, 1, rng);
  RandomChance<std::mt19937_64> chance{rng};
  const Stored stored(model, {0}, 4096, chance);
  Index fetched = 0;
  const FetchedRows rows(stored.tokens, stored.probabilities, 3, [&](Index i) {
    ++fetched;
    return DenseRow<double>(stored.rows.row(i).data(), 3);
  });
  SpecDec decoder{TableModel<>(model), StoredText{stored.tokens, rows}};
  const Result result = decoder.generate(Tokens{0}, {.max_new_tokens = 4097, .gamma = unlimited}, rng);
  CHECK(Tokens(result.tokens.begin(), result.tokens.end() - 1) == stored.tokens);
  CHECK(result.stats.target_calls == 1);
  CHECK(fetched == 0);
}

TEST_CASE("in a batch each text has a stored text of its own") {
  std::mt19937_64 rng{6};
  const auto model = TableModel<>::random(3, 1, rng);
  RandomChance<std::mt19937_64> chance{rng};
  std::vector<Stored> stored;
  for (Index size : {5, 9, 2}) stored.emplace_back(model, Tokens{0}, size, chance);
  Batch batch{ModelPerSequence{model}, [&](Index n) { return dense(stored[static_cast<std::size_t>(n)], 1); },
              BlockVerifier{}};
  for (const Stored& each : stored)
    batch.add(Tokens{0}, {.max_new_tokens = std::ssize(each.tokens) + 1, .gamma = unlimited}, std::ref(rng));
  for (const Finished& done : batch.run()) {
    Tokens text = done.result.tokens;
    text.pop_back();
    CHECK(text == stored[static_cast<std::size_t>(done.sequence)].tokens);
  }
  CHECK(batch.target_calls() == 1);
}

TEST_CASE("stored texts that cannot be are refused") {
  const Matrix rows = Matrix::Constant(2, 3, 1.0 / 3);
  CHECK(message_of([&] { StoredText{Tokens{0, 1, 2}, rows}; }) == "specdec: 2 rows of 3 stored tokens");
}

}  // namespace test_more_drafters_stored_text
