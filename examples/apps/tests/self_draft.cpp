// Drafting with the target's own sublayers. The oracles: the formulae without some sublayers, a plain transformer that no
// drafter uses, and the target's law.
// SPDX-License-Identifier: MIT
#include "transformer/self_draft.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <specdec/more/audits.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "small_transformer.hpp"
#include "support/catch.hpp"
#include "trained_pair.hpp"
#include "transformer/sublayers.hpp"
#include "transformer/transformer.hpp"

namespace test_examples_self_draft {

using namespace specdec;
using generate::sampled;
using support::RandomModel;
using support::TemporaryFile;
using transformer::EarlyExit, transformer::SelfDraft, transformer::Sublayers;
using transformer::Shape;
using transformer::Transformer;
using Tokens = std::vector<Token>;
using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

static_assert(Model<EarlyExit<float>> && Model<SelfDraft<float>>);
static_assert(Model<EarlyExit<Eigen::half>> && Model<SelfDraft<Eigen::half>>);
static_assert(has_steady_rows<EarlyExit<float>> && !has_steady_rows<SelfDraft<float>>);

namespace {

const Shape shape{40, 33, 4, 4, 2, 50, 64, false};

Transformer<float> transformer_of(const RandomModel& model) {
  const TemporaryFile file(model.versioned<float>());
  return Transformer<float>(file.path());
}

Tokens random_tokens(std::mt19937& rng, std::size_t size, Index vocab_size = shape.vocab_size) {
  Tokens tokens(size);
  for (Token& x : tokens) x = static_cast<Token>(rng() % static_cast<unsigned>(vocab_size));
  return tokens;
}

bool same_bits(const RowMajor& a, const RowMajor& b) { return (a.array() == b.array()).all(); }

}  // namespace

TEST_CASE("Sublayers: names, numbers and layers") {
  const Sublayers three = Sublayers::first(3);
  CHECK(three.size() == 6);
  CHECK(three.layers() == 3);
  CHECK(three.left_out().empty());
  CHECK(Sublayers::name(4) == "a3");
  CHECK(Sublayers::name(5) == "f3");
  const Sublayers some = three.without(std::vector<std::string>{"f3", "a2", "f3"});
  CHECK(some.left_out() == "a2,f3");
  CHECK(some == three.without(2).without(5));
  CHECK(some != three);
  for (const Index l : {0, 1, 2, 3, 40}) {
    CHECK(three.attention(l) == (l < 3));
    CHECK(three.feed_forward(l) == (l < 3));
    CHECK(some.attention(l) == (l == 0 || l == 2));
    CHECK(some.feed_forward(l) == (l < 2));
    CHECK_FALSE(Sublayers().attention(l));
  }
  CHECK(three.whole_layers() == 3);
  CHECK(some.whole_layers() == 0);
  CHECK(three.without(4).without(5).whole_layers() == 2);
  CHECK(three.without(5).whole_layers() == 0);
  CHECK(three.without(0).without(1).whole_layers() == 0);
  CHECK(three.without(2).without(3).whole_layers() == 0);
  CHECK(Sublayers().whole_layers() == 0);
  CHECK(Sublayers::first(0) == Sublayers());
  for (const char* const name : {"a4", "f0", "b1", "a", "", "a1 ", "A1"})
    CHECK(support::message_of<std::invalid_argument>([&] {
            three.without(std::vector<std::string>{name});
          }) == "sublayers: '" + std::string(name) + "' is none of a1, f1 to a3, f3");
}

TEST_CASE("peek: the logits of the formulae with fewer layers, and of the tokens ahead only") {
  const RandomModel random(shape, 1);
  Transformer<float> model = transformer_of(random);
  std::mt19937 rng{2};
  const Tokens tokens = random_tokens(rng, 12);
  for (const Index layers : {1, 2, 3, 4}) {
    RandomModel shallow = random;
    shallow.shape.n_layers = layers;
    const Eigen::MatrixXd expected = shallow.logits(tokens);
    const auto rows_of = [&](Index first, Index count) { return expected.middleRows(first, count).eval(); };
    INFO(layers << " layers");
    const Sublayers first = Sublayers::first(layers);
    model.truncate(0);
    model.forward(std::span(tokens).first(5), 1);
    const auto behind = std::span(tokens).subspan(5);
    CHECK(model.peek(behind.first(3), 2, first).cast<double>().isApprox(rows_of(6, 2), 1e-4));
    CHECK(model.peek(behind, 1, first).cast<double>().isApprox(rows_of(11, 1), 1e-4));
    CHECK(model.peek(behind, 7, first).cast<double>().isApprox(rows_of(5, 7), 1e-4));  // all known before
    CHECK(model.length() == 5);
  }
}

TEST_CASE("peek: the logits of the formulae without some sublayers, after a context with all of them") {
  const RandomModel random(shape, 21);
  Transformer<float> model = transformer_of(random);
  std::mt19937 rng{22};
  for (int round = 0; round < 40; ++round) {
    const Tokens tokens = random_tokens(rng, 12);
    const Index taken = static_cast<Index>(rng() % 8), layers = 1 + static_cast<Index>(rng() % 4);
    const Sublayers some = round == 0   ? Sublayers()
                           : round == 1 ? Sublayers::first(4)
                                        : support::random_sublayers(rng, layers);
    INFO(some.left_out() << " of " << some.layers() << " layers left out after " << taken << " tokens");
    const Eigen::MatrixXd expected = random.logits(tokens, taken, some);
    model.truncate(0);
    if (taken > 0) model.forward(std::span(tokens).first(static_cast<std::size_t>(taken)), 1);
    const auto behind = std::span(tokens).subspan(static_cast<std::size_t>(taken));
    const Index count = std::ssize(behind);
    CHECK(model.peek(behind.first(2), 2, some).cast<double>().isApprox(expected.middleRows(taken, 2), 1e-4));
    CHECK(model.peek(behind, 1, some).cast<double>().isApprox(expected.bottomRows(1), 1e-4));
    CHECK(model.peek(behind, count, some).cast<double>().isApprox(expected.bottomRows(count), 1e-4));
    CHECK(model.length() == taken);
  }
}

// In between, peek() gets other tokens, other sublayers, and more or fewer tokens than are then fed.
TEST_CASE("the rows of forward and of peek are those of a transformer of its own, to the bit") {
  const RandomModel random(shape, 3);
  Transformer<float> shared = transformer_of(random), plain = shared;
  std::mt19937 rng{4};
  Sublayers sublayers;
  Tokens context;
  const auto keep = [&](Index length) {
    context.resize(static_cast<std::size_t>(std::max<Index>(length, 0)));
    shared.truncate(length);
    plain.truncate(length);
    REQUIRE(shared.length() == std::ssize(context));
  };
  for (int round = 0; round < 800; ++round) {
    Tokens next = random_tokens(rng, 1 + rng() % 6, 3);
    for (unsigned look = rng() % 4; look > 0; --look) {
      if (rng() % 4 == 0) sublayers = Sublayers::first(1 + static_cast<Index>(rng() % 4));
      if (rng() % 5 == 0) sublayers = support::random_sublayers(rng, 4);
      if (rng() % 5 == 0) sublayers = sublayers.reading(support::random_sparse_cache(rng));
      Tokens ahead = next;
      ahead.resize(1 + rng() % 7);
      for (std::size_t i = 0; i < ahead.size(); ++i)
        if (i >= next.size() || rng() % 6 == 0) ahead[i] = random_tokens(rng, 1, 3)[0];
      const Index rows = 1 + static_cast<Index>(rng() % ahead.size());
      Transformer<float> fresh = plain;
      REQUIRE(same_bits(shared.peek(ahead, rows, sublayers), fresh.peek(ahead, rows, sublayers)));
    }
    if (rng() % 4 == 0) keep(std::ssize(context) - 1);  // then the peeks were one place too far
    const Index rows = 1 + static_cast<Index>(rng() % next.size());
    REQUIRE(same_bits(shared.forward(next, rows), plain.forward(next, rows)));
    context.insert(context.end(), next.begin(), next.end());
    const Index kept = std::ssize(context) - static_cast<Index>(rng() % 5);
    keep(kept > 40 ? 0 : kept);
  }
}

TEST_CASE("features: what the rows of the last call were made of") {
  const RandomModel random(shape, 5);
  Transformer<float> model = transformer_of(random);
  const auto logits_of = [&](const auto& features) {
    const Eigen::MatrixXd x = features.template cast<double>().transpose();
    Eigen::MatrixXd normed = x;
    for (Index i = 0; i < x.rows(); ++i)
      normed.row(i) = x.row(i).cwiseProduct(random.part(support::Part::final_norm)) /
                      std::sqrt(x.row(i).squaredNorm() / static_cast<double>(x.cols()) + 1e-5);
    return (normed * random.part(support::Part::classifier).transpose()).eval();
  };
  std::mt19937 rng{6};
  const Tokens tokens = random_tokens(rng, 9);
  const RowMajor first = model.forward(std::span(tokens).first(4), 3);
  CHECK(model.features().cols() == 3);
  CHECK(first.cast<double>().isApprox(logits_of(model.features()), 1e-4));
  const RowMajor early = model.peek(std::span(tokens).subspan(4), 2, Sublayers::first(3));
  CHECK(early.cast<double>().isApprox(logits_of(model.features()), 1e-4));
  const RowMajor rest = model.forward(std::span(tokens).subspan(4), 5);
  CHECK(rest.cast<double>().isApprox(logits_of(model.features()), 1e-4));
}

TEST_CASE("an exit after the last layer is the target: every drafted token is accepted") {
  Transformer<float> target = transformer_of(RandomModel(shape, 7));
  EarlyExit exit(target, 4);
  SelfDraft all(target, Sublayers::first(4));
  std::mt19937_64 rng{8};
  const auto check = [&](auto& drafting, double temperature) {
    SpecDec decoder{sampled(target, temperature), ModelDrafter{sampled(drafting, temperature)}};
    const Result r = decoder.generate(Tokens{1, 2, 3}, {.max_new_tokens = 50, .gamma = 4}, rng);
    CHECK(r.stats.accepted == r.stats.drafted);
    CHECK(r.stats.target_calls == 10);
  };
  for (const double temperature : {0.0, 0.7}) {
    check(exit, temperature);
    check(all, temperature);
  }
}

namespace {

// If `pauses`, this policy asks for no draft at every third step, and the target goes on alone.
struct Pausing {
  Index next(Index most) { return pauses && steps++ % 3 == 2 ? 0 : most; }
  void observe(const StepRecord&) {}
  bool pauses = false;
  int steps = 0;
};

// Block verification. If `fails`, it throws at every other step.
struct Failing {
  Verdict judge(const auto& drafted, auto& chance) const {
    if (fails && ++*calls % 2 == 1) throw std::runtime_error("verifier");
    return BlockVerifier{}.judge(drafted, chance);
  }
  bool fails = false;
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};

}  // namespace

TEST_CASE("greedy text with drafts of its own is the plain target's, token for token, errors or not") {
  const Transformer<float>& trained = support::trained_pair<float>().target;
  const Tokens prompt = support::trained_tokenizer().encode("The people of the United States");
  std::mt19937_64 rng{9};
  Transformer<float> plain = trained;
  const Options options{.max_new_tokens = 60, .gamma = 4};
  const Tokens alone = autoregressive(sampled(plain, 0), prompt, options, rng).tokens;
  const Sublayers four = Sublayers::first(4);
  for (const Sublayers& sublayers : {Sublayers::first(1), Sublayers::first(2), Sublayers::first(3),
                                     four.without(4), four.without(1).without(6), four.without(0),
                                     four.reading({1, 1}), four.without(4).reading({4, 20})}) {
    Transformer<float> target = trained;
    SelfDraft drafting(target, sublayers);
    ModelDrafter drafter{sampled(drafting, 0)};
    INFO(sublayers.layers() << " layers without " << sublayers.left_out());
    SpecDec decoder{sampled(target, 0), drafter, Failing{}, Pausing{}};
    const Result r = decoder.generate(prompt, options, rng);
    CHECK(r.tokens == alone);
    CHECK(r.stats.accepted > 0);
    CHECK(decoder.generate(prompt, options, rng).tokens == alone);  // the second text, on the same models

    SpecDec pausing{sampled(target, 0), drafter, Failing{}, Pausing{.pauses = true}};
    CHECK(pausing.generate(prompt, options, rng).tokens == alone);

    SpecDec failing{sampled(target, 0), drafter, Failing{.fails = true}, Pausing{}};
    auto sequence = failing.start(prompt, options);
    while (!sequence.done()) {
      CHECK_THROWS_AS(sequence.step(rng), std::runtime_error);
      sequence.step(rng);
    }
    CHECK(sequence.result().tokens == alone);
    CHECK(sequence.stats().accepted == r.stats.accepted);
  }
}

TEST_CASE("sequences on one target take turns, and each is the text of its prompt") {
  Transformer<float> target = support::trained_pair<float>().target, plain = target;
  std::mt19937_64 rng{10};
  const Options options{.max_new_tokens = 20, .gamma = 3};
  const auto encode = [](const char* text) { return support::trained_tokenizer().encode(text); };
  for (const Sublayers& sublayers : {Sublayers::first(2), Sublayers::first(4).without(4)}) {
    SelfDraft drafting(target, sublayers);
    SpecDec decoder{sampled(target, 0), ModelDrafter{sampled(drafting, 0)}};
    auto a = decoder.start(encode("Call me"), options), b = decoder.start(encode("The ship was"), options);
    while (!a.done() || !b.done()) {
      a.step(rng);
      b.step(rng);
    }
    CHECK(a.result().tokens == autoregressive(sampled(plain, 0), encode("Call me"), options, rng).tokens);
    CHECK(b.result().tokens ==
          autoregressive(sampled(plain, 0), encode("The ship was"), options, rng).tokens);
  }
}

// False-alarm rate 1e-6 each; the seed is fixed.
TEST_CASE(
    "texts with drafts of its own follow the target's law, and tokens are drawn from the rows that are "
    "reported",
    "[law][sampled]") {
  Transformer<float> target = support::trained_pair<float>().target;
  for (const Sublayers& sublayers : {Sublayers::first(2), Sublayers::first(4).without(2).without(5),
                                     Sublayers::first(4).reading({1, 2})}) {
    SelfDraft drafting(target, sublayers);
    testing::AuditedDrafter drafter{ModelDrafter{sampled(drafting, 1)}};
    SpecDec decoder{sampled(target, 1), drafter, BlockVerifier{}};
    const auto report = support::check_trained([&](const auto& prompt, const Options& options, auto& rng) {
      return decoder.generate(prompt, options, rng).tokens;
    });
    INFO(report);
    CHECK(report.accepted());
    CHECK(!drafter.report().convicted());
  }
}

namespace {

// A head on the target's features, like EAGLE's and Medusa's. It recomputes the target's last logits from the features and
// drafts their likeliest token: the least that such a head can do.
class Head {
 public:
  explicit Head(const Transformer<float>& target, const RandomModel& weights)
      : target_(&target), weights_(&weights) {}

  template <RandomSource Source>
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, Source&) {
    if (!said_.empty()) right_ += said_[0] == context.back();
    said_.clear();
    proposal_.assign(static_cast<std::size_t>(std::min<Index>(gamma, 1)), context.back());
    return {proposal_, OneHotRows(proposal_)};
  }
  void truncate(Index) {}

  void observe(const auto& judged) {
    const Eigen::VectorXd x = target_->features().col(judged.verdict.node).template cast<double>();
    const Eigen::VectorXd normed = x.cwiseProduct(weights_->part(support::Part::final_norm).transpose());
    Index best = 0;
    (weights_->part(support::Part::classifier) * normed).maxCoeff(&best);
    said_.assign(1, static_cast<Token>(best));
    ++calls_;
  }

  int right_ = 0, calls_ = 0;

 private:
  const Transformer<float>* target_;
  const RandomModel* weights_;
  Tokens said_, proposal_;
};

}  // namespace

TEST_CASE("a drafter can read the features of the target's last call when it observes it") {
  const RandomModel random(shape, 11);
  Transformer<float> target = transformer_of(random);
  Head head(target, random);
  std::mt19937_64 rng{12};
  SpecDec decoder{sampled(target, 0), head};
  decoder.generate(Tokens{1, 2, 3}, {.max_new_tokens = 30, .gamma = 1}, rng);
  CHECK(head.calls_ > 10);
  CHECK(head.right_ == head.calls_ - 1);  // all but the last, because no draft followed it
}

TEST_CASE("drafts of its own: what is refused, and that nothing has changed then") {
  Transformer<float> target = transformer_of(RandomModel(shape, 13));
  const auto says = [](auto&& call) { return support::message_of<std::invalid_argument>(call); };
  CHECK(says([&] { EarlyExit(target, 0); }) == "early exit: layers = 0 is outside 1..4");
  CHECK(says([&] { EarlyExit(target, 5); }) == "early exit: layers = 5 is outside 1..4");
  CHECK(says([&] { SelfDraft(target, Sublayers::first(5)); }) ==
        "self-draft: the sublayers are of 5 layers, the target has 4");
  CHECK(says([&] { target.peek(Tokens{1}, 1, Sublayers::first(5)); }) ==
        "transformer: the sublayers are of 5 layers, the model has 4");
  for (const Sublayers& sublayers : {Sublayers::first(2), Sublayers::first(4).without(3)}) {
    CHECK(says([&] { target.peek(Tokens{1}, 2, sublayers); }) ==
          "transformer: rows = 2 is outside 1..1, the number of tokens");
    SelfDraft drafting(target, sublayers);
    const Tokens tokens{1, 2, 3, 4};
    target.truncate(0);
    target.forward(tokens, 1);
    CHECK(says([&] { drafting.forward(tokens, 1); }) ==
          "self-draft: rows after the last 1 of 4 tokens are asked for, but the target has gone on to 4");
    CHECK(says([&] {
            drafting.forward(Tokens{1, 2, 3, 4, 99}, 1);
          }) == "transformer: tokens[0] = 99 is outside the vocabulary 0..49");
    CHECK(says([&] {
            drafting.forward(Tokens{1, 2, 3, 4, 5}, 2);
          }) ==
          "self-draft: rows after the last 2 of 5 tokens are asked for, but the target has gone on to 4");
    Transformer<float> plain = target;
    CHECK(same_bits(drafting.forward(Tokens{1, 2, 3, 4, 5}, 1), plain.peek(Tokens{5}, 1, sublayers)));
    drafting.truncate(-1);
    CHECK(same_bits(drafting.forward(Tokens{1, 2, 3, 4, 6}, 1), plain.peek(Tokens{6}, 1, sublayers)));
    CHECK(same_bits(target.forward(Tokens{6, 7}, 2), plain.forward(Tokens{6, 7}, 2)));
  }
}

}  // namespace test_examples_self_draft
