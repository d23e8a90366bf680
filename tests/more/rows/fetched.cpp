// Rows that are fetched: what they answer, and when they fetch.
// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/more/rows/fetched.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_more_rows_fetched {

using namespace specdec;
using namespace support;

namespace {

struct Disk {
  RowMajor<float> rows;
  mutable Index read = 0;

  auto fetch() const {
    return [this](Index i) {
      ++read;
      return DenseRow<float>(rows.row(i).data(), rows.cols());
    };
  }
};

// Over 20 tokens.
RowMajor<float> random_rows(Index count, std::mt19937_64& rng) {
  auto model = testing::TableModel<float>::random(20, 1, rng);
  std::vector<Token> tokens;
  for (Index i = 0; i < count; ++i) tokens.push_back(static_cast<Token>(i));
  return model.forward(tokens, count);
}

template <class Tokens>
concept TakesTokens =
    requires(Tokens&& tokens, std::span<const float> probabilities, OneHotRow (*fetch)(Index)) {
      FetchedRows(std::forward<Tokens>(tokens), probabilities, Index{3}, fetch);
    };
static_assert(TakesTokens<const std::vector<Token>&> && TakesTokens<std::span<const Token>>);
static_assert(!TakesTokens<std::vector<Token>>);

}  // namespace

TEST_CASE("a row is fetched at the first question about another token, and once") {
  const Disk disk{(RowMajor<float>(2, 3) << 0.5F, 0.25F, 0.25F, 0.125F, 0.625F, 0.25F).finished()};
  const std::vector<std::int64_t> tokens{0, 2};
  const std::vector<float> probabilities{0.5F, 0.25F};
  const FetchedRows rows(tokens, probabilities, 3, disk.fetch());
  CHECK(rows.rows() == 2);
  const auto row = rows.row(1);
  CHECK(row.vocab_size() == 3);
  CHECK(row.probability(2) == 0.25);
  CHECK(row.log_probability(2) == std::log(0.25));
  CHECK(row.possible(2));
  CHECK(probability(row, 5) == 0);
  CHECK(disk.read == 0);
  CHECK(row.probability(1) == 0.625);
  CHECK(row.log_probability(0) == std::log(0.125));
  CHECK(row.argmax() == 1);
  CHECK(row.sum(0, 2) == 0.75);
  CHECK(row.sampler()(0.5) == 1);
  CHECK(disk.read == 1);
}

TEST_CASE("rules decide by fetched rows as by the rows themselves") {
  std::mt19937_64 models{7};
  Index read = 0, positions = 0;
  for (int k = 0; k < 200; ++k) {
    const RowMajor<float> target = random_rows(9, models), draft = random_rows(8, models);
    Disk disk{draft};
    std::vector<Token> tokens;
    std::vector<float> probabilities;
    for (Index i = 0; i < draft.rows(); ++i) {
      tokens.push_back(DenseRow<float>(draft.row(i).data(), draft.cols()).sampler()(uniform01(models)));
      probabilities.push_back(draft(i, tokens.back()));
    }
    const FetchedRows rows(tokens, probabilities, 20, disk.fetch());
    std::mt19937_64 a(static_cast<unsigned>(k)), b = a, c = a, d = a;
    CHECK(verify(BlockVerifier{}, target, rows, tokens, a) ==
          verify(BlockVerifier{}, target, draft, tokens, b));
    CHECK(verify(TokenVerifier{}, target, rows, tokens, c) ==
          verify(TokenVerifier{}, target, draft, tokens, d));
    read += disk.read;
    positions += 2 * draft.rows();
  }
  CHECK(read > 0);
  CHECK(read < positions / 2);
}

TEST_CASE("lists that do not fit together are refused") {
  const std::vector<Token> tokens{0, 2};
  const std::vector<double> probabilities{0.5};
  const auto fetch = [](Index) { return OneHotRow(0); };
  CHECK(message_of([&] { FetchedRows(tokens, probabilities, 3, fetch); }) ==
        "specdec: 1 probabilities of 2 tokens");
  const std::vector<double> two{0.5, 0.5};
  const FetchedRows narrow(tokens, two, 3, fetch);
  CHECK(narrow.row(1).probability(2) == 0.5);
  CHECK(message_of([&] { (void)narrow.row(1).probability(1); }) ==
        "specdec: the fetched row 1 has 1 tokens, expected 3");
  CHECK(message_of([&] { FetchedRows(tokens, probabilities, 0, fetch); }) ==
        "specdec: vocab_size = 0 is not positive");
}

}  // namespace test_more_rows_fetched
