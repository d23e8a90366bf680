// The first law for every kind of row: however target and draft hold their distributions, the output has the
// law that the target's rows mean. Exact, by enumeration of the shipped templates.
#include <cstdint>
#include <iterator>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Half = Eigen::half;
using BFloat = Eigen::bfloat16;

// Arithmetic in double on numbers that are held exactly, or whose exponentials are taken in double.
constexpr double exact = 1e-12;
// Rows whose exponentials are summed in float: each probability is right to a few units of float's last place,
// 2^-24 = 6e-8, and an output is a product of five of them.
constexpr double in_float = 1e-6;

// Proposes the likeliest continuation of a table: a draft without probabilities.
class Guesser {
 public:
  explicit Guesser(TableModel<> table) : table_(std::move(table)) {}
  Draft<OneHotRows> draft(std::span<const Token> context, Index gamma, auto&) {
    tokens_.clear();
    std::vector<Token> all(context.begin(), context.end());
    for (Index i = 0; i < gamma; ++i) {
      tokens_.push_back(table_.distribution(all).argmax());
      all.push_back(tokens_.back());
    }
    return {tokens_, OneHotRows(tokens_)};
  }
  void truncate(Index) {}

 private:
  TableModel<> table_;
  std::vector<Token> tokens_;
};

struct AsOneHot {};

// A draft model that takes ids it does not know for token 0, as one of a smaller vocabulary has to somehow.
template <class Layout>
class Forgiving : public LayoutModel<Layout> {
 public:
  using LayoutModel<Layout>::LayoutModel;
  decltype(auto) forward(std::span<const Token> tokens, Index rows) {
    known_.assign(tokens.begin(), tokens.end());
    for (Token& x : known_) x = x < this->vocab_size() ? x : 0;
    return LayoutModel<Layout>::forward(known_, rows);
  }

 private:
  std::vector<Token> known_;
};

template <class Layout>
auto drafter(Index vocab_size, std::mt19937_64& rng) {
  if constexpr (std::is_same_v<Layout, AsOneHot>) return Guesser(coarse_model(vocab_size, 2, rng));
  else return ModelDrafter{Forgiving<Layout>(coarse_model<typename Layout::Scalar>(vocab_size, 2, rng))};
}

// The loop as it stands, caches and copies of rows included, under every rule.
// `more` tokens are known to the drafter than to the target.
template <class TargetLayout, class DraftLayout>
void check_mix(double tolerance, Index more = 0) {
  const std::vector<Token> prompt{1, 0};
  std::vector<AnyVerifier> rules(std::begin(sampling_rules), std::end(sampling_rules));
  rules.push_back({ArgmaxVerifier{}});
  for (const AnyVerifier& rule : rules) {
    std::mt19937_64 rng{61};
    double drafted = 0, accepted = 0, rejected = 0;
    for (int pair = 0; pair < (more == 0 ? 40 : 8); ++pair)
      for (const Index gamma : {1, 2, 3}) {
        const Index vocab_size = pair % 2 == 0 ? 2 : 3;
        LayoutModel<TargetLayout> target(coarse_model<typename TargetLayout::Scalar>(vocab_size, 2, rng));
        SpecDec decoder{target, drafter<DraftLayout>(vocab_size + more, rng), rule};
        const Options options{.max_new_tokens = more == 0 ? 5 : 4, .gamma = gamma};
        const Law expected = rule.greedy_decoding() ? greedy_law(target, prompt, options)
                                                    : target_law(target, prompt, options);
        const GenerationLaw got = vocab_size == 2 ? enumerate_generate(decoder, prompt, options)
                                                  : exact_generate(decoder, prompt, options);
        const Difference difference = largest_difference(got.law, expected);
        INFO("rule " << rule.rule.index() << ", V = " << vocab_size << ", gamma = " << gamma << ", output "
                     << to_string(difference.tokens));
        CHECK(difference.size < tolerance);
        drafted += got.drafted;
        accepted += got.accepted;
        rejected += got.drafted - got.accepted;
      }
    CHECK(drafted > 1);
    CHECK(accepted > 0.1);
    CHECK(rejected > 0.1);
  }
}

}  // namespace

TEST_CASE("lossless for dense probabilities, by pointer and in narrow scalars", "[law]") {
  check_mix<AsPointers<float>, AsPointers<double>>(exact);
  check_mix<AsStridedPointers<double>, AsStridedPointers<float>>(exact);
  check_mix<AsNarrow<Half>, AsNarrow<BFloat>>(exact);
  check_mix<AsNarrow<BFloat>, AsNarrow<Half>>(exact);
}

TEST_CASE("lossless for logits", "[law]") {
  check_mix<AsLogits<double>, AsLogits<double, 70>>(exact);
  check_mix<AsNormalisedLogits<double>, AsNormalisedLogits<double>>(exact);
  check_mix<AsLogits<double, 130>, AsRowMajor<double>>(exact);
  check_mix<AsColMajor<float>, AsLogits<double>>(exact);
  check_mix<AsLogits<float>, AsLogits<float, 70>>(in_float);
  check_mix<AsNormalisedLogits<float>, AsPointers<float>>(in_float);
  check_mix<AsLogits<Half, 70>, AsLogits<BFloat>>(in_float);
  check_mix<AsLogits<BFloat>, AsNormalisedLogits<Half>>(in_float);
}

TEST_CASE("lossless for sparse rows", "[law]") {
  check_mix<AsSparse<double>, AsSparse<float, std::int64_t>>(exact);
  check_mix<AsSparse<float, std::int64_t>, AsRowMajor<float>>(exact);
  check_mix<AsStridedMap<double>, AsSparse<double>>(exact);
  check_mix<AsSparse<Half>, AsLogits<double>>(exact);
  check_mix<AsLogits<double, 70>, AsSparse<BFloat>>(exact);
  check_mix<AsLogits<float>, AsSparse<double, std::int64_t>>(in_float);
}

TEST_CASE("lossless for drafts without probabilities", "[law]") {
  check_mix<AsRowMajor<double>, AsOneHot>(exact);
  check_mix<AsNarrow<BFloat>, AsOneHot>(exact);
  check_mix<AsSparse<double>, AsOneHot>(exact);
  check_mix<AsLogits<double>, AsOneHot>(exact);
  check_mix<AsLogits<float, 70>, AsOneHot>(in_float);
}

TEST_CASE("lossless in the loop where the drafter knows more tokens, or fewer", "[law]") {
  check_mix<AsRowMajor<double>, AsRowMajor<double>>(exact, 1);
  check_mix<AsSparse<double>, AsLogits<double>>(exact, 2);
  check_mix<AsLogits<double>, AsSparse<double>>(exact, 1);
  check_mix<AsRowMajor<double>, AsRowMajor<double>>(exact, -1);
  check_mix<AsLogits<double>, AsSparse<double>>(exact, -1);
}

namespace {

// Vocabularies of the two models that differ, the loop by hand.
template <class TargetLayout, class DraftLayout>
void check_vocabularies(double tolerance) {
  const std::vector<Token> prompt{0};
  std::vector<AnyVerifier> rules(std::begin(sampling_rules), std::end(sampling_rules));
  rules.push_back({ArgmaxVerifier{}});
  const std::pair<Index, Index> sizes[] = {{2, 3}, {2, 5}, {1, 2}, {3, 4}, {3, 2}, {4, 2}, {2, 1}};
  for (const auto& [target_size, draft_size] : sizes)
    for (const AnyVerifier& rule : rules) {
      std::mt19937_64 rng{67};
      double accepted = 0;
      for (int pair = 0; pair < 6; ++pair)
        for (const Index gamma : {1, 2, 3}) {
          const auto target = coarse_model<typename TargetLayout::Scalar>(target_size, 2, rng);
          const auto draft = coarse_model<typename DraftLayout::Scalar>(draft_size, 2, rng);
          const Options options{.max_new_tokens = gamma == 3 ? 5 : 4, .gamma = gamma};
          const GenerationLaw got =
              law_by_hand<TargetLayout, DraftLayout>(target, draft, rule, prompt, options, judge_plainly);
          const LayoutModel<TargetLayout> meant(target);
          const Law expected = rule.greedy_decoding() ? greedy_law(meant, prompt, options)
                                                      : target_law(meant, prompt, options);
          const Difference difference = largest_difference(got.law, expected);
          INFO("rule " << rule.rule.index() << ", V = " << target_size << " and " << draft_size
                       << ", gamma = " << gamma << ", output " << to_string(difference.tokens));
          CHECK(difference.size < tolerance);
          accepted += got.accepted;
        }
      CHECK(accepted > 1);
    }
}

}  // namespace

TEST_CASE("lossless where the models' vocabularies differ", "[law]") {
  check_vocabularies<AsRowMajor<double>, AsColMajor<double>>(exact);
  check_vocabularies<AsStridedPointers<double>, AsSparse<double>>(exact);
  check_vocabularies<AsSparse<double>, AsNarrow<BFloat>>(exact);
  check_vocabularies<AsSparse<double, std::int64_t>, AsSparse<double>>(exact);
  check_vocabularies<AsLogits<double>, AsLogits<double, 70>>(exact);
  check_vocabularies<AsSparse<double>, AsLogits<double>>(exact);
  check_vocabularies<AsLogits<float>, AsNormalisedLogits<float>>(in_float);
}
