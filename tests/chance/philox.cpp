// Philox: the published numbers, and a text that is stopped and continued.
// SPDX-License-Identifier: MIT
#include "specdec/chance/philox.hpp"

#include <specdec/specdec.hpp>
#include <type_traits>
#include <vector>

#include "support/catch.hpp"

namespace test_chance_philox {

using namespace specdec;

static_assert(RandomBitGenerator<Philox>);
static_assert(std::is_trivially_copyable_v<Philox> && sizeof(Philox) == 3 * sizeof(std::uint64_t));

static_assert(Philox{1}() == Philox{1}(), "it may be used in a constant expression");

TEST_CASE("a Philox gives the numbers that its authors publish") {  // with Random123: philox4x32 of 10 rounds
  const std::uint32_t ones = 0xffffffff;
  CHECK(Philox::block({0, 0, 0, 0}, {0, 0}) == Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox::block({ones, ones, ones, ones}, {ones, ones}) ==
        Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox::block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("number n of a Philox is half of block n / 2") {
  Philox rng{0};
  CHECK(rng() == 0xe169c58d6627e8d5);
  CHECK(rng() == 0x9b00dbd8bc57ac4c);
  CHECK(rng.offset() == 2);

  // The seed is the key, and the counter is made of the offset and the stream; each from its low word on.
  Philox another{0x299f31d0a4093822, 0x0b08a3d3243f6a88 * 2, 0x0370734413198a2e};
  const Philox::Block words =
      Philox::block({0x243f6a88, 0x0b08a3d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0});
  CHECK(another() == (words[0] | std::uint64_t{words[1]} << 32));
  CHECK(another() == (words[2] | std::uint64_t{words[3]} << 32));
}

TEST_CASE("a Philox can be continued anywhere") {
  Philox rng{7, 0, 3};
  std::vector<std::uint64_t> numbers;
  for (int n = 0; n < 9; ++n) numbers.push_back(rng());
  for (std::uint64_t n = 0; n < 9; ++n) {
    Philox later{rng.seed(), n, rng.stream()}, skipped{7, 0, 3};
    skipped.discard(n);
    CHECK(skipped == later);
    CHECK(later() == numbers[n]);
    CHECK(later.offset() == n + 1);
  }
  CHECK(Philox{7}() != numbers[0]);
  CHECK(Philox{8, 0, 3}() != numbers[0]);
}

TEST_CASE("verification goes on where a request was stopped") {
  const Eigen::MatrixXd target = Eigen::MatrixXd::Constant(3, 4, 0.25);
  const Eigen::MatrixXd draft = (Eigen::MatrixXd(2, 4) << 0.7, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.7).finished();
  const std::vector<Token> tokens{0, 3};
  Philox whole{42};
  std::uint64_t offset = 0;
  for (int n = 0; n < 20; ++n) {
    Philox continued{42, offset};  // all that is kept between two verifications is the offset
    const Verdict expected = BlockVerifier{}(target, draft, tokens, whole);
    const Verdict verdict = BlockVerifier{}(target, draft, tokens, continued);
    CHECK(verdict.accepted == expected.accepted);
    CHECK(verdict.token == expected.token);
    offset = continued.offset();
    CHECK(offset == whole.offset());
  }
}

}  // namespace test_chance_philox
