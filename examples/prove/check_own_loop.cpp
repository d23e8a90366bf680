// The exact law of a loop that is not the library's: right, and with a mistake.
// SPDX-License-Identifier: MIT
#include <iostream>
#include <map>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

namespace {

using specdec::Index, specdec::Token;
using Tokens = std::vector<Token>;
using Model = specdec::testing::TableModel<>;

constexpr std::size_t length = 4;  // of a text, after its first token

// The row after a context, and what your engine has in its place.
Eigen::RowVectorXd row(const Model& model, const Tokens& context) {
  Eigen::RowVectorXd numbers(model.vocab_size());
  for (Token x = 0; x < numbers.size(); ++x) numbers[x] = model.distribution(context).probability(x);
  return numbers;
}

// Writes a text. All random numbers come from `chance`: specdec::RandomChance in the engine, an enumerator in a proof.
// `late`: a mistake, the target's rows begin one token too late.
Tokens write(const Model& target, const Model& small, bool late, auto& chance) {
  specdec::BlockVerifier verifier;
  Tokens text{0};
  while (text.size() <= length) {
    Eigen::MatrixXd q(2, small.vocab_size()), p(3, target.vocab_size());
    Tokens draft, context = text;
    p.row(0) = row(target, context);
    for (Index i = 0; i < 2; ++i) {
      q.row(i) = row(small, context);
      draft.push_back(chance.draw(specdec::distributions(q).row(i)));
      context.push_back(draft.back());
      p.row(i + 1) = row(target, context);
    }
    if (late) p.row(0) = p.row(1);
    const specdec::Verdict verdict = verifier(p, q, draft, chance);
    text.insert(text.end(), draft.begin(), draft.begin() + verdict.accepted);
    text.push_back(verdict.token);
  }
  return {text.begin() + 1, text.begin() + 1 + length};  // a step may write more than is asked for
}

}  // namespace

int main() {
  specdec::SplitMix64 rng{3};
  const Model target = Model::random(3, 2, rng), small = Model::random(3, 1, rng);
  const specdec::testing::Law expected =
      specdec::testing::target_law(target, Tokens{0}, {.max_new_tokens = length});
  std::cout << expected.size() << " of 81 texts occur\n";
  for (const bool late : {false, true}) {
    specdec::testing::Law law;
    specdec::testing::enumerate([&](auto& chance) {
      const Tokens text = write(target, small, late, chance);
      law[text] += chance.probability();  // of all choices that were made for the text
    });
    const auto worst = specdec::testing::largest_difference(law, expected);
    std::cout << (late ? "late" : "right") << ": " << specdec::testing::to_string(worst.tokens)
              << " has probability " << worst.left << ", expected " << worst.right << "\n";
  }
}
