// Rows that are spread over ranks: the law of a verdict is that of the whole rows, all ranks come to the same one, and what
// they exchange does not grow with the vocabulary.
#include "specdec/rows/sharded.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <span>
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

// The joint law of draft and verdict, by enumeration, of rows as `judge` shows them to the rule.
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

TEST_CASE("races that outlive their draws are settled over ranks with the law of whole rows", "[law]") {
  std::mt19937_64 rng(26);
  for (int pair = 0; pair < support::bound(6, 20); ++pair) {
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

TEST_CASE("a race that outlives its draws is settled by four numbers, whatever the vocabulary") {
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
      support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
        const Columns mine = columns_of(rank, vocab_size);
        const RowMajor<double> p = part(target, mine), q = part(draft, mine), l = part(logits, mine);
        const VerdictLaw law = law_of(draft, rule, [&](auto& verifier, auto tokens, auto& chance) {
          Shards drafted(q, mine.first, vocab_size, rank, tokens);
          if (pair % 2 == 0) {
            Shards shards(p, mine.first, vocab_size, rank, tokens);
            return verifier(shards.rows(), drafted.rows(), tokens, chance);
          }
          const Logits all_logits(l);
          Shards shards(all_logits, mine.first, vocab_size, rank, tokens);
          return verifier(shards.rows(), drafted.rows(), tokens, chance);
        });
        static std::mutex mutex;
        const std::scoped_lock lock(mutex);
        check_equal(whole, law);
      }));
    }
  }
}

TEST_CASE(
    "with tokens drawn ahead the verdict over shards has its law, and one rank draws what whole rows draw") {
  std::mt19937_64 rng(22);
  constexpr Index vocab_size = 7, gamma = 2;
  const RowMajor<double> target = random_rows(gamma + 1, vocab_size, rng),
                         draft = random_rows(gamma, vocab_size, rng);
  const int samples = support::bound(5000, 20000);
  for (const Index ranks : {1, 3, 4}) {
    Law expected;
    for (const auto& [outcome, p] :
         law_of(draft, {BlockVerifier{}}, [&](auto& verifier, auto tokens, auto& chance) {
           return verifier(target, draft, tokens, chance);
         }))
      expected[outcome] += p;
    std::vector<std::vector<Token>> outcomes;
    support::rethrow_first(support::on_ranks(ranks, [&](ThreadRank& rank) {
      const Columns mine = columns_of(rank, vocab_size);
      const RowMajor<double> p = part(target, mine);
      std::mt19937_64 source(5);
      for (int n = 0; n < samples; ++n) {
        std::vector<Token> outcome;
        RandomChance chance(source);
        for (Index i = 0; i < gamma; ++i) outcome.push_back(chance.draw(distributions(draft).row(i)));
        Shards shards(p, mine.first, vocab_size, rank, outcome);
        shards.draw_ahead(1 + n % 2, [&] { return uniform01(source); });
        const Verdict v = BlockVerifier{}(shards.rows(), draft, outcome, source);
        outcome.push_back(static_cast<Token>(v.accepted));
        outcome.push_back(v.token);
        if (rank.rank() == 0) outcomes.push_back(outcome);
      }
    }));
    std::size_t next = 0;
    const SampledReport report = check_sampled([&] { return outcomes[next++]; }, expected, samples);
    INFO(report);
    CHECK(report.accepted);
  }
}

namespace {

// A row whose argmax and whose draws may fail.
struct Frail : DenseRow<double> {
  const bool* fails;

  Token argmax() const { return check(), DenseRow<double>::argmax(); }
  auto sampler() const { return check(), DenseRow<double>::sampler(); }
  void check() const {
    if (*fails) throw std::runtime_error("the row failed");
  }
};

}  // namespace

TEST_CASE("the argmax over ranks is the lowest id among equals, and no rank's is left out") {
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

TEST_CASE("where draws ahead fail there are those of before") {
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

TEST_CASE("a sampler over ranks gives what was drawn ahead, each token once, and then draws") {
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
      for (const double u : {us[2 * i], us[2 * i + 1], 0.7}) expected.push_back(whole(u));
    }
    if (drawn != expected) throw std::logic_error("other tokens than were drawn");
  }));
}

TEST_CASE("ranks write one text, however many they are") {
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
        CHECK(shards.exchanges() == 2);
        CHECK(shards.numbers_given() == 5 + (gamma + 1) + gamma + 1 + 2 * (gamma + 1) * draws);
        BlockVerifier{}(shards.rows(), draft, tokens, source);
        more += shards.exchanges() - 2;
      }
      CHECK(more < 50);
    }));
  }
}

TEST_CASE("ranks that do not agree all say so, and none waits for ever") {
  std::mt19937_64 rng(25);
  const RowMajor<double> target = random_rows(3, 6, rng);
  const auto message = [&](const auto& f) {
    std::vector<std::string> messages;
    for (const std::exception_ptr& error : support::on_ranks(3, f)) {
      REQUIRE(error);
      messages.push_back(support::message_of<std::exception>([&] { std::rethrow_exception(error); }));
    }
    for (const std::string& text : messages) CHECK(text == messages.front());
    return messages.front();
  };
  const auto says = [](const std::string& text, const char* words) {
    return text.find(words) != std::string::npos;
  };
  CHECK(says(message([&](ThreadRank& rank) {
               const RowMajor<double> p = target.middleCols(2 * rank.rank(), 2);
               const std::vector<Token> tokens{1, static_cast<Token>(rank.rank() == 2 ? 3 : 2)};
               Shards shards(p, 2 * rank.rank(), 6, rank, tokens);
             }),
             "the tokens that were drafted"));
  CHECK(says(message([&](ThreadRank& rank) {
               const RowMajor<double> p = target.middleCols(2 * rank.rank(), 2);
               std::mt19937_64 source(rank.rank() == 1 ? 1 : 2);
               Shards shards(p, 2 * rank.rank(), 6, rank);
               shards.draw_ahead(1, [&] { return uniform01(source); });
             }),
             "what their generators give: rank 0 has"));
  CHECK(says(message([&](ThreadRank& rank) {
               const RowMajor<double> p = target.middleCols(rank.rank(), 2);
               Shards shards(p, rank.rank(), 6, rank);
             }),
             "rank 1 has columns from 1 on, expected 2"));
  CHECK(says(message([&](ThreadRank& rank) {
               const RowMajor<double> p = target.middleCols(rank.rank(), 1);
               Shards shards(p, rank.rank(), 6, rank);
             }),
             "the ranks have 3 columns together, expected vocab_size = 6"));
  CHECK(says(message([&](ThreadRank& rank) {
               const RowMajor<double> p = target.block(0, 2 * rank.rank(), rank.rank() == 2 ? 2 : 3, 2);
               Shards shards(p, 2 * rank.rank(), 6, rank);
             }),
             "different numbers of numbers"));
  CHECK(says(message([&](ThreadRank& rank) {
               RowMajor<double> p = target.middleCols(2 * rank.rank(), 2);
               if (rank.rank() == 1) p(1, 0) = std::numeric_limits<double>::quiet_NaN();
               Shards shards(p, 2 * rank.rank(), 6, rank);
             }),
             "parts of row 1"));
  CHECK(says(message([&](ThreadRank& rank) {
               RowMajor<double> l = target.middleCols(2 * rank.rank(), 2).array().log();
               if (rank.rank() == 1) l.row(2).setConstant(std::numeric_limits<double>::quiet_NaN());
               const Logits logits(l);
               Shards shards(logits, 2 * rank.rank(), 6, rank);
             }),
             "parts of row 2"));
}

}  // namespace test_rows_sharded
