// Models that are shown a window of the context. The window depends on the context only, and costs little.
// SPDX-License-Identifier: MIT
#include "specdec/more/models/windowed.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include "specdec/more/samplers/no_repeat_ngrams.hpp"
#include "specdec/more/samplers/penalties.hpp"
#include "specdec/more/samplers/processors.hpp"

#include "support/catch.hpp"
#include "support/copied_rows.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/strict.hpp"

namespace test_more_models_windowed {

using namespace specdec;
using namespace specdec::testing;
using support::CopiedRows;
using support::CopiedTexts;
using support::message_of;
using Tokens = std::vector<Token>;

namespace {

struct Failure : std::runtime_error {
  Failure() : std::runtime_error("a call") {}
};

struct Row {
  Eigen::VectorXd p;
  Index vocab_size() const { return p.size(); }
  double probability(Token x) const { return p[x]; }
};

// A row depends on every token of the context and on its place, and the context is short.
struct Remembering {
  Index vocabulary, most = unlimited;
  Tokens context = {};
  Eigen::MatrixXd output = {};
  Index calls = 0, fed = 0;
  bool fails = false;    // after taking in the tokens
  Index misshapen = -1;  // how many columns its only row has instead

  Index vocab_size() const { return vocabulary; }
  Index context_size() const { return most; }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    support::check_call(tokens, std::max<Index>(rows, 1), vocabulary);  // 0: a part of a prompt, by OnlyText
    context.insert(context.end(), tokens.begin(), tokens.end());
    if (std::exchange(fails, false)) throw Failure();
    if (misshapen >= 0) return output = Eigen::MatrixXd::Zero(1, misshapen);
    REQUIRE(std::ssize(context) <= most);
    ++calls;
    fed += std::ssize(tokens);
    output.resize(rows, vocabulary);
    for (Index i = 0; i < rows; ++i)
      output.row(i) =
          distribution(std::span(context).first(context.size() - static_cast<std::size_t>(rows - 1 - i)))
              .p.transpose();
    return output;
  }
  void truncate(Index length) {
    if (length < std::ssize(context)) context.resize(static_cast<std::size_t>(length));
  }
  Row distribution(std::span<const Token> shown) const {
    std::uint64_t hash = 1;
    for (const Token x : shown) hash = SplitMix64(hash + static_cast<std::uint64_t>(x))();
    SplitMix64 generator(hash);
    Eigen::VectorXd p = Eigen::VectorXd::NullaryExpr(vocabulary, [&] { return 0.1 + uniform01(generator); });
    return {p / p.sum()};
  }
};

struct Window {
  Index first, last, stride;

  // The documented window, place by place.
  Tokens shown(std::span<const Token> context) const {
    if (std::ssize(context) <= first + last) return {context.begin(), context.end()};
    Index begin = first;
    while (std::ssize(context) - begin > last) begin += stride;
    Tokens tokens(context.begin(), context.begin() + first);
    tokens.insert(tokens.end(), context.begin() + begin, context.end());
    return tokens;
  }
};

// The law of the windowed model, by definition.
struct Shown {
  Remembering model;
  Window window;
  Row distribution(std::span<const Token> context) const { return model.distribution(window.shown(context)); }
};

// Wraps a model for one text, or a model for many texts with one text in it.
CopiedRows windowed(Remembering& model, bool for_many, auto... window) {
  if (for_many) return CopiedRows(support::AsOneText{Windowed{support::OnlyText{model}, window...}});
  return CopiedRows(Windowed{model, window...});
}

// A decoder of any two models.
auto decoder_of(CopiedRows target, CopiedRows draft) {
  return SpecDec{std::move(target), ModelDrafter{std::move(draft)}};
}

void check_texts(CopiedTexts target, CopiedTexts draft, BatchOptions limits,
                 const std::function<SpecDec<CopiedRows, ModelDrafter<CopiedRows>>()>& alone) {
  Batch batch{target, ModelDrafter{draft}, BlockVerifier{}, limits};
  support::check_texts_alone(batch, alone);
}

Tokens tokens_of(Index count, Index vocab_size, std::mt19937_64& rng) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (Token& x : tokens) x = static_cast<Token>(rng() % static_cast<std::uint64_t>(vocab_size));
  return tokens;
}

}  // namespace

static_assert(Model<Windowed<Remembering>> && Model<Windowed<Remembering&>>);
static_assert(NumberMatrix<specdec::detail::OutputOf<Windowed<Remembering&>>>);
static_assert(Model<Windowed<NgramModel>> && Model<Windowed<PathByPath<NgramModel>>>);
static_assert(!has_stable_rows<Windowed<NgramModel>>);

TEST_CASE("Windowed: a row depends on the context only, to the bit, in any order of calls and failures") {
  const bool for_many = GENERATE(false, true);
  std::mt19937_64 rng{1};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
  int failures = 0;
  for (const Window w : {Window{2, 6, 3}, {0, 4, 1}, {0, 1, 1}, {3, 5, 5}, {4, 9, 2}})
    for (int seed = 0; seed < 6; ++seed) {
      Remembering remembering{.vocabulary = 3, .most = w.first + w.last};
      const Shown right{remembering, w};
      CopiedRows model = windowed(remembering, for_many, w.first, w.last, w.stride);
      remembering.context = {1, 2};  // another user of the model has left this
      model.truncate(0);
      Tokens context;
      for (int n = 0; n < 80; ++n) {
        if (below(2) == 0) {
          const Index back = below(10) == 0 ? below(std::ssize(context) + 2) : below(5);
          const Index length = std::max<Index>(std::ssize(context) - back, 0);
          model.truncate(length);
          context.resize(static_cast<std::size_t>(length));
        }
        const Tokens tokens = tokens_of(1 + below(below(5) == 0 ? 25 : 5), 3, rng);
        const Index rows = 1 + below(std::ssize(tokens));
        remembering.fails = below(5) == 0;
        try {
          const auto output = model.forward(tokens, rows);
          context.insert(context.end(), tokens.begin(), tokens.end());
          REQUIRE(output.rows() == rows);
          for (Index i = 0; i < rows; ++i)
            CHECK(output.row(i).transpose() ==
                  right
                      .distribution(
                          std::span(context).first(context.size() - static_cast<std::size_t>(rows - 1 - i)))
                      .p);
        } catch (const Failure&) {
          ++failures;
        }
      }
    }
  CHECK(failures > 100);
}

TEST_CASE(
    "Windowed: drafts of a windowed model change no law, and a windowed target writes the law of its "
    "windows") {
  const Tokens prompt{1, 0, 1};
  const Remembering large{.vocabulary = 2}, small{.vocabulary = 2, .most = 3};
  for (const Index gamma : {1, 2, 3})
    for (const Window w : {Window{1, 2, 1}, {1, 2, 2}, {0, 3, 2}}) {
      const Options length{.max_new_tokens = 5, .gamma = gamma};
      const auto draft = [&] { return CopiedRows(Windowed{Remembering(small), w.first, w.last, w.stride}); };
      SpecDec drafted = decoder_of(CopiedRows(large), draft());
      const GenerationLaw written = enumerate_generate(drafted, prompt, length);
      CHECK(largest_difference(written.law, target_law(large, prompt, length)).size < 1e-12);
      CHECK(written.accepted > 0.5);
      SpecDec windowed = decoder_of(draft(), CopiedRows(large));
      const GenerationLaw of_window = enumerate_generate(windowed, prompt, length);
      CHECK(largest_difference(of_window.law, target_law(Shown{small, w}, prompt, length)).size < 1e-12);
    }
}

TEST_CASE("Windowed: a text longer than the model's context is drafted for up to its end") {
  const Options options{.max_new_tokens = 200, .gamma = 4};
  const Tokens prompt(30, 1);
  const auto drafted = [&](CopiedRows draft) {
    SpecDec decoder = decoder_of(CopiedRows(Remembering{.vocabulary = 3}), std::move(draft));
    std::mt19937_64 rng{3};
    return decoder.generate(prompt, options, rng).stats;
  };
  const Remembering small{.vocabulary = 3, .most = 40};
  CHECK(drafted(CopiedRows(small)).drafted < 50);
  const Stats stats = drafted(CopiedRows(Windowed{Remembering(small), 2, 38}));
  CHECK(stats.drafted >= 4 * (stats.target_calls - 2));
}

TEST_CASE("Windowed: feeds only new tokens, and the whole window where a new one begins") {
  const bool for_many = GENERATE(false, true);
  Remembering inner{.vocabulary = 3, .most = 12};
  CopiedRows model = windowed(inner, for_many, 2, 10);  // so a new window begins every 5 tokens
  const auto cost = [&](Index tokens, Index rows) {
    inner.calls = inner.fed = 0;
    model.forward(Tokens(static_cast<std::size_t>(tokens), 1), rows);
    return std::pair(inner.calls, inner.fed);
  };
  using Cost = std::pair<Index, Index>;
  CHECK(cost(10, 1) == Cost(1, 10));
  CHECK(cost(2, 2) == Cost(1, 2));  // the window is full
  CHECK(cost(1, 1) == Cost(1, 6));
  CHECK(cost(3, 1) == Cost(1, 3));
  model.truncate(13);
  CHECK(cost(3, 3) == Cost(1, 3));
  model.truncate(12);  // back before the beginning of the last window, which begins again
  CHECK(cost(1, 1) == Cost(1, 1));
  model.truncate(10);
  CHECK(cost(3, 3) == Cost(2, 10 + 6));  // two rows in one window, one in the next
  CHECK(cost(1000, 1) == Cost(1, 6));
  CHECK(inner.context.size() == 8);
  model.truncate(0);
  CHECK(cost(1000, 1).second <= 12);
}

TEST_CASE("Windowed: texts of one batch, each in its own window, are what they are alone") {
  const Remembering large{.vocabulary = 3, .most = 9}, small{.vocabulary = 3, .most = 7};
  check_texts(CopiedTexts(Windowed{ModelPerSequence{large}, 2, 7, 3}),
              CopiedTexts(Windowed{ModelPerSequence{small}, 1, 6, 2}), {.tokens_per_call = 20}, [&] {
                return decoder_of(CopiedRows(Windowed{Remembering(large), 2, 7, 3}),
                                  CopiedRows(Windowed{Remembering(small), 1, 6, 2}));
              });
}

TEST_CASE(
    "Windowed: inside a ProcessedModel texts of a batch are what they are alone, and the processor sees all "
    "of each") {
  const Remembering large{.vocabulary = 6}, small{.vocabulary = 6, .most = 7};
  const Chain chain{Temperature{0.1}, TopK{5}};
  const Processors processors{RepetitionPenalty{1.2}, NoRepeatNgrams{4}};
  check_texts(CopiedTexts(ProcessedModel{ModelPerSequence{large}, chain, processors}),
              CopiedTexts(ProcessedModel{Windowed{ModelPerSequence{small}, 1, 6, 2}, chain, processors}), {},
              [&] {
                return decoder_of(
                    CopiedRows(ProcessedModel{Remembering(large), chain, processors}),
                    CopiedRows(ProcessedModel{Windowed{Remembering(small), 1, 6, 2}, chain, processors}));
              });
}

TEST_CASE("Windowed: with many texts a prompt may be fed in parts, and bad feeds are named in the error") {
  Remembering inner{.vocabulary = 3, .most = 12};
  Windowed model{support::OnlyText{inner}, 2, 10};
  Tokens text;
  const auto feed = [&](Index tokens, Index rows) {
    const Index from = std::ssize(text);
    text.resize(text.size() + static_cast<std::size_t>(tokens), 1);
    return std::vector<BatchFeed>{
        {{.tokens = std::span(text).last(static_cast<std::size_t>(tokens)), .from = from, .rows = rows},
         support::only_sequence}};
  };
  const auto cost = [&](Index tokens, Index rows) {
    inner.calls = inner.fed = 0;
    CHECK(model.forward(feed(tokens, rows)).rows() == rows);
    return std::pair(inner.calls, inner.fed);
  };
  using Cost = std::pair<Index, Index>;
  CHECK(cost(11, 0) == Cost(1, 11));  // fed now, or a later call would be larger than agreed
  // The beginning of the window of its last token, and the tokens after that.
  CHECK(cost(8, 0) == Cost(1, 7));
  CHECK(cost(1, 1) == Cost(1, 1));
  CHECK(cost(0, 0) == Cost(0, 0));
  CHECK(message_of([&] {
          model.forward(std::vector<BatchFeed>{{{.tokens = text, .from = 3, .rows = 1}, 7}});
        }) == "specdec: feeds[0].from = 3, but the context of sequence 7 holds 20 tokens");
  CHECK(message_of([&] { model.forward(feed(1, 2)); }) ==
        "specdec: feeds[0].rows = 2 is outside 0..1, the number of its tokens");
  model.release(7);
  CHECK(inner.context.empty());
  text.clear();
  CHECK(cost(1, 1) == Cost(1, 1));
}

TEST_CASE("Windowed: works inside and around a ProcessedModel, and a hook outside sees all of the context") {
  const Remembering logits{.vocabulary = 4, .most = 6};
  std::vector<std::size_t> outside, inside;
  const auto noting = [](std::vector<std::size_t>& lengths) {
    return [&lengths](std::span<const Token> context, Eigen::Ref<Eigen::RowVectorXd> row) {
      lengths.push_back(context.size());
      row[context.back()] -= 0.1;
    };
  };
  const Chain chain{Temperature{0.7}, TopK{3}};
  ProcessedModel around{Windowed{Remembering(logits), 2, 4}, chain, noting(outside)};
  Windowed within{ProcessedModel{Remembering(logits), chain, noting(inside)}, 2, 4};
  static_assert(Model<decltype(within)> && !NumberMatrix<specdec::detail::OutputOf<decltype(within)>>);
  const Tokens text{0, 3, 2, 1, 1, 2, 0, 3, 3};
  const auto p = around.forward(text, 4);
  const auto q = within.forward(text, 4);
  REQUIRE(q.rows() == 4);
  for (Index i = 0; i < 4; ++i)
    for (Token x = 0; x < 4; ++x) CHECK(p.row(i).probability(x) == q.row(i).probability(x));
  CHECK(outside == std::vector<std::size_t>{6, 7, 8, 9});
  CHECK(inside == std::vector<std::size_t>{6, 5, 6, 5});

  struct Halves {
    Eigen::Matrix<Eigen::half, 2, 3> rows;
    Index vocab_size() const { return 3; }
    RowPointers<Eigen::half, Eigen::Dynamic> forward(std::span<const Token>, Index count) {
      for (Index i = 0; i < count; ++i) pointers[static_cast<std::size_t>(i)] = rows.data() + i;
      return {std::span(pointers).first(static_cast<std::size_t>(count)), 3, 2};
    }
    void truncate(Index) {}
    std::vector<const Eigen::half*> pointers{nullptr, nullptr};
  };
  const Eigen::Matrix<Eigen::half, 2, 3> random = Eigen::Matrix<Eigen::half, 2, 3>::Random();
  Windowed halves{Halves{random}, 0, 3};
  const auto stored = halves.forward(Tokens{1, 2}, 2);
  CHECK(numbers(stored).row(1)[2] == static_cast<float>(random(1, 2)));
}

TEST_CASE("Windowed: reports what the model reports of itself, and names bad arguments and calls") {
  Remembering inner{.vocabulary = 3, .most = 12};
  Windowed model{inner, 2, 10};
  CHECK(model.vocab_size() == 3);
  CHECK(model.context_size() == unlimited);
  CHECK(model.identities() == std::vector<const void*>{&inner});
  const auto complaint = [&](Index first, Index last, Index stride) {
    return message_of([&] { Windowed(inner, first, last, stride); });
  };
  CHECK(complaint(-1, 5, 1) == "specdec: first = -1 is negative");
  CHECK(complaint(0, 0, 1) == "specdec: last = 0 is less than 1");
  CHECK(complaint(0, 5, 0) == "specdec: stride = 0 is outside 1..5, the tokens of the window");
  CHECK(complaint(0, 5, 6) == "specdec: stride = 6 is outside 1..5, the tokens of the window");
  CHECK(complaint(3, 10, 5) ==
        "specdec: first + last = 3 + 10 is more than 12, the tokens that the model's context holds");
  CHECK(complaint(unlimited, unlimited, 1).starts_with("specdec: first + last = "));
  CHECK(complaint(2, 10, 10).empty());
  CHECK(message_of([&] { model.forward(Tokens{1}, 2); }) ==
        "specdec: rows = 2 is outside 1..1, the number of tokens");
  Remembering misshapen{.vocabulary = 3, .misshapen = 3};
  Windowed wrong{misshapen, 0, 3};
  CHECK(message_of([&] {
          wrong.forward(Tokens{1, 2}, 2);
        }) == "specdec: the model returned 1 rows over 3 tokens, expected 2 rows over its vocabulary of 3");
  misshapen.misshapen = 4;
  CHECK(message_of([&] {
          wrong.forward(Tokens{1, 2}, 1);
        }) == "specdec: the model returned 1 rows over 4 tokens, expected 1 row over its vocabulary of 3");
}

}  // namespace test_more_models_windowed
