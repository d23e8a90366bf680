// An audit reads all kinds of rows alike.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <specdec/more/audits/draft_audit.hpp>
#include <specdec/more/audits/draft_audit_report.hpp>
#include <specdec/more/audits/row_reading.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"
#include "support/models.hpp"

namespace test_more_audits_row_reading {

using namespace specdec;
using namespace specdec::testing;
using namespace support;

namespace {

// A row with only what the concept Distribution asks for.
struct LeastRow {
  std::span<const double> p;
  Index vocab_size() const { return std::ssize(p); }
  double probability(Token x) const { return p[static_cast<std::size_t>(x)]; }
  PrefixSampler<DenseRow<double>> sampler() const {
    return DenseRow<double>(p.data(), vocab_size()).sampler();
  }
};

const std::vector<double> numbers_of_a_row{0.0, 0.25, 0.125, 0.5, 0.0, 0.125};

using testing::detail::exponents;
using testing::detail::RowReading;

// What is read of a token in such a row: its probability, the mass of likelier ones, that of equally likely
// ones, and that of ones with smaller ids.
void check_reading(const RowReading& reading, double value, double above, double equal, double before) {
  CHECK(reading.value() == Approx(value));
  CHECK(reading.total() == Approx(1));
  CHECK(reading.by_rank(0) == Approx(above).margin(1e-6));
  CHECK(reading.by_rank(1) == Approx(above + equal));
  CHECK(reading.by_id(0) == Approx(before).margin(1e-6));
  CHECK(reading.by_id(1) == Approx(before + value));
  CHECK(reading.is_distribution());
  CHECK(reading.is_informative());
  for (std::size_t k = 0; k < exponents.size(); ++k) {
    double sum = 0;
    for (const double q : numbers_of_a_row) sum += q > 0 ? std::pow(q, exponents[k]) : 0.0;
    CHECK(reading.power(k) == Approx(sum));
  }
}

// What is read of each token with mass in the row.
using Readings = std::map<Token, RowReading>;
Readings read(const auto& row) {
  Readings readings;
  for (const Token x : {1, 2, 3, 5}) readings.emplace(x, RowReading(row, x));
  return readings;
}
Readings read_as(auto layout) {
  layout.hold(Eigen::Map<const RowMajor<double>>(numbers_of_a_row.data(), 1, 6)
                  .template cast<typename decltype(layout)::Scalar>());
  return read(distributions(std::as_const(layout).view()).row(0));
}

}  // namespace

TEST_CASE("all kinds of rows are read alike") {
  for (const auto& [kind, readings] :
       std::map<std::string, Readings>{{"the least", read(LeastRow{numbers_of_a_row})},
                                       {"double", read_as(AsRowMajor<double>{})},
                                       {"float", read_as(AsRowMajor<float>{})},
                                       {"strided", read_as(AsStridedPointers<float>{})},
                                       {"narrow", read_as(AsNarrow<Eigen::bfloat16>{})},
                                       {"logits", read_as(AsLogits<float, 70>{})},
                                       {"sparse", read_as(AsSparse<double>{})}}) {
    CAPTURE(kind);
    check_reading(readings.at(3), 0.5, 0, 0.5, 0.375);
    check_reading(readings.at(1), 0.25, 0.5, 0.25, 0);
    check_reading(readings.at(2), 0.125, 0.75, 0.25, 0.25);
    check_reading(readings.at(5), 0.125, 0.75, 0.25, 0.875);
  }
}

TEST_CASE("under q every likelihood ratio has mean 1, and U and W the law of V") {
  SplitMix64 generator(1);
  const auto model = TableModel<>::random(7, 2, generator);
  for (Token a = 0; a < 7; ++a) {
    const auto q = model.distribution(std::vector<Token>{a, 2});
    double end = 0;      // of the last token's interval of W
    double covered = 0;  // by the tokens' intervals of U, which coincide for tokens with equal probabilities
    std::array<double, exponents.size()> mean = {};
    for (Token x = 0; x < 7; ++x) {
      if (!(q.probability(x) > 0)) continue;
      const RowReading row(q, x);
      const double stretch = row.by_rank(1) - row.by_rank(0);
      int ties = 0;
      for (Token y = 0; y < 7; ++y) ties += q.probability(y) == q.probability(x);
      CHECK(stretch == Approx(ties * q.probability(x)));
      covered += stretch / ties;
      CHECK(row.by_id(0) == Approx(end).margin(1e-12));
      end = row.by_id(1);
      for (std::size_t k = 0; k < mean.size(); ++k)
        mean[k] += q.probability(x) * std::pow(row.value(), exponents[k] - 1) / row.power(k);
    }
    CHECK(covered == Approx(1));
    CHECK(end == Approx(1));
    for (const double m : mean) CHECK(m == Approx(1));
  }
}

TEST_CASE("a row longer than a block is read to its end") {
  const Index size = 2 * max_segment_size + 37;
  const RowMajor<float> rows = RowMajor<float>::Constant(1, size, 0.5f / static_cast<float>(size - 1));
  for (const Index likely : {Index{5}, max_segment_size, size - 1}) {
    RowMajor<float> row = rows;
    row(0, likely) = 0.5f;
    const RowMajor<float> logits = row.array().log();
    const Token first = static_cast<Token>(likely), other = static_cast<Token>(likely == 5 ? size - 2 : 3);
    const auto check = [&](const RowReading& best, const RowReading& rest) {
      CHECK(best.total() == Approx(1));
      CHECK(best.by_rank(0) == 0);
      CHECK(best.by_rank(1) == Approx(0.5));
      CHECK(best.by_id(1) - best.by_id(0) == Approx(0.5));
      CHECK(best.by_id(0) ==
            Approx(0.5 * static_cast<double>(likely) / static_cast<double>(size - 1)).margin(1e-6));
      CHECK(rest.by_rank(0) == Approx(0.5));
      CHECK(rest.by_rank(1) == Approx(1));
    };
    const auto dense = distributions(row).row(0);
    const auto processed = Logits{logits}.row(0);
    check(RowReading(dense, first), RowReading(dense, other));
    check(RowReading(processed, first), RowReading(processed, other));
  }
}

TEST_CASE("reading a sparse row costs time in proportion to its support") {
  const std::vector<Token> ids{7, 1000000, 2000000000};
  const std::vector<double> p{0.5, 0.3, 0.2};
  // A pass over all its tokens would not end.
  const std::vector rows{SparseRow<double>(ids, p, Index{1} << 50)};
  std::mt19937_64 rng(1);
  DraftAudit audit;
  for (int i = 0; i < 5000; ++i)
    audit.add(RowSpan(rows, Index{1} << 50), std::vector<Token>{RandomChance{rng}.draw(rows[0])});
  CHECK(audit.report().acquitted());
  DraftAudit other;
  for (int i = 0; i < 100; ++i) other.add(RowSpan(rows, Index{1} << 50), std::vector<Token>{2000000000});
  CHECK(other.report().fault == DraftFault::unrelated);
}

}  // namespace test_more_audits_row_reading
