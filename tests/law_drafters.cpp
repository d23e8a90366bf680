// The first law for drafters that learn: the output is distributed as the target's, whether a drafter has learnt from
// this text, from earlier texts or from the target's rows. The shipped templates are enumerated exactly, and every
// branch of chance has its own drafter.
// SPDX-License-Identifier: MIT
#include <random>
#include <span>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/specdec.hpp>
#include <utility>
#include <vector>

#include "support/answers_drafter.hpp"
#include "support/catch.hpp"
#include "support/drafter_laws.hpp"
#include "support/rules.hpp"

namespace law_drafters {

using namespace specdec;
using namespace specdec::testing;
using namespace support;
using namespace support::drafter_laws;

namespace {

SuffixDrafter<> suffix() { return SuffixDrafter{}; }
SuffixDrafter<> taught_suffix() {
  SuffixDrafter drafter{{.max_match = 2}};
  drafter.learn(Tokens{0, 1, 0, 0, 1, 1, 0, 1, 0});
  return drafter;
}
SuffixDrafter<> choosy_suffix() { return SuffixDrafter{{.max_match = 3, .min_share = 0.6}}; }
AnswersDrafter answers() { return {}; }

}  // namespace

TEST_CASE("drafters that learn from the text are lossless", "[law]") {
  check_lossless_with(suffix);
  check_lossless_with(taught_suffix);
  check_lossless_with(choosy_suffix);
}

TEST_CASE("a drafter that learns from the target's rows is lossless", "[law]") {
  check_lossless_with(answers);
}

TEST_CASE("a text is independent of the earlier text that its drafts were learnt from", "[law]") {
  check_two_generations_with(suffix);
  check_two_generations_with(answers);
}

namespace {

// Proposes what a suffix drafter proposes, but reports that every token was equally likely.
class Dishonest {
 public:
  explicit Dishonest(Index vocab_size) : vocab_size_(vocab_size) {}
  template <RandomSource Source>
  Draft<DenseRows<NumbersOf<const Eigen::MatrixXd&>>> draft(std::span<const Token> context, Index gamma,
                                                            Source& source) {
    const auto proposed = honest_.draft(context, gamma, source);
    rows_ = Eigen::MatrixXd::Constant(std::ssize(proposed.tokens), vocab_size_,
                                      1 / static_cast<double>(vocab_size_));
    return {proposed.tokens, DenseRows(std::as_const(rows_))};
  }
  void truncate(Index length) { honest_.truncate(length); }

 private:
  Index vocab_size_;
  SuffixDrafter<> honest_;
  Eigen::MatrixXd rows_;
};

// Proposes at random and reports one-hot rows of its proposals. This is honest: the drafter's coins decide nothing but
// the proposal, and given these coins the tokens are certain under q.
class Capricious {
 public:
  explicit Capricious(Index vocab_size)
      : uniform_(Eigen::RowVectorXd::Constant(vocab_size, 1 / static_cast<double>(vocab_size))) {}
  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, Source& source) {
    auto&& chance = as_chance(source);
    tokens_.clear();
    while (std::ssize(tokens_) < gamma)
      tokens_.push_back(chance.draw(DenseRow<double>(uniform_.data(), uniform_.size())));
    return {tokens_, OneHotRows(tokens_)};
  }
  void truncate(Index) {}

 private:
  Eigen::RowVectorXd uniform_;
  Tokens tokens_;
};

}  // namespace

TEST_CASE("the law convicts a drafter that reports a q its tokens were not drawn from", "[law][long]") {
  std::mt19937_64 rng{33};
  const auto target = TableModel<>::random(3, 2, rng);
  const std::vector<Tokens> prompts{repetitive(3)};
  const Options options{.max_new_tokens = 4, .gamma = 2};
  const Law expected = independent(target, prompts, options);
  const auto dishonest = +[] { return Dishonest(3); };
  const auto capricious = +[] { return Capricious(3); };
  for (const AnyVerifier& rule : ratio_rules) {
    INFO(rule.name());
    const GenerationLaw wrong = law_of(target, for_loops(rule), dishonest, prompts, options);
    CHECK(largest_difference(wrong.law, expected).size > 1e-2);
    const GenerationLaw right = law_of(target, for_loops(rule), capricious, prompts, options);
    CHECK(largest_difference(right.law, expected).size < 1e-12);
  }
}

}  // namespace law_drafters
