// Holds verifiers of your own against the target's law: over all outcomes, exactly; and by sampling.
#include <algorithm>
#include <iostream>
#include <random>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

using specdec::Index, specdec::Token, specdec::Verdict;
using Tokens = std::span<const Token>;

// Token verification as you would write it: all that is random goes through `chance`, so that it can be
// proved.
struct Mine {
  Verdict operator()(const auto& target, const auto& draft, Tokens tokens, auto& source) const {
    auto&& chance = specdec::as_chance(source);  // from a random bit generator, or from a proof's enumerator
    const auto p = specdec::distributions(target);
    const auto q = specdec::distributions(draft);
    for (Index i = 0; i < std::ssize(tokens); ++i) {
      const Token x = tokens[static_cast<std::size_t>(i)];
      if (!chance.coin(p.row(i).probability(x) / q.row(i).probability(x)))
        return {i, *chance.race(1.0, p.row(i), q.row(i))};  // the correction, drawn from (p − q)+
    }
    return {std::ssize(tokens), chance.draw(p.row(std::ssize(tokens)))};
  }
};

// Block verification with a mistake that has been shipped: the paper flips an independent coin for every
// prefix; this compares w_i with the product of the first i uniform numbers.
struct ProductOfUniforms {
  Verdict operator()(const auto& target, const auto& draft, Tokens tokens, auto& source) const {
    auto&& chance = specdec::as_chance(source);
    const auto p = specdec::distributions(target);
    const auto q = specdec::distributions(draft);
    // To be enumerated, uniform numbers have to be few: 1/32, 3/32, ..., 31/32. What is wrong is far larger.
    const Eigen::RowVectorXd sixteen = Eigen::RowVectorXd::Constant(16, 1. / 16);
    Index tau = 0;
    double w = 1, w_tau = 1, product = 1;
    for (Index i = 0; i < std::ssize(tokens); ++i) {
      const Token x = tokens[static_cast<std::size_t>(i)];
      w = std::min(1.0, w * p.row(i).probability(x) / q.row(i).probability(x));
      product *= (chance.draw(specdec::distributions(sixteen).row(0)) + 0.5) / 16;
      if (product <= w) tau = i + 1, w_tau = w;
    }
    if (tau == std::ssize(tokens)) return {tau, chance.draw(p.row(tau))};
    const specdec::ResidualRow residual(w_tau, p.row(tau), 1.0, q.row(tau));
    return {tau, residual.mass() > 0 ? chance.draw(residual) : chance.draw(p.row(tau))};
  }
};

// How many of the two checks the verifier passes.
template <class Verifier>
int passes(const char* name, const Verifier& verifier, double tolerance) {
  const auto exact = specdec::testing::check_lossless(verifier, {.gammas = {2}, .tolerance = tolerance});
  std::cout << name << "\n  exact:   " << exact << "\n";

  // A verifier that cannot be enumerated is sampled instead: the joint law of four tokens, on one pair of
  // models.
  std::mt19937_64 rng{7};
  auto target = specdec::testing::TableModel<>::random(3, 2, rng);
  specdec::ModelDrafter drafter{specdec::testing::TableModel<>::random(3, 2, rng)};
  specdec::SpecDec decoder{target, drafter, verifier};
  const std::vector<Token> prompt{0};
  const specdec::Options options{.max_new_tokens = 4, .gamma = 3};
  const auto sampled =
      specdec::testing::check_sampled(  // a right verifier is rejected once in a million seeds
          [&] { return decoder.generate(prompt, options, rng).tokens; },
          specdec::testing::target_law(target, prompt, options), 100'000, 1e-6);
  std::cout << "  sampled: " << sampled << "\n";
  return exact.lossless + sampled.accepted;
}

int main() {
  const bool right = passes("Mine", Mine{}, 1e-12) == 2;
  const bool wrong =
      passes("ProductOfUniforms", ProductOfUniforms{}, 1. / 16) == 0;  // no fault of the sixteenths
  return right && wrong ? 0 : 1;
}
