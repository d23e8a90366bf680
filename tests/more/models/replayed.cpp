// Models that cannot be cut back. Their rows equal those of a model that was fed the context once, and few tokens are
// fed twice.
// SPDX-License-Identifier: MIT
#include "specdec/more/models/replayed.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string>
#include <utility>
#include <vector>
#include "specdec/more/samplers/after_prompt.hpp"
#include "specdec/more/samplers/no_repeat_ngrams.hpp"
#include "specdec/more/samplers/penalties.hpp"
#include "specdec/more/samplers/processors.hpp"

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/recurrent_model.hpp"
#include "support/strict.hpp"

namespace test_more_models_replayed {

using namespace specdec;
using namespace specdec::testing;
using support::bound;
using support::message_of;
using Recurrent = support::RecurrentModel;
using Tokens = std::vector<Token>;
using Fed = std::map<Index, int>;

static_assert(RecurrentModel<Recurrent> && !Model<Recurrent>);
static_assert(RecurrentModel<support::RecurrentModels> && !BatchModel<support::RecurrentModels>);
static_assert(BatchModel<Replayed<support::RecurrentModels>> &&
              BatchModel<ModelPerSequence<Replayed<Recurrent>>>);
static_assert(Model<Replayed<Recurrent>> && Model<Replayed<Recurrent&>> && !takes_trees<Replayed<Recurrent>>);
static_assert(NumberMatrix<specdec::detail::OutputOf<Replayed<Recurrent>>>);
static_assert(ProcessedModel<Replayed<Recurrent>, Chain<Temperature>>::keeps_context);
static_assert(takes_trees<PathByPath<Replayed<Recurrent&>>>);

namespace {

template <class Rows>
bool is_behind(const Rows& rows, Index i, const Recurrent& model, std::span<const Token> context) {
  const auto row = specdec::distributions(rows).row(i);
  const Recurrent::Row right = model.distribution(context);
  bool equal = row.vocab_size() == right.vocab_size();
  for (Token x = 0; equal && x < right.vocab_size(); ++x) equal = row.probability(x) == right.p[x];
  return equal;
}

Tokens tokens_of(Index count, Index vocab_size, std::mt19937_64& rng) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (Token& x : tokens) x = static_cast<Token>(rng() % static_cast<std::uint64_t>(vocab_size));
  return tokens;
}

// A recurrent model with a truncate() that costs nothing: the reference.
struct Truncatable {
  Recurrent fresh, model = fresh;
  Tokens context = {};

  Index vocab_size() const { return model.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const Token> tokens, Index rows) {
    Recurrent::Snapshot before;
    model.save(before);
    context.insert(context.end(), tokens.begin(), tokens.end());
    return model.forward(tokens, rows);
  }
  void truncate(Index length) {
    if (length >= std::ssize(context)) return;
    context.resize(static_cast<std::size_t>(length));
    Recurrent silent = fresh;
    silent.fed = nullptr;
    if (length > 0) silent.forward(context, 1);
    Recurrent::Snapshot state;
    silent.save(state);
    model.restore(state);
  }
};

// A recurrent model as a model for many texts, of which there is one.
struct OnlyState {
  Recurrent& model;
  Eigen::MatrixXd output = {};
  using Snapshot = Recurrent::Snapshot;
  Index vocab_size() const { return model.vocab_size(); }
  const Eigen::MatrixXd& forward(std::span<const BatchFeed> feeds) {
    REQUIRE(feeds.size() == 1);
    support::check_feed(feeds[0], model.length(), 0, vocab_size());
    output = model.forward(feeds[0].tokens, std::max<Index>(feeds[0].rows, 1)).bottomRows(feeds[0].rows);
    return output;
  }
  void save(Index, Snapshot& snapshot) { model.save(snapshot); }
  void restore(Index, const Snapshot& snapshot) { model.restore(snapshot); }
  void release(Index) {}
};

// Wraps a model for one text, or a model for many texts with one text in it.
struct ForOne {
  static auto replayed(Recurrent& model, const ReplayedOptions& options = {}) {
    return Replayed{model, options};
  }
};
struct ForMany {
  static auto replayed(Recurrent& model, const ReplayedOptions& options = {}) {
    return support::AsOneText{Replayed{OnlyState{model}, options}};
  }
};

constexpr ReplayedOptions many_options[] = {
    {}, {.snapshots = 1, .carried = 0}, {.snapshots = 1}, {.snapshots = 2, .carried = 3}, {.snapshots = 3}};

}  // namespace

TEMPLATE_TEST_CASE(
    "Replayed: a row is the one after the context, to the bit, in any order of calls and failures", "",
    ForOne, ForMany) {
  std::mt19937_64 rng{1};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
  int failures = 0, rows_seen = 0;
  for (int seed = 0; seed < bound(60); ++seed) {
    Recurrent recurrent(4, static_cast<std::uint64_t>(seed));
    const Recurrent fresh = recurrent;
    auto model = TestType::replayed(recurrent, many_options[seed % 5]);
    Tokens context;
    for (int n = 0; n < 120; ++n) {
      if (below(2) == 0) {
        const Index back = below(8) == 0 ? below(std::ssize(context) + 2) : below(6);
        const Index length = std::max<Index>(std::ssize(context) - back, 0);
        model.truncate(length);
        context.resize(static_cast<std::size_t>(length));
      }
      const Tokens tokens = tokens_of(1 + below(below(5) == 0 ? 30 : 6), 4, rng);
      const Index rows = 1 + below(std::ssize(tokens));
      recurrent.fails_in = below(3) == 0 ? static_cast<int>(below(10)) : -1;
      try {
        const auto& output = model.forward(tokens, rows);
        context.insert(context.end(), tokens.begin(), tokens.end());
        REQUIRE(output.rows() == rows);
        for (Index i = 0; i < rows; ++i, ++rows_seen)
          CHECK(is_behind(output, i, fresh,
                          std::span(context).first(context.size() - static_cast<std::size_t>(rows - 1 - i))));
      } catch (const support::Failure&) {
        ++failures;
      }
    }
  }
  CHECK(failures > bound(500));
  CHECK(rows_seen > bound(5000));
}

TEST_CASE("Replayed: as target and as draft model it keeps the target's law") {
  for (const Index gamma : {1, 2, 3})
    for (const ReplayedOptions& options : many_options) {
      const Recurrent large(2, 7), small(2, 11);
      const Tokens prompt{1, 0, 1};
      const Options length{.max_new_tokens = 5, .gamma = gamma};
      SpecDec decoder{Replayed{Recurrent(large), options}, ModelDrafter{Replayed{Recurrent(small), options}}};
      const GenerationLaw written = enumerate_generate(decoder, prompt, length);
      CHECK(largest_difference(written.law, target_law(large, prompt, length)).size < 1e-12);
      CHECK(written.accepted > 0.1);
      CHECK(written.accepted < written.drafted - 0.05);
    }
}

TEMPLATE_TEST_CASE("Replayed: a prompt is fed once, and of the text after it few tokens are fed twice", "",
                   ForOne, ForMany) {
  std::mt19937_64 rng{2};
  const Tokens prompt = tokens_of(100, 5, rng);
  const Options length{.max_new_tokens = 300, .gamma = 5};
  const auto write = [&](auto& target, auto& drafted) {
    SpecDec decoder{target, ModelDrafter{drafted}};
    std::mt19937_64 same{3};
    return decoder.generate(prompt, length, same);
  };
  const auto total = [](const Fed& fed) {
    Index sum = 0;
    for (const auto& [position, count] : fed) sum += count;
    return sum;
  };
  Fed by_target, by_draft, by_cut_target, by_cut_draft;
  Index calls = 0;
  Recurrent large(5, 20), small(5, 30);
  Truncatable cut_large{large}, cut_small{small};
  cut_large.model.fed = &by_cut_target;
  cut_small.model.fed = &by_cut_draft;
  large.fed = &by_target;
  large.calls = &calls;
  small.fed = &by_draft;
  auto target = TestType::replayed(large), draft = TestType::replayed(small);
  const Result result = write(target, draft), as_ever = write(cut_large, cut_small);
  CHECK(result.tokens == as_ever.tokens);
  CHECK(result.stats.accepted < result.stats.drafted - 100);
  // The prompt is fed once, except for its last token: the first rejection has to feed that again.
  CHECK(std::ranges::all_of(by_target, [](const auto& fed) { return fed.second == 1 || fed.first >= 99; }));
  CHECK(std::ranges::all_of(by_draft, [](const auto& fed) { return fed.second == 1 || fed.first >= 100; }));
  // The draft model is fed no more than one that can be cut back.
  CHECK(total(by_draft) == total(by_cut_draft));
  // A call of the target is fed at most the agreed number of tokens again. If more have accumulated, they get a call
  // of their own.
  const Index steps = result.stats.target_calls, again = total(by_target) - total(by_cut_target);
  CHECK(again > 0);
  CHECK(again <= 16 * calls);
  CHECK(calls > steps + 10);
  CHECK(calls < steps + 10 + steps / 4);
}

TEMPLATE_TEST_CASE(
    "Replayed: going back costs little near the end of the context, and never too much further back", "",
    ForOne, ForMany) {
  Recurrent recurrent(3, 5);
  Fed fed;
  recurrent.fed = &fed;
  auto model = TestType::replayed(recurrent, {.snapshots = 12});
  std::mt19937_64 rng{6};
  const Tokens text = tokens_of(2000, 3, rng);
  // The text is fed token by token. Then: how many tokens does going back by `back` tokens feed again?
  const auto again = [&](std::size_t back) {
    model.truncate(0);
    for (std::size_t i = 0; i < text.size(); ++i) model.forward(std::span(text).subspan(i, 1), 1);
    for (int n = 0; n < 20; ++n) {  // the last token again and again, which must not push out older snapshots
      model.truncate(1999);
      model.forward(std::span(text).last(1), 1);
    }
    fed.clear();
    model.truncate(static_cast<Index>(text.size() - back));
    model.forward(std::span(text).last(back).first(1), 1);
    std::size_t sum = 0;
    for (const auto& [position, count] : fed) sum += static_cast<std::size_t>(count);
    return sum - 1;
  };
  for (const std::size_t back : {1u, 2u, 3u, 4u, 5u, 6u}) CHECK(again(back) == 0);
  for (const std::size_t back : {7u, 12u, 30u, 100u, 400u, 1000u}) {
    CAPTURE(back);
    CHECK(again(back) <= 3 * back);
  }
}

TEST_CASE("Replayed: texts of one batch, each with its own states, are what they are alone") {
  const Recurrent large(4, 13), small(4, 14);
  const Chain chain{Temperature{0.8}, TopK{3}};
  SECTION("lines") {
    Batch batch{ProcessedModel{Replayed{support::RecurrentModels(large)}, chain},
                ModelDrafter{ProcessedModel{Replayed{support::RecurrentModels(small)}, chain}},
                BlockVerifier{}, BatchOptions{.tokens_per_call = 25}};
    support::check_texts_alone(batch, [&] {
      return SpecDec{ProcessedModel{Replayed{Recurrent(large)}, chain},
                     ModelDrafter{ProcessedModel{Replayed{Recurrent(small)}, chain}}};
    });
  }
  SECTION("trees") {
    const Processors processor{RepetitionPenalty{1.3}, AfterPrompt{2, NoRepeatNgrams{6}}};
    const TreeShape shape = TreeShape::of_widths({2, 1});
    Batch batch{
        ProcessedModel{PathByPath{Replayed{support::RecurrentModels(large)}}, chain, processor},
        ModelDrafter{ProcessedModel{PathByPath{Replayed{support::RecurrentModels(small)}}, chain, processor},
                     Tree{shape, WithoutReplacement{}}},
        TraversalVerifier{}};
    support::check_texts_alone(
        batch,
        [&] {
          return SpecDec{
              ProcessedModel{PathByPath{Replayed{Recurrent(large)}}, chain, processor},
              ModelDrafter{ProcessedModel{PathByPath{Replayed{Recurrent(small)}}, chain, processor},
                           Tree{shape, WithoutReplacement{}}},
              TraversalVerifier{}};
        },
        6);
  }
}

TEST_CASE(
    "Replayed: with many texts all rows come from one call, after one call for tokens that had accumulated") {
  const Recurrent fresh(3, 5);
  support::RecurrentModels models(fresh);
  Replayed model{models, {.carried = 2}};
  const Tokens much{0, 1, 2, 1, 0}, little{2, 1};
  const auto feed = [](Index sequence, const Tokens& tokens, Index rows, Index from = 0) {
    return BatchFeed{{.tokens = tokens, .from = from, .rows = rows}, sequence};
  };
  const auto rows =
      model.forward(std::vector<BatchFeed>{feed(1, much, 1), feed(2, little, 2), feed(3, much, 0)});
  CHECK(models.calls == 2);
  REQUIRE(rows.rows() == 3);
  CHECK(is_behind(rows, 0, fresh, much));
  CHECK(is_behind(rows, 1, fresh, Tokens{2}));
  CHECK(is_behind(rows, 2, fresh, little));
  model.forward(std::vector<BatchFeed>{feed(3, little, 1, 5)});
  CHECK(models.calls == 3);

  model.forward(std::vector<BatchFeed>{feed(4, much, 0)});  // one call, as no rows are wanted
  CHECK(models.calls == 4);
  models.of(2).fails_in = 1;  // sequence 1 before it has been saved by then
  CHECK_THROWS_AS(model.forward(std::vector<BatchFeed>{feed(1, little, 1, 5), feed(2, little, 1, 2)}),
                  support::Failure);
  const auto again = model.forward(std::vector<BatchFeed>{feed(2, much, 1, 2), feed(1, little, 1, 5)});
  CHECK(is_behind(again, 0, fresh, Tokens{2, 1, 0, 1, 2, 1, 0}));
  CHECK(is_behind(again, 1, fresh, Tokens{0, 1, 2, 1, 0, 2, 1}));
  model.release(1);
  CHECK(models.size() == 3);
  CHECK(is_behind(model.forward(std::vector<BatchFeed>{feed(1, little, 1)}), 0, fresh, little));
  CHECK(message_of([&] { model.forward(std::vector<BatchFeed>{feed(1, little, 1, 1)}); }) ==
        "specdec: feeds[0].from = 1, but the context of sequence 1 holds 2 tokens");
}

TEST_CASE("Replayed: a twin goes on from a state of its text, and is fed no token again") {
  const Recurrent fresh(3, 15);
  for (const bool wrapped : {false, true}) {
    std::map<Index, int> fed;
    Recurrent counting = fresh;
    counting.fed = &fed;
    support::RecurrentModels models(counting);
    Replayed model{models, {.snapshots = 2}};
    PathByPath outside{model};
    const auto forward = [&](const std::vector<BatchFeed>& feeds) {
      Eigen::MatrixXd rows(support::RecurrentModel(fresh).vocab_size(), std::ssize(feeds));
      const auto read = [&](const auto& output) {
        for (Index i = 0; i < rows.cols(); ++i)
          for (Token x = 0; x < 3; ++x) rows(x, i) = specdec::distributions(output).row(i).probability(x);
      };
      if (wrapped) read(outside.forward(feeds));
      else read(model.forward(feeds));
      return rows;
    };
    const auto fork = [&](Index from, Index to) { wrapped ? outside.fork(from, to) : model.fork(from, to); };
    const Tokens text{0, 1, 2, 1, 0, 2, 2, 1}, left{1}, right{2};
    forward({{{.tokens = text, .from = 0, .rows = 1}, 1}});
    models.of(1).fails_in = 0;
    CHECK_THROWS_AS(fork(1, 2), support::Failure);
    fork(1, 2);
    CHECK(message_of([&] { fork(1, 2); }) == "specdec: to = 2: this sequence has a context already");
    const Eigen::MatrixXd rows =
        forward({{{.tokens = left, .from = 8, .rows = 1}, 1}, {{.tokens = right, .from = 8, .rows = 1}, 2}});
    Tokens one = text, other = text;
    one.push_back(1);
    other.push_back(2);
    CHECK(rows.col(0) == fresh.distribution(one).p);
    CHECK(rows.col(1) == fresh.distribution(other).p);
    CHECK(fed[0] == 1);
    CHECK(fed[7] == 1);
    CHECK(fed[8] == 2);
    // Each goes back for itself, and the other stays.
    wrapped ? outside.keep(2, Index{3}) : model.keep(2, Index{3});
    const Tokens third{0, 0};
    const Eigen::MatrixXd back =
        forward({{{.tokens = third, .from = 3, .rows = 1}, 2}, {{.tokens = left, .from = 9, .rows = 1}, 1}});
    one.push_back(1);
    CHECK(back.col(0) == fresh.distribution(Tokens{0, 1, 2, 0, 0}).p);
    CHECK(back.col(1) == fresh.distribution(one).p);
  }
}

TEST_CASE("Replayed: takes trees path by path, and works inside a ProcessedModel") {
  std::mt19937_64 rng{8};
  const auto below = [&](Index n) { return static_cast<Index>(rng() % static_cast<std::uint64_t>(n)); };
  const Recurrent fresh(3, 12);
  PathByPath model{Replayed{Recurrent(fresh)}};
  Tokens context;
  for (int n = 0; n < 100; ++n) {
    const Tokens tokens = tokens_of(6, 3, rng);
    std::vector<Index> parents;
    std::vector<std::vector<Index>> ways;
    for (Index k = 0; k < 6; ++k) {
      parents.push_back(below(k + 1) - 1);
      ways.push_back(parents.back() < 0 ? std::vector<Index>{}
                                        : ways[static_cast<std::size_t>(parents.back())]);
      ways.back().push_back(k);
    }
    const auto rows = model.forward(tokens, parents, 6);
    const auto kept = static_cast<std::size_t>(below(6));
    Tokens next;
    for (std::size_t k = 0; k < 6; ++k) {
      Tokens behind = context;
      for (const Index node : ways[k]) behind.push_back(tokens[static_cast<std::size_t>(node)]);
      CHECK(is_behind(rows, static_cast<Index>(k), fresh, behind));
      if (k == kept) next = behind;
    }
    model.keep(ways[kept]);
    context = next;
  }

  ProcessedModel processed{Replayed{Recurrent(fresh)}, Chain{Temperature{0.7}, TopK{2}}};
  Recurrent once(fresh);
  for (const Index length : {9, 4, 0, 7}) {
    processed.truncate(length);
    const Tokens tokens{0, 2, 1};
    processed.forward(tokens, 2);
  }
  processed.truncate(1);
  const auto row = processed.forward(Tokens{1, 2}, 1).row(0);
  const Eigen::MatrixXd logits = once.forward(Tokens{0, 1, 2}, 1);
  const auto right = ProcessedRows(logits, Chain{Temperature{0.7}, TopK{2}}).row(0);
  for (Token x = 0; x < 3; ++x) CHECK(row.probability(x) == right.probability(x));
}

TEST_CASE("Replayed: reports what the model reports of itself, and names bad calls") {
  struct Bounded : Recurrent {
    using Recurrent::Recurrent;
    Index context_size() const { return 7; }
  };
  Bounded bounded(3, 1);
  Replayed model{bounded};
  CHECK(model.vocab_size() == 3);
  CHECK(model.context_size() == 7);
  CHECK(model.identities() == std::vector<const void*>{&bounded});
  CHECK(Replayed{Recurrent(3, 1)}.context_size() == unlimited);
  CHECK(message_of([&] {
          model.forward(Tokens{1, 2}, 3);
        }) == "specdec: rows = 3 is outside 1..2, the number of tokens");
  CHECK(message_of([&] { model.forward(Tokens{}, 0); }) ==
        "specdec: rows = 0 is outside 1..0, the number of tokens");
  CHECK(message_of([&] { Replayed{bounded, {.snapshots = 0}}; }) == "specdec: snapshots = 0 is less than 1");
  CHECK(message_of([&] { Replayed{bounded, {.carried = -1}}; }) == "specdec: carried = -1 is negative");
}

TEST_CASE("Replayed: two wrappers of one model do not see each other's context") {
  Recurrent recurrent(3, 9);
  const Recurrent fresh = recurrent;
  Replayed one{recurrent}, other{recurrent};
  one.forward(Tokens{1, 2}, 1);
  CHECK(is_behind(other.forward(Tokens{2}, 1), 0, fresh, Tokens{2}));
  one.truncate(0);
  CHECK(is_behind(one.forward(Tokens{0, 1}, 1), 0, fresh, Tokens{0, 1}));
}

}  // namespace test_more_models_replayed
