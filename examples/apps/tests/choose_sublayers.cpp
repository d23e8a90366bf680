// The search for sublayers to leave out. The oracles: the formulae in double, and a search through all sets.
// SPDX-License-Identifier: MIT
#include "transformer/choose_sublayers.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/temporary_file.hpp"
#include "transformer/shape.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_choose_sublayers {

using Eigen::Index;
using support::message_of;
using support::RandomModel;
using transformer::Prospect, transformer::Shape, transformer::Sublayers, transformer::Token;
using transformer::Transformer, transformer::Written;

namespace {

const Shape shape{40, 33, 2, 4, 2, 50, 64, true};

Transformer<float> transformer_of(const RandomModel& model) {
  const support::TemporaryFile file(model.versioned<float>());
  return Transformer<float>(file.path());
}

std::vector<Written> random_texts(unsigned seed) {
  std::mt19937 rng{seed};
  std::vector<Written> texts;
  for (const auto& [size, prompt] : std::vector<std::pair<std::size_t, Index>>{{9, 3}, {12, 1}, {4, 3}}) {
    texts.push_back({std::vector<Token>(size), prompt});
    for (Token& x : texts.back().tokens)
      x = static_cast<Token>(rng() % static_cast<unsigned>(shape.vocab_size));
  }
  return texts;
}

Eigen::ArrayXd softmax(const Eigen::VectorXd& logits, double temperature) {
  Eigen::ArrayXd p = (logits.array() / temperature - logits.maxCoeff() / temperature).exp();
  return p / p.sum();
}

Index argmax(const Eigen::VectorXd& logits) {
  Index best = 0;
  logits.maxCoeff(&best);
  return best;
}

// What acceptances() says it is, from the formulae.
double acceptance(const RandomModel& model, const std::vector<Written>& texts, double temperature,
                  const Sublayers& sublayers) {
  double sum = 0;
  int places = 0;
  for (const Written& text : texts)
    for (Index i = text.prompt; i < std::ssize(text.tokens); ++i, ++places) {
      const std::vector<Token> before(text.tokens.begin(), text.tokens.begin() + i);
      const Eigen::VectorXd p = model.logits(before).bottomRows(1).transpose(),
                            q = model.logits(before, i - 1, sublayers).bottomRows(1).transpose();
      sum += temperature > 0 ? softmax(p, temperature).min(softmax(q, temperature)).sum()
                             : static_cast<double>(argmax(p) == argmax(q));
    }
  return sum / places;
}

}  // namespace

TEST_CASE("acceptances: overlaps of the target's rows and the rows of some sublayers after its own context") {
  const RandomModel random(shape, 1);
  Transformer<float> model = transformer_of(random);
  const std::vector<Written> texts = random_texts(2);
  const Sublayers all = Sublayers::first(2);
  const std::vector<Sublayers> sets{
      all, all.without(0), all.without(3), Sublayers::first(1), all.without(1).without(2), Sublayers()};
  for (const double temperature : {0.0, 0.8, 1.0}) {
    const std::vector<double> accepted = acceptances(model, texts, temperature, sets);
    REQUIRE(accepted.size() == sets.size());
    CHECK(accepted[0] == Approx(1).epsilon(1e-12));
    CHECK(accepted[0] <= 1);
    for (std::size_t k = 0; k < sets.size(); ++k) {
      INFO(temperature << ", " << sets[k].layers() << " layers without " << sets[k].left_out());
      CHECK(accepted[k] == Approx(acceptance(random, texts, temperature, sets[k])).margin(1e-4));
    }
    CHECK(model.length() == 0);
  }
}

TEST_CASE("prospect: the best draft length, for a cost that is the share of the weights") {
  const Shape wide{64, 96, 3, 4, 2, 200, 64, true};  // 12 288, 18 432 and 12 800 weights
  const Sublayers all = Sublayers::first(3);
  CHECK(share_of_weights(wide, all) == 1);
  CHECK(share_of_weights(wide, Sublayers()) == Approx(12800.0 / 104960));
  CHECK(share_of_weights(wide, Sublayers::first(1)) == Approx((12800.0 + 12288 + 18432) / 104960));
  CHECK(share_of_weights(wide, all.without(2)) == Approx((104960.0 - 12288) / 104960));
  CHECK(share_of_weights(wide, all.without(5)) == Approx((104960.0 - 18432) / 104960));
  const auto speed_up = [](double a, double c, int gamma) {
    double tokens = 1;
    for (int i = 1; i <= gamma; ++i) tokens += std::pow(a, i);
    return tokens / (1 + gamma * c);
  };
  for (const Sublayers& sublayers : {Sublayers(), Sublayers::first(1), all.without(1).without(4)})
    for (const double a : {0.0, 0.1, 0.5, 0.8, 0.97, 1.0}) {
      const Prospect found = prospect(wide, sublayers, a, 6);
      CHECK(found.sublayers == sublayers);
      CHECK(found.acceptance == a);
      CHECK(found.share == share_of_weights(wide, sublayers));
      CHECK(found.speed_up == Approx(speed_up(a, found.share, static_cast<int>(found.gamma))));
      for (int gamma = 1; gamma <= 6; ++gamma)
        CHECK(found.speed_up >= speed_up(a, found.share, gamma) * (1 - 1e-12));
    }
  CHECK(prospect(wide, Sublayers::first(1), 0.1).gamma == 1);  // drafts do not pay
  CHECK(message_of<std::invalid_argument>([&] { prospect(wide, all, 0.5, 0); }) ==
        "prospect: most = 0 is less than 1");
  CHECK_THROWS_AS(prospect(wide, all, 1.1), std::invalid_argument);
}

TEST_CASE("sublayers are left out one by one: always the one whose absence costs least") {
  const RandomModel random(shape, 3);
  Transformer<float> model = transformer_of(random);
  const std::vector<Written> texts = random_texts(4);
  for (const double temperature : {0.0, 1.0}) {
    const std::vector<Prospect> path = leave_out_one_by_one(model, texts, temperature, 8);
    REQUIRE(path.size() == 4);
    Sublayers before = Sublayers::first(2);
    for (const Prospect& found : path) {
      Index left_out = -1;
      std::vector<Sublayers> sets;
      for (Index i = 0; i < 4; ++i) {
        if (before.runs(i)) sets.push_back(before.without(i));
        if (before.runs(i) && !found.sublayers.runs(i)) left_out = i;
      }
      REQUIRE(left_out >= 0);
      CHECK(found.sublayers == before.without(left_out));
      const std::vector<double> accepted = acceptances(model, texts, temperature, sets);
      for (std::size_t k = 0; k < sets.size(); ++k)
        CHECK(found.speed_up >= prospect(shape, sets[k], accepted[k], 8).speed_up);
      CHECK(found.acceptance ==
            accepted[static_cast<std::size_t>(std::ranges::find(sets, found.sublayers) - sets.begin())]);
      before = found.sublayers;
    }
    CHECK(path.back().sublayers == Sublayers::first(2).without(0).without(1).without(2).without(3));
  }
}

TEST_CASE("texts that cannot be measured on are refused, and the target is left empty") {
  Transformer<float> model = transformer_of(RandomModel(shape, 5));
  const std::vector<Sublayers> sets{Sublayers::first(1)};
  const auto says = [&](std::vector<Written> texts) {
    return message_of<std::invalid_argument>([&] { acceptances(model, texts, 1, sets); });
  };
  CHECK(says({}) == "acceptances: there are no texts");
  CHECK(says({{{1, 2}, 1}, {{1, 2}, 0}}) ==
        "acceptances: texts[1] has 2 tokens, of which 0 are the prompt, for a context of 64");
  CHECK(says({{{1, 2}, 2}}) ==
        "acceptances: texts[0] has 2 tokens, of which 2 are the prompt, for a context of 64");
  CHECK(says({{std::vector<Token>(65, 1), 2}}) ==
        "acceptances: texts[0] has 65 tokens, of which 2 are the prompt, for a context of 64");
  CHECK(says({{{1, 2}, 1}, {{1, 99, 1}, 2}}) ==
        "transformer: tokens[1] = 99 is outside the vocabulary 0..49");
  CHECK(model.length() == 0);
  model.forward(std::vector<Token>{1, 2, 3}, 1);
  const std::vector<Written> fine{{{1, 2}, 1}};
  const std::vector<Sublayers> too_deep{Sublayers::first(3)};
  CHECK(message_of<std::invalid_argument>([&] { acceptances(model, fine, 1, too_deep); }) ==
        "transformer: the sublayers are of 3 layers, the model has 2");
  CHECK(model.length() == 0);
}

}  // namespace test_examples_choose_sublayers
