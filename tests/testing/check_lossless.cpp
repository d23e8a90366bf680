// The harness convicts wrong rules: somebody has shipped each of these mistakes.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/rules.hpp"

namespace test_testing_check_lossless {

using namespace specdec;
using namespace specdec::testing;
using support::AnyVerifier;
using support::RowMajor;

namespace {

// What a rule sees in the loop over table models.
struct Seen : support::Seen {
  using support::Seen::Seen;
  Index gamma() const { return std::ssize(tokens); }
  auto target(Index i) const { return distributions(p).row(i); }
  auto draft(Index i) const { return distributions(q).row(i); }
  double ratio(Index i, double pad = 0) const {
    const Token x = tokens[static_cast<std::size_t>(i)];
    return p(i, x) / (q(i, x) + pad);
  }
};

// Block verification that can go wrong in one place.
enum class Mistake {
  none,
  unclipped,
  forgets_weight,
  bonus_from_row_before,
  padded_ratio,
  barely_padded_ratio
};

template <Mistake mistake>
Verdict block(const Seen& seen, Enumerator& chance) {
  const Index gamma = seen.gamma();
  const double pad = mistake == Mistake::padded_ratio          ? 1e-5
                     : mistake == Mistake::barely_padded_ratio ? 1e-10
                                                               : 0;
  std::vector<double> w{1.0};
  for (Index i = 0; i < gamma; ++i) {
    const double weight = w.back() * seen.ratio(i, pad);
    w.push_back(mistake == Mistake::unclipped ? weight : std::min(1.0, weight));
  }
  const Index bonus = mistake == Mistake::bonus_from_row_before ? std::max<Index>(gamma - 1, 0) : gamma;
  if (const auto y = chance.race(w.back(), seen.target(bonus))) return {gamma, *y};
  for (Index i = gamma - 1; i > 0; --i) {
    const double wi = w[static_cast<std::size_t>(i)];
    // A coin with the right probability, then a draw from a residual with the rule's own weight.
    const double mass = residual_mass(wi, seen.target(i), 1.0, seen.draft(i), 0, seen.p.cols());
    if (!(mass > 0) || !chance.coin(mass / (mass + std::max(0.0, 1 - wi)))) continue;
    const ResidualRow rest(mistake == Mistake::forgets_weight ? 1 : wi, seen.target(i), 1.0, seen.draft(i));
    return {i, rest.mass() > 0 ? chance.draw(rest) : chance.draw(seen.target(i))};
  }
  return {0, *chance.race(1.0, seen.target(0), seen.draft(0))};
}

// Block verification that scans upwards and stops at the first coin that fails.
Verdict stops_at_first_failure(const Seen& seen, Enumerator& chance) {
  if (seen.gamma() == 0) return {0, chance.draw(seen.target(0))};
  Verdict verdict{0, -1};
  double w = 1;
  for (Index i = 1; i <= seen.gamma(); ++i) {
    w = std::min(1.0, w * seen.ratio(i - 1));
    const auto y =
        i == seen.gamma() ? chance.race(w, seen.target(i)) : chance.race(w, seen.target(i), seen.draft(i));
    if (!y) break;
    verdict = {i, *y};
  }
  if (verdict.token < 0) verdict = {0, *chance.race(1.0, seen.target(0), seen.draft(0))};
  return verdict;
}

// Accepts as token verification does, but corrects from the next row.
Verdict corrects_from_next_row(const Seen& seen, Enumerator& chance) {
  for (Index i = 0; i < seen.gamma(); ++i) {
    if (chance.coin(seen.ratio(i))) continue;
    const Index next = std::min(i + 1, seen.gamma() - 1);
    const ResidualRow rest(1.0, seen.target(next), 1.0, seen.draft(next));
    return {i, rest.mass() > 0 ? chance.draw(rest) : chance.draw(seen.target(i))};
  }
  return {seen.gamma(), chance.draw(seen.target(seen.gamma()))};
}

// Greedy block verification with a fresh verifier for every step, so modifications never reach the next step.
Verdict forgetful(const Seen& seen, Enumerator& chance) {
  AnyVerifier rule{GreedyBlockVerifier{}};
  return rule(seen.p, seen.q, seen.tokens, chance);
}

// Token verification that can go wrong where rows are wide, or probabilities small.
enum class Corner {
  none,
  top_40,             // the target is cut to its 40 likeliest tokens, and renormalised
  eight_ids,          // the residual has the first 8 ids only
  ids_of_six_bits,    // the residual has the first 64 ids only
  forty_of_draft,     // only the 40 likeliest tokens of the draft are subtracted
  least_q,            // q is at least 1e-4
  tiny_p,             // a p below 1e-6 counts as 0
  float_residual,     // differences in float
  little_mass,        // a residual with a mass below 1e-5 is replaced by p
  close_enough,       // a ratio above 1 - 1e-4 counts as 1
  late_eight_ids,     // after the first token, the residual has the first 8 ids only
  p_of_large_tables,  // from 17 tokens on, p is drawn from in place of the residual
};

// The likeliest 40 tokens of a row, as they are.
Eigen::RowVectorXd likeliest_40(Eigen::RowVectorXd row) {
  Eigen::RowVectorXd sorted = row;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const double least = sorted[std::min<Index>(40, row.size()) - 1];
  return (row.array() < least).select(0, row);
}

Token draw_from(const Eigen::RowVectorXd& weights, auto& chance) {
  const Eigen::RowVectorXd row = weights / weights.sum();
  return chance.draw(DenseRow<double>(row.data(), row.size()));
}

template <Corner corner>
Verdict token(const Seen& seen, Enumerator& chance) {
  const auto target = [&](Index i) -> Eigen::RowVectorXd {
    if (corner != Corner::top_40) return seen.p.row(i);
    const Eigen::RowVectorXd cut = likeliest_40(seen.p.row(i));
    return cut / cut.sum();
  };
  for (Index i = 0; i < seen.gamma(); ++i) {
    const Eigen::RowVectorXd p = target(i), q = seen.q.row(i);
    const Token x = seen.tokens[static_cast<std::size_t>(i)];
    double ratio = p[x] / (corner == Corner::least_q ? std::max(q[x], 1e-4) : q[x]);
    if (corner == Corner::tiny_p && p[x] < 1e-6) ratio = 0;
    if (corner == Corner::close_enough && ratio > 1 - 1e-4) ratio = 1;
    if (chance.coin(ratio)) continue;
    Eigen::RowVectorXd rest = (p - (corner == Corner::forty_of_draft ? likeliest_40(q) : q)).cwiseMax(0);
    if (corner == Corner::float_residual)
      rest = (p.cast<float>() - q.cast<float>()).cwiseMax(0).cast<double>();
    const bool eight = corner == Corner::eight_ids || (corner == Corner::late_eight_ids && i > 0);
    const Index ids = eight ? 8 : corner == Corner::ids_of_six_bits ? 64 : rest.size();
    if (ids < rest.size()) rest.tail(rest.size() - ids).setZero();
    const double least = corner == Corner::little_mass ? 1e-5 : 0;
    const bool from_p = corner == Corner::p_of_large_tables && p.size() > 16;
    return {i, draw_from(rest.sum() > least && !from_p ? rest : p, chance)};
  }
  return {seen.gamma(), draw_from(target(seen.gamma()), chance)};
}

// Two rules that never accept, draw from p in all, and make choices that no generator can make. Once a row sums to 2, and once
// to 2/3; or there is a token with a negative probability, which never comes out.
Verdict more_than_1(const Seen& seen, Enumerator& chance) {
  const Eigen::RowVectorXd weights = seen.p.row(0) * (chance.coin(0.25) ? 2 : 2. / 3);
  return {0, chance.draw(DenseRow<double>(weights.data(), weights.size()))};
}
Verdict less_than_0(const Seen& seen, Enumerator& chance) {
  Eigen::RowVectorXd weights(seen.p.cols() + 1);
  weights << seen.p.row(0), -0.5;
  return {0, chance.draw(DenseRow<double>(weights.data(), weights.size()))};
}

// A rule of this file or of the library, as one type, so that harness and loop are compiled once.
struct Rule {
  Verdict (*wrong)(const Seen&, Enumerator&) = nullptr;
  AnyVerifier right = {};

  Verdict judge(const auto& drafted, auto& chance) {
    return wrong != nullptr ? wrong(Seen(drafted), chance) : right.judge(drafted, chance);
  }
  Index min_draft_length() const { return right.min_draft_length(); }
  friend bool operator==(const Rule&, const Rule&) = default;
};

const LosslessCheck usual{.models = 10 / support::every(5), .wide_models = 8 / support::every(4)};

LosslessReport check(const Rule& rule, const LosslessCheck& options = usual) {
  return check_lossless(rule, options);
}
LosslessReport check(const AnyVerifier& rule, const LosslessCheck& options = usual) {
  return check_lossless(Rule{nullptr, rule}, options);
}

std::string print(const LosslessReport& report) {
  std::ostringstream out;
  out << report;
  return out.str();
}

}  // namespace

TEST_CASE("the rule with an exchangeable mistake is block verification if no mistake is chosen") {
  const auto report = check({block<Mistake::none>});
  INFO(report);
  CHECK(report);
  CHECK(report.counterexample.empty());
}

TEST_CASE("wrong rules are convicted by the exact law") {
  for (const Rule& rule : std::vector<Rule>{{block<Mistake::unclipped>},
                                            {block<Mistake::forgets_weight>},
                                            {block<Mistake::bonus_from_row_before>},
                                            {block<Mistake::padded_ratio>},
                                            {stops_at_first_failure},
                                            {corrects_from_next_row}}) {
    const LosslessReport report = check(rule);
    INFO(report);
    CHECK_FALSE(report);
    CHECK(report.worst_difference > 1e-9);
    CHECK(report.counterexample.find("under the target") != std::string::npos);
    CHECK(print(report).starts_with("NOT lossless"));
  }
}

TEST_CASE("rules that are wrong only where rows are wide, or probabilities small, are convicted") {
  // The small pairs of models do not tell such a rule from a right one. The wide pairs do.
  const auto convicted = [](const Rule& rule) {
    const LosslessReport report = check(rule, {.models = 2});
    return report.models > 24 && !report.lossless && report.worst_difference > 1e-11 &&
           report.counterexample.find("wide model pair") != std::string::npos;
  };
  CHECK(check({token<Corner::none>}, {.models = 1}));
  CHECK(convicted({token<Corner::top_40>}));
  CHECK(convicted({token<Corner::eight_ids>}));
  CHECK(convicted({token<Corner::ids_of_six_bits>}));
  CHECK(convicted({token<Corner::forty_of_draft>}));
  CHECK(convicted({token<Corner::least_q>}));
  CHECK(convicted({token<Corner::tiny_p>}));
  CHECK(convicted({token<Corner::float_residual>}));
  CHECK(convicted({token<Corner::little_mass>}));
  CHECK(convicted({token<Corner::close_enough>}));
  CHECK(convicted({token<Corner::late_eight_ids>}));
  CHECK(convicted({token<Corner::p_of_large_tables>}));
}

TEST_CASE("a rule whose choices no generator can make is convicted, even if its law is right") {
  CHECK(support::message_of<InvalidDistribution>([] {
          (void)check({more_than_1});
        }).starts_with("specdec: the outcomes of a choice have probabilities that sum to "));
  CHECK(support::message_of<InvalidDistribution>([] {
          (void)check({less_than_0});
        }).find(" of a choice has the probability -0.5") != std::string::npos);
}

TEST_CASE("a check uses the options that it is given", "[long]") {
  // A rule that is wrong by about 1e-10 passes if that much is tolerated, and only then.
  CHECK_FALSE(check({block<Mistake::barely_padded_ratio>}));
  CHECK(check({block<Mistake::barely_padded_ratio>}, {.tolerance = 1e-7}));
  // If nothing depends on the context, the next row is as good as the right one.
  CHECK(check({corrects_from_next_row}, {.order = 0}));
  CHECK_FALSE(check({corrects_from_next_row}, {.order = 1}));
  // The first step of greedy block verification does not show its modifications. The next step needs them.
  CHECK(check({forgetful}, {.max_new_tokens = 1}));
  // Another seed gives other models.
  const auto counterexample = [](std::uint64_t seed) {
    return check({block<Mistake::unclipped>}, {.seed = seed});
  };
  CHECK(counterexample(1).counterexample == counterexample(1).counterexample);
  CHECK(counterexample(1).counterexample != counterexample(2).counterexample);
}

// Compares w_i with a running product of uniforms. It is not made of coins, so it must be sampled.
TEST_CASE("sampling the joint law convicts the rule that uses a product of uniforms") {
  std::mt19937_64 rng{1};
  RandomChance chance{rng};
  const auto target = TableModel<>::random(3, 2, rng), small = TableModel<>::random(3, 2, rng);
  const std::vector<Token> prompt{0};
  const Options options{.max_new_tokens = 4, .gamma = 3};
  const auto step = [&](std::vector<Token>& text) {
    std::vector<Token> drafted = text;  // the text with the draft after it
    // The text includes the prompt's token.
    const Index gamma = std::min(options.gamma, 4 - std::ssize(text));
    for (Index i = 0; i < gamma; ++i) drafted.push_back(chance.draw(small.distribution(drafted)));
    const auto context = [&](Index i) {
      return std::span(drafted).first(text.size() + static_cast<std::size_t>(i));
    };
    Index tau = 0;
    double w = 1, w_tau = 1, product = 1;
    for (Index i = 1; i <= gamma; ++i) {
      const Token x = context(i).back();
      w = std::min(1.0, w * target.distribution(context(i - 1)).probability(x) /
                            small.distribution(context(i - 1)).probability(x));
      product *= uniform01(rng);
      if (product > w) continue;
      tau = i;
      w_tau = w;
    }
    const auto p = target.distribution(context(tau));
    Token y = -1;
    if (tau < gamma) {
      const ResidualRow rest(w_tau, p, 1.0, small.distribution(context(tau)));
      if (rest.mass() > 0) y = chance.draw(rest);
    }
    text.assign(context(tau).begin(), context(tau).end());
    text.push_back(y < 0 ? chance.draw(p) : y);
  };
  const auto sample = [&] {
    std::vector<Token> text = prompt;
    while (text.size() < 5) step(text);
    return std::vector<Token>(text.begin() + 1, text.end());
  };
  const auto report = check_sampled(sample, target_law(target, prompt, options), 20000);
  INFO(report);
  CHECK_FALSE(report);
}

TEST_CASE("greedy block verification without its modifications is convicted") {
  CHECK_FALSE(check({forgetful}));
}

namespace {

// Takes the second token of a draft of three for the random number of the first token's coin: where its probabilities lie in
// [0, 1), one after the other. Given any first token this is a uniform number, as long as all drafts have three tokens. But if
// drafts end at a stop token, a draft of three has no stop token in the second place, and the number is no longer uniform.
struct LooksAhead {
  Verdict judge(const auto& drafted, auto& chance) const {
    if (drafted.gamma() == 0) return {0, drafted.draw(chance, 0)};
    double accepting = drafted.ratio(0);
    if (drafted.gamma() == 3) {
      const Token x = drafted.token(1);
      for (Token other = 0; other < x; ++other) accepting -= drafted.draft(1).probability(other);
      accepting /= drafted.q(1);
    }
    if (chance.coin(std::clamp(accepting, 0.0, 1.0))) return {1, drafted.draw(chance, 1)};
    return {0, *drafted.race(chance, 1.0, 0)};
  }
};

}  // namespace

TEST_CASE("a rule that looks at how far the draft goes on is convicted by drafts that end at a stop token") {
  LosslessCheck three = usual;
  three.gammas = {3};
  const LosslessReport report = check_lossless(LooksAhead{}, three);
  CHECK_FALSE(report);
  CHECK(report.worst_difference > 1e-3);
  CHECK(report.counterexample.find("with a stop token") != std::string::npos);
  three.stop_tokens = false;
  CHECK(check_lossless(LooksAhead{}, three));
}

TEST_CASE("a lossy rule is convicted, and with l = 1 it passes") {
  CHECK_FALSE(check_lossless([] { return Rule{nullptr, {LenientVerifier{0.9}}}; }, usual));
  CHECK(check(AnyVerifier{LenientVerifier{1.0}}));
}

TEST_CASE("argmax verification is lossless for greedy decoding only") {
  CHECK(check(AnyVerifier{ArgmaxVerifier{}}, {.reference = Reference::greedy}));
  CHECK_FALSE(check(AnyVerifier{ArgmaxVerifier{}}));
  CHECK_FALSE(check(AnyVerifier{TokenVerifier{}}, {.reference = Reference::greedy}));
}

namespace {

// Recursive rejection that forgets that p changes after a rejected sibling.
struct ForgetsRejections {
  NodeVerdict judge(const auto& drafted, auto& chance) const {
    Index node = 0;
    for (Index k = drafted.first_child(0); k >= 0;) {
      const bool accepted = chance.coin(drafted.ratio(k));
      if (accepted) node = k + 1;
      k = accepted ? drafted.first_child(node) : drafted.next_sibling(k);
    }
    return {node, drafted.draw(chance, node)};
  }
};

// Recursive rejection whose target loses all ids from `ids` on when the second of two siblings is rejected.
struct LosesIds {
  Index ids;

  NodeVerdict judge(const auto& drafted, auto& chance) const {
    Index node = 0, rejected = 0;
    Eigen::RowVectorXd t = row(drafted.target(0));
    for (Index k = drafted.first_child(0); k >= 0;) {
      if (chance.coin(t[drafted.token(k)] / drafted.q(k))) {
        node = k + 1;
        t = row(drafted.target(node));
        rejected = 0;
        k = drafted.first_child(node);
        continue;
      }
      Eigen::RowVectorXd rest = (t - row(drafted.draft(k))).cwiseMax(0);
      if (++rejected > 1 && ids < rest.size()) rest.tail(rest.size() - ids).setZero();
      if (rest.sum() > 0) t = rest / rest.sum();
      k = drafted.next_sibling(k);
    }
    return {node, draw_from(t, chance)};
  }

  static Eigen::RowVectorXd row(const auto& of) {
    Eigen::RowVectorXd out(of.vocab_size());
    for (Token x = 0; x < out.size(); ++x) out[x] = of.probability(x);
    return out;
  }
};

}  // namespace

TEST_CASE("rules for trees are checked on trees") {
  SplitMix64 generator(1);
  const std::vector<Sibling> kinds{Sibling::chosen};
  const TreeForm form = TreeForm::random(12, kinds, generator);
  Index forks = 0;
  for (Index k = 0; k < form.size(); ++k) forks += form.parents[static_cast<std::size_t>(k)] != k - 1 ? 1 : 0;
  CHECK(forks > 2);
  const LosslessCheck small{.vocab_sizes = {2, 3}, .gammas = {2, 4}, .models = 5, .max_new_tokens = 4};
  const LosslessReport report = check_lossless(TraversalVerifier{}, small);
  CHECK(report);
  CHECK(report.models == 20 + small.wide_models);
  CHECK(check_lossless(TrunkAndSpares<BlockVerifier>{}, small));
  const LosslessReport convicted = check_lossless(ForgetsRejections{}, small);
  CHECK_FALSE(convicted);
  CHECK(convicted.worst_difference > 0.01);
  const LosslessCheck few{.vocab_sizes = {2}, .gammas = {2}, .models = 1};
  CHECK(check_lossless(LosesIds{100}, few));
  const LosslessReport wide = check_lossless(LosesIds{16}, few);
  CHECK_FALSE(wide);
  CHECK(wide.counterexample.find("wide model pair") != std::string::npos);
  LosslessCheck nothing = small;
  nothing.siblings.clear();
  CHECK(support::message_of([&] { (void)check_lossless(TraversalVerifier{}, nothing); }) ==
        "specdec: siblings is empty: no tree could be checked");
  LosslessCheck one_row = small;
  one_row.siblings = {Sibling::independent};
  CHECK(check_lossless(KSeqVerifier{}, one_row));
}

TEST_CASE("a report says what was checked") {
  const auto report = check(AnyVerifier{BlockVerifier{}},
                            {.vocab_sizes = {2}, .gammas = {1, 2}, .models = 3, .wide_models = 2});
  CHECK(report.models == 8);
  CHECK(print(report).starts_with("lossless on 8 pairs of models, worst difference "));
}

TEST_CASE("a check of nothing does not pass") {
  const auto complaint = [](const LosslessCheck& of) {
    return support::message_of([&] { (void)check(AnyVerifier{BlockVerifier{}}, of); });
  };
  CHECK(complaint({.vocab_sizes = {}}) == "specdec: vocab_sizes is empty: nothing would be checked");
  CHECK(complaint({.gammas = {}}) == "specdec: gammas is empty: nothing would be checked");
  CHECK(complaint({.models = 0}) == "specdec: models = 0: nothing would be checked");
  CHECK(complaint({.wide_models = -1}) == "specdec: wide_models = -1 is negative");
  CHECK(complaint({.max_new_tokens = 0}) == "specdec: max_new_tokens = 0: nothing would be checked");
  CHECK(complaint({.max_new_tokens = unlimited}) ==
        "specdec: max_new_tokens = 9223372036854775807 is more than 4096, the longest output that is "
        "enumerated");
  CHECK(complaint({.order = -1}) == "specdec: order = -1 is negative");
  CHECK(complaint({.tolerance = 1}) == "specdec: tolerance = 1 is outside [0, 1)");
  CHECK(complaint({.tolerance = std::numeric_limits<double>::quiet_NaN()}) ==
        "specdec: tolerance = nan is outside [0, 1)");
}

}  // namespace test_testing_check_lossless
