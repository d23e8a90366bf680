// A drafter of your own: it guesses, and says of each guess what it was drawn from.
#include <algorithm>
#include <iostream>
#include <random>
#include <span>
#include <specdec/model/ngram.hpp>
#include <specdec/specdec.hpp>
#include <string_view>
#include <vector>

using specdec::Index, specdec::Token;

// Counts which letter followed which in the text so far, and draws its guesses from these frequencies.
class FrequencyDrafter {
 public:
  // What is counted changes the rows, and a row may end a draft: GreedyBlockVerifier, which cannot have that, does not
  // compile with this drafter.
  static constexpr bool steady = false;

  // Up to gamma tokens that may follow the context, and row for row what they were drawn from. All that is random comes
  // from `chance`. It may propose fewer, or none.
  specdec::Draft<Eigen::Ref<const Eigen::MatrixXd>> draft(std::span<const Token> context, Index gamma,
                                                          auto& chance) {
    for (Index i = seen_; i + 1 < std::ssize(context); ++i) counts_(at(context, i), at(context, i + 1)) += 1;
    seen_ = std::ssize(context) - 1;
    tokens_.clear();
    rows_.resize(gamma, 128);
    for (Index i = 0; i < gamma; ++i) {
      const auto counted = counts_.row(i == 0 ? context.back() : tokens_.back());
      if (counted.sum() == 0) break;  // never seen: no guess
      rows_.row(i) = counted / counted.sum();
      tokens_.push_back(chance.draw(specdec::distributions(rows_).row(i)));
    }
    return {tokens_, rows_.topRows(std::ssize(tokens_))};
  }

  // Only the first `length` tokens of the text are left.
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
