// The transformer for many texts: equal to one transformer for each sequence, to the bit, for any mix of feeds in a call.
// SPDX-License-Identifier: MIT
#include <Eigen/Core>
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "small_transformer.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "transformer/batch.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_transformer_batch {

using specdec::BatchFeed;
using support::message_of;
using support::RandomModel;
using support::TemporaryFile;
using transformer::Index;
using transformer::Shape;
using transformer::Token;
using transformer::Transformer;
using transformer::TransformerBatch;
using Tokens = std::vector<Token>;
using Numbers = std::vector<Index>;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(specdec::BatchModel<TransformerBatch<float>> && specdec::takes_trees<TransformerBatch<float>>);
static_assert(specdec::BatchModel<TransformerBatch<Eigen::half>> &&
              specdec::takes_trees<TransformerBatch<Eigen::half>>);
static_assert(std::copyable<TransformerBatch<float>>);

namespace {

const std::vector<Shape> shapes{
    {32, 48, 2, 2, 2, 40, 80, true}, {12, 20, 3, 2, 1, 37, 80, false}, {40, 33, 1, 4, 1, 129, 80, true}};

// The feed of a sequence in a call.
struct Fed {
  Index sequence;
  Tokens tokens;
  Numbers parents;  // empty for a line
  Index rows;
};

// A batch, and a transformer for each of its sequences.
template <class Scalar>
class Beside {
 public:
  explicit Beside(const Shape& shape, unsigned seed, const Numbers& shown = {})
      : rng_(seed), shows_(!shown.empty()) {
    const TemporaryFile file(RandomModel(shape, seed).versioned<float>());
    fresh_.emplace_back(file.path());
    batch_.emplace_back(file.path());
    if (!shows_) return;
    fresh_.front().show_hidden(shown);
    batch_.front().show_hidden(shown);
  }

  TransformerBatch<Scalar>& batch() { return batch_.front(); }
  Index below(Index n) { return static_cast<Index>(rng_() % static_cast<unsigned>(n)); }

  // A random line, or random tokens of a tree that is open or that begins here.
  Fed random_feed(Index sequence) {
    const Index vocab_size = batch().vocab_size(), open = open_[sequence];
    Fed fed{sequence, Tokens(static_cast<std::size_t>(1 + below(12))), {}, 0};
    for (Token& x : fed.tokens) x = static_cast<Token>(below(vocab_size));
    fed.rows = below(std::ssize(fed.tokens) + 1);
    if (open > 0 || below(3) == 0)
      for (Index k = 0; k < std::ssize(fed.tokens); ++k) fed.parents.push_back(below(open + k + 1) - 1);
    return fed;
  }

  bool fits(const Fed& fed) {
    return model(fed.sequence).length() + open_[fed.sequence] + std::ssize(fed.tokens) <=
           batch().context_size();
  }

  std::vector<BatchFeed> feeds_of(const std::vector<Fed>& all) {
    std::vector<BatchFeed> feeds;
    for (const Fed& fed : all)
      feeds.push_back({{.tokens = fed.tokens,
                        .from = model(fed.sequence).length(),
                        .rows = fed.rows,
                        .parents = fed.parents},
                       fed.sequence});
    return feeds;
  }

  // Whether all rows of a call equal the rows of the sequences alone.
  bool feed(const std::vector<Fed>& all) {
    const RowMajor rows = batch().forward(feeds_of(all));
    Index first = 0;
    bool equal = true;
    for (const Fed& fed : all) {
      const Index asked = std::max<Index>(fed.rows, 1);  // a transformer needs at least one row
      const RowMajor alone = fed.parents.empty()
                                 ? model(fed.sequence).forward(fed.tokens, asked)
                                 : model(fed.sequence).forward(fed.tokens, fed.parents, asked);
      equal = equal && rows.middleRows(first, fed.rows) == alone.bottomRows(fed.rows);
      first += fed.rows;
      if (!fed.parents.empty()) remember(fed);
      equal = equal && shows_equal(fed.sequence);
    }
    return equal && first == rows.rows();
  }

  // Keeps a random path of the open tree, or a part of the context.
  void keep(Index sequence) {
    if (open_[sequence] > 0 && below(3) > 0) {
      Numbers path;
      for (Index node = below(open_[sequence] + 1) - 1; node >= 0;
           node = parents_[sequence][static_cast<std::size_t>(node)])
        path.insert(path.begin(), node);
      batch().keep(sequence, path);
      model(sequence).keep(path);
    } else {
      const Index length = model(sequence).length() - below(10);
      batch().keep(sequence, length);
      model(sequence).truncate(length);
    }
    close(sequence);
  }

  void release(Index sequence) {
    batch().release(sequence);
    models_.erase(sequence);
    close(sequence);
  }

  // Whether the sequence's hidden state, if any is shown, is that of the sequence alone.
  bool shows_equal(Index sequence) {
    return !shows_ || length(sequence) == 0 ||
           (batch().length(sequence) == length(sequence) &&
            batch().hidden(sequence) == model(sequence).hidden());
  }

  Index open(Index sequence) { return open_[sequence]; }
  Index length(Index sequence) { return model(sequence).length(); }
  Index met() const { return std::ssize(models_); }

 private:
  Transformer<Scalar>& model(Index sequence) {
    return models_.try_emplace(sequence, fresh_.front()).first->second;
  }
  void remember(const Fed& fed) {
    open_[fed.sequence] += std::ssize(fed.tokens);
    Numbers& parents = parents_[fed.sequence];
    parents.insert(parents.end(), fed.parents.begin(), fed.parents.end());
  }
  void close(Index sequence) {
    open_[sequence] = 0;
    parents_[sequence].clear();
  }

  std::mt19937 rng_;
  bool shows_;
  std::vector<Transformer<Scalar>> fresh_;
  std::vector<TransformerBatch<Scalar>> batch_;
  std::map<Index, Transformer<Scalar>> models_;
  std::map<Index, Index> open_;
  std::map<Index, Numbers> parents_;
};

BatchFeed line(Index sequence, const Tokens& tokens, Index rows, Index from = 0) {
  return {{.tokens = tokens, .from = from, .rows = rows}, sequence};
}

}  // namespace

TEMPLATE_TEST_CASE("rows and hidden states of a batch are those of each sequence alone, to the bit", "",
                   float, Eigen::half) {
  for (const Shape& shape : shapes) {
    INFO(shape);
    Beside<TestType> tested(shape, 10, shape.n_layers > 1 ? Numbers{shape.n_layers, 1} : Numbers{});
    Index most = 0;
    for (int round = 0; round < support::bound(60, 400); ++round) {
      std::vector<Fed> all;
      for (Index sequence = 0; sequence < 6; ++sequence) {
        if (tested.below(12) == 0) tested.release(sequence);
        if (tested.below(5) < 2) continue;
        if (tested.open(sequence) > 20 || (tested.open(sequence) > 0 && tested.below(2) == 0) ||
            tested.below(3) == 0) {
          tested.keep(sequence);
          CHECK(tested.shows_equal(sequence));
        }
        Fed fed = tested.random_feed(sequence);
        if (!tested.fits(fed)) tested.release(sequence);
        if (tested.open(sequence) == 0 &&
            std::ranges::any_of(fed.parents, [&](Index p) { return p >= std::ssize(fed.tokens); }))
          continue;  // its tree was closed
        if (tested.fits(fed)) all.insert(all.begin() + tested.below(std::ssize(all) + 1), std::move(fed));
      }
      if (!all.empty()) CHECK(tested.feed(all));
      most = std::max(most, tested.met());
    }
    CHECK(tested.batch().contexts() <= most);
  }
}

TEST_CASE("many long prompts at once, of which few rows are wanted, and none") {
  Beside<float> tested(shapes[0], 20);
  std::vector<Fed> all;
  for (Index sequence = 0; sequence < 8; ++sequence)
    all.push_back(
        {sequence, Tokens(static_cast<std::size_t>(9 + 7 * sequence), Token(sequence)), {}, sequence % 3});
  CHECK(tested.feed(all));
  for (Fed& fed : all) fed.tokens = {1, 2, 3}, fed.rows = 0;
  CHECK(tested.feed(all));
  for (Fed& fed : all) fed.rows = 3;
  CHECK(tested.feed(all));
}

TEST_CASE("a context that is released serves the next sequence, which finds it empty") {
  Beside<float> tested(shapes[1], 30);
  for (Index sequence = 0; sequence < 20; ++sequence) {
    CHECK(tested.feed({{sequence, {1, 2, 3, 4}, {}, 2}, {sequence + 1, {5, 6}, {}, 1}}));
    CHECK(tested.batch().length(sequence) == 4);
    CHECK(tested.batch().contexts() == 2);
    tested.release(sequence);
    tested.release(sequence + 1);
    CHECK(tested.batch().length(sequence) == 0);
  }
}

TEST_CASE("keep and release do nothing for sequences that have not been met") {
  Beside<float> tested(shapes[0], 40);
  tested.feed({{3, {1, 2, 3}, {}, 1}});
  tested.batch().keep(4, 1);
  tested.batch().keep(4, Numbers{0});
  tested.batch().release(4);
  tested.batch().keep(3, 7);
  CHECK(tested.feed({{3, {4}, {}, 1}}));
}

TEST_CASE("a call that fails leaves every context as it was") {
  Beside<float> tested(shapes[0], 50);
  auto& batch = tested.batch();
  const Tokens good{1, 2, 3}, unknown{1, 40}, many(75, 1);
  const Numbers parents{-1, 0, 0}, wrong{-1, 3, 0}, few{-1};
  REQUIRE(tested.feed({{1, {1, 2, 3, 4, 5, 6}, {}, 1}, {2, {7}, {}, 0}}));
  REQUIRE(tested.feed({{1, {1, 2}, {-1, 0}, 2}}));  // a tree stays open
  const auto complaint = [&](const BatchFeed& feed) {
    return message_of<std::exception>([&] {
      batch.forward(std::vector{line(2, good, 2, 1), line(9, good, 1), feed});
    });
  };
  CHECK(complaint(line(3, unknown, 1)) ==
        "transformer: feeds[2]: tokens[1] = 40 is outside the vocabulary 0..39");
  CHECK(complaint(line(3, good, 4)) ==
        "transformer: feeds[2]: rows = 4 is outside 0..3, the number of tokens");
  CHECK(complaint(line(3, good, -1)) ==
        "transformer: feeds[2]: rows = -1 is outside 0..3, the number of tokens");
  CHECK(complaint(line(3, good, 1, 2)) ==
        "transformer: feeds[2]: from = 2, but sequence 3 has 0 tokens in its context");
  CHECK(complaint(line(2, good, 1, 1)) == "transformer: feeds[2]: sequence 2 is in feeds[0], too");
  CHECK(complaint(line(1, good, 1, 6)) ==
        "transformer: feeds[2]: a tree is open: keep() or truncate() closes it");
  const auto tree = [&](const Tokens& tokens, const Numbers& parents_of) {
    return BatchFeed{{.tokens = tokens, .from = 6, .rows = 1, .parents = parents_of}, 1};
  };
  CHECK(complaint(tree(good, few)) ==
        "transformer: feeds[2]: parents has 1 numbers, expected one for each of 3 tokens");
  CHECK(complaint(tree(good, Numbers{-1, 3, 0})) ==
        "transformer: feeds[2]: parents[1] = 3 is outside -1..2: a token follows the context or a token "
        "before it");
  CHECK(complaint(tree(many, Numbers(75, -1))) ==
        "transformer: feeds[2]: 75 tokens after 8 do not fit in the context of 80");
  CHECK_THROWS_AS(batch.keep(1, Numbers{1}), std::invalid_argument);
  for (const Index sequence : {3, 9}) CHECK(batch.length(sequence) == 0);
  CHECK(batch.contexts() == 2);
  CHECK(tested.feed({{2, {1, 2, 3}, {}, 3}, {1, {5, 6, 7}, {0, 1, 1}, 3}, {9, {4}, {}, 1}}));
}

TEST_CASE("a call of nothing returns nothing") {
  Beside<float> tested(shapes[0], 60);
  CHECK(tested.batch().forward(std::vector<BatchFeed>{}).rows() == 0);
  CHECK(tested.feed({{1, {1}, {}, 1}}));
}

TEST_CASE("copies of a batch have contexts of their own") {
  Beside<float> tested(shapes[0], 70);
  tested.feed({{1, {1, 2, 3}, {}, 1}});
  auto copy = tested.batch();
  const Tokens next{4};
  copy.forward(std::vector{line(1, next, 1, 3)});
  CHECK(copy.length(1) == 4);
  CHECK(tested.batch().length(1) == 3);
  CHECK(tested.feed({{1, {5, 6}, {}, 2}}));
}

TEST_CASE("texts of a batch over the transformer are what they are alone, trees included") {
  const TemporaryFile large(RandomModel(shapes[0], 80).versioned<float>()),
      small(RandomModel({12, 20, 1, 2, 1, 40, 80, true}, 81).versioned<float>());
  const specdec::Chain chain{specdec::Temperature{0.7}};
  const specdec::Options options{.max_new_tokens = 40, .gamma = 4};
  TransformerBatch<float> target(large.path()), draft(small.path());
  Transformer<float> one(large.path()), one_draft(small.path());
  const Tokens prompt{1, 2, 3};

  SECTION("lines, drafted together") {
    specdec::Batch batch{specdec::ProcessedModel{target, chain},
                         specdec::ModelDrafter{specdec::ProcessedModel{draft, chain}},
                         specdec::BlockVerifier{}, specdec::BatchOptions{.tokens_per_call = 16}};
    specdec::SpecDec alone{specdec::ProcessedModel{one, chain},
                           specdec::ModelDrafter{specdec::ProcessedModel{one_draft, chain}}};
    for (unsigned seed = 0; seed < 7; ++seed) batch.add(prompt, options, std::mt19937_64(seed));
    for (const specdec::Finished& finished : batch.run()) {
      std::mt19937_64 rng(static_cast<unsigned>(finished.sequence));
      CHECK(finished.result.tokens == alone.generate(prompt, options, rng).tokens);
    }
  }
  SECTION("trees, drafted by each") {
    const auto drafter = [&] {
      return specdec::ModelDrafter{specdec::ProcessedModel{Transformer<float>(one_draft), chain},
                                   specdec::Spares{3, {1}}};
    };
    const specdec::TrunkAndSpares<specdec::BlockVerifier> rule;
    specdec::Batch batch{specdec::ProcessedModel{target, chain}, drafter(), rule};
    specdec::SpecDec alone{specdec::ProcessedModel{one, chain}, drafter(), rule};
    for (unsigned seed = 0; seed < 7; ++seed) batch.add(prompt, options, std::mt19937_64(seed));
    for (const specdec::Finished& finished : batch.run()) {
      std::mt19937_64 rng(static_cast<unsigned>(finished.sequence));
      CHECK(finished.result.tokens == alone.generate(prompt, options, rng).tokens);
    }
  }
}

}  // namespace test_examples_transformer_batch
