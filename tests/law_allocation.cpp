// Nothing is allocated after warm-up. This program's own operator new counts allocations, and can be made to fail.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/c/rows.hpp>
#include <specdec/more/drafters/confident_tree.hpp>
#include <specdec/more/drafters/forced_tokens.hpp>
#include <specdec/more/drafters/suffix_drafter.hpp>
#include <specdec/more/heads/eagle_model.hpp>
#include <specdec/more/models/common_tokens.hpp>
#include <specdec/more/models/ngram.hpp>
#include <specdec/more/models/replayed.hpp>
#include <specdec/more/models/windowed.hpp>
#include <specdec/more/ranks.hpp>
#include <specdec/more/rows.hpp>
#include <specdec/more/samplers/bad_words.hpp>
#include <specdec/more/samplers/dry.hpp>
#include <specdec/more/samplers/dynamic_temperature.hpp>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/more/samplers/min_keep.hpp>
#include <specdec/more/samplers/no_repeat_ngrams.hpp>
#include <specdec/more/samplers/penalties.hpp>
#include <specdec/more/samplers/processors.hpp>
#include <specdec/more/samplers/reasoning_budget.hpp>
#include <specdec/more/samplers/top_n_sigma.hpp>
#include <specdec/more/samplers/typical_p.hpp>
#include <specdec/more/samplers/xtc.hpp>
#include <specdec/more/search/beams.hpp>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/knowing.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/recurrent_model.hpp"
#include "support/rules.hpp"
#include "support/strict.hpp"
#include "support/thread_ranks.hpp"

namespace law_allocation {

using namespace specdec;

namespace {

// Allocations in the steps after the first 500 tokens.
template <class V>
std::size_t growth_in_steps(const V& verifier) {
  std::mt19937_64 rng{2};
  std::vector<Token> text(5000);
  for (Token& x : text) x = static_cast<Token>(uniform01(rng) * uniform01(rng) * 20);
  const NgramModel target = NgramModel::train(text, {.order = 3, .vocab_size = 20});
  SpecDec decoder{NgramModel(target), ModelDrafter{target.with_order(2)}, verifier};
  auto sequence = decoder.start(std::vector<Token>{0}, {.max_new_tokens = 4000, .gamma = 5});
  auto source = [&] {
    if constexpr (draws_keyed<V>) return Keyed(2);
    else return rng;
  }();
  std::size_t growth = 0, steps = 0;
  while (!sequence.done()) {
    const std::size_t before = allocations;
    sequence.step(source);
    if (sequence.tokens().size() > 500) growth += allocations - before;
    ++steps;
  }
  REQUIRE(steps > 500);
  return growth;
}

}  // namespace

TEST_CASE("a step allocates nothing but room for a longer text") {
  // The contexts double their capacity a few times.
  CHECK(growth_in_steps(BlockVerifier{}) < 20);
  CHECK(growth_in_steps(GreedyBlockVerifier{}) < 20);
  CHECK(growth_in_steps(KeyedVerifier{}) < 20);
}

namespace {

// Rows that depend on the last token only. It keeps no contexts, and allocates nothing.
class LastToken {
 public:
  explicit LastToken(std::uint64_t seed) : table_(20, 20), rows_(100, 20) {
    std::mt19937_64 rng{seed};
    for (double& p : table_.reshaped()) p = 0.1 + uniform01(rng);
    for (Index x = 0; x < 20; ++x) table_.row(x) /= table_.row(x).sum();
  }

  static Index vocab_size() { return 20; }
  Eigen::Map<const support::RowMajor<double>> forward(std::span<const BatchFeed> feeds) {
    Index row = 0;
    for (const BatchFeed& feed : feeds) {
      support::check_feed(feed, feed.from, 0, vocab_size());  // it keeps no contexts
      for (const Token x : feed.tokens.last(static_cast<std::size_t>(feed.rows)))
        rows_.row(row++) = table_.row(x);
    }
    return {rows_.data(), row, 20};
  }
  void keep(Index, Index) {}
  void release(Index) {}

 private:
  support::RowMajor<double> table_, rows_;
};

// Allocations in the steps of four texts after the first 500 tokens of each. `step` takes one.
template <class Step>
std::size_t growth_in_batch(Step&& step) {
  LastToken target{1};
  Batch batch{target, ModelDrafter{LastToken{2}}, GreedyBlockVerifier{}};
  Philox kept{7};
  const Options options{.max_new_tokens = 3000, .gamma = 5};
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    batch.add(std::vector<Token>{0}, options, std::mt19937_64{seed});
  batch.add(std::vector<Token>{0}, options, std::ref(kept));
  const auto least = [&] {
    std::size_t tokens = 3000;
    for (Index i = 0; i < 4; ++i) tokens = std::min(tokens, batch.sequence(i).tokens().size());
    return tokens;
  };
  std::size_t growth = 0, steps = 0;
  while (batch.size() == 4) {
    const bool counts = least() > 500;
    const std::size_t before = allocations;
    step(batch, target);
    if (counts && batch.size() == 4) growth += allocations - before, ++steps;
  }
  REQUIRE(steps > 200);
  return growth;
}

}  // namespace

TEST_CASE("a batch's step allocates nothing but room for longer texts") {
  // The contexts, and some lists as long as a call, double their capacity a few times.
  CHECK(growth_in_batch([](auto& batch, auto&) { batch.step(); }) < 60);
  const std::vector<Index> halves[] = {{0, 2}, {3, 1}};
  CHECK(growth_in_batch([&](auto& batch, auto& target) {
          for (const auto& half : halves) {
            const auto rows = target.forward(batch.propose_for(half));
            batch.accept_for(half, rows);
          }
        }) < 60);
}

TEST_CASE("a tree decoded path by path on a model for lines allocates nothing, call by call") {
  std::mt19937_64 rng{3};
  std::vector<Token> text(2000);
  for (Token& x : text) x = static_cast<Token>(uniform01(rng) * 20);
  PathByPath model{NgramModel::train(text, {.order = 3, .vocab_size = 20})};
  const std::vector<Token> tokens{1, 2, 3, 4, 5};
  const std::vector<Index> parents{-1, 0, 0, -1, 3}, grown{1, 1, 5, 4, 8}, path{0, 1, 6};
  std::size_t before = 0;
  for (int n = 0; n < 20; ++n) {
    if (n == 5) before = allocations;
    model.forward(tokens, parents, 5);
    model.forward(tokens, grown, 3);
    model.keep(path);
    model.truncate(2);
  }
  CHECK(allocations == before);
}

TEST_CASE("a model that cannot be cut back allocates nothing when a draft is rejected") {
  Replayed model{support::RecurrentModel(5, 1)};
  const std::vector<Token> tokens{1, 2, 3, 4, 0};
  model.forward(std::vector<Token>(200, 1), 1);
  model.truncate(100);
  std::size_t before = 0;
  for (int n = 0; n < 30; ++n) {
    if (n == 10) before = allocations;
    model.forward(tokens, 5);
    model.truncate(102 + n);
    for (const Token& x : tokens) model.forward({&x, 1}, 1);
    model.truncate(103 + n);
  }
  CHECK(allocations == before);
}

TEST_CASE("a model in a window allocates nothing but room for a longer text") {
  Windowed numbers{NgramModel::train(std::vector<Token>(100, 1), {.order = 3, .vocab_size = 20}), 2, 10};
  Windowed rows{
      Windowed{PathByPath{NgramModel::train(std::vector<Token>(100, 1), {.order = 3, .vocab_size = 20})}, 1,
               5},
      2, 9};
  const std::vector<Token> tokens{1, 2, 3, 4, 0};
  std::size_t before = 0;
  for (int n = 0; n < 100; ++n) {
    if (n == 50) before = allocations;
    numbers.forward(tokens, 5);
    rows.forward(tokens, 4);
    if (n % 3 != 0) {
      numbers.truncate(10 + n);
      rows.truncate(10 + n);
    }
  }
  CHECK(allocations <= before + 2);
}

namespace {

using support::AnyVerifier;
using support::RowMajor;

// The logits are the same at every position.
struct FlatLogits {
  RowMajor<float> logits = RowMajor<float>::Zero(8, 40);
  Index vocab_size() const { return 40; }
  auto forward(std::span<const Token> tokens, Index rows) {
    support::check_call(tokens, rows, vocab_size());
    return logits.topRows(rows);
  }
  auto forward(std::span<const Token> tokens, std::span<const Index>, Index rows) {
    return forward(tokens, rows);
  }
  void keep(std::span<const Index>) {}
  void truncate(Index) {}
};

// A FlatLogits for many sequences.
struct FlatLogitsBatch : FlatLogits {
  auto forward(std::span<const BatchFeed> feeds) {
    Index rows = 0;
    for (const BatchFeed& feed : feeds) rows += feed.rows;
    return logits.topRows(rows);
  }
  void keep(Index, Index) {}
  void keep(Index, std::span<const Index>) {}
  void release(Index) {}
};

// A matcher that allows all tokens but the last one.
struct Changing {
  Token last = -1;
  void allow(std::span<std::uint32_t> mask) const {
    for (std::uint32_t& word : mask) word = ~std::uint32_t{0};
    if (last >= 0) mask[static_cast<std::size_t>(last / 32)] &= ~(std::uint32_t{1} << (last % 32));
  }
  bool advance(Token x) { return std::exchange(last, x) != x; }
};

RowMajor<double> random_rows(Index rows, Index size, std::mt19937_64& rng) {
  RowMajor<double> m(rows, size);
  for (double& p : m.reshaped()) p = uniform01(rng) < 0.5 ? 0.0 : uniform01(rng) * uniform01(rng);
  for (Index i = 0; i < rows; ++i) {
    m(i, i % size) += 1;
    m.row(i) /= m.row(i).sum();
  }
  return m;
}

// Allocations of twenty verify calls in steady state, for each rule and draft length.
using Counts = std::map<std::string, std::size_t>;

// `SampledToo`: every other call is handed tokens that the engine has drawn, with 64-bit ids.
template <class TargetLayout, class DraftLayout, bool SampledToo, class Rule>
void count(Counts& counts, const char* name, const Rule& rule) {
  std::mt19937_64 rng{3};
  RandomChance chance{rng};
  for (const Index gamma : {1, 2, 7, 32}) {
    TargetLayout target;
    DraftLayout draft;
    target.hold(random_rows(gamma + 1, 400, rng).cast<typename TargetLayout::Scalar>());
    draft.hold(random_rows(gamma, 400, rng).cast<typename DraftLayout::Scalar>());
    const auto& p = std::as_const(target).view();
    const auto& q = std::as_const(draft).view();
    const auto p_rows = distributions(p);
    const auto q_rows = distributions(q);
    std::vector<Token> tokens(static_cast<std::size_t>(gamma)), drawn(tokens.size() + 1);
    std::vector<std::int64_t> wide(tokens.size());
    Rule verifier = rule;
    // Greedy block verification allocates until its modifications have been nested this deep.
    constexpr int warm_up = 600;
    std::size_t before = 0;
    for (int n = 0; n < warm_up + 20; ++n) {
      if (n == warm_up) before = allocations;
      for (std::size_t i = 0; i < tokens.size(); ++i)
        wide[i] = tokens[i] = chance.draw(q_rows.row(static_cast<Index>(i)));
      for (std::size_t i = 0; i < drawn.size(); ++i)
        drawn[i] = chance.draw(p_rows.row(static_cast<Index>(i)));
      if constexpr (SampledToo)
        if (n % 2 == 1) {
          verifier(SampledRows(p, drawn), q, wide, rng);
          continue;
        }
      verifier(p, q, tokens, rng);
    }
    counts[std::string(name) + ", gamma = " + std::to_string(gamma)] = allocations - before;
  }
}

void check(const Counts& counts) {
  CHECK(!counts.empty());
  for (const auto& [what, allocated] : counts) {
    INFO(what);
    CHECK(allocated == 0);
  }
}

// A rule allocates alike for all kinds of rows. What the rows and their residuals allocate is found with block
// verification, and for nested residuals with greedy block verification.
template <class TargetLayout, class DraftLayout, class Rule = BlockVerifier>
void check_kinds(const char* name = "block", const Rule& rule = {}) {
  Counts counts;
  count<TargetLayout, DraftLayout, false>(counts, name, rule);
  check(counts);
}

}  // namespace

TEST_CASE("processors with state allocate nothing once they have seen a text as long") {
  const Processors processors{RepetitionPenalty{1.1},
                              PresencePenalty{0.1, 5},
                              NoRepeatNgrams{3},
                              BadWords{{{4, 5}}},
                              ReasoningBudget{{.start = {2}, .end = {7}, .tokens = 1}},
                              Dry{{}},
                              Grammar{Changing{}},
                              TypicalP{0.99, 3},
                              Xtc{0.5, 0.01, 1},
                              MinKeep{2, TopP{0.9}},
                              TopNSigma{3},
                              DynamicTemperature{1, 0.5}};
  ProcessedModel model{FlatLogits{}, Chain{}, processors};
  ForcedTokens drafter{processors, 40};
  std::mt19937_64 rng{1};
  const std::vector<Token> tokens{1, 2, 3, 4, 4}, tree{5, 1, 2, 9, 9};
  const std::vector<Index> parents{-1, 0, 0, 1, 3}, path{0, 1, 3};
  std::size_t before = 0;
  for (int n = 0; n < 20; ++n) {
    if (n == 5) before = allocations;
    model.forward(tokens, 3);
    model.truncate(4);
    model.forward(tree, parents, 4);
    model.keep(path);
    model.forward(std::span(tokens).first(4), 1);
    model.truncate(2 * (n % 2));
    drafter.draft(std::span<const Token>(tokens).first(4), 3, rng);
  }
  CHECK(allocations == before);
}

TEST_CASE("a penalty on repetitions allocates nothing but room for a longer text") {
  Dry dry{{}};
  Eigen::ArrayXf logits = Eigen::ArrayXf::Zero(20);
  std::size_t before = 0;
  for (int n = 0; n < 4000; ++n) {
    if (n == 500) before = allocations;
    dry.push(static_cast<Token>(n % 7));
    dry.apply(logits);
  }
  CHECK(logits(0) < 0);
  CHECK(allocations - before < 20);  // three lists double their capacity a few times
}

TEST_CASE("a processed model of many texts allocates nothing once it has seen texts as long") {
  const Chain chain{Temperature{0.9}, TopK{5}};
  ProcessedModel plain{FlatLogitsBatch{}, chain};
  ProcessedModel one_each{FlatLogitsBatch{}, [&](Index) { return chain; }};
  ProcessedModel stateful{
      FlatLogitsBatch{}, chain,
      Processors{RepetitionPenalty{1.1}, PresencePenalty{0.1, 5}, NoRepeatNgrams{3}, Grammar{Changing{}}}};
  ProcessedModel by_path{PathByPath{Windowed{FlatLogitsBatch{}, 1, 4}}, chain, PresencePenalty{0.1, 5}};
  const std::vector<Token> tokens{1, 2, 3, 4, 4}, tree{5, 1, 2, 9, 9};
  const std::vector<Index> parents{-1, 0, 0, 1, 3}, path{0, 1, 3};
  const std::vector<BatchFeed> lines{{{.tokens = tokens, .from = 0, .rows = 3}, 0},
                                     {{.tokens = tokens, .from = 0, .rows = 2}, 1}};
  const std::vector<BatchFeed> trees{{{.tokens = tree, .from = 5, .rows = 4, .parents = parents}, 1}};
  const auto allocated = [&](auto& model) {
    std::size_t before = 0;
    for (int n = 0; n < 20; ++n) {
      if (n == 5) before = allocations;
      model.forward(lines);
      model.keep(0, 0);
      model.forward(trees);
      model.keep(1, path);
      model.keep(1, 0);
    }
    return allocations - before;
  };
  CHECK(allocated(plain) == 0);
  CHECK(allocated(one_each) == 0);
  CHECK(allocated(stateful) == 0);
  CHECK(allocated(by_path) == 0);
}

TEST_CASE("a verify call allocates nothing once its draft length has been seen, under any rule") {
  Counts counts;
  for (const AnyVerifier& rule : support::all_rules)
    count<support::AsRowMajor<float>, support::AsRowMajor<float>, false>(counts, rule.name(), rule);
  count<support::AsRowMajor<float>, support::AsRowMajor<float>, false>(counts, "lenient, 0.5",
                                                                       AnyVerifier{LenientVerifier{0.5}});
  check(counts);
}

TEST_CASE("judging a tree of 64 tokens allocates nothing, for drawn and for chosen tokens") {
  std::mt19937_64 rng{4};
  const RowMajor<double> p = random_rows(65, 50, rng), q = random_rows(64, 50, rng);
  std::vector<Token> tokens;
  std::vector<Index> parents;
  RandomChance chance(rng);
  for (Index k = 0; k < 64; ++k) {
    tokens.push_back(chance.draw(DenseRow<double>(q.row(k).data(), 50)));
    parents.push_back(k / 3 - 1);
  }
  const auto judged = [&](auto rule, const auto& rows) {
    const std::size_t before = allocations;
    for (int n = 0; n < 50; ++n) {
      const Drafted drafted(p, rows, tokens, parents);
      rule.judge(drafted, chance);
    }
    return allocations - before;
  };
  CHECK(judged(TraversalVerifier{}, q) == 0);
  CHECK(judged(RecursiveRejectionVerifier{}, q) == 0);
  CHECK(judged(TrunkAndSpares<BlockVerifier>{}, q) == 0);
  RowMajor<double> of_siblings(64, 50);  // independent draws from one row
  for (Index k = 0; k < 64; ++k) {
    of_siblings.row(k) = q.row(k - k % 3);
    tokens[static_cast<std::size_t>(k)] = chance.draw(DenseRow<double>(of_siblings.row(k).data(), 50));
  }
  CHECK(judged(KSeqVerifier{}, of_siblings) == 0);
  for (std::size_t k = 0; k < tokens.size(); ++k) tokens[k] = static_cast<Token>(k % 50);
  CHECK(judged(TraversalVerifier{}, OneHotRows(tokens)) == 0);
}

TEST_CASE("judging many drafts together allocates nothing: lines not even the first time") {
  std::mt19937_64 rng{7};
  const std::vector<Index> offsets{0, 2, 2, 66, 71};
  const RowMajor<float> p = random_rows(75, 50, rng).cast<float>(),
                        q = random_rows(71, 50, rng).cast<float>();
  std::vector<Token> tokens;
  RandomChance chance(rng);
  for (Index i = 0; i < 71; ++i) tokens.push_back(chance.draw(DenseRow<float>(q.row(i).data(), 50)));
  std::vector<std::mt19937_64> sources(4, rng);
  std::vector<BatchVerdict> verdicts(4);
  const std::size_t before = allocations;
  verify_batch(BlockVerifier{}, p, q, tokens, offsets, sources, verdicts);
  CHECK(allocations == before);
  for (const BatchVerdict& each : verdicts) CHECK_FALSE(each.error);

  std::vector<Index> parents;
  for (const Index gamma : {2, 0, 64, 5})
    for (Index k = 0; k < gamma; ++k) parents.push_back(k / 2 - 1);
  std::vector<BatchTreeVerdict> trees(4);
  const auto judge_trees = [&] {
    const std::size_t until_now = allocations;
    verify_batch(TraversalVerifier{}, p, q, tokens, parents, offsets, sources, trees);
    return allocations - until_now;
  };
  CHECK(judge_trees() == 3);  // a path for each tree that has tokens
  CHECK(judge_trees() == 0);
  for (const BatchTreeVerdict& each : trees) CHECK_FALSE(each.error);
}

TEST_CASE("a verify call on tokens that the engine has drawn allocates nothing") {
  Counts counts;
  count<support::AsLogits<float>, support::AsSparse<float>, true>(counts, "block", BlockVerifier{});
  count<support::AsLogits<float>, support::AsSparse<float>, true>(counts, "greedy block",
                                                                  GreedyBlockVerifier{});
  count<support::AsRowMajor<float>, support::AsRowMajor<float>, true>(counts, "sample-match",
                                                                      SampleMatchVerifier{});
  check(counts);
}

TEST_CASE("a verify call allocates nothing for rows that C describes") {
  std::mt19937_64 rng{8};
  const RowMajor<float> p = random_rows(65, 50, rng).cast<float>(),
                        q = random_rows(64, 50, rng).cast<float>();
  std::vector<Token> tokens;
  for (Index i = 0; i < 64; ++i)
    tokens.push_back(RandomChance(rng).draw(DenseRow<float>(q.row(i).data(), 50)));
  specdec_rows target = {}, draft = {};
  target.vocab_size = draft.vocab_size = 50;
  target.rows = 65;
  target.data = p.data();
  draft.rows = 64;
  draft.data = q.data();
  Philox source(1);
  const std::size_t before = allocations;
  for (const specdec_row_kind kind : {SPECDEC_PROBABILITIES, SPECDEC_LOGITS}) {
    target.kind = draft.kind = kind;
    target.temperature = draft.temperature = 1;
    for (int n = 0; n < 20; ++n)
      static_cast<void>(verify(BlockVerifier{}, specdec::detail::RowsOfC("target", target),
                               specdec::detail::RowsOfC("draft", draft), tokens, source));
  }
  CHECK(allocations == before);
}

TEST_CASE("a verify call allocates nothing for rows of any kind") {
  using namespace support;
  check_kinds<AsPointers<float>, AsStridedPointers<double>>();
  check_kinds<AsNarrow<Eigen::half>, AsNarrow<Eigen::bfloat16>>();
  check_kinds<AsLogits<float>, AsLogits<float, 70>>();
  check_kinds<AsNormalisedLogits<float>, AsRowMajor<float>, GreedyBlockVerifier>("greedy block");
  check_kinds<AsSparse<float, std::int64_t>, AsLogits<double>>();
  check_kinds<AsSparse<double>, AsSparse<float>>();
  check_kinds<AsSparse<double>, AsSparse<float>, GreedyBlockVerifier>("greedy block");
}

namespace {

// Hands out its rows as logits or as a list, in memory that every call overwrites.
template <class Layout>
class Overwriting {
 public:
  explicit Overwriting(RowMajor<double> rows) : numbers_(std::move(rows)) {
    layouts_.resize(static_cast<std::size_t>(numbers_.rows()));
    for (Index i = 0; i < numbers_.rows(); ++i) layouts_[static_cast<std::size_t>(i)].hold(numbers_.row(i));
  }
  Index vocab_size() const { return numbers_.cols(); }
  auto forward(std::span<const Token>, Index) {
    return std::as_const(layouts_[static_cast<std::size_t>(calls_++ % numbers_.rows())]).view();
  }
  void truncate(Index) {}

 private:
  RowMajor<double> numbers_;
  std::vector<Layout> layouts_;
  Index calls_ = 0;
};

template <class Drafter>
std::size_t allocated_by(Drafter drafter, std::mt19937_64& rng) {
  const std::vector<Token> context{1, 2};
  std::size_t before = 0;
  for (int n = 0; n < 40; ++n) {
    if (n == 20) before = allocations;
    drafter.truncate(1);
    const auto draft = specdec::detail::ask_drafter(drafter, context, DraftLimits{1 + 7 * (n % 3)}, rng);
    if (distributions(draft.rows).rows() != 1 + 7 * (n % 3))
      throw std::logic_error("a draft of another length");
  }
  return allocations - before;
}

template <class Layout>
std::size_t allocated_by_drafter() {
  std::mt19937_64 rng{4};
  return allocated_by(ModelDrafter{Overwriting<Layout>(random_rows(5, 1000, rng))}, rng);
}

}  // namespace

TEST_CASE("a model drafter allocates nothing in steady state, whatever rows its model hands out") {
  using namespace support;
  CHECK(allocated_by_drafter<AsRowMajor<double>>() == 0);
  CHECK(allocated_by_drafter<AsNarrow<Eigen::bfloat16>>() == 0);
  CHECK(allocated_by_drafter<AsLogits<float, 70>>() == 0);
  CHECK(allocated_by_drafter<AsNormalisedLogits<Eigen::half>>() == 0);
}

TEST_CASE("a model drafter's copies of lists allocate nothing once it has copied lists as long") {
  CHECK(allocated_by_drafter<support::AsSparse<float, std::int64_t>>() == 0);
}

namespace {

// A model that takes trees and hands out as many rows as asked for, always the same ones.
template <class Layout>
class OverwritingTree {
 public:
  explicit OverwritingTree(std::mt19937_64& rng) {
    layouts_.resize(12);
    for (std::size_t i = 0; i < layouts_.size(); ++i) {
      const RowMajor<double> rows = random_rows(static_cast<Index>(i) + 1, 1000, rng);
      layouts_[i].hold(rows.cast<typename Layout::Scalar>());
    }
  }
  // So many rows, whatever was fed.
  auto answer(Index rows) const { return layouts_[static_cast<std::size_t>(rows - 1)].view(); }
  Index vocab_size() const { return 1000; }
  auto forward(std::span<const Token> tokens, Index rows) {
    support::check_call(tokens, rows, vocab_size());
    return answer(rows);
  }
  auto forward(std::span<const Token> tokens, std::span<const Index>, Index rows) {
    return forward(tokens, rows);
  }
  void keep(std::span<const Index>) {}
  void truncate(Index) {}

 private:
  std::vector<Layout> layouts_;
};

// The context goes on with the last path of the tree, or with other tokens.
template <class Drafter>
std::size_t allocated_by_trees(Drafter drafter, const auto&... keep_drafting) {
  std::mt19937_64 rng{4};
  std::vector<Token> context;
  context.reserve(100);
  std::size_t before = 0;
  for (int n = 0; n < 24; ++n) {
    if (n == 12) before = allocations;
    context.assign({1, 2});
    drafter.truncate(1);
    for (int step = 0; step < 3; ++step) {
      const auto draft =
          drafter.draft(context, {.nodes = 20 - n % 3, .depth = 4 - n % 2}, rng, keep_drafting...);
      if (draft.tokens.size() < 4) throw std::logic_error("a tree of another size");
      context.push_back(draft.tokens[0]);
      drafter.truncate(std::ssize(context));
      context.push_back(7);
    }
  }
  return allocations - before;
}

template <class Layout>
std::size_t allocated_by_tree(const auto& strategy, const auto&... keep_drafting) {
  std::mt19937_64 rng{6};
  return allocated_by_trees(ModelDrafter{OverwritingTree<Layout>(rng), strategy}, keep_drafting...);
}

// Rates the tokens of trees.
struct Rating {
  double acceptance(const CandidateToken& candidate) const { return candidate.reading; }
  More more(const GrowingDraft&) const { return {.tokens = 8}; }
};

}  // namespace

// The test above covers the kinds of rows that a drafter copies; here each strategy has one of two kinds.
TEST_CASE("drafters of trees allocate nothing in steady state") {
  using Pointers = support::AsPointers<float>;
  using Logits = support::AsLogits<float, 70>;
  const TreeShape shape = TreeShape::of_widths({3, 2, 1, 1});
  CHECK(allocated_by_tree<Pointers>(Tree{shape, Independent{}}) == 0);
  CHECK(allocated_by_tree<Logits>(Tree{shape, WithoutReplacement{}}) == 0);
  CHECK(allocated_by_tree<Pointers>(Tree{shape, Likeliest{}}) == 0);
  CHECK(allocated_by_tree<Logits>(Spares{4, {3, 1}, 2}) == 0);
  CHECK(allocated_by_tree<Pointers>(ConfidentTree{.width = 3}) == 0);
  Rating rating;
  specdec::detail::DraftReadings readings;
  readings.of_tokens.reserve(2000);  // of all drafts
  const specdec::detail::KeepDrafting<Rating, false> rated{&rating, &readings};
  CHECK(allocated_by_tree<Pointers>(ConfidentTree{.width = 3}, rated) == 0);
  CHECK(allocated_by_tree<Logits>(ConfidentTree{.width = 3}, rated) == 0);
}

TEST_CASE("drafters with a model of another vocabulary allocate nothing in steady state") {
  std::mt19937_64 rng{5};
  std::vector<Token> targets(1000, TokenMap::none);
  for (Token d = 0; d < 1000; d += d % 5 + 1) targets[static_cast<std::size_t>(d)] = 999 - d;
  const TokenMap map{targets, 1000};
  using Logits = support::AsLogits<float, 70>;
  CHECK(allocated_by(ModelDrafter{CommonTokens{Overwriting<Logits>(random_rows(5, 1000, rng)), map}}, rng) ==
        0);
  const OverwritingTree<Logits> model(rng);
  for (const std::vector<Token>& spelling : {std::vector<Token>{}, {3}, {1, 2, 3}}) {
    const CommonTokens common{OverwritingTree(model), map, [&](Token) { return spelling; }};
    CHECK(allocated_by_trees(ModelDrafter{CommonTokens(common), ConfidentTree{.width = 3}}) == 0);
    CHECK(allocated_by_trees(ModelDrafter{CommonTokens(common), Spares{4, {3, 1}, 2}}) == 0);
  }
}

namespace {

// A model for any number of sequences.
template <class Layout>
class OverwritingBatch : public OverwritingTree<Layout> {
 public:
  using OverwritingTree<Layout>::OverwritingTree;
  auto forward(std::span<const BatchFeed> feeds) {
    Index rows = 0;
    for (const BatchFeed& feed : feeds) {
      support::check_call(feed.tokens, std::max<Index>(feed.rows, 1), this->vocab_size());
      rows += feed.rows;
    }
    return this->answer(rows);
  }
  void keep(Index, Index) {}
  void keep(Index, std::span<const Index>) {}
  void release(Index) {}
};

template <class Drafter>
std::size_t allocated_in_company(Drafter drafter) {
  using Request = DraftRequest<std::mt19937_64>;
  std::mt19937_64 rng{4};
  std::vector<std::vector<Token>> contexts(3);
  std::vector<Request> requests(3);
  for (auto& context : contexts) context.reserve(100);
  std::size_t before = 0;
  for (int n = 0; n < 24; ++n) {
    if (n == 12) before = allocations;
    for (Index k = 0; k < 3; ++k) {
      auto& context = contexts[static_cast<std::size_t>(k)];
      context.assign({1, 2, static_cast<Token>(n % 3)});
      drafter.keep(k, 1);
      Request& request = requests[static_cast<std::size_t>(k)];
      request.sequence = k;
      request.context = context;
      request.source = &rng;
      request.limits = {.nodes = 20 - n % 3, .depth = 4 - n % 2};
    }
    drafter.draft(std::span(requests));
    for (Request& request : requests) {
      if (request.error) std::rethrow_exception(request.error);
      if (drafter.drafted(request.sequence).tokens.size() < 2)
        throw std::logic_error("a draft of another size");
    }
  }
  return allocations - before;
}

template <class Layout>
std::size_t allocated_for_many(const auto&... strategy) {
  std::mt19937_64 rng{6};
  return allocated_in_company(ModelDrafter{OverwritingBatch<Layout>(rng), strategy...});
}

}  // namespace

TEST_CASE("drafters for many sequences allocate nothing in steady state") {
  using Pointers = support::AsPointers<float>;
  using Logits = support::AsLogits<float, 70>;
  CHECK(allocated_for_many<Logits>() == 0);
  CHECK(allocated_for_many<Pointers>(Tree{TreeShape::of_widths({2, 2, 1, 1}), WithoutReplacement{}}) == 0);
  CHECK(allocated_for_many<Logits>(Spares{4, {3, 1}, 2}) == 0);
  CHECK(allocated_for_many<Pointers>(ConfidentTree{.width = 3}) == 0);
}

namespace {

using SmallBatch = Batch<ModelPerSequence<NgramModel>, NoDrafter, TokenVerifier>;

// A batch of three texts of `tokens` tokens.
struct ThreeTexts {
  explicit ThreeTexts(Index tokens)
      : batch(ModelPerSequence{NgramModel::train(std::vector<Token>{1, 2, 0, 1, 0, 2, 1, 1, 0},
                                                 {.order = 1, .vocab_size = 3})},
              NoDrafter{}) {
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      batch.add(std::vector<Token>{0}, {.max_new_tokens = tokens, .gamma = 0}, std::mt19937_64(seed));
  }
  SmallBatch batch;
};

// Calls f() while allocation number n fails. Returns whether f() succeeded; otherwise f() has thrown.
template <class F>
bool succeeds_without(std::size_t n, F&& f) {
  allocations_left = n - 1;
  bool succeeded = true;
  try {
    f();
  } catch (const std::bad_alloc&) {
    succeeded = false;
  }
  allocations_left = enough_memory;
  return succeeded;
}

}  // namespace

TEST_CASE("whichever allocation fails, run() of a batch reports each text once") {
  const std::vector<Finished> whole = ThreeTexts(2).batch.run();
  int failures = 0, lost = 0;
  for (std::size_t n = 1, last = 0; last == 0; ++n) {
    REQUIRE(n < 1000);
    ThreeTexts texts(2);
    const std::size_t before = allocations;
    std::vector<Finished> all;
    if (!succeeds_without(n, [&] { all = texts.batch.run(); })) ++failures, all = texts.batch.run();
    else if (allocations < before + n) last = n;
    REQUIRE(all.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(all[i].sequence == static_cast<Index>(i));
      if (all[i].error) {  // the text's own failure
        ++lost;
        CHECK_THROWS_AS(std::rethrow_exception(all[i].error), std::bad_alloc);
      } else {
        CHECK(all[i].result.tokens == whole[i].result.tokens);
        CHECK(all[i].result.stop_reason == whole[i].result.stop_reason);
      }
    }
  }
  CHECK(failures > 10);
  CHECK(lost > 0);
}

TEST_CASE("whichever allocation fails, a text that is paused, forked or given a turn is not lost") {
  const NgramModel model =
      NgramModel::train(std::vector<Token>{1, 2, 0, 1, 0, 2, 1, 1, 0}, {.order = 1, .vocab_size = 3});
  const std::vector<Token> prompt{0}, turn{1, 2};
  const Options options{.max_new_tokens = 12, .gamma = 2};
  const auto make = [&] {
    return std::make_unique<Batch<ModelPerSequence<NgramModel>,
                                  FallbackDrafter<SuffixDrafter<>, ModelDrafter<NgramModel>>, BlockVerifier>>(
        ModelPerSequence{model}, FallbackDrafter{SuffixDrafter<>{}, ModelDrafter{NgramModel(model)}},
        BlockVerifier{});
  };
  const auto write = [&](std::size_t n) {
    const auto here = make(), there = make();
    const Index text = here->add(prompt, options, std::mt19937_64{1});
    here->step();
    std::map<Index, std::vector<Token>> texts;
    std::size_t failures = 0;
    // Allocation n fails, and what has failed is tried again.
    const auto insist = [&](auto&& f) {
      for (std::size_t fails = n; !succeeds_without(fails, f); fails = enough_memory) ++failures;
    };
    std::optional<typename std::remove_cvref_t<decltype(*here)>::Paused> paused;
    insist([&] { here->fork(text, std::mt19937_64{2}); });
    insist([&] { paused.emplace(here->pause(text)); });
    insist([&] { there->add(std::move(*paused)); });
    there->step();
    insist([&] { there->add_turn(text, turn, options); });
    for (const Finished& done : here->run()) texts[done.sequence] = done.result.tokens;
    for (const Finished& done : there->run()) texts[done.sequence + 10] = done.result.tokens;
    return std::pair{texts, failures};
  };
  const auto whole = write(enough_memory);
  CHECK(whole.first.size() == 2);
  CHECK(whole.second == 0);
  std::size_t failures = 0;
  for (std::size_t n = 1; n < 60; ++n) {
    const auto [texts, failed] = write(n);
    CHECK(texts == whole.first);
    failures += failed;
  }
  CHECK(failures > 20);
}

TEST_CASE("whichever allocation fails in a wrapper's call, its contexts are as before") {
  std::mt19937_64 rng{3};
  using Many = ModelPerSequence<specdec::testing::TableModel<>>;
  const auto table = specdec::testing::TableModel<>::random(4, 1, rng);
  const std::vector<Token> tokens{0, 1, 2};
  const BatchFeed feed{{.tokens = tokens, .from = 0, .rows = 2}, 0};
  const auto check = [&](const auto& wrap) {
    std::size_t n = 1;
    for (bool failed = true; failed; ++n) {
      auto wrapped = wrap(Many(table));
      const auto call = [&] { wrapped.forward(std::span(&feed, 1)); };
      failed = !succeeds_without(n, call);
      if (failed) CHECK_NOTHROW(call());
    }
    CHECK(n > 5);
  };
  check([](Many&& inner) { return PathByPath{std::move(inner)}; });
  check([](Many&& inner) { return Windowed{std::move(inner), 1, 4}; });
}

TEST_CASE("whichever allocation fails, a beam search finds what it would have found") {
  std::mt19937_64 rng{3};
  const auto table = testing::TableModel<>::random(4, 2, rng),
             small_table = testing::TableModel<>::random(4, 1, rng);
  const BeamOptions options{.max_new_tokens = 9, .width = 2, .draft_width = 3, .gamma = 2};
  // Allocation number n of the search fails. What has failed is tried again, from the proposal on.
  const auto search = [&](std::size_t n) {
    Beams beams{std::vector<Token>{0, 1, 2}, options, {.vocabulary = 4}, ExternalTarget{.vocabulary = 4}};
    testing::TableModel<> target = table, small = small_table;
    std::size_t failures = 0;
    const auto succeeds = [&](auto&& f) {
      const std::size_t before = allocations;
      const bool done = succeeds_without(n, f);
      n = done && n != enough_memory ? n - (allocations - before) : enough_memory;
      failures += !done;
      return done;
    };
    const auto read = [](testing::TableModel<>& model, const Feed& feed, bool opens) {
      if (opens) model.truncate(feed.from);
      return model.forward(feed.tokens, feed.parents, feed.rows);
    };
    while (!beams.done()) {
      Feed feed;
      if (!succeeds([&] { feed = beams.propose_draft(); })) continue;
      if (!feed.tokens.empty()) {
        const auto rows = read(small, feed, beams.draft_opens());
        succeeds([&] { beams.accept_draft(rows); });
        continue;
      }
      if (!succeeds([&] { feed = beams.propose(); })) continue;
      const auto rows = read(target, feed, beams.opens());
      if (!succeeds([&] { beams.accept(rows); })) continue;
      if (!beams.kept_path().empty()) target.keep(beams.kept_path());
      if (!beams.draft_kept_path().empty()) small.keep(beams.draft_kept_path());
    }
    std::vector<std::vector<Token>> texts;
    for (const Beam& beam : beams.result().beams) texts.push_back(beam.tokens);
    return std::pair{texts, failures};
  };
  const auto whole = search(enough_memory);
  CHECK(whole.first.size() == 2);
  std::size_t failures = 0;
  for (std::size_t n = 1, failed = 1; failed > 0; ++n) {
    REQUIRE(n < 1000);
    const auto found = search(n);
    CHECK(found.first == whole.first);
    failures += failed = found.second;
  }
  CHECK(failures > 30);
}

TEST_CASE("a sequence stays in a batch if memory runs out while it is cancelled") {
  int failures = 0;
  for (std::size_t n = 1; n < 100; ++n) {
    ThreeTexts texts(9);
    texts.batch.step();
    const std::vector<Token> before(texts.batch.sequence(1).tokens().begin(),
                                    texts.batch.sequence(1).tokens().end());
    Result result;
    const auto cancel = [&] { result = texts.batch.cancel(1); };
    if (!succeeds_without(n, cancel)) {
      ++failures;
      REQUIRE(texts.batch.size() == 3);
      CHECK_FALSE(texts.batch.sequence(1).done());
      cancel();
    }
    CHECK(result.tokens == before);
    CHECK(result.stop_reason == StopReason::callback);
    CHECK(texts.batch.size() == 2);
  }
  CHECK(failures > 0);
}

namespace {

// A layer that says the same of every token.
struct DullLayer {
  Eigen::MatrixXd output = {};

  Index vocab_size() const { return 3; }
  Index state_size() const { return 2; }
  void begin(const Eigen::Vector2f&, Eigen::Ref<Eigen::VectorXf> state) { state.setOnes(); }
  const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>&, std::span<const Token>,
                                 Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    next.setOnes();
    return output = Eigen::MatrixXd::Constant(rows, 3, 1.0 / 3);
  }
  const Eigen::MatrixXd& forward(const Eigen::Ref<const Eigen::MatrixXf>& states,
                                 std::span<const Token> tokens, std::span<const Index>,
                                 Eigen::Ref<Eigen::MatrixXf> next, Index rows) {
    return forward(states, tokens, next, rows);
  }
  void keep(std::span<const Index>) {}
  void truncate(Index) {}
};

}  // namespace

TEST_CASE("whichever allocation fails in a layer's tree, no tree is open then") {
  const std::vector<Token> text{0, 1}, children(9, 2);
  const std::vector<Index> parents(9, -1);
  int failures = 0;
  for (std::size_t n = 1, last = 0; last == 0; ++n) {
    REQUIRE(n < 100);
    support::Knowing target = support::knowing(3);
    EagleModel eagle(target, DullLayer{});
    eagle.forward(text, 1);
    const std::size_t before = allocations;
    if (!succeeds_without(n, [&] { eagle.forward(children, parents, 1); })) {
      ++failures;
      eagle.forward(text, 1);
    } else if (allocations < before + n) {
      last = n;
    }
  }
  CHECK(failures > 1);
}

namespace {

template <class Drafter>
Drafter taught(Drafter drafter) {
  std::mt19937_64 rng{5};
  std::vector<Token> text;
  while (text.size() < 2000) text.push_back(static_cast<Token>(uniform01(rng) * 9));
  drafter.learn(text);
  return drafter;
}

}  // namespace

TEST_CASE("drafters of trees from counts allocate only for what they learn") {
  CHECK(allocated_by_trees(taught(SuffixDrafter{{.max_match = 3}, Branching{}})) == 0);
  CHECK(allocated_by_trees(taught(SuffixDrafter<Branching>{})) == 0);
}

TEST_CASE("steps over ranks allocate nothing in steady state") {
  std::mt19937_64 rng{7};
  std::vector<RowMajor<float>> logits(3, RowMajor<float>(4, 600));
  for (RowMajor<float>& rows : logits)
    for (float& l : rows.reshaped()) l = static_cast<float>(std::log(uniform01(rng)));
  std::size_t growth = 1;
  support::rethrow_first(support::on_ranks(2, [&](support::ThreadRank& rank) {
    ChainOverRanks over_ranks(
        Chain{DynamicTemperature{0.7, 0.2}, TopK{40}, TopNSigma{4}, MinKeep{3, TopP{0.9}}, MinP{0.01}}, rank);
    std::size_t before = 0;
    for (int n = 0; n < 30; ++n) {
      if (n == 12) before = allocations;
      over_ranks(logits[static_cast<std::size_t>(n % 3)].middleCols(300 * rank.rank(), 300), 600);
    }
    if (rank.rank() == 0) growth = allocations - before;
  }));
  CHECK(growth == 0);
}

namespace {

// Calls use(rank) with the n-th allocation of rank 1 failing, for n = 0, 1, ... until rank 1 needs no more
// allocations. Rank 1 must throw. If the ranks still have an exchange to make, the other rank must throw too instead
// of waiting. Returns how often the other one threw.
template <class Use>
int failures_told(const Use& use) {
  int told = 0;
  for (std::size_t n = 0;; ++n) {
    const auto errors = support::on_ranks(2, [&](support::ThreadRank& rank) {
      use(rank, [&] {
        if (rank.rank() == 1) allocations_left = n;
      });
      allocations_left = enough_memory;
    });
    if (!errors[1]) return told;
    CHECK_THROWS_AS(std::rethrow_exception(errors[1]), std::bad_alloc);
    if (!errors[0]) continue;
    CHECK(support::message_of<std::exception>([&] { std::rethrow_exception(errors[0]); }) ==
          "the ranks give different numbers of numbers");
    ++told;
  }
}

}  // namespace

TEST_CASE("a rank that runs out of memory during an exchange leaves no rank waiting") {
  std::mt19937_64 rng{8};
  const RowMajor<double> target = random_rows(4, 12, rng),
                         draft = RowMajor<double>::Constant(3, 12, 1.0 / 12);
  const std::vector<Token> tokens{1, 5, 9};
  CHECK(failures_told([&](support::ThreadRank& rank, const auto& begin) {
          const RowMajor<double> mine = target.middleCols(6 * rank.rank(), 6);
          std::mt19937_64 source(1);
          begin();
          Shards shards(mine, 6 * rank.rank(), 12, rank, tokens);
          shards.draw_ahead(1, [&] { return uniform01(source); });
          BlockVerifier{}(shards.rows(), draft, tokens, source);
          const auto row = shards.rows().row(1);
          for (Token x = 0; x < 12; ++x) row.probability(x);
          auto sampler = row.sampler();
          for (int k = 0; k < 9; ++k) sampler(0.1 * k);
          ResidualRow rest(1.0, row, 1.0, distributions(draft).row(0));
          rest.sampler()(0.5);
          row.segment(0, 12);
        }) > 5);
  RowMajor<float> logits(2, 600);
  for (float& l : logits.reshaped()) l = static_cast<float>(std::log(uniform01(rng)));
  const RowMajor<float> first = RowMajor<float>::Zero(2, 600);
  CHECK(failures_told([&](support::ThreadRank& rank, const auto& begin) {
          ChainOverRanks over_ranks(TopK{200}, rank);
          over_ranks(first.middleCols(300 * rank.rank(), 300), 600);  // has room for two rows
          begin();
          over_ranks(logits.middleCols(300 * rank.rank(), 300), 600);
        }) > 2);
}

}  // namespace law_allocation
