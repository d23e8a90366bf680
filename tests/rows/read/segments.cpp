// One way to read a whole row. A new kind of row is one file, and everything that reads whole rows uses what it
// offers.
// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <specdec/more/audits/row_reading.hpp>
#include <specdec/more/rows/entropy.hpp>
#include <specdec/rows/kinds/row_copy.hpp>
#include <specdec/rows/read/each_segment.hpp>
#include <specdec/rows/read/segments.hpp>
#include <specdec/specdec.hpp>
#include <specdec/testing.hpp>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/layouts.hpp"
#include "support/message_of.hpp"

namespace test_rows_segments {

using namespace specdec;
using support::RowMajor;

namespace {

// Which questions a toy row was asked.
struct Asked {
  int look_ups = 0, segments = 0, sums = 0, listed = 0;
};

// A kind of row unknown to the library, computed and not stored: mass falls off like 1/(x + 1). It has segments, and
// counts what it is asked.
class Harmonic {
 public:
  Harmonic(Index size, Asked& asked) : size_(size), asked_(&asked), scale_(1 / numbers(0, size).sum()) {}

  Index vocab_size() const { return size_; }
  double probability(Token x) const {
    ++asked_->look_ups;
    return scale_ / (x + 1);
  }
  double sum(Index start, Index count) const {
    ++asked_->sums;
    return scale_ * numbers(start, count).sum();
  }
  auto segment(Index start, Index count) const {
    ++asked_->segments;
    return Eigen::ArrayXd(scale_ * numbers(start, count));
  }
  auto sampler() const { return PrefixSampler<Harmonic>(*this); }

 private:
  static Eigen::ArrayXd numbers(Index start, Index count) {
    return Eigen::ArrayXd::LinSpaced(count, static_cast<double>(start + 1),
                                     static_cast<double>(start + count))
        .inverse();
  }

  Index size_;
  Asked* asked_;
  double scale_;
};

// Every third token of a Harmonic row, as a list.
class Thirds {
 public:
  Thirds(Index size, Asked& asked) : size_(size), asked_(&asked) {}

  Index vocab_size() const { return 3 * size_; }
  double probability(Token x) const {
    ++asked_->look_ups;
    return x % 3 == 0 ? 1.0 / static_cast<double>(size_) : 0;
  }
  Index support_size() const { return size_; }
  Token support(Index k) const { return static_cast<Token>(3 * k); }
  double listed(Index) const {
    ++asked_->listed;
    return 1.0 / static_cast<double>(size_);
  }
  auto sampler() const {
    return [size = size_](double u) {
      return static_cast<Token>(3 * static_cast<Index>(u * static_cast<double>(size)));
    };
  }

 private:
  Index size_;
  Asked* asked_;
};

static_assert(Distribution<Harmonic> && SegmentedRow<Harmonic> && SummableRow<Harmonic> &&
              !ListedRow<Harmonic>);
static_assert(Distribution<Thirds> && ListedRow<Thirds> && !SegmentedRow<Thirds> && !SummableRow<Thirds>);

template <class Row>
Eigen::RowVectorXd dense(const Row& row) {
  Eigen::RowVectorXd out(row.vocab_size());
  for (Token x = 0; x < row.vocab_size(); ++x) out[x] = row.probability(x);
  return out;
}

constexpr Index size = 2 * max_segment_size + 77;
constexpr int segments = 3;

}  // namespace

TEST_CASE("a new kind of row in segments is never asked token by token") {
  Asked p_asked, q_asked;
  const Harmonic p(size, p_asked), q(size - 500, q_asked);
  const Eigen::RowVectorXd p_numbers = dense(p), q_numbers = dense(q);
  Eigen::RowVectorXd padded = Eigen::RowVectorXd::Zero(size);
  padded.head(size - 500) = q_numbers;
  const auto fresh = [&] { p_asked = q_asked = {}; };

  fresh();
  CHECK(residual_mass(0.75, p, 0.5, q) ==
        Approx((0.75 * p_numbers - 0.5 * padded).cwiseMax(0).sum()).epsilon(1e-12));
  CHECK(p_asked.look_ups + q_asked.look_ups == 0);
  CHECK(q_asked.segments == 2);
  CHECK(p_asked.sums == 1);  // after the end of q

  fresh();
  CHECK(overlap(p, q) == Approx(p_numbers.cwiseMin(padded).sum()).epsilon(1e-12));
  CHECK(p_asked.look_ups + q_asked.look_ups == 0);
  CHECK(p_asked.segments == q_asked.segments);

  fresh();
  CHECK(entropy(p) == Approx(-(p_numbers.array() * p_numbers.array().log()).sum()).epsilon(1e-12));
  CHECK(p_asked.look_ups == 0);
  CHECK(p_asked.segments == segments);

  fresh();
  RowCopy<Harmonic> copy;
  const auto view = copy.assign(p);
  CHECK(p_asked.look_ups == 0);
  CHECK(p_asked.segments == segments);
  CHECK(dense(view).isApprox(p_numbers, 1e-14));

  fresh();
  CHECK(testing::detail::RowReading(p, 1000).total() == Approx(1).epsilon(1e-12));
  CHECK(p_asked.look_ups == 0);
  CHECK(p_asked.segments == segments + 1);  // one more to look up the token itself
}

TEST_CASE("a new kind of row with a list is read by its list") {
  Asked p_asked, q_asked;
  const Harmonic p(size, p_asked);
  const Thirds q(size / 3, q_asked);
  const Eigen::RowVectorXd p_numbers = dense(p);
  Eigen::RowVectorXd q_numbers = Eigen::RowVectorXd::Zero(size);
  q_numbers.head(q.vocab_size()) = dense(q);
  const auto fresh = [&] { p_asked = q_asked = {}; };

  fresh();
  CHECK(residual_mass(1.0, p, 0.5, q) ==
        Approx((p_numbers - 0.5 * q_numbers).cwiseMax(0).sum()).epsilon(1e-12));
  CHECK(q_asked.look_ups == 0);
  CHECK(q_asked.listed == size / 3);
  fresh();
  CHECK(residual_mass(1.0, q, 0.5, p) ==
        Approx((q_numbers - 0.5 * p_numbers).cwiseMax(0).sum()).epsilon(1e-12));
  CHECK(q_asked.listed == size / 3);
  CHECK(p_asked.look_ups == size / 3);
  fresh();
  CHECK(overlap(p, q) == Approx(p_numbers.cwiseMin(q_numbers).sum()).epsilon(1e-12));
  CHECK(overlap(q, p) == Approx(overlap(p, q)).epsilon(1e-12));
  CHECK(overlap(q, q) == Approx(1));
  CHECK(q_asked.look_ups == 0);
  CHECK(entropy(q) == Approx(std::log(static_cast<double>(size / 3))).epsilon(1e-12));
  RowCopy<Thirds> copy;
  const auto view = copy.assign(q);
  CHECK(view.support_size() == size / 3);
  CHECK(view.support(7) == 21);
  CHECK(testing::detail::RowReading(q, 3).total() == Approx(1).epsilon(1e-12));
}

TEST_CASE("each_segment() visits each token that may have mass once, in order") {
  Asked asked;
  const auto visited = [](const auto& row) {
    std::vector<std::pair<Token, double>> out;
    detail::each_segment(row, [&](const auto& ids, const auto& p) {
      CHECK(p.size() > 0);
      CHECK(p.size() <= max_segment_size);
      for (Index k = 0; k < p.size(); ++k) out.emplace_back(ids(k), p[k]);
    });
    std::vector<std::pair<Token, double>> singly;
    detail::each_token(row, [&](Token x, double p) { singly.emplace_back(x, p); });
    REQUIRE(singly.size() == out.size());
    for (std::size_t k = 0; k < out.size(); ++k) {
      CHECK(singly[k].first == out[k].first);
      CHECK(singly[k].second == Approx(out[k].second).epsilon(1e-14));
    }
    return out;
  };
  for (const Index length : {Index{1}, max_segment_size - 1, max_segment_size, max_segment_size + 1, size}) {
    CAPTURE(length);
    const Harmonic row(length, asked);
    const auto all = visited(row);
    REQUIRE(std::ssize(all) == length);
    for (Token x = 0; x < length; ++x)
      CHECK(all[static_cast<std::size_t>(x)] == std::pair(x, row.segment(x, 1)[0]));
    const Thirds list(length, asked);
    const auto listed = visited(list);
    REQUIRE(std::ssize(listed) == length);
    CHECK(listed.back() ==
          std::pair(static_cast<Token>(3 * (length - 1)), 1.0 / static_cast<double>(length)));
  }
  const std::vector<Token> ids{0, 5, 5};
  const std::vector<double> mass{0.5, 0.25, 0.25};
  const SparseRow<double> disordered(ids, mass, 9);
  CHECK(support::message_of([&] { entropy(disordered); }) ==
        "the ids of a sparse row do not ascend: ids[2] = 5, after ids[1] = 5");
}

}  // namespace test_rows_segments
