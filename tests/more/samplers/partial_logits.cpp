// Some columns of a row: look-ups of a token, and processors that change a part as they change the whole row.
// SPDX-License-Identifier: MIT
#include "specdec/more/samplers/partial_logits.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include "specdec/more/samplers/after_prompt.hpp"
#include "specdec/more/samplers/grammar.hpp"
#include "specdec/more/samplers/logit_bias.hpp"
#include "specdec/more/samplers/min_length.hpp"
#include "specdec/more/samplers/no_repeat_ngrams.hpp"
#include "specdec/more/samplers/penalties.hpp"
#include "specdec/more/samplers/processors.hpp"
#include "specdec/more/samplers/snapshots.hpp"

#include "support/catch.hpp"

namespace test_more_samplers_partial_logits {

using namespace specdec;

namespace {

// Allows every other one of a number of tokens.
struct EveryOther {
  Index tokens;
  Index vocab_size() const { return tokens; }
  void allow(std::span<std::uint32_t> mask) const { std::ranges::fill(mask, 0x55555555u); }
  bool advance(Token) const { return true; }
};
// Writes masks by their size, which must be that of the whole row.
struct AllOfTheRow {
  void allow(std::span<std::uint32_t> mask) const {
    CHECK(std::ssize(mask) == 4);
    mask[3] = 0xffffffffu;
    mask[1] = 0xf00fu;
  }
  bool advance(Token) const { return true; }
};

}  // namespace

TEST_CASE("a token's logit is found at its column if the part has it, and nowhere else") {
  Eigen::RowVectorXf columns(3);
  columns << 4, 5, 6;
  const PartialLogits<float> part(columns, 7, 20);
  CHECK(part.vocab_size() == 20);
  CHECK(part.first() == 7);
  for (Token x = -1; x < 22; ++x) {
    if (x < 7 || x > 9) CHECK(part.find(x) == nullptr);
    else CHECK(*part.find(x) == static_cast<float>(x - 3));
  }
  part.columns()[1] = 8;
  CHECK(columns[1] == 8);
}

TEST_CASE("every processor changes each part of a row as it changes the whole row") {
  constexpr Index size = 100;
  constexpr float none = -std::numeric_limits<float>::infinity();
  std::mt19937_64 rng(3);
  const auto check = [&](auto processor) {
    for (int k = 0; k < 60; ++k) push_token(processor, static_cast<Token>(rng() % (k < 50 ? size : 3)));
    Eigen::RowVectorXf row(size);
    for (float& logit : row) logit = static_cast<float>(uniform01(rng)) - 0.5f;
    row[17] = none;
    Eigen::RowVectorXf whole = row;
    processor.apply(Eigen::Ref<Eigen::RowVectorXf>(whole));
    CHECK(whole != row);
    for (Index first = 0; first <= size; ++first)
      for (const Index count : {Index{0}, Index{1}, Index{31}, Index{33}, size - first}) {
        if (first + count > size) continue;
        Eigen::RowVectorXf part = row.segment(first, count);
        processor.apply(PartialLogits<float>(part, first, size));
        if (part != whole.segment(first, count)) FAIL("another part, from " << first << " on");
      }
  };
  check(RepetitionPenalty{1.3});
  check(PresencePenalty{0.4});
  check(FrequencyPenalty{0.4, 20});
  check(NoRepeatNgrams{1});
  check(NoRepeatNgrams{2});
  check(MinLength{100, {0, 40, 99}});
  check(LogitBias{{3, 1.5}, {17, 2.0}, {64, none}, {500, 1.0}});
  check(Grammar{EveryOther{size}});
  check(Grammar{EveryOther{70}});
  check(Grammar{EveryOther{200}});
  check(Grammar{AllOfTheRow{}});
  check(AfterPrompt{10, Processors{RepetitionPenalty{1.3}, Snapshots{LogitBias{{3, 1.5}}}}});
}

}  // namespace test_more_samplers_partial_logits
