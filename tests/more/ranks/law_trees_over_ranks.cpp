// Trees with target rows spread over ranks: on every rank, each rule for trees has its law on whole rows. It needs two
// exchanges and the sums of what it passes over.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <random>
#include <specdec/more/ranks.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <variant>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/shards.hpp"
#include "support/thread_ranks.hpp"

namespace test_more_ranks_law_trees_over_ranks {

using namespace specdec;
using namespace specdec::testing;
using support::RowMajor;
using support::ThreadRank;

namespace {

// Three siblings drawn from one row. The second one has a line of two tokens after it.
const std::vector<Index> three_siblings{-1, -1, -1, 1, 3};
// A trunk of two tokens and a spare beside its first token. Two tokens follow the spare: greedy block verification
// asks for that many there.

struct Input {
  std::vector<Index> parents;
  std::vector<Token> tokens;
  RowMajor<double> target, draft;

  Input(Index vocab_size, std::mt19937_64& rng, const std::vector<Index>& tree = three_siblings)
      : parents(tree),
        target(support::random_rows(6, vocab_size, rng)),
        draft(support::random_rows(5, vocab_size, rng)) {
    // So the draft row gives mass to more than one token.
    draft.row(0) = 0.5 * draft.row(0) + 0.5 * target.row(1);
    for (std::size_t k = 1; k < 5; ++k)
      if (parents[k] < 0) draft.row(static_cast<Index>(k)) = draft.row(0);
    RandomChance chance(rng);
    for (Index k = 0; k < 5; ++k) tokens.push_back(chance.draw(distributions(draft).row(k)));
  }
  // The second sibling is chosen instead, and differs from the others.
  void choose() {
    const Index size = draft.cols();
    while (tokens[1] == tokens[0] || tokens[1] == tokens[2])
      tokens[1] = static_cast<Token>((tokens[1] + 1) % size);
    draft.row(1) = Eigen::RowVectorXd::Unit(size, tokens[1]);
  }
};

using Outcomes = std::map<std::vector<Token>, double>;

template <class Verify>
Outcomes outcomes(const Verify& verify) {
  Outcomes out;
  enumerate([&](Enumerator& chance) {
    const TreeVerdict verdict = verify(chance);
    std::vector<Token> key(verdict.path.begin(), verdict.path.end());
    key.push_back(verdict.token);
    const double p = chance.probability();
    out[key] += p;
  });
  return out;
}

// A rule chosen at run time, so that the laws are compiled once.
struct AnyTreeRule {
  std::variant<TraversalVerifier, RecursiveRejectionVerifier, KSeqVerifier, TrunkAndSpares<BlockVerifier>>
      rule;

  NodeVerdict judge(const auto& drafted, auto& chance) const {
    return std::visit([&](const auto& verifier) { return verifier.judge(drafted, chance); }, rule);
  }
};

const AnyTreeRule rules[] = {{TraversalVerifier{}},
                             {RecursiveRejectionVerifier{}},
                             {KSeqVerifier{}},
                             {TrunkAndSpares<BlockVerifier>{}}};

// Checks that the law of a verdict over ranks is, on each rank, the law over whole rows, and returns it. With
// `drafts_spread` the ranks hold columns of the draft as well.
Outcomes check_law(const AnyTreeRule& rule, const Input& in, Index ranks, bool drafts_spread) {
  const Index vocab_size = in.target.cols();
  const RowMajor<double> logits = in.target.array().log();
  const Outcomes whole = outcomes([&](auto& chance) {
    AnyTreeRule fresh = rule;
    return verify(fresh, in.target, in.draft, in.tokens, in.parents, chance);
  });
  std::vector<Outcomes> each(static_cast<std::size_t>(ranks));
  support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
    const support::Columns mine = support::columns_of(rank, vocab_size);
    const RowMajor<double> l = support::part(logits, mine), q = support::part(in.draft, mine);
    const Logits my_logits(l);
    each[static_cast<std::size_t>(rank.rank())] = outcomes([&](auto& chance) {
      AnyTreeRule fresh = rule;
      support::Settled settled{chance};
      Shards shards(my_logits, mine.first, vocab_size, rank, in.tokens, in.parents);
      const auto rows = shards.rows();
      if (!drafts_spread) return verify(fresh, rows, in.draft, in.tokens, in.parents, settled);
      Shards drafted(q, mine.first, vocab_size, rank, in.tokens);
      return verify(fresh, rows, drafted.rows(), in.tokens, in.parents, settled);
    });
  }));
  for (const Outcomes& law : each) CHECK(largest_difference(whole, law).size < 1e-12);
  return whole;
}

}  // namespace

TEST_CASE("over ranks the rules for trees have the laws that they have on whole rows", "[law]") {
  std::mt19937_64 rng(51);
  for (int n = 0; n < support::bound(8, 24); ++n) {
    Input in(4 + n % 3, rng);
    const bool chosen = n % 2 == 1;
    if (chosen) in.choose();
    for (const AnyTreeRule& rule : rules)
      if (!chosen || !std::holds_alternative<KSeqVerifier>(rule.rule))
        check_law(rule, in, 2 + n % 4, n % 3 == 2);
  }
}

TEST_CASE("K-SEQ exchanges one number for each of its passes, and nothing where a tree does not branch") {
  std::mt19937_64 rng(54);
  for (const Index vocab_size : {30, 3000}) {
    const Input in(vocab_size, rng);
    support::rethrow_first(support::on_ranks(2, [&](ThreadRank& rank) {
      const support::Columns mine = support::columns_of(rank, vocab_size);
      const RowMajor<double> p = support::part(in.target, mine);
      std::mt19937_64 source(6);
      for (int n = 0; n < 4; ++n) {
        Shards shards(p, mine.first, vocab_size, rank, in.tokens, in.parents);
        shards.draw_ahead(1, [&] { return uniform01(source); });
        const Index numbers = shards.numbers_given(), exchanges = shards.exchanges();
        KSeqVerifier{}(shards.rows(), in.draft, in.tokens, in.parents, source);
        const Index passes = shards.exchanges() - exchanges;
        // Only the context's children are siblings drawn together, so K-SEQ makes its passes there alone. A draw from
        // a residual exchanges its mass, which is one number, and then makes two exchanges of three numbers together.
        if (passes < 20 || passes > 60) throw std::logic_error("other passes than those of a bisection");
        if (shards.numbers_given() - numbers > passes + 1)
          throw std::logic_error("an exchange of more numbers");
      }
    }));
  }
}

TEST_CASE("what ranks exchange for a tree does not grow with the vocabulary") {
  std::mt19937_64 rng(52);
  for (const Index vocab_size : {30, 30000}) {
    const Input in(vocab_size, rng);
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      const support::Columns mine = support::columns_of(rank, vocab_size);
      const RowMajor<double> p = support::part(in.target, mine);
      std::mt19937_64 source(6);
      Index looked_up = 0, more = 0;
      for (int n = 0; n < 30; ++n) {
        Shards shards(p, mine.first, vocab_size, rank, in.tokens, in.parents);
        looked_up += shards.numbers_given();
        shards.draw_ahead(4, [&] { return uniform01(source); });
        const Index numbers = shards.numbers_given(), exchanges = shards.exchanges();
        TraversalVerifier{}(shards.rows(), in.draft, in.tokens, in.parents, source);
        more += shards.numbers_given() - numbers;
        if (shards.numbers_given() - numbers > 3 * (shards.exchanges() - exchanges))
          throw std::logic_error("an exchange of more than a draw takes");
      }
      if (looked_up != 30 * (5 + 6 + 5)) throw std::logic_error("other look-ups than of each token once");
      // Up to two of three siblings may be rejected before the last one, and each rejection exchanges one sum.
      if (more > 3 * 30) throw std::logic_error("more than sums of rejected siblings and a few draws");
    }));
  }
}

}  // namespace test_more_ranks_law_trees_over_ranks
