// Contexts that are longer than those of the training, and attentions that read a part of them. The oracles: the formulae in
// double (small_transformer.hpp), and the target's own text.
// SPDX-License-Identifier: MIT
#include "transformer/long_context.hpp"

#include <Eigen/Core>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/more/drafters.hpp>
#include <specdec/more/models.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "small_transformer.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "trained_pair.hpp"
#include "transformer/self_draft.hpp"
#include "transformer/sparse_cache.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_long_context {

using Eigen::Index;
using generate::sampled;
using specdec::ModelDrafter, specdec::SpecDec;
using support::Part;
using support::RandomModel;
using support::TemporaryFile;
using transformer::LongContext;
using transformer::SelfDraft;
using transformer::Shape;
using transformer::SparseCache;
using transformer::Sublayers;
using transformer::Transformer;
using Tokens = std::vector<std::int32_t>;

namespace {

const Shape shape{40, 33, 3, 4, 2, 50, 12, true};
constexpr Index long_context = 64, rank = 2;

Tokens random_tokens(std::mt19937& rng, Index size) {
  Tokens tokens(static_cast<std::size_t>(size));
  for (std::int32_t& x : tokens) x = static_cast<std::int32_t>(rng() % 50);
  return tokens;
}

// An adapter with random weights for the models of `shape`: what it makes of a model, and its file.
struct RandomAdapter {
  std::string file;
  RandomModel changed;

  RandomAdapter(const RandomModel& model, unsigned seed) : changed(model) {
    std::mt19937 rng{seed};
    const auto add = [&](Index rows, Index cols, double mean) {
      std::normal_distribution<double> normal{mean, 0.3};
      Eigen::MatrixXd m(rows, cols);
      for (Index i = 0; i < rows; ++i)
        for (Index j = 0; j < cols; ++j) {
          const Eigen::half number(static_cast<float>(normal(rng)));
          m(i, j) = static_cast<double>(static_cast<float>(number));
          support::append(file, number);
        }
      return m;
    };
    for (const std::int32_t word : header()) support::append(file, word);
    file.resize(256);
    for (std::size_t l = 0; l < 3; ++l) {
      changed.parts[Part::attention_norm][l] = add(1, 40, 1);
      for (const Part part : {Part::query, Part::key}) {
        const Eigen::MatrixXd down = add(rank, 40, 0);
        changed.parts[part][l] += add(part == Part::query ? 40 : 20, rank, 0) * down;
      }
    }
    changed.shape.trained_context = shape.context_size;
    changed.shape.context_size = long_context;
  }

  static std::vector<std::int32_t> header() { return {0x676e6f6c, 1, 40, 20, 3, rank, 12, long_context}; }
};

Transformer<float> stretched(const RandomModel& model, const RandomAdapter& adapter) {
  const TemporaryFile weights(model.versioned<float>()), change(adapter.file);
  return {weights.path(), LongContext::read(change.path())};
}

}  // namespace

TEST_CASE("SparseCache: the gap is made of whole panels, between the first tokens and the latest ones") {
  const auto gap = [](Index first, Index latest, Index context) {
    const SparseCache::Gap found = SparseCache{first, latest}.gap(context);
    CHECK(found.size() == found.end - found.begin);
    return std::vector<Index>{found.begin, found.end};
  };
  using Gap = std::vector<Index>;
  CHECK(gap(16, 32, 100) == Gap{16, 64});
  CHECK(gap(16, 36, 100) == Gap{16, 64});
  CHECK(gap(16, 37, 100) == Gap{16, 48});
  CHECK(gap(17, 37, 100) == Gap{32, 48});
  CHECK(gap(33, 37, 100) == Gap{0, 0});
  CHECK(gap(0, 0, 100) == Gap{0, 96});
  CHECK(gap(0, 99, 100) == Gap{0, 0});
  CHECK(gap(0, 100, 100) == Gap{0, 0});
  CHECK(gap(0, 1000, 100) == Gap{0, 0});
  CHECK(gap(100, 0, 100) == Gap{0, 0});
  CHECK(gap(16, 0, 16) == Gap{0, 0});
  const SparseCache::Gap none = SparseCache{}.gap(100);
  CHECK((none.begin == 0 && none.end == 0));
}

TEST_CASE("a stretched model has the logits of the formulae, before and after the trained context") {
  const RandomModel model(shape, 1);
  const RandomAdapter adapter(model, 2);
  Transformer<float> transformer = stretched(model, adapter);
  CHECK(transformer.context_size() == long_context);
  std::mt19937 rng{3};
  const Tokens tokens = random_tokens(rng, long_context);
  CHECK(transformer.forward(tokens, long_context)
            .cast<double>()
            .isApprox(adapter.changed.logits(tokens), 1e-4));
}

TEST_CASE("peek with a sparse cache: the logits of the formulae without the tokens of the gap") {
  const RandomModel model(shape, 4);
  const RandomAdapter adapter(model, 5);
  Transformer<float> transformer = stretched(model, adapter);
  std::mt19937 rng{6};
  int sparse = 0;
  for (int round = 0; round < 30; ++round) {
    const Index taken = 30 + static_cast<Index>(rng() % 30), count = 1 + static_cast<Index>(rng() % 4);
    const SparseCache seen = support::random_sparse_cache(rng);
    sparse += seen.gap(taken).size() > 0;
    const Sublayers some =
        (round % 2 == 0 ? Sublayers::first(3) : support::random_sublayers(rng, 3)).reading(seen);
    INFO(taken << " tokens taken, then " << count << "; the first " << seen.first << ", the latest "
               << seen.latest);
    const Tokens tokens = random_tokens(rng, taken + count);
    transformer.truncate(0);
    transformer.forward(std::span(tokens).first(static_cast<std::size_t>(taken)), 1);
    const auto drafted = std::span(tokens).subspan(static_cast<std::size_t>(taken));
    const Eigen::MatrixXd expected = adapter.changed.logits(tokens, taken, some);
    CHECK(transformer.peek(drafted, count, some).cast<double>().isApprox(expected.bottomRows(count), 1e-4));
  }
  CHECK(sparse > 10);
}

TEST_CASE("Sublayers that read a part of the context are others, and no whole layers") {
  const Sublayers all = Sublayers::first(3), sparse = all.reading({1, 2});
  CHECK(sparse != all);
  CHECK(sparse != all.reading({1, 3}));
  CHECK(sparse == all.reading({1, 2}));
  CHECK(sparse.reading(SparseCache{}) == all);
  CHECK(sparse.seen() == SparseCache{1, 2});
  CHECK(all.whole_layers() == 3);
  CHECK(sparse.whole_layers() == 0);
  const auto complaint = [&](const SparseCache& seen) {
    return support::message_of<std::invalid_argument>([&] { all.reading(seen); });
  };
  CHECK(complaint({-1, 2}) == "sparse cache: first = -1 or latest = 2 is negative");
  CHECK(complaint({0, -3}) == "sparse cache: first = 0 or latest = -3 is negative");
}

TEST_CASE("LongContext: a file of another kind, size or model is refused") {
  const RandomModel model(shape, 7);
  const RandomAdapter adapter(model, 8);
  const TemporaryFile weights(model.versioned<float>());
  const auto complaint = [&](const std::string& bytes) {
    const TemporaryFile file(bytes);
    const std::string message = support::message_of<std::runtime_error>(
        [&] { Transformer<float>(weights.path(), LongContext::read(file.path())); });
    REQUIRE(message.starts_with(file.path() + ": "));
    return message.substr(file.path().size() + 2);
  };
  const auto with = [&](std::size_t place, std::int32_t number) {
    std::string bytes;
    support::append(bytes, number);
    return std::string(adapter.file).replace(4 * place, 4, bytes);
  };
  CHECK(complaint("short") == "is no adapter for long contexts of version 1 or 2");
  CHECK(complaint(with(0, 1)) == "is no adapter for long contexts of version 1 or 2");
  CHECK(complaint(with(1, 3)) == "is no adapter for long contexts of version 1 or 2");
  CHECK(complaint(with(6, 1)) == "the trained context = 1 is outside 2..131072");
  CHECK(complaint(with(7, 11)) == "the context = 11 is outside 12..131072");
  CHECK(complaint(with(7, 131073)) == "the context = 131073 is outside 12..131072");
  CHECK(complaint(with(6, 13)) == "is for a model with a context of 13, this one has 12");
  CHECK(complaint(adapter.file + "x") == "expected 2176 bytes, found 2177");
  CHECK(complaint(with(5, 1)) == "expected 1336 bytes, found 2176");

  const auto for_shape = [&](const Shape& other) {
    const TemporaryFile others(RandomModel(other, 9).versioned<float>()), file(adapter.file);
    const std::string message = support::message_of<std::runtime_error>(
        [&] { Transformer<float>(others.path(), LongContext::read(file.path())); });
    return message.substr(file.path().size() + 2);
  };
  CHECK(for_shape({48, 33, 3, 4, 2, 50, 12, true}) == "is for a model with a dim of 40, this one has 48");
  CHECK(for_shape({40, 33, 3, 4, 1, 50, 12, true}) == "is for a model with a kv_dim of 20, this one has 10");
  CHECK(for_shape({40, 33, 2, 4, 2, 50, 12, true}) == "is for a model with 3 layers, this one has 2");
}

TEST_CASE("beyond the trained context, greedy text with a sparse cache is the target's") {
  const std::string weights = SPECDEC_EXAMPLES "/transformer/weights/";
  Transformer<float> target(weights + "target.bin", LongContext::read(weights + "long_context.bin"));
  const Tokens sentence = support::trained_tokenizer().encode("Call me Ishmael. Some years ago");
  Tokens prompt{sentence.front()};  // the beginning of a text
  while (prompt.size() < 530) prompt.insert(prompt.end(), sentence.begin() + 1, sentence.end());
  std::mt19937_64 rng{1};
  const specdec::Options options{.max_new_tokens = 40, .gamma = 3};
  const Tokens alone = specdec::autoregressive(sampled(target, 0), prompt, options, rng).tokens;

  SelfDraft drafting(target, Sublayers::first(4).reading({16, 64}));
  SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(drafting, 0)}};
  const specdec::Result written = decoder.generate(prompt, options, rng);
  CHECK(written.tokens == alone);
  CHECK(written.stats.accepted < written.stats.drafted);
  CHECK(3 * written.stats.accepted > written.stats.drafted);

  Transformer<float> small(weights + "draft.bin");
  specdec::Windowed windowed{small, 4, 252};
  SpecDec two_levels{sampled(target, 0),
                     specdec::CascadeDrafter{sampled(drafting, 0), ModelDrafter{sampled(windowed, 0)},
                                             specdec::BlockVerifier{}, 2}};
  const specdec::Result cascaded = two_levels.generate(prompt, options, rng);
  CHECK(cascaded.tokens == alone);
  CHECK(3 * cascaded.stats.accepted > cascaded.stats.drafted);
}

// The audit convicts an honest drafter with a probability of 1e-4; the seed is fixed.
TEST_CASE("drafts with a sparse cache are drawn from the rows that are reported") {
  const RandomModel model(shape, 10);
  Transformer<float> target = stretched(model, RandomAdapter(model, 11));
  SelfDraft drafting(target, Sublayers::first(3).reading({1, 1}));
  specdec::testing::AuditedDrafter drafter{ModelDrafter{sampled(drafting, 1)}};
  SpecDec decoder{sampled(target, 1), drafter, specdec::BlockVerifier{}};
  std::mt19937_64 rng{12};
  std::mt19937 prompts{13};
  for (int text = 0; text < support::bound(200, 800); ++text)
    decoder.generate(random_tokens(prompts, 36), {.max_new_tokens = 24, .gamma = 3}, rng);
  INFO(drafter.report());
  CHECK(drafter.report().tokens > support::bound(4000, 16000));
  CHECK(!drafter.report().convicted());
}

}  // namespace test_examples_long_context
