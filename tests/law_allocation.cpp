// Nothing is allocated after warm-up: counted by this program's own operator new.
#include <cmath>
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/layouts.hpp"
#include "support/rules.hpp"

using namespace specdec;

TEMPLATE_TEST_CASE("a verify call allocates nothing once its draft length has been seen", "", TokenVerifier,
                   BlockVerifier, GreedyBlockVerifier, ArgmaxVerifier, SampleMatchVerifier, LenientVerifier) {
  std::mt19937_64 rng{1};
  const Index gamma = 6, size = 3000;
  support::RowMajor<float> target(gamma + 1, size), draft(gamma, size);
  for (float& p : target.reshaped()) p = static_cast<float>(uniform01(rng));
  for (float& p : draft.reshaped()) p = static_cast<float>(uniform01(rng));
  for (Index i = 0; i <= gamma; ++i) target.row(i) /= target.row(i).sum();
  for (Index i = 0; i < gamma; ++i) draft.row(i) /= draft.row(i).sum();
  std::vector<Token> tokens(static_cast<std::size_t>(gamma));
  RandomChance chance{rng};
  TestType verifier;
  std::size_t before = 0;
  for (int n = 0; n < 600; ++n) {
    if (n == 300) before = allocations;
    for (Index i = 0; i < gamma; ++i)
      tokens[static_cast<std::size_t>(i)] = chance.draw(distributions(draft).row(i));
    verifier(target, draft, tokens, rng);
  }
  CHECK(allocations == before);
}

TEMPLATE_TEST_CASE("a step allocates nothing but room for a longer text", "", BlockVerifier,
                   GreedyBlockVerifier) {
  std::mt19937_64 rng{2};
  std::vector<Token> text(5000);
  for (Token& x : text) x = static_cast<Token>(uniform01(rng) * uniform01(rng) * 20);
  const NgramModel target = NgramModel::train(text, {.order = 3, .vocab_size = 20});
  SpecDec decoder{NgramModel(target), ModelDrafter{target.with_order(2)}, TestType{}};
  auto sequence = decoder.start(std::vector<Token>{0}, {.max_new_tokens = 4000, .gamma = 5});
  std::size_t growth = 0, steps = 0;
  while (!sequence.done()) {
    const std::size_t before = allocations;
    sequence.step(rng);
    if (sequence.tokens().size() > 500) growth += allocations - before;
    ++steps;
  }
  CHECK(steps > 500);
  CHECK(growth < 20);  // the contexts double their room a few times
}

namespace {

using support::AnyVerifier;
using support::RowMajor;

RowMajor<double> random_rows(Index rows, Index size, std::mt19937_64& rng) {
  RowMajor<double> m(rows, size);
  for (double& p : m.reshaped()) p = uniform01(rng) < 0.5 ? 0.0 : uniform01(rng) * uniform01(rng);
  for (Index i = 0; i < rows; ++i) {
    m(i, i % size) += 1;
    m.row(i) /= m.row(i).sum();
  }
  return m;
}

// Verify calls on rows of two kinds, under all rules and draft lengths, with and without tokens handed in.
template <class TargetLayout, class DraftLayout>
void check_kinds() {
  std::mt19937_64 rng{3};
  RandomChance chance{rng};
  std::vector<AnyVerifier> rules(std::begin(support::sampling_rules), std::end(support::sampling_rules));
  rules.push_back({LenientVerifier{0.5}});
  rules.push_back({ArgmaxVerifier{}});
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
    for (const AnyVerifier& rule : rules) {
      AnyVerifier verifier = rule;
      // Greedy block verification has room for its modifications once they have been nested as deep.
      const int warm_up = std::holds_alternative<GreedyBlockVerifier>(rule.rule) ? 600 : 20;
      std::size_t before = 0;
      for (int n = 0; n < warm_up + 20; ++n) {
        if (n == warm_up) before = allocations;
        for (std::size_t i = 0; i < tokens.size(); ++i)
          wide[i] = tokens[i] = chance.draw(q_rows.row(static_cast<Index>(i)));
        for (std::size_t i = 0; i < drawn.size(); ++i)
          drawn[i] = chance.draw(p_rows.row(static_cast<Index>(i)));
        if (n % 2 == 0) verifier(p, q, tokens, rng);
        else verifier(SampledRows(p, drawn), q, wide, rng);
      }
      const std::size_t after = allocations;  // the next line allocates itself
      INFO("rule " << rule.rule.index() << ", gamma = " << gamma);
      CHECK(after == before);
    }
  }
}

}  // namespace

TEST_CASE("a verify call allocates nothing for rows of any kind") {
  using namespace support;
  check_kinds<AsPointers<float>, AsStridedPointers<double>>();
  check_kinds<AsNarrow<Eigen::half>, AsNarrow<Eigen::bfloat16>>();
  check_kinds<AsLogits<float>, AsLogits<float, 70>>();
  check_kinds<AsNormalisedLogits<float>, AsRowMajor<float>>();
  check_kinds<AsLogits<Eigen::half>, AsSparse<double>>();
  check_kinds<AsSparse<float, std::int64_t>, AsLogits<double>>();
  check_kinds<AsSparse<double>, AsSparse<float>>();
  check_kinds<AsColMajor<float>, AsSparse<double, std::int64_t>>();
}

namespace {

// Hands out its rows as logits, or as a list, in memory that it overwrites with every call.
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

template <class Layout>
void check_drafter() {
  std::mt19937_64 rng{4};
  ModelDrafter drafter{Overwriting<Layout>(random_rows(5, 3000, rng))};
  const std::vector<Token> context{1, 2};
  std::size_t before = 0;
  for (int n = 0; n < 40; ++n) {
    if (n == 20) before = allocations;
    drafter.truncate(1);
    const auto draft = drafter.draft(std::span<const Token>(context), 1 + 7 * (n % 3), rng);
    REQUIRE(distributions(draft.rows).rows() == 1 + 7 * (n % 3));
  }
  CHECK(allocations == before);
}

}  // namespace

TEST_CASE("a model drafter allocates nothing in steady state, whatever rows its model hands out") {
  using namespace support;
  check_drafter<AsRowMajor<double>>();
  check_drafter<AsNarrow<Eigen::bfloat16>>();
  check_drafter<AsLogits<float, 70>>();
  check_drafter<AsNormalisedLogits<Eigen::half>>();
}

TEST_CASE("a model drafter's copies of lists allocate nothing once they have been as long") {
  check_drafter<support::AsSparse<float, std::int64_t>>();
}
