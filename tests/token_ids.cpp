// SPDX-License-Identifier: MIT
#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_token_ids {

using namespace specdec;
using support::message_of;

static_assert(std::is_convertible_v<std::vector<std::int32_t>, TokenIds>);
static_assert(std::is_convertible_v<std::vector<std::int64_t>, TokenIds>);
static_assert(std::is_convertible_v<std::span<const std::int64_t>, TokenIds>);
static_assert(std::is_convertible_v<std::span<std::int32_t>, TokenIds>);
static_assert(std::is_convertible_v<std::array<std::int64_t, 3>, TokenIds>);
static_assert(std::is_convertible_v<std::vector<Index>, TokenIds>);
static_assert(std::is_convertible_v<std::vector<long>,
                                    TokenIds>);  // one of these two is std::int64_t, the other is not
static_assert(std::is_convertible_v<std::vector<long long>, TokenIds>);
static_assert(std::is_convertible_v<int[3], TokenIds>);
static_assert(!std::is_convertible_v<std::vector<std::int16_t>, TokenIds>);
static_assert(!std::is_convertible_v<std::vector<bool>, TokenIds>);
static_assert(!std::is_convertible_v<std::string, TokenIds>);
static_assert(!std::is_convertible_v<const char*, TokenIds>);
static_assert(!std::is_convertible_v<std::vector<float>, TokenIds>);

TEST_CASE("token ids of 32 and 64 bits are read without a copy") {
  const std::vector<std::int32_t> narrow{5, -1, 7};
  const std::vector<std::int64_t> wide{5, -1, std::int64_t{1} << 40};
  const TokenIds a = narrow, b = wide;
  CHECK(a.size() == 3);
  CHECK(b.size() == 3);
  CHECK_FALSE(a.empty());
  CHECK(a[0] == 5);
  CHECK(a[1] == -1);
  CHECK(a[2] == 7);
  CHECK(b[0] == 5);
  CHECK(b[1] == -1);
  CHECK(b[2] == std::int64_t{1} << 40);
  CHECK(TokenIds().empty());
  CHECK(TokenIds(std::vector<std::int64_t>{}).empty());
}

// A view of ids of this type, and what it reads of the largest of them.
template <class Id>
std::int64_t reads() {
  using Limits = std::numeric_limits<Id>;
  const std::vector<Id> ids{0, 1, 7, Limits::max()};
  const TokenIds view = ids;
  CHECK(view[1] == 1);
  CHECK(view.segment(2, 1)[0] == 7);
  return view[3];
}

TEST_CASE("ids of any integer type of 32 or 64 bits are read") {
  CHECK(reads<int>() == std::numeric_limits<int>::max());
  CHECK(reads<long>() == std::numeric_limits<long>::max());
  CHECK(reads<long long>() == std::numeric_limits<long long>::max());
  // Too large for any vocabulary.
  CHECK(reads<unsigned>() == -1);
  CHECK(reads<unsigned long>() == -1);
  CHECK(reads<unsigned long long>() == -1);
}

TEST_CASE("an id outside the vocabulary is named in the error, however wide the id is") {
  const auto complaint = [](std::int64_t id) {
    const std::vector<std::int64_t> ids{0, id};
    return message_of([&] { detail::check_tokens("ids", ids, 3); });
  };
  CHECK(complaint(0).empty());
  CHECK(complaint(2).empty());
  for (const std::int64_t id :
       {std::int64_t{-1}, std::int64_t{3}, std::int64_t{1} << 32, (std::int64_t{1} << 32) + 1,
        -(std::int64_t{1} << 32), std::numeric_limits<std::int64_t>::max(),
        std::numeric_limits<std::int64_t>::min()})
    CHECK(complaint(id) == "specdec: ids[1] = " + std::to_string(id) + " is outside the vocabulary 0..2");
}

TEST_CASE("an id too large for Token is named in the error, however large the vocabulary claims to be") {
  const auto complaint = [](std::int64_t id) {
    const std::vector<std::int64_t> ids{0, id};
    return message_of([&] { detail::check_tokens("ids", ids, Index{1} << 33); });
  };
  CHECK(complaint(2147483647).empty());
  CHECK(complaint(2147483648) ==
        "specdec: ids[1] = 2147483648 is more than 2147483647, the largest token id");
  CHECK(complaint((std::int64_t{1} << 32) + 1) ==
        "specdec: ids[1] = 4294967297 is more than 2147483647, the largest token id");
  const std::vector<Token> ids{1};
  const std::vector<double> one{1};
  const std::vector<SparseRow<double>> rows(2, SparseRow<double>(ids, one, Index{1} << 33));
  const std::vector<std::int64_t> tokens{(std::int64_t{1} << 32) + 1};
  std::mt19937_64 rng{1};
  CHECK_FALSE(message_of([&] {
                BlockVerifier{}(RowSpan(rows, Index{1} << 33),
                                RowSpan(std::span(rows).first(1), Index{1} << 33), tokens, rng);
              }).empty());
}

TEST_CASE("64-bit tokens give the verdict that equal 32-bit tokens give") {
  std::mt19937_64 rng{5};
  for (int n = 0; n < 50; ++n) {
    support::RowMajor<double> target(4, 5), draft(3, 5);
    for (double& p : target.reshaped()) p = uniform01(rng);
    for (double& p : draft.reshaped()) p = uniform01(rng);
    for (Index i = 0; i < 4; ++i) target.row(i) /= target.row(i).sum();
    for (Index i = 0; i < 3; ++i) draft.row(i) /= draft.row(i).sum();
    std::vector<std::int32_t> narrow;
    for (Index i = 0; i < 3; ++i) narrow.push_back(static_cast<Token>(uniform01(rng) * 5));
    const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
    for (const support::AnyVerifier& rule : support::all_rules) {
      INFO(rule.name());
      std::mt19937_64 a{7}, b{7};
      support::AnyVerifier first = rule, second = rule;
      CHECK(first(target, draft, narrow, a) == second(target, draft, wide, b));
      CHECK(a == b);
    }
  }
}

TEST_CASE("one-hot rows of 64-bit tokens equal those of equal 32-bit tokens") {
  const std::vector<std::int32_t> narrow{3, 0, 4};
  const std::vector<std::int64_t> wide(narrow.begin(), narrow.end());
  const OneHotRows a(narrow), b(wide);
  REQUIRE(b.rows() == 3);
  for (Index i = 0; i < 3; ++i)
    for (Token x = 0; x < 5; ++x) CHECK(a.row(i).probability(x) == b.row(i).probability(x));
  std::mt19937_64 one{7}, other{7};
  const support::RowMajor<double> target = support::RowMajor<double>::Constant(4, 5, 0.2);
  BlockVerifier verifier;
  CHECK(verifier(target, a, narrow, one) == verifier(target, b, wide, other));
}

TEST_CASE("an id that does not fit in int32 is an error, and is not taken for another id") {
  const support::RowMajor<float> target = support::RowMajor<float>::Constant(2, 4, 0.25f);
  const support::RowMajor<float> draft = target.topRows(1);
  const support::RowMajor<double> same = target.cast<double>();
  std::mt19937_64 rng{1};
  for (const std::int64_t id : {(std::int64_t{1} << 32) + 1, std::int64_t{-1}}) {
    const std::vector<std::int64_t> tokens{id};
    const std::string expected =
        "specdec: tokens[0] = " + std::to_string(id) + " is outside the vocabulary 0..3";
    for (const support::AnyVerifier& rule : support::all_rules) {
      INFO(rule.name());
      support::AnyVerifier verifier = rule;
      CHECK(message_of([&] { verifier(target, draft, tokens, rng); }) == expected);
    }
    CHECK(message_of([&] { BlockVerifier{}(same, OneHotRows(tokens), tokens, rng); }) == expected);
  }
}

}  // namespace test_token_ids
