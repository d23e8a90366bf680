// SPDX-License-Identifier: MIT
#include <limits>
#include <specdec/more/lengths/cost_curve.hpp>

#include "support/catch.hpp"
#include "support/message_of.hpp"

namespace test_more_lengths_cost_curve {

using namespace specdec;

TEST_CASE("a cost curve interpolates linearly, and limits outliers by what is known") {
  CostCurve curve(1);
  CHECK(curve(3) == 0);
  curve.add(2, 1);
  CHECK(curve(0) == 1);
  CHECK(curve(9) == 1);
  curve.add(6, 3);
  CHECK(curve(1) == Approx(0.5));
  CHECK(curve(0) == 0);
  CHECK(curve(3) == Approx(1.5));
  CHECK(curve(5) == Approx(2.5));
  CHECK(curve(8) == Approx(4));
  curve.add(2, 100);  // an outlier: recorded as 2
  CHECK(curve(2) == Approx(1.5));
  curve.add(2, 0.5);  // less than half the known cost: the earlier values were the outliers
  CHECK(curve(2) == Approx(0.5));
}

TEST_CASE("below the smallest measured call a call costs no more in all, and no less for each token") {
  CostCurve flat, steep, falling;
  flat.add(7, 160), flat.add(9, 180);
  CHECK(flat(1) == Approx(100));
  steep.add(4, 4), steep.add(8, 20);
  CHECK(steep(2) == Approx(2));
  falling.add(4, 4), falling.add(8, 2);
  CHECK(falling(2) == Approx(4));
}

TEST_CASE("a cost curve forgets sizes that are no longer measured") {
  CostCurve curve(0.5);
  curve.add(4, 10);
  for (int k = 0; k < 10; ++k) curve.add(2, 1);
  CHECK(curve(4) == 1);
}

TEST_CASE("a measured size is dropped from a curve when more than nine tenths of its weight have faded") {
  CostCurve curve(0.5);
  curve.add(4, 10);
  for (int k = 0; k < 3; ++k) curve.add(2, 1);
  CHECK(curve.measured(4));  // an eighth of the weight is left
  CHECK(curve(4) == 10);
  curve.add(2, 1);
  CHECK_FALSE(curve.measured(4));  // a sixteenth
  CHECK(curve(4) == 1);
  CHECK(curve.measured(2));
  CHECK(curve.sizes() == 5);
  CHECK_FALSE(curve.measured(5));
}

TEST_CASE("the sum of cost curves is the curve of all their values") {
  CostCurve a, b, none;
  a.add(1, 2);
  b.add(1, 4), b.add(3, 9);
  a += b;
  CHECK(a(1) == 3);
  CHECK(a(2) == 6);
  CHECK(a(3) == 9);
  none += a;
  CHECK(none(3) == 9);
  a += CostCurve();
  CHECK(a(3) == 9);
}

TEST_CASE("a fading mean gives older values less weight") {
  FadingMean mean;
  CHECK(mean.empty());
  mean.add(8);
  mean.fade(0.25);
  mean.add(3);
  CHECK_FALSE(mean.empty());
  CHECK(mean.weight() == 1.25);
  CHECK(mean.value() == 4);  // (8/4 + 3)/1.25
  CHECK(mean.with(7.75, 0.75) == 5.40625);
  FadingMean other;
  other.add(9);
  other.add(mean);
  CHECK(other.weight() == 2.25);
  CHECK(other.value() == Approx(14 / 2.25).epsilon(1e-15));
  mean.limit(2);  // the weight is below 2, so the limit changes nothing
  CHECK(mean.weight() == 1.25);
  mean.limit(0.5);
  CHECK(mean.weight() == Approx(0.5).epsilon(1e-15));
  CHECK(mean.value() == Approx(4).epsilon(1e-15));
}

TEST_CASE("impossible sizes and costs are named in the error, and nothing is learnt") {
  using support::message_of;
  constexpr Index least = std::numeric_limits<Index>::min();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  CostCurve curve;
  curve.add(1, 2.0);
  curve.add(3, 4.0);
  CHECK(message_of([&] { curve.add(-1, 1.0); }) == "specdec: size = -1 is negative");
  CHECK(message_of([&] { curve.add(least, 1.0); }) == "specdec: size = -9223372036854775808 is negative");
  CHECK(message_of([&] { curve.add(unlimited, 1.0); }) ==
        "specdec: size = 9223372036854775807 is more than 2147483647, the largest size");
  CHECK(message_of([&] { curve.reserve(unlimited); }) ==
        "specdec: largest = 9223372036854775807 is more than 2147483647, the largest size");
  CHECK(message_of([&] { curve.reserve(-1); }) == "specdec: largest = -1 is negative");
  CHECK(message_of([&] { curve.add(1, nan); }) == "specdec: cost = nan of size 1 is no finite number >= 0");
  CHECK(message_of([&] { curve.add(1, -1.0); }) == "specdec: cost = -1 of size 1 is no finite number >= 0");
  CHECK(message_of([&] { curve.add(1, 1 / 0.0); }) ==
        "specdec: cost = inf of size 1 is no finite number >= 0");
  CHECK(message_of([&] { curve(-1); }) == "specdec: size = -1 is negative");
  CHECK(message_of([] { CostCurve()(least); }) == "specdec: size = -9223372036854775808 is negative");
  CHECK_FALSE(curve.measured(-1));
  CHECK_FALSE(curve.measured(unlimited));
  CHECK(curve(1) == 2);
  CHECK(curve(unlimited) == Approx(static_cast<double>(unlimited) + 1));
  CHECK(CostCurve()(unlimited) == 0);
  CHECK(message_of([&] { CostCurve{nan}; }) == "specdec: decay = nan is outside [0, 1]");
  CHECK(message_of([&] { CostCurve{1.5}; }) == "specdec: decay = 1.5 is outside [0, 1]");
}

TEST_CASE("bounds are what the nearest measured sizes leave open") {
  const auto bounds = [](const CostCurve& curve, Index size) {
    const auto [low, high] = curve.bounds(size);
    return std::pair(low, high);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CostCurve curve;
  CHECK(bounds(curve, 3) == std::pair(0.0, infinity));
  curve.add(4, 8.0);
  CHECK(bounds(curve, 4) == std::pair(8.0, 8.0));
  CHECK(bounds(curve, 1) == std::pair(2.0, 8.0));   // no less per token than the larger call
  CHECK(bounds(curve, 6) == std::pair(8.0, 12.0));  // no more per token than the smaller call
  curve.add(8, 12.0);
  CHECK(bounds(curve, 6) == std::pair(9.0, 12.0));
  CHECK(bounds(curve, 16) == std::pair(12.0, 24.0));
  curve.add(0, 0.5);
  CHECK(bounds(curve, 2) == std::pair(4.0, 8.0));
  curve = CostCurve();
  curve.add(0, 0.5);
  CHECK(bounds(curve, 2) == std::pair(0.5, infinity));
  curve = CostCurve();
  curve.add(2, 6.0);  // measured on a busy machine
  curve.add(4, 5.0);
  CHECK(bounds(curve, 3) == std::pair(5.0, 6.0));
  CHECK(support::message_of([&] { curve.bounds(-1); }) == "specdec: size = -1 is negative");
}

TEST_CASE("sizes that were seldom measured can be left out") {
  CostCurve curve;
  for (int n = 0; n < 3; ++n) curve.add(5, 10.0);
  curve.add(3, 1.0);
  const CostCurve kept = curve.without_rare(2);
  CHECK(kept.measured(5));
  CHECK_FALSE(kept.measured(3));
  CHECK(kept(1) == 10);
  CHECK(curve(1) ==
        Approx(1 / 3.0));  // the line through both falls below a third of the cost of three tokens
  CHECK(curve.without_rare(1).measured(3));
}

TEST_CASE("only sizes with an added cost count as measured, size 0 among them") {
  CostCurve curve;
  curve.add(0, 0.5);
  curve.add(2, 1.0);
  CHECK(curve.measured(0));
  CHECK(curve(0) == 0.5);
  CHECK_FALSE(curve.measured(1));
  CHECK(curve.measured(2));
  CHECK_FALSE(curve.measured(3));
  CHECK_FALSE(curve.measured(-1));
}

}  // namespace test_more_lengths_cost_curve
