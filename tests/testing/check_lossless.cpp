// The harness convicts wrong rules: each of these has been shipped by somebody.
#include <algorithm>
#include <optional>
#include <random>
#include <specdec/specdec.hpp>
#include <sstream>
#include <vector>

#include "support/catch.hpp"

using namespace specdec;
using namespace specdec::testing;

namespace {

// Block verification with its parts exchangeable, so that each wrong rule differs in one place.
struct Rule {
  static double weight(double w, double ratio) { return std::min(1.0, w * ratio); }
  static double ratio(double p, double q) { return p / q; }
  static double residual_weight(double w) { return w; }
  static Index bonus_row(Index gamma) { return gamma; }
};

template <class Parts>
struct RuleOf {
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens,
                     auto& source) const {
    auto&& chance = as_chance(source);
    const auto ps = distributions(target);
    const auto qs = distributions(draft);
    const Index gamma = static_cast<Index>(tokens.size());
    std::vector<double> w{1.0};
    for (Index i = 0; i < gamma; ++i) {
      const Token x = tokens[static_cast<std::size_t>(i)];
      w.push_back(Parts::weight(w.back(), Parts::ratio(ps.row(i).probability(x), qs.row(i).probability(x))));
    }
    if (const auto y = chance.race(w.back(), ps.row(Parts::bonus_row(gamma)))) return {gamma, *y};
    for (Index i = gamma - 1; i > 0; --i) {
      const double wi = w[static_cast<std::size_t>(i)];
      // A coin with the right probability, then a draw from a residual of the rule's own weight.
      const double mass = residual_mass(wi, ps.row(i), 1.0, qs.row(i), 0, ps.vocab_size());
      if (!(mass > 0) || !chance.coin(mass / (mass + std::max(0.0, 1 - wi)))) continue;
      const ResidualRow rest(Parts::residual_weight(wi), ps.row(i), 1.0, qs.row(i));
      return {i, rest.mass() > 0 ? chance.draw(rest) : chance.draw(ps.row(i))};
    }
    return {0, *chance.race(1.0, ps.row(0), qs.row(0))};
  }
};

struct Unclipped : Rule {
  static double weight(double w, double ratio) { return w * ratio; }
};
struct ForgetsWeight : Rule {
  static double residual_weight(double) { return 1; }
};
struct BonusFromRowBefore : Rule {
  static Index bonus_row(Index gamma) { return std::max<Index>(gamma - 1, 0); }
};
struct PaddedRatio : Rule {
  static double ratio(double p, double q) { return p / (q + 1e-5); }
};

// Block verification that scans upwards and stops at the first coin that fails.
struct StopsAtFirstFailure {
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens,
                     auto& source) const {
    auto&& chance = as_chance(source);
    const auto ps = distributions(target);
    const auto qs = distributions(draft);
    const Index gamma = static_cast<Index>(tokens.size());
    Verdict verdict{0, -1};
    double w = 1;
    for (Index i = 1; i <= gamma; ++i) {
      const Token x = tokens[static_cast<std::size_t>(i - 1)];
      w = std::min(1.0, w * ps.row(i - 1).probability(x) / qs.row(i - 1).probability(x));
      const auto y = i == gamma ? chance.race(w, ps.row(i)) : chance.race(w, ps.row(i), qs.row(i));
      if (!y) break;
      verdict = {i, *y};
    }
    if (verdict.token < 0) verdict = {0, *chance.race(1.0, ps.row(0), qs.row(0))};
    return verdict;
  }
};

// Compares w_i with a running product of uniforms. Not made of coins, so it is for sampling.
struct ProductOfUniforms {
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens, auto& rng) const {
    auto&& chance = as_chance(rng);
    const auto ps = distributions(target);
    const auto qs = distributions(draft);
    const Index gamma = static_cast<Index>(tokens.size());
    Index tau = 0;
    double w = 1, w_tau = 1, product = 1;
    for (Index i = 1; i <= gamma; ++i) {
      const Token x = tokens[static_cast<std::size_t>(i - 1)];
      w = std::min(1.0, w * ps.row(i - 1).probability(x) / qs.row(i - 1).probability(x));
      product *= chance.draw(distributions(grid).row(0)) / 1024.0;  // a uniform number, as chance can draw it
      if (product > w) continue;
      tau = i;
      w_tau = w;
    }
    if (tau == gamma) return {tau, chance.draw(ps.row(tau))};
    const ResidualRow rest(w_tau, ps.row(tau), 1.0, qs.row(tau));
    return {tau, rest.mass() > 0 ? chance.draw(rest) : chance.draw(ps.row(tau))};
  }
  inline static const Eigen::RowVectorXd grid = Eigen::RowVectorXd::Constant(1024, 1.0 / 1024);
};

// Accepts as token verification does, but accepts a token with q = 0 outright and corrects from the next row.
struct CorrectsFromNextRow {
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens,
                     auto& source) const {
    auto&& chance = as_chance(source);
    const auto ps = distributions(target);
    const auto qs = distributions(draft);
    const Index gamma = static_cast<Index>(tokens.size());
    for (Index i = 0; i < gamma; ++i) {
      const Token x = tokens[static_cast<std::size_t>(i)];
      if (chance.coin(ps.row(i).probability(x) / qs.row(i).probability(x))) continue;
      const Index next = std::min(i + 1, gamma - 1);
      const ResidualRow rest(1.0, ps.row(next), 1.0, qs.row(next));
      return {i, rest.mass() > 0 ? chance.draw(rest) : chance.draw(ps.row(i))};
    }
    return {gamma, chance.draw(ps.row(gamma))};
  }
};

// Greedy block verification with a fresh verifier for every step: the modifications never reach the next one.
struct Forgetful {
  Verdict operator()(const auto& target, const auto& draft, std::span<const Token> tokens,
                     auto& source) const {
    return GreedyBlockVerifier{}(target, draft, tokens, source);
  }
};

}  // namespace

TEST_CASE("the exchangeable rule is block verification while nothing is exchanged") {
  const auto report = check_lossless(RuleOf<Rule>{});
  INFO(report);
  CHECK(report);
  CHECK(report.counterexample.empty());
}

TEMPLATE_TEST_CASE("wrong rules are convicted exactly", "", RuleOf<Unclipped>, RuleOf<ForgetsWeight>,
                   RuleOf<BonusFromRowBefore>, RuleOf<PaddedRatio>, StopsAtFirstFailure,
                   CorrectsFromNextRow) {
  const LosslessReport report = check_lossless(TestType{});
  CHECK_FALSE(report);
  CHECK(report.worst_difference > 1e-9);
  CHECK(report.counterexample.find("under the target") != std::string::npos);
  std::ostringstream out;
  out << report;
  CHECK(out.str().starts_with("NOT lossless"));
}

TEST_CASE("the product of uniforms is convicted by sampling the joint law") {
  std::mt19937_64 rng{1};
  auto target = TableModel<>::random(3, 2, rng);
  SpecDec decoder{target, ModelDrafter{TableModel<>::random(3, 2, rng)}, ProductOfUniforms{}};
  const std::vector<Token> prompt{0};
  const Options options{.max_new_tokens = 4, .gamma = 3};
  const auto report = check_sampled([&] { return decoder.generate(prompt, options, rng).tokens; },
                                    target_law(target, prompt, options), 20000);
  INFO(report);
  CHECK_FALSE(report);
}

TEST_CASE("greedy block's step without its modifications is convicted") {
  CHECK_FALSE(check_lossless(Forgetful{}));
}

TEST_CASE("a lossy rule is convicted, and passes with l = 1") {
  CHECK_FALSE(check_lossless([] { return LenientVerifier{0.9}; }));
  CHECK(check_lossless([] { return LenientVerifier{1.0}; }));
}

TEST_CASE("argmax verification is lossless for greedy decoding only") {
  CHECK(check_lossless(ArgmaxVerifier{}, {.reference = Reference::greedy}));
  CHECK_FALSE(check_lossless(ArgmaxVerifier{}));
  CHECK_FALSE(check_lossless(TokenVerifier{}, {.reference = Reference::greedy}));
}

TEST_CASE("a report says what was checked") {
  const auto report = check_lossless(BlockVerifier{}, {.vocab_sizes = {2}, .gammas = {1, 2}, .models = 3});
  CHECK(report.models == 6);
  std::ostringstream out;
  out << report;
  CHECK(out.str().starts_with("lossless on 6 pairs of models, worst difference "));
}
