// Shows a drafter of your own. It returns drafted tokens, and for each token the distribution that it was drawn from.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <iostream>
#include <random>
#include <span>
#include <specdec/more/models/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

// Counts which letter follows which in the text so far, and drafts letters by these frequencies.
class FrequencyDrafter {
 public:
  // Says that the rows change as the text grows, and that a row may end a draft early. GreedyBlockVerifier needs a steady
  // drafter, so it does not compile with this one.
  static constexpr bool steady = false;

  // Returns up to gamma drafted tokens, perhaps none. Row i is the distribution that token i was drawn from. All random
  // numbers come from `chance`.
  specdec::Draft<Eigen::Ref<const Eigen::MatrixXd>> draft(std::span<const Token> context, Index gamma,
                                                          auto& chance) {
    for (Index i = seen_; i + 1 < std::ssize(context); ++i) counts_(at(context, i), at(context, i + 1)) += 1;
    seen_ = std::ssize(context) - 1;
    tokens_.clear();
    rows_.resize(gamma, 128);
    for (Index i = 0; i < gamma; ++i) {
      const auto counted = counts_.row(i == 0 ? context.back() : tokens_.back());
      if (counted.sum() == 0) break;  // no letter followed this one so far: the draft ends
      rows_.row(i) = counted / counted.sum();
      tokens_.push_back(chance.draw(specdec::distributions(rows_).row(i)));
    }
    return {tokens_, rows_.topRows(std::ssize(tokens_))};
  }

  // The text was cut to its first `length` tokens.
  void truncate(Index length) { seen_ = std::clamp<Index>(length - 1, 0, seen_); }

 private:
  static Token at(std::span<const Token> context, Index i) { return context[static_cast<std::size_t>(i)]; }

  Eigen::MatrixXd counts_ = Eigen::MatrixXd::Zero(128, 128), rows_;
  std::vector<Token> tokens_;
  Index seen_ = 0;
};

int main() {
  constexpr std::string_view rhyme =
      "the rat ate the malt that lay in the house that Jack built. the cat killed the rat that ate the malt "
      "that "
      "lay in the house that Jack built. ";
  const std::vector<Token> text(rhyme.begin(), rhyme.end());
  specdec::SpecDec decoder{specdec::NgramModel::train(text, {.order = 6, .vocab_size = 128}),
                           FrequencyDrafter{}};
  std::mt19937_64 rng{3};
  const auto result = decoder.generate(text, {.max_new_tokens = 70, .gamma = 3}, rng);
  for (const Token x : result.tokens) std::cout << static_cast<char>(x);
  std::cout << "\n" << result.stats.block_efficiency() << " tokens per target call\n";
}
