// Betting against a text: right texts are never convicted but with the stated probability, and wrong ones soon are.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <specdec/more/audits/audited_text.hpp>
#include <specdec/more/audits/place_bet.hpp>
#include <specdec/more/audits/rescore.hpp>
#include <specdec/more/audits/row_places.hpp>
#include <specdec/more/audits/text_audit.hpp>
#include <specdec/more/audits/text_audit_report.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"
#include "support/rules.hpp"

namespace test_more_audits_text_audit {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

using Text = std::vector<Token>;
using Row = Eigen::RowVectorXd;

Row row_of(std::initializer_list<double> sixteenths) {
  Row row(std::ssize(sixteenths));
  std::copy(sixteenths.begin(), sixteenths.end(), row.begin());
  return row / 16;
}

// Gives the number that a test wants next as U.
struct Chosen {
  using result_type = std::uint64_t;
  const double* u;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return std::numeric_limits<result_type>::max(); }
  result_type operator()() const { return static_cast<result_type>(std::ldexp(*u, 53)) << 11; }
};

// A row and a reference that depend on the text.
struct Rows {
  Row p, r;
};
Rows rows_after(const Text& text) {
  if (text.empty()) return {row_of({8, 4, 4}), row_of({4, 6, 6})};
  if (text[0] == 0) return {row_of({2, 12, 2}), row_of({8, 0, 8})};
  if (text[0] == 1) return {row_of({16, 0, 0}), row_of({8, 8, 0})};  // tells nothing
  return {row_of({4, 8, 4}), row_of({4, 8, 4})};                     // the reference tells nothing
}

// The mean of E over all texts of `length` tokens, and over U by its middle in each of 48 cells. All masses before a token
// are multiples of 1/16 then, and so the sum over the cells is the integral over U.
double mean_wealth(const BasicTextAudit<Chosen>& audit, double& u, const Text& text, Index length) {
  constexpr int cells = 48;
  if (std::ssize(text) == length) return std::pow(10, audit.evidence());
  const Rows rows = rows_after(text);
  const bool with_reference = text.empty() || text[0] != 2;  // by the text
  double mean = 0;
  for (Token y = 0; y < 3; ++y) {
    if (rows.p[y] == 0) continue;
    Text longer = text;
    longer.push_back(y);
    for (int cell = 0; cell < cells; ++cell) {
      BasicTextAudit<Chosen> next = audit;
      u = (cell + 0.5) / cells;
      if (with_reference) next.add(rows.p, y, rows.r);
      else next.add(rows.p, y);
      mean += rows.p[y] / cells * mean_wealth(next, u, longer, length);
    }
  }
  return mean;
}

}  // namespace

TEST_CASE("a reference that is unreadable for some tokens does not convict right ones") {
  TextAudit audit;
  std::mt19937_64 rng{1};
  for (int n = 0; n < 2000; ++n)
    audit.add(0.5, uniform01(rng) < 0.5 ? 1.0 : std::numeric_limits<double>::quiet_NaN());
  CHECK(audit.largest_evidence() < 3);
  CHECK(audit.report().unreadable == 0);
  CHECK(audit.report().unreadable_references > 900);
}

TEST_CASE("of a right text, E has mean 1 exactly") {
  double u = 0;
  const BasicTextAudit<Chosen> audit(Chosen{&u}, {.tolerance = 0});
  CHECK(mean_wealth(audit, u, {}, 1) == Approx(1).epsilon(1e-12));
  CHECK(mean_wealth(audit, u, {}, 2) == Approx(1).epsilon(1e-12));
  // The tolerance is paid by each gambler, for each bet. (Here all of them bet on the first token.)
  const BasicTextAudit<Chosen> careful(Chosen{&u}, {.tolerance = 0.25});
  CHECK(mean_wealth(careful, u, {}, 1) == Approx(std::exp(-0.25)).epsilon(1e-12));
}

TEST_CASE("with two numbers, E has mean 1 exactly") {
  const Row p = row_of({2, 6, 8}), r = row_of({10, 5, 1});
  double mean = 0;
  for (Token a = 0; a < 3; ++a)
    for (Token b = 0; b < 3; ++b) {
      TextAudit audit({.tolerance = 0});
      audit.add(p[a], r[a]);
      audit.add(p[b], r[b]);
      mean += p[a] * p[b] * std::pow(10, audit.evidence());
    }
  CHECK(mean == Approx(1).epsilon(1e-12));
}

TEST_CASE("a bet on places is fair, learns, and does not depend on their order") {
  using testing::detail::PlaceBet;
  SplitMix64 generator(1);
  PlaceBet all, first, second;
  for (int i = 0; i < 1000; ++i) {
    const double u = std::pow(uniform01(generator), 1.3);
    all.take(u, 1e-3);
    (i < 300 ? first : second).take(u, 1e-3);
    double mean = 0;  // over the bins
    for (std::size_t k = 0; k < PlaceBet::bins; ++k) {
      PlaceBet next = all;
      next.take((static_cast<double>(k) + 0.5) / PlaceBet::bins, 0);
      mean += std::exp(next.log_wealth() - all.log_wealth()) / PlaceBet::bins;
    }
    CHECK(mean == Approx(1));
  }
  CHECK(all.log_wealth() > 5);
  CHECK(all.low());
  first.merge(second, 1e-3);
  CHECK(first.log_wealth() == Approx(all.log_wealth()).epsilon(1e-9));
  CHECK(first.counts() == all.counts());
  CHECK(first.total() == 1000);
}

namespace {

// A row with only what the concept asks for.
struct LeastRow {
  const Row* p;
  Index vocab_size() const { return p->size(); }
  double probability(Token x) const { return (*p)[x]; }
  PrefixSampler<DenseRow<double>> sampler() const {
    return DenseRow<double>(p->data(), vocab_size()).sampler();
  }
};

using testing::detail::RowPlaces;

// The places by their definition.
std::array<double, 3> places_by_hand(const Row& p, const Row& r, Token x, double v) {
  std::array<double, 3> out = {};
  for (Token y = 0; y < p.size(); ++y) {
    if (p[y] == 0) continue;
    out[0] += p[y] > p[x] ? p[y] : p[y] == p[x] ? v * p[y] : 0;
    out[1] += y < x ? p[y] : y == x ? v * p[y] : 0;
    out[2] += r[y] / p[y] > r[x] / p[x] ? p[y] : r[y] / p[y] == r[x] / p[x] ? v * p[y] : 0;
  }
  return out;
}

void check_places(const RowPlaces& places, const std::array<double, 3>& expected) {
  CHECK(places.by_rank(0.25) == Approx(expected[0]).margin(1e-5));
  CHECK(places.by_id(0.25) == Approx(expected[1]).margin(1e-5));
  CHECK(places.by_ratio(0.25) == Approx(expected[2]).margin(1e-5));
  CHECK(places.is_readable());
  CHECK(places.is_readable_reference());
}

}  // namespace

TEST_CASE("places are read alike in all kinds of rows, and in rows of many segments") {
  for (const Index size : {Index{6}, 2 * max_segment_size + 37}) {
    SplitMix64 generator(3);
    Row p(size), r(size);
    for (double& x : p)
      x = uniform01(generator) < 0.25 ? 0 : std::ldexp(std::floor(8 * uniform01(generator)) + 1, -3);
    for (double& x : r)
      x = uniform01(generator) < 0.25 ? 0 : std::ldexp(std::floor(4 * uniform01(generator)) + 1, -2);
    const double sum_p = p.sum(), sum_r = r.sum();
    p /= sum_p, r /= sum_r;
    AsSparse<double> sparse, sparse_r;
    AsLogits<float, 100> logits;
    sparse.hold(RowMajor<double>(p));
    sparse_r.hold(RowMajor<double>(r));
    logits.hold(RowMajor<double>(p));
    const auto dense = distributions(p).row(0), dense_r = distributions(r).row(0);
    const auto listed = distributions(std::as_const(sparse).view()).row(0);
    const auto listed_r = distributions(std::as_const(sparse_r).view()).row(0);
    const auto of_logits = distributions(std::as_const(logits).view()).row(0);
    const LeastRow least{&p};
    for (Token x = 0; x < size; x += size < 10 ? 1 : 97) {
      if (p[x] == 0) continue;
      CAPTURE(size, x);
      const auto expected = places_by_hand(p, r, x, 0.25);
      check_places(RowPlaces(dense, x, dense_r), expected);
      check_places(RowPlaces(dense, x, listed_r), expected);
      check_places(RowPlaces(listed, x, dense_r), expected);
      check_places(RowPlaces(listed, x, listed_r), expected);
      check_places(RowPlaces(least, x, dense_r), expected);
      CHECK(RowPlaces(of_logits, x).by_rank(0.25) == Approx(expected[0]).margin(1e-5));
      CHECK(RowPlaces(dense, x, dense_r).ratio() ==
            Approx(r[x] / p[x] / (p.array() > 0).select(r, 0.0).sum()));
    }
  }
}

TEST_CASE("hostile input is counted, and convicts only where it must") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  const Row p = row_of({8, 4, 4}), r = row_of({4, 4, 8});
  const auto changed = [&](Token x, double value) {
    Row out = p;
    out[x] = value;
    return out;
  };
  TextAudit audit;
  for (const double bad : {nan, -0.25, inf}) {
    audit.add(changed(1, bad), 0);
    audit.add(changed(1, bad), 1, r);
    audit.add(p, 0, changed(2, bad));
    audit.add(bad, 0.5);
    audit.add(0.5, bad);
  }
  audit.add(Row(p * 0), 0);
  audit.add(1.5, 0.5);
  RowMajor<float> logits = RowMajor<float>::Constant(1, 3, std::numeric_limits<float>::quiet_NaN());
  audit.add(Logits(logits), Token{1});
  TextAuditReport report = audit.report();
  CHECK(report.tokens == 18);
  CHECK(report.unreadable == 12);
  CHECK(report.unreadable_references == 6);
  CHECK(report.impossible == 0);
  CHECK(report.fault == TextFault::none);
  CHECK(audit.largest_evidence() < 1);

  audit.add(Row(p / 2), 1);  // judged as if it were normalised, and told
  audit.add(Row(p * 0.9), 2);
  report = audit.report();
  CHECK(report.bad_sums == 2);
  CHECK(report.least_sum == Approx(0.5));
  CHECK(report.largest_sum == Approx(1));
  std::ostringstream text;
  text << report;
  CHECK_THAT(text.str(),
             Catch::Contains("do not sum to 1 (cut, and not normalised again?): 2, sums from 0.5"));
  audit.add(1e-320, 1);  // the ratio overflows
  CHECK(std::isfinite(audit.evidence()));

  const auto convicts = [](const auto& add) {
    TextAudit fresh;
    add(fresh);
    CHECK(fresh.report().impossible == 1);
    CHECK(fresh.fault() == TextFault::impossible);
    return fresh.convicts(1e-300);
  };
  CHECK(convicts([&](TextAudit& fresh) { fresh.add(p, -1); }));
  CHECK(convicts([&](TextAudit& fresh) { fresh.add(p, 3, r); }));
  CHECK(convicts([&](TextAudit& fresh) { fresh.add(changed(0, 0), 0); }));
  CHECK(convicts([&](TextAudit& fresh) { fresh.add(0.0, 0.5); }));
  CHECK_THAT(message_of([] { TextAudit({.tolerance = -1}); }), Catch::Contains("tolerance = -1"));
  CHECK_THAT(message_of([&] { TextAudit({.tolerance = nan}); }), Catch::Contains("tolerance = nan"));
}

TEST_CASE("a row of a user that throws leaves the audit as it was") {
  struct Throws {
    Index vocab_size() const { return 3; }
    double probability(Token) const { throw std::runtime_error("lost"); }
    PrefixSampler<DenseRow<double>> sampler() const { throw std::runtime_error("lost"); }
  };
  TextAudit audit, other;
  const Row p = row_of({8, 4, 4});
  CHECK_THROWS_AS(audit.add(Throws{}, 1), std::runtime_error);
  CHECK(audit.tokens() == 0);
  for (const Token x : {0, 1, 2}) audit.add(p, x), other.add(p, x);
  CHECK(audit.evidence() == other.evidence());
}

TEST_CASE("audits are copied and merged") {
  const Row p = row_of({8, 4, 4}), r = row_of({2, 4, 10});
  SplitMix64 generator(1);
  TextAudit one({.stream = 1}), two({.stream = 2}), both({.stream = 3});
  for (int i = 0; i < 400; ++i) {  // the text is the reference's
    const Token x = uniform01(generator) < 10. / 16 ? 2 : uniform01(generator) < 4. / 6 ? 1 : 0;
    (i % 2 == 0 ? one : two).add(p, x, r);
    both.add(p, x, r);
  }
  const TextAudit copy = one;
  CHECK(copy.evidence() == one.evidence());
  one.merge(two);
  CHECK(one.tokens() == 400);
  // The numbers U differ, so the gamblers' wealth is not the same to the last digit. That by two numbers is.
  CHECK(one.report().by_two_numbers == Approx(both.report().by_two_numbers));
  CHECK(one.evidence() > 20);
  CHECK(one.evidence() == Approx(both.evidence()).epsilon(0.2));
  CHECK(one.evidence() > copy.evidence() + two.evidence());  // they learn together
  CHECK(one.largest_evidence() >= one.evidence());
  CHECK_THAT(message_of([&] { one.merge(copy); }), Catch::Contains("one seed and one stream"));
  CHECK_THAT(message_of([&] { one.merge(TextAudit({.tolerance = 1, .stream = 9})); }),
             Catch::Contains("tolerances 1e-06 and 1"));
  TextAudit impossible({.stream = 4});
  impossible.add(0.0, 1.0);
  one.merge(impossible);
  CHECK(one.fault() == TextFault::impossible);
}

TEST_CASE("a conviction stays") {
  TextAudit audit;
  for (int i = 0; i < 30; ++i) audit.add(0.1, 0.9);
  const double most = audit.evidence();
  CHECK(audit.convicts(1e-6));
  for (int i = 0; i < 300; ++i) audit.add(0.9, 0.1);
  CHECK(audit.evidence() < 1);
  CHECK(audit.largest_evidence() == most);
  CHECK(audit.convicts(1e-6));
  CHECK(audit.report().convicts(1e-6));
}

TEST_CASE("what is no probability of a false alarm is refused, whatever was found") {
  TextAudit nothing, impossible;
  impossible.add(0.0, 1.0);
  CHECK(impossible.largest_evidence() == std::numeric_limits<double>::infinity());
  for (const TextAudit& audit : {nothing, impossible})
    for (const auto& [alpha, written] : std::initializer_list<std::pair<double, std::string>>{
             {0, "0"}, {1, "1"}, {2, "2"}, {-1e-6, "-1e-06"}, {std::nan(""), "nan"}}) {
      const std::string refusal = "specdec: alpha = " + written + " is outside (0, 1)";
      CHECK(message_of([&] { audit.convicts(alpha); }) == refusal);
      CHECK(message_of([&] { audit.report().convicts(alpha); }) == refusal);
      CHECK_THROWS_AS(audit.convicts(alpha), InvalidArgument);
    }
  CHECK(impossible.convicts(1e-300));
  CHECK(!nothing.convicts(std::nextafter(1, 0)));
}

TEST_CASE("U belongs to the place of a token, and is not that of a Philox of the same seed") {
  const Row p = row_of({8, 8, 0}), flat = row_of({16, 0, 0});
  // The places by rank are U itself in a row of two equal tokens: other seeds give other wealth, one seed the same.
  std::map<std::uint64_t, double> wealth;
  for (const std::uint64_t seed : std::initializer_list<std::uint64_t>{1, 2, 1}) {
    TextAudit audit({.seed = seed});
    for (int i = 0; i < 50; ++i) audit.add(i % 5 == 0 ? flat : p, Token{0});
    const auto [at, fresh] = wealth.emplace(seed, audit.evidence());
    CHECK(at->second == audit.evidence());
  }
  CHECK(wealth.at(1) != wealth.at(2));
  Philox engine(1);
  BasicTextAudit<Philox> shares(engine);
  for (int i = 0; i < 50; ++i) shares.add(i % 5 == 0 ? flat : p, Token{0});
  CHECK(shares.evidence() != wealth.at(1));
}

TEST_CASE("what the tolerance allows is never convicted, and is without it") {
  const double slack = 0.1;
  Row p(8), wrong(8);
  for (Index y = 0; y < 8; ++y) p[y] = 1 + 0.1 * static_cast<double>(y);
  p /= p.sum();
  wrong = p;
  wrong.head(4) *= std::exp(slack);
  wrong.tail(4) *= (1 - wrong.head(4).sum()) / p.tail(4).sum();
  REQUIRE(std::abs(std::log(wrong[7] / p[7])) < slack);
  SplitMix64 generator(1);
  RandomChance chance(generator);
  TextAudit strict, tolerant({.tolerance = slack});
  for (int i = 0; i < 20'000; ++i) {
    const Token x = chance.draw(distributions(wrong).row(0));
    strict.add(p, x, wrong);
    tolerant.add(p, x, wrong);
  }
  CHECK(strict.convicts(1e-6));
  CHECK_FALSE(tolerant.convicts(0.5));
}

// ---- Right engines are not convicted -------------------------------------------------------------------------

namespace {

const Text prompt{2, 1};
constexpr Index vocab = 12;

// A target, and a draft model that is a mixture of the target and something else.
struct Pair {
  TableModel<> target, small;
};
TableModel<> mixture(const TableModel<>& a, const TableModel<>& b, double share_of_a) {
  const Index order = 2, size = a.vocab_size(), states = (size + 1) * (size + 1);
  TableModel<>::Rows rows = TableModel<>::Rows::Constant(states, size, 1. / static_cast<double>(size));
  for (Token x = 0; x < size; ++x)
    for (Token y = 0; y < size; ++y)
      for (Token z = 0; z < size; ++z) {
        const Text context{x, y};
        rows((x + 1) * (size + 1) + y + 1, z) = share_of_a * a.distribution(context).probability(z) +
                                                (1 - share_of_a) * b.distribution(context).probability(z);
      }
  return {rows, order};
}
Pair pair_of(std::uint64_t seed, Index size = vocab) {
  SplitMix64 generator(seed);
  const auto target = TableModel<>::random(size, 2, generator),
             other = TableModel<>::random(size, 2, generator);
  return {mixture(target, other, 0.95), mixture(target, other, 0.3)};
}

// How many audits reached 10^2 and 10^4, at any time.
struct Alarms {
  int audits = 0, hundred = 0, ten_thousand = 0;
  void count(const TextAudit& audit) {
    ++audits;
    hundred += audit.convicts(1e-2);
    ten_thousand += audit.convicts(1e-4);
  }
  // A right engine reaches 10^2 in at most 1 of 100 audits: more than mean + 5 sigma is no chance.
  void check(const std::string& what) const {
    INFO(what << ": of " << audits << " audits " << hundred << " reached 10^2, " << ten_thousand << " 10^4");
    CHECK(hundred <= 0.01 * audits + 5 * std::sqrt(0.01 * audits) + 1);
    CHECK(ten_thousand <= 1e-4 * audits + 5 * std::sqrt(1e-4 * audits) + 1);
    if (exhaustive())
      WARN(what << ": of " << audits << " audits " << hundred << " reached 10^2, " << ten_thousand
                << " 10^4");
  }
};

// Audits the texts of a decoder, each by an audit of its own: what a rule was given, and the text read again.
void check_texts(const std::string& what, auto& decoder, Pair& models, TextAudit& watched, int audits) {
  Alarms within, again;
  std::mt19937_64 rng(5);
  for (int k = 0; k < audits; ++k) {
    watched = TextAudit({.seed = static_cast<std::uint64_t>(k)});
    const Text text = decoder.generate(prompt, {.max_new_tokens = 150, .gamma = 3}, rng).tokens;
    CHECK(watched.tokens() == 150);
    within.count(watched);
    TextAudit audit({.seed = static_cast<std::uint64_t>(k)});
    rescore(audit, models.target, models.small, prompt, text);
    CHECK(audit.tokens() == 150);
    again.count(audit);
  }
  within.check(what + ", watched");
  again.check(what + ", read again");
}

}  // namespace

TEST_CASE("texts of right rules for lines are not convicted") {
  const int audits = bound(40, 800);
  const Pair models = pair_of(1);
  Pair readers = models;
  for (const AnyVerifier& rule : {AnyVerifier{TokenVerifier{}}, AnyVerifier{BlockVerifier{}},
                                  AnyVerifier{GreedyBlockVerifier{}}, AnyVerifier{SampleMatchVerifier{}}}) {
    TextAudit watched;
    SpecDec decoder{TableModel<>(models.target),
                    AuditedText{ModelDrafter{TableModel<>(models.small)}, watched}, for_loops(rule)};
    check_texts(rule.name(), decoder, readers, watched, audits);
  }
}

TEST_CASE("texts of right rules for trees are not convicted") {
  const int audits = bound(40, 500);
  const Pair models = pair_of(2);
  Pair readers = models;
  TextAudit watched;
  SpecDec decoder{TableModel<>(models.target),
                  AuditedText{ModelDrafter{TableModel<>(models.small),
                                           Tree{TreeShape::of_widths({2, 2, 1}), WithoutReplacement{}}},
                              watched},
                  TraversalVerifier{}};
  check_texts("traversal", decoder, readers, watched, audits);
}

TEST_CASE("the texts of a batch are not convicted, all in one audit") {
  const int audits = bound(10, 300);
  const Pair models = pair_of(3);
  Alarms within;
  for (int k = 0; k < audits; ++k) {
    TextAudit audit({.seed = static_cast<std::uint64_t>(k)});
    Batch batch{ModelPerSequence{TableModel<>(models.target)},
                AuditedText{ModelDrafter{TableModel<>(models.small)}, audit}, BlockVerifier{}};
    for (std::uint64_t i = 0; i < 5; ++i)
      batch.add(prompt, {.max_new_tokens = 60, .gamma = 3}, Philox{static_cast<std::uint64_t>(k), 0, i});
    while (!batch.empty()) batch.step();
    CHECK(audit.tokens() == 300);
    within.count(audit);
  }
  within.check("batch");
}

TEST_CASE("rows with the rounding of other kernels are not convicted") {
  Alarms alarms;
  Pair models = pair_of(4);
  SplitMix64 noise(3);
  RandomChance chance(noise);
  for (int k = 0; k < bound(40, 2300); ++k) {
    TextAudit audit({.tolerance = 1e-3, .seed = static_cast<std::uint64_t>(k)});
    Text text = prompt;
    for (int i = 0; i < 200; ++i) {
      const auto p = models.target.distribution(text);
      Row seen(vocab);
      for (Token x = 0; x < vocab; ++x) seen[x] = p.probability(x) * (1 + 8e-4 * (uniform01(noise) - 0.5));
      const Token x = chance.draw(p);
      audit.add(distributions(seen).row(0), x, models.small.distribution(text));
      text.push_back(x);
    }
    alarms.count(audit);
  }
  alarms.check("rounding");
}

// ---- Mistakes are convicted ----------------------------------------------------------------------------------

namespace {

// Token verification with one mistake.
struct Wrong {
  enum class Mistake {
    right,
    from_p,
    next_row,
    no_q,
    upside_down,
    lenient,
    smoothed,
    one_number,
    no_residual
  };
  Mistake mistake;
  static constexpr bool needs_draft = true;

  Verdict judge(const auto& drafted, auto& chance) const {
    for (Index i = 0; i < drafted.gamma(); ++i) {
      const double p = drafted.p(i), q = drafted.q(i);
      if (mistake == Mistake::one_number) {
        // One number decides on the token, and what is left of it draws the replacement.
        const double u = uniform(chance), accept = std::min(1.0, p / q);
        if (u < accept) continue;
        const ResidualRow residual(1.0, drafted.target(i), 1.0, drafted.draft(i));
        return {i, residual.sampler()(u)};
      }
      if (chance.coin(acceptance(p, q))) continue;
      if (mistake == Mistake::from_p) return {i, drafted.draw(chance, i)};
      if (mistake == Mistake::next_row)
        return {i, *chance.race(1.0, drafted.target(i + 1), drafted.draft(i))};
      if (mistake == Mistake::no_residual) return {i, chance.draw(drafted.draft(i))};
      return {i, *drafted.race(chance, 1.0, i)};
    }
    return {drafted.gamma(), drafted.draw(chance, drafted.gamma())};
  }

  double acceptance(double p, double q) const {
    switch (mistake) {
      case Mistake::no_q:
        return p;
      case Mistake::upside_down:
        return std::min(1.0, q / std::max(p, 1e-9));
      case Mistake::lenient:
        return std::min(1.0, 1.3 * p / q);
      case Mistake::smoothed:
        return std::min(1.0, p / (q + 0.05));
      default:
        return std::min(1.0, p / q);
    }
  }
  // A number with 20 bits, by draws.
  static double uniform(auto& chance) {
    double u = 0;
    for (double half = 0.5; half > 1e-6; half /= 2) u += chance.coin(0.5) ? half : 0;
    return u;
  }
};

// The number of tokens until 10^4, by reading the text again; `most` + 1 if it was not reached.
struct Conviction {
  Index tokens;
  TextFault fault;
};
Conviction conviction(Wrong rule, Pair& models, Index most) {
  SpecDec decoder{TableModel<>(models.target), ModelDrafter{TableModel<>(models.small)}, rule};
  std::mt19937_64 rng(7);
  TextAudit audit;
  Text text = prompt;
  while (audit.tokens() < most) {
    const Text more = decoder.generate(prompt, {.max_new_tokens = 100, .gamma = 3}, rng).tokens;
    rescore(audit, models.target, models.small, prompt, more);
    if (audit.convicts(1e-4)) return {audit.tokens(), audit.fault()};
  }
  return {most + 1, audit.fault()};
}

}  // namespace

TEST_CASE("a text is read alone, whatever the models have read before") {
  Pair models = pair_of(2);
  const Text tokens{1, 0, 2, 1, 0, 2};
  Text fed = prompt;
  fed.insert(fed.end(), tokens.begin(), tokens.end() - 1);  // nothing is read after the last token
  const auto context_of = [](const TableModel<>& model) {
    return Text(model.context().begin(), model.context().end());
  };
  TextAudit audit;
  for (int times = 0; times < 2; ++times) {
    rescore(audit, models.target, models.small, prompt, tokens);
    CHECK(context_of(models.target) == fed);
    CHECK(context_of(models.small) == fed);
    rescore(audit, models.target, prompt, tokens);
    CHECK(context_of(models.target) == fed);
  }
}

TEST_CASE("mistakes of rules are convicted, and named") {
  using enum Wrong::Mistake;
  using enum TextFault;
  struct Case {
    const char* name;
    Wrong rule;
    Index most;
    TextFault fault;
  };
  Pair models = pair_of(6);
  for (const Case& the : std::initializer_list<Case>{
           {"replacement from p", {from_p}, 2000, liked_often},
           {"replacement from the next row", {next_row}, 1000, impossible},
           {"a coin without q", {no_q}, 1000, liked_seldom},
           {"the ratio upside down", {upside_down}, 1000, liked_often},
           {"lenience", {lenient}, 12'000, liked_often},
           {"q + 0.05", {smoothed}, 12'000, liked_seldom},
           {"the replacement from the draft's row", {no_residual}, 1000, liked_often},
           {"one number for coin and draw", {one_number}, 12'000, ids},
       }) {
    const Conviction found = conviction(the.rule, models, the.most);
    INFO(the.name << ": " << found.tokens << " tokens, " << found.fault);
    CHECK(found.tokens <= the.most);
    CHECK(found.fault == the.fault);
    if (exhaustive()) WARN(the.name << ": " << found.tokens << " tokens");
  }
  CHECK(conviction({right}, models, 2000).tokens == 2001);
}

}  // namespace test_more_audits_text_audit
