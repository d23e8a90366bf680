// Each draft that is judged together with others gets the verdict that it gets alone.
// SPDX-License-Identifier: MIT
#include "specdec/verify/verify_batch.hpp"

#include <algorithm>
#include <exception>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/threads.hpp"

namespace {

using specdec::BatchVerdict;
using specdec::Index;
using specdec::Token;
using Rows = support::RowMajor<double>;

// Drafts of `least` to 4 tokens over a vocabulary of 6.
struct Ragged {
  explicit Ragged(Index drafts, std::mt19937_64& rng, Index least = 0) {
    for (Index i = 0; i < drafts; ++i) offsets.push_back(offsets.back() + least + i % (5 - least));
    draft = random_rows(offsets.back(), rng);
    target = random_rows(offsets.back() + drafts, rng);
    for (Index i = 0; i < offsets.back(); ++i)
      tokens.push_back(specdec::RandomChance(rng).draw(specdec::DenseRow(specdec::DenseRows(draft).row(i))));
  }

  static Rows random_rows(Index rows, std::mt19937_64& rng) {
    Rows matrix(rows, 6);
    for (Index i = 0; i < rows; ++i) {
      for (Index x = 0; x < 6; ++x) matrix(i, x) = 0.01 + specdec::uniform01(rng);
      matrix.row(i) /= matrix.row(i).sum();
    }
    return matrix;
  }

  Index drafts() const { return std::ssize(offsets) - 1; }
  Index gamma(Index i) const {
    return offsets[static_cast<std::size_t>(i) + 1] - offsets[static_cast<std::size_t>(i)];
  }

  // The verdict on draft i alone.
  template <class V>
  specdec::Verdict alone(V& verifier, Index i, std::mt19937_64& rng) const {
    const Index first = offsets[static_cast<std::size_t>(i)];
    const Rows p = target.middleRows(first + i, gamma(i) + 1), q = draft.middleRows(first, gamma(i));
    return verifier(
        p, q, std::span(tokens).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(gamma(i))),
        rng);
  }

  Rows target, draft;
  std::vector<Token> tokens;
  std::vector<Index> offsets{0};
};

std::vector<std::mt19937_64> generators(Index count) {
  std::vector<std::mt19937_64> rngs;
  for (Index i = 0; i < count; ++i) rngs.emplace_back(static_cast<std::uint64_t>(i));
  return rngs;
}

}  // namespace

TEST_CASE("drafts judged together get the verdicts that they get alone") {
  std::mt19937_64 rng(1);
  const Ragged ragged(23, rng);
  auto rngs = generators(23), same = generators(23);
  std::vector<BatchVerdict> verdicts(23);
  specdec::verify_batch(specdec::BlockVerifier{}, ragged.target, ragged.draft, ragged.tokens, ragged.offsets,
                        rngs, verdicts, support::TwoThreads{});
  for (Index i = 0; i < 23; ++i) {
    const specdec::BlockVerifier verifier;
    const auto& [verdict, error] = verdicts[static_cast<std::size_t>(i)];
    REQUIRE_FALSE(error);
    CHECK(verdict == ragged.alone(verifier, i, same[static_cast<std::size_t>(i)]));
    CHECK(rngs[static_cast<std::size_t>(i)] == same[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("offsets are integers of 32 or 64 bits") {
  std::mt19937_64 rng(12);
  const Ragged ragged(5, rng);
  const auto verdicts_by = [&](const auto& offsets) {
    auto rngs = generators(5);
    std::vector<BatchVerdict> found(5);
    specdec::verify_batch(specdec::BlockVerifier{}, ragged.target, ragged.draft, ragged.tokens, offsets, rngs,
                          found);
    std::vector<specdec::Verdict> verdicts;
    for (const auto& [verdict, error] : found) {
      CHECK_FALSE(error);
      verdicts.push_back(verdict);
    }
    return verdicts;
  };
  const auto& all = ragged.offsets;
  const auto expected = verdicts_by(all);
  CHECK(verdicts_by(std::vector<int>(all.begin(), all.end())) == expected);
  CHECK(verdicts_by(std::vector<unsigned>(all.begin(), all.end())) == expected);
  CHECK(verdicts_by(std::vector<long long>(all.begin(), all.end())) == expected);
  const std::vector<int> without_end(all.begin(), all.end() - 1);
  CHECK(support::message_of<specdec::InvalidArgument>([&] { verdicts_by(without_end); }) ==
        "specdec: offsets[4] = 6, expected 10, the number of tokens");
}

TEST_CASE("each rule that remembers judges its their own draft") {
  std::mt19937_64 rng(2);
  std::vector<specdec::GreedyBlockVerifier> rules(5), alone(5);
  auto rngs = generators(5), same = generators(5);
  int modified = 0;
  for (int step = 0; step < 6; ++step) {
    const Ragged ragged(5, rng, 4);
    std::vector<BatchVerdict> verdicts(5);
    specdec::verify_batch(std::span(rules), ragged.target, ragged.draft, ragged.tokens, ragged.offsets, rngs,
                          verdicts);
    for (std::size_t i = 0; i < 5; ++i) {
      REQUIRE_FALSE(verdicts[i].error);
      CHECK(verdicts[i].verdict == ragged.alone(alone[i], static_cast<Index>(i), same[i]));
      CHECK(rules[i] == alone[i]);
      modified += rules[i].modifications().empty() ? 0 : 1;
    }
  }
  CHECK(modified > 0);
}

TEST_CASE("an error in one draft does not affect the others") {
  std::mt19937_64 rng(3);
  Ragged ragged(6, rng);
  ragged.draft(ragged.offsets[3], ragged.tokens[static_cast<std::size_t>(ragged.offsets[3])]) = 0;
  auto rngs = generators(6), same = generators(6);
  std::vector<BatchVerdict> verdicts(6);
  specdec::verify_batch(specdec::TokenVerifier{}, ragged.target, ragged.draft, ragged.tokens, ragged.offsets,
                        rngs, verdicts);
  for (Index i = 0; i < 6; ++i) {
    const specdec::TokenVerifier verifier;
    const auto& [verdict, error] = verdicts[static_cast<std::size_t>(i)];
    if (i != 3) {
      REQUIRE_FALSE(error);
      CHECK(verdict == ragged.alone(verifier, i, same[static_cast<std::size_t>(i)]));
    } else {
      CHECK(support::message_of<std::invalid_argument>([&] {
              std::rethrow_exception(error);
            }).find("tokens[0]") != std::string::npos);
    }
  }
}

TEST_CASE("beside an error stands no verdict, nor that of an earlier call") {
  std::mt19937_64 rng(6);
  Ragged ragged(4, rng, 2);
  auto rngs = generators(4);
  std::vector<BatchVerdict> verdicts(4, BatchVerdict{.verdict = {3, 5}, .error = nullptr});
  const auto judge = [&] {
    specdec::verify_batch(specdec::TokenVerifier{}, ragged.target, ragged.draft, ragged.tokens,
                          ragged.offsets, rngs, verdicts);
  };
  ragged.draft(ragged.offsets[2], ragged.tokens[static_cast<std::size_t>(ragged.offsets[2])]) = 0;
  judge();
  for (std::size_t i = 0; i < 4; ++i) CHECK((verdicts[i].error != nullptr) == (i == 2));
  CHECK(verdicts[2].verdict == specdec::Verdict{});
  ragged.draft(ragged.offsets[2], ragged.tokens[static_cast<std::size_t>(ragged.offsets[2])]) = 0.5;
  judge();  // and beside a verdict no error of an earlier call
  CHECK_FALSE(verdicts[2].error);
}

TEST_CASE("offsets, rows and sources that do not fit together are named in the error") {
  std::mt19937_64 rng(4);
  const Ragged ragged(4, rng);
  const auto message = [&](std::vector<Index> offsets, Index sources = 4, Index verdicts = 4,
                           Index rows = 10) {
    auto rngs = generators(sources);
    std::vector<BatchVerdict> out(static_cast<std::size_t>(verdicts));
    return support::message_of<std::invalid_argument>([&] {
      specdec::verify_batch(specdec::BlockVerifier{}, ragged.target.topRows(rows), ragged.draft,
                            ragged.tokens, offsets, rngs, out);
    });
  };
  const auto says = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
  };
  CHECK(says(message({}), "offsets is empty"));
  CHECK(says(message({0, 0, 1, 3}), "offsets[3] = 3, expected 6, the number of tokens"));
  CHECK(says(message({0, 0, 1, 3, 6}, 4, 3), "verdicts has 3 entries, expected 4"));
  CHECK(says(message({1, 1, 1, 3, 6}), "offsets[0] = 1"));
  CHECK(says(message({0, 2, 1, 3, 6}), "offsets[2] = 1 is outside 2..6"));
  CHECK(says(message({0, 0, 1, 7, 6}), "offsets[3] = 7"));
  CHECK(says(message({0, 0, 1, 3, 5}), "offsets[4] = 5, expected 6"));
  CHECK(says(message({0, 0, 1, 3, 6}, 3), "sources has 3 generators, expected 4"));
  CHECK(says(message({0, 0, 1, 3, 6}, 4, 4, 9), "target has 9 rows, expected 10"));
}

TEST_CASE("a row number that a matrix does not have is not taken for part of it") {
  std::mt19937_64 rng(5);
  const Ragged ragged(4, rng);
  const specdec::DenseRows rows(ragged.target);  // a matrix of ten rows
  const auto message = [&](Index first, Index count) {
    return support::message_of<std::invalid_argument>([&] { specdec::RowRange(rows, first, count); });
  };
  CHECK(message(8, 3) == "specdec: rows 8..10 are asked for of a matrix of 10");
  CHECK(message(-1, 2) == "specdec: rows -1..0 are asked for of a matrix of 10");
  CHECK(message(2, -1) == "specdec: rows 2..0 are asked for of a matrix of 10");
  CHECK(specdec::RowRange(rows, 8, 2).row(1).probability(0) == ragged.target(9, 0));
}
