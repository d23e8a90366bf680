// Processors with state on a text that goes forward and back, in lines and trees. A processed row equals the row made
// from scratch, the loop has the law of the processed target, and a throw changes nothing.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/samplers/grammar.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"
#include "support/processors.hpp"
#include "support/rules.hpp"

namespace test_sample_processed_text {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Steps = Chain<Temperature>;
using Processed = ProcessedModel<LogTable&, Steps, AnyProcessor>;
const Steps steps{Temperature{0.8}};

// Takes a processed model at random through lines and trees, and compares every row.
class Walk {
 public:
  Walk(const AnyProcessor& processor, std::uint64_t seed)
      : processor_(processor), model_(table_, steps, processor), rng_(seed) {}

  void check(int calls) {
    for (int n = 0; n < calls; ++n) {
      if (tree_.empty() && below(3) == 0) line();
      else if (below(3) > 0) grow();
      else if (below(2) == 0) keep();
      else truncate();
    }
  }

  Index refused = 0, failed = 0;
  std::shared_ptr<int> fault = std::make_shared<int>(0);  // which call of the processor fails

 private:
  struct Node {
    Token token;
    Index parent;
  };

  Index below(Index end) { return static_cast<Index>(uniform01(rng_) * static_cast<double>(end)); }
  Token any() { return static_cast<Token>(below(3)); }

  std::vector<Token> text_before(Index node) const {
    std::vector<Token> text;
    for (; node >= 0; node = tree_[static_cast<std::size_t>(node)].parent)
      text.insert(text.begin(), tree_[static_cast<std::size_t>(node)].token);
    text.insert(text.begin(), context_.begin(), context_.end());
    return text;
  }

  // A token that the processor allows next.
  Token allowed(std::span<const Token> text) {
    const auto logits = from_scratch(table_, processor_, text);
    Token x = any();
    for (int tries = 0; tries < 3 && !(logits->coeff(x) > -100); ++tries) x = (x + 1) % 3;
    return x;
  }

  void expect(const auto& rows, Index i, const std::vector<Token>& text) {
    const auto processed = from_scratch(table_, processor_, text);
    refused += processed ? 0 : 1;
    const Eigen::RowVectorXd expected = processed ? *processed : table_.logits(text);
    for (Token x = 0; x < 3; ++x) CHECK(rows.row(i).logits()[x] == expected[x]);
  }

  // Where the processor fails, the state must be as before.
  template <class Call, class Take>
  void call(const Call& call, const Take& take) {
    *fault = 1 + static_cast<int>(below(12));
    try {
      const auto rows = call();
      *fault = 0;
      take(rows);
    } catch (const std::runtime_error&) {
      ++failed;
    }
    *fault = 0;
  }

  // A line: some allowed tokens of the text, and a draft of arbitrary tokens.
  void line() {
    const Index count = 1 + below(2), rows = 1 + below(4);
    std::vector<Token> tokens, text = context_;
    for (Index i = 0; i < count; ++i) {
      tokens.push_back(allowed(text));
      text.push_back(tokens.back());
    }
    for (Index i = 1; i < rows; ++i) tokens.push_back(any());
    call([&] { return model_.forward(tokens, rows); },
         [&](const auto& output) {
           context_.insert(context_.end(), tokens.begin(), tokens.end());
           for (Index i = 0; i < rows; ++i)
             expect(output, i, {context_.begin(), context_.end() - (rows - 1 - i)});
           if (from_scratch(table_, processor_, context_)) return;
           truncate_to(std::ssize(context_) - rows + 1);  // the text cannot go on like this
         });
  }

  void grow() {
    const std::size_t before = tree_.size();
    std::vector<Token> tokens;
    std::vector<Index> parents;
    const Index count = 1 + below(5);
    if (before == 0) {  // directly after the text
      tokens.push_back(allowed(context_));
      parents.push_back(-1);
    }
    for (Index k = std::ssize(tokens); k < count; ++k) {
      const Index number = static_cast<Index>(before) + k;
      tokens.push_back(any());
      parents.push_back(before == 0 ? below(number) : below(number + 1) - 1);
    }
    const Index rows = before == 0 ? std::ssize(tokens) : 1 + below(std::ssize(tokens));
    call([&] { return model_.forward(tokens, parents, rows); },
         [&](const auto& output) {
           for (std::size_t k = 0; k < tokens.size(); ++k) tree_.push_back({tokens[k], parents[k]});
           for (Index i = 0; i < rows; ++i) expect(output, i, text_before(std::ssize(tree_) - rows + i));
         });
  }

  void keep() {
    std::vector<Index> path;
    for (Index node = below(std::ssize(tree_) + 1) - 1; node >= 0;
         node = tree_[static_cast<std::size_t>(node)].parent)
      path.insert(path.begin(), node);
    std::vector<Token> text = text_before(path.empty() ? -1 : path.back());
    while (!from_scratch(table_, processor_, text)) {
      path.pop_back();
      text.pop_back();
    }
    model_.keep(path);
    context_ = text;
    tree_.clear();
  }

  void truncate() { truncate_to(std::max<Index>(std::ssize(context_) - below(5), below(10) == 0 ? 0 : 2)); }
  void truncate_to(Index length) {
    model_.truncate(length);
    context_.resize(std::min(context_.size(), static_cast<std::size_t>(length)));
    tree_.clear();
  }

  LogTable table_{3, 1, 5};
  AnyProcessor processor_;
  Processed model_;
  std::mt19937_64 rng_;
  std::vector<Token> context_;
  std::vector<Node> tree_;
};

}  // namespace

static_assert(takes_trees<Processed>);

TEST_CASE("a processed row equals the row made from scratch, whatever calls came before") {
  Index refused = 0;
  for (const AnyProcessor& processor : all_processors(2))
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      Walk walk(processor, seed);
      walk.check(40);
      refused += walk.refused;
    }
  CHECK(refused > 100);
}

namespace {

// Its calls do not branch.
struct OfLines {
  LogTable& table;
  Index vocab_size() const { return table.vocab_size(); }
  decltype(auto) forward(std::span<const Token> tokens, Index rows) { return table.forward(tokens, rows); }
  void truncate(Index length) { table.truncate(length); }
};

}  // namespace

TEST_CASE("a tree fed path by path has the rows of the tree fed as a tree") {
  std::mt19937_64 rng{9};
  const auto below = [&](Index end) { return static_cast<Index>(uniform01(rng) * static_cast<double>(end)); };
  Index refused = 0;
  for (const AnyProcessor& processor : all_processors(1))
    for (int n = 0; n < 20; ++n) {
      LogTable table(3, 1, 5), same(3, 1, 5), another(3, 1, 5);
      Processed whole{table, steps, processor};
      ProcessedModel around{PathByPath{OfLines{another}}, steps, processor};
      PathByPath by_path{Processed{same, steps, processor}};
      std::vector<Token> context{1}, tokens{0};
      std::vector<Index> parents{-1};
      for (int call = 0; call < 4; ++call) {
        for (Index k = std::ssize(tokens); k < 8; ++k) {
          tokens.push_back(static_cast<Token>(below(3)));
          parents.push_back(below(k));
        }
        whole.forward(context, 1);
        by_path.forward(context, 1);
        around.forward(context, 1);
        const auto rows = whole.forward(tokens, parents, 8);
        const auto rows_by_path = by_path.forward(tokens, parents, 8);
        const auto rows_around = around.forward(tokens, parents, 8);
        for (Index i = 0; i < 8; ++i)
          for (Token x = 0; x < 3; ++x) {
            CHECK(rows_by_path.row(i).probability(x) == rows.row(i).probability(x));
            CHECK(rows_around.row(i).probability(x) == rows.row(i).probability(x));
          }
        // With the processor outside, PathByPath's user sees the tree, and may ask for any row of it.
        if (parents.back() > 0)
          CHECK(around.forward(std::vector<Token>{0}, std::vector<Index>{7}, 1).row(0).probability(1) ==
                whole.forward(std::vector<Token>{0}, std::vector<Index>{7}, 1).row(0).probability(1));
        for (const Token x : tokens)
          refused += from_scratch(table, processor, std::vector<Token>{1, 0, x}) ? 0 : 1;
        whole.truncate(0);  // the refused tokens are forgotten
        by_path.truncate(0);
        around.truncate(0);
        tokens.resize(1);
        parents.resize(1);
      }
    }
  CHECK(refused > 100);
}

namespace {

// Fails from some call on, even if its text is taken back: for walks that fail now and then.
AnyProcessor faulty(std::shared_ptr<int> calls_left) {
  return {Faulty{std::move(calls_left), Grammar{ForwardRhythm{}}}};
}

}  // namespace

TEST_CASE("when a processor throws, text and tree are as before, and later rows are right") {
  Index failed = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const auto calls_left = std::make_shared<int>(0);
    Walk walk(faulty(calls_left), seed);
    walk.fault = calls_left;
    walk.check(40);
    failed += walk.failed;
  }
  CHECK(failed > 100);
}

namespace {

// The target alone, processed from scratch.
struct Reference {
  const LogTable& table;
  AnyProcessor processor;
  mutable std::vector<std::unique_ptr<RowMajor<double>>> rows = {};

  auto distribution(std::span<const Token> context) const {
    rows.push_back(std::make_unique<RowMajor<double>>(*from_scratch(table, processor, context)));
    return steps(LogitsRow(numbers(*rows.back()).row(0)));
  }
};

const std::vector<Token> prompt{1, 2};

Law expected_law(const LogTable& table, const AnyProcessor& processor, const Options& options) {
  return target_law(Reference{table, processor}, prompt, options);
}

// The difference of the loop's law from the target's, and how many drafted tokens are accepted.
struct Found {
  double difference = 0, accepted = 0;
};

Found lines(const AnyProcessor& processor, const AnyProcessor& of_drafter, std::uint64_t seed) {
  Found found;
  LogTable large(3, 1, seed), small(3, 1, seed + 100);
  const auto add = [&](const AnyRule& rule, const Options& options) {
    ModelDrafter drafter{Processed{small, steps, of_drafter}};
    SpecDec decoder{Processed{large, steps, processor}, drafter, rule};
    const GenerationLaw got = enumerate_generate(decoder, prompt, options);
    const Difference difference = largest_difference(got.law, expected_law(large, processor, options));
    found.difference = std::max(found.difference, difference.size);
    found.accepted += got.accepted;
  };
  const Index length = std::max(bound(3, 4), 3);
  add({BlockVerifier{}}, {.max_new_tokens = length, .gamma = 1});
  add({BlockVerifier{}}, {.max_new_tokens = std::max(bound(4), 3), .gamma = 3});
  add({TokenVerifier{}}, {.max_new_tokens = length, .gamma = 2});
  return found;
}

Found trees(const AnyProcessor& processor, const AnyProcessor& of_drafter, std::uint64_t seed) {
  LogTable large(3, 1, seed), small(3, 1, seed + 100);
  ModelDrafter drafter{Processed{small, steps, of_drafter},
                       Tree{TreeShape::of_widths({2, 1}), Independent{}}};
  SpecDec decoder{Processed{large, steps, processor}, drafter, TraversalVerifier{}};
  const Options options{.max_new_tokens = std::max(bound(3, 4), 3), .gamma = 4};
  const GenerationLaw got = enumerate_generate(decoder, prompt, options);
  return {largest_difference(got.law, expected_law(large, processor, options)).size, got.accepted};
}

// Refuses a token that it does not forbid.
struct Refuses {
  int* asked;
  void apply(auto&&) const {}
  bool push(Token x) const {
    *asked += x == 2 ? 1 : 0;
    return x != 2;
  }
  void pop(Index) const {}
};

// Returns as many rows as it is asked for, even more than it is fed tokens.
struct Lavish : LogTable {
  using LogTable::LogTable;
  float logit = 1;
  RowMajor<float> rows_of_any;
  const RowMajor<float>& forward(std::span<const Token>, Index rows) {
    return rows_of_any = RowMajor<float>::Constant(rows, 3, logit);
  }
  const RowMajor<float>& forward(std::span<const Token> tokens, std::span<const Index>, Index rows) {
    return forward(tokens, rows);
  }
  void keep(std::span<const Index>) {}
};

}  // namespace

TEST_CASE("with processors with state on target and drafter the loop has the target's law", "[law]") {
  std::uint64_t seed = 0;
  for (const AnyProcessor& processor : all_processors(2)) {
    ++seed;
    CAPTURE(seed);
    const Found known = lines(processor, processor, seed), unknown = lines(processor, nothing(), seed);
    CHECK(known.difference < 1e-12);
    CHECK(unknown.difference < 1e-12);
    CHECK(known.accepted > unknown.accepted);
    if (seed % static_cast<unsigned>(every(3)) != 0) continue;  // trees take long
    const Found tree = trees(processor, processor, seed), blind = trees(processor, nothing(), seed);
    CHECK(tree.difference < 1e-12);
    CHECK(blind.difference < 1e-12);
    CHECK(tree.accepted > blind.accepted);
  }
}

TEST_CASE("a text that its processor refuses is an error, and so is a token refused but not forbidden") {
  LogTable table(3, 1, 7);
  Processed model{table, steps, {Grammar{Rhythm{}}}};
  const std::vector<Token> broken{0, 1, 2}, whole{0, 2}, beyond{0, 2, 2};
  const char* const message =
      "specdec: token 1 of the text is 1, which the processor refuses: it sees the prompt, too, where no "
      "AfterPrompt leaves it out";
  CHECK(message_of([&] { model.forward(broken, 1); }) == message);
  CHECK(message_of([&] { model.forward(broken, 2); }) == message);
  CHECK(message_of([&] { model.forward(broken, std::vector<Index>{-1, 0, 1}, 2); }) == message);
  CHECK(table.table.context().empty());
  // A draft may have any tokens.
  CHECK(model.forward(beyond, 2).row(1).logits()[2] == table.logits(beyond)[2]);
  CHECK(model.forward(std::vector<Token>{0}, 1).row(0).logits()[1] == table.logits(std::vector<Token>{0})[1]);
  model.truncate(2);
  CHECK(model.forward(whole, std::vector<Index>{-1, 0}, 1).rows() == 1);
  model.truncate(2);
  CHECK(message_of([&] {
          model.forward(std::vector<Token>{2, 1, 0}, 1);
        }).starts_with("specdec: token 2 of the"));

  model.truncate(0);  // no row was asked for there, so nothing was checked before
  model.forward(std::vector<Token>{0, 2, 0, 2}, 1);
  model.truncate(1);
  CHECK_THROWS_AS(model.forward(std::vector<Token>{1}, 1), std::invalid_argument);

  int asked = 0;
  Lavish lavish(3, 1, 7);
  ProcessedModel careless{lavish, steps, Refuses{&asked}};
  const char* const complaint =
      "specdec: the processor refuses token 2, which it leaves a logit of 1: what it refuses has to be "
      "forbidden";
  CHECK(message_of([&] { careless.forward(whole, 2); }) == complaint);
  CHECK(message_of([&] { careless.forward(whole, std::vector<Index>{-1, 0}, 2); }) == complaint);
  CHECK(message_of([&] { careless.forward(whole, 3); }) ==
        "specdec: rows = 3 is outside 1..2, the number of tokens");
  // The processor is asked once, whatever follows.
  asked = 0;
  lavish.logit = -std::numeric_limits<float>::infinity();
  careless.forward(std::vector<Token>{0, 2, 1, 1, 0}, std::vector<Index>{-1, 0, 1, 1, 2}, 5);
  careless.forward(std::vector<Token>{1}, std::vector<Index>{1}, 1);
  CHECK(asked == 1);

  // No row has a token of another vocabulary, so there is nothing to forbid.
  struct RefusesUnknown : Refuses {
    bool push(Token x) const { return x < 3; }
  };
  lavish.logit = 1;
  ProcessedModel strict{Lavish(3, 1, 7), steps, RefusesUnknown{{&asked}}};
  CHECK(strict.forward(std::vector<Token>{1, 7}, 2).rows() == 2);
}

}  // namespace test_sample_processed_text
