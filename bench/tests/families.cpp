// Tests of bench/acceptance: the synthetic rows, their dial, and the models with these rows.
// Oracles: sums, overlaps and orders computed here from the rows; moments of the normal and the gamma distribution; the toy
// models of Sun et al., Section 2; a few recorded numbers.
// Seeds are fixed, so that a passing test always passes. Moments and counts may differ by four standard errors. A right
// generator exceeds this with probability 6.3e-5: with other seeds, one of the 19 would fail in 0.12 % of the cases.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <exception>
#include <functional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "acceptance/families.hpp"
#include "acceptance/hashed_model.hpp"
#include "acceptance/markov.hpp"
#include "acceptance/pool.hpp"
#include "specdec/model/model.hpp"
#include "specdec/rows/read/validate.hpp"
#include "support/bounds.hpp"
#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_bench_families {

namespace {

using acceptance::HashedModel;
using acceptance::Pool;
using acceptance::PoolSetting;
using acceptance::Row;
using acceptance::Side;
using acceptance::SplitMix64;
using specdec::Index;
using specdec::Token;

static_assert(specdec::Model<HashedModel>);
static_assert(specdec::has_stable_rows<HashedModel>);

std::vector<float> row_of(const Pool& pool, Side side, Index context) {
  const float* row = pool.row(side, context);
  return {row, row + pool.vocab_size()};
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  std::apply([&](const auto&... family) { (names.emplace_back(family.name), ...); }, acceptance::families);
  return names;
}

// The mean of Σ min(p, q).
double overlap_of(const Pool& pool) {
  double sum = 0;
  for (Index i = 0; i < pool.contexts(); ++i) {
    const auto p = row_of(pool, Side::target, i), q = row_of(pool, Side::draft, i);
    for (std::size_t x = 0; x < p.size(); ++x) sum += static_cast<double>(std::min(p[x], q[x]));
  }
  return sum / static_cast<double>(pool.contexts());
}

// What is wrong with the pool's rows as distributions. Empty if they are valid.
std::string complaint_about(const Pool& pool) {
  std::vector<const float*> rows;
  for (const Side side : {Side::target, Side::draft})
    for (Index i = 0; i < pool.contexts(); ++i) rows.push_back(pool.row(side, i));
  return support::message_of<std::exception>(
      [&] { specdec::validate(specdec::RowPointers<float>(rows, pool.vocab_size()), "row", 1e-5); });
}

void check_says(const char* what, const std::function<void()>& f) {
  const std::string message = support::message_of(f);
  INFO(message);
  CHECK(message.find(what) != std::string::npos);
}

// Pools that take seconds to make are tested with the larger bounds only.
using support::exhaustive;

TEST_CASE("Rows of every family are distributions that overlap as much as was dialled") {
  for (const std::string& family : family_names())
    for (const Index vocab_size : {2, 5, 300})
      for (const double beta : {0.7, 0.9, 0.99}) {
        if (vocab_size == 2 && beta < 0.9 && family != "toy" && family != "disjoint") continue;
        if (family == "flattened" && vocab_size == 5 && beta < 0.9) continue;
        if (vocab_size == 300 && beta != 0.9 && !exhaustive()) continue;
        CAPTURE(family, vocab_size, beta);
        const Pool pool({.family = family, .vocab_size = vocab_size, .overlap = beta});
        CHECK(overlap_of(pool) == Approx(beta).margin(acceptance::dial_tolerance));
        CHECK(pool.overlap() == Approx(overlap_of(pool)).margin(1e-5));
        CHECK(complaint_about(pool) == "");
      }
}

TEST_CASE("The dial goes from 0.1 to 0.99, and vocabularies to 256 000") {
  for (const char* family : {"zipf", "truncated", "disjoint"})
    for (const double beta : {0.1, 0.5})
      CHECK(overlap_of(Pool({.family = family, .vocab_size = 300, .overlap = beta})) ==
            Approx(beta).margin(acceptance::dial_tolerance));
  const char* family = exhaustive() ? "disjoint" : "toy";  // toy rows are quick to make
  const double beta = exhaustive() ? 0.1 : 0.75;
  const Pool large({.family = family, .vocab_size = 256'000, .overlap = beta});
  CHECK(large.contexts() == 32);
  CHECK(overlap_of(large) == Approx(beta).margin(acceptance::dial_tolerance));
}

TEST_CASE("The same seed makes the same rows, bit for bit; another seed others") {
  for (const std::string& family : family_names()) {
    CAPTURE(family);
    const PoolSetting setting{.family = family, .vocab_size = 40, .overlap = 0.8, .seed = 3};
    PoolSetting other = setting;
    other.seed = 4;
    const Pool a(setting), b(setting), c(other);
    bool differs = false;
    for (const Side side : {Side::target, Side::draft})
      for (Index i = 0; i < a.contexts(); ++i) {
        REQUIRE(row_of(a, side, i) == row_of(b, side, i));
        differs = differs || row_of(a, side, i) != row_of(c, side, i);
      }
    CHECK(differs == (family != "toy"));
  }
}

TEST_CASE("Rows are the same under every standard library") {
  const Pool pool({.family = "zipf", .vocab_size = 4, .overlap = 0.8, .seed = 7});
  const auto p = row_of(pool, Side::target, 5), q = row_of(pool, Side::draft, 5);
  CHECK(pool.knob() == Approx(0.789914131).epsilon(1e-5));
  CHECK(p[0] == Approx(0.0593959168).epsilon(1e-4));
  CHECK(q[3] == Approx(0.0501362011).epsilon(1e-4));
  SplitMix64 generator(11);
  CHECK(acceptance::gamma(generator, 0.3) == Approx(0.0867321607967).epsilon(1e-9));
}

TEST_CASE("Contexts of a pool have rows of their own; a toy has one row for all") {
  for (const std::string& family : family_names()) {
    CAPTURE(family);
    const Pool pool({.family = family, .vocab_size = 50, .overlap = 0.8});
    std::set<std::vector<float>> rows;
    for (Index i = 0; i < pool.contexts(); ++i) rows.insert(row_of(pool, Side::target, i));
    CHECK(std::ssize(rows) == (family == "toy" ? 1 : pool.contexts()));
  }
}

TEST_CASE("A family that there is not, and an overlap out of reach, are named") {
  check_says("family = gauss", [&] { Pool({.family = "gauss"}); });
  check_says("vocab_size = 0", [&] { Pool({.vocab_size = 0}); });
  check_says("temperature = -1", [&] { Pool({.temperature = -1}); });
  // With two tokens, even the worst drafter is right every second time.
  check_says("overlap = 0.1 is outside", [&] { Pool({.vocab_size = 2, .overlap = 0.1}); });
  check_says("overlap = 1.1 is outside", [&] { Pool({.overlap = 1.1}); });
  // A step from 1 to 0: no knob gives a value between.
  check_says("skipped by a jump at knob 0.3",
             [&] { acceptance::dial([](double knob) { return knob < 0.3 ? 1.0 : 0.0; }, 1, 0.5); });
}

TEST_CASE("Truncation keeps the likeliest tokens of each row, and no more") {
  acceptance::Truncated family;
  family.kept = 2;
  Row row(5);
  row << 1, 5, 3, 4, 2;
  family.finish(row);
  CHECK((row == (Row(5) << 0, 5, 0, 4, 0).finished()).all());
  family.kept = 5;
  row << 1, 5, 3, 4, 2;
  family.finish(row);
  CHECK(row[0] == 1);

  const Pool pool({.family = "truncated", .vocab_size = 300, .overlap = 0.6});
  Index elsewhere = 0;
  for (Index i = 0; i < pool.contexts(); ++i) {
    const auto p = row_of(pool, Side::target, i), q = row_of(pool, Side::draft, i);
    CHECK(std::count_if(p.begin(), p.end(), [](float x) { return x > 0; }) == 20);
    CHECK(std::count_if(q.begin(), q.end(), [](float x) { return x > 0; }) == 20);
    for (std::size_t x = 0; x < p.size(); ++x) elsewhere += p[x] == 0 && q[x] > 0;
  }
  CHECK(elsewhere > pool.contexts());  // target and draft cut different tokens
}

// The exponent c of q ∝ p^c, from two tokens. If q is such a power, all pairs of tokens give the same c.
double exponent(const std::vector<float>& p, const std::vector<float>& q, std::size_t x, std::size_t y) {
  return std::log(q[x] / q[y]) / std::log(p[x] / p[y]);
}

TEST_CASE("Sharpened and flattened drafts are powers of the target") {
  for (const char* family : {"sharpened", "flattened"}) {
    const Pool pool({.family = family, .vocab_size = 30, .overlap = 0.85});
    const double sharp = std::string(family) == "sharpened" ? 1 / (1 - pool.knob()) : 1 - pool.knob();
    CHECK((std::string(family) == "sharpened" ? sharp > 1.1 : sharp < 0.9));
    for (Index i = 0; i < 20; ++i) {
      const auto p = row_of(pool, Side::target, i), q = row_of(pool, Side::draft, i);
      const auto top = static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
      CHECK(exponent(p, q, top, (top + 11) % 30) == Approx(sharp).epsilon(1e-3));
      CHECK(exponent(p, q, top, (top + 17) % 30) == Approx(sharp).epsilon(1e-3));
    }
  }
}

TEST_CASE("Disjoint drafts lose the same mass everywhere, to tokens that the target rules out") {
  const Pool pool({.family = "disjoint", .vocab_size = 30, .overlap = 0.65});
  for (Index i = 0; i < pool.contexts(); ++i) {
    const auto p = row_of(pool, Side::target, i), q = row_of(pool, Side::draft, i);
    double lost = 0;
    for (std::size_t x = 1; x < p.size(); x += 2) {
      REQUIRE(p[x] == 0);
      lost += static_cast<double>(q[x]);
    }
    CHECK(lost == Approx(0.35).margin(acceptance::dial_tolerance));
    CHECK(q[2] == Approx(0.65 * static_cast<double>(p[2])).margin(1e-3));
  }
}

TEST_CASE("The toy at two thirds is the paper's") {
  const Pool pool({.family = "toy", .vocab_size = 2, .overlap = 2. / 3});
  CHECK(pool.knob() == Approx(1. / 3).margin(1e-4));
  CHECK(row_of(pool, Side::target, 9)[0] == Approx(1. / 3).margin(1e-4));
  CHECK(row_of(pool, Side::draft, 9)[0] == Approx(2. / 3).margin(1e-4));
  CHECK_NOTHROW(Pool({.family = "toy", .vocab_size = 1, .overlap = 1}));
}

TEST_CASE("Temperature comes after the dial, and is that of both models") {
  PoolSetting setting{.vocab_size = 50, .overlap = 0.75};
  const Pool warm(setting);
  setting.temperature = 0.5;
  const Pool cool(setting);
  setting.temperature = 0;
  const Pool greedy(setting);
  CHECK(cool.knob() == warm.knob());
  for (const Side side : {Side::target, Side::draft})
    for (Index i = 0; i < 20; ++i) {
      const auto at_1 = row_of(warm, side, i), at_half = row_of(cool, side, i),
                 at_0 = row_of(greedy, side, i);
      const auto top = static_cast<std::size_t>(std::max_element(at_1.begin(), at_1.end()) - at_1.begin());
      CHECK(exponent(at_1, at_half, top, (top + 13) % 50) == Approx(2).epsilon(1e-3));
      CHECK(at_0[top] == 1);
      CHECK(std::count(at_0.begin(), at_0.end(), 0.0f) == 49);
    }
}

TEST_CASE("Normal and gamma numbers have the moments of their laws") {
  SplitMix64 generator(5);
  const int n = 200'000;
  double sum = 0, squares = 0, fourth = 0;
  for (int k = 0; k < n; ++k) {
    const double x = acceptance::normal(generator);
    sum += x, squares += x * x, fourth += x * x * x * x;
  }
  // Standard errors: 1/√n = 0.0022, √(2/n) = 0.0032, √(96/n) = 0.022; four of each.
  CHECK(sum / n == Approx(0).margin(0.009));
  CHECK(squares / n == Approx(1).margin(0.013));
  CHECK(fourth / n == Approx(3).margin(0.088));
  for (const double shape : {0.1, 0.7, 1.0, 2.5}) {
    double first = 0, second = 0;
    for (int k = 0; k < n; ++k) {
      const double x = acceptance::gamma(generator, shape);
      first += x, second += x * x;
    }
    // Mean a, E x² = a(a + 1), Var x² = E x⁴ − (E x²)².
    const double a = shape, square = a * (a + 1), var = square * (a + 2) * (a + 3) - square * square;
    CHECK(first / n == Approx(a).margin(4 * std::sqrt(a / n)));
    CHECK(second / n == Approx(square).margin(4 * std::sqrt(var / n)));
  }
}

TEST_CASE("Numbers below a count are uniform, and mixed seeds are told apart") {
  SplitMix64 generator(2);
  std::vector<int> counts(7);
  for (int k = 0; k < 70'000; ++k) ++counts.at(static_cast<std::size_t>(acceptance::below(generator, 7)));
  for (const int count : counts) CHECK(count == Approx(10'000).margin(4 * std::sqrt(10'000 * 6. / 7)));
  std::set<std::uint64_t> seen;
  for (std::uint64_t a = 0; a < 50; ++a)
    for (std::uint64_t b = 0; b < 50; ++b) seen.insert(acceptance::mixed(a, b));
  CHECK(seen.size() == 2500);
}

TEST_CASE("A hashed model depends on its last tokens, on all of them, and on nothing before") {
  const Pool pool({.vocab_size = 40, .overlap = 0.8});
  HashedModel target(pool, Side::target, 2);
  const HashedModel draft(pool, Side::draft, 2);
  std::set<Index> slots;
  for (Token a = 0; a < 40; ++a)
    for (Token b = 0; b < 40; ++b) {
      const std::vector<Token> context{3, a, b}, longer{7, 9, a, b};
      const Index slot = acceptance::slot_of(context, 2, pool.contexts());
      slots.insert(slot);
      CHECK(slot == acceptance::slot_of(longer, 2, pool.contexts()));
      CHECK(target.distribution(context).probability(5) == pool.row(Side::target, slot)[5]);
      CHECK(draft.distribution(context).probability(5) == pool.row(Side::draft, slot)[5]);
    }
  // 1600 contexts over 1024 slots hit 1024·(1 − e^−1.56) = 809 ± 13 of them.
  CHECK(std::ssize(slots) == Approx(809).margin(52));
  const std::vector<Token> ab{1, 2}, ba{2, 1}, b{2}, zero{0};
  CHECK(acceptance::slot_of(ab, 2, 1024) != acceptance::slot_of(ba, 2, 1024));
  CHECK(acceptance::slot_of(ab, 2, 1024) != acceptance::slot_of(b, 2, 1024));
  CHECK(acceptance::slot_of({}, 2, 1024) != acceptance::slot_of(zero, 2, 1024));
  CHECK(acceptance::slot_of(ab, 1, 1024) == acceptance::slot_of(b, 1, 1024));
}

TEST_CASE("A hashed model appends, answers the last rows, and rolls back") {
  const Pool pool({.vocab_size = 40, .overlap = 0.8});
  HashedModel model(pool, Side::draft, 2);
  const std::vector<Token> start{4, 8, 15}, more{16, 23};
  const auto rows = model.forward(start, 2);
  REQUIRE(rows.rows() == 2);
  REQUIRE(rows.cols() == 40);
  const std::vector<Token> before{4, 8};
  CHECK(rows.row(0)[7] == static_cast<float>(model.distribution(before).probability(7)));
  CHECK(rows.row(1)[7] == static_cast<float>(model.distribution(start).probability(7)));
  model.truncate(5);
  model.truncate(1);
  const std::vector<Token> whole{4, 16, 23};
  CHECK(model.forward(more, 1).row(0)[7] == static_cast<float>(model.distribution(whole).probability(7)));

  check_says("rows = 3 is outside 1..2", [&] { model.forward(more, 3); });
  check_says("rows = 0", [&] { model.forward(more, 0); });
  const std::vector<Token> foreign{40};
  check_says("40", [&] { model.forward(foreign, 1); });
  check_says("order = -1", [&] { HashedModel(pool, Side::draft, -1); });
}

TEST_CASE("The drafter of a Markov pair sees one token less than the target") {
  const auto pair = acceptance::markov_pair(4, 2, 0.75, 9);
  double sum = 0;
  for (Token b = -1; b < 4; ++b)
    for (Token a = -1; a < 4; ++a) {
      if (b < 0 && a >= 0) continue;
      std::vector<Token> context;
      if (a >= 0) context.push_back(a);
      if (b >= 0) context.push_back(b);
      const std::vector<Token> last(context.end() - (b >= 0), context.end());
      const auto p = pair.target.distribution(context), q = pair.draft.distribution(context);
      for (Token x = 0; x < 4; ++x) {
        CHECK(q.probability(x) == pair.draft.distribution(last).probability(x));
        sum += std::min(p.probability(x), q.probability(x));
      }
    }
  // The table also has four states (a, none), which no context reaches.
  CHECK(sum / 21 == Approx(0.75).margin(0.05));
  const std::vector<Token> ab{0, 1}, cb{2, 1}, ba{1, 0};
  CHECK(pair.target.distribution(ab).probability(0) != pair.target.distribution(cb).probability(0));
  CHECK(pair.draft.distribution(ab).probability(0) != pair.draft.distribution(ba).probability(0));
  check_says("order = 0", [&] { acceptance::markov_pair(4, 0, 0.75, 9); });
  check_says("overlap = 0.01", [&] { acceptance::markov_pair(4, 2, 0.01, 9); });
}

}  // namespace

}  // namespace test_bench_families
