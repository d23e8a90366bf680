// Rows spread over ranks: the law of a verdict is that of whole rows, all ranks get an equal verdict, and what they
// exchange does not grow with the vocabulary.
// SPDX-License-Identifier: MIT
#include "specdec/more/ranks/sharded.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/ranks.hpp>
#include <specdec/more/rows/sampled.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"
#include "support/shards.hpp"
#include "support/thread_ranks.hpp"

namespace test_rows_sharded {

using namespace specdec;
using namespace specdec::testing;
using support::AnyVerifier;
using support::Columns;
using support::columns_of;
using support::Lists;
using support::part;
using support::random_rows;
using support::RowMajor;
using support::Settled;
using support::ThreadRank;

namespace {

using VerdictLaw = std::map<std::vector<Token>, double>;

// The joint law of draft and verdict, by enumeration, with rows as `judge` gives them to the rule.
template <class Judge>
VerdictLaw law_of(const RowMajor<double>& draft, const AnyVerifier& rule, const Judge& judge) {
  VerdictLaw law;
  enumerate([&](Enumerator& chance) {
    std::vector<Token> outcome;
    for (Index i = 0; i < draft.rows(); ++i) outcome.push_back(chance.draw(distributions(draft).row(i)));
    AnyVerifier verifier = rule;
    const Verdict v = judge(verifier, std::span<const Token>(outcome), chance);
    outcome.push_back(static_cast<Token>(v.accepted));
    outcome.push_back(v.token);
    const double p = chance.probability();
    law[outcome] += p;
  });
  return law;
}

void check_equal(const VerdictLaw& a, const VerdictLaw& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [outcome, p] : a) {
    REQUIRE(b.contains(outcome));
    CHECK(std::abs(b.at(outcome) - p) < 1e-12);
  }
}

// Draws ahead by enumeration: every token of each row, with its probability.
template <class S>
void draw_every_token_ahead(S& shards, const RowMajor<double>& target, Index draws, Enumerator& chance) {
  Index next = 0;
  shards.draw_ahead(draws, [&] {
    const Index i = next++ / draws;
    const Token x = chance.draw(distributions(target).row(i));
    return target.row(i).head(x).sum() + target(i, x) / 2;
  });
  if (next != target.rows() * draws) throw std::logic_error("other than one number for each draw");
}

// Greedy block verification in the middle of a sequence: the next target is modified.
AnyVerifier with_modifications(const RowMajor<double>& target, const RowMajor<double>& draft,
                               std::mt19937_64& rng) {
  GreedyBlockVerifier rule;
  for (int n = 0; n < 1000 && rule.modifications().empty(); ++n) {
    std::vector<Token> tokens;
    RandomChance chance(rng);
    for (Index i = 0; i < draft.rows(); ++i) tokens.push_back(chance.draw(distributions(draft).row(i)));
    rule(target, draft, tokens, rng);
  }
  REQUIRE(!rule.modifications().empty());
  return {rule};
}

}  // namespace

TEST_CASE(
    "races that need more than the tokens drawn ahead are settled over ranks with the law of whole rows",
    "[law]") {
  std::mt19937_64 rng(26);
  for (int pair = 0; pair < support::bound(6, 15); ++pair) {
    const Index vocab_size = 3 + pair % 3, ranks = 1 + pair % 5;
    const RowMajor<double> target = random_rows(3, vocab_size, rng);
    const RowMajor<double> draft = 0.75 * random_rows(2, vocab_size, rng) + 0.25 * target.topRows(2);
    const RowMajor<double> logits = target.array().log();
    const Lists lists(draft);
    std::vector<AnyVerifier> rules(std::begin(support::ratio_rules), std::end(support::ratio_rules));
    rules.push_back(with_modifications(target, draft, rng));
    for (const AnyVerifier& rule : rules) {
      const VerdictLaw whole = law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
        return verifier(target, draft, tokens, chance);
      });
      std::vector<VerdictLaw> laws(static_cast<std::size_t>(ranks));
      support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
        const Columns mine = columns_of(rank, vocab_size);
        const RowMajor<double> q = part(draft, mine), l = part(logits, mine);
        const Logits my_logits(l);
        laws[static_cast<std::size_t>(rank.rank())] =
            law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
              Settled settled{chance};
              Shards shards(my_logits, mine.first, vocab_size, rank, tokens);
              if (pair % 3 == 0) return verifier(shards.rows(), draft, tokens, settled);
              if (pair % 3 == 1) return verifier(shards.rows(), lists.view(), tokens, settled);
              Shards drafted(q, mine.first, vocab_size, rank, tokens);
              return verifier(shards.rows(), drafted.rows(), tokens, settled);
            });
      }));
      for (const VerdictLaw& law : laws) check_equal(whole, law);
    }
  }
}

TEST_CASE(
    "a race that needs more than the tokens drawn ahead exchanges four numbers, whatever the vocabulary") {
  std::mt19937_64 rng(27);
  for (const Index vocab_size : {40, 40000}) {
    const RowMajor<double> target = random_rows(1, vocab_size, rng), draft = random_rows(1, vocab_size, rng);
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      const Columns mine = columns_of(rank, vocab_size);
      const RowMajor<double> p = part(target, mine);
      Shards shards(p, mine.first, vocab_size, rank);
      const auto q = distributions(draft).row(0);
      std::mt19937_64 source(4);
      for (int n = 0; n < 20; ++n) {
        const Index exchanges = shards.exchanges(), numbers = shards.numbers_given();
        RandomChance chance(source);
        const auto y = run_race(chance, 1.0, shards.rows().row(0), q, 0);
        if (!y || residual(1.0, distributions(target).row(0), 1.0, q, *y) <= 0)
          throw std::logic_error("no winner of the race");
        if (shards.exchanges() != exchanges + 3 || shards.numbers_given() != numbers + 4)
          throw std::logic_error("other exchanges than the mass, whose it is, and the token");
      }
      const auto whole = distributions(target).row(0);
      const std::vector<double> wide(static_cast<std::size_t>(vocab_size) + 9, 0.01);
      const DenseRow<double> wider(wide.data(), std::ssize(wide));
      const auto check = [&](double sum, double expected) {
        if (!(std::abs(sum - expected) < 1e-9)) throw std::logic_error("another sum than over whole rows");
      };
      const Index numbers = shards.numbers_given();
      const auto row = shards.rows().row(0);
      check(overlap(row, q), overlap(whole, q));
      check(overlap(q, row), overlap(whole, q));
      check(residual_mass(0.5, wider, 1.0, row), residual_mass(0.5, wider, 1.0, whole));
      check(residual_mass(1.0, row, 1.0, q, 7, 20), residual_mass(1.0, whole, 1.0, q, 7, 20));
      if (shards.numbers_given() != numbers + 4) throw std::logic_error("a sum takes other than one number");
    }));
  }
}

TEST_CASE("the law of a verdict over sharded rows is that over whole rows, on every rank", "[law]") {
  std::mt19937_64 rng(21);
  for (int pair = 0; pair < support::bound(8, 20); ++pair) {
    const Index vocab_size = 3 + pair % 3, gamma = 1 + pair % 2;
    const RowMajor<double> target = random_rows(gamma + 1, vocab_size, rng),
                           draft = random_rows(gamma, vocab_size, rng);
    const RowMajor<double> logits = target.array().log();
    for (const AnyVerifier& rule : support::sampling_rules) {
      const VerdictLaw whole = law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
        return verifier(target, draft, tokens, chance);
      });
      const Index ranks = 1 + pair % 5;
      std::vector<VerdictLaw> laws(static_cast<std::size_t>(ranks));
      support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
        const Columns mine = columns_of(rank, vocab_size);
        const RowMajor<double> p = part(target, mine), q = part(draft, mine), l = part(logits, mine);
        VerdictLaw& law = laws[static_cast<std::size_t>(rank.rank())];
        law = law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
          Shards drafted(q, mine.first, vocab_size, rank, tokens);
          if (pair % 2 == 0) {
            Shards shards(p, mine.first, vocab_size, rank, tokens);
            return verifier(shards.rows(), drafted.rows(), tokens, chance);
          }
          const Logits all_logits(l);
          Shards shards(all_logits, mine.first, vocab_size, rank, tokens);
          return verifier(shards.rows(), drafted.rows(), tokens, chance);
        });
      }));
      for (const VerdictLaw& law : laws) check_equal(whole, law);
    }
  }
}

TEST_CASE("with tokens drawn ahead a verdict over shards has the law of whole rows, on every rank", "[law]") {
  std::mt19937_64 rng(22);
  for (int pair = 0; pair < support::bound(2, 10); ++pair) {
    const Index vocab_size = 3, gamma = 1 + pair % 2, ranks = 2 + pair % 3, draws = pair % 2 == 0 ? 2 : 1;
    const RowMajor<double> target = random_rows(gamma + 1, vocab_size, rng);
    const RowMajor<double> draft = 0.75 * random_rows(gamma, vocab_size, rng) + 0.25 * target.topRows(gamma);
    for (const AnyVerifier& rule : support::ratio_rules) {
      const VerdictLaw whole = law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
        return verifier(target, draft, tokens, chance);
      });
      std::vector<VerdictLaw> laws(static_cast<std::size_t>(ranks));
      support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
        const Columns mine = columns_of(rank, vocab_size);
        const RowMajor<double> p = part(target, mine);
        VerdictLaw& law = laws[static_cast<std::size_t>(rank.rank())];
        law = law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
          Settled settled{chance, static_cast<int>(draws)};
          Shards shards(p, mine.first, vocab_size, rank, tokens);
          draw_every_token_ahead(shards, target, draws, chance);
          return verifier(shards.rows(), draft, tokens, settled);
        });
      }));
      for (const VerdictLaw& law : laws) check_equal(whole, law);
    }
  }
}

TEST_CASE(
    "with tokens drawn ahead a tree over shards gets the verdict of whole rows with these tokens handed in") {
  std::mt19937_64 rng(34);
  const std::vector<Index> parents{-1, -1, -1, 1, 3};
  for (int n = 0; n < 40; ++n) {
    const Index vocab_size = 4 + n % 5;
    const RowMajor<double> target = random_rows(6, vocab_size, rng);
    RowMajor<double> draft = random_rows(5, vocab_size, rng);
    // So the draft row gives mass to more than one token.
    draft.row(0) = 0.5 * draft.row(0) + 0.5 * target.row(1);
    draft.row(1) = draft.row(2) = draft.row(0);
    std::vector<Token> tokens;
    RandomChance chance(rng);
    for (Index k = 0; k < 5; ++k) tokens.push_back(chance.draw(distributions(draft).row(k)));
    // Two random numbers for every row, row by row, give the whole rows the tokens that they give the ranks' parts.
    std::mt19937_64 numbers(static_cast<unsigned>(n));
    std::vector<Token> first, second;
    for (Index i = 0; i < 6; ++i) {
      auto sampler = distributions(target).row(i).sampler();
      first.push_back(sampler(uniform01(numbers)));
      second.push_back(sampler(uniform01(numbers)));
    }
    const SampledRows with_second(target, second);
    const SampledRows with_both(with_second, first);
    std::mt19937_64 source(7);
    const TreeVerdict whole = TraversalVerifier{}(with_both, draft, tokens, parents, source);
    support::rethrow_first(support::on_ranks(1 + n % 4, [&](ThreadRank& rank) {
      const Columns mine = columns_of(rank, vocab_size);
      const RowMajor<double> p = part(target, mine);
      std::mt19937_64 ahead(static_cast<unsigned>(n)), my_source(7);
      Shards shards(p, mine.first, vocab_size, rank, tokens, parents);
      shards.draw_ahead(2, [&] { return uniform01(ahead); });
      const TreeVerdict verdict = TraversalVerifier{}(shards.rows(), draft, tokens, parents, my_source);
      if (!std::ranges::equal(verdict.path, whole.path) || verdict.token != whole.token ||
          my_source != source)
        throw std::logic_error("another verdict than over whole rows");
      if (ahead != numbers) throw std::logic_error("draws ahead take other than one number each");
    }));
  }
}

namespace {

// A row that may fail in everything but its sum.
struct Frail : DenseRow<double> {
  const bool* fails;

  double probability(Token x) const { return check(), DenseRow<double>::probability(x); }
  Token argmax() const { return check(), DenseRow<double>::argmax(); }
  auto sampler() const { return check(), DenseRow<double>::sampler(); }
  void check() const {
    if (*fails) throw std::runtime_error("the row failed");
  }
};

// A row that draws a token to which it gives no probability.
struct Wrong : DenseRow<double> {
  auto sampler() const {
    return [](double) { return Token{0}; };
  }
};

// The message that all ranks throw, each as an E.
template <class E = std::exception, class F>
std::string said_by_all(const F& f) {
  std::vector<std::string> messages;
  for (const std::exception_ptr& error : support::on_ranks(3, f)) {
    REQUIRE(error);
    messages.push_back(support::message_of<E>([&] { std::rethrow_exception(error); }));
  }
  for (const std::string& text : messages) CHECK(text == messages.front());
  return messages.front();
}

}  // namespace

TEST_CASE("the argmax over ranks is the lowest id among equals, whichever ranks have it") {
  std::mt19937_64 rng(29);
  for (int n = 0; n < 200; ++n) {
    RowMajor<float> logits(1, 12);
    for (float& l : logits.reshaped()) l = static_cast<float>(std::round(8 * uniform01(rng)) / 4);
    const Token expected = distributions(Logits(logits)).row(0).argmax();
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      const RowMajor<float> mine = logits.middleCols(4 * rank.rank(), 4);
      const Logits my_logits(mine);
      Shards shards(my_logits, 4 * rank.rank(), 12, rank);
      if (shards.rows().row(0).argmax() != expected) throw std::logic_error("another argmax");
    }));
  }
  const RowMajor<double> target = random_rows(1, 6, rng);
  for (const std::exception_ptr& error : support::on_ranks(3, [&](ThreadRank& rank) {
         const RowMajor<double> p = target.middleCols(2 * rank.rank(), 2);
         const bool fails = rank.rank() == 0;
         const std::vector<Frail> rows{{distributions(p).row(0), &fails}};
         Shards shards(RowSpan<Frail>(rows, 2), 2 * rank.rank(), 6, rank);
         shards.rows().row(0).argmax();
       })) {
    REQUIRE(error);
    CHECK(support::message_of([&] { std::rethrow_exception(error); }) ==
          "rank 0 could not tell the likeliest token of its part of row 0");
  }
}

TEST_CASE("rows that sum to less than 1 are drawn from over ranks as if they were normalised") {
  std::mt19937_64 rng(31);
  for (int n = 0; n < 6; ++n) {
    const RowMajor<double> target = 0.9 * random_rows(1, 12, rng);
    support::rethrow_first(support::on_ranks(1 + n % 4, [&](ThreadRank& rank) {
      const Columns mine = columns_of(rank, 12);
      const RowMajor<double> p = part(target, mine);
      Shards shards(p, mine.first, 12, rank);
      auto sampler = shards.rows().row(0).sampler();
      auto whole = distributions(target).row(0).sampler();
      for (int k = 0; k < 300; ++k)
        if (const double u = (k + 0.5) / 300; sampler(u) != whole(u)) throw std::logic_error("another token");
    }));
  }
}

TEST_CASE("if drawing ahead fails, the tokens drawn before remain") {
  std::mt19937_64 rng(30);
  const RowMajor<double> target = random_rows(3, 6, rng);
  support::rethrow_first(support::on_ranks(2, [&](ThreadRank& rank) {
    const RowMajor<double> p = target.middleCols(3 * rank.rank(), 3);
    bool fails = false;
    const bool never = false;
    std::vector<Frail> rows;
    for (Index i = 0; i < 3; ++i) rows.push_back({distributions(p).row(i), i == 1 ? &fails : &never});
    Shards shards(RowSpan<Frail>(rows, 3), 3 * rank.rank(), 6, rank);
    std::mt19937_64 source(7);
    const auto uniform = [&] { return uniform01(source); };
    shards.draw_ahead(2, uniform);
    std::vector<Token> before;
    for (Index i = 0; i < 3; ++i) before.insert(before.end(), {shards.drawn(i, 0), shards.drawn(i, 1)});
    fails = true;
    bool failed = false;
    try {
      shards.draw_ahead(1, uniform);
    } catch (const InvalidDistribution&) {
      failed = true;
    }
    for (Index i = 0; i < 3; ++i) {
      auto sampler = shards.rows().row(i).sampler();
      for (std::size_t k = 0; k < 2; ++k)
        failed = failed && sampler(0.5) == before[2 * static_cast<std::size_t>(i) + k];
    }
    if (!failed) throw std::logic_error("other draws than before");
  }));
}

TEST_CASE("samplers over ranks first give the tokens drawn ahead, each once, and then draw") {
  std::mt19937_64 rng(28);
  const RowMajor<double> target = random_rows(2, 50, rng);
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    const Columns mine = columns_of(rank, 50);
    const RowMajor<double> p = part(target, mine);
    Shards shards(p, mine.first, 50, rank);
    const double us[] = {0.1, 0.5, 0.9, 0.3};
    shards.draw_ahead(2, [&, k = 0]() mutable { return us[k++]; });
    std::vector<Token> drawn, expected;
    for (Index i = 0; i < 2; ++i) {
      auto sampler = shards.rows().row(i).sampler();
      auto whole = distributions(target).row(i).sampler();
      for (int k = 0; k < 3; ++k) drawn.push_back(sampler(0.7));
      drawn.push_back(shards.rows().row(i).sampler()(0.2));
      for (const double u : {us[2 * i], us[2 * i + 1], 0.7, 0.2}) expected.push_back(whole(u));
    }
    if (drawn != expected) throw std::logic_error("other tokens than were drawn");
  }));
}

TEST_CASE("the text does not depend on the number of ranks") {
  std::mt19937_64 rng(23);
  constexpr Index vocab_size = 11, gamma = 3;
  std::vector<std::vector<Token>> texts;
  const RowMajor<double> target = random_rows(gamma + 1, vocab_size, rng),
                         draft = random_rows(gamma, vocab_size, rng);
  for (const Index ranks : {1, 2, 3, 5}) {
    std::vector<std::vector<Token>> each(static_cast<std::size_t>(ranks));
    support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
      const Columns mine = columns_of(rank, vocab_size);
      const RowMajor<double> p = part(target, mine), q = part(draft, mine);
      std::mt19937_64 source(9);
      std::vector<Token>& text = each[static_cast<std::size_t>(rank.rank())];
      for (int n = 0; n < 300; ++n) {
        std::vector<Token> tokens;
        RandomChance chance(source);
        for (Index i = 0; i < gamma; ++i) tokens.push_back(chance.draw(distributions(draft).row(i)));
        Shards shards(p, mine.first, vocab_size, rank, tokens);
        Shards drafted(q, mine.first, vocab_size, rank, tokens);
        shards.draw_ahead(2, [&] { return uniform01(source); });
        const Verdict v = TokenVerifier{}(shards.rows(), drafted.rows(), tokens, source);
        text.insert(text.end(), {static_cast<Token>(v.accepted), v.token, shards.rows().row(0).argmax()});
      }
    }));
    for (const auto& text : each) CHECK(text == each.front());
    texts.push_back(each.front());
  }
  for (const auto& text : texts) CHECK(text == texts.front());
}

TEST_CASE("what ranks exchange for a verification does not grow with the vocabulary") {
  std::mt19937_64 rng(24);
  constexpr Index gamma = 4, draws = 8;
  for (const Index vocab_size : {40, 4000}) {
    const RowMajor<double> target = random_rows(gamma + 1, vocab_size, rng),
                           draft = random_rows(gamma, vocab_size, rng);
    support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
      const Columns mine = columns_of(rank, vocab_size);
      const RowMajor<double> p = part(target, mine);
      std::mt19937_64 source(3);
      Index more = 0;
      for (int n = 0; n < 50; ++n) {
        std::vector<Token> tokens;
        RandomChance chance(source);
        for (Index i = 0; i < gamma; ++i) tokens.push_back(chance.draw(distributions(draft).row(i)));
        Shards shards(p, mine.first, vocab_size, rank, tokens);
        shards.draw_ahead(draws, [&] { return uniform01(source); });
        if (shards.exchanges() != 2) throw std::logic_error("other than two exchanges");
        if (shards.numbers_given() != 5 + (gamma + 1) + gamma + 1 + 2 * (gamma + 1) * draws)
          throw std::logic_error("other numbers than are promised");
        BlockVerifier{}(shards.rows(), draft, tokens, source);
        more += shards.exchanges() - 2;
      }
      if (more >= 50) throw std::logic_error("an exchange more for every verification");
    }));
  }
}

TEST_CASE("ranks that disagree all report it, and none waits for ever") {
  std::mt19937_64 rng(25);
  const RowMajor<double> target = random_rows(3, 6, rng);
  const auto part_of_rank = [&](const ThreadRank& rank) -> RowMajor<double> {
    return target.middleCols(2 * rank.rank(), 2);
  };
  CHECK_THAT(said_by_all<std::logic_error>([&](ThreadRank& rank) {
               const RowMajor<double> p = part_of_rank(rank);
               const std::vector<Token> tokens{1, static_cast<Token>(rank.rank() == 2 ? 3 : 2)};
               Shards shards(p, 2 * rank.rank(), 6, rank, tokens);
             }),
             Catch::Contains("the ranks differ in the tokens that were drafted"));
  CHECK_THAT(said_by_all<std::logic_error>([&](ThreadRank& rank) {
               const RowMajor<double> p = part_of_rank(rank);
               const std::vector<Token> tokens{1, 2}, parents{-1, rank.rank() == 2 ? 0 : -1};
               Shards shards(p, 2 * rank.rank(), 6, rank, tokens, parents);
             }),
             Catch::Contains("the ranks differ in the tokens that were drafted"));
  CHECK_THAT(said_by_all<std::logic_error>([&](ThreadRank& rank) {
               const RowMajor<double> p = part_of_rank(rank);
               std::mt19937_64 source(rank.rank() == 1 ? 1 : 2);
               Shards shards(p, 2 * rank.rank(), 6, rank);
               shards.draw_ahead(1, [&] { return uniform01(source); });
             }),
             Catch::Contains("what their generators give: rank 0 has"));
  CHECK_THAT(said_by_all<std::logic_error>([&](ThreadRank& rank) {
               const RowMajor<double> p = part_of_rank(rank);
               Shards shards(p, 2 * rank.rank(), rank.rank() == 1 ? 7 : 6, rank);
             }),
             Catch::Contains("the ranks differ in the size of the vocabulary: rank 0 has 6, rank 1 has 7"));
  // Two rows without a token to look up exchange as many numbers as one row with one token.
  CHECK_THAT(said_by_all<std::logic_error>([&](ThreadRank& rank) {
               const RowMajor<double> p = target.block(0, 2 * rank.rank(), rank.rank() == 2 ? 1 : 2, 2);
               const std::vector<Token> tokens(rank.rank() == 2 ? 1 : 0, 1);
               Shards shards(p, 2 * rank.rank(), 6, rank, tokens);
             }),
             Catch::Contains("the ranks differ in how many rows they have: rank 0 has 2, rank 2 has 1"));
  CHECK_THAT(said_by_all<std::logic_error>([&](ThreadRank& rank) {
               const RowMajor<double> p = target.block(0, 2 * rank.rank(), rank.rank() == 2 ? 2 : 3, 2);
               Shards shards(p, 2 * rank.rank(), 6, rank);
             }),
             Catch::Contains("different numbers of numbers"));
  CHECK_THAT(said_by_all<std::invalid_argument>([&](ThreadRank& rank) {
               const RowMajor<double> p = target.middleCols(rank.rank(), 2);
               Shards shards(p, rank.rank(), 6, rank);
             }),
             Catch::Contains("rank 1 has columns from 1 on, expected 2"));
  CHECK_THAT(said_by_all<std::invalid_argument>([&](ThreadRank& rank) {
               const RowMajor<double> p = target.middleCols(rank.rank(), 1);
               Shards shards(p, rank.rank(), 6, rank);
             }),
             Catch::Contains("the ranks have 3 columns together, expected vocab_size = 6"));
}

TEST_CASE("numbers that are not a distribution over all ranks are refused by all of them") {
  std::mt19937_64 rng(35);
  const RowMajor<double> target = random_rows(3, 6, rng);
  const auto refused = [&](const RowMajor<double>& rows) {
    return said_by_all<InvalidDistribution>([&](ThreadRank& rank) {
      const RowMajor<double> p = rows.middleCols(2 * rank.rank(), 2);
      Shards shards(p, 2 * rank.rank(), 6, rank);
    });
  };
  RowMajor<double> bad = target;
  bad(1, 2) = std::numeric_limits<double>::quiet_NaN();
  CHECK(refused(bad) == "specdec: sharded row 1: the ranks' parts sum to nan");
  bad = target;
  bad.row(2) << 0.5, 0.5, -0.25, 0, 0.25, 0;
  CHECK(refused(bad) == "specdec: sharded row 2: the part of rank 1 sums to -0.25");
  // More than rounding can explain. A draw from the whole row refuses it, too.
  bad = target;
  bad.row(1) *= 1.02;
  CHECK(refused(bad) == "specdec: sharded row 1: the ranks' parts sum to 1.02, which is more than 1");
  CHECK_THAT(support::message_of<InvalidDistribution>([&] { distributions(bad).row(1).sampler()(0.999); }),
             Catch::Contains("sum to 1.02, which is more than 1"));
  const RowMajor<double> rounded = 1.005 * target;
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    const RowMajor<double> p = rounded.middleCols(2 * rank.rank(), 2);
    Shards shards(p, 2 * rank.rank(), 6, rank);
    for (const double u : {0.1, 0.5, 0.999})
      if (shards.rows().row(1).sampler()(u) != distributions(rounded).row(1).sampler()(u))
        throw std::logic_error("another token than of the whole row");
  }));
  RowMajor<double> log_rows = target.array().log();
  log_rows.row(2).segment(2, 2).setConstant(std::numeric_limits<double>::quiet_NaN());
  CHECK(said_by_all<InvalidDistribution>([&](ThreadRank& rank) {
          const RowMajor<double> l = log_rows.middleCols(2 * rank.rank(), 2);
          const Logits logits(l);
          Shards shards(logits, 2 * rank.rank(), 6, rank);
        }) == "specdec: sharded row 2: the ranks' parts sum to nan");
}

TEST_CASE("a row without mass on any rank is a dead end: only a draw from it is an error, on all ranks") {
  std::mt19937_64 rng(39);
  RowMajor<double> target = random_rows(3, 6, rng);
  target.row(1).setZero();
  const RowMajor<double> draft = random_rows(2, 6, rng), log_target = target.array().log();
  const std::vector<Token> tokens{distributions(draft).row(0).sampler()(0.4), 1};
  const auto verdict = [&](const auto& rows, std::uint64_t seed) {
    SplitMix64 source(seed);
    return support::message_of<InvalidDistribution>([&] {
      const Verdict found = BlockVerifier{}(rows, draft, tokens, source);
      specdec::detail::invalid_distribution(found.accepted, " accepted, then ", found.token);
    });
  };
  Index failed = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    if (verdict(target, seed).find("sum to 0") != std::string::npos) ++failed;
  REQUIRE(failed > 5);
  REQUIRE(failed < 35);
  support::rethrow_first(support::on_ranks(3, [&](ThreadRank& rank) {
    const auto check = [&](const auto& mine, Index ahead) {
      for (std::uint64_t seed = 0; seed < 40; ++seed) {
        Shards shards(mine, 2 * rank.rank(), 6, rank, tokens);
        if (ahead > 0) shards.draw_ahead(ahead, [] { return 0.5; });
        const auto row = shards.rows().row(1);
        if (!specdec::detail::is_dead_end(row) || row.probability(3) != 0 ||
            specdec::detail::is_dead_end(shards.rows().row(2)))
          throw std::logic_error("the dead end is another row");
        for (const auto& refused : {support::message_of<InvalidDistribution>([&] { row.sampler()(0.5); }),
                                    support::message_of<InvalidDistribution>([&] { row.argmax(); })})
          if (refused != "no token has positive probability") throw std::logic_error(refused);
        if (ahead > 0) continue;
        const std::string whole = verdict(target, seed), found = verdict(shards.rows(), seed);
        const bool fails = whole.find("sum to 0") != std::string::npos;
        if (fails ? found.find("no token has positive") == std::string::npos : found != whole)
          throw std::logic_error("another verdict than on whole rows: " + found + ", not " + whole);
      }
    };
    const RowMajor<double> p = target.middleCols(2 * rank.rank(), 2),
                           l = log_target.middleCols(2 * rank.rank(), 2);
    const Logits logits(l);
    for (const Index ahead : {0, 2}) {
      check(p, ahead);
      check(logits, ahead);
    }
  }));
}

TEST_CASE("a failure on one rank is an error on all ranks") {
  std::mt19937_64 rng(36);
  const RowMajor<double> target = random_rows(2, 6, rng);
  const std::vector<Token> tokens{2};  // rank 1 fails in its own row
  const auto with_frail_rows = [&](bool from_the_first, const auto& use) {
    return said_by_all<InvalidDistribution>([&](ThreadRank& rank) {
      const RowMajor<double> p = target.middleCols(2 * rank.rank(), 2);
      bool fails = from_the_first && rank.rank() == 1;
      std::vector<Frail> rows;
      for (Index i = 0; i < 2; ++i) rows.push_back({distributions(p).row(i), &fails});
      Shards shards(RowSpan<Frail>(rows, 2), 2 * rank.rank(), 6, rank, tokens);
      fails = rank.rank() == 1;
      use(shards);
    });
  };
  const RowMajor<double> draft = RowMajor<double>::Constant(1, 6, 1.0 / 6);
  CHECK_THAT(with_frail_rows(true,
                             [&](auto& shards) {
                               std::mt19937_64 source(1);
                               BlockVerifier{}(shards.rows(), draft, tokens, source);
                             }),
             Catch::Contains("target row 0: the probability of token 2 is nan"));
  CHECK_THAT(with_frail_rows(false,
                             [&](auto& shards) {
                               residual(1.0, shards.rows().row(1), 1.0, distributions(draft).row(0), 3);
                             }),
             Catch::Contains("at token 3 target = nan and draft = 0.1666"));
  CHECK_THAT(with_frail_rows(false,
                             [](auto& shards) {
                               const double us[] = {0, 0.999};
                               for (const double u : us) shards.rows().row(1).sampler()(u);
                               for (int k = 1; k < 100; ++k) shards.rows().row(0).sampler()(k / 100.0);
                             }),
             Catch::Contains("rank 1 could not draw from its part of the row"));
  // A sampler that returns a token that cannot be drawn.
  const auto with_wrong_rows = [&](const auto& use) {
    return said_by_all<InvalidDistribution>([&](ThreadRank& rank) {
      RowMajor<double> p(1, 2);
      p << 0, 1.0 / 3;
      const std::vector<Wrong> rows{{distributions(p).row(0)}};
      Shards shards(RowSpan<Wrong>(rows, 2), 2 * rank.rank(), 6, rank);
      use(shards);
    });
  };
  CHECK_THAT(with_wrong_rows([](auto& shards) { shards.rows().row(0).sampler()(0.5); }),
             Catch::Contains("rank 1 could not draw from its part of the row"));
  CHECK_THAT(with_wrong_rows([](auto& shards) { shards.draw_ahead(2, [] { return 0.9; }); }),
             Catch::Contains("rank 2 could not draw from its part of the row"));
}

TEST_CASE("a rank that fails before an exchange leaves no rank waiting") {
  const auto errors_of = [](const auto& exchange_on) {
    std::vector<std::string> messages;
    for (const std::exception_ptr& error : support::on_ranks(3, [&](ThreadRank& rank) {
           specdec::detail::Exchange<ThreadRank> exchange(rank);
           exchange_on(exchange);
         })) {
      REQUIRE(error);
      messages.push_back(support::message_of<std::exception>([&] { std::rethrow_exception(error); }));
    }
    return messages;
  };
  using Messages = std::vector<std::string>;
  const std::string others = "the ranks give different numbers of numbers";
  CHECK(errors_of([](auto& exchange) {
          exchange.prepare([&] {
            if (exchange.rank() == 1) throw std::runtime_error("no memory");
          });
          exchange.one([] { return 1.0; });
        }) == Messages{others, "no memory", others});
  // More numbers than a vector can hold.
  const std::vector<std::string> without_room = errors_of([](auto& exchange) {
    exchange(exchange.rank() == 2 ? std::size_t{1} << 62 : 1, [](auto& out) { out.push_back(1.0); });
  });
  CHECK(without_room[0] == others);
  CHECK(without_room[1] == others);
  CHECK(without_room[2] != others);
  // An exception need not be one of the standard library.
  CHECK(errors_of([](auto& exchange) {
          exchange.one([&] { return exchange.rank() == 0 ? throw 1 : 1.0; });
          exchange.check_alike(0, "this number");
        }) == Messages(3, "specdec: rank 0 could not tell this number"));
}

TEST_CASE("a row over ranks gives the whole row's sums, segments and argmax at temperature 0") {
  std::mt19937_64 rng(37);
  for (int n = 0; n < 10; ++n) {
    const Index vocab_size = 12, ranks = 1 + n % 5;
    RowMajor<double> logits(1, vocab_size);
    for (double& l : logits.reshaped())
      l = std::round((n % 2 == 0 ? 2 : 8) * uniform01(rng)) / 4;  // so there are ties
    const LogitsOptions options{.temperature = n % 2 == 0 ? 0 : 0.7};
    support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
      // A row of logits is normalised at its first read, so each thread needs its own.
      const Logits whole_rows(logits, options);
      const auto whole = distributions(whole_rows).row(0);
      const Columns mine = columns_of(rank, vocab_size);
      const RowMajor<double> l = part(logits, mine);
      const Logits my_logits(l, options);
      Shards shards(my_logits, mine.first, vocab_size, rank);
      const auto row = shards.rows().row(0);
      const auto check = [](double number, double expected) {
        if (!(std::abs(number - expected) < 1e-12))
          throw std::logic_error("another number than of the whole row");
      };
      for (Index start = 0; start < vocab_size; start += 3) {
        check(row.sum(start, 5 - start % 2),
              whole.sum(start, std::min<Index>(5 - start % 2, vocab_size - start)));
        const auto segment = row.segment(start, 3);
        for (Index k = 0; k < 3; ++k) check(segment[k], whole.probability(static_cast<Token>(start + k)));
      }
      for (Token x = 0; x < vocab_size; ++x) check(row.probability(x), whole.probability(x));
      auto sampler = row.sampler();
      auto whole_sampler = whole.sampler();
      for (int k = 0; k < 12; ++k)
        if (const double u = (k + 0.5) / 12; sampler(u) != whole_sampler(u))
          throw std::logic_error("another token than of the whole row");
    }));
  }
}

TEST_CASE("a part of a row is its columns, even if it has fewer") {
  std::mt19937_64 rng(38);
  const RowMajor<double> q = random_rows(1, 7, rng);
  const auto whole = distributions(q).row(0);
  const Lists lists(q);
  const auto check = [&](const auto& row, specdec::detail::RankPart columns) {
    const auto part = columns(row);
    const auto at = [&](Index x) {
      return columns.first + x < 7 ? whole.probability(static_cast<Token>(columns.first + x)) : 0.0;
    };
    double all = 0;
    for (Index x = 0; x < columns.count; ++x) {
      CHECK(specdec::probability(part, static_cast<Token>(x)) == at(x));
      all += at(x);
    }
    CHECK(part.vocab_size() == columns.count);
    if constexpr (!ListedRow<std::remove_cvref_t<decltype(row)>>) {
      for (Index start = 0; start < columns.count; ++start) {
        const Index count = columns.count - start;
        double sum = 0;
        const auto segment = part.segment(start, count);
        for (Index k = 0; k < count; ++k) {
          CHECK(segment[k] == at(start + k));
          sum += at(start + k);
        }
        CHECK(part.sum(start, count) == Approx(sum).margin(1e-15));
      }
    }
    if (all > 0) CHECK(at(part.sampler()(0.5 * all)) > 0);
  };
  for (const specdec::detail::RankPart columns :
       {specdec::detail::RankPart{0, 3}, {2, 5}, {4, 6}, {6, 4}, {7, 2}, {9, 3}}) {
    check(whole, columns);
    check(lists.view().row(0), columns);
  }
}

}  // namespace test_rows_sharded
