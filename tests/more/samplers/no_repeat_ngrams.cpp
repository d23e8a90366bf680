// No n-gram twice: against a search of the whole text, forward and back.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <random>
#include <specdec/chance/random.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/sample/text_processor.hpp>
#include <vector>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_sample_no_repeat_ngrams {

using namespace specdec;

namespace {

bool ends_in_repetition(const std::vector<Token>& text, Index n) {
  if (std::ssize(text) < n) return false;
  const auto last = text.end() - n;
  return std::search(text.begin(), text.end() - 1, last, text.end()) != text.end() - 1;
}

}  // namespace

static_assert(TextProcessor<NoRepeatNgrams>);

TEST_CASE("a token is forbidden exactly if it completes an n-gram that the text already has") {
  constexpr Index vocabulary = 4;
  for (const Index n : {1, 2, 3, 5}) {
    std::mt19937_64 rng{static_cast<std::uint64_t>(n)};
    const auto below = [&](Index end) {
      return static_cast<Index>(uniform01(rng) * uniform01(rng) * static_cast<double>(end));
    };
    NoRepeatNgrams bans{n};
    std::vector<Token> text;
    Index forbidden = 0;
    for (int step = 0; step < 300; ++step) {
      const Index back = std::min(below(step % 50 == 49 ? 200 : 3), std::ssize(text));
      bans.pop(back);
      text.resize(text.size() - static_cast<std::size_t>(back));
      for (Index more = below(8); more > 0; --more) {
        text.push_back(static_cast<Token>(below(vocabulary + 2) - 1));
        bans.push(text.back());
      }
      if (step == 150) {
        NoRepeatNgrams copy = bans;
        bans = copy;
      }
      Eigen::RowVectorXf logits = Eigen::RowVectorXf::Ones(vocabulary);
      bans.apply(Eigen::Ref<Eigen::RowVectorXf>(logits));
      for (Token x = 0; x < vocabulary; ++x) {
        text.push_back(x);
        const bool repeats = ends_in_repetition(text, n);
        forbidden += repeats ? 1 : 0;
        REQUIRE(logits[x] == (repeats ? -std::numeric_limits<float>::infinity() : 1));
        text.pop_back();
      }
    }
    CHECK(forbidden > 20);
  }
}

TEST_CASE("an n-gram of length 0 is refused") {
  CHECK(support::message_of([] { NoRepeatNgrams{0}; }) ==
        "specdec: NoRepeatNgrams{0}: an n-gram has a token at least");
}

}  // namespace test_sample_no_repeat_ngrams
