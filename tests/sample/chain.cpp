// Each step, and chains of them, against what sorting says.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <specdec/sample/chain.hpp>
#include <specdec/sample/min_p.hpp>
#include <specdec/sample/temperature.hpp>
#include <specdec/sample/top_k.hpp>
#include <specdec/sample/top_p.hpp>
#include <stdexcept>
#include <vector>

#include "support/catch.hpp"

using namespace specdec;

static_assert(RowStep<Temperature> && RowStep<TopK> && RowStep<TopP> && RowStep<MinP> &&
              RowStep<Chain<TopK, TopP>>);

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// A distribution as a list of logits and which of them are kept, and the steps by sorting that list.
class Sorted {
 public:
  template <class S>
  explicit Sorted(const std::vector<S>& logits) {
    for (const S l : logits) logits_.push_back(static_cast<double>(l));
    cut_ = std::numeric_limits<double>::lowest();
    largest_ = *std::ranges::max_element(logits_);
  }

  bool kept(std::size_t x) const { return logits_[x] >= cut_; }

  void temperature(double t) { temperature_ *= t; }

  void top_k(Index k) {
    const auto sorted = kept_sorted();
    if (k > 0 && k < std::ssize(sorted)) cut_ = sorted[static_cast<std::size_t>(k - 1)];
  }

  void top_p(double p) {
    const auto sorted = kept_sorted();
    if (p == 1 || temperature_ == 0) return;
    long double total = 0, mass = 0;
    for (const double l : sorted) total += weight(l);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      mass += weight(sorted[i]);
      if (i + 1 < sorted.size() && sorted[i + 1] == sorted[i]) continue;
      if (std::abs(mass / total - p) < 3e-6L) unclear_ = true;
      if (mass < p * total) continue;
      cut_ = sorted[i];
      return;
    }
  }

  void min_p(double p) {
    if (p > 0 && temperature_ > 0) cut_ = std::max(cut_, largest_ + temperature_ * std::log(p));
  }

  // Whether a mass is so near to p that rounding decides.
  bool unclear() const { return unclear_; }

  std::vector<double> probabilities() const {
    long double total = 0;
    std::vector<double> out(logits_.size());
    const auto first = std::ranges::max_element(logits_) - logits_.begin();
    const auto p = [&](std::size_t x) {
      if (temperature_ == 0) return static_cast<std::ptrdiff_t>(x) == first ? 1.0L : 0.0L;
      return kept(x) ? weight(logits_[x]) : 0.0L;
    };
    for (std::size_t x = 0; x < out.size(); ++x) total += p(x);
    for (std::size_t x = 0; x < out.size(); ++x) out[x] = static_cast<double>(p(x) / total);
    return out;
  }

 private:
  long double weight(double l) const {
    return std::exp(static_cast<long double>(l - largest_) / static_cast<long double>(temperature_));
  }
  std::vector<double> kept_sorted() const {
    std::vector<double> sorted;
    for (std::size_t x = 0; x < logits_.size(); ++x)
      if (kept(x)) sorted.push_back(logits_[x]);
    std::ranges::sort(sorted, std::greater<>());
    return sorted;
  }

  std::vector<double> logits_;
  double temperature_ = 1, cut_, largest_;
  bool unclear_ = false;
};

// Rows of many kinds: flat, peaked, with ties, masked.
template <class S>
std::vector<S> random_logits(Index size, std::mt19937_64& rng) {
  std::normal_distribution<double> normal(0, 1);
  const auto pick = [&](auto... options) {
    const double list[] = {static_cast<double>(options)...};
    return list[rng() % sizeof...(options)];
  };
  const double spread = pick(0.0, 0.3, 1.0, 4.0), grid = pick(0.0, 0.25, 1.0),
               offset = pick(0.0, -20.0, 15.0);
  const double zipf = pick(0.0, 1.6), masked = pick(0.0, 0.0, 0.3, 0.95);
  std::vector<S> logits(static_cast<std::size_t>(size));
  for (Index x = 0; x < size; ++x) {
    double l = spread * normal(rng) + offset - zipf * std::log(1.0 + static_cast<double>(x));
    if (grid > 0) l = std::round(l / grid) * grid;
    const bool none = static_cast<double>(rng() % 1000) < 1000 * masked;
    logits[static_cast<std::size_t>(x)] = static_cast<S>(static_cast<float>(none ? -infinity : l));
  }
  auto& one = logits[rng() % logits.size()];
  if (static_cast<float>(one) == -std::numeric_limits<float>::infinity()) one = static_cast<S>(float(offset));
  return logits;
}

template <class S>
LogitsRow<S> row_of(const std::vector<S>& logits) {
  return LogitsRow<S>(NumberRow<S>(logits.data(), std::ssize(logits)));
}

// The rows must agree in which tokens they keep and in what these weigh.
template <class S>
void check_row(const LogitsRow<S>& row, const Sorted& expected) {
  const auto p = expected.probabilities();
  double worst = 0;
  bool same_tokens = true;
  for (std::size_t x = 0; x < p.size(); ++x) {
    const double got = row.probability(static_cast<Token>(x));
    same_tokens &= (got > 0) == (p[x] > 0) || (got < 1e-200 && p[x] < 1e-200);
    worst = std::max(worst, std::abs(got - p[x]) / std::max(p[x], 1e-9));
  }
  CHECK(same_tokens);
  CHECK(worst < (std::same_as<S, double> ? 1e-9 : 4e-6));
}

template <class S>
Index random_size(std::mt19937_64& rng) {
  const Index limits[] = {3, 40, 600, 2049, 3000};
  return 1 + static_cast<Index>(rng() % static_cast<std::uint64_t>(limits[rng() % 5]));
}

double uniform(std::mt19937_64& rng) { return static_cast<double>(rng() >> 11) * 0x1p-53; }

}  // namespace

TEMPLATE_TEST_CASE("each step keeps what sorting keeps", "", float, double, Eigen::half, Eigen::bfloat16) {
  std::mt19937_64 rng{1};
  for (int n = 0; n < 300; ++n) {
    const auto logits = random_logits<TestType>(random_size<TestType>(rng), rng);
    const Index size = std::ssize(logits);
    const auto row = row_of(logits);
    for (const Index k : {Index{1}, Index{2}, Index(rng()) % size, size - 1, size, size + 1}) {
      if (k < 0) continue;
      Sorted expected(logits);
      expected.top_k(k);
      check_row(TopK(k)(row), expected);
    }
    for (const double p : {1e-9, 0.1, 0.5, 0.95, uniform(rng), 1 - 1e-4}) {
      Sorted expected(logits);
      expected.top_p(p);
      if (!expected.unclear()) check_row(TopP(p)(row), expected);
    }
    for (const double p : {1.0, 0.5, 0.05, 1e-6, uniform(rng)}) {
      Sorted expected(logits);
      expected.min_p(p);
      check_row(MinP(p)(row), expected);
    }
    for (const double t : {0.0, 0.5, 1.0, 1.7}) {
      Sorted expected(logits);
      expected.temperature(t);
      check_row(Temperature(t)(row), expected);
    }
  }
}

TEMPLATE_TEST_CASE("chains apply their steps in the order written", "", float, double, Eigen::half,
                   Eigen::bfloat16) {
  std::mt19937_64 rng{2};
  for (int n = 0; n < 400; ++n) {
    const auto logits = random_logits<TestType>(random_size<TestType>(rng), rng);
    const double t = 0.3 + 1.5 * uniform(rng), p = uniform(rng), m = 0.2 * uniform(rng);
    const auto k = static_cast<Index>(rng() % logits.size());
    const auto row = row_of(logits);
    Sorted a(logits), b(logits), c(logits), d(logits);
    a.temperature(t), a.top_k(k), a.top_p(p), a.min_p(m);
    if (!a.unclear()) check_row(Chain{Temperature(t), TopK(k), TopP(p), MinP(m)}(row), a);
    b.top_k(k), b.top_p(p), b.min_p(m), b.temperature(t);
    if (!b.unclear()) check_row(Chain{TopK(k), TopP(p), MinP(m), Temperature(t)}(row), b);
    c.min_p(m), c.top_p(p), c.temperature(t), c.top_p(p), c.top_k(k);
    if (!c.unclear()) check_row(Chain{MinP(m), TopP(p), Temperature(t), TopP(p), TopK(k)}(row), c);
    d.top_p(p), d.top_k(k), d.temperature(0), d.min_p(m);
    if (!d.unclear()) check_row(Chain{TopP(p), TopK(k), Temperature(0.0), MinP(m), TopP(p)}(row), d);
  }
}

TEMPLATE_TEST_CASE("steps on rows too large to gather keep what sorting keeps", "", float, double,
                   Eigen::half, Eigen::bfloat16) {
  std::mt19937_64 rng{3};
  for (const Index size : {20'000, 128'256})
    for (int n = 0; n < (size > 100'000 ? 6 : 40); ++n) {
      auto logits = random_logits<TestType>(size, rng);
      if (n % 3 == 0) std::ranges::shuffle(logits, rng);
      const auto row = row_of(logits);
      const double p = n % 2 == 0 ? 0.95 : uniform(rng);
      const Index k = n % 2 == 0 ? 40 : static_cast<Index>(rng() % logits.size());
      Sorted by_k(logits), by_p(logits), chained(logits);
      by_k.top_k(k);
      check_row(TopK(k)(row), by_k);
      by_p.top_p(p);
      if (!by_p.unclear()) check_row(TopP(p)(row), by_p);
      chained.temperature(0.8), chained.top_k(k), chained.top_p(p), chained.min_p(0.05);
      if (!chained.unclear()) check_row(Chain{Temperature(0.8), TopK(k), TopP(p), MinP(0.05)}(row), chained);
    }
}

TEST_CASE("neutral values leave a row as it is") {
  const std::vector<float> logits{1, 2, -std::numeric_limits<float>::infinity(), 2, 0};
  const auto row = row_of(logits);
  const auto same = Chain{Temperature(1.0), TopK(0), TopP(1.0), MinP(0.0)}(row);
  CHECK(same.cut() == row.cut());
  CHECK(same.temperature() == 1);
  CHECK(TopK(5)(row).cut() == row.cut());
  CHECK(TopK(1000)(row).cut() == row.cut());
  CHECK(Chain{}(row).probability(1) == row.probability(1));
}

TEST_CASE("tokens of equal logit stay or go together") {
  const std::vector<double> logits{2, 1, 1, 1, 0};
  const auto row = row_of(logits);
  const auto count = [](const auto& r) {
    int n = 0;
    for (Token x = 0; x < r.vocab_size(); ++x) n += r.probability(x) > 0 ? 1 : 0;
    return n;
  };
  CHECK(count(TopK(1)(row)) == 1);
  CHECK(count(TopK(2)(row)) == 4);
  CHECK(count(TopK(3)(row)) == 4);
  CHECK(count(TopK(4)(row)) == 4);
  const double first = row.probability(0), second = row.probability(1);
  CHECK(count(TopP(first - 0.01)(row)) == 1);
  CHECK(count(TopP(first + 0.01)(row)) == 4);
  CHECK(count(TopP(first + second + 0.01)(row)) == 4);
  CHECK(count(TopP(first + 3 * second + 0.01)(row)) == 5);
  CHECK(count(TopP(1e-12)(row)) == 1);
  CHECK(count(MinP(std::exp(-1.0) * 0.999)(row)) == 4);
  CHECK(count(MinP(1.0)(row)) == 1);
}

TEMPLATE_TEST_CASE("rows of few different numbers", "", float, double, Eigen::half) {
  const auto low = static_cast<TestType>(static_cast<float>(-infinity));
  for (const Index size : {1, 2, 513, 2049, 30'000, 128'256}) {
    const auto n = static_cast<std::size_t>(size);
    // All equal; two values; one finite; -0 and +0, which are equal.
    std::vector<std::vector<TestType>> rows(4, std::vector<TestType>(n, TestType(1)));
    for (std::size_t x = 0; x < n; x += 3) rows[1][x] = TestType(2);
    std::ranges::fill(rows[2], low);
    rows[2][n / 2] = TestType(-3);
    for (std::size_t x = 0; x < n; ++x) rows[3][x] = static_cast<TestType>(x % 2 == 0 ? 0.0f : -0.0f);
    for (const auto& logits : rows)
      for (const double q : {0.0001, 0.45, 0.9, 0.9999}) {
        Sorted by_p(logits), by_k(logits);
        by_p.top_p(q);
        if (!by_p.unclear()) check_row(TopP(q)(row_of(logits)), by_p);
        const auto k = std::max<Index>(1, static_cast<Index>(q * static_cast<double>(size)));
        by_k.top_k(k);
        check_row(TopK(k)(row_of(logits)), by_k);
        by_k.top_p(q);
        if (!by_k.unclear()) check_row(Chain{TopK(k), TopP(q)}(row_of(logits)), by_k);
      }
  }
}

TEST_CASE("a top-p next to 1 and a top-k next to V") {
  std::mt19937_64 rng{4};
  std::normal_distribution<float> normal;
  std::vector<float> logits(128'256);
  for (float& l : logits) l = normal(rng);
  const auto row = row_of(logits);
  const auto all = TopP(std::nextafter(1.0, 0.0))(row);
  double sum = 0;
  for (Token x = 0; x < row.vocab_size(); ++x) sum += all.probability(x);
  CHECK(sum == Approx(1).epsilon(1e-6));
  Sorted expected(logits);
  expected.top_k(128'255);
  check_row(TopK(128'255)(row), expected);
}

TEST_CASE("outliers and soft masks do not lead the search astray") {
  std::mt19937_64 rng{5};
  std::normal_distribution<float> normal;
  for (const float mask : {-1e4f, -1e9f, std::numeric_limits<float>::lowest()})
    for (const float outlier : {0.0f, 30.0f, 1e6f}) {
      std::vector<float> logits(50'000);
      for (std::size_t x = 0; x < logits.size(); ++x) logits[x] = x % 2 == 0 ? mask : normal(rng);
      if (outlier > 0) logits[777] = outlier;
      for (const double p : {0.5, 0.95, 0.999}) {
        Sorted expected(logits);
        expected.top_p(p);
        if (!expected.unclear()) check_row(TopP(p)(row_of(logits)), expected);
      }
      for (const Index k : {40, 10'000, 24'999, 30'000}) {
        Sorted expected(logits);
        expected.top_k(k);
        check_row(TopK(k)(row_of(logits)), expected);
      }
    }
}

TEST_CASE("rows whose sample misleads are cut exactly all the same") {
  // The sample looks at equal distances, so this row hides its weight from it.
  for (const Index size : {40'960, 65'536}) {
    std::vector<float> logits(static_cast<std::size_t>(size));
    const Index step = size / 2048;
    for (Index x = 0; x < size; ++x) {
      const float l = static_cast<float>(x % 977) * 0.001f;
      logits[static_cast<std::size_t>(x)] = x % step == step / 2 ? l - 4 : l;
    }
    for (const double p : {0.3, 0.95, 0.9999}) {
      Sorted expected(logits);
      expected.top_p(p);
      if (!expected.unclear()) check_row(TopP(p)(row_of(logits)), expected);
    }
    for (const Index k : {Index{40}, size / 2, size - 10}) {
      Sorted expected(logits);
      expected.top_k(k);
      check_row(TopK(k)(row_of(logits)), expected);
    }
  }
}

TEST_CASE("a step hands over the normaliser that it came to know") {
  std::mt19937_64 rng{6};
  std::normal_distribution<float> normal;
  std::vector<float> logits(30'000);
  for (float& l : logits) l = normal(rng);
  std::vector<LogitsRow<float>> rows;
  for (const double t : {1.0, 0.6}) {
    const auto row = Temperature(t)(row_of(logits));
    rows.push_back(TopK(50)(row));
    rows.push_back(TopP(0.9)(row));
    rows.push_back(TopP(0.9)(TopK(50)(row)));
  }
  for (const auto& row : rows) {
    double sum = 0;
    for (Token x = 0; x < row.vocab_size(); ++x) sum += row.probability(x);
    CHECK(sum == Approx(1).epsilon(2e-6));
  }
  // Rows over a copy that is not there: only the token asked for may be read.
  std::vector<float> one{logits[3]};
  for (const auto& row : rows) CHECK(row.over(one.data() - 3).probability(3) == row.probability(3));
}

TEST_CASE("steps refuse values that make no sense") {
  const auto message = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message([] { TopK(-1); }) == "specdec: TopK{-1} is negative");
  CHECK(message([] { TopP(0.0); }) == "specdec: TopP{0} is not above 0 and at most 1");
  CHECK(message([] { TopP(1.5); }) == "specdec: TopP{1.5} is not above 0 and at most 1");
  CHECK(message([] { MinP(-0.1); }) == "specdec: MinP{-0.1} is not between 0 and 1");
  CHECK(message([] { MinP(1.1); }) == "specdec: MinP{1.1} is not between 0 and 1");
  CHECK(message([] { Temperature(-1.0); }) == "specdec: Temperature{-1} is not a finite number >= 0");
  CHECK_THROWS_AS(Temperature(infinity), std::invalid_argument);
  CHECK_THROWS_AS(Temperature(nan_value), std::invalid_argument);
  CHECK_THROWS_AS(TopP(nan_value), std::invalid_argument);
  CHECK_THROWS_AS(MinP(nan_value), std::invalid_argument);
}

TEMPLATE_TEST_CASE("steps notice rows that are no distributions", "", float, double, Eigen::half) {
  const auto make = [](double x) { return static_cast<TestType>(static_cast<float>(x)); };
  for (const Index size : {1, 2, 600, 5000})
    for (const double bad : {nan_value, infinity}) {
      std::vector<TestType> logits(static_cast<std::size_t>(size), make(0.5));
      logits[static_cast<std::size_t>(size / 2)] = make(bad);
      const auto row = row_of(logits);
      CHECK_THROWS_AS(TopK(1)(row).probability(0), InvalidDistribution);
      CHECK_THROWS_AS(TopP(0.5)(row).probability(0), InvalidDistribution);
      CHECK_THROWS_AS(MinP(0.5)(row).probability(0), InvalidDistribution);
      CHECK_THROWS_AS(Temperature(0.0)(row).probability(0), InvalidDistribution);
    }
  const std::vector<TestType> none(3000, make(-infinity));
  CHECK_THROWS_AS(TopK(1)(row_of(none)).probability(0), InvalidDistribution);
  CHECK_THROWS_AS(TopP(0.5)(row_of(none)).probability(0), InvalidDistribution);
  CHECK_THROWS_AS(MinP(0.5)(row_of(none)).probability(0), InvalidDistribution);
}

TEST_CASE("cuts keep their mass at the smallest temperatures") {
  // Six equal maxima: at any temperature but 0 each has 1/6 of what top-k and top-p keep.
  std::vector<float> logits(5000, 1.0f);
  for (std::size_t x = 0; x < 6; ++x) logits[7 * x] = 20.0f;
  const NumberRow<float> row(logits.data(), 5000);
  for (const double temperature : {1.0, 1e-6, 1e-12, 1e-30}) {
    CHECK(TopK{6}(LogitsRow(row, temperature)).probability(7) == Approx(1.0 / 6).epsilon(1e-6));
    CHECK(TopP{0.9}(LogitsRow(row, temperature)).probability(7) == Approx(1.0 / 6).epsilon(1e-6));
  }
}
