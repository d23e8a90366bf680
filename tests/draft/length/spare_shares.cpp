#include <cstddef>
#include <specdec/draft/length/spare_shares.hpp>

#include "support/catch.hpp"

namespace test_draft_spare_shares {

using specdec::Index;
using specdec::detail::SpareShares;

TEST_CASE("shares approach what was seen at a depth, fall with the rank, and sum to at most 1") {
  SpareShares shares(2, 1);
  for (int stop = 0; stop < 4000; ++stop) {
    shares.observe(0, 3, stop % 2 == 0 ? 0 : stop % 4 == 1 ? 1 : -1);
    shares.observe(1, 2, -1);
  }
  const SpareShares::Shares first = shares.at(0), second = shares.at(1);
  CHECK(first[0] == Approx(0.5).epsilon(0.01));
  CHECK(first[1] == Approx(0.25).epsilon(0.01));
  CHECK(first[2] == Approx(0).margin(0.01));
  CHECK(second[0] == Approx(0).margin(0.01));
  for (std::size_t k = 1; k < SpareShares::ranks; ++k) CHECK(first[k] <= first[k - 1]);
}

TEST_CASE(
    "a depth about which little is known gets the other depths' shares, a rank those of the ranks before "
    "it") {
  SpareShares shares(3, 1);
  for (int stop = 0; stop < 4000; ++stop) shares.observe(0, 2, stop % 5 < 2 ? 0 : stop % 5 == 2 ? 1 : -1);
  const SpareShares::Shares other = shares.at(2);
  CHECK(other[0] == Approx(0.4).epsilon(0.01));
  CHECK(other[1] == Approx(0.2).epsilon(0.01));
  CHECK(other[2] == Approx(0.1).epsilon(0.01));
  CHECK(other[3] == Approx(0.05).epsilon(0.01));
}

TEST_CASE("spares that were not offered do not count as missed, and old rejections are forgotten") {
  SpareShares shares(1, 0.9);
  const double before = shares.at(0)[1];
  for (int stop = 0; stop < 10; ++stop) shares.observe(0, 1, 0);
  CHECK(shares.at(0)[0] > 0.6);
  CHECK(shares.at(0)[1] >= before);
  for (int stop = 0; stop < 200; ++stop) shares.observe(0, 1, -1);
  CHECK(shares.at(0)[0] < 0.03);
  double sum = 0;
  for (const double share : shares.at(0)) sum += share;
  CHECK(sum <= 1);
}

TEST_CASE("the weight of what was seen at a depth can be limited") {
  SpareShares shares(2, 1);
  for (int stop = 0; stop < 1000; ++stop) shares.observe(1, 1, 0);
  shares.limit(2);
  for (int stop = 0; stop < 1000; ++stop) shares.observe(1, 1, -1);
  CHECK(shares.at(0)[0] < 0.05);
  CHECK(shares.at(1)[0] < 0.05);
}

}  // namespace test_draft_spare_shares
