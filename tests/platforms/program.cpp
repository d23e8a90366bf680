// Prints verdicts and texts, which are the same on every platform: all rules, ids and parents of every integer type, batches,
// the loop over drafters that learn, processors, beams. `run` compares what it prints with what 64 bits print.
// SPDX-License-Identifier: MIT
#include <array>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <random>
#include <span>
#include <specdec/model/ngram.hpp>
#include <specdec/search/beam_search.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using specdec::Index, specdec::Token;
using Logits = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr Index gamma = 4;
const specdec::Chain chain{specdec::Temperature{0.8}, specdec::TopK{3000}, specdec::TopP{0.9}};

template <class Id>
std::vector<Id> as(const std::vector<Token>& ids) {
  return {ids.begin(), ids.end()};
}

void print(const specdec::Verdict& verdict) { std::cout << ' ' << verdict.accepted << '/' << verdict.token; }
void print(const specdec::TreeVerdict& verdict) {
  for (const Index k : verdict.path) std::cout << ' ' << k;
  std::cout << '/' << verdict.token;
}
void print(std::string_view name, const std::vector<Token>& text) {
  std::cout << name << ": ";
  for (const Token x : text) std::cout << static_cast<char>(x);
  std::cout << '\n';
}

// A draft of more tokens than a stretch of a row has, and numbers that are reproducible without <random>'s distributions.
struct Drafted {
  Logits target, draft;
  std::vector<Token> tokens, parents{-1, 0, 1, 2};

  explicit Drafted(std::uint64_t seed) : target(gamma + 1, 5000), draft(gamma, 5000) {
    std::mt19937_64 rng{seed};
    for (float& l : target.reshaped()) l = static_cast<float>(6 * specdec::uniform01(rng));
    for (float& l : draft.reshaped()) l = static_cast<float>(4 * specdec::uniform01(rng));
    draft += 0.6f * target.topRows(gamma);
    for (Index i = 0; i < gamma; ++i)
      tokens.push_back(specdec::RandomChance{rng}.draw(specdec::ProcessedRows(draft, chain).row(i)));
  }

  // The verdicts do not depend on the type of the ids.
  template <class Id>
  void judge() const {
    const specdec::ProcessedRows p(target, chain), q(draft, chain);
    const std::vector<Id> ids = as<Id>(tokens), parent_ids = as<Id>(parents);
    const auto line = [&](auto verifier) {
      std::mt19937_64 rng{1};
      print(verifier(p, q, ids, rng));
    };
    const auto tree = [&](auto verifier) {
      std::mt19937_64 rng{1};
      print(verifier(p, q, ids, parent_ids, rng));
    };
    line(specdec::BlockVerifier{});
    line(specdec::TokenVerifier{});
    line(specdec::GreedyBlockVerifier{});
    line(specdec::SampleMatchVerifier{});
    line(specdec::ArgmaxVerifier{});
    line(specdec::LenientVerifier{0.5});
    tree(specdec::TraversalVerifier{});
    tree(specdec::RecursiveRejectionVerifier{});
    tree(specdec::KSeqVerifier{});
    tree(specdec::TrunkAndSpares<specdec::BlockVerifier>{});
    specdec::Keyed source(1);
    print(specdec::KeyedVerifier{}(p, q, ids, source));
    std::cout << '\n';
  }

  // Two drafts of two tokens each, and what they emit, as an engine's ids.
  template <class Id>
  void judge_together() const {
    std::vector<std::mt19937_64> rngs{std::mt19937_64{1}, std::mt19937_64{2}};
    const std::array<Index, 3> offsets{0, 2, 3};
    std::array<specdec::BatchVerdict, 2> verdicts;
    const std::vector<Id> ids = as<Id>(tokens);
    specdec::verify_batch(specdec::BlockVerifier{}, specdec::ProcessedRows(target, chain),
                          specdec::ProcessedRows(draft.topRows(3), chain), std::span(ids).first(3), offsets,
                          rngs, verdicts);
    std::vector<Id> emitted(6);
    std::array<std::int32_t, 2> accepted;
    specdec::write_emitted(std::span(ids).first(3), specdec::PackedDrafts{offsets}, 3, verdicts, emitted,
                           accepted);
    for (const Id x : emitted) std::cout << ' ' << x;
    // The same tokens as trees: the first two follow the context.
    std::array<specdec::BatchTreeVerdict, 2> trees;
    const std::vector<Id> parent_ids = as<Id>({-1, -1, -1});
    specdec::verify_batch(specdec::TraversalVerifier{}, specdec::ProcessedRows(target, chain),
                          specdec::ProcessedRows(draft.topRows(3), chain), std::span(ids).first(3),
                          parent_ids, offsets, rngs, trees);
    for (const specdec::BatchTreeVerdict& each : trees) print(each.verdict);
    std::cout << '\n';
  }
};

constexpr std::string_view rhyme =
    "This is the house that Jack built. This is the malt that lay in the house that Jack built. "
    "This is the rat that ate the malt that lay in the house that Jack built. ";

void write_texts() {
  const std::vector<Token> letters(rhyme.begin(), rhyme.end());
  const auto model = specdec::NgramModel::train(letters, {.order = 6, .vocab_size = 128});
  const auto write = [&](std::string_view name, auto drafter, auto verifier, auto source) {
    specdec::SpecDec decoder{specdec::PathByPath{specdec::NgramModel(model)}, std::move(drafter),
                             std::move(verifier)};
    print(name, decoder.generate(letters, {.max_new_tokens = 60, .gamma = 5}, source).tokens);
  };
  auto small = model.with_order(3);
  write("n-gram", specdec::ModelDrafter{specdec::NgramModel(small)}, specdec::BlockVerifier{},
        std::mt19937_64{1});
  write("keyed", specdec::ModelDrafter{specdec::NgramModel(small)}, specdec::KeyedVerifier{},
        specdec::Keyed(1));
  write("prompt lookup", specdec::PromptLookupDrafter{}, specdec::TokenVerifier{}, std::mt19937_64{2});
  write("suffixes", specdec::SuffixDrafter{}, specdec::BlockVerifier{}, std::mt19937_64{3});
  write("tree",
        specdec::ModelDrafter{
            specdec::PathByPath{specdec::NgramModel(small)},
            specdec::Tree{specdec::TreeShape{-1, -1, 0, 1, 2}, specdec::WithoutReplacement{}}},
        specdec::TraversalVerifier{}, std::mt19937_64{4});

  specdec::ModelPerSequence large{model}, drafting{specdec::NgramModel(small)};
  specdec::Batch batch{large, specdec::ModelDrafter{drafting}};
  for (const std::uint64_t seed : {5, 6})
    batch.add(letters, {.max_new_tokens = 40, .gamma = 3, .stop_tokens = {'.'}}, std::mt19937_64{seed});
  while (!batch.empty())
    for (const auto& finished : batch.step()) print("batch", finished.result.tokens);

  specdec::PathByPath beams{specdec::NgramModel(model)};
  specdec::BeamSearch search{beams};
  for (const auto& beam : search.generate(letters, {.max_new_tokens = 12, .width = 3}).beams)
    print("beam", beam.tokens);
}

// Logits that depend on the last token, and a chain of processors.
struct Cyclic {
  Logits logits = Logits::Zero(8, 128);
  Index vocab_size() const { return 128; }
  auto forward(std::span<const Token> tokens, Index rows) {
    for (Index i = 0; i < rows; ++i) {
      const Token last = tokens[tokens.size() - static_cast<std::size_t>(rows - i)];
      for (Token x = 'a'; x <= 'z'; ++x) logits(i, x) = static_cast<float>(10 - (x - last + 26) % 26);
    }
    return logits.topRows(rows);
  }
  void truncate(Index) {}
};

void write_processed() {
  specdec::Processors processors{specdec::MinLength{30, {'z'}}, specdec::RepetitionPenalty{1.1},
                                 specdec::NoRepeatNgrams{3}};
  specdec::SpecDec decoder{
      specdec::ProcessedModel{Cyclic(), specdec::TopP{0.9}, processors},
      specdec::ModelDrafter{specdec::ProcessedModel{Cyclic(), specdec::TopP{0.9}, processors}}};
  std::mt19937_64 rng{7};
  const auto result = decoder.generate(std::vector<Token>{'a'},
                                       {.max_new_tokens = 60, .gamma = 4, .stop_tokens = {'z'}}, rng);
  print("processed", result.tokens);
}

}  // namespace

int main() {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const Drafted drafted(seed);
    drafted.judge<Token>();
    drafted.judge<long>();
    drafted.judge<long long>();
    drafted.judge<Index>();
    drafted.judge<std::int64_t>();
    drafted.judge_together<Token>();
    drafted.judge_together<Index>();
    drafted.judge_together<std::int64_t>();
  }
  write_texts();
  write_processed();
  std::cout << (specdec::testing::check_lossless(specdec::BlockVerifier{}, {.gammas = {2}}).lossless
                    ? "lossless\n"
                    : "lossy\n");
}
