// Models that can be cut back only so far. Their texts are those of a model that goes back anywhere, and they read again only
// what lies beyond their reach.
// SPDX-License-Identifier: MIT
#include "specdec/more/models/reread.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <vector>
#include "specdec/more/drafters/prompt_lookup.hpp"

#include "support/catch.hpp"
#include "support/many_texts.hpp"
#include "support/message_of.hpp"
#include "support/ring.hpp"

namespace test_more_models_reread {

using namespace specdec;
using namespace specdec::testing;
using support::message_of;
using support::Ring;
using Tokens = std::vector<Token>;

static_assert(Model<Reread<Ring>> && Model<Reread<Ring&>> && takes_trees<Reread<Ring>>);
static_assert(BatchModel<ModelPerSequence<Reread<Ring>>>);
static_assert(specdec::detail::goes_back_anywhere<PathByPath<Reread<Ring>>>);
static_assert(specdec::detail::goes_back_anywhere<ModelPerSequence<Reread<Ring>>>);
static_assert(!specdec::detail::goes_back_anywhere<Ring>);

namespace {

constexpr Index vocab = 5, window = 6, spare = 4;
Ring ring(std::uint64_t seed = 1) { return {vocab, window, spare, seed}; }
// The same rows of a cache that loses nothing. Drafts stay within the reach that it says.
Ring whole(std::uint64_t seed = 1, Index said = 1000) {
  Ring model(vocab, window, 1000, seed);
  model.said = said;
  return model;
}

// A ring for each of many texts.
using Rings = support::CopyPerText<Ring>;

Tokens written(auto& decoder, const Options& options, const Tokens& prompt = {1, 2, 3}) {
  std::mt19937_64 rng{5};
  return decoder.generate(prompt, options, rng).tokens;
}

}  // namespace

TEST_CASE("check_model goes back within a model's reach, and convicts a reach that is too long") {
  Ring honest = ring(), boasts = ring();
  boasts.said = spare + 1;
  const ModelReport right = check_model(honest);
  CHECK(right.complaint == "");
  CHECK(right.shows_rollback);
  CHECK_FALSE(check_model(boasts));
  Rings many(ring());
  CHECK(check_model(many).complaint == "");
  Ring stuck = ring();
  stuck.said = 0;
  CHECK(check_model(stuck).complaint == "");
}

TEST_CASE("Reread: rows are right after any way back, for lines and trees, one text and many") {
  Ring model = ring();
  Reread one{model};
  CHECK(check_model(one, {.rounds = 60}).complaint == "");
  Rings models(ring());
  Reread many{models};
  CHECK(check_model(many, {.rounds = 60}).complaint == "");
  CHECK(models.size() == 0);
  Ring stuck = ring();
  stuck.said = 0;
  Reread nowhere{stuck};
  CHECK(check_model(nowhere).complaint == "");
  PathByPath paths{Reread{ring()}};
  CHECK(check_model(paths).complaint == "");
}

TEST_CASE("Drafts stay within the reach of both models, and nothing is read again") {
  Ring near_target = ring(), near_draft = ring(2), far_target = whole(1, spare), far_draft = whole(2, 2);
  near_draft.said = 2;
  SpecDec decoder{Reread{near_target}, ModelDrafter{Reread{near_draft}}};
  SpecDec plain{Reread{far_target}, ModelDrafter{Reread{far_draft}}};
  CHECK(written(decoder, {.max_new_tokens = 200, .gamma = 8}) ==
        written(plain, {.max_new_tokens = 200, .gamma = 3}));
  CHECK(near_target.fed == far_target.fed);
  CHECK(near_draft.fed == far_draft.fed);
}

TEST_CASE("A tree has no more tokens than the target can drop") {
  Ring model = ring(), far = whole(1, spare);
  const auto tree = Tree{TreeShape::of_widths({3, 2, 2}), WithoutReplacement{}};
  SpecDec decoder{Reread{model}, ModelDrafter{PathByPath{Reread{whole(2)}}, tree}, TraversalVerifier{}};
  SpecDec plain{Reread{far}, ModelDrafter{PathByPath{Reread{whole(2)}}, tree}, TraversalVerifier{}};
  CHECK(written(decoder, {.max_new_tokens = 100, .gamma = 12}) ==
        written(plain, {.max_new_tokens = 100, .gamma = spare}));
  CHECK(model.fed == far.fed);

  SpecDec outside{ExternalTarget{.vocabulary = vocab, .rollback = 3}, PromptLookupDrafter{}};
  std::mt19937_64 rng{1};
  auto sequence = outside.start(Tokens{1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}, {.gamma = 8});
  CHECK(sequence.propose(rng).rows == 4);
}

TEST_CASE("A text that is resumed from beyond the reach is read again, and once only") {
  Ring model = ring(), far = whole();
  SpecDec decoder{Reread{model}, ModelDrafter{Reread{whole(2)}}};
  SpecDec plain{Reread{far}, ModelDrafter{Reread{whole(2)}}};
  std::mt19937_64 rng{9};
  auto sequence = decoder.start(Tokens{1, 2, 3}, {.max_new_tokens = 60});
  sequence.generate(rng);
  const Tokens all(sequence.context().begin(), sequence.context().end());
  for (const std::size_t length : {std::size_t{30}, all.size() - 1}) {
    const Tokens back(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
    sequence.resume(back, {.max_new_tokens = 20});
    const Index before = model.fed;
    std::mt19937_64 own{3}, same{3};
    const Tokens text = sequence.generate(own).tokens;
    far.fed = 0;
    auto fresh = plain.start(back, {.max_new_tokens = 20});
    CHECK(text == fresh.generate(same).tokens);
    CHECK(model.fed - before == far.fed);
  }
}

TEST_CASE("Reread: after a call that fails the text goes on as if it had not") {
  for (const int calls : {0, 1, 5, 6, 7}) {
    Ring model = ring(), far = whole();
    SpecDec decoder{Reread{model}, NoDrafter{}}, plain{Reread{far}, NoDrafter{}};
    auto sequence = decoder.start(Tokens{1, 2, 3}, {.max_new_tokens = 20, .gamma = 0});
    model.fails = calls;
    std::mt19937_64 rng{5};
    CHECK_THROWS_AS(sequence.generate(rng), std::runtime_error);
    CHECK(sequence.tokens().size() == static_cast<std::size_t>(calls));
    std::mt19937_64 own{5};
    sequence.resume(Tokens{1, 2, 3}, {.max_new_tokens = 20, .gamma = 0});
    CHECK(sequence.generate(own).tokens == written(plain, {.max_new_tokens = 20, .gamma = 0}));
  }
  // A long prompt that fails is beyond the reach: what the model may hold of it is emptied.
  Ring model = ring();
  Reread reread{model};
  const Tokens text{1, 2, 3, 4, 0, 1, 2, 3, 4, 0};
  reread.forward(Tokens{1}, 1);
  model.fails = 0;
  CHECK_THROWS_AS(reread.forward(std::span(text).subspan(1), 1), std::runtime_error);
  const Eigen::MatrixXd row = reread.forward(std::span(text).subspan(1), 1);
  CHECK(row == ring().forward(text, 1));
}

TEST_CASE("Reread: the texts of a batch are those that each has alone") {
  Rings models(ring());
  Batch batch{Reread{models}, ModelDrafter{Reread{Rings(ring(2))}}, BlockVerifier{}};
  support::check_texts_alone(batch, [] {
    return SpecDec{Reread{whole(1, spare)}, ModelDrafter{Reread{whole(2, spare)}}};
  });
}

TEST_CASE("Reread: a tree may have many tokens, if few of them lie beside the way to any token") {
  Ring inside = ring();
  Reread model{inside};
  // A prompt of eight tokens, and after it a tree.
  const Tokens tokens{1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2};
  const std::vector<Index> parents{-1, 0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7};
  const Eigen::MatrixXd rows = model.forward(tokens, parents, 4);
  for (Index i = 0; i < 4; ++i) {
    Tokens text(tokens.begin(), tokens.begin() + 8);
    text.push_back(tokens[static_cast<std::size_t>(8 + i)]);
    CHECK(rows.row(i) == whole().forward(text, 1));
  }
  CHECK(message_of([&] {
          model.forward(Tokens{3, 3}, std::vector<Index>{11, 7}, 1);
        }) ==
        "specdec: before token 13 of the tree stand 5 tokens that are not on the way to it, more than the "
        "reach of 4");
  // The call that failed left the tree as it was.
  const Eigen::MatrixXd last = model.forward(Tokens{3}, std::vector<Index>{11}, 1);
  CHECK(last == whole().forward(Tokens{1, 2, 3, 4, 0, 1, 2, 3, 2, 3}, 1));
  model.keep(std::vector<Index>{0, 1, 2, 3, 4, 5, 6, 7, 11});
  const Index before = inside.fed;
  CHECK(model.forward(Tokens{4}, 1) == whole().forward(Tokens{1, 2, 3, 4, 0, 1, 2, 3, 2, 4}, 1));
  CHECK(inside.fed == before + 1);
  // Of a long tree a short path is kept: the model cannot go back so far.
  model.truncate(0);
  model.forward(tokens, parents, 1);
  model.keep(std::vector<Index>{0});
  CHECK(model.forward(Tokens{4}, 1) == whole().forward(Tokens{1, 4}, 1));
}

TEST_CASE("Reread: reports what the model reports of itself, and names bad calls") {
  Ring inside = ring();
  Reread model{inside};
  CHECK(model.vocab_size() == vocab);
  CHECK(reach(model) == spare);
  CHECK(reach(ProcessedModel{Reread{ring()}, Chain<>{}}) == spare);
  CHECK(reach(ModelPerSequence{Reread{ring()}}) == spare);
  CHECK(model.identities() == std::vector<const void*>{&inside});
  inside.said = -3;
  CHECK(reach(model) == 0);
  CHECK(message_of([&] { model.forward(Tokens{}, 0); }) ==
        "specdec: rows = 0 is outside 1..0, the number of tokens");
  model.forward(Tokens{1}, std::vector<Index>{-1}, 1);
  CHECK(message_of<InvalidCall>([&] { model.forward(Tokens{1}, 1); }) ==
        "specdec: feeds[0] has no parents while the tree of sequence 0 is open: keep() closes it");
}

}  // namespace test_more_models_reread
