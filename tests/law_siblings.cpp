// The exact laws of one drawn sibling beside chosen ones: how often such a group is accepted, why the drawn one comes first, and
// what goes wrong where a chosen one comes before the drawn one that it depends on.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <span>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"

namespace law_siblings {

using namespace specdec;
using namespace specdec::testing;

namespace {

using Row = Eigen::RowVectorXd;
using Model = TableModel<>;

const std::vector<Token> prompt{0};

// The expected number of accepted tokens of one step. The enumeration fails where a choice is none that a generator can make.
template <class Drafter, class Rule>
double accepted(const Row& p, const Drafter& drafter, const Rule& rule) {
  SpecDec decoder{Model::context_free(p), Drafter(drafter), rule};
  double accepted = 0, all = 0;
  enumerate([&](Enumerator& chance) {
    auto sequence = decoder.start(prompt, {.max_new_tokens = 2, .gamma = p.size()});
    sequence.step(chance);
    accepted += chance.probability() * static_cast<double>(sequence.stats().accepted);
    all += chance.probability();
  });
  CHECK(all == Approx(1).margin(1e-12));
  return accepted;
}

// The definition: the likeliest tokens of q, and the row without them.
struct Group {
  std::vector<Token> chosen;
  double p_chosen = 0, q_chosen = 0;

  Group(const Row& p, const Row& q, Index count) : chosen(static_cast<std::size_t>(q.size())) {
    std::iota(chosen.begin(), chosen.end(), 0);
    std::ranges::stable_sort(chosen, [&](Token a, Token b) { return q[a] > q[b]; });
    chosen.resize(static_cast<std::size_t>(count - 1));
    std::erase_if(chosen, [&](Token x) { return q[x] == 0; });
    for (const Token x : chosen) {
      p_chosen += p[x];
      q_chosen += q[x];
    }
  }
  // Σ min(p, share·t) over the tokens that are not chosen.
  double drawn(const Row& p, const Row& q, double share) const {
    double sum = 0;
    for (Token x = 0; x < q.size(); ++x)
      if (q[x] > 0 && std::ranges::find(chosen, x) == chosen.end())
        sum += std::min(p[x], share * q[x] / (1 - q_chosen));
    return sum;
  }
};

// A distribution of multiples of 1/32; some are 0.
Row coarse_row(Index size, std::mt19937_64& rng) {
  Row row = Row::Zero(size);
  for (int grain = 0; grain < 32; ++grain)
    row[static_cast<Index>(uniform01(rng) * uniform01(rng) * static_cast<double>(size))] += 1.0 / 32;
  return row;
}

auto drawn_first(const Row& q, Index count) {
  return ModelDrafter{Model::context_free(q), Tree{TreeShape::of_widths({count}), DrawnThenLikeliest{}}};
}
auto drawn_last(const Row& q, Index count) {
  std::vector<Sibling> kinds(static_cast<std::size_t>(count), Sibling::chosen);
  kinds.back() = Sibling::without_replacement;
  return FormDrafter(Model::context_free(q),
                     TreeForm(std::vector<Index>(static_cast<std::size_t>(count), -1), kinds));
}

}  // namespace

TEST_CASE("a drawn sibling before the likeliest ones is accepted as often as any lossless rule allows") {
  std::mt19937_64 rng{7};
  double gained = 0;
  for (int n = 0; n < support::bound(60, 600); ++n) {
    const Row p = coarse_row(5, rng), q = coarse_row(5, rng);
    const Index count = 1 + n % 4;
    const Group group(p, q, count);
    INFO("p = " << p << ", q = " << q << ", " << count << " siblings");
    // The sum of min(p(x), P(x is in the group)).
    const double most = group.p_chosen + (group.q_chosen < 1 ? group.drawn(p, q, 1) : 0);
    const double last = group.p_chosen + (group.q_chosen < 1 ? group.drawn(p, q, 1 - group.p_chosen) : 0);
    CHECK(accepted(p, drawn_first(q, count), TraversalVerifier{}) == Approx(most).margin(1e-12));
    CHECK(accepted(p, drawn_first(q, count), RecursiveRejectionVerifier{}) == Approx(most).margin(1e-12));
    CHECK(accepted(p, drawn_last(q, count), TraversalVerifier{}) == Approx(last).margin(1e-12));
    CHECK(accepted(p, drawn_last(q, count), RecursiveRejectionVerifier{}) == Approx(last).margin(1e-12));
    CHECK(last < most + 1e-12);
    gained += most - last;
  }
  CHECK(gained > 0.1);
}

TEST_CASE("a group over five tokens is always accepted if its drawn token comes first") {
  Row p(5), q(5);
  p << 0.5, 0.25, 0.125, 0.125, 0;
  q << 0.5, 0.125, 0.125, 0.125, 0.125;
  CHECK(accepted(p, drawn_first(q, 2), TraversalVerifier{}) == Approx(1).margin(1e-12));
  CHECK(accepted(p, drawn_first(q, 2), RecursiveRejectionVerifier{}) == Approx(1).margin(1e-12));
  CHECK(accepted(p, drawn_last(q, 2), TraversalVerifier{}) == Approx(0.875).margin(1e-12));
  CHECK(accepted(p, drawn_last(q, 2), RecursiveRejectionVerifier{}) == Approx(0.875).margin(1e-12));
}

namespace {

// Draws a token and, only if it is token 0, chooses token 1, too, and a token after it: the younger sibling, or the elder one.
class ChosenBecauseOfTheDrawn {
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

 public:
  ChosenBecauseOfTheDrawn(const Row& q, bool chosen_first) : q_(q), chosen_first_(chosen_first) {}

  Draft<Eigen::Ref<const RowMajor, 0, Eigen::OuterStride<>>> draft(std::span<const Token>,
                                                                   const DraftLimits& limits, auto& source) {
    auto&& chance = as_chance(source);
    tree_.clear();
    rows_.resize(3, q_.size());
    if (limits.nodes >= 3 && limits.depth >= 2) {
      const Token drawn = chance.draw(DenseRow<double>(q_.data(), q_.size()));
      const Row one = Row::Unit(q_.size(), 1);
      if (drawn == 0 && chosen_first_) add(1, -1, one);
      add(drawn, -1, q_);
      if (drawn == 0 && !chosen_first_) add(1, -1, one);
      if (drawn == 0) add(1, tree_.view().child(-1, 1), one);
    }
    return {tree_.tokens(), rows_.topRows(tree_.size()), tree_.parents()};
  }
  void truncate(Index) {}

 private:
  void add(Token token, Index parent, const Row& row) { rows_.row(tree_.append(token, parent)) = row; }

  Row q_;
  bool chosen_first_;
  TokenTree tree_;
  RowMajor rows_;
};

// Draws two siblings. The elder one has a child only if the younger one is token 0.
class ChildBecauseOfTheYounger {
 public:
  explicit ChildBecauseOfTheYounger(const Row& q) : q_(q) {}

  Draft<Eigen::MatrixXd> draft(std::span<const Token>, const DraftLimits& limits, auto& source) {
    auto&& chance = as_chance(source);
    tree_.clear();
    if (limits.nodes < 3 || limits.depth < 2)
      return {tree_.tokens(), Eigen::MatrixXd(0, q_.size()), tree_.parents()};
    const DenseRow<double> q(q_.data(), q_.size());
    Eigen::MatrixXd rows = q_.replicate(3, 1);
    tree_.append(chance.draw(q), -1);
    tree_.append(chance.draw(q), -1);
    if (tree_.token(1) == 0) rows.row(tree_.append(1, 0)) = Row::Unit(q_.size(), 1);
    return {tree_.tokens(), rows.topRows(tree_.size()), tree_.parents()};
  }
  void truncate(Index) {}

 private:
  Row q_;
  TokenTree tree_;
};

double total_variation(const Law& left, const Law& right) {
  double sum = 0;
  for (const auto& [tokens, p] : left)
    sum += std::max(0.0, p - (right.contains(tokens) ? right.at(tokens) : 0));
  return sum;
}

}  // namespace

TEST_CASE("a chosen sibling that depends on the drawn one comes after it, or the text is biased") {
  Row p(2), q(2);
  p << 0.6, 0.4;
  q << 0.5, 0.5;
  Model target = Model::context_free(p);
  const auto bias = [&](bool chosen_first, const auto& rule) {
    // The last token is written by a step without a draft.
    const Options options{.max_new_tokens = 3, .gamma = 3};
    SpecDec decoder{Model(target), ChosenBecauseOfTheDrawn(q, chosen_first), rule};
    const Law written = exact_generate(decoder, prompt, options).law;
    Law first, expected{{{0}, 0.6}, {{1}, 0.4}};
    for (const auto& [tokens, probability] : written) first[{tokens.front()}] += probability;
    if (!chosen_first) CHECK(largest_difference(written, target_law(target, prompt, options)).size < 1e-12);
    return total_variation(first, expected);
  };
  CHECK(bias(true, TraversalVerifier{}) == Approx(0.2).margin(1e-12));
  CHECK(bias(true, RecursiveRejectionVerifier{}) == Approx(0.2).margin(1e-12));
  CHECK(bias(false, TraversalVerifier{}) == Approx(0).margin(1e-12));
  CHECK(bias(false, RecursiveRejectionVerifier{}) == Approx(0).margin(1e-12));
}

TEST_CASE("what comes after a sibling may depend on what its younger sibling is") {
  std::mt19937_64 rng{3};
  for (int n = 0; n < 10; ++n) {
    const Index size = 2 + n % 2;
    const Model target = Model::random(size, 2, rng);
    const Row q = (coarse_row(size, rng).array() + 0.25).matrix() / (1 + 0.25 * static_cast<double>(size));
    const Options options{.max_new_tokens = 4, .gamma = 3};
    const auto difference = [&](const auto& rule) {
      SpecDec decoder{Model(target), ChildBecauseOfTheYounger(q), rule};
      return largest_difference(exact_generate(decoder, prompt, options).law,
                                target_law(target, prompt, options))
          .size;
    };
    CHECK(difference(TraversalVerifier{}) < 1e-12);
    CHECK(difference(RecursiveRejectionVerifier{}) < 1e-12);
  }
}

}  // namespace law_siblings
