// The draft model that learns, and its drafter. The oracles: the rows of the plain draft model, the accepted share itself, by
// finite differences in double, and the target's own text.
// SPDX-License-Identifier: MIT
#include "drafters/online.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "generate/sampled.hpp"
#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/one_text.hpp"
#include "support/temporary_file.hpp"
#include "trained_pair.hpp"
#include "transformer/online_model.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_online {

using namespace specdec;
using drafters::OnlineDrafter;
using generate::sampled;
using support::message_of;
using transformer::OnlineModel, transformer::Transformer;
using Tokens = std::vector<Token>;
using Online = OnlineModel<float>;

static_assert(Model<Online> && Model<OnlineModel<Eigen::half>>);
static_assert(!takes_trees<Online> && !has_steady_rows<Online>);

namespace {

// Sizes that are no multiples of 16.
const transformer::Shape shape{40, 33, 2, 4, 2, 50, 64, false};

Transformer<float> random_transformer(unsigned seed) {
  const support::TemporaryFile file(support::RandomModel(shape, seed).versioned<float>());
  return Transformer<float>(file.path());
}

Eigen::ArrayXd softmax(const Eigen::ArrayXd& logits) {
  const Eigen::ArrayXd e = (logits - logits.maxCoeff()).exp();
  return e / e.sum();
}

template <class Row>
Eigen::ArrayXd numbers(const Row& row) {
  return row.transpose().array().template cast<double>();
}

Eigen::ArrayXf random_row(std::mt19937& rng) {
  std::normal_distribution<double> normal{0, 2};
  return softmax(Eigen::ArrayXd::NullaryExpr(50, [&] { return normal(rng); })).cast<float>();
}

Eigen::ArrayXf certain(Index token) {
  Eigen::ArrayXf row = Eigen::ArrayXf::Zero(50);
  row[token] = 1;
  return row;
}

Index likeliest(const Eigen::ArrayXd& row) {
  Index best = 0;
  row.maxCoeff(&best);
  return best;
}

// The gradient of Σ min(p, q) by the logits over the temperature.
Eigen::ArrayXd gradient(const Eigen::ArrayXf& p, const Eigen::ArrayXd& z) {
  const auto accepted = [&](const Eigen::ArrayXd& at) { return p.cast<double>().min(softmax(at)).sum(); };
  return Eigen::ArrayXd::NullaryExpr(z.size(), [&](Index x) {
    Eigen::ArrayXd more = z, less = z;
    more[x] += 1e-6;
    less[x] -= 1e-6;
    return (accepted(more) - accepted(less)) / 2e-6;
  });
}

}  // namespace

TEST_CASE("a draft model that has learnt nothing is the plain one, to the bit") {
  Transformer<float> plain = random_transformer(1);
  const Tokens tokens{3, 1, 4, 1, 5};
  for (const float rate : {0.0F, 1.0F}) {
    Online online(random_transformer(1), {.temperature = 6, .rate = rate});
    CHECK(online.vocab_size() == 50);
    CHECK(online.context_size() == 64);
    const auto same = [&] {
      online.truncate(2);
      plain.truncate(0);
      return online.forward(std::span(tokens).subspan(2), 3) == plain.forward(tokens, 3);
    };
    online.forward(tokens, 5);
    CHECK(same());
    online.learn(3, certain(7));
    CHECK(same() == (rate == 0));
    online.forget();
    CHECK(same());
  }
}

TEST_CASE("a step moves the row where it learns along the gradient of what is accepted") {
  std::mt19937 rng{2};
  const Tokens tokens{3, 1, 4, 1, 5, 9};
  for (const double temperature : {3.0, 6.0, 10.0}) {  // the rows are flat
    const double rate = temperature == 6 ? 1 : 0.7;    // 1 is the default
    Online online(random_transformer(1), {.temperature = temperature});
    if (rate != 1) online = Online(random_transformer(1), {.temperature = temperature, .rate = 0.7F});
    for (Index length = 1; length <= 6; ++length) {  // each step after the others
      online.truncate(0);
      const Eigen::ArrayXd before = numbers(online.forward(tokens, 7 - length).row(0));
      const Eigen::ArrayXf target = random_row(rng);
      const Eigen::ArrayXd step = gradient(target, before / temperature);
      online.truncate(length - 1);  // the states stay
      online.learn(length, target);
      online.truncate(0);
      const Eigen::ArrayXd after = numbers(online.forward(tokens, 7 - length).row(0));
      CHECK(step.abs().maxCoeff() > 0.004);
      CHECK(((after - before) / temperature - rate * step).abs().maxCoeff() < 2e-5);
    }
  }
}

TEST_CASE("what was learnt at a place holds at other places by the likeness of their states") {
  Transformer<float> plain = random_transformer(1);
  Online online(random_transformer(1), {.temperature = 6, .rate = 10.0F});
  const Tokens tokens{3, 1, 4, 1, 5, 9};
  online.forward(tokens, 6);
  online.learn(4, certain(8));
  online.truncate(0);
  const Eigen::MatrixXf rows = online.forward(tokens, 6), before = plain.forward(tokens, 6);
  Eigen::MatrixXd states = plain.features().cast<double>();
  const Eigen::VectorXd norm = plain.weights()->final_norm.head(40).cast<double>();
  for (Index i = 0; i < 6; ++i)
    states.col(i) = states.col(i).normalized().cwiseProduct(norm);  // up to a factor, which is one for all
  const Eigen::RowVectorXd step = (rows - before).row(3).cast<double>();
  CHECK(step.norm() > 0.01);
  for (Index i = 0; i < 6; ++i) {
    const double likeness = states.col(i).dot(states.col(3)) / states.col(3).squaredNorm();
    CHECK(((rows - before).row(i).cast<double>() - likeness * step).norm() < 1e-4 * step.norm());
  }
}

TEST_CASE("at temperature 0 it learns where the likeliest tokens differ, and nowhere else") {
  Online online(random_transformer(1), {.temperature = 0});
  const Tokens tokens{3, 1, 4};
  const Eigen::ArrayXd before = numbers(online.forward(tokens, 1).row(0));
  const auto learnt = [&](const Eigen::ArrayXf& target) {
    online.learn(3, target);
    online.truncate(2);
    return numbers(online.forward(std::span(tokens).last(1), 1).row(0));
  };
  CHECK((learnt(certain(likeliest(before))) == before).all());
  const Index other = likeliest(before) == 6 ? 7 : 6;
  const Eigen::ArrayXf target = certain(other);
  CHECK((learnt(target) - before).isApprox(0.1 * (target.cast<double>() - softmax(before)), 1e-3));
  int steps = 1;
  while (likeliest(learnt(target)) != other) ++steps;
  CHECK(steps < 200);
  const Eigen::ArrayXd right = learnt(target);
  CHECK((learnt(target) == right).all());
}

TEST_CASE("an online model says what it refuses") {
  const auto made = [](const Online::Options& options) {
    return message_of<std::invalid_argument>([&] { Online(random_transformer(1), options); });
  };
  CHECK(made({.temperature = -1}) == "OnlineModel: temperature = -1 is no temperature");
  CHECK(made({.temperature = std::numeric_limits<double>::quiet_NaN()}) ==
        "OnlineModel: temperature = nan is no temperature");
  CHECK(made({.temperature = std::numeric_limits<double>::infinity()}) ==
        "OnlineModel: temperature = inf is no temperature");
  CHECK(made({.rate = -0.5F}) == "OnlineModel: rate = -0.5 is outside 0..100");
  CHECK(made({.rate = 101.0F}) == "OnlineModel: rate = 101 is outside 0..100");
  Online online(random_transformer(1));
  const auto said = [&](Index length, Index size) {
    return message_of<std::invalid_argument>([&] { online.learn(length, Eigen::ArrayXf::Zero(size)); });
  };
  CHECK(said(0, 50) == "OnlineModel: length = 0 is outside 1..64");
  CHECK(said(65, 50) == "OnlineModel: length = 65 is outside 1..64");
  CHECK(said(1, 49) == "OnlineModel: the target's row has 49 probabilities, expected 50");
  CHECK(said(2, 50) == "OnlineModel: no row was returned after 2 tokens");
  const Tokens tokens{1, 2};
  CHECK(message_of<std::invalid_argument>([&] { online.forward(tokens, 3); }) ==
        "transformer: rows = 3 is outside 1..2, the number of tokens");
  Transformer<float> plain = random_transformer(1);
  CHECK(online.forward(tokens, 2) == plain.forward(tokens, 2));  // nothing had changed
}

namespace {

// Proposes one list of tokens again and again.
struct Proposes {
  static constexpr bool drafts_trees = false;
  Tokens tokens;
  Index* cut;

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, Source&) const {
    const auto n = static_cast<std::size_t>(std::min(gamma, std::ssize(tokens)));
    return {std::span(tokens).first(n), OneHotRows(std::span(tokens).first(n)), {}};
  }
  void truncate(Index length) { *cut = length; }
};

struct Records {
  std::vector<std::pair<Index, Eigen::ArrayXf>> learnt;

  void learn(Index length, const Eigen::ArrayXf& row) { learnt.emplace_back(length, row); }
};

}  // namespace

TEST_CASE("an online drafter uses what its drafter uses") {
  Online online(random_transformer(1));
  ModelDrafter inner{sampled(online, 1)};
  const std::vector<const void*> own = inner.identities();
  CHECK(!own.empty());
  CHECK(OnlineDrafter{inner, online}.identities() == own);
}

TEST_CASE("an online drafter shows the rows up to the correction token, each with its place") {
  Eigen::Matrix<double, 4, 1500, Eigen::RowMajor> rows;  // longer than a segment
  rows.setRandom();
  rows = rows.cwiseAbs() / 750;
  Records records;
  Index cut = -1;
  OnlineDrafter drafter{Proposes{{1, 2, 0}, &cut}, records};
  static_assert(Drafter<decltype(drafter)> && !drafts_trees<decltype(drafter)>);
  static_assert(!is_steady<OnlineDrafter<ModelDrafter<ProcessedModel<Online&, Temperature>>, Online&>>);
  support::OneText by_hand{drafter};
  std::mt19937_64 rng{1};
  const Tokens context{0, 1, 2, 0, 1};
  for (const Index node : {0, 1, 2, 3}) {
    const Draft<OneHotRows> draft = by_hand.draft(context, {3}, rng);
    REQUIRE(draft.tokens.size() == 3);
    records.learnt.clear();
    by_hand.observe(Judged<decltype(rows)>{rows, draft.tokens, {}, {.node = node, .token = 0}});
    REQUIRE(std::ssize(records.learnt) == std::min<Index>(node + 1, 3));
    for (Index i = 0; i < std::ssize(records.learnt); ++i) {
      const auto& [length, row] = records.learnt[static_cast<std::size_t>(i)];
      CHECK(length == 5 + i);
      CHECK((row == rows.row(i).transpose().array().cast<float>()).all());
    }
  }
  records.learnt.clear();
  const auto first_row = rows.topRows(1);
  by_hand.observe(
      Judged<decltype(first_row)>{first_row, by_hand.draft(context, {0}, rng).tokens, {}, NodeVerdict{}});
  CHECK(records.learnt.empty());
  by_hand.truncate(4);
  CHECK(cut == 4);
}

namespace {

using testing::TableModel;
using ManyTexts = ModelPerSequence<TableModel<>>;

// Guesses token 0 again and again.
struct Zeros {
  Tokens tokens = {};
  Draft<OneHotRows> draft(std::span<const Token>, Index gamma, auto&) {
    tokens.assign(static_cast<std::size_t>(std::max<Index>(gamma, 0)), 0);
    return {tokens, OneHotRows(tokens)};
  }
  void truncate(Index) {}
};

// Records the places of the rows that it is shown, text by text.
struct RecordsOfMany {
  std::map<Index, std::vector<std::pair<Index, Eigen::ArrayXf>>> learnt;
  void learn(Index sequence, Index length, const Eigen::ArrayXf& row) {
    learnt[sequence].emplace_back(length, row);
  }
};

// A draft model for many texts. It looks at the last token, and is sure of nothing until it has learnt.
struct LearntBigrams {
  static constexpr bool steady_rows = false;

  Index vocab_size() const { return 4; }
  const TableModel<>::Rows& forward(std::span<const BatchFeed> feeds) {
    rows.resize(0, 4);
    for (const BatchFeed& feed : feeds) {
      Tokens& text = texts[feed.sequence];
      text.resize(static_cast<std::size_t>(feed.from));
      text.insert(text.end(), feed.tokens.begin(), feed.tokens.end());
      for (auto at = text.end() - feed.rows; at != text.end(); ++at) {
        rows.conservativeResize(rows.rows() + 1, 4);
        rows.row(rows.rows() - 1) = after.row(*at);
      }
    }
    return rows;
  }
  void keep(Index sequence, Index length) {
    Tokens& text = texts[sequence];
    text.resize(std::min(text.size(), static_cast<std::size_t>(length)));
  }
  void release(Index sequence) { texts.erase(sequence); }
  void learn(Index sequence, Index length, const Eigen::ArrayXf& row) {
    after.row(texts.at(sequence).at(static_cast<std::size_t>(length - 1))) =
        row.matrix().transpose().cast<double>();
  }

  TableModel<>::Rows after = TableModel<>::Rows::Constant(4, 4, 0.25), rows;
  std::map<Index, Tokens> texts;
};

}  // namespace

TEST_CASE("in a batch one learner is shown the rows of all texts, each with its text and its place") {
  std::mt19937_64 rng{1};
  const auto table = TableModel<>::random(3, 2, rng);
  const std::vector<Tokens> prompts{{0}, {2, 1, 0}, {1, 1}};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  RecordsOfMany records;
  Batch batch{ManyTexts{table}, OnlineDrafter{Zeros{}, records}};
  for (std::size_t i = 0; i < prompts.size(); ++i) batch.add(prompts[i], options, SplitMix64{i});
  for (const Finished& done : batch.run()) {
    REQUIRE_FALSE(done.error);
    Records alone;
    SpecDec decoder{TableModel<>(table), OnlineDrafter{Zeros{}, alone}};
    SplitMix64 numbers{static_cast<std::uint64_t>(done.sequence)};
    const Tokens& prompt = prompts[static_cast<std::size_t>(done.sequence)];
    CHECK(decoder.generate(prompt, options, numbers).tokens == done.result.tokens);
    const auto& shown = records.learnt.at(done.sequence);
    REQUIRE(shown.size() == alone.learnt.size());
    REQUIRE(shown.size() > 5);
    for (std::size_t k = 0; k < shown.size(); ++k) {
      CHECK(shown[k].first == alone.learnt[k].first);
      CHECK((shown[k].second == alone.learnt[k].second).all());
      Tokens text = prompt;
      text.insert(text.end(), done.result.tokens.begin(), done.result.tokens.end());
      const auto expected =
          table.distribution(std::span(text).first(static_cast<std::size_t>(shown[k].first)));
      for (Token x = 0; x < 3; ++x) CHECK(shown[k].second[x] == static_cast<float>(expected.probability(x)));
    }
  }
}

TEST_CASE("a learner that knows one text is refused by a batch") {
  std::mt19937_64 rng{1};
  const auto table = TableModel<>::random(3, 2, rng);
  Records records;
  CHECK(message_of<std::invalid_argument>([&] {
          Batch{ManyTexts{table}, OnlineDrafter{Zeros{}, records}};
        }) == "OnlineDrafter: the learner knows one text only");
}

TEST_CASE(
    "what is learnt from one text of a batch is drafted in the others, and the texts are the target's") {
  std::mt19937_64 rng{2};
  const auto table = TableModel<>::random(4, 1, rng);
  const Options options{.max_new_tokens = 60, .gamma = 3};
  LearntBigrams model;
  Batch batch{ManyTexts{table}, OnlineDrafter{ModelDrafter{model}, model}, KeyedVerifier{}};
  Index calls = 0;
  for (const std::uint64_t first : {0, 4}) {
    for (std::uint64_t seed = first; seed < first + 4; ++seed) batch.add(Tokens{0}, options, Keyed{seed});
    calls = 0;
    for (const Finished& done : batch.run()) {
      REQUIRE_FALSE(done.error);
      Keyed keyed{static_cast<std::uint64_t>(done.sequence)};
      CHECK(autoregressive<KeyedVerifier>(TableModel<>(table), Tokens{0}, options, keyed).tokens ==
            done.result.tokens);
      calls += done.result.stats.target_calls;
    }
    if (first == 0) CHECK(calls > 4 * 15);
  }
  CHECK(calls == 4 * 15);  // it has learnt the target by now
}

namespace {

// Texts of a kind that the draft model was not trained on.
std::vector<Tokens> lines_of_code() {
  std::vector<Tokens> prompts;
  for (int n = 10; n < 20; ++n)
    prompts.push_back(support::trained_tokenizer().encode("for (int i = 0; i < " + std::to_string(n) +
                                                          "; ++i) sum += data[i];  // all numbers"));
  return prompts;
}

}  // namespace

TEST_CASE("while it learns, the target writes its own text, in fewer calls where the draft model errs") {
  auto& [target, draft] = support::trained_pair<float>();
  Online online(draft, {.temperature = 0, .rate = 0.3F});
  SpecDec learning{sampled(target, 0), OnlineDrafter{ModelDrafter{sampled(online, 0)}, online}};
  SpecDec still{sampled(target, 0), ModelDrafter{sampled(draft, 0)}};
  const Options options{.max_new_tokens = 60, .gamma = 4};
  std::mt19937_64 rng{1};
  Index calls = 0, still_calls = 0;
  for (const Tokens& prompt : lines_of_code()) {
    const Result one = learning.generate(prompt, options, rng), other = still.generate(prompt, options, rng);
    CHECK(one.tokens == other.tokens);
    calls += one.stats.target_calls;
    still_calls += other.stats.target_calls;
  }
  CHECK(20 * calls < 19 * still_calls);
}

// False-alarm rate 1e-6 each; the seed is fixed.
TEST_CASE(
    "texts of a draft model that learns follow the target's law, and tokens are drawn from the rows it "
    "reports",
    "[law][sampled]") {
  auto& [target, draft] = support::trained_pair<float>();
  Online online(draft, {.temperature = 1, .rate = 3.0F});
  testing::AuditedDrafter drafter{OnlineDrafter{ModelDrafter{sampled(online, 1)}, online}};
  SpecDec decoder{sampled(target, 1), drafter};
  const auto report = support::check_trained([&](const auto& prompt, const Options& options, auto& rng) {
    return decoder.generate(prompt, options, rng).tokens;
  });
  INFO(report);
  CHECK(report.accepted());
  CHECK(!drafter.report().convicted());
}

}  // namespace test_examples_online
